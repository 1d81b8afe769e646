"""What the Space finds: searches, the dial, explanations, ones own corpus."""

from __future__ import annotations

import itertools
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from slant_space import corpora, render
from slant_space.about import about
from slant_space.corpus_view import telling
from slant_space.engine import Dial, Engine
from slant_space.interface import _header, build
from slant_space.once import Once
from slant_space.questions import POSITIONS, ObliqueQuestion, StanceQuestion
from slant_space.settings import read_settings

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, STANCES
from dataset_builders.sources import load, oblique
from hub_models import ObliqueSearch, StanceSearch
from hub_models.evaluation.ablation import word_deltas
from hub_models.evaluation.hybrid import Hybrid
from hub_models.evaluation.stance import judge
from hub_models.evaluation.stance_ranking import keys
from hub_models.evaluation.systems import Encoder
from hub_models.hub_cache import SAMPLE_BASE
from hub_models.retrieval import text_search
from tests.hub_models.evaluation.helpers import write_run
from tests.hub_models.retrieval.test_adaptive import fitted
from tests.spaces.conftest import SPACE
from tests.spaces.html import Elements, component, texts_of

CASES = SPACE.parents[1] / "tests" / "cases"
HOSTILE = [json.loads(line) for line in (CASES / "case26_hostile_texts.jsonl").read_text("utf-8").splitlines()]


def test_scores_and_ranks_are_those_of_the_search_over_the_whole_corpus(engine):
    claim = engine.dial.corpus.claims[3]
    answer = engine.stance(engine.dial, StanceQuestion(claim=claim, k=20, weight=0.3, style="natural"))
    texts = {d.id: d.text for d in engine.dial.corpus.documents.values()}
    plain, base = (StanceSearch(engine.settings.model, texts, adapter_scale=s) for s in (None, 0.0))
    for stance in STANCES:
        whole, other = (s.search(claim, stance, k=480, hybrid=0.3) for s in (plain, base))
        natural = [(r, h) for r, h in enumerate(whole, 1) if engine.dial.corpus.documents[h.id].style == "natural"]
        assert [(f.rank, f.hit.id) for f in answer.columns[stance]] == [(r, h.id) for r, h in natural[:20]]
        for found, (_, hit) in zip(answer.columns[stance], natural, strict=False):
            assert found.hit.score == pytest.approx(hit.score, abs=1e-4)
            assert sum(found.fused) == pytest.approx(hit.score, abs=1e-4)
            assert found.other_rank == [h.id for h in other].index(found.hit.id) + 1
    of_base = engine.stance(engine.dial, StanceQuestion(claim=claim, k=3, weight=0.3, model="base"))
    assert [f.hit.id for f in of_base.columns["attack"]] == [h.id for h in base.search(claim, k=3, hybrid=0.3)]


def test_order_and_badges_are_those_of_the_evaluation_at_the_same_weight(engine):
    judged = judge(load("sample"), "test")
    few = replace(judged, claims=judged.claims[:2], labels=judged.labels[:2], first=judged.first[:2])
    table = Hybrid(0.3).measure(few, Encoder(engine.settings.model)).table
    row = {key: i for i, key in enumerate(keys(table, "claim_id", "stance", "instruction_id"))}
    for claim, pair in itertools.product(few.claims, ("seen-01", "unseen-01")):
        question = StanceQuestion(claim=claim.claim, instruction=pair, weight=0.3, k=20)
        for stance, found in engine.stance(engine.dial, question).columns.items():
            at = row["all", claim.claim_id, stance, f"{stance}-{pair}"]
            assert [f.hit.id for f in found[:10]] == table["top"][at]
            right = [f.kind == "right" for f in found[: table["n_relevant"][at]]]
            assert len(right) == table["n_relevant"][at]
            assert np.mean(right) == pytest.approx(table["precision_at_r"][at])


def test_the_dial_is_the_adapters_scale_and_encodes_once(engine):
    claim = engine.dial.corpus.claims[0]
    half = engine.stance(engine.dial, StanceQuestion(claim=claim, scale=0.5))
    texts = {d.id: d.text for d in engine.dial.corpus.documents.values()}
    expected = StanceSearch(engine.settings.model, texts, adapter_scale=0.5).search(claim, "support", k=6)
    assert [f.hit.id for f in half.columns["support"]] == [h.id for h in expected]
    assert engine.dial.tuned(0.5) is engine.dial.tuned(0.5)
    assert engine.dial.tuned(None) is engine.dial.tuned(engine.scale) is engine.dial.released


def test_one_position_that_is_being_encoded_holds_up_no_other(engine, monkeypatch):
    """The encoder stands still at 0.75 until the others are through."""
    dial = Dial(engine.dial.corpus, engine.dial.released)
    begun, go_on, at = threading.Event(), threading.Event(), StanceSearch.at
    asked = []

    def blocked(self, *, adapter_scale, **levers):
        asked.append(adapter_scale)
        if adapter_scale == 0.75:
            begun.set()
            assert go_on.wait(60)
        return at(self, adapter_scale=adapter_scale, **levers)

    monkeypatch.setattr(StanceSearch, "at", blocked)
    question = StanceQuestion(claim="Tea is good.", k=3)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(engine.stance, dial, replace(question, scale=0.75)) for _ in range(2)]
        try:
            assert begun.wait(60)
            others = [replace(question, scale=0.5), replace(question, model="base"), replace(question, scale=0.0)]
            for other in others:
                assert pool.submit(engine.stance, dial, other).result(60).columns["attack"]
            assert not any(w.done() for w in waiting)
        finally:
            go_on.set()
        assert waiting[0].result(60).columns == waiting[1].result(60).columns
    assert asked == [0.75, 0.5], "each once, and the base, which is position 0, is held already"
    assert dial.tuned(0.0) is dial.base


def test_position_0_of_a_model_with_an_anchor_is_not_the_base(engine):
    anchored = engine.dial.released.at(anchor=0.5)
    dial = Dial(engine.dial.corpus, anchored)
    assert dial.tuned(0.0) is not dial.base
    assert (dial.tuned(0.0).levers.anchor, dial.base.levers.anchor) == (0.5, 0)


def test_things_are_made_once_the_last_ones_are_kept_and_a_failure_is_tried_again():
    made = []

    def make(key):
        made.append(key)
        if made == ["a"]:
            raise ValueError("not yet")
        return object()

    once = Once(make, 2)
    with pytest.raises(ValueError, match="not yet"):
        once("a")
    first = once("a")
    once("b")
    assert once("a") is first
    once("c")
    assert once("a") is first
    once("b")
    assert made == ["a", "a", "b", "c", "b"]


def test_what_is_prepared_is_encoded_no_second_time(tmp_path, monkeypatch):
    (tmp_path / "own.txt").write_text("Cars are loud.\nTea warms.\nBan cars.\n")
    run = write_run(tmp_path / "run", strength=0.2)
    pins = json.loads((run / "slant.json").read_text())
    (run / "slant.json").write_text(json.dumps(pins | {"prompts": OBLIQUE_INSTRUCTIONS | {"query": ""}}))
    engine = Engine(read_settings({"SLANT_CORPUS": str(tmp_path / "own.txt"), "SLANT_MODEL": str(run)}))
    assert engine.family == "oblique"
    engine.prepare()
    monkeypatch.setattr(StanceSearch, "at", None)
    monkeypatch.setattr(oblique, "load", None)
    for scale in POSITIONS:
        assert engine.stance(engine.dial, StanceQuestion(claim="Ban cars.", scale=scale, k=3)).remark == ""
    for task in OBLIQUE_INSTRUCTIONS:
        assert len(engine.oblique(ObliqueQuestion(task=task, query="tea", k=3)).columns) == 3


def test_auto_says_which_weight_it_took_and_compares_both_models_with_it(tmp_path):
    run = write_run(tmp_path / "run", strength=0.2)
    pins = json.loads((run / "slant.json").read_text())
    chosen = fitted(coefficients=[[-1.0] * 8, [0.0] * 8, [1.0, *[0.0] * 7]])  # always 0.3
    (run / "slant.json").write_text(json.dumps(pins | {"lambda_model": chosen.model_dump(mode="json")}))
    (tmp_path / "own.txt").write_text("Cars are loud.\nTea warms.\nBan cars.\n")
    engine = Engine(read_settings({"SLANT_CORPUS": str(tmp_path / "own.txt"), "SLANT_MODEL": str(run)}))
    question = StanceQuestion(claim="Ban cars.", auto=True, weight=0.9)
    answer = engine.stance(engine.dial, question)
    assert (answer.auto, answer.remark, answer.weight) == (True, "", {"support": 0.3, "attack": 0.3})
    assert "λ = 0.30, chosen automatically" in render.stance_results(answer)
    same = engine.stance(engine.dial, StanceQuestion(claim="Ban cars.", weight=0.3))
    assert same.columns == answer.columns
    box = component(build(engine), "auto")
    assert (box.interactive, box.info) == (True, None)
    turned = engine.stance(engine.dial, replace(question, scale=0.5))
    assert not turned.auto and "no automatic λ" in turned.remark, "it was fitted for another scale"


def test_auto_is_there_and_says_what_it_needs_where_there_is_no_lambda_model(engine):
    box = component(build(engine), "auto")
    assert (box.visible, box.interactive) == (True, False)
    assert box.info == "needs a λ model: python -m hub_models tune"


def test_what_cannot_be_done_is_remarked(engine):
    answer = engine.stance(engine.dial, StanceQuestion(claim="Tea is good.", auto=True, weight=0.2))
    assert answer.remark == "There is no automatic λ for these settings; λ = 0.2 was taken."
    assert not answer.auto and set(answer.weight.values()) == {0.2}
    with pytest.raises(ValueError, match="Type or pick a claim first"):
        engine.stance(engine.dial, StanceQuestion(claim=" \n"))
    with pytest.raises(ValueError, match="your words for support: the text is empty"):
        engine.stance(engine.dial, StanceQuestion(claim="Tea.", instruction="own", own_attack="Find"))
    with pytest.raises(ValueError, match="claim: got 100,001 characters, wanted at most 100,000"):
        engine.stance(engine.dial, StanceQuestion(claim="x" * 100_001))
    long = StanceQuestion(claim="Tea.", instruction="own", own_support="x" * 1_001, own_attack="x")
    with pytest.raises(ValueError, match="your words for support: got 1,001 characters, wanted at most 1,000"):
        engine.stance(engine.dial, long)
    with pytest.raises(ValueError, match="document: got 100,001 characters, wanted at most 100,000"):
        engine.explain(engine.dial, StanceQuestion(claim="Tea."), "attack", "x" * 100_001)


def test_an_explanation_is_the_ablation_and_switches_move_rank_and_cosine(engine):
    question = StanceQuestion(claim="Cities should ban cars.")
    document = next(iter(engine.dial.corpus.documents.values()))
    found = engine.explain(engine.dial, question, "attack", document.text)
    search = engine.dial.released
    expected = word_deltas(
        "Find evidence refuting", question.claim, document.text, search.encode, "{instruction} {claim}"
    )
    assert [w[:2] for w in found.words] == [e[:2] for e in expected]
    assert [w[2] for w in found.words] == pytest.approx([e[2] for e in expected], abs=1e-5)
    assert found.rank == search.rank(question.claim).rank(document.id)
    one = engine.explain(engine.dial, question, "attack", document.text, frozenset({2}))
    assert one.cosine_without - one.cosine == pytest.approx(found.words[2][2], abs=1e-5)
    shorter = search.rank(question.claim, instruction="Find evidence")
    assert one.rank_without == shorter.rank(document.id)
    with pytest.raises(ValueError, match="the instruction needs at least one word"):
        engine.explain(engine.dial, question, "attack", document.text, frozenset({0, 1, 2}))
    with pytest.raises(ValueError, match="the query has 103 words; up to 80 can be explained"):
        engine.explain(engine.dial, StanceQuestion(claim="x " * 100), "attack", document.text)
    alone = engine.explain(engine.dial, StanceQuestion(claim="Cars"), "attack", "A text of no corpus.")
    assert alone.words[-1] == ("claim", "Cars", None)
    assert alone.rank is None


def test_oblique_columns_are_those_of_the_search_without_the_querys_own_document(engine):
    task = oblique.load("sample", "math").restrict("test")
    query_id, query = next(iter(task.queries.items()))
    answer = engine.oblique(ObliqueQuestion(task="math", query=query.text, k=20))
    assert list(answer.columns) == ["bm25", "base", "tuned"]
    out = task.excluded[query_id]
    texts = {i: d.text for i, d in task.corpus.items()}
    expected = ObliqueSearch(engine.settings.model, texts, task="math").search(query.text, k=20, exclude=out)
    assert [f.hit.id for f in answer.columns["tuned"]] == [h.id for h in expected]
    assert out and not out & {f.hit.id for column in answer.columns.values() for f in column}
    for found in answer.columns["bm25"]:
        assert found.right == (task.qrels[query_id].get(found.hit.id, 0) > 0)
    typed = engine.oblique(ObliqueQuestion(task="math", query="A typed query", k=3))
    assert {f.right for column in typed.columns.values() for f in column} == {None}


def test_the_rank_of_the_first_relevant_document_is_that_over_the_whole_corpus(engine):
    task = oblique.load("sample", "congress").restrict("test")
    query_id, query = next(iter(task.queries.items()))
    relevant = {i for i, grade in task.qrels[query_id].items() if grade > 0}
    answer = engine.oblique(ObliqueQuestion(task="congress", query=query.text, k=3))
    texts = {i: d.text for i, d in task.corpus.items()}
    search = ObliqueSearch(engine.settings.model, texts, task="congress")
    ids = [h.id for h in search.search(query.text, k=len(texts), exclude=task.excluded.get(query_id, ()))]
    assert answer.first["tuned"] == min(ids.index(i) for i in relevant) + 1
    assert list(answer.first) == ["bm25", "base", "tuned"]
    assert engine.oblique(ObliqueQuestion(task="congress", query="A typed query", k=3)).first == {}
    page = render.oblique_results(replace(answer, first={"bm25": None, "base": 2, "tuned": 14}))
    assert [Elements(p).text for p in re.findall(r'<p class="sl-first">.*?</p>', page)] == [
        "finds nothing relevant", "first relevant: rank 2", "first relevant: rank 14"
    ]  # fmt: skip
    assert "Model tuned for stance" in page
    assert "Model tuned for oblique search" in render.oblique_results(replace(answer, family="oblique"))


def test_what_a_document_shares_with_a_query_is_counted_in_content_words(engine):
    """The query has three: committee, meets, spring."""
    texts = ["The committee sat.", "Meets of the Committee.", "He sat in the sea.", "Tea warms."]
    dial = engine.index("mine", [corpora.Document(text, text) for text in texts])
    found = engine.oblique(ObliqueQuestion(query="The committee meets in the spring.", k=4), dial)
    page = render.oblique_results(replace(found, columns={"base": found.columns["base"]}))
    said = dict(zip(texts_of("sl-text sl-long", page), texts_of("sl-about", page), strict=True))
    assert said == {
        "The committee sat.": "33% of the query’s content words",
        "Meets of the Committee.": "67% of the query’s content words",
        "He sat in the sea.": "function words only",
        "Tea warms.": "no word of the query",
    }


def test_ones_own_corpus_is_searched_like_any_other(engine):
    documents = [corpora.Document(row["_id"], row["text"]) for row in HOSTILE]
    dial = engine.index("mine.jsonl", documents)
    texts = {d.id: d.text for d in documents}
    answer = engine.stance(dial, StanceQuestion(claim="A word about scripts.", k=20))
    plain = StanceSearch(engine.settings.model, texts).search("A word about scripts.", k=20)
    assert [f.hit.id for f in answer.columns["attack"]] == [h.id for h in plain]
    own = engine.oblique(ObliqueQuestion(task="math", query="alert word", k=20), dial)
    expected = ObliqueSearch(engine.settings.model, texts, task="math").search("alert word", k=20)
    assert [f.hit.id for f in own.columns["tuned"]] == [h.id for h in expected]
    assert isinstance(dial, Dial) and dial is not engine.dial
    assert engine.chosen(dial, "own-1") is dial
    assert engine.chosen(dial, "sample") is engine.chosen(None, "sample") is engine.dial
    with pytest.raises(ValueError, match="Your corpus is no longer held; upload it again"):
        engine.chosen(None, "own-1")


def test_an_upload_hears_how_many_documents_are_done(engine, monkeypatch):
    monkeypatch.setattr(text_search, "_BLOCK", 2)
    heard, said = [], []
    documents = [corpora.Document(str(i), f"Document {i}.") for i in range(5)]
    dial = engine.index("mine", documents, heard.append)
    assert heard == [1, 2, 2, 3, 4, 5], "three blocks by the adapter, three by its base"
    dial.tuned(0.5)
    assert len(heard) == 6, "a dial that is turned later is another visit's"
    tell = telling(lambda share, desc: said.append((share, desc)), 2_000)
    for done in (0, 312, 2_000):
        tell(done)
    assert said == [(0, "0 of 2,000 documents"), (0.156, "312 of 2,000 documents"), (1, "2,000 of 2,000 documents")]


def test_a_model_without_an_adapter_has_one_column_and_no_moves(tmp_path):
    (tmp_path / "own.txt").write_text("Cars are loud.\nTea warms.\n")
    plain = Engine(read_settings({"SLANT_CORPUS": str(tmp_path / "own.txt"), "SLANT_MODEL": SAMPLE_BASE}))
    answer = plain.stance(plain.dial, StanceQuestion(claim="Cars are loud.", model="base", scale=0.5))
    assert [f.other_rank for f in answer.columns["support"]] == [None, None]
    assert answer.remark == "The dial is off for this corpus or model."
    for own in (plain.dial, None):  # a corpus that the Space was given is searched in every view
        columns = plain.oblique(ObliqueQuestion(query="tea", k=3), own).columns
        assert list(columns) == ["bm25", "model"]
        assert {f.hit.text for f in columns["model"]} == {"Cars are loud.", "Tea warms."}
    page = about(plain)
    assert "without an adapter" in page and f'<a href="https://huggingface.co/{SAMPLE_BASE}/tree/' in page
    assert "own.txt: 2 documents, 0 labelled claims" in page
    assert "The sample was written for this project" not in page
    assert component(build(plain), "search-in").choices == [("own.txt", "sample")]
    assert "<bdi>own.txt: 2 documents</bdi>" in _header(plain, plain.dial.corpus)


def test_a_corpus_goes_by_its_name(engine):
    assert component(build(engine), "search-in").choices == [("Sample", "sample")]
    assert "<bdi>Sample: 480 documents</bdi>" in _header(engine, engine.dial.corpus)
    mine = corpora.Corpus("<mine>.csv", {"1": corpora.Document("1", "Tea warms.")})
    assert "<bdi>&lt;mine&gt;.csv: 1 documents</bdi>" in _header(engine, mine)
