"""What a publish survives, and what it refuses in one sentence with nothing pushed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataset_builders.publisher import NAME, Publisher, claims, commits
from tests.hub.accounts import TOKENS
from tests.hub.clients import TestHub
from tests.hub.faults import CutUpload, Damage, Fault, Hold, LoseAnswer, Status

AGAIN = {"Retry-After": "0"}


@pytest.fixture(scope="module")
def over_lfs(publisher: Publisher) -> Iterator[Publisher]:
    with Publisher(publisher.hub, {"HF_HUB_DISABLE_XET": "1"}) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "path", "fault"),
    [
        ("GET", "/whoami", Status(503, AGAIN)),
        ("GET", f"^/api/datasets/org/{NAME}$", Status(503, AGAIN)),
        ("POST", "/repos/create", Status(429, AGAIN)),
        ("POST", "/validate-yaml", Status(503, AGAIN)),
        ("POST", "/commit/", Status(503, AGAIN)),
        ("POST", "/commit/", Status(429, {"Retry-After": "1"})),
        ("POST", "/commit/", CutUpload(100)),
        ("POST", "/tag/", Status(503, AGAIN)),
    ],
)
def test_twice_wrong_then_good_succeeds(
    hub: TestHub, publisher: Publisher, data: Path, method: str, path: str, fault: Fault
) -> None:
    hub.faults.add(method, path, fault, times=2)
    done = publisher.run("publish", NAME, "--org", "org", "--source", data, "--tag", "v1", read_back=False)
    assert done.code == 0, done.output
    assert commits(hub) == 1 and list(hub.repo("dataset", f"org/{NAME}").tags) == ["v1"]
    if isinstance(fault, Status):
        waited = f"{float(fault.headers['Retry-After']):.1f} s"
        assert done.output.count(f"the Hub answered {fault.status}; trying again in {waited}") == 2, done.output


@pytest.mark.parametrize("path", ["/commit/", "/tag/", "/repos/create"])
def test_a_lost_answer_is_recognised(hub: TestHub, publisher: Publisher, data: Path, path: str) -> None:
    hub.faults.add("POST", path, LoseAnswer())
    done = publisher.run("publish", NAME, "--org", "org", "--source", data, "--tag", "v1", read_back=False)
    assert done.code == 0, done.output
    assert commits(hub) == 1 and list(hub.repo("dataset", f"org/{NAME}").tags) == ["v1"]
    assert len(hub.log.matching("POST", "/commit/")) == 1


@pytest.mark.parametrize(("route", "path"), [("xet", "/v1/xorbs/"), ("lfs", "/_s3/")])
def test_a_connection_cut_in_the_middle_of_a_shard(
    hub: TestHub, publisher: Publisher, over_lfs: Publisher, data: Path, route: str, path: str
) -> None:
    claims(data, (f"never sent by {route}", "two", "three", "four"))  # what the Hub has seen is not sent again
    hub.faults.add("*", path, CutUpload(200))
    by = publisher if route == "xet" else over_lfs
    done = by.run("publish", NAME, "--org", "org", "--source", data, read_back=False)
    if done.code:  # cleanly, then: nothing of it is there, and a rerun finishes
        assert done.output.splitlines()[-1].startswith("error: ") and commits(hub) == 0, done.output
        assert by.run("publish", NAME, "--org", "org", "--source", data, read_back=False).code == 0
    assert commits(hub) == 1


def test_a_hub_that_stays_broken_is_one_sentence(hub: TestHub, publisher: Publisher, data: Path) -> None:
    hub.faults.add("POST", "/commit/", Status(503, AGAIN), times=6)
    done = publisher.run("publish", NAME, "--org", "org", "--source", data)
    assert done.code == 1 and "Traceback" not in done.output
    assert "did not answer as it should, 6 times (503): org/my-stance-arguments was left as it was" in done.output
    assert commits(hub) == 0


def test_of_two_at_once_one_wins_and_the_other_says_so(hub: TestHub, publisher: Publisher, data: Path) -> None:
    assert publisher.run("publish", NAME, "--org", "org", "--source", data, read_back=False).code == 0
    mine = claims(data.with_name("mine.jsonl"), ("one", "two", "three", "mine"))
    theirs = claims(data.with_name("theirs.jsonl"), ("one", "two", "three", "theirs"))
    hold = hub.faults.add("POST", "/commit/", Hold())
    slow = publisher.start("publish", NAME, "--org", "org", "--source", mine, read_back=False)
    with hold.held():
        fast = publisher.run("publish", NAME, "--org", "org", "--source", theirs, read_back=False)
    lost = slow.wait()
    assert fast.code == 0 and lost.code == 1
    assert "was changed by someone else in the meantime" in lost.output and "run this again" in lost.output
    assert commits(hub) == 2
    again = publisher.run("publish", NAME, "--org", "org", "--source", mine, read_back=False)
    assert again.code == 0 and commits(hub) == 3


def test_of_two_that_make_the_repository_one_wins(hub: TestHub, publisher: Publisher, data: Path) -> None:
    theirs = claims(data.with_name("theirs.jsonl"), ("one", "two", "three", "theirs"))
    hold = hub.faults.add("POST", "/repos/create", Hold())
    slow = publisher.start("publish", NAME, "--org", "org", "--source", data, read_back=False)
    with hold.held():
        assert publisher.run("publish", NAME, "--org", "org", "--source", theirs, read_back=False).code == 0
    lost = slow.wait()
    assert lost.code == 1 and "was changed by someone else in the meantime" in lost.output
    assert commits(hub) == 1


def test_two_at_once_with_the_same_data_make_one_commit(hub: TestHub, publisher: Publisher, data: Path) -> None:
    hold = hub.faults.add("POST", "/commit/", Hold())
    slow = publisher.start("publish", NAME, "--org", "org", "--source", data, read_back=False)
    with hold.held():
        assert publisher.run("publish", NAME, "--org", "org", "--source", data, read_back=False).code == 0
    assert slow.wait().code == 0 and commits(hub) == 1


@pytest.mark.parametrize(
    ("org", "token", "words"),
    [
        ("org", TOKENS.read, "the token is read-only"),
        ("org", TOKENS.bad, "the Hub does not know the token"),
        ("org", TOKENS.stranger, "mallory is no member of it; wanted one of ['mallory']"),
        ("org", None, "there is no token: set HF_TOKEN or run `hf auth login`"),
        ("nobody", TOKENS.write, "the organisation 'nobody' does not exist"),
        ("bad name!", TOKENS.write, "got the repository 'bad name!/my-stance-arguments', wanted organisation/name"),
        ("a/b", TOKENS.write, "got the repository 'a/b/my-stance-arguments', wanted organisation/name"),
    ],
)
def test_who_may_not_publish_is_told_in_a_sentence(
    hub: TestHub, publisher: Publisher, data: Path, org: str, token: str | None, words: str
) -> None:
    done = publisher.run("publish", NAME, "--org", org, "--source", data, token=token)
    (line,) = done.output.splitlines()
    assert done.code == 1 and line.startswith("error: ") and words in line
    assert not hub.store.repos and not [e for e in hub.log.entries if e.method != "GET"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"train.csv": b"a,b\n"}, "holds what no release has written, such as 'train.csv'"),
        ({"build.json": b'{"name": "other-stance-arguments"}'}, "holds 'other-stance-arguments' by its build.json"),
        ({"README.md": b"---\nconfigs: [\n---\n"}, "is no YAML"),
    ],
)
def test_foreign_content_is_left_alone(
    hub: TestHub, publisher: Publisher, data: Path, files: dict[str, bytes], words: str
) -> None:
    hub.put("dataset", f"org/{NAME}", files)
    done = publisher.run("publish", NAME, "--org", "org", "--source", data)
    assert done.code == 1 and words in done.output, done.output
    assert hub.files("dataset", f"org/{NAME}") == files and not hub.log.matching("POST", "")


def test_private_is_never_public(hub: TestHub, publisher: Publisher, data: Path) -> None:
    assert publisher.run("publish", NAME, "--org", "org", "--source", data, "--private").code == 0
    assert hub.repo("dataset", f"org/{NAME}").private
    hub.repo("dataset", f"org/{NAME}").private = False
    claims(data, ("one", "two", "three", "five"))
    done = publisher.run("publish", NAME, "--org", "org", "--source", data, "--private")
    assert done.code == 1 and "is public, and --private was asked for" in done.output
    assert commits(hub) == 1


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        (NAME, {"licence": "unknown"}, "rows have the licence 'unknown'"),
        (NAME, {"licence": "unknown "}, "rows have a licence that is no identifier, such as 'unknown '"),
        (
            NAME,
            {"attack": ["Because one is so."], "claim": "Claim one holds."},
            "bounds do not hold: texts of both stances",
        ),
        ("tfu-stance-arguments", {}, "tfu-* is for tfu's own files, which my.jsonl is not"),
        ("kpa-stance-arguments", {}, "kpa-* is for kpa's own files, which my.jsonl is not"),
        ("averitec-stance-arguments", {}, "averitec-* is for averitec's own files, which my.jsonl is not"),
        ("tfu-two-stance-arguments", {}, "tfu-* is for tfu's own text"),
        ("perspectrum-stance-arguments", {}, "perspectrum-* is for perspectrum's own files, which my.jsonl is not"),
        ("sample-stance-arguments", {}, "is made from the embedded sample alone"),
        (NAME, {"source": "/srv/data/my"}, "is a path of this machine"),
        (NAME, {"domain": "hf_" + "T" * 34}, "holds what looks like a secret (hf_TTT…)"),
        (NAME, {"domain": "AKIA" + "A1B2" * 4}, "holds what looks like a secret (AKIAA1…)"),
    ],
)
def test_what_may_not_be_published_is_refused_before(
    hub: TestHub, publisher: Publisher, tmp_path: Path, name: str, more: dict[str, object], words: str
) -> None:
    data = claims(tmp_path / "my.jsonl", ("one",) if "claim" in more else ("one", "two", "three"), **more)
    done = publisher.run("publish", name, "--org", "org", "--source", data)
    assert done.code == 1 and words in done.output and "T" * 34 not in done.output, done.output
    assert not hub.store.repos and not hub.log.matching("POST", "")


def test_a_tag_named_like_a_branch_is_refused(hub: TestHub, publisher: Publisher, data: Path) -> None:
    assert publisher.run("publish", NAME, "--org", "org", "--source", data, read_back=False).code == 0
    repo = hub.repo("dataset", f"org/{NAME}")
    repo.branches["next"] = repo.head.oid
    for tag, words in {
        "next": "has a branch 'next'",
        "main": "names a branch",
        "x.lock": "got the tag 'x.lock'",
    }.items():
        done = publisher.run("publish", NAME, "--org", "org", "--source", data, "--tag", tag, read_back=False)
        assert done.code == 1 and words in done.output and "Traceback" not in done.output, done.output
    assert not repo.tags and commits(hub) == 1


def test_what_comes_back_damaged_is_said_and_not_tagged(hub: TestHub, publisher: Publisher, data: Path) -> None:
    # The clients do not check what they download: one turned bit in a text column of every copy.
    hub.faults.add("GET", "/_cdn/", Damage(40), times=2)
    done = publisher.run("publish", NAME, "--org", "org", "--source", data, "--tag", "v1")
    assert done.code == 1 and "org/my-stance-arguments was committed as" in done.output, done.output
    assert not hub.repo("dataset", f"org/{NAME}").tags
    assert publisher.run("publish", NAME, "--org", "org", "--source", data, "--tag", "v1").code == 0
    assert list(hub.repo("dataset", f"org/{NAME}").tags) == ["v1"] and commits(hub) == 1


def test_a_dry_run_says_all_and_touches_nothing(hub: TestHub, publisher: Publisher, data: Path) -> None:
    done = publisher.run("publish", NAME, "--org", "org", "--source", data, "--dry-run", token=None)
    assert done.code == 0 and not hub.store.repos, done.output
    assert "add " in done.output and "README.md" in done.output and "in a new repository" in done.output
    assert "## Misuse and limits" in done.output
    assert publisher.run("publish", NAME, "--org", "org", "--source", data, read_back=False).code == 0
    hub.log.clear()
    claims(data, ("one", "two", "three"))
    done = publisher.run("publish", NAME, "--org", "org", "--source", data, "--dry-run", token=TOKENS.read)
    assert done.code == 0 and "delete " in done.output and "claims/test-" in done.output
    assert {e.method for e in hub.log.entries} <= {"GET", "HEAD"} and commits(hub) == 1


def test_offline_it_fails_at_once_and_asks_nobody(hub: TestHub, data: Path) -> None:
    command = ["python", "-m", "dataset_builders", "publish", NAME, "--org", "org", "--source", str(data)]
    for more in ([], ["--dry-run"]):
        done = hub.run([*command, *more], env={"HF_HUB_OFFLINE": "1"}, check=False)
        assert done.returncode == 1
        assert (
            done.stderr == "error: HF_HUB_OFFLINE is set, and to publish needs the Hub: unset it and run this again\n"
        )
    assert not hub.log.entries


def test_no_token_is_told_at_any_log_level(hub: TestHub, data: Path) -> None:
    """Case 9: a push that fails and one that succeeds, everything logged."""
    for fault, code in ((Status(403), 1), (Status(503, AGAIN), 0)):
        hub.faults.add("POST", "/commit/", fault)
        done = hub.run(
            "import logging; logging.basicConfig(level=logging.DEBUG); logging.getLogger().setLevel(logging.DEBUG)\n"
            "from dataset_builders.__main__ import app\n"
            f"app({['publish', NAME, '--org', 'org', '--source', str(data)]})",
            env={"HF_DEBUG": "1", "HF_HUB_VERBOSITY": "debug", "DATASETS_VERBOSITY": "debug"},
            check=False,
        )
        assert done.returncode == code, done.stderr
        told = done.stdout + done.stderr
        assert "DEBUG" in told and TOKENS.write not in told and TOKENS.write[6:] not in told
    assert not any(TOKENS.write.encode() in content for content in hub.files("dataset", f"org/{NAME}").values())
