"""Encoding by several processes: equal to one, nothing twice, nothing lost with a process that dies."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hub_models.corpus import encode_corpus
from hub_models.processes import rank_and_count
from hub_models.vector_store import VectorStore
from tests.hub_models.encoding_process import BATCH, TEXTS
from tests.hub_models.test_corpus import Spy
from tests.tiny import build

SCRIPT = Path(__file__).parent / "encoding_process.py"
DISTINCT = len(set(TEXTS))
SHARD = 8 * BATCH


@pytest.fixture(scope="module")
def expected() -> Any:
    return encode_corpus(TEXTS, build("stance-bge-large"), batch_size=BATCH)


def files(folder: Path) -> set[str]:
    return {path.suffix for path in folder.rglob("*") if path.is_file()}


def test_two_processes_give_the_vectors_of_one_and_share_the_work(tmp_path: Path, expected: Any) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run([*command, str(SCRIPT), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank{r}.json").read_text()) for r in range(2)]
    assert [rank["processes"] for rank in ranks] == [2, 2]
    assert all(rank["encoded"] >= SHARD - 10 for rank in ranks)
    assert sum(rank["encoded"] for rank in ranks) == DISTINCT
    first, second = (np.load(tmp_path / f"vectors{r}.npy") for r in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, expected, rtol=0, atol=1e-6)  # torchrun gives each process one thread
    assert done.stderr.count("in 10 shards by 2 process(es), shared") == 1  # one rank speaks
    assert files(tmp_path / "cache") == {".npz"}


def test_a_process_killed_inside_a_shard_loses_that_shard_alone(
    tmp_path: Path, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path), "kill"], capture_output=True)
    assert killed.returncode == -9
    model = build("stance-bge-large")
    spy = Spy(model, monkeypatch)
    resumed = encode_corpus(TEXTS, model, batch_size=BATCH, cache_dir=tmp_path / "cache")
    np.testing.assert_array_equal(resumed, expected)
    assert len(spy.texts) == DISTINCT - 2 * SHARD
    assert files(tmp_path) == {".npz"}


def test_the_shard_of_a_process_that_dies_is_taken_over(
    tmp_path: Path, expected: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = subprocess.Popen([sys.executable, str(SCRIPT), str(tmp_path), "hold"], stdout=subprocess.PIPE)
    assert other.stdout is not None and other.stdout.readline() == b"held\n"
    claim = VectorStore.claim

    @contextmanager
    def killing(self: VectorStore, shard: Path, *, wait: bool) -> Iterator[bool]:
        if wait:
            other.kill()
        with claim(self, shard, wait=wait) as mine:
            yield mine

    monkeypatch.setattr(VectorStore, "claim", killing)
    model = build("stance-bge-large")
    spy = Spy(model, monkeypatch)
    with caplog.at_level(logging.INFO):
        vectors = encode_corpus(TEXTS, model, batch_size=BATCH, cache_dir=tmp_path / "cache")
    assert (other.wait(), other.stdout.close()) == (-9, None)
    np.testing.assert_array_equal(vectors, expected)
    assert len(spy.texts) == DISTINCT
    assert "waiting for what is left of 1 shards" in caplog.text
    assert files(tmp_path) == {".npz"}


def test_a_shard_that_another_process_finished_meanwhile_is_not_encoded_again(
    tmp_path: Path, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build("stance-bge-large")
    find = VectorStore.find

    def late(self: VectorStore, wanted: Any) -> Any:
        found = find(self, wanted)
        monkeypatch.undo()
        encode_corpus(TEXTS, model, batch_size=BATCH, cache_dir=tmp_path)  # all of it, after the other looked
        return found

    monkeypatch.setattr(VectorStore, "find", late)
    encode = model.encode
    encoded: list[str] = []
    model.encode = lambda texts, **options: (encoded.extend(texts), encode(texts, **options))[1]  # type: ignore[method-assign]
    vectors = encode_corpus(TEXTS, model, batch_size=BATCH, cache_dir=tmp_path)
    np.testing.assert_array_equal(vectors, expected)
    assert len(encoded) == DISTINCT


def test_what_is_returned_with_a_cache_is_mapped_and_may_be_changed(tmp_path: Path, expected: Any) -> None:
    model = build("stance-bge-large")
    first = encode_corpus(TEXTS, model, batch_size=BATCH, cache_dir=tmp_path)
    assert isinstance(first.base, np.memmap)
    first[:] = 0
    np.testing.assert_array_equal(encode_corpus(TEXTS, model, batch_size=BATCH, cache_dir=tmp_path), expected)


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    model = build("stance-bge-large")
    encode_corpus(TEXTS[:3], model, cache_dir=tmp_path)
    (shard,) = tmp_path.rglob("*.npz")
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(ValueError, match=rf"{shard.name}: the shard is damaged .* delete it and run again"):
        encode_corpus(TEXTS[:3], model, cache_dir=tmp_path)


def test_a_cache_emptied_meanwhile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("stance-bge-large")
    store = VectorStore(tmp_path)
    monkeypatch.setattr(VectorStore, "find", lambda self, wanted: (set(wanted), []))
    with pytest.raises(FileNotFoundError, match="3 vectors are gone from the cache"):
        encode_corpus(TEXTS[:3], model, cache_dir=tmp_path)
    assert store.find(set()) == (set(), [])


def test_a_shard_is_claimed_by_one_at_a_time(tmp_path: Path) -> None:
    store, shard = VectorStore(tmp_path), tmp_path / "a.npz"
    (tmp_path / ".a.npz.1-2.partial").touch()
    with store.claim(shard, wait=False) as mine, store.claim(shard, wait=False) as other:
        assert (mine, other) == (True, False)
    with store.claim(shard, wait=False) as again:
        assert again
    assert list(tmp_path.iterdir()) == []


def test_without_a_launcher_there_is_one_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert rank_and_count() == (0, 1)
    with caplog.at_level(logging.INFO):
        encode_corpus(TEXTS, build("stance-bge-large"), batch_size=BATCH)
    assert "encode 200 texts, 150 distinct, 150 of them new, in 10 shards by 1 process(es)" in caplog.text
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert rank_and_count() == (1, 2)
