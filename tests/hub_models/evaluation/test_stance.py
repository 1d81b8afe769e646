from __future__ import annotations

import math

import numpy as np
import pytest

from dataset_builders.instructions import INSTRUCTIONS, STANCES, UNSEEN
from dataset_builders.text import text_key
from hub_models.evaluation.metrics import COMPOSITION, STANCE_METRICS, ndcg, precision_at_r, rank
from hub_models.evaluation.stance import ALL, judge, queries_of
from hub_models.evaluation.stance_ranking import ORACLE, TOPIC
from hub_models.evaluation.stance_runs import evaluate
from hub_models.evaluation.stance_table import compare, diagnostics, slices_of, summarise
from tests.hub_models.evaluation.helpers import argument, claim, made, random_data, random_encoder

TEMPLATE = "{instruction} {claim}"


def _row(table, query_id, candidates=ALL):
    (i,) = np.flatnonzero((table["query_id"] == query_id) & (table["candidates"] == candidates))
    return {name: column[i] for name, column in table.items()}


# -- what is searched in -------------------------------------------------------------------------------------------


def test_the_corpus_of_test_is_test_and_validation_and_that_of_validation_its_own():
    data = made(
        [claim("c1", split="test"), claim("c2", split="validation"), claim("c3", split="train")],
        [argument("a1"), argument("a2"), argument("a3")],
        [("a1", "c1", "support"), ("a2", "c2", "attack"), ("a3", "c3", "support")],
    )
    test, validation = judge(data, "test"), judge(data, "validation")
    assert [c.claim_id for c in test.claims] == ["c1"]
    assert [d.argument_id for d in test.documents] == ["a1", "a2"]
    assert [c.claim_id for c in validation.claims] == ["c2"]
    assert [d.argument_id for d in validation.documents] == ["a2"]


def test_data_without_splits_is_all_test():
    data = made([claim("c1", split=None), claim("c2", split=None)], [argument("a")], [("a", "c1", "support")])
    assert len(judge(data, "test").claims) == 2
    with pytest.raises(ValueError, match="the data has no splits: every claim is test"):
        judge(data, "validation")


def test_what_cannot_be_judged_says_why():
    half = made([claim("c1", split=None), claim("c2", split="test")], [argument("a")], [("a", "c1", "support")])
    with pytest.raises(ValueError, match="1 of 2 claims have no split"):
        judge(half, "test")
    train = made([claim("c1", split="train")], [argument("a")], [("a", "c1", "support")])
    with pytest.raises(ValueError, match=r"the split 'test' has no claim; got \{'train': 1\}"):
        judge(train, "test")
    with pytest.raises(ValueError, match="no claim of the split 'test' has an argument"):
        judge(made([claim("c1")], [argument("a")], []), "test")


def test_the_revision_follows_texts_and_labels():
    def revision(text="A text.", stance="support"):
        return judge(made([claim("c")], [argument("a", text)], [("a", "c", stance)]), "test").revision

    assert revision() == revision()
    assert len({revision(), revision(text="Another."), revision(stance="attack")}) == 3


def test_sides_without_an_argument_are_left_out_and_counted():
    data = made(
        [claim("c1"), claim("c2")],
        [argument("a1", style="explicit"), argument("a2", style="natural")],
        [("a1", "c1", "support"), ("a2", "c1", "attack"), ("a2", "c2", "support")],
    )
    judged = judge(data, "test")
    assert judged.counts() == {
        "split": "test",
        "claims": 2,
        "documents": 2,
        "queries": 15,
        "left_out": {"support": 0, "attack": 1},
        "style": {
            "explicit": {"documents": 1, "queries": 5, "left_out": {"support": 1, "attack": 2}},
            "natural": {"documents": 1, "queries": 10, "left_out": {"support": 1, "attack": 1}},
        },
    }
    table = evaluate(judged, TEMPLATE, random_encoder(0))["dense"].table
    slices = slices_of(table)
    assert {name: int(rows.sum()) for name, rows in slices.items()} == {
        "overall": 15,
        "support": 10,
        "attack": 5,
        "style=explicit": 5,
        "style=natural": 10,
        "instructions=seen": 30,
    }


def test_queries_are_formatted_once_for_each_instruction():
    judged = judge(made([claim("c", "Ban it.")], [argument("a")], [("a", "c", "attack")]), "test")
    queries = queries_of(judged, "Instruct: {instruction}\nQuery: {claim}")
    wanted = [i for i in INSTRUCTIONS if i.stance == "attack"]
    assert [q.text for q in queries] == [f"Instruct: {i.text}\nQuery: Ban it." for i in wanted]
    assert [q.text for q in queries_of(judged, None)] == ["Ban it."]


# -- values --------------------------------------------------------------------------------------------------------


def _by_hand():
    """One claim in the test split with R = 2 for support, and a neighbour; every score is set by hand."""
    data = made(
        [claim("c"), claim("n", split="validation")],
        [argument(i) for i in ("p1", "p2", "h", "s", "e")],
        [
            ("p1", "c", "support"),
            ("p2", "c", "support"),
            ("h", "c", "attack"),
            ("s", "n", "support"),
            ("e", "n", "attack"),
        ],
    )
    judged = judge(data, "test")
    angle = {"Argument h.": 0.1, "Argument s.": 0.2, "Argument p1.": 0.3, "Argument e.": 0.4, "Argument p2.": 0.5}

    def encode(texts):
        turns = np.array([angle.get(text, 0.0) for text in texts])
        return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)

    return judged, encode


def test_values_by_hand():
    judged, encode = _by_hand()
    measured = evaluate(judged, TEMPLATE, encode)
    row = _row(measured["dense"].table, "c-support-unseen-01")
    assert row["top"] == ["h", "s", "p1", "e", "p2"]
    assert row["n_relevant"] == 2
    assert [row[f"{name}_at_r"] for name in COMPOSITION] == [0, 0.5, 0.5, 0]
    gained = 1 / math.log2(4) + 1 / math.log2(6)
    assert row["ndcg_at_10"] == pytest.approx(gained / (1 + 1 / math.log2(3)))
    # Without h and e the order is s, p1, p2: one of the first two is right. The claim has three arguments, of which
    # the first three hold two.
    bare = _row(measured["claim_only"].table, "c-support")
    assert (bare[ORACLE], bare[TOPIC]) == (0.5, pytest.approx(2 / 3))
    assert (row[ORACLE], row[TOPIC]) == (bare[ORACLE], bare[TOPIC])
    assert bare["instruction_id"] is None


def test_the_oracle_ranks_by_the_base_and_everything_else_by_the_encoder():
    judged, encode = _by_hand()

    def base(texts):
        return encode([{"Argument p1.": "Argument h.", "Argument s.": "Argument p2."}.get(t, t) for t in texts])

    table = evaluate(judged, TEMPLATE, encode, base)["claim_only"].table
    row = _row(table, "c-support")
    assert row[ORACLE] == 1.0  # p1 first, then p2 and s tie and the id decides
    assert row["precision_at_r"] == 0.0
    assert row[TOPIC] == pytest.approx(2 / 3)


def test_a_style_is_a_corpus_of_its_own():
    data = made(
        [claim("c")],
        [argument("a1", style="explicit"), argument("a2", style="natural"), argument("a3", style="natural")],
        [("a1", "c", "support"), ("a2", "c", "support"), ("a3", "c", "attack")],
    )

    def encode(texts):  # the explicit argument first, then a2, then a3
        turns = np.array([{"Argument a1.": 0.1, "Argument a2.": 0.2, "Argument a3.": 0.3}.get(t, 0.0) for t in texts])
        return np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)

    table = evaluate(judge(data, "test"), TEMPLATE, encode)["dense"].table
    assert _row(table, "c-attack-unseen-01")["precision_at_r"] == 0
    assert _row(table, "c-attack-unseen-01", "natural")["top"] == ["a2", "a3"]
    assert _row(table, "c-support-unseen-01", "natural")["n_relevant"] == 1
    assert _row(table, "c-support-unseen-01", "natural")["precision_at_r"] == 1
    assert not ((table["query_id"] == "c-attack-unseen-01") & (table["candidates"] == "explicit")).any()


def test_equal_texts_tie_and_the_id_decides():
    documents = [argument(f"a{i}", "Same text.") for i in range(40)]
    relations = [(f"a{i}", "c", "support") for i in range(40)]
    judged = judge(made([claim("c")], documents, relations), "test")
    table = evaluate(judged, TEMPLATE, random_encoder(1, dim=384))["dense"].table
    assert table["top"][0] == sorted(f"a{i}" for i in range(40))[:10]
    assert diagnostics(table)["ties"] == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_an_obviously_right_reference(seed, monkeypatch):
    """Every query on its own, with dictionaries and the plain metrics."""
    monkeypatch.setattr("hub_models.evaluation.stance_ranking._BLOCK", 100)  # several blocks
    data, encode = random_data(seed), random_encoder(seed)
    judged = judge(data, "test")
    measured = evaluate(judged, TEMPLATE, encode, random_encoder(seed + 100))
    corpus = data.restrict({"test", "validation"})
    labels = corpus.labels()
    split = {c.claim_id: c.split for c in data.claims}
    wanted_of = {}
    for c in (c for c in corpus.claims if c.split == "test"):
        for i in INSTRUCTIONS:
            wanted_of[f"{c.claim_id}-{i.id}"] = (c, i.stance, f"{i.text} {c.claim}", "dense")
        for s in STANCES:
            wanted_of[f"{c.claim_id}-{s}"] = (c, s, c.claim, "claim_only")
    asked = {"dense": 0, "claim_only": 0}
    for style in (None, "explicit", "natural"):
        documents = [a for a in corpus.arguments if style in (None, a.style)]
        for query_id, (c, stance, text, strategy) in wanted_of.items():
            positive = {d.argument_id for d in documents if stance in labels[c.claim_id].get(d.argument_id, ())}
            if not positive:
                continue
            asked[strategy] += 1

            def scores(encoder, query, documents=documents):
                vector = encoder([query])[0]
                similarity = encoder([d.text for d in documents]) @ vector
                by_text = {text_key(d.text): float(s) for d, s in zip(documents, similarity, strict=True)}
                return {d.argument_id: by_text[text_key(d.text)] for d in documents}

            def kind(doc, c=c, stance=stance):
                here = labels[c.claim_id].get(doc, set())
                if stance in here:
                    return "precision"
                if here:
                    return "hard"
                return "semi_hard" if any(stance in of.get(doc, ()) for of in labels.values()) else "easy"

            run = {query_id: scores(encode, text)}
            qrels = {query_id: dict.fromkeys(positive, 1)}
            order = rank(run[query_id])
            row = _row(measured[strategy].table, query_id, style or ALL)
            assert row["top"] == order[:10]
            assert row["ndcg_at_10"] == pytest.approx(ndcg(qrels, run).mean)
            assert row["precision_at_r"] == pytest.approx(precision_at_r(qrels, run).mean)
            assert row["precision_at_r_cap10"] == pytest.approx(precision_at_r(qrels, run, cap=10).mean)
            for name in COMPOSITION:
                share = sum(kind(d) == name for d in order[: len(positive)]) / len(positive)
                assert row[f"{name}_at_r"] == pytest.approx(share)
            base_order = rank(scores(random_encoder(seed + 100), c.claim))
            right = [d for d in base_order if kind(d) in ("precision", "semi_hard")][: len(positive)]
            assert row[ORACLE] == pytest.approx(sum(d in positive for d in right) / len(positive))
            topic = {d.argument_id for d in documents if labels[c.claim_id].get(d.argument_id)}
            first = rank(scores(encode, c.claim))[: len(topic)]
            assert row[TOPIC] == pytest.approx(sum(d in topic for d in first) / len(topic))
    assert asked == {strategy: len(found.table["query_id"]) for strategy, found in measured.items()}
    assert "train" in split.values()


def test_a_nan_from_the_encoder_is_an_error():
    judged, encode = _by_hand()

    def broken(texts):
        return np.where(np.array([t == "Argument s." for t in texts])[:, None], np.nan, encode(texts)).astype(
            np.float32
        )

    with pytest.raises(ValueError, match="the score is NaN; the encoder returned no usable vector"):
        evaluate(judged, TEMPLATE, broken)


# -- reading the table ---------------------------------------------------------------------------------------------


def test_means_and_stds_are_over_queries_of_unseen_instructions():
    judged = judge(random_data(3), "test")
    table = evaluate(judged, TEMPLATE, random_encoder(3))["dense"].table
    rows = (table["candidates"] == ALL) & np.isin(table["instruction_id"], [i.id for i in UNSEEN])
    metric = summarise(table)["overall"]["precision_at_r"]
    assert metric.mean == pytest.approx(table["precision_at_r"][rows].mean())
    assert metric.std == pytest.approx(table["precision_at_r"][rows].std(ddof=1))
    assert metric.n == rows.sum()
    for metrics in summarise(table).values():
        assert sum(metrics[f"{name}_at_r"].mean for name in COMPOSITION) == pytest.approx(1)
        assert set(metrics) == {*STANCE_METRICS, ORACLE, TOPIC}


def test_spreads_over_instructions_and_claims_stand_apart():
    table = {
        "candidates": np.array([ALL] * 4, object),
        "seen": np.zeros(4, bool),
        "stance": np.array(["attack"] * 4, object),
        "claim_id": np.array(["c1", "c1", "c2", "c2"], object),
        "instruction_id": np.array(["attack-unseen-01", "attack-unseen-02"] * 2, object),
        "tied": np.array([True, False, False, False]),
        "precision_at_r": np.array([0.0, 0.2, 0.8, 1.0]),
    }
    found = diagnostics(table)
    assert found["ties"] == 0.25
    assert found["by_instruction"] == {"attack-unseen-01": pytest.approx(0.4), "attack-unseen-02": pytest.approx(0.6)}
    assert found["spread_over_claims"] == pytest.approx(np.std([0.1, 0.9], ddof=1))
    assert found["spread_over_instructions"] == {"support": None, "attack": pytest.approx(np.std([0.4, 0.6], ddof=1))}


def test_differences_are_paired_and_resample_claims():
    judged = judge(random_data(4, n_claims=12, n_arguments=60), "test")
    ours = evaluate(judged, TEMPLATE, random_encoder(1))["dense"].table
    theirs = evaluate(judged, TEMPLATE, random_encoder(2))["dense"].table
    shuffled = {name: column[::-1] for name, column in theirs.items()}
    found = {(c.slice, c.metric): c for c in compare(ours, shuffled, "base", resamples=500)}
    overall = found["overall", "precision_at_r"]
    mine, other = summarise(ours), summarise(theirs)
    assert overall.delta == pytest.approx(
        mine["overall"]["precision_at_r"].mean - other["overall"]["precision_at_r"].mean
    )
    assert (overall.unit, overall.resamples, overall.level, overall.seed) == ("claim", 500, 0.95, 0)
    assert overall.n_units == len(set(ours["claim_id"]))
    assert overall.low < overall.delta < overall.high
    assert {slice_name for slice_name, _ in found} == set(mine)
    for c in compare(ours, ours, "itself", resamples=50):
        assert (c.delta, c.low, c.high, c.p) == (0, 0, 0, 1)


def test_one_claim_has_no_interval_and_says_why():
    judged, encode = _by_hand()
    table = evaluate(judged, TEMPLATE, encode)["dense"].table
    found = compare(table, table, "itself")[0]
    assert (found.low, found.reason) == (None, "one claim gives nothing to resample")


def test_a_baseline_on_other_queries_is_refused():
    first = evaluate(judge(random_data(1), "test"), TEMPLATE, random_encoder(1))["dense"].table
    second = evaluate(judge(random_data(1, n_claims=9), "test"), TEMPLATE, random_encoder(1))["dense"].table
    with pytest.raises(ValueError, match=r"'b' answered \d+ queries, this run \d+, of which \d+ are the same"):
        compare(first, second, "b")
