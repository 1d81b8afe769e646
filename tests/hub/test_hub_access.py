"""Who may do what, and the errors by which the clients tell refusals apart."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.hub.accounts import TOKENS
from tests.hub.clients import TestHub
from tests.hub.server import LoopbackHub


def _attempts() -> dict[str, list[Any]]:
    """What each attempt gives: the error's class, its status and what the server said."""
    import warnings

    from huggingface_hub import CommitOperationDelete, HfApi
    from huggingface_hub.errors import HfHubHTTPError

    warnings.simplefilter("ignore")
    api = HfApi()
    attempts = {
        "whoami": lambda: api.whoami()["auth"]["accessToken"]["role"],
        "info": lambda: api.model_info("org/open").id,
        "missing": lambda: api.model_info("org/none"),
        "private": lambda: api.model_info("org/private").private,
        "gated info": lambda: api.model_info("org/gated").gated,
        "gated file": lambda: api.hf_hub_download("org/gated", "a.txt") and None,
        "gated check": lambda: api.auth_check("org/gated"),
        "revision": lambda: api.model_info("org/open", revision="v9"),
        "file": lambda: api.hf_hub_download("org/open", "none.txt"),
        "create": lambda: api.create_repo("org/made") and None,
        "create again": lambda: api.create_repo("org/open"),
        "create elsewhere": lambda: api.create_repo("nobody/made"),
        "commit": lambda: api.upload_file(path_or_fileobj=b"x", path_in_repo="x.txt", repo_id="org/open") and None,
        "no such branch": lambda: api.upload_file(
            path_or_fileobj=b"x", path_in_repo="x.txt", repo_id="org/open", revision="dev"
        ),
        "stale": lambda: api.create_commit(
            "org/open", [CommitOperationDelete("a.txt")], commit_message="x", parent_commit="0" * 40
        ),
        "no such file": lambda: api.create_commit("org/open", [CommitOperationDelete("b.txt")], commit_message="x"),
        "tag again": lambda: api.create_tag("org/open", tag="v1"),
        "no such tag": lambda: api.delete_tag("org/open", tag="v2"),
        "card": lambda: api.upload_file(
            path_or_fileobj=b"---\nlicense: My Own\n---\n", path_in_repo="README.md", repo_id="org/open"
        ),
        "delete": lambda: api.delete_repo("org/private"),
        "item": lambda: api.add_collection_item("org/none-0", "org/open", "model"),
    }
    outcomes: dict[str, list[Any]] = {}
    for name, attempt in attempts.items():
        try:
            outcomes[name] = ["", attempt()]
        except HfHubHTTPError as error:
            outcomes[name] = [type(error).__name__, error.response.status_code, error.server_message]
        except Exception as error:
            outcomes[name] = [type(error).__name__, str(error)]
    return outcomes


@pytest.fixture
def seeded(loopback_hub: TestHub) -> TestHub:
    loopback_hub.put("model", "org/open", {"a.txt": b"a"})
    loopback_hub.put("model", "org/private", {"a.txt": b"a"}, private=True)
    loopback_hub.put("model", "org/gated", {"a.txt": b"a"})
    loopback_hub.repo("model", "org/gated").gated = True
    repo = loopback_hub.repo("model", "org/open")
    repo.tags["v1"] = repo.head.oid
    return loopback_hub


def test_a_write_token_may_and_wrong_requests_have_their_own_errors(seeded: TestHub) -> None:
    seen = seeded.call(_attempts)
    assert {name: outcome[1] for name, outcome in seen.items() if outcome[0] == ""} == {
        "whoami": "write",
        "info": "org/open",
        "private": True,
        "gated info": "auto",
        "gated file": None,
        "gated check": None,
        "create": None,
        "commit": None,
        "delete": None,
    }
    assert {name: outcome[:2] for name, outcome in seen.items() if outcome[0] != ""} == {
        "missing": ["RepositoryNotFoundError", 404],
        "revision": ["RevisionNotFoundError", 404],
        "file": ["RemoteEntryNotFoundError", 404],
        "create again": ["HfHubHTTPError", 409],
        "create elsewhere": ["HfHubHTTPError", 403],
        "no such branch": ["RevisionNotFoundError", 404],
        "stale": ["HfHubHTTPError", 412],
        "no such file": ["RemoteEntryNotFoundError", 404],
        "tag again": ["HfHubHTTPError", 409],
        "no such tag": ["RevisionNotFoundError", 404],
        "card": ["ValueError", seen["card"][1]],
        "item": ["HfHubHTTPError", 404],
    }
    assert "license" in seen["card"][1]
    assert seen["stale"][2] == "A commit has happened since. Please refresh and try again."
    assert sorted(seeded.files("model", "org/open")) == ["a.txt", "x.txt"]


def test_a_read_only_token_sees_its_own_and_changes_nothing(seeded: TestHub) -> None:
    before = {key: repo.branches["main"] for key, repo in seeded.store.repos.items()}
    seen = seeded.call(_attempts, token=TOKENS.read)
    assert seen["whoami"] == ["", "read"] and seen["private"] == ["", True] and seen["gated file"] == ["", None]
    for name in ("create", "commit", "delete", "tag again"):
        assert seen[name][:2] == ["HfHubHTTPError", 403], name
    assert {key: repo.branches["main"] for key, repo in seeded.store.repos.items()} == before
    assert {entry.status for entry in seeded.log.matching("POST", "/preupload/|/commit/")} == {403}


def test_a_stranger_and_a_visitor_see_neither_private_nor_gated_files(seeded: TestHub) -> None:
    stranger = seeded.call(_attempts, token=TOKENS.stranger)
    visitor = seeded.call(_attempts, token=None)
    assert stranger["private"][:2] == ["RepositoryNotFoundError", 404]
    assert visitor["private"][:2] == ["RepositoryNotFoundError", 401]
    assert visitor["missing"][:2] == ["RepositoryNotFoundError", 401], "nobody can tell private from missing"
    assert stranger["gated file"][:2] == ["GatedRepoError", 403]
    assert visitor["gated file"][:2] == ["GatedRepoError", 401]
    for seen in (stranger, visitor):
        assert seen["info"] == ["", "org/open"] and seen["gated info"] == ["", "auto"]
        assert seen["gated check"][0] == "GatedRepoError"
        assert seen["commit"][0] == "HfHubHTTPError"


def test_a_token_that_nobody_has_fails_even_on_public_files(seeded: TestHub) -> None:
    seen = seeded.call(_attempts, token=TOKENS.bad)
    for name in ("info", "file", "commit"):
        assert seen[name][:2] == ["HfHubHTTPError", 401], name
    assert "Invalid credentials" in seen["info"][2]


def _direct(endpoint: str) -> list[Any]:
    """What the addresses give without a client on top."""
    import httpx2

    address = f"{endpoint}/org/open/resolve/main/w.bin"
    first = httpx2.head(address)
    storage = first.headers["Location"]
    part = httpx2.get(storage, headers={"Range": "bytes=2-4"})
    tail = httpx2.get(storage, headers={"Range": "bytes=-2"})
    beyond = httpx2.get(storage, headers={"Range": "bytes=900-"})
    return [
        [first.status_code, first.headers["X-Linked-Size"], first.headers["X-Linked-Etag"] == first.headers["ETag"]],
        [part.status_code, part.text, part.headers["Content-Range"]],
        [tail.status_code, tail.text],
        beyond.status_code,
        httpx2.get(storage, headers={"Authorization": "Bearer x"}).status_code,
        httpx2.get(storage.split("?")[0]).status_code,
        httpx2.get(f"{endpoint}/org/open/resolve/main/a.txt").status_code,
        httpx2.get(f"{endpoint}/org/open/resolve/main/a.txt", follow_redirects=True).text,
        httpx2.get(f"{endpoint}/api/nothing").headers["X-Error-Message"],
    ]


def test_files_come_by_signed_addresses_with_ranges_and_without_accounts(seeded: TestHub) -> None:
    seeded.put("model", "org/open", {"w.bin": b"0123456789"})
    assert seeded.call(_direct, seeded.endpoint) == [
        [302, "10", True],
        [206, "234", "bytes 2-4/10"],
        [206, "89"],
        416,
        400,
        403,
        307,
        "a",
        "The loopback Hub does not serve GET /api/nothing",
    ]


def test_a_state_folder_outlives_its_server(tmp_path: Path) -> None:
    with TestHub(tmp_path) as hub:
        first = hub.put("dataset", "org/kept", {"a.parquet": b"\0abc", "README.md": b"# Kept"})
    with LoopbackHub(tmp_path) as again:
        repo = again.store.repos["dataset", "org/kept"]
        assert repo.head == first
        assert again.store.read(repo.head.files["a.parquet"]) == b"\0abc"


def test_it_stands_alone_and_tells_what_was_asked(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.hub", "--state", str(tmp_path), "--org", "own"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address, token = (word.split("=")[1] for word in server.stdout.readline().split()[1:])
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps({"name": "x", "organization": "own"}).encode()
        with urlopen(Request(f"{address}/api/repos/create", body, headers), timeout=30) as answer:
            assert json.load(answer)["name"] == "own/x"
        server.send_signal(signal.SIGINT)
        summary = json.loads(server.stdout.read())
    (kind, sums), *others = summary.items()
    assert not others and kind == "POST /api/repos/create"
    assert sums["requests"] == 1 and sums["bytes_up"] == len(body)
    assert "own/x" in (tmp_path / "state.json").read_text()
