"""The index in Milvus: Milvus Lite in this process, and the same client against a server on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pymilvus", reason="the extra milvus is not installed")
pytest.importorskip("milvus_lite", reason="the extra milvus is not installed")

from dataset_builders.sources import load
from hub_models import StanceSearch
from hub_models.evaluation.stance import judge
from hub_models.retrieval import milvus
from hub_models.retrieval.milvus import MilvusIndex, check_address
from tests.hub_models.evaluation.helpers import write_run

CLAIM = "Cities should ban cars from their centers."
TEXTS = ["a", "b", "a", "c"]
VECTORS = np.array([[1, 0], [0.6, 0.8], [1, 0], [0, 1]], np.float32)
QUERIES = np.array([[0.8, 0.6], [-1, 0]], np.float32)
EXACT = QUERIES @ VECTORS.T


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("milvus") / "index.db")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    """Milvus Lite as a server of its own; ``stop`` it to lose it."""
    from milvus_lite.adapter.grpc.server import start_server_in_thread

    running, database, port = start_server_in_thread(data_dir=str(tmp_path / "served"), host="127.0.0.1", port=0)
    running.address = f"http://127.0.0.1:{port}"
    yield running
    running.stop(grace=0)
    database.close()


def never() -> Any:
    raise AssertionError("nothing is missing")


def test_scores_are_the_cosines_and_equal_texts_lie_once(file: str) -> None:
    index = MilvusIndex(file, TEXTS, "model", lambda: VECTORS)
    assert index.depth is None
    scores = index.scores(QUERIES)
    np.testing.assert_allclose(scores, EXACT, atol=1e-6)
    assert (scores[:, 0] == scores[:, 2]).all()
    assert index._counted() == 3


def test_what_is_complete_is_taken_and_what_is_not_is_filled_up(file: str) -> None:
    whole = MilvusIndex(file, TEXTS, "again", lambda: VECTORS)
    assert MilvusIndex(file, TEXTS, "again", never).collection == whole.collection
    whole._client.delete(whole.collection, ids=[2])  # as a process leaves it that was killed before the last block
    resumed = MilvusIndex(file, TEXTS, "again", lambda: VECTORS)
    np.testing.assert_allclose(resumed.scores(QUERIES), EXACT, atol=1e-6)


def test_another_model_and_other_texts_have_collections_of_their_own(file: str) -> None:
    first = MilvusIndex(file, TEXTS, "one", lambda: VECTORS)
    model = MilvusIndex(file, TEXTS, "two", lambda: np.array([[1, 0, 0]] * 4, np.float32))
    texts = MilvusIndex(file, ["x", *TEXTS[1:]], "one", lambda: VECTORS)
    assert len({first.collection, model.collection, texts.collection}) == 3
    np.testing.assert_allclose(first.scores(QUERIES), EXACT, atol=1e-6)
    with pytest.raises(ValueError, match=r"got queries of dimension \(2,\), wanted \(3,\) like the documents"):
        model.scores(QUERIES)


def test_a_collection_that_something_else_wrote_into_is_refused(file: str) -> None:
    index = MilvusIndex(file, TEXTS, "spoilt", lambda: VECTORS)
    index._client.upsert(index.collection, [{"row": 9, "vector": [1.0, 0.0]}])
    with pytest.raises(
        ValueError, match=r"holds 4 rows of \['row', 'vector'\], wanted 3 of row and vector; something"
    ):
        MilvusIndex(file, TEXTS, "spoilt", never)


@pytest.mark.parametrize(("documents", "claims"), [(80, 3), pytest.param(480, 40, id="all", marks=pytest.mark.slow)])
def test_the_sample_has_the_same_top_ten(documents: int, claims: int, minilm: Any, file: str, tmp_path: Path) -> None:
    """The test split, exact, with the words and without: equal scores, and the order by score, then id."""
    judged = judge(load("sample"), "test")
    arguments = sorted(judged.documents, key=lambda a: a.argument_id)
    assert (len(arguments), len(judged.claims)) == (480, 40)
    wanted, texts = [a.argument_id for a in arguments], {a.argument_id: a.text for a in arguments[:documents]}
    texts["z-copy"], texts["0-copy"] = texts[wanted[0]], texts[wanted[0]]  # ties
    memory = StanceSearch(minilm, texts, cache_dir=tmp_path)
    embedded = StanceSearch(minilm, texts, cache_dir=tmp_path, index=f"milvus:{file}")
    assert embedded.depth is None
    for claim in [c.claim for c in judged.claims[:claims]] + [texts[wanted[0]]]:
        for hybrid in (0.0, 0.1):
            ours, theirs = (s.search(claim, hybrid=hybrid) for s in (memory, embedded))
            assert len(ours) == 10
            assert [h.id for h in ours] == [h.id for h in theirs]
            np.testing.assert_allclose([h.score for h in ours], [h.score for h in theirs], atol=1e-5)
    assert [h.id for h in theirs][:3] == ["0-copy", wanted[0], "z-copy"]


def test_a_large_corpus_gives_candidates_and_what_bm25_found(
    minilm: Any, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(milvus, "_WHOLE", 4)
    monkeypatch.setattr(milvus, "CANDIDATES", 3)
    texts = [
        "Urban traffic.",
        "Cheese is made of milk.",
        "Trams are fast.",
        "No autos downtown.",
        "From their.",
        "Air.",
    ]
    large = StanceSearch(minilm, texts, index=f"milvus:{file}")
    assert large.depth == 3
    everything = {h.id: h.dense for h in StanceSearch(minilm, texts).search(CLAIM, k=9, hybrid=0)}
    best = sorted(everything, key=lambda i: -everything[i])[:3]
    assert [h.id for h in large.search(CLAIM, k=9, hybrid=0)] == best
    hits = large.search(CLAIM, k=9, hybrid=0.5)
    assert {h.id for h in hits if h.id not in best} and all(h.bm25 for h in hits if h.id not in best)
    assert [h.dense for h in hits] == pytest.approx([everything[h.id] for h in hits], abs=1e-6)


def test_the_anchor_has_a_collection_beside(file: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", strength=0.3)
    texts = ["Cars fill cities.", "Cheese is made of milk.", "Trams are fast."]
    memory, embedded = (
        StanceSearch(run, texts, anchor=0.4, adapter_scale=0.5, index=i) for i in ("float32", f"milvus:{file}")
    )
    for ours, theirs in zip(memory.search(CLAIM), embedded.search(CLAIM), strict=True):
        assert (ours.id, ours.score) == (theirs.id, pytest.approx(theirs.score, abs=1e-5))


def test_the_same_client_against_a_server_and_a_server_that_is_lost(server: Any) -> None:
    index = MilvusIndex(server.address, TEXTS, "model", lambda: VECTORS)
    np.testing.assert_allclose(index.scores(QUERIES, [3]), EXACT, atol=1e-6)
    server.stop(grace=0).wait()
    with pytest.raises(
        ConnectionError, match=rf"{server.address}: Milvus did not answer as wanted .* is the server up"
    ):
        index.scores(QUERIES)
    with pytest.raises(ConnectionError, match="is the server up, is MILVUS_TOKEN set if it asks for one"):
        MilvusIndex(server.address, TEXTS, "model", never)


def test_the_token_comes_from_the_environment_and_is_never_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("pymilvus.MilvusClient", lambda address, **options: seen.update(options, address=address))
    monkeypatch.setenv("MILVUS_TOKEN", "root:secret")
    milvus._connect("http://host:19530")
    assert (seen["address"], seen["token"]) == ("http://host:19530", "root:secret")
    with pytest.raises(
        ValueError, match="a user in it, wanted http://HOST:PORT; put user:password into MILVUS"
    ) as said:
        check_address("http://root:secret@host:19530")
    assert "secret" not in str(said.value)


def test_bad_addresses_fail_before_the_model_is_loaded(tmp_path: Path) -> None:
    for address in ("index.sqlite", "", "ftp://host/x.db", "host:19530"):
        with pytest.raises(
            ValueError, match=r"got the Milvus address '.*', wanted a file PATH.db or http://HOST:PORT"
        ):
            StanceSearch("/absent/model", ["A text."], index=f"milvus:{address}")
    with pytest.raises(ValueError, match="wanted a path in a folder that exists; make the folder"):
        StanceSearch("/absent/model", ["A text."], index=f"milvus:{tmp_path}/absent/index.db")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(ModuleNotFoundError, match=r"no pymilvus .*pip install 'slant\[milvus\]'"):
        MilvusIndex(str(tmp_path / "index.db"), TEXTS, "model", never)
