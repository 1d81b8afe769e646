"""Each kind of fault reaches the client as the real thing would.

The tests also hold what a publisher has to know of the clients: what they retry, and what they leave to it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.hub.clients import TestHub
from tests.hub.faults import CutDownload, CutUpload, Damage, Faults, Hold, LoseAnswer, Status

LFS = {"HF_HUB_DISABLE_XET": "1"}


def _commit() -> list[Any]:
    from huggingface_hub import CommitOperationAdd, HfApi

    adds = [CommitOperationAdd("a.bin", b"\0" * 50_000), CommitOperationAdd("b.txt", b"b")]
    try:
        return ["", HfApi().create_commit("org/m", adds, commit_message="one").oid]
    except Exception as error:
        return [type(error).__name__, getattr(getattr(error, "response", None), "status_code", None)]


def _download() -> list[Any]:
    from huggingface_hub import hf_hub_download

    try:
        with open(hf_hub_download("org/m", "a.bin"), "rb") as file:
            content = file.read()
        return ["", len(content), sum(content)]
    except Exception as error:
        return [type(error).__name__, getattr(getattr(error, "response", None), "status_code", None)]


@pytest.fixture
def model(loopback_hub: TestHub) -> TestHub:
    loopback_hub.store.create("model", "org/m")
    return loopback_hub


def commits(hub: TestHub) -> int:
    return len(hub.repo("model", "org/m").commits) - 1


def _commit_often(times: int) -> list[int]:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    statuses = []
    for _ in range(times):
        try:
            HfApi().upload_file(path_or_fileobj=b"b", path_in_repo="b.txt", repo_id="org/m")
            statuses.append(200)
        except HfHubHTTPError as error:
            statuses.append(error.response.status_code)
    return statuses


def test_the_commit_request_is_not_retried_whatever_the_status(model: TestHub) -> None:
    statuses = [401, 403, 409, 412, 429, 500, 503]
    for place, status in enumerate(statuses, start=1):
        model.faults.add("POST", "/commit/", Status(status, {"Retry-After": "0"}), nth=place)
    assert model.call(_commit_often, len(statuses) + 1) == [*statuses, 200]
    assert [entry.status for entry in model.log.matching("POST", "/commit/")] == [*statuses, 200]
    assert commits(model) == 1 and model.faults.unused == []


def test_the_nth_request_fails_and_retry_after_is_honoured_before_the_upload(model: TestHub) -> None:
    model.faults.add("POST", "/preupload/", Status(429, {"Retry-After": "0"}), times=2)
    assert model.call(_commit)[0] == ""
    assert [entry.status for entry in model.log.matching("POST", "/preupload/")] == [429, 429, 200]
    model.faults.add("POST", "/preupload/", Status(503), nth=2)
    faults = model.faults
    assert faults.take("POST", "/api/models/org/m/preupload/main") is None
    assert faults.take("POST", "/api/models/org/m/preupload/main") == Status(503)
    assert faults.take("POST", "/api/models/org/m/preupload/main") is None


def test_a_lost_answer_leaves_a_commit_that_the_client_takes_for_a_failure(model: TestHub) -> None:
    model.faults.add("POST", "/commit/", LoseAnswer())
    assert model.call(_commit) == ["RemoteProtocolError", None]
    assert commits(model) == 1
    assert model.call(_commit)[0] == "", "run again, nothing has changed and no commit is made"
    assert commits(model) == 1


@pytest.mark.parametrize("env", [{}, LFS], ids=["xet", "lfs"])
def test_an_upload_that_is_cut_is_sent_again_and_a_cut_commit_is_none(model: TestHub, env: dict[str, str]) -> None:
    model.faults.add("*", "/_s3/|/xorbs/", CutUpload(50))
    assert model.call(_commit, env=env)[0] == ""
    assert len(model.log.matching("*", "/_s3/|/xorbs/")) == 2
    assert model.log.matching("*", "/_s3/|/xorbs/")[0].status is None
    assert commits(model) == 1
    model.put("model", "org/m", {"b.txt": b"changed"})
    model.faults.add("POST", "/commit/", CutUpload(20))
    assert model.call(_commit, env=env)[0] != ""
    assert commits(model) == 2


def test_a_cut_download_of_a_large_file_is_resumed(model: TestHub) -> None:
    model.put("model", "org/m", {"a.bin": bytes(25_000_000)})
    model.faults.add("GET", "/_cdn/", CutDownload(21_000_000))
    assert model.call(_download) == ["", 25_000_000, 0]
    first, second = model.log.matching("GET", "/_cdn/")
    assert (first.bytes_down, second.status) == (21_000_000, 206)
    assert second.bytes_down < 10_000_000


def test_a_flipped_bit_goes_unnoticed_by_a_download(model: TestHub) -> None:
    """So whoever reads back must check the sums: `verify_repo_checksums` does."""
    model.put("model", "org/m", {"a.bin": bytes(1000)})
    model.faults.add("GET", "/_cdn/", Damage(500))
    assert model.call(_download) == ["", 1000, 1]


def test_a_held_client_can_be_killed_before_or_after_the_commit(model: TestHub) -> None:
    for done, made in ((False, 0), (True, 1)):
        hold = model.faults.add("POST", "/commit/", Hold(done=done))
        client = model.start(
            "from huggingface_hub import HfApi\n"
            "HfApi().upload_file(path_or_fileobj=b'x', path_in_repo='x.txt', repo_id='org/m')"
        )
        with hold.held():
            client.kill()
            client.communicate()
            assert commits(model) == made
        assert commits(model) == made, "let go, the server does nothing for a client that has gone"
        assert client.returncode == -9


def test_a_hold_that_nobody_reaches_is_an_error() -> None:
    hold = Faults().add("GET", "/never", Hold())
    with pytest.raises(TimeoutError, match="no request reached the hold"), hold.held(timeout=0.01):
        pass
    assert hold.release.is_set()
