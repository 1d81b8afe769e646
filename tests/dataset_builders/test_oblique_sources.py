"""The door to oblique tasks, the two made of public data, and the groups of queries."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dataset_builders.oblique.groups import development_queries, query_groups
from dataset_builders.sources import inaugural, theoremqa
from dataset_builders.sources.obliq_bench import ObliqueTask, ObliqueText, read
from dataset_builders.sources.oblique import at_hand, load
from dataset_builders.text import words

# -- the door ------------------------------------------------------------------------------------------------------


def test_the_sample_is_at_hand_and_data_takes_its_place(tmp_path: Path) -> None:
    assert [task for source, task in at_hand() if source == "sample"] == [
        "twitter",
        "math",
        "writing",
        "congress",
        "wildchat",
    ]
    assert load("sample", "math") == read("math")
    with pytest.raises(FileNotFoundError, match=r"corpus.jsonl: no such file; wanted a folder in the layout"):
        load("sample", "math", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no such folder"):
        load("mine", "math", tmp_path / "absent")


@pytest.mark.parametrize(
    ("source", "task", "words"),
    [
        ("sampel", "math", "got the source 'sampel'.*Did you mean 'sample'"),
        ("sample", "maths", r"sample: got the oblique task 'maths', wanted one of .* Did you mean 'math'"),
        ("theoremqa", "writing", r"theoremqa: got the oblique task 'writing', wanted one of \('math',\)"),
        ("inaugural", "writing", "inaugural: the data does not come with the package"),
    ],
)
def test_what_is_not_there_is_named(source: str, task: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load(source, task)


# -- TheoremQA -----------------------------------------------------------------------------------------------------


def questions(folder: Path, rows: list[dict[str, object]]) -> Path:
    (folder / theoremqa.FILE).write_text(json.dumps(rows))
    return folder


def question(i: str, theorem: str, text: str | None = None, **more: object) -> dict[str, object]:
    return {"id": i, "Question": text or f"Question {i}?", "theorem": theorem, "Picture": None} | more


def test_questions_of_one_theorem_find_each_other_and_never_themselves(tmp_path: Path) -> None:
    rows = [
        question("a", "Lah number"),
        question("b", "lah  number"),
        question("c", "lah number", "Question A?"),  # the text of a
        question("d", "alone"),
        question("e", "lah number", Picture="images/e.png"),
    ]
    task = load("theoremqa", "math", questions(tmp_path, rows))
    assert list(task.corpus) == ["a", "b", "c", "d"]
    assert task.qrels == {"a": {"b": 1}, "b": {"a": 1, "c": 1}, "c": {"b": 1}}
    assert task.excluded == {"a": {"a", "c"}, "b": {"b"}, "c": {"a", "c"}}
    assert query_groups(task) == dict.fromkeys("abc", "lah number")


def test_faults_of_the_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wanted the folder that holds theoremqa_test.json"):
        theoremqa.read(tmp_path)
    with pytest.raises(ValueError, match="row 2: the id 'a' is doubled"):
        theoremqa.read(questions(tmp_path, [question("a", "x"), question("a", "x")]))
    with pytest.raises(ValueError, match=r"row 1: lacks \['theorem'\]"):
        theoremqa.read(questions(tmp_path, [{"id": "a", "Question": "?"}]))
    with pytest.raises(ValueError, match="row 1: the text is empty"):
        theoremqa.read(questions(tmp_path, [question("a", "x", " ")]))


def test_the_real_theoremqa(external: Path) -> None:
    task = theoremqa.read(external / "theoremqa")
    assert (len(task.corpus), len(task.queries), len(set(query_groups(task).values()))) == (747, 594, 167)


# -- inaugural addresses -------------------------------------------------------------------------------------------


def speech(word: str, sentences: int) -> str:
    return " ".join(f"{word.capitalize()} {' '.join([word] * 29)}." for _ in range(sentences))


def test_passages_of_a_presidents_other_addresses_are_relevant(tmp_path: Path) -> None:
    names = {"1801-Jefferson": 9, "1805-Jefferson": 4, "1797-Adams": 4, "1825-Adams": 4}
    with zipfile.ZipFile(tmp_path / inaugural.FILE, "w") as archive:
        archive.writestr("inaugural/README", "not one")
        for name, n in names.items():
            archive.writestr(f"inaugural/{name}.txt", speech("abcdefgh"[n - 2], n))
    task = load("inaugural", "writing", tmp_path)
    # Nine sentences of 30 words: two passages of 120 words, and the last one joins what is before it.
    assert [i for i in task.corpus if i.startswith("1801")] == ["1801-Jefferson-01", "1801-Jefferson-02"]
    assert [len(words(t.text)) for i, t in task.corpus.items() if i.startswith("1801")] == [120, 150]
    assert task.qrels == {
        "1801-Jefferson-01": {"1805-Jefferson-01": 1},
        "1801-Jefferson-02": {"1805-Jefferson-01": 1},
        "1805-Jefferson-01": {"1801-Jefferson-01": 1, "1801-Jefferson-02": 1},
    }
    assert task.excluded["1801-Jefferson-01"] == {"1801-Jefferson-01", "1801-Jefferson-02"}
    assert {t.attribute for t in task.corpus.values()} == {"Jefferson", "John Adams", "John Quincy Adams"}


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wanted the folder that holds inaugural.zip"):
        inaugural.read(tmp_path)
    with zipfile.ZipFile(tmp_path / inaugural.FILE, "w") as archive:
        archive.writestr("README", "nothing")
    with pytest.raises(ValueError, match=r"holds no file named like 1789-Washington.txt"):
        inaugural.read(tmp_path)


def _archive(folder: Path, *files: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(folder / inaugural.FILE, "w") as archive:
        for name, content in files:
            archive.writestr(name, content)
    return folder


def test_the_form_of_an_address_changes_nothing(tmp_path: Path) -> None:
    """What else goes for a reader of texts: line ends, the mark before UTF-8."""
    text = "Friends – countrymen.\nIt is late.\n"
    plain = inaugural.read(_archive(tmp_path, ("1789-Washington.txt", text.encode()))).corpus
    windows = ("\ufeff" + text.replace("\n", "\r\n")).encode()
    assert inaugural.read(_archive(tmp_path, ("1789-Washington.txt", windows))).corpus == plain
    assert [t.text for t in plain.values()] == ["Friends – countrymen. It is late."]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            [("1797-Adams.txt", "Café.".encode("latin-1"))],
            r"1797-Adams\.txt is no UTF-8 .* fetch the archive anew",
        ),
        ([("1797-Adams.txt", b"a\0b")], r"1797-Adams\.txt, passage 1: the text holds a NUL character"),
        ([("1797-Adams.txt", b" \n")], r"1797-Adams\.txt, passage 1: the text is empty"),
        (
            [("a/1797-Adams.txt", b"One."), ("b/1797-Adams.txt", b"Two.")],
            r"inaugural\.zip: holds 1797-Adams\.txt twice",
        ),
    ],
)
def test_a_faulty_address_is_named(tmp_path: Path, files: list[tuple[str, bytes]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inaugural.read(_archive(tmp_path, *files))


def test_the_real_addresses(external: Path) -> None:
    task = inaugural.read(external / "inaugural")
    authors = {t.metadata["address"]: t.attribute for t in task.corpus.values()}
    assert len(authors) == 59 and len(set(authors.values())) == 40
    of_two = Counter(authors.values())
    assert {a for a in of_two if a and a.endswith("Roosevelt")} == {"Theodore Roosevelt", "Franklin Roosevelt"}
    assert (of_two["Franklin Roosevelt"], of_two["George W. Bush"], of_two["George H. W. Bush"]) == (4, 2, 1)
    assert not any("\ufffd" in t.text for t in task.corpus.values())
    assert (len(task.queries), len(set(query_groups(task).values()))) == (497, 17)


# -- groups and the development split ------------------------------------------------------------------------------


def benchmark(relevant: dict[str, str], attributes: dict[str, str] | None = None) -> ObliqueTask:
    """Queries with their relevant documents, a letter each."""
    documents = sorted(set("".join(relevant.values())))
    return ObliqueTask(
        "congress",
        {d: ObliqueText(d, None, None, {}) for d in documents},
        {q: ObliqueText(q, (attributes or {}).get(q), None, {}) for q in relevant},
        {q: dict.fromkeys(found, 1) for q, found in relevant.items()},
        {},
    )


def test_queries_hang_together_through_documents_and_attributes() -> None:
    task = benchmark({"q4": "d", "q1": "ab", "q2": "bc", "q3": "c", "q5": "e"}, {"q4": "x", "q5": "x"})
    assert query_groups(task) == {"q4": "x", "q1": "q1", "q2": "q1", "q3": "q1", "q5": "x"}
    not_relevant = replace(task, qrels={**task.qrels, "q2": {"b": 0, "c": 1}})
    assert query_groups(not_relevant) == {"q4": "x", "q1": "q1", "q2": "q2", "q3": "q2", "q5": "x"}
    pooled = {q: dict.fromkeys("abcde", 1) for q in task.queries}
    assert query_groups(replace(task, pooled=pooled)) == query_groups(task)


def test_the_development_split_is_a_fifth_of_whole_groups_and_hangs_on_the_seed_alone() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    task = benchmark({f"{d}{i}": d for d in letters for i in range(3)})
    first = development_queries(task, 0)
    assert first == development_queries(task, 0) != development_queries(task, 1)
    assert len(first) == 15  # of 78: five groups of three
    assert all(n == 3 for n in Counter(q[0] for q in first).values())
    turned = replace(task, queries=dict(reversed(task.queries.items())))
    assert development_queries(turned, 0) == first


def test_a_group_larger_than_a_fifth_is_never_development() -> None:
    task = benchmark({**{f"q{i}": "a" for i in range(8)}, "x": "b", "y": "c"})
    assert development_queries(task) <= {"x", "y"} and len(development_queries(task)) == 2
    assert development_queries(benchmark({f"q{i}": "a" for i in range(9)})) == frozenset()
