from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataset_builders.lexical import BM25, PaperBM25, paper_tokenize, tokenize

CASES = Path(__file__).parent.parent / "cases"
EDGES = json.loads((CASES / "case20_bm25_edges.json").read_text(encoding="utf-8"))
NEGATION = json.loads((CASES / "case31_negation.json").read_text(encoding="utf-8"))


def test_every_negation_stays_a_token() -> None:
    assert len({tuple(tokenize(t)) for t in NEGATION["all_different"]}) == len(NEGATION["all_different"])
    for a, b in NEGATION["pairs_that_must_differ"]:
        assert sorted(set(tokenize(a))) != sorted(set(tokenize(b)))


def test_a_curly_apostrophe_a_ligature_and_case_change_nothing() -> None:
    assert tokenize("CAN’T ﬁx COVID-19") == ["can't", "fix", "covid", "19"]


def test_k_is_clipped_to_the_corpus() -> None:
    index = BM25(EDGES["corpus"], ["d1", "d2", "d3"])
    assert [i for i, _ in index.search("cats bark uniforms", EDGES["k"])] != []
    assert len(index.search("cats bark uniforms", EDGES["k"])) == 3


@pytest.mark.parametrize("query", EDGES["queries_that_match_nothing"])
def test_a_query_without_a_match_finds_nothing(query: str) -> None:
    index = BM25(EDGES["corpus"], ["d1", "d2", "d3"])
    assert index.search(query, EDGES["k"]) == []
    assert index.scores(query).tolist() == [0, 0, 0]


@pytest.mark.parametrize("corpus", EDGES["corpora_without_a_term"])
def test_a_corpus_without_a_word_is_refused(corpus: list[str]) -> None:
    with pytest.raises(ValueError, match=r"none of the . documents has a word"):
        BM25(corpus, [str(i) for i in range(len(corpus))])


def test_there_is_no_stop_list() -> None:
    assert [i for i, _ in BM25(EDGES["corpus_with_one_term"], ["d1", "d2"]).search("the", 10)] == ["d2"]


def test_ties_go_by_id_whatever_the_order_of_the_corpus() -> None:
    ties = EDGES["ties"]
    assert [i for i, _ in BM25(ties["corpus"], ties["ids"]).search(ties["query"], ties["k"])] == ties["expected"]
    shuffled = BM25(ties["corpus"], ["d2", "d10", "d1", "d3"]).search("alpha", 10)
    assert [i for i, _ in shuffled] == ["d1", "d10", "d2", "d3"]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="got 1 texts and 2 ids"):
        BM25(["a"], ["1", "2"])
    with pytest.raises(ValueError, match=r"ids must be distinct; doubled: \['1'\]"):
        BM25(["a", "b"], ["1", "1"])
    with pytest.raises(ValueError, match="got k = 0, wanted at least 1"):
        BM25(["a"], ["1"]).search("a", 0)


def reference(texts: list[str], query: str, k1: float = 1.5, b: float = 0.75) -> list[float]:
    """BM25 as Lucene defines it, one document after the other."""
    tokens = [tokenize(t) for t in texts]
    average = sum(map(len, tokens)) / len(tokens)
    scores = []
    for document in tokens:
        score = 0.0
        for term in tokenize(query):
            df = sum(term in other for other in tokens)
            tf = document.count(term)
            idf = math.log(1 + (len(tokens) - df + 0.5) / (df + 0.5))
            score += idf * tf / (tf + k1 * (1 - b + b * len(document) / average))
        scores.append(score)
    return scores


sentences = st.lists(st.sampled_from(["a", "ban", "not", "guns", "can't", "the"]), max_size=8).map(" ".join)


@given(st.lists(sentences, min_size=1, max_size=8).filter(lambda texts: any(texts)), sentences)
def test_scores_are_those_of_the_formula(texts: list[str], query: str) -> None:
    ids = [f"d{i}" for i in range(len(texts))]
    index = BM25(texts, ids)
    expected = reference(texts, query)
    scores = index.scores(query)
    assert scores.dtype == np.float32 and scores.shape == (len(texts),)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    found = index.search(query, len(texts))
    assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))
    assert {i for i, _ in found} == {i for i, s in zip(ids, expected, strict=True) if s > 0}


# -- the stance paper's own ----------------------------------------------------------------------------------------


def test_the_papers_words_are_of_letters_alone() -> None:
    text = "It can't be: U.S. don't COVID-19, well-being (yes!) 'quoted' end. Cannot word,word it’s 1,000 they'll"
    words = ["it", "ca", "be", "do", "yes", "quoted", "end", "can", "not", "word", "word", "it", "they"]
    assert paper_tokenize(text) == words


def test_the_papers_weights_by_hand() -> None:
    """rank_bm25's BM25Okapi: k1 1.5, b .75, and a quarter of the mean weight instead of a negative one."""
    texts = ["ban guns guns", "ban tea", "ban zoos", "no"]  # lengths 3, 2, 2, 1: a mean of 2
    rare, frequent = math.log(3.5 / 1.5), math.log(1.5 / 3.5)  # in one of four documents, in three of four
    floor = 0.25 * (4 * rare + frequent) / 5  # guns, tea, zoos, no; ban
    first = 1.5 * (0.25 + 0.75 * 3 / 2)
    expected = [floor * 2.5 / (1 + first) + rare * 2 * 2.5 / (2 + first), floor * 2.5 / 2.5, floor * 2.5 / 2.5, 0.0]
    index = PaperBM25(texts)
    np.testing.assert_allclose(index.scores("Ban guns."), expected, rtol=1e-6)
    np.testing.assert_allclose(index.scores("ban guns ban guns"), 2 * np.array(expected), rtol=1e-6)
    assert not index.scores("COVID-19 xyz").any() and not index.scores("").any()


def test_the_papers_bm25_needs_a_word() -> None:
    with pytest.raises(ValueError, match="none of the 2 documents has a word"):
        PaperBM25(["1984", "..."])


def test_in_how_many_documents_a_querys_words_stand() -> None:
    index = BM25(["ban guns now", "guns guns", "tea"], ["a", "b", "c"])
    assert index.document_frequencies("guns tea unheard guns ban").tolist() == [2, 1, 0, 1]
    assert index.document_frequencies("?").tolist() == []
