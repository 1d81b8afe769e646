"""What both searches share, and the oblique one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from dataset_builders.lexical import BM25
from hub_models import ObliqueSearch, StanceSearch
from hub_models.corpus import encode_corpus
from hub_models.retrieval.ranking import Documents, Ranking
from tests.hub_models.evaluation.helpers import write_run

TEXTS = {
    "d2": "Another meeting, what luck; I had been fearing a free hour.",
    "d1": "The meeting begins at nine in room four.",
    "d3": "Cheese is made of milk.",
}
QUERY = "The writer is tired of meetings and hides it behind praise."
CLAIM = "Meetings should be short."


def test_an_oblique_query_has_the_instruction_of_its_task_and_no_words_in_its_score(minilm):
    search = ObliqueSearch(minilm, TEXTS, task="twitter")
    query = f"{OBLIQUE_INSTRUCTIONS['twitter']} {QUERY}"
    cosines = dict(
        zip(TEXTS, encode_corpus(list(TEXTS.values()), minilm) @ encode_corpus([query], minilm)[0], strict=True)
    )
    hits = search.search(QUERY)
    assert [h.id for h in hits] == sorted(TEXTS, key=lambda d: -cosines[d])
    assert [h.dense for h in hits] == pytest.approx([cosines[h.id] for h in hits], abs=1e-5)
    assert {h.bm25 for h in hits} == {0.0}
    other = ObliqueSearch(minilm, TEXTS, task="math").search(QUERY)
    assert {h.id: h.dense for h in other} != {h.id: h.dense for h in hits}
    assert search.search(QUERY, instruction=OBLIQUE_INSTRUCTIONS["math"]) == other


def test_excluded_documents_are_not_returned_and_move_no_score(minilm):
    search = ObliqueSearch(minilm, TEXTS, task="twitter")
    everything = search.search(QUERY, hybrid=0.2)
    first = everything[0].id
    assert search.search(QUERY, hybrid=0.2, exclude=[first, "not there"]) == everything[1:]
    assert {h.bm25 for h in everything} != {0.0}


def test_the_ranking_by_words_is_that_of_bm25(minilm):
    ranking = ObliqueSearch(minilm, TEXTS, task="twitter").rank("room milk the", with_bm25=True)
    expected = BM25(list(TEXTS.values()), list(TEXTS)).search("room milk the", 9)
    assert {h.id: h.score for h in ranking.by_words().hits(9)} == pytest.approx(dict(expected))
    assert len(ranking.hits(9)) == 3


def test_bad_oblique_questions(minilm):
    with pytest.raises(ValueError, match=r"got the oblique task 'tweeter', wanted .*Did you mean 'twitter'\?"):
        ObliqueSearch(minilm, TEXTS, task="tweeter")
    search = ObliqueSearch(minilm, TEXTS, task="twitter")
    with pytest.raises(ValueError, match="query: the text is empty"):
        search.search(" ")
    with pytest.raises(ValueError, match="instruction: the text is empty"):
        search.search(QUERY, instruction="")
    with pytest.raises(ValueError, match="got k = 0"):
        search.search(QUERY, k=0)
    with pytest.raises(ValueError, match="weight 2, wanted a number from 0 to 1"):
        search.search(QUERY, hybrid=2)


def test_other_levers_and_other_texts_share_the_model(tmp_path, minilm):
    run = write_run(tmp_path / "run")
    tuned = StanceSearch(run, TEXTS)
    half = tuned.at(adapter_scale=0.5)
    assert half.search(CLAIM) == StanceSearch(run, TEXTS, adapter_scale=0.5).search(CLAIM)
    assert half.documents is tuned.documents
    assert tuned.search(CLAIM) == StanceSearch(run, TEXTS).search(CLAIM), "the first search is left as it was"
    anchored = tuned.at(anchor=0.3)
    assert anchored.search(CLAIM) == StanceSearch(run, TEXTS, anchor=0.3).search(CLAIM)
    assert anchored.at(anchor=0).search(CLAIM) == tuned.search(CLAIM)
    texts = ["Cheese is made of milk.", "Meetings are long."]
    assert StanceSearch(half, texts).search(CLAIM) == StanceSearch(run, texts, adapter_scale=0.5).search(CLAIM)
    assert StanceSearch(anchored, texts).search(CLAIM) == StanceSearch(run, texts, anchor=0.3).search(CLAIM)
    oblique = ObliqueSearch(half, TEXTS, task="math", adapter_scale=0.7)
    assert oblique.search(CLAIM) == ObliqueSearch(run, TEXTS, task="math", adapter_scale=0.7).search(CLAIM)
    plain = StanceSearch(minilm, TEXTS)
    assert tuned.has_adapter and not plain.has_adapter
    with pytest.raises(ValueError, match="for a model without an adapter"):
        plain.at(adapter_scale=0.5)


def test_threads_with_different_levers_get_their_own_scores(tmp_path):
    tuned = StanceSearch(write_run(tmp_path / "run"), TEXTS)
    searches = [tuned, tuned.at(adapter_scale=0), tuned.at(anchor=0.5)]
    expected = [s.search(CLAIM) for s in searches]
    assert len({h[0].dense for h in expected}) > 1
    with ThreadPoolExecutor(6) as pool:
        for place, hits in [(i % 3, pool.submit(searches[i % 3].search, CLAIM)) for i in range(60)]:
            assert hits.result() == expected[place]


def test_ranks_are_those_of_the_whole_corpus_whatever_is_shown():
    documents = Documents({"b": "x", "a": "y", "c": "z", "d": "w"})
    score = np.array([0.5, 0.5, 0.9, -np.inf])
    ranking = Ranking(documents, score, np.zeros(4), score, 0.0)
    assert [h.id for h in ranking.hits(9)] == ["c", "a", "b"]
    assert [h.id for h in ranking.hits(2)] == ["c", "a"]
    assert [ranking.rank(i) for i in "cabd"] == [1, 2, 3, 4]
    shown = ranking.hits(1, among=np.array([True, False, False, True]))
    assert [(h.id, ranking.rank(h.id)) for h in shown] == [("b", 3)]
    assert [h.id for h in ranking.without(["c"]).hits(1)] == ["a"]
