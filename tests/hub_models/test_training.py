"""Training on tiny models: columns, resume, several processes, faults."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import column_merging_disabled
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from dataset_builders.instructions import seen_for
from hub_models import training, training_data
from hub_models.adapter import attach_lora
from hub_models.encoder import load_base
from hub_models.manifest import Manifest
from hub_models.recipe import Recipe
from hub_models.training import train
from tests.tiny import tiny

CASES = Path(__file__).parent.parent / "cases"
ROOT = Path(__file__).parent.parent.parent
CLAIMS = ["cities should ban cars", "sugar should be taxed", "schools should give homework", "nuclear power is safe"]


def triplets(folder: Path, claims: int = 12, rows: int = 4) -> Path:
    """A JSONL of ``claims * rows`` triplets without a conflict but the claim."""
    path = folder / "triplets.jsonl"
    lines = []
    for c in range(claims):
        for r in range(rows):
            stance = ("support", "attack")[r % 2]
            text = f"{CLAIMS[c % 4]} in place {c}"
            row = {"claim_id": f"c{c}", "claim": text, "stance": stance, "instruction": seen_for(stance)[r].text}
            row["positive"] = f"The claim that {text} is {'true' if r % 2 else 'false'}, says reason {r}"
            negative = f"Homework {r} has nothing to do with place {c}"
            lines.append(json.dumps({**row, "negatives": [{"text": negative, "kind": "easy"}]}))
    path.write_text("\n".join(lines) + "\n")
    return path


def recipe(folder: Path, *overrides: str, name: str = "stance-bge-large", rows: int = 4) -> Recipe:
    """12 claims in batches of 4, fp32, no checkpointing: 12 steps an epoch."""
    data = triplets(folder, rows=rows)
    fixed = ["global_batch=4", "accumulation=1", "epochs=1", "precision=fp32", "gradient_checkpointing=false"]
    return tiny(name, f"data={data}", *fixed, "learning_rate=1e-3", *overrides)


@pytest.fixture
def ungated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the gate's process where a test is about something else."""
    monkeypatch.setattr(training, "gate", lambda *_, **__: None)


def adapter(run: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(run / "adapter_model.safetensors"))


def same(a: Path, b: Path) -> bool:
    left, right = adapter(a), adapter(b)
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


# --- Data ------------------------------------------------------------------------------------------------------------


def test_columns_are_made_by_name_case_18(tmp_path: Path) -> None:
    path = CASES / "case18_column_order.jsonl"
    rows = training_data.read(tiny("stance-bge-large", f"data={path}"))
    columns = rows.columns("{instruction}: {claim}", 1)
    assert columns.column_names == ["anchor", "positive", "negative_1"]
    assert columns[0] == {
        "anchor": "Find evidence backing: Guns should be banned.",
        "positive": "It saves lives.",
        "negative_1": "Criminals would keep theirs.",
    }
    unknown = tmp_path / "unknown.jsonl"
    unknown.write_text(path.read_text().replace('"claim"', '"anchor"'))
    with pytest.raises(ValueError, match="anchor"):
        training_data.read(tiny("stance-bge-large", f"data={unknown}"))


def test_too_few_negatives_are_refused(tmp_path: Path) -> None:
    rows = training_data.read(recipe(tmp_path))
    with pytest.raises(ValueError, match=r"48 of 48 rows have fewer than negatives_per_anchor = 2 .* row 0 with 1"):
        rows.columns("{instruction} {claim}", 2)


def test_a_dose_is_a_seeded_draw(tmp_path: Path) -> None:
    def drawn(*overrides: str) -> list[str]:
        rows = training_data.read(recipe(tmp_path, "data.0.dose=10", *overrides))
        assert rows.parts[0].rows == 10
        return list(rows.triplets["positive"][:])

    assert drawn() == drawn() != drawn("seed=1")
    everything = training_data.read(recipe(tmp_path)).triplets["positive"][:]
    assert set(drawn()) < set(everything)
    with pytest.raises(ValueError, match="got 48 rows, the recipe's dose is 49"):
        training_data.read(recipe(tmp_path, "data.0.dose=49"))


def test_rows_are_pinned_by_hash(tmp_path: Path) -> None:
    digest = training_data.read(recipe(tmp_path)).parts[0].sha256
    assert training_data.read(recipe(tmp_path, f"data.0.sha256={digest}")).parts[0].sha256 == digest
    with pytest.raises(ValueError, match=f"SHA-256 {digest}, the recipe pins {'0' * 64}"):
        training_data.read(recipe(tmp_path, f"data.0.sha256='{'0' * 64}'"))


def test_claims_in_short_form_are_made_into_triplets(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    sides = {
        "support": [f"It helps in {n} ways" for n in ["one", "two", "three"]],
        "attack": [f"It costs {n} times more" for n in ["four", "five", "six"]],
    }
    rows = [
        {"claim": c, "split": "train", **{s: [f"{t}: {c}" for t in texts] for s, texts in sides.items()}}
        for c in CLAIMS
    ]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    read = training_data.read(tiny("stance-bge-large", f"data={path}"))
    assert read.parts[0].config == "mixed"  # there are no inversions
    assert len(read.triplets) == 4 * 20 * 6
    with pytest.raises(ValueError, match=r"wanted .'mixd', 'train'.*Did you mean 'mixed'"):
        training_data.read(tiny("stance-bge-large", f"data={path}", "data.0.config=mixd"))


def test_absent_data_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    triplets(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no such file or folder. Did you mean 'triplets.jsonl'"):
        training_data.read(tiny("stance-bge-large", f"data={tmp_path / 'triplet.jsonl'}"))


def test_a_mode_that_does_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got mode 'replace'; triplets can only be blended"):
        training_data.read(recipe(tmp_path, "data.0.mode=replace"))


# --- A run -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("gate_in_process")
@pytest.mark.parametrize("name", ["stance-bge-large", "stance-instructor-xl", "stance-qwen3-8b"])
def test_a_run_of_each_class(tmp_path: Path, name: str) -> None:
    """Gradient checkpointing and accumulation as in the real recipes; the gate decides whether it loads."""
    made = recipe(tmp_path, "gradient_checkpointing=true", "accumulation=2", name=name)
    run = train(made, tmp_path / "run")
    manifest = Manifest.read(run)
    assert (manifest.status, manifest.steps, manifest.base_revision) == ("trained", 6, made.base_revision)
    assert manifest.prompts["attack"] == "Instruct: Find evidence refuting\nQuery: " or name == "stance-instructor-xl"
    files = {p.name for p in run.iterdir()}
    assert {"README.md", "recipe.yaml", "train.log", "modules.json", "tokenizer.json"} <= files
    assert "training_args.bin" not in files
    assert not list(tmp_path.glob(".*"))  # nothing is left beside it
    loaded = SentenceTransformer(str(run), device="cpu")
    assert loaded.max_seq_length == 64
    assert all("lora_" in n for n in adapter(run))


@pytest.mark.usefixtures("ungated")
def test_one_step_changes_the_adapter_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    real = training.attach_lora

    def attach(model: SentenceTransformer, made: Recipe) -> None:
        real(model, made)
        seen["model"], seen["before"] = model, {n: p.detach().clone() for n, p in model.named_parameters()}

    monkeypatch.setattr(training, "attach_lora", attach)
    made = recipe(tmp_path, "warmup=0", "data.0.dose=4", "global_batch=2")
    monkeypatch.setattr(training.DistinctClaimBatchSampler, "__len__", lambda self: 1)
    train(made, tmp_path / "run")
    after = dict(seen["model"].named_parameters())
    moved = {n for n, p in seen["before"].items() if not torch.equal(p, after[n])}
    assert moved == {n for n in after if "lora_B" in n}  # lora_A gets its first gradient once lora_B is not zero


@pytest.mark.usefixtures("ungated")
def test_a_run_that_is_done_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path)
    run = train(made, tmp_path / "run")
    monkeypatch.setattr(training, "load_base", None)  # would raise
    assert train(made, run) == run
    with pytest.raises(FileExistsError, match="holds a run of another recipe or other data"):
        train(recipe(tmp_path, "seed=1"), run)
    with pytest.raises(FileExistsError, match="is no run of ours"):
        train(made, tmp_path)


@pytest.mark.usefixtures("ungated")
def test_a_run_that_was_damaged_is_not_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = recipe(tmp_path, "data.0.dose=16")
    run = train(made, tmp_path / "run")
    whole = (run / "adapter_model.safetensors").read_bytes()
    (run / "tokenizer.json").unlink()
    assert (train(made, run) / "tokenizer.json").exists()
    assert "run lacks tokenizer.json; training anew" in caplog.text
    (run / "adapter_model.safetensors").write_bytes(whole[:-4] + b"abcd")
    train(made, run)
    assert (run / "adapter_model.safetensors").read_bytes() == whole


def test_two_processes_do_not_train_into_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load_base", None)
    partial = tmp_path / ".run.partial"
    partial.mkdir()
    with training._lock(tmp_path / "run"), pytest.raises(FileExistsError, match="another process trains into run;"):
        train(recipe(tmp_path), tmp_path / "run")
    assert partial.exists() and not (tmp_path / ".run.lock").exists()


def test_a_killed_process_lets_go_of_the_folder(tmp_path: Path) -> None:
    script = "import sys, time\nfrom pathlib import Path\nfrom hub_models.training import _lock\n"
    script += "with _lock(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)"
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(FileExistsError, match="another process trains into run"), training._lock(tmp_path / "run"):
            pass
        holder.kill()
    with training._lock(tmp_path / "run"):
        pass
    assert not list(tmp_path.glob(".*"))


@pytest.mark.usefixtures("ungated")
def test_what_stood_there_comes_back_if_the_swap_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path, "data.0.dose=16")
    run = train(made, tmp_path / "run")
    (run / "tokenizer.json").unlink()
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == "release":
            raise OSError(5, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="Input/output error"):
        train(made, run)
    assert (run / "slant.json").exists() and not (tmp_path / ".run.old").exists()


def test_a_base_that_gives_nan_is_not_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(made: Recipe) -> SentenceTransformer:
        model = load_base(made)
        next(model.parameters()).data.fill_(float("nan"))
        return model

    monkeypatch.setattr(training, "load_base", broken)
    monkeypatch.setattr(training, "attach_lora", None)
    with pytest.raises(ValueError, match=r"base slant-tests/tiny-bge-large: its vector of .* is not finite"):
        train(recipe(tmp_path), tmp_path / "run")


@pytest.mark.usefixtures("ungated")
def test_a_seed_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "RUNS", tmp_path / "runs")
    first = train(recipe(tmp_path))
    again = train(recipe(tmp_path), tmp_path / "again")
    other = train(recipe(tmp_path, "seed=1"))
    assert first.parent == tmp_path / "runs"
    assert first.name.startswith("stance-bge-large-") and first != other
    assert same(first, again) and not same(first, other)
    assert (first / "train.log").read_bytes() == (again / "train.log").read_bytes()
    entry = json.loads((first / "train.log").read_text().splitlines()[0])
    assert entry.keys() == {"step", "epoch", "loss", "learning_rate", "grad_norm"} and entry["step"] == 10


@pytest.mark.usefixtures("ungated")
def test_a_killed_run_resumes_to_the_same_adapter(tmp_path: Path) -> None:
    """Killed in the second epoch, three steps after a checkpoint, with half of another checkpoint on the disk."""
    made = recipe(tmp_path, "epochs=2", rows=6)  # 2 epochs of 18 steps, checkpoints at 10, 20, 30
    (tmp_path / "recipe.yaml").write_text(made.to_yaml())
    script = Path(__file__).parent / "killed_run.py"
    done = subprocess.run([sys.executable, str(script), tmp_path / "recipe.yaml", tmp_path / "run", "23"])
    assert done.returncode == -signal.SIGKILL
    partial = tmp_path / ".run.partial"
    assert not (tmp_path / "run").exists()
    assert training._last_checkpoint(partial) == partial / "checkpoint-20"
    (partial / "checkpoint-30").mkdir()  # not marked as complete
    resumed = train(made, tmp_path / "run")
    unbroken = train(made, tmp_path / "unbroken")
    assert same(resumed, unbroken)
    assert (resumed / "train.log").read_bytes() == (unbroken / "train.log").read_bytes()


@pytest.mark.usefixtures("ungated")
def test_what_another_run_left_behind_is_not_resumed(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    partial = tmp_path / ".run.partial"
    (partial / "checkpoint-10").mkdir(parents=True)
    (partial / "checkpoint-10" / "complete").touch()
    assert Manifest.read(train(made, tmp_path / "run")).steps == 12


def torchrun(*arguments: str | Path, processes: int = 2) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)


def test_two_processes_write_one_run_and_learn_what_one_learns_case_29(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gathered negatives two processes of two rows are one of four. The base has no dropout, which each process
    would draw for itself."""
    made = recipe(tmp_path, "lora.dropout=0", name="stance-qwen3-8b", rows=2)
    (tmp_path / "recipe.yaml").write_text(made.to_yaml())
    done = torchrun("train.py", "--recipe", tmp_path / "recipe.yaml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 process(es)") == 1  # one rank speaks
    manifest = Manifest.read(tmp_path / "run")
    assert (manifest.status, manifest.steps) == ("trained", 6)
    assert not list(tmp_path.glob(".*"))
    monkeypatch.setattr(training, "gate", lambda *_, **__: None)
    alone, both = adapter(train(made, tmp_path / "alone")), adapter(tmp_path / "run")
    learnt = max(float(weights.abs().max()) for name, weights in alone.items() if "lora_B" in name)
    assert learnt > 1e-3
    for name, weights in alone.items():
        torch.testing.assert_close(both[name], weights, rtol=0, atol=learnt / 100)


def test_all_ranks_end_where_the_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(recipe(tmp_path).to_yaml())
    with training._lock(tmp_path / "run"):
        done = torchrun("train.py", "--recipe", tmp_path / "recipe.yaml", "--out", tmp_path / "run")
    assert done.returncode != 0
    assert "error: " in done.stderr and "another process trains into run" in done.stderr
    assert not (tmp_path / ".run.partial").exists()


@pytest.mark.slow
def test_two_processes_resume_to_the_same_adapter(tmp_path: Path) -> None:
    made = recipe(tmp_path, "epochs=2", rows=6)
    (tmp_path / "recipe.yaml").write_text(made.to_yaml())
    arguments = ["--recipe", tmp_path / "recipe.yaml", "--out"]
    script = Path(__file__).parent / "killed_run.py"
    assert torchrun(script, tmp_path / "recipe.yaml", tmp_path / "run", "23").returncode != 0
    assert training._last_checkpoint(tmp_path / ".run.partial") is not None
    for run in ("run", "unbroken"):
        done = torchrun("train.py", *arguments, tmp_path / run)
        assert done.returncode == 0, done.stderr
    assert same(tmp_path / "run", tmp_path / "unbroken")


def test_any_encoder_on_anybodys_claims_by_the_command_line(tmp_path: Path) -> None:
    """What the README shows: another base, a file of one's own; a base in a folder makes the run local."""
    made = recipe(tmp_path)
    base = tmp_path / "my-encoder"
    load_base(made).save_pretrained(str(base))
    overrides = [f"base={base}", f"data={tmp_path / 'triplets.jsonl'}", "lora.r=4", "global_batch=4", "epochs=1"]
    command = [sys.executable, "train.py", "--set", *overrides, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.status == "local"
    assert manifest.data[0].name == "triplets.jsonl"
    assert str(tmp_path / "triplets") not in (tmp_path / "run" / "recipe.yaml").read_text()


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "train.py", "--set", "lora.rank=4", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "unknown key 'lora.rank'" in done.stderr
    assert "Traceback" not in done.stderr


# --- What must hold in a step ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stance-bge-large", "stance-qwen3-8b"])
def test_columns_in_one_forward_pass_give_the_same_loss(tmp_path: Path, name: str) -> None:
    """The loss pads all documents on the right to one width, on top of Qwen's padding on the left."""
    made = recipe(tmp_path, name=name)
    model = load_base(made)
    attach_lora(model, made)
    model.eval()
    loss = MultipleNegativesRankingLoss(model)
    columns = [["a tax", "cars and homework"], ["No.", "word word"], ["a longer one on nuclear power", "homework"]]
    merged = loss([model.preprocess(c) for c in columns], None)
    with column_merging_disabled():
        apart = loss([model.preprocess(c) for c in columns], None)
    assert merged.item() == pytest.approx(apart.item(), abs=1e-5)


@pytest.mark.usefixtures("ungated")
def test_without_dropout_a_run_has_the_losses_of_the_librarys_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = training.attach_lora

    def attach(model: SentenceTransformer, made: Recipe) -> None:
        real(model, made)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0

    monkeypatch.setattr(training, "attach_lora", attach)
    made = recipe(tmp_path, "epochs=2", rows=8)  # 48 steps
    ours = train(made, tmp_path / "ours")
    monkeypatch.setattr(training, "BucketedMultipleNegativesRankingLoss", MultipleNegativesRankingLoss)
    theirs = train(made, tmp_path / "theirs")
    logs = [[json.loads(line) for line in (run / "train.log").read_text().splitlines()] for run in (ours, theirs)]
    assert [entry["step"] for entry in logs[0]] == [10, 20, 30, 40]
    assert logs[0][-1]["loss"] < 0.9 * logs[0][0]["loss"]  # there is something to follow
    for mine, stock in zip(*logs, strict=True):
        assert mine["loss"] == pytest.approx(stock["loss"], rel=1e-3)


def test_cached_loss_is_the_plain_loss(tmp_path: Path) -> None:
    made = recipe(tmp_path)
    model = load_base(made)
    attach_lora(model, made)
    model.eval()
    columns = [["a tax", "cars", "homework"], ["No.", "word", "safe"], ["nuclear power", "homework", "sugar"]]
    found = []
    for overrides in ([], ["loss={name: cached_mnrl, mini_batch: 2}"]):
        model.zero_grad()
        loss = training._loss(model, recipe(tmp_path, *overrides), gather=False)
        value = loss([model.preprocess(c) for c in columns], None)
        value.backward()
        gradients = [p.grad.flatten() for n, p in model.named_parameters() if "lora_B" in n and p.grad is not None]
        found.append((type(loss).__name__, value.item(), torch.cat(gradients)))
    (plain, value, gradient), (cached, cached_value, cached_gradient) = found
    assert (plain, cached) == ("BucketedMultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss")
    assert value == pytest.approx(cached_value, abs=1e-5)
    assert torch.allclose(gradient, cached_gradient, atol=1e-5)
    assert gradient.abs().max() > 1e-3


def test_an_adapter_without_gradient_stops_the_run_case_19(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path)
    real = training.attach_lora

    def attach(model: SentenceTransformer, made: Recipe) -> None:
        real(model, made)
        for name, matrix in model.named_parameters():
            if "layer.0.attention.self.query.lora_B" in name:
                matrix.register_hook(torch.zeros_like)

    monkeypatch.setattr(training, "attach_lora", attach)
    with pytest.raises(RuntimeError, match=r"after 5 steps 1 of 12 adapter matrices are still zero.*query.lora_B"):
        train(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_sampler_that_is_not_used_is_noticed() -> None:
    loader = torch.utils.data.DataLoader(list(range(4)), batch_size=2)
    with pytest.raises(RuntimeError, match="does not use the distinct-claim sampler"):
        training.SamplerCheck().on_train_begin(None, None, None, train_dataloader=loader)


# --- Before any long work --------------------------------------------------------------------------------------------


def test_faults_are_told_before_the_base_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load_base", None)
    with pytest.raises(ValueError, match=r"16 rows of different claims.* has 12"):
        train(recipe(tmp_path, "global_batch=16"), tmp_path / "run")
    monkeypatch.setitem(training.PartialState._shared_state, "num_processes", 3)
    with pytest.raises(ValueError, match="global_batch 4 cannot be shared by 3 processes"):
        train(recipe(tmp_path), tmp_path / "run")
    assert not list(tmp_path.glob(".*"))


@pytest.mark.usefixtures("ungated")
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(SentenceTransformer, "save_pretrained", full)
        with pytest.raises(OSError, match="No space left"):
            train(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert train(made, tmp_path / "run").exists()  # goes on from the last checkpoint


@pytest.mark.parametrize(
    ("units", "wanted", "precision"),
    [(True, "auto", "bf16"), (False, "auto", "fp32"), (True, "fp32", "fp32"), (False, "bf16", "bf16")],
)
def test_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, units: bool, wanted: str, precision: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: units)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert training.precision_of(recipe(tmp_path, f"precision={wanted}")) == precision


@pytest.mark.usefixtures("gate_in_process")
def test_half_precision_passes_the_gate(tmp_path: Path) -> None:
    """The trainer computes in bf16 under autocast; what is released is what plain loading gives."""
    run = train(recipe(tmp_path, "precision=bf16"), tmp_path / "run")
    assert Manifest.read(run).status == "trained"
    assert all(w.dtype == torch.float32 and np.isfinite(w.numpy()).all() for w in adapter(run).values())


def test_a_gradient_that_overflowed_is_null_in_the_log(tmp_path: Path) -> None:
    state = SimpleNamespace(is_world_process_zero=True, log_history=[{"step": 1, "loss": 0.5, "grad_norm": math.inf}])
    training.RunLog(tmp_path).on_log(None, state, None)
    assert json.loads((tmp_path / "train.log").read_text()) == {"step": 1, "loss": 0.5, "grad_norm": None}
