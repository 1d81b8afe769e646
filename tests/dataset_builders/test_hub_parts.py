"""The parts of publishing that need no Hub: leaks, waiting, what counts as unchanged."""

from __future__ import annotations

import hashlib
import subprocess
from email.utils import formatdate
from pathlib import Path

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import HfHubHTTPError

from dataset_builders import hub_errors
from dataset_builders.hub import Plan, check_tag, plan
from dataset_builders.hub_errors import HubError, explain, is_transient, retry
from dataset_builders.hub_remote import Blob, Remote
from dataset_builders.leaks import machine_paths, secrets
from dataset_builders.retry_after import retry_after

TOKEN = "hf_" + "T" * 34


def error(status: int, headers: dict[str, str] | None = None) -> HfHubHTTPError:
    request = httpx2.Request("POST", "http://127.0.0.1/api", headers={"authorization": f"Bearer {TOKEN}"})
    return HfHubHTTPError("said", response=httpx2.Response(status, headers=headers, request=request))


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited, without waiting."""
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waits.append)
    return waits


@pytest.mark.parametrize("secret", [TOKEN, "sk-" + "aB3_" * 8, "AKIA" + "ABCD" * 4, "ghp_" + "x1" * 18])
def test_a_secret_is_found_in_text_and_inside_parquet_and_never_told(tmp_path: Path, secret: str) -> None:
    (tmp_path / "a.md").write_text(f"token={secret}\n")
    rows = {"negatives": [[{"text": "x"}], [{"text": f"my key is {secret} ok"}]], "n": [1, 2]}
    pq.write_table(pa.table(rows), tmp_path / "b.parquet", compression="gzip", write_statistics=False)
    assert secret.encode() not in (tmp_path / "b.parquet").read_bytes()
    found = list(secrets(tmp_path))
    assert [name for name, _ in found] == ["a.md", "b.parquet"]
    assert all(len(start) <= 7 and secret not in start for _, start in found)


@pytest.mark.parametrize(
    "text", ["hf_hub_download", "risk-averse-people-of-twenty-letters", "AKIA", "ghp_short", "sk-learn"]
)
def test_what_only_begins_like_a_secret_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "empty").write_bytes(b"")
    assert not list(secrets(tmp_path))


def test_the_token_of_this_process_is_found_in_any_shape(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x correct-horse y")
    assert list(secrets(tmp_path, known=["correct-horse"])) == [("a.txt", "correc…")]


def test_a_path_in_a_text_of_the_data_is_no_machine_path(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [f"{Path.home()}/x"]}), tmp_path / "a.parquet")
    (tmp_path / "b.json").write_text('{"a": ["/srv/x"]}')
    assert list(machine_paths(tmp_path)) == [("b.json", "/srv/x")]


@pytest.mark.parametrize("start", ["---\n", "---\r\n", "\ufeff---\n"], ids=["LF", "Windows", "mark"])
def test_a_path_in_a_card_with_windows_line_ends_is_found(tmp_path: Path, start: str) -> None:
    end = start.removeprefix("\ufeff")[3:]
    head = f"{start}base_model: C:\\models\\base{end}---{end}A text."
    (tmp_path / "README.md").write_text(head, encoding="utf-8", newline="")
    assert list(machine_paths(tmp_path)) == [("README.md", "C:\\models\\base")]


def test_without_a_home_folder_the_rest_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    (tmp_path / "a.json").write_text('{"a": ["/srv/x"]}')
    assert list(machine_paths(tmp_path)) == [("a.json", "/srv/x")]


@pytest.mark.parametrize("years", [-30, 0, 30])
def test_a_wrong_clock_does_not_lengthen_a_wait(monkeypatch: pytest.MonkeyPatch, years: int) -> None:
    """A date to wait for stands beside the server's own date: how late we believe it is does not matter."""
    monkeypatch.setattr("dataset_builders.retry_after.time.time", lambda: 1.9e9 + years * 3.2e7)
    headers = {"retry-after": formatdate(1.9e9 + 7, usegmt=True), "date": formatdate(1.9e9, usegmt=True)}
    assert retry_after(headers) == 7.0


@pytest.mark.parametrize("value", ["", "soon", "Mon, 99 Xxx 9999 99:99:99 GMT", "-5", "nan"])
def test_a_wait_that_is_none(value: str) -> None:
    assert retry_after({"retry-after": value, "date": "never"}) in (None, 0.0)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_retry_after_is_honoured_as_seconds_and_as_a_date(slept: list[float], status: int) -> None:
    answers = [error(status, {"Retry-After": "7"}), error(status, {"Retry-After": formatdate(0, usegmt=True)})]

    def call() -> str:
        if answers:
            raise answers.pop(0)
        return "done"

    assert retry(call) == "done" and slept == [7.0, 0.0]


def test_without_a_header_waits_grow_are_random_and_end(slept: list[float]) -> None:
    def call() -> None:
        raise httpx2.ReadError("cut")

    with pytest.raises(httpx2.ReadError):
        retry(call)
    assert len(slept) == hub_errors.ATTEMPTS - 1
    assert all(0 <= wait <= 0.5 * 2**n for n, wait in enumerate(slept))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412])
def test_a_refusal_is_not_tried_again(slept: list[float], status: int) -> None:
    assert not is_transient(error(status))
    with pytest.raises(HfHubHTTPError):
        retry(lambda: (_ for _ in ()).throw(error(status)))
    assert not slept


@pytest.mark.parametrize("status", [400, 401, 403, 409, 412, 418, 503])
def test_every_sentence_is_one_line_without_a_token(status: int) -> None:
    told = explain(error(status), "org/name", "publish")
    assert isinstance(told, HubError) and "\n" not in str(told) and TOKEN not in str(told) and "org/name" in str(told)


def test_a_blob_is_compared_as_git_and_lfs_do(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"some bytes\r\n\0")
    git = subprocess.run(["git", "hash-object", "--no-filters", str(path)], capture_output=True, text=True, check=True)
    size = path.stat().st_size
    assert Blob(size, git.stdout.strip(), lfs=False).is_like(path)
    assert Blob(size, hashlib.sha256(path.read_bytes()).hexdigest(), lfs=True).is_like(path)
    path.write_bytes(b"some bytes\r\n\1")
    assert not Blob(size, git.stdout.strip(), lfs=False).is_like(path)


def planned(folder: Path, files: dict[str, Blob]) -> Plan:
    remote = Remote("org/x", "dataset", "0" * 40, False, files)
    return plan(
        remote, folder, allow=["*.json", "b/*"], delete_stale=lambda p: p.startswith("b/"), marker="build.json"
    )


def test_a_plan_sends_what_differs_and_knows_when_it_is_done(tmp_path: Path) -> None:
    def blob(content: bytes) -> Blob:
        return Blob(len(content), hashlib.sha256(content).hexdigest(), lfs=True)

    (tmp_path / "b").mkdir()
    for name, content in {"build.json": b"{}", "b/new": b"new", "b/same": b"same", "left.txt": b"no"}.items():
        (tmp_path / name).write_bytes(content)
    there = {"build.json": blob(b"{ }"), "b/same": blob(b"same"), "b/old": blob(b"old"), "theirs": blob(b"t")}
    todo = planned(tmp_path, there)
    assert todo.adds == {"b/new": 3, "build.json": 2} and todo.deletes == ["b/old"]
    assert todo.lines()[-1] == "org/x: 2 adds (5 B), 1 deletes, 1 files as they are"
    after = {"build.json": blob(b"{}"), "b/same": blob(b"same"), "b/new": blob(b"new"), "theirs": blob(b"t")}
    assert todo.is_done(Remote("org/x", "dataset", "1" * 40, False, after))
    for wrong in ({**after, "b/old": blob(b"old")}, {**after, "b/new": blob(b"NEW")}, {**after, "more": blob(b"")}):
        assert not todo.is_done(Remote("org/x", "dataset", "1" * 40, False, wrong))
    assert not planned(tmp_path, after).changes


@pytest.mark.parametrize("tag", ["v1.0.0", "2026-11-30", "20261130", "v1.0.0+cpu", "lock", "mainly", "x.locks"])
def test_tags_that_git_takes(tag: str) -> None:
    check_tag(tag)
    subprocess.run(["git", "check-ref-format", f"refs/tags/{tag}"], check=True)


@pytest.mark.parametrize(
    "tag",
    ["", "x.lock", "v1.", "v1..0", ".v1", "-x", "a b", "a/b", "refs/heads/x", "v\n1", "v1~", "v^1", "v:1", "v?", "v*",
     "v[1", "v\\1", "@", "v@{1", "v\x7f", "vé"],
)  # fmt: skip
def test_tags_that_git_refuses_or_that_are_no_version(tag: str) -> None:
    with pytest.raises(HubError, match=r"got the tag .*, wanted letters, digits"):
        check_tag(tag)


@pytest.mark.parametrize("tag", ["main", "HEAD", "0123456789" * 4])
def test_tags_that_name_something_else(tag: str) -> None:
    with pytest.raises(HubError, match="which names a branch or a commit"):
        check_tag(tag)
