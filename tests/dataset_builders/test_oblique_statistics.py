"""Overlap of queries and documents, and BM25 against a random order, on values worked by hand."""

from __future__ import annotations

from itertools import permutations
from statistics import mean

import ir_measures
import pytest
from ir_measures import nDCG

from dataset_builders.oblique.statistics import bm25_ndcg, content_words, entities, overlap, random_ndcg
from dataset_builders.sources.obliq_bench import ObliqueTask, ObliqueText


def make(
    corpus: dict[str, str],
    queries: dict[str, str],
    qrels: dict[str, dict[str, int]],
    excluded: dict[str, frozenset[str]] | None = None,
) -> ObliqueTask:
    def texts(rows: dict[str, str]) -> dict[str, ObliqueText]:
        return {i: ObliqueText(t, None, None, {}) for i, t in rows.items()}

    return ObliqueTask("math", texts(corpus), texts(queries), qrels, excluded or {})


def test_content_words_are_long_alphabetic_and_no_function_words() -> None:
    assert content_words("The Senator's 40 mules, which were NOT sold; été 3D") == {"senator", "mules", "sold"}


def test_entities_are_inside_a_sentence_or_years() -> None:
    text = (
        "Calder Street closed in 1987. The mayor, Ann Pell, said: “I'm glad. We met in New Harbor, and I left.” B12 60"
    )
    assert entities(text) == {"Ann Pell", "New Harbor", "1987"}
    assert entities("We left The Hague, and saw Élodie Åberg.") == {"Hague", "Élodie Åberg"}


def test_overlap_worked_by_hand() -> None:
    document = "The warden of Gull Island counted seventy lanterns in 1902."
    found = overlap("A guardian at Gull Island counts lanterns, whatever happens.", document)
    # query: guardian gull island counts lanterns happens; document: warden gull island counted seventy lanterns
    assert found.jaccard == pytest.approx(3 / 9)
    assert found.coverage == pytest.approx(3 / 6)
    assert found.stem_coverage == pytest.approx(4 / 6)  # count-s
    assert found.leaked == ("Gull Island",)
    assert overlap("Of it.", document).coverage == 0.0
    assert overlap("Around 1902, on some island", document).leaked == ("1902",)


def test_bm25_ranks_all_and_leaves_out_the_excluded() -> None:
    corpus = {"d3": "tea and milk", "d1": "coal", "d2": "snow", "d4": "tea"}
    task = make(corpus, {"q": "tea", "none": "opera"}, {"q": {"d3": 1, "d2": 1}, "none": {"d2": 1}})
    # q: d4, d3, then what matches nothing by id: d1, d2
    discounts = {2: 0.6309298, 4: 0.4306766}
    found = bm25_ndcg(task)
    assert found["q"] == pytest.approx((discounts[2] + discounts[4]) / (1 + discounts[2]), abs=1e-6)
    assert found["none"] == pytest.approx(discounts[2], abs=1e-6)  # d1, d2, d3, d4
    without = bm25_ndcg(make(corpus, {"q": "tea"}, {"q": {"d3": 1, "d2": 1}}, {"q": frozenset({"d4", "d1"})}))
    assert without["q"] == pytest.approx(1.0)


def test_a_query_without_judgements_has_zero() -> None:
    task = make({"d1": "tea", "d2": "coal"}, {"q": "tea", "bare": "coal"}, {"q": {"d1": 1}})
    assert bm25_ndcg(task) == {"q": pytest.approx(1.0), "bare": 0.0}
    assert random_ndcg(task)["bare"] == 0.0


def test_the_expected_ndcg_is_the_mean_over_all_orders() -> None:
    ids = [f"d{i}" for i in range(6)]
    task = make(
        dict.fromkeys(ids, "tea"), {"q": "tea"}, {"q": {"d0": 2, "d1": 1, "d2": 1, "d3": 0}}, {"q": frozenset({"d5"})}
    )
    runs = {str(n): {d: -float(rank) for rank, d in enumerate(order)} for n, order in enumerate(permutations(ids[:5]))}
    qrels = {n: task.qrels["q"] for n in runs}
    oracle = mean(m.value for m in ir_measures.iter_calc([nDCG @ 10], qrels, runs))
    assert random_ndcg(task)["q"] == pytest.approx(oracle)


def test_the_expected_ndcg_cuts_at_ten() -> None:
    task = make({f"d{i:02d}": "tea" for i in range(40)}, {"q": "tea"}, {"q": {"d00": 1}})
    assert random_ndcg(task)["q"] == pytest.approx(4.543559 / 40, abs=1e-6)  # sum of 1 / log2(rank + 1), ranks 1 to 10
