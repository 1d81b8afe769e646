"""Settings, uploads, links, pages and the engine, without a server."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
import re
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from slant_space import corpora, render
from slant_space.about import about
from slant_space.corpus_view import telling
from slant_space.engine import Dial, Engine, Explanation, Found, StanceAnswer, as_oblique_rows, as_rows
from slant_space.interface import STYLE, _header, build, theme
from slant_space.oblique_view import LENSES
from slant_space.once import Once
from slant_space.questions import PAIRS, POSITIONS, ObliqueQuestion, StanceQuestion
from slant_space.settings import read_settings

from dataset_builders.instructions import INSTRUCTIONS, OBLIQUE_INSTRUCTIONS, STANCES
from dataset_builders.sources import load, oblique
from hub_models import ObliqueSearch, StanceSearch
from hub_models.evaluation.ablation import reliance, word_deltas
from hub_models.evaluation.hybrid import Hybrid
from hub_models.evaluation.stance import judge
from hub_models.evaluation.stance_ranking import keys
from hub_models.evaluation.systems import Encoder
from hub_models.hub_cache import SAMPLE_BASE
from hub_models.retrieval import text_search
from hub_models.retrieval.ranking import Hit
from tests.hub_models.evaluation.helpers import write_run
from tests.hub_models.retrieval.test_adaptive import fitted
from tests.spaces.conftest import SPACE

CASES = SPACE.parents[1] / "tests" / "cases"
HOSTILE, IN_TABLES = (
    [json.loads(line) for line in (CASES / name).read_text("utf-8").splitlines()]
    for name in ("case26_hostile_texts.jsonl", "case30_card_rows.jsonl")
)


class _Elements(HTMLParser):
    """The tags and the text of a piece of HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.handlers, self.words = [], [], []
        self.feed(html)
        self.text = "".join(self.words)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data):
        self.words.append(data)


# -- settings ------------------------------------------------------------------------------------------------------


def test_the_model_is_the_named_one_else_the_released_one_else_the_quickstart_else_the_base(tmp_path):
    here, run = tmp_path / "space", tmp_path / "quickstart"
    here.mkdir()
    plain = read_settings({}, here, run)
    assert (plain.model, plain.model_name) == (SAMPLE_BASE, SAMPLE_BASE)
    assert "plain, not tuned" in plain.note
    run.mkdir()
    (run / "adapter_model.safetensors").touch()
    assert read_settings({}, here, run).model == str(run)
    assert read_settings({}, here, run).model_name == "quickstart", "no path of this machine"
    (here / "release.json").write_text(json.dumps({"model": "org/name", "revision": "v1", "files": []}))
    released = read_settings({}, here, run)
    assert (released.model, released.revision, released.note) == ("org/name", "v1", "")
    named = read_settings({"SLANT_MODEL": "other/name", "SLANT_REVISION": "v2"}, here, run)
    assert (named.model, named.revision) == ("other/name", "v2")
    with pytest.raises(FileNotFoundError, match=r"SLANT_CORPUS=.*absent: there is no such file"):
        read_settings({"SLANT_CORPUS": str(tmp_path / "absent")})


# -- corpora -------------------------------------------------------------------------------------------------------


def test_documents_are_read_from_three_formats():
    text = b"\xef\xbb\xbfOne.\r\n\r\n two, \xe2\x80\xa8three \n"
    assert [(d.id, d.text) for d in corpora.read_documents("a.TXT", text)] == [
        ("1", "One."),
        ("2", "two, \u2028three"),
    ]
    table = b'id,text,style\nx,"a ""quoted"", text",natural\n,"two\nlines",\n'
    assert [(d.id, d.text, d.style) for d in corpora.read_documents("a.csv", table)] == [
        ("x", 'a "quoted", text', "natural"), ("2", "two\nlines", None)
    ]  # fmt: skip
    bare = b"text,id\r\n\r\n,,\r\nx,\r\n".replace(b",,", b",")
    assert [(d.id, d.text) for d in corpora.read_documents("a.csv", bare)] == [("1", "x")]
    assert [d.id for d in corpora.read_documents("a.jsonl", b'{"text": "x", "id": 0}\n{"text": "y"}')] == ["0", "2"]
    lines = "".join(json.dumps(row) + "\n" for row in HOSTILE).encode()
    found = corpora.read_documents("a.jsonl", lines)
    assert [d.id for d in found] == ["x1", "x2", "x3", "x4"]
    assert found[3].text == "<b>title</b> 1 < 2, and lt is a word"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.exe", b"x", r"got a file of type '.exe', wanted one of"),
        ("a.txt", b"\xff\xfe", "it is no UTF-8 text"),
        ("a.txt", "M\xf6bel".encode("latin-1"), r"it is no UTF-8 text \(.* at byte 1\); save it as UTF-8"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\x00", "it is no UTF-8 text"),
        ("a.txt", b"", "there is no document in it"),
        ("a.csv", b"", r"got the columns \[\], wanted one called `text`"),
        ("a.csv", b"x" * 200_000, "it is no CSV that can be read"),
        ("a.csv", b'text\n"never closed\nx\n', "it is no CSV that can be read"),
        ("a.csv", b"text,id\nFirst, a comma,1\n", "row 1: it has more fields than the head has columns"),
        ("a.csv", b'text\n""\nx\n"  "y"', "it is no CSV that can be read"),
        ("a.jsonl", b'{"body": "x"}', "line 1: text: got NoneType None, wanted a text"),
        ("a.jsonl", b"[" * 100_000, "line 1: it is no JSON"),
        ("a.jsonl", b'{"text": "x", "id": "\\ud800"}', "line 1: id: the text holds a lone surrogate"),
        ("a.jsonl", b'{"text": "x", "id": {"a": 1}}', "line 1: id: got dict"),
        ("a.txt", b"\n \n", "there is no document in it"),
        ("a.txt", b"x" * 10_001, "line 1: got 10,001 characters, wanted at most 10,000"),
        ("a.txt", b"x\n" * 2_001, "more than 2,000 documents"),
        ("a.txt", b"x" * (4 * 2**20 + 1), "got 4,194,305 bytes, wanted at most 4,194,304"),
        ("a.csv", b"words\nx\n", r"got the columns \['words'\], wanted one called `text`"),
        ("a.csv", b"text,id\nx,1\ny,1\n", "row 2: the id '1' is there twice"),
        ("a.jsonl", b'{"text": "x"}\n{"text"', "line 2: it is no JSON"),
        ("a.jsonl", b"[" * 100_000, "line 1: it is no JSON that can be read"),
        ("a.jsonl", b'["x"]', "line 1: got list, wanted an object"),
        ("a.jsonl", b'{"text": 3}', "line 1: text: got int 3, wanted a text"),
    ],
)
def test_faulty_uploads_are_refused_in_words(name, content, words):
    with pytest.raises(ValueError, match=words):
        corpora.read_documents(name, content)


def test_the_corpus_is_that_of_the_tables_and_knows_what_is_right(engine, tmp_path):
    corpus = engine.dial.corpus
    assert (len(corpus.documents), len(corpus.claims)) == (480, 40)
    first = corpus.claims[0]
    kinds = {corpus.kind(first.upper().rstrip("."), "attack", d) for d in corpus.documents}
    assert kinds == {"right", "wrong stance", "wrong topic"}
    assert corpus.kind("Nobody asked this.", "attack", next(iter(corpus.documents))) is None
    (tmp_path / "own.txt").write_text("One.\nTwo.\n")
    assert list(corpora.open_corpus(tmp_path / "own.txt").documents) == ["1", "2"]
    row = {"claim": "Tea is good.", "support": ["It warms."], "attack": ["It stains."]}
    (tmp_path / "claims.jsonl").write_text(json.dumps(row) + "\n")
    assert corpora.open_corpus(tmp_path / "claims.jsonl").claims == ["Tea is good."]


# -- links ---------------------------------------------------------------------------------------------------------

QUESTIONS = st.builds(
    StanceQuestion,
    claim=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    instruction=st.sampled_from([*PAIRS, "own"]),
    own_attack=st.text("ab &=?#%+é", max_size=9),
    model=st.sampled_from(["tuned", "base"]),
    weight=st.floats(0, 1),
    auto=st.booleans(),
    scale=st.none() | st.floats(0, 1.5),
    style=st.sampled_from(["", "natural"]),
    k=st.integers(3, 20),
)


@given(QUESTIONS)
def test_a_link_gives_the_question_again(question):
    assert StanceQuestion.of_address(question.address()) == question
    assert ObliqueQuestion.of_address(question.address()) is None


def test_a_text_that_is_too_long_for_a_link_gets_none_and_no_shorter_one(engine):
    assert StanceQuestion(claim="x" * 2_000).address() == f"?view=stance&claim={'x' * 2_000}"
    assert StanceQuestion(claim="x" * 2_001).address() == ""
    long, short = (engine.oblique(ObliqueQuestion(query=f"tea {'x ' * n}", k=3)) for n in (1_000, 10))
    assert "data-address" not in render.oblique_results(long)
    assert "This text is too long for a link." in render.oblique_results(long)
    assert "data-address" in render.oblique_results(short)
    assert "too long" not in render.oblique_results(long, link=False)


@given(st.text(max_size=60))
def test_any_address_is_read_or_ignored(address):
    for link in (address, f"?view=stance&{address}", f"?view=oblique&k={address}&task={address}"):
        for kind in (StanceQuestion, ObliqueQuestion):
            assert isinstance(kind.of_address(link), (kind, type(None)))


def test_what_is_out_of_range_is_brought_into_it_and_what_is_unknown_left_out():
    link = "?view=stance&weight=7&k=1e9&scale=-3&model=gpt&instruction=%3Cscript%3E&auto=maybe&claim=a&claim=b"
    assert StanceQuestion.of_address(link) == StanceQuestion(claim="a", weight=1, k=20, scale=0)
    assert StanceQuestion.of_address("?view=stance&weight=nan&k=inf") == StanceQuestion()


def test_the_pickers_hold_all_instructions_and_tasks():
    assert sorted(t for pair in PAIRS.values() for t in pair.values()) == sorted(i.text for i in INSTRUCTIONS)
    assert sorted(t for tasks in LENSES.values() for t in tasks) == sorted(OBLIQUE_INSTRUCTIONS)


# -- engine --------------------------------------------------------------------------------------------------------


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


def component(page, elem_id):
    """A part of the page."""
    return next(block for block in page.blocks.values() if getattr(block, "elem_id", None) == elem_id)


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
    assert [_Elements(p).text for p in re.findall(r'<p class="sl-first">.*?</p>', page)] == [
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
    said = dict(zip(_texts("sl-text sl-long", page), _texts("sl-about", page), strict=True))
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


# -- pages ---------------------------------------------------------------------------------------------------------


def test_the_about_page_names_base_data_licences_and_papers(engine, monkeypatch):
    page = about(engine)
    pinned = json.loads((Path(engine.settings.model) / "slant.json").read_text())
    revision = pinned["base_revision"]
    link = f'<a href="https://huggingface.co/{pinned["base"]}/tree/{revision}"><code>{pinned["base"]}</code></a>'
    assert f"A LoRA adapter on {link}, revision <code>{revision}</code>, licence not stated." in page
    assert "The sample: 480 documents, 40 labelled claims. The sample was written for this project" in page
    assert 'and is <a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>' in page
    assert re.findall(r"<li><b>(\w+)</b>, asked by", page) == [task for tasks in LENSES.values() for task in tasks]
    assert {"2608.28283", "2609.29649"} <= set(re.findall(r'href="https://arxiv.org/abs/([\d.]+)"', page))
    hostile = '"><script>alert(1)</script>'
    data = {"name": "org/rows", "config": hostile, "rows": 9_600, "licence": "cc-by-4.0", "revision": hostile}
    pins = {"base": "/home/me/bases/own", "base_revision": None, "base_licence": "mit", "data": [data]}
    monkeypatch.setattr("slant_space.about.slant_json", lambda *_, **__: pins)
    monkeypatch.setattr("slant_space.about._of_card", lambda *_: "apache-2.0")
    page = about(engine)
    assert "<code>run</code>, licence apache-2.0. A LoRA adapter on <code>own</code>, licence mit." in page
    assert "/home/me" not in page and '<a href="https://huggingface.co/datasets/org/rows/tree/' in page
    assert "9,600 rows, licence cc-by-4.0</li>" in page
    assert "script" not in _Elements(page).tags and hostile in _Elements(page).text


def test_the_files_of_an_oblique_answer_hold_its_rows(engine):
    answer = engine.oblique(ObliqueQuestion(query="=tea, \N{SNOWMAN}", k=3))
    links = dict(
        re.findall(
            r'download="oblique-search\.(csv|json)" href="data:[^"]*;base64,([^"]*)"', render.oblique_results(answer)
        )
    )
    files = {kind: base64.b64decode(content).decode() for kind, content in links.items()}
    rows = as_oblique_rows(answer)
    assert json.loads(files["json"]) == rows and len(rows) >= 6
    assert [row["id"] for row in csv.DictReader(io.StringIO(files["csv"]))] == [row["id"] for row in rows]


def test_words_are_marked_after_escaping():
    assert render.highlight("1 < 2, and lt is a word", {"lt"}) == "1 &lt; 2, and <mark>lt</mark> is a word"
    assert render.highlight("amp & Amp", {"amp"}) == "<mark>amp</mark> &amp; <mark>Amp</mark>"


@given(st.text(max_size=60), st.sets(st.sampled_from(["lt", "amp", "script", "a", "b"])))
def test_a_marked_text_reads_as_it_was(text, words):
    page = _Elements(str(render.highlight(text, words)))
    assert set(page.tags) <= {"mark"}
    assert page.text == text


@pytest.mark.parametrize(
    "text", [row["text"] for row in HOSTILE + IN_TABLES] + ['" onmouseover="alert(1)', "{{value}} ${value}"]
)
def test_hostile_texts_are_text_in_every_page(engine, text):
    dial = engine.index("mine", [corpora.Document(text, text, source=text), corpora.Document("x", "Tea warms.")])
    question = StanceQuestion(claim=text, instruction="own", own_support=text, own_attack=text, k=3)
    stance = render.stance_results(engine.stance(dial, question))
    why = (
        render.explanation(engine.explain(dial, question, "attack", text, frozenset({1})), text, "attack")
        if (" " in text)
        else ""
    )
    asked = render.oblique_results(engine.oblique(ObliqueQuestion(query=text, k=3), dial))
    assert f"<bdi>{render.escape(text)}</bdi>" in stance, "what reads from right to left turns nothing around it"
    for html in (stance, why, asked, render.message(text)):
        page = _Elements(html)
        assert not {"img", "script", "b"} & set(page.tags) - ({"b"} if html in (stance, why) else set())
        assert not page.handlers
    assert text in _Elements(stance).text


def _texts(css, page):
    """What stands in the elements of a class, one after the other; none may hold another of its kind."""
    found = re.findall(rf'<(\w+) class="{css}"[^>]*>(.*?)</\1>', page)
    return [_Elements(inner).text for _, inner in found]


def test_a_result_shows_its_badge_its_move_and_what_its_score_is_made_of():
    def found(rank, other_rank, kind, fused):
        hit = Hit(f"d{rank}", "Zoos help.", dense=0.5, bm25=2.0, score=sum(fused))
        return Found(hit, fused, rank, other_rank, kind, corpora.Document(hit.id, hit.text, source="post"))

    column = [
        found(2, 5, "right", (0.75, 0.25)),
        found(3, 1, "wrong stance", (0.6, 0.0)),
        found(4, 4, "wrong topic", (0.1, 0.3)),
        found(5, None, None, (0.0, 0.0)),
    ]
    question = StanceQuestion(claim="Zoos matter.", source="post", scale=0.5)
    page = render.stance_results(StanceAnswer(question, {"support": column}, {"support": 0.5}, False, ""))
    hits = page.split('<li class="sl-hit">')[1:]
    assert re.findall(r'<span class="sl-rank"[^>]*>(\d+)</span>', page) == ["2", "3", "4", "5"]
    moves = [re.findall(r'sl-move sl-(\w+)" title="([^"]*)"><span aria-hidden="true">([^<]*)<', hit) for hit in hits]
    assert moves == [
        [("up", "rank 5 in the base model", "↑ 3")],
        [("down", "rank 1 in the base model", "↓ 2")],
        [("same", "rank 4 in the base model", "=")],
        [],
    ]
    badges = [
        re.findall(r'sl-badge sl-([\w-]+)" title="[^"]*"><span aria-hidden="true">(.)</span> ([\w ]+)<', h)
        for h in hits
    ]
    assert badges == [
        [("right", "✓", "right side")],
        [("wrong-stance", "⇄", "wrong stance")],
        [("wrong-topic", "≠", "wrong topic")],
        [],
    ]
    parts = [tuple(re.findall(r"<dd>([\d.]+)</dd>", hit)) for hit in hits]
    assert parts == [("0.500", "2.00", score) for score in ("1.000", "0.600", "0.400", "0.000")]
    shares = [tuple(re.findall(r"width:(\d+)%", hit)) for hit in hits]
    assert shares == [("75", "25"), ("100", "0"), ("25", "75"), ("0", "0")]
    assert 'aria-label="Why rank 2 in support?"' in hits[0]
    assert _texts("sl-took", page) == ["λ = 0.50 · adapter 0.5 · only post"]


def explained(stance_word, kind="wrong stance", claim=("Zoos", "help")):
    """Deleting “refuting” moves the cosine by ``stance_word``, the three others by 0.01, -0.02 and 0.04."""
    deltas = [("instruction", "Find", 0.01), ("instruction", "refuting", stance_word)]
    deltas += [("claim", claim[0], -0.02), ("claim", claim[1], 0.04)]
    return Explanation(deltas, reliance(deltas), 0.8765, 3, kind, frozenset(), 0.8765, 3)


@pytest.mark.parametrize(
    ("stance_word", "ris", "rcs", "di", "sentence", "bar"),
    [
        # |0.01| + |0.03| of 0.1 are the instruction's; the bar begins in the middle and reaches its end at 0.1
        (-0.03, 40, 60, "-0.030, nearer", "The stance word draws this document nearer", ("35", "15")),
        (0.05, 50, 50, "+0.050, away", "The stance word pushes this document away", ("50", "25")),
        (0.33, 85, 15, "+0.330, away", "The stance word pushes this document away", ("50", "50")),
        (0.0, 14, 86, "0", "The stance word does nothing.", ("50", "0")),
    ],
)
def test_gauges_say_how_much_comes_from_where_and_which_way_the_stance_word_goes(
    stance_word, ris, rcs, di, sentence, bar
):
    page = render.explanation(explained(stance_word), "Zoos help.", "attack")
    heads, sentences = _texts("sl-gauge-head", page), re.findall(r"</div><p>([^<]*)</p>", page)
    assert heads == [
        f"RIS relative instruction sensitivity{ris / 100:.2f}",
        f"RCS relative claim sensitivity{rcs / 100:.2f}",
        f"DI direction: mean Δ of the stance words{di}",
    ]
    assert sentences[0] == f"{ris}% of what the words do here comes from the instruction."
    assert sentences[1] == f"{rcs}% of what the words do here comes from the claim."
    assert sentences[2].startswith(sentence)
    bars = re.findall(r"margin-left:(\d+)%;width:(\d+)%", page)
    assert bars == [("0", str(ris)), ("0", str(rcs)), bar]


def test_why_names_side_rank_and_badge_beside_the_text():
    page = render.explanation(explained(-0.03), "Zoos help.", "attack")
    head = re.search(r'<div class="sl-head">(.*?)</div>', page)[1]
    assert _Elements(head).text == "▼ Attack3⇄ wrong stance"
    typed = replace(explained(-0.03, kind=None), rank=None)
    head = re.search(r'<div class="sl-head">(.*?)</div>', render.explanation(typed, "Zoos help.", "support"))[1]
    assert _Elements(head).text == "▲ Support"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ban cars", "ltr"),
        ("יש לאסור", "rtl"),
        ("2. يجب منع", "rtl"),
        ("“cars” יש", "ltr"),
        ("42", "ltr"),
        ("", "ltr"),
    ],
)
def test_words_run_as_their_first_letter_does(text, expected):
    assert render.direction(text) == expected


def test_the_words_of_a_hebrew_claim_run_from_right_to_left_and_their_instruction_does_not():
    page = render.explanation(explained(-0.03, claim=("יש", "לאסור")), "Zoos help.", "attack")
    assert re.findall(r'<div class="sl-words" dir="(\w+)">', page) == ["ltr", "rtl"]


def test_tables_are_strict_and_no_formula_is_left(engine):
    dial = engine.index("mine", [corpora.Document("1", "=HYPERLINK(1)"), corpora.Document("2", "plain, text")])
    rows = as_rows(engine.stance(dial, StanceQuestion(claim="Tea is good.", k=3)))
    found = list(csv.DictReader(io.StringIO(render.csv_of(rows))))
    assert {r["text"] for r in found} == {"'=HYPERLINK(1)", "plain, text"}
    assert [float(r["score"]) for r in found] == [r["score"] for r in rows]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert render.csv_of([]) == ""


def contrast(one, other):
    """The ratio of WCAG 2, from 1 to 21."""

    def luminance(colour):
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_colours_have_contrast_in_light_and_dark():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    sheet = STYLE.read_text(encoding="utf-8")
    for scheme in (":root", ".dark"):
        block = re.search(rf"^{re.escape(scheme)} \{{(.*?)\}}", sheet, re.S | re.M)[1]
        colours = dict(re.findall(r"--sl-([a-z]+): (#[0-9a-f]{6})", block))
        for text in ("ink", "soft", "support", "attack", "accent", "warn"):
            for ground in ("card", "page"):
                assert contrast(colours[text], colours[ground]) >= 4.5, (scheme, text, ground)
        assert contrast(colours["ink"], colours["mark"]) >= 4.5
    for knob in ("-webkit-slider-thumb", "-moz-range-thumb"):  # its ground is a card, its colour a text's
        assert re.search(rf"::{knob} \{{ background-color: var\(--sl-accent\) !important; \}}", sheet)


@pytest.mark.parametrize("dark", [False, True])
def test_what_gradio_draws_has_contrast_too(dark):
    rules = re.findall(r"([^{}]+)\{([^}]*)\}", theme()._get_theme_css())
    values = {}
    for selector, body in rules:
        if dark or ".dark" not in selector:
            values |= {k: v.strip() for k, v in re.findall(r"--([\w-]+):\s*([^;]+);", body)}

    def colour(name):
        value = values[name]
        while found := re.fullmatch(r"var\(--([\w-]+)\)", value):
            value = values[found[1]]
        return {"white": "#ffffff", "black": "#000000"}.get(value, value)

    for text, ground in [
        ("button-primary-text-color", "button-primary-background-fill"),
        ("button-primary-text-color-hover", "button-primary-background-fill-hover"),
        ("block-title-text-color", "block-background-fill"),
        ("block-label-text-color", "block-label-background-fill"),
        ("block-info-text-color", "block-background-fill"),
        ("body-text-color", "input-background-fill"),
        ("body-text-color-subdued", "block-background-fill"),
        ("input-placeholder-color", "input-background-fill"),
        ("checkbox-label-text-color", "checkbox-label-background-fill"),
        ("checkbox-label-text-color-selected", "checkbox-label-background-fill-selected"),
    ]:
        assert contrast(colour(text), colour(ground)) >= 4.5, (text, ground)


def test_the_hub_can_install_what_the_package_wants_beside_what_it_adds_itself():
    """It installs gradio's extras `oauth` and `mcp` in one go with the requirements: bounds that exclude one another
    would leave the Space without a build."""
    project = tomllib.loads((SPACE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    ours |= {
        r.name: r.specifier & ours.get(r.name, SpecifierSet())
        for line in (SPACE / "requirements.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
        for r in [Requirement(line)]
    }
    added = [
        r
        for r in map(Requirement, requires("gradio") or [])
        if r.name in ours
        and (r.marker is None or any(r.marker.evaluate({"extra": extra}) for extra in ("oauth", "mcp")))
    ]
    assert {"mcp", "pydantic"} <= {r.name for r in added}
    for theirs in added:
        both = theirs.specifier & ours[theirs.name]
        assert any(both.contains(bound.version) for bound in both), (theirs.name, str(both))


def test_the_space_is_a_folder_that_the_hub_takes():
    import yaml

    head = yaml.safe_load((SPACE / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert head["sdk"] == "gradio" and head["app_file"] == "app.py" and head["models"]
    pins = Path(SPACE.parents[1] / "constraints.txt").read_text(encoding="utf-8")
    assert f"gradio=={head['sdk_version']}\n" in pins
    assert not any(path.name == "__init__.py" for path in (SPACE, SPACE.parent) for path in path.glob("*.py"))
