from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.ablation_loop import ablation_metrics
from dataset_builders.instructions import STANCE_WORDS, UNSEEN, Instruction
from dataset_builders.sources import load
from hub_models.evaluation import ablation as module
from hub_models.evaluation.ablation import Ablation, ablate, deletions, reliance, word_deltas
from hub_models.evaluation.ablation_results import read_ablation
from hub_models.evaluation.figures import draw
from hub_models.evaluation.report import report
from hub_models.evaluation.results import Results
from hub_models.evaluation.run import evaluate_model, load_tasks
from hub_models.evaluation.stance import judge
from tests.hub_models.evaluation.helpers import TINY, argument, claim, made, random_data, write_run, write_short_form
from tests.tiny import install_tiny

TEMPLATE = "{instruction} {claim}"
METRICS = ("ris", "rcs", "di_positive", "di_hard")
REJECT = Instruction("attack-1", "Find statements rejecting", "attack", False, "rejecting")


def hashed(texts):
    """A unit vector of its own for each text."""
    seeds = [int.from_bytes(hashlib.sha256(t.encode()).digest()[:8], "big") for t in texts]
    vectors = np.stack([np.random.default_rng(seed).normal(size=16) for seed in seeds])
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def counting(encode):
    texts = []

    def encode_and_count(batch):
        texts.extend(batch)
        return encode(batch)

    return encode_and_count, texts


# -- words -----------------------------------------------------------------------------------------------------------


def test_a_word_is_deleted_by_its_position_and_the_query_formatted_again():
    found = deletions("Find a\ta", "No  cars, no", "Q: {instruction}\nC: {claim}")
    assert [(d.part, d.word, d.text) for d in found] == [
        ("instruction", "Find", "Q: a a\nC: No  cars, no"),
        ("instruction", "a", "Q: Find a\nC: No  cars, no"),
        ("instruction", "a", "Q: Find a\nC: No  cars, no"),
        ("claim", "No", "Q: Find a\ta\nC: cars, no"),
        ("claim", "cars,", "Q: Find a\ta\nC: No no"),
        ("claim", "no", "Q: Find a\ta\nC: No cars,"),
    ]


def test_a_part_of_a_single_word_stays_whole():
    assert [d.part for d in deletions("Rejecting", "Ban cars", TEMPLATE)] == ["claim", "claim"]
    assert [d.part for d in deletions("Find rejecting", " Ban ", TEMPLATE)] == ["instruction", "instruction"]
    assert deletions("Rejecting", "Ban", TEMPLATE) == []


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=5), st.lists(st.sampled_from("{c}"), max_size=5))
def test_each_word_is_deleted_once(instruction, words):
    found = deletions(" ".join(instruction), " ".join(words), TEMPLATE)
    for part, all_of in (("instruction", instruction), ("claim", words)):
        assert [d.word for d in found if d.part == part] == (all_of if len(all_of) > 1 else [])
    assert all(len(d.text.split()) == len(instruction) + len(words) - 1 for d in found)


def test_every_unseen_instruction_has_one_stance_word():
    """So that a DI is one word's Δ (S 3.3)."""
    for instruction in UNSEEN:
        words = [w for w in instruction.text.split() if module.is_stance_word(w)]
        assert words == [instruction.stance_word]
    assert {"arguing", "against", "favor", "backing"} <= STANCE_WORDS
    assert module.is_stance_word("Backing") and not module.is_stance_word("evidence")


# -- one query by hand -----------------------------------------------------------------------------------------------

COSINES = {  # with the first document, with the second
    "Find rejecting tea kills": (0.5, 0.6),
    "rejecting tea kills": (0.6, 0.5),
    "Find tea kills": (0.2, 0.8),
    "Find rejecting kills": (0.5, 0.3),
    "Find rejecting tea": (0.4, 0.6),
    "against it": (1.0, 0.0),
    "for it": (0.0, 1.0),
}
"""Δ of Find, rejecting, tea, kills: .1 -.3 0 -.1 with the first document, -.1 .2 -.3 0 with the second."""

ONE = Instruction("attack-1", "Find rejecting", "attack", False, "rejecting")


def by_hand(texts):
    return np.array([COSINES[t] for t in texts], np.float32)


def one_query(stances=(("a1", "c1", "attack"), ("a2", "c1", "support"))):
    arguments = [argument("a1", "against it", "natural"), argument("a2", "for it", "explicit")]
    return judge(made([claim("c1", "tea kills")], arguments, stances), "test")


def test_metrics_worked_by_hand():
    found = ablate(one_query(), by_hand, TEMPLATE, [ONE])
    assert found.table["kind"].tolist() == ["positive", "hard"]
    assert found.table["ris"].tolist() == pytest.approx([0.8, 0.5], abs=1e-6)
    assert found.table["rcs"].tolist() == pytest.approx([0.2, 0.5], abs=1e-6)
    assert found.table["di"].tolist() == pytest.approx([-0.3, 0.2], abs=1e-6)
    overall = found.metrics("overall")
    assert list(overall) == list(METRICS)
    assert [overall[m].mean for m in METRICS] == pytest.approx([0.65, 0.35, -0.3, 0.2], abs=1e-6)
    assert overall["ris"].std == pytest.approx(np.std([0.8, 0.5], ddof=1), abs=1e-6)
    assert [overall[m].n for m in METRICS] == [2, 2, 1, 1]
    natural = found.metrics("style=natural")
    assert natural["ris"].mean == pytest.approx(0.8, abs=1e-6)
    assert natural["di_hard"].mean is None and "no document" in natural["di_hard"].reason
    assert found.metrics("support")["ris"].n == 0
    with pytest.raises(ValueError, match="got the slice 'style=other', wanted one of"):
        found.metrics("style=other")


def test_one_query_and_one_document_give_words_and_deltas():
    found = word_deltas("Find rejecting", "tea kills", "against it", by_hand, TEMPLATE)
    assert [(part, word) for part, word, _ in found] == [
        ("instruction", "Find"), ("instruction", "rejecting"), ("claim", "tea"), ("claim", "kills")
    ]  # fmt: skip
    assert [delta for *_, delta in found] == pytest.approx([0.1, -0.3, 0.0, -0.1], abs=1e-6)
    table = ablate(one_query(), by_hand, TEMPLATE, [ONE]).table
    assert table["deltas"][0].tolist() == pytest.approx([delta for *_, delta in found], abs=1e-6)
    read = reliance(found)
    assert (read.ris, read.rcs, read.di) == pytest.approx((0.8, 0.2, -0.3), abs=1e-6)
    for name in ("ris", "rcs", "di"):
        assert getattr(read, name) == pytest.approx(table[name][0], abs=1e-6)


def test_without_a_stance_word_there_is_no_di():
    assert reliance([("instruction", "Find", 0.1), ("claim", "rejecting", -0.1)]).di is None
    assert (reliance([]).ris, reliance([]).rcs) == (0, 0), "nothing was deleted"


def test_a_document_labelled_both_ways_is_what_it_is_labelled_first():
    for first, kind in (("support", "hard"), ("attack", "positive")):
        second = {"support": "attack", "attack": "support"}[first]
        judged = one_query([("a1", "c1", first), ("a1", "c1", second), ("a2", "c1", "support")])
        assert judged.labels.tolist() == [[3, 1]]
        assert ablate(judged, by_hand, TEMPLATE, [ONE]).table["kind"].tolist() == [kind, "hard"]
    assert (
        judged.revision
        != one_query([("a1", "c1", "support"), ("a1", "c1", "attack"), ("a2", "c1", "support")]).revision
    )


def test_single_words_are_skipped_and_counted():
    short = [Instruction("attack-0", "Rejecting", "attack", False, "Rejecting"), REJECT]
    data = made(
        [claim("c1", "Tea"), claim("c2")],
        [argument("a"), argument("b")],
        [("a", "c1", "attack"), ("b", "c2", "support")],
    )
    found = ablate(judge(data, "test"), hashed, TEMPLATE, short)
    assert found.skipped == {"instruction": 2, "claim": 2}
    rows = {q: i for i, q in enumerate(found.table["query_id"])}
    ris, rcs = found.table["ris"], found.table["rcs"]
    only = [rows["c1-attack-0"]], [rows["c2-attack-0"]]
    assert ris[only[0]] == rcs[only[0]] == 0, "nothing could be deleted"
    assert (ris[only[1]], rcs[only[1]]) == (0, pytest.approx(1, abs=1e-6))
    assert np.isnan(found.table["di"][[rows["c1-attack-0"], rows["c2-attack-0"]]]).all()
    assert found.metrics("overall")["di_positive"].n == 1


def test_a_claim_without_arguments_is_not_asked_about():
    data = made([claim("c1"), claim("c2")], [argument("a")], [("a", "c1", "attack")])
    assert set(ablate(judge(data, "test"), hashed, TEMPLATE).table["claim_id"]) == {"c1"}


# -- against the obvious loop ----------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_the_triple_loop_agrees(seed):
    judged = judge(random_data(seed, n_claims=4, n_arguments=8), "test")
    if not judged.labels.any():
        return
    found = ablate(judged, hashed, TEMPLATE)
    ours, theirs = found.metrics("overall"), ablation_metrics(judged, hashed, TEMPLATE)
    for metric in METRICS:
        assert (ours[metric].mean, ours[metric].std) == pytest.approx(theirs[metric], abs=1e-6), metric
    assert found.table["ris"] + found.table["rcs"] == pytest.approx(1, abs=1e-6)


def test_blocks_change_nothing_and_share_what_they_share(monkeypatch):
    judged = judge(random_data(3, n_claims=8, n_arguments=12), "test")
    whole, together = counting(hashed)
    expected = ablate(judged, whole, TEMPLATE).table
    monkeypatch.setattr(module, "_BLOCK", 1)
    in_blocks, apart = counting(hashed)
    found = ablate(judged, in_blocks, TEMPLATE).table
    assert sorted(apart) == sorted(together)
    for name, column in expected.items():
        assert all(np.array_equal(a, b) for a, b in zip(found[name], column, strict=True)), name


def test_only_distinct_texts_are_encoded_on_the_sample():
    """Documents, full queries and ablated ones: as many as there are different strings, and nothing else."""
    judged = judge(load("sample"), "test")
    encode, texts = counting(hashed)
    found = ablate(judged, encode, TEMPLATE)
    wanted = {d.text for d, related in zip(judged.documents, judged.labels.any(axis=0), strict=True) if related}
    for asked in judged.claims:
        for i in UNSEEN:
            words = f"{i.text} {asked.claim}".split()
            wanted |= {" ".join(words), *(" ".join(words[:n] + words[n + 1 :]) for n in range(len(words)))}
    assert Counter(texts) == Counter(wanted)
    assert found.texts == len(wanted)
    assert len(found.table["ris"]) == 40 * 10 * 8
    assert {m.n for m in found.metrics("overall").values()} == {3200, 400}


def test_equal_texts_of_two_documents_are_encoded_once():
    data = made(
        [claim("c1"), claim("c2")],
        [argument("a", "same"), argument("b", "Same")],
        [("a", "c1", "attack"), ("b", "c2", "support")],
    )
    judged = judge(data, "test")
    judged = replace(judged, documents=[replace(d, text="same") for d in judged.documents])
    encode, texts = counting(hashed)
    ablate(judged, encode, TEMPLATE, [REJECT])
    assert texts.count("same") == 1


# -- in an evaluation ------------------------------------------------------------------------------------------------


@pytest.fixture
def tasks(tmp_path):
    return load_tasks(["mine-stance"], write_short_form(tmp_path / "mine.jsonl", 2), "test")


def test_an_evaluation_adds_the_metrics_to_the_dense_run_of_model_and_baseline(tasks, tmp_path):
    run = write_run(tmp_path / "run", strength=0.3)
    found = evaluate_model(str(run), tasks, baseline=install_tiny(TINY), out=tmp_path / "out", ablation=True)
    for results, folder in ((found.results, found.folder), (found.baseline, found.baseline_folder)):
        dense = Results.read(folder / "results.json").tasks["mine-stance"].run("dense")
        for name, metrics in dense.slices.items():
            assert set(METRICS) <= set(metrics) or name == "instructions=seen"
        table = read_ablation(folder, dense)
        again = Ablation(table, dense.diagnostics["ablation"]["skipped"], dense.diagnostics["ablation"]["texts"])
        for name in again.slices():
            assert again.metrics(name) == {m: dense.slices[name][m] for m in METRICS}
        assert dense == results.tasks["mine-stance"].run("dense")

    text = report(found.results, "mine-stance", found.baseline)
    assert max(map(len, text.splitlines())) <= 119
    dense = found.results.tasks["mine-stance"].run("dense").slices["overall"]
    cells = [f"{dense[m].mean:.3f} ± {dense[m].std:.2f}" for m in METRICS]
    assert any(line.split() == ["tuned", *" ".join(cells).split()] for line in text.splitlines())
    stems = [f"mine-stance-{name}.png" for name in ("composition", "top5", *FIGURES)]
    assert [path.name for path in draw(found, "mine-stance")] == stems


FIGURES = ("ablation-sensitivity", "ablation-direction", "ablation-heatmap")


def test_an_evaluation_encodes_only_what_is_new(tasks, tmp_path, encoded):
    found = evaluate_model(install_tiny(TINY), tasks, out=tmp_path / "out", ablation=True)
    assert len(encoded) == len(set(encoded))
    judged = tasks["mine-stance"]
    counted, texts = counting(hashed)
    ablate(judged, counted, TEMPLATE)
    assert set(texts) <= set(encoded)
    assert found.results.tasks["mine-stance"].run("dense").diagnostics["ablation"]["texts"] == len(texts)


def test_it_is_added_to_what_was_measured_and_not_measured_again(tasks, tmp_path, encoded):
    before = evaluate_model(install_tiny(TINY), tasks, out=tmp_path / "out").results.tasks["mine-stance"]
    assert "ris" not in before.run("dense").slices["overall"]
    evaluate_model(install_tiny(TINY), tasks, out=tmp_path / "out", ablation=True)
    encoded.clear()
    after = evaluate_model(install_tiny(TINY), tasks, out=tmp_path / "out", ablation=True).results.tasks["mine-stance"]
    assert not encoded
    assert "ris" in after.run("dense").slices["overall"]
    assert after.run("dense").per_query == before.run("dense").per_query
    (tmp_path / "out" / after.run("dense").diagnostics["ablation"]["per_query"]["path"]).unlink()
    evaluate_model(install_tiny(TINY), tasks, out=tmp_path / "out", ablation=True)
    assert encoded, "a table that is gone is measured anew"


def test_only_an_encoder_on_a_stance_task_can_be_ablated(tasks, tmp_path):
    with pytest.raises(ValueError, match="got 'bm25' on mine-stance and --ablation, wanted an encoder"):
        evaluate_model("bm25", tasks, out=tmp_path / "out", ablation=True)
    with pytest.raises(ValueError, match="--ablation, wanted an encoder and a stance task"):
        evaluate_model("any", load_tasks(["sample-obliq-math"], None, "test"), out=tmp_path / "out", ablation=True)
    found = evaluate_model(install_tiny(TINY), tasks, baseline="bm25", out=tmp_path / "out", ablation=True)
    assert "ris" in found.results.tasks["mine-stance"].run("dense").slices["overall"]
    assert "RIS" in report(found.results, "mine-stance", found.baseline), "beside a baseline that has none"
