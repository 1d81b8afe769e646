"""Releasing models: the real command and the real clients against the loopback Hub."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file, save_file

from hub_models.retrieval.levers import Levers, Stored, stored
from tests.hub.accounts import TOKENS
from tests.hub.clients import TestHub
from tests.hub.faults import Hold, LoseAnswer, Status
from tests.hub_models.releaser import BASE, NAME, Releaser, make_run, put_base
from tests.hub_models.retrieval.test_adaptive import fitted
from tests.tiny import REVISION, tiny

REPO = f"org/{NAME}"


@pytest.fixture(scope="module")
def releaser() -> Iterator[Releaser]:
    with TestHub() as hub:
        with Releaser(hub) as made:
            yield made
        assert not hub.errors, hub.errors


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("base")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be spoilt."""
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture
def hub(releaser: Releaser, base_folder: Path) -> Iterator[TestHub]:
    """The module's Hub with the base alone."""
    hub = releaser.hub
    hub.store.repos.clear()
    hub.faults.clear()
    put_base(hub, base_folder)
    hub.log.clear()
    yield hub
    assert not hub.faults.unused, "a fault never happened"


def commits(hub: TestHub, repo: str = REPO) -> int:
    """Commits beside the one that a repository starts with."""
    found = hub.store.repos.get(("model", repo))
    return 0 if found is None else len(found.commits) - 1


def test_a_release_is_one_commit_and_stays_what_it_was(
    hub: TestHub, releaser: Releaser, run: Path, tmp_path: Path
) -> None:
    done = releaser.run("release", run, "--org", "org")
    assert done.code == 0 and f"released: {REPO} at " in done.output, done.output
    assert "plain loading: 1.000000" in done.output
    assert commits(hub) == 1 and list(hub.repo("model", REPO).tags) == ["v1.0.0"]
    files = hub.files("model", REPO)
    wanted = {"README.md", "slant.json", "recipe.yaml", "probe.safetensors", "adapter_config.json", "modules.json"}
    assert wanted | {"adapter_model.safetensors", "tokenizer.json"} <= files.keys() and "train.log" not in files
    said = json.loads(files["slant.json"])
    assert (said["base"], said["base_revision"], said["repo_id"]) == (BASE, REVISION, REPO)
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == BASE
    card = files["README.md"].decode()
    assert yaml.safe_load(card.split("---\n")[1])["base_model"] == BASE
    assert f'model = load("{REPO}", revision="v1.0.0")' in card and "5.24 asks for peft 0.22" in card

    hub.log.clear()
    again = releaser.run("release", run, "--org", "org")
    assert again.code == 0 and "up to date" in again.output and commits(hub) == 1, again.output
    assert not hub.log.matching("POST", "/commit/|/tag/|preupload")

    # The adapter's main moves on, then the base's.
    other = make_run(tmp_path / "other", seed=2)
    moved = {n: (other / n) for n in ("adapter_model.safetensors", "slant.json")}
    moved["config_sentence_transformers.json"] = other / "config_sentence_transformers.json"
    hub.put("model", REPO, moved)
    put_base(hub, tmp_path / "base", seed=7)
    verified = releaser.run("verify", REPO, "--revision", "v1.0.0")
    assert verified.code == 0, verified.output
    assert "trained model 1.000000 at least (plain loading: not the newest commit)" in verified.output
    differs = releaser.run("verify", REPO)
    assert differs.code == 1 and "is not what was trained: plain loading: an embedding has cosine" in differs.output


def test_a_release_keeps_what_tune_chose(hub: TestHub, releaser: Releaser, run: Path, tmp_path: Path) -> None:
    chosen = Stored(Levers(adapter_scale=0.6, anchor=0.25), fitted())
    _slant(run, lambda_model=fitted().model_dump(mode="json"), adapter_scale=0.6, anchor_weight=0.25)
    done = releaser.run("release", run, "--org", "org", read_back=False)
    assert done.code == 0, done.output
    (tmp_path / "slant.json").write_bytes(hub.files("model", REPO)["slant.json"])
    assert stored(tmp_path) == chosen


def test_a_base_from_a_folder_is_released_by_its_hub_id_case_10(
    hub: TestHub, releaser: Releaser, base_folder: Path, tmp_path: Path
) -> None:
    recipe = tiny("stance-bge-large", "learning_rate=1e-3").model_copy(
        update={"base": str(base_folder), "base_revision": None}
    )
    run = make_run(tmp_path / "run", recipe, status="local", base_revision=None, base_licence=None)
    refused = releaser.run("release", run, "--org", "org", read_back=False)
    assert refused.code == 1 and "give its Hub id with --base-id organisation/name" in refused.output
    done = releaser.run("release", run, "--org", "org", "--base-id", BASE, read_back=False)
    assert done.code == 0, done.output
    files = hub.files("model", REPO)
    assert json.loads(files["slant.json"])["base_revision"] == REVISION
    assert yaml.safe_load(files["README.md"].decode().split("---\n")[1])["license"] == "mit"
    for name, content in files.items():
        assert str(tmp_path).encode() not in content and str(base_folder).encode() not in content, name


# --- Refused, with nothing pushed ------------------------------------------------------------------------------------


def _flip(run: Path) -> None:
    path = run / "adapter_model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _failed(run: Path) -> None:
    _slant(run, status="failed", failure="it does not load")


def _slant(run: Path, **changes: object) -> None:
    content = json.loads((run / "slant.json").read_text())
    (run / "slant.json").write_text(json.dumps({**content, **changes}))


def _unlicensed(run: Path) -> None:
    data = json.loads((run / "slant.json").read_text())["data"]
    _slant(run, data=[{**data[0], "licence": "unknown"}])


def _no_probe(run: Path) -> None:
    (run / "probe.safetensors").unlink()


def _secret(run: Path) -> None:
    text = (run / "README.md").read_text()
    (run / "README.md").write_text(text.replace("## Limits", f"token: {'hf_' + 'T' * 34}\n\n## Limits"))
    (run / "recipe.yaml").write_text((run / "recipe.yaml").read_text() + f"# {'hf_' + 'T' * 34}\n")
    (run / "trained_claims.txt").write_text("hf_" + "T" * 34)


def _path(run: Path) -> None:
    config = json.loads((run / "tokenizer_config.json").read_text())
    (run / "tokenizer_config.json").write_text(json.dumps({**config, "cache": "/srv/ckpt/base"}))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_flip, "the file was changed or damaged after training"),
        (_failed, r"did not pass the gate \(it does not load\); it is not released"),
        (_unlicensed, "the licence of sample-stance-triplets is unknown, and nothing is released without"),
        (_no_probe, "nothing says what the trained model answered; train again"),
        (_secret, r"trained_claims.txt holds what looks like a secret \(hf_TTT…\)"),
        (_path, "tokenizer_config.json names the path '/srv/ckpt/base' of a machine"),
    ],
)
def test_a_run_that_is_not_fit_is_refused(
    hub: TestHub, releaser: Releaser, run: Path, spoil: Callable[[Path], None], said: str
) -> None:
    import re

    spoil(run)
    done = releaser.run("release", run, "--org", "org", read_back=False)
    assert done.code == 1 and re.search(said, done.output), done.output
    assert ("model", REPO) not in hub.store.repos and "Traceback" not in done.output


def test_an_adapter_that_loads_differently_is_refused_by_the_gate(hub: TestHub, releaser: Releaser, run: Path) -> None:
    """The bytes are as slant.json says, and are not those that were trained."""
    import hashlib

    path = run / "adapter_model.safetensors"
    save_file({n: w * 1.5 if "lora_B" in n else w for n, w in load_file(path).items()}, path)
    _slant(run, adapter_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    done = releaser.run("release", run, "--org", "org")
    assert done.code == 1 and "the gate refuses the run: adapter_model.safetensors does not hold" in done.output
    assert "an embedding has cosine 0." in done.output and ("model", REPO) not in hub.store.repos


@pytest.mark.parametrize(
    ("org", "token", "said"),
    [
        ("org", TOKENS.read, "the token is read-only: use one that may write to org/"),
        ("nobody", TOKENS.write, "the organisation 'nobody' does not exist, or ada is no member of it"),
        ("bad org!", TOKENS.write, "got the repository 'bad org!/"),
        ("org", None, "there is no token: set HF_TOKEN or run `hf auth login`"),
    ],
)
def test_who_may_not_is_told_in_one_sentence(
    hub: TestHub, releaser: Releaser, run: Path, org: str, token: str | None, said: str
) -> None:
    done = releaser.run("release", run, "--org", org, token=token, read_back=False)
    assert done.code == 1 and said in done.output and "Traceback" not in done.output, done.output
    assert [line for line in done.output.splitlines() if line.startswith("error: ")] != []
    assert not hub.log.matching("POST", "/api/repos/create|/commit/")


def test_foreign_content_a_private_base_and_a_tag_elsewhere_are_refused(
    hub: TestHub, releaser: Releaser, run: Path
) -> None:
    hub.put("model", REPO, {"pytorch_model.bin": b"\0theirs"})
    done = releaser.run("release", run, "--org", "org", read_back=False)
    assert done.code == 1 and "holds what no release has written, such as 'pytorch_model.bin'" in done.output
    hub.store.repos.pop(("model", REPO))
    hub.repo("model", BASE).private = True
    done = releaser.run("release", run, "--org", "org", read_back=False)
    assert done.code == 1 and "is private, so nobody else could load the release" in done.output
    hub.repo("model", BASE).private = False
    assert releaser.run("release", run, "--org", "org", read_back=False).code == 0
    shutil.rmtree(run)
    make_run(run, seed=5)
    done = releaser.run("release", run, "--org", "org", read_back=False)
    assert done.code == 1 and "a tag stays where it is: choose the next version" in done.output
    assert commits(hub) == 1


# --- Faults on the way -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [503, 429])
def test_twice_busy_then_good(hub: TestHub, releaser: Releaser, run: Path, code: int) -> None:
    for path in ("/commit/", "/tag/", "/api/repos/create", "/api/models/slant-tests"):
        hub.faults.add("GET" if "models/" in path else "POST", path, Status(code, {"Retry-After": "0"}), times=2)
    done = releaser.run("release", run, "--org", "org", read_back=False)
    assert done.code == 0 and commits(hub) == 1 and list(hub.repo("model", REPO).tags) == ["v1.0.0"], done.output


def test_a_lost_answer_is_no_second_commit(hub: TestHub, releaser: Releaser, run: Path) -> None:
    hub.faults.add("POST", "/commit/", LoseAnswer())
    hub.faults.add("POST", "/tag/", LoseAnswer())
    done = releaser.run("release", run, "--org", "org", read_back=False)
    assert done.code == 0 and "its answer lost" in done.output and commits(hub) == 1, done.output


def test_killed_anywhere_it_is_the_old_or_the_new_and_a_rerun_finishes(
    hub: TestHub, releaser: Releaser, made: Path, tmp_path: Path
) -> None:
    """kill -9 while the release stands at a request, or at its answer; no clock decides."""
    old = Path(shutil.copytree(made, tmp_path / "old"))
    assert releaser.run("release", old, "--org", "org", "--tag", "v0", read_back=False).code == 0
    run = make_run(tmp_path / "new", seed=3)
    assert releaser.run("release", run, "--org", "org", "--tag", "v1", read_back=False).code == 0
    new = hub.repo("model", REPO).head.files
    points = [("GET", "whoami", False), ("POST", "/preupload/", False)]
    points += [("POST", "/commit/", False), ("POST", "/commit/", True), ("POST", "/tag/", True)]
    outcomes = set()
    for turn, (method, path, carried_out) in enumerate(points):
        hub.store.repos.pop(("model", REPO))
        assert releaser.run("release", old, "--org", "org", "--tag", "v0", read_back=False).code == 0
        before = hub.repo("model", REPO).head.files
        hold = hub.faults.add(method, path, Hold(done=carried_out))
        running = releaser.start("release", run, "--org", "org", "--tag", "v1", read_back=False)
        with hold.held():
            running.kill()
            assert running.wait().code == -9
        stopped = hub.repo("model", REPO).head.files
        assert stopped in (before, new), f"a mixture after turn {turn}"
        outcomes.add(stopped == new)
        again = releaser.run("release", run, "--org", "org", "--tag", "v1", read_back=False)
        assert again.code == 0, again.output
        assert hub.repo("model", REPO).head.files == new and commits(hub) == 2
        assert set(hub.repo("model", REPO).tags) == {"v0", "v1"}
    assert outcomes == {True, False}


def test_what_people_wrote_into_the_card_stays_and_a_dry_run_touches_nothing(
    hub: TestHub, releaser: Releaser, run: Path
) -> None:
    dry = releaser.run("release", run, "--org", "org", "--dry-run", token=None, read_back=False)
    assert dry.code == 0 and "adapter_model.safetensors" in dry.output and "in a new repository" in dry.output
    assert ("model", REPO) not in hub.store.repos and not hub.log.matching("POST", "")
    hub.put("model", REPO, {"README.md": b"---\nlicense: mit\nthumbnail: a.png\n---\n\nOur own words.\n"})
    assert releaser.run("release", run, "--org", "org", read_back=False).code == 0
    card = hub.files("model", REPO)["README.md"].decode()
    assert "Our own words." in card and "thumbnail: a.png" in card and "## Licences" in card


def test_a_merged_model_leaves_no_old_shard_and_keeps_what_people_wrote(
    hub: TestHub, releaser: Releaser, run: Path
) -> None:
    """Cases 1 and 3: once it lay in two shards, now in one file."""
    whole, repo = run.with_name("run-merged"), "org/tiny-stance-merged"
    whole.mkdir()
    for name in ("slant.json", "probe.safetensors", "modules.json"):
        shutil.copy(run / name, whole)
    onnx = {"reason": "onnx is not installed"}
    found = {"queries": 2, "documents": 3, "largest_cosine_gap": 0.0, "top_10_overlap": 1.0, "onnx": onnx}
    (whole / "merged.json").write_text(json.dumps(found))
    (whole / "model.safetensors").write_bytes(b"new")
    old = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json")
    card = b"---\nlicense: mit\nthumbnail: a.png\n---\n\nOur own words.\n"
    hub.put(
        "model", repo, {"README.md": card, "slant.json": b"{}", "notes.txt": b"mine", **dict.fromkeys(old, b"old")}
    )
    done = releaser.run("release", run, "--org", "org", "--merged", read_back=False)
    assert done.code == 0, done.output
    files = hub.files("model", repo)
    assert not set(old) & files.keys() and files["model.safetensors"] == b"new" and files["notes.txt"] == b"mine"
    text = files["README.md"].decode()
    assert "Our own words." in text and "thumbnail: a.png" in text and "## What merging changed" in text
    assert releaser.run("release", run, "--org", "org", "--merged", read_back=False).code == 0
    assert hub.files("model", repo) == files and commits(hub, repo) == 2


def test_training_data_and_results_are_named_by_id_and_commit_where_they_are_on_the_hub(
    hub: TestHub, releaser: Releaser, run: Path
) -> None:
    from dataset_builders.sources import load
    from hub_models import training_data
    from hub_models.evaluation.stance import judge
    from hub_models.recipe import load_recipe
    from tests.run_folders import results

    for name in ("sample-stance-triplets", "sample-stance-arguments"):
        assert releaser.run("publish", name, "--org", "org", read_back=False).code == 0
    recipe = load_recipe(
        run / "recipe.yaml", ["data=data/sample-stance-triplets", "data.0.config=mixed_aug", "data.0.dose=8"]
    )
    built = run.parent / "sample-stance-triplets"
    shas = {name: hub.repo("dataset", f"org/{name}").head.oid for name in ("sample-stance-triplets",)}
    part = training_data.read(load_recipe(run / "recipe.yaml", [f"data={built}", "data.0.dose=8"])).parts[0]
    (run / "recipe.yaml").write_text(recipe.to_yaml())
    _slant(run, data=[part.model_dump()])
    measured = results()
    measured["tasks"]["sample-stance"]["revision"] = judge(load("sample"), "test").revision
    measured["model"]["adapter_sha256"] = json.loads((run / "slant.json").read_text())["adapter_sha256"]
    (run / "evaluation").mkdir()
    (run / "evaluation" / "results.json").write_text(json.dumps(measured))
    done = releaser.run("release", run, "--org", "org", read_back=False)
    assert done.code == 0, done.output
    files = hub.files("model", REPO)
    (data,) = json.loads(files["slant.json"])["data"]
    assert (data["name"], data["revision"]) == ("org/sample-stance-triplets", shas["sample-stance-triplets"])
    assert yaml.safe_load(files["recipe.yaml"])["data"][0]["repo"] == "org/sample-stance-triplets"
    (entry,) = yaml.safe_load(files[".eval_results/sample-stance.yaml"])
    arguments = hub.repo("dataset", "org/sample-stance-arguments").head.oid
    assert entry["dataset"]["id"] == "org/sample-stance-arguments" and entry["dataset"]["revision"] == arguments
    assert entry["value"] == 0.5
    head = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
    assert head["datasets"] == ["org/sample-stance-triplets"] and head["model-index"]
