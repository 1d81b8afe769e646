"""What the Space takes in: settings, corpora, links."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slant_space import corpora, render
from slant_space.oblique_view import LENSES
from slant_space.questions import PAIRS, ObliqueQuestion, StanceQuestion
from slant_space.settings import read_settings

from dataset_builders.instructions import INSTRUCTIONS, OBLIQUE_INSTRUCTIONS
from hub_models.hub_cache import SAMPLE_BASE
from tests.spaces.conftest import SPACE

CASES = SPACE.parents[1] / "tests" / "cases"
HOSTILE = [json.loads(line) for line in (CASES / "case26_hostile_texts.jsonl").read_text("utf-8").splitlines()]


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
        (
            "a.jsonl",
            b'{"text": "x", "text": "y"}',
            r"line 1: it is .* \(the keys \['text'\] stand twice in one object",
        ),
        ("a.csv", b"text,id,text\nx,1,y\n", r"a.csv: the columns \['text'\] stand twice in its head; rename or"),
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
