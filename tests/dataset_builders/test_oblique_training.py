"""Oblique training rows: stages A and B against a real endpoint, the gate, and both builds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from dataset_builders import builds, generate
from dataset_builders.__main__ import app
from dataset_builders.folder import MANIFEST, shards
from dataset_builders.generate import GenerationError, LanguageModel
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from dataset_builders.oblique import attributes, lenses, row_report
from dataset_builders.oblique.attributes import LENS_OF
from dataset_builders.oblique.documents import Document, draw, load, siblings
from dataset_builders.oblique.gate import DESCRIPTIONS, QUERIES, Bounds, failures
from dataset_builders.oblique.read import read_oblique_rows
from dataset_builders.oblique.statistics import overlap
from dataset_builders.oblique.training import Options, pair_rows, query_rows
from dataset_builders.schema import OBLIQUE_ROWS
from dataset_builders.sources import obliq_bench
from dataset_builders.sources.obliq_bench import TASKS
from tests.endpoint import Endpoint, Fault, endpoint, refusing_url, truncated

SAMPLE = load("sample")
GOOD = {
    task: [
        d
        for d in SAMPLE
        if d.task == task
        and not failures(d.query, d.text, QUERIES[LENS_OF[task]])
        and not failures(d.description, d.text, DESCRIPTIONS[LENS_OF[task]])
    ]
    for task in TASKS
}
BY_TEXT = {d.text: d for d in SAMPLE}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "_backoff", lambda state: 0.0)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def asked(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body["messages"][-1]["content"])
    return found


def stage(body: dict[str, Any]) -> str:
    (key,) = body["response_format"]["json_schema"]["schema"]["required"]
    return str(key)


def well(body: dict[str, Any]) -> str:
    """As the sample's authors would answer."""
    key = stage(body)
    return json.dumps({key: getattr(BY_TEXT[asked(body)["document"]], key)})


def model_at(server: Endpoint, **more: Any) -> LanguageModel:
    return LanguageModel("tiny", base_url=server.base_url, **more)


def small(n: int = 6, tasks: tuple[str, ...] = TASKS) -> list[Document]:
    """Unlabelled, so that few of them are enough for four negatives."""
    return [replace(d, attribute=None) for task in TASKS if task in tasks for d in GOOD[task][:n]]


def bare_file(folder: Path, documents: list[Document], **more: str) -> Path:
    path = folder / "documents.jsonl"
    rows = [{"_id": d.document_id, "text": d.text, "task": d.task, **more} for d in documents]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_in(folder: Path, config: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(shards(folder)[config]["train"][0], partitioning=None).to_pylist()
    return found


# The gate.

DOCUMENT = (
    "In 1987 the ranger Mabel Orne counted forty herons by the frozen estuary, and the keeper laughed at her twice."
)


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("a bird watcher is mocked for her tally in winter", {}),
        (DOCUMENT, {"quotes", "entities", "coverage"}),
        ("herons were counted there in winter by somebody", {"coverage"}),
        ("somebody mocked the lady named Mabel Orne for her tally", {"entities", "coverage"}),
        ("a bird watcher is mocked for her tally in 1987", {"entities"}),
        ("mocked tally", {"length"}),
        ("a tally " * 50, {"length"}),
        ("  ", {"text"}),
        (None, {"text"}),
        (["a bird watcher"], {"text"}),
        (
            "so it was, and the keeper laughed at her twice or more, mocking tallies",
            {"quotes", "coverage"},
        ),
    ],
)
def test_what_the_gate_refuses(text: Any, failed: set[str]) -> None:
    found = failures(text, DOCUMENT, Bounds(0.3, 0.4, 3, 60))
    assert found.keys() == set(failed)


def test_the_gate_names_what_leaked() -> None:
    found = failures("herons were counting there in frozen winter", DOCUMENT, QUERIES["tip_of_tongue"])
    assert "do without counting, frozen, herons" in found["coverage"]  # counting by its stem
    assert "leave out 1987, Mabel Orne" in failures("Mabel Orne in 1987", DOCUMENT, QUERIES["descriptive"])["entities"]
    assert '"the keeper laughed at her twice"' in failures(DOCUMENT[-33:], DOCUMENT, QUERIES["analogue"])["quotes"]


def test_a_recollection_is_bound_below_the_mean_of_the_benchmark() -> None:
    bounds = QUERIES["tip_of_tongue"]
    assert bounds.coverage < 0.102 and bounds.coverage < min(QUERIES[n].coverage for n in ("descriptive", "analogue"))
    d = GOOD["congress"][0]
    eased = f"{d.query} {' '.join(sorted(set(d.text.lower().split()))[-4:])} estuary gyroscope satellite"
    assert overlap(eased, d.text).coverage > bounds.coverage and "coverage" in failures(eased, d.text, bounds)


# Stages A and B.


def test_two_stages_each_by_its_own_prompt_and_what_it_is_given() -> None:
    documents = small()
    with endpoint(well) as server:
        made = query_rows(documents, model_at(server), Options(from_rank=0), seed=0)
    a = [b for b in server.bodies if stage(b) == "description"]
    b = [b for b in server.bodies if stage(b) == "query"]
    assert len(a) == len(b) == len(documents) == len(made.rows) == 30
    for body in a:
        d = BY_TEXT[asked(body)["document"]]
        assert body["messages"][0]["content"] == attributes.PROMPTS[d.task] and asked(body) == {"document": d.text}
    for body in b:
        d = BY_TEXT[asked(body)["document"]]
        assert body["messages"][0]["content"] == lenses.PROMPTS[LENS_OF[d.task]]
        assert asked(body) == {"document": d.text, "description": d.description}
    for row in made.rows:
        d = BY_TEXT[row["positive"]]
        assert row.keys() == OBLIQUE_ROWS.keys() and (row["task"], row["positive_id"]) == (d.task, d.document_id)
        assert (row["lens"], row["query"], row["generator"]) == (LENS_OF[d.task], d.query, "tiny")
        assert row["instruction"] == OBLIQUE_INSTRUCTIONS[d.task] and row["attribute"] is None
        assert len(row["negatives"]) == 4
    assert {s.lost for s in made.stages.values()} == {0}


def test_the_generic_lens_is_marked_and_held_to_the_same_gate() -> None:
    documents = small(6, ("congress",))
    with endpoint(well) as server:
        made = query_rows(documents, model_at(server), Options(lens="generic", from_rank=0), seed=0)
    assert {row["lens"] for row in made.rows} == {"generic"}
    systems = {b["messages"][0]["content"] for b in server.bodies if stage(b) == "query"}
    assert systems == {lenses.PROMPTS["generic"]}

    others = documents[1:]

    def covers(body: dict[str, Any]) -> str:  # two of ten words: fine for any lens but the one that it stands in for
        return json.dumps({stage(body): documents[0].description if stage(body) == "description" else EASY})

    easy_document = replace(documents[0], text=f"{documents[0].text} Somebody scolded about the lighthouse.")
    with endpoint(covers) as server:
        made = query_rows([easy_document, *others], model_at(server), Options(lens="generic", from_rank=0), seed=0)
    assert made.rows and easy_document.document_id not in {row["positive_id"] for row in made.rows}
    assert made.stages["queries"].dropped == {"coverage": 6 - len(made.rows)}
    shared = overlap(EASY, easy_document.text).coverage
    assert QUERIES["tip_of_tongue"].coverage < shared < QUERIES["descriptive"].coverage
    with pytest.raises(ValueError, match="got the lens 'style', wanted one of"), endpoint(well) as server:
        query_rows(documents, model_at(server), Options(lens="style"), seed=0)
    assert not server.bodies


EASY = "somebody scolded about a lighthouse, perhaps, wearily insisting, grumbling, sulking, bargaining, pleading"


def test_an_answer_that_is_the_document_is_asked_again_and_dropped() -> None:
    documents = small(6, ("twitter",))
    echo = documents[0]

    def answer(body: dict[str, Any]) -> str:
        if asked(body)["document"] == echo.text and stage(body) == "query":
            return json.dumps({"query": echo.text})
        return well(body)

    with endpoint(answer) as server:
        made = query_rows(documents, model_at(server), Options(from_rank=0), seed=0)
    again = [asked(b) for b in server.bodies if "refused" in asked(b)]
    assert len(again) == 1 and again[0]["document"] == echo.text
    refused = again[0]["refused"]
    assert refused["written"] == echo.text and any("do without" in wrong for wrong in refused["wrong"])
    assert echo.document_id not in {row["positive_id"] for row in made.rows} and len(made.rows) == 5
    written = made.stages["queries"]
    assert (written.lost, written.second, written.unanswered) == (1, 0, 0)
    assert written.dropped["coverage"] == written.failed_first["coverage"] == 1


@pytest.mark.parametrize("text", ["half \ud83d a pair", "a \x00 in it", " "])
def test_one_broken_text_costs_its_own_row_alone(text: str) -> None:
    documents = small(6, ("twitter",))
    broken = documents[0]

    def answer(body: dict[str, Any]) -> str:
        if asked(body)["document"] == broken.text and stage(body) == "query":
            return json.dumps({"query": text})
        return well(body)

    with endpoint(answer) as server:
        made = query_rows(documents, model_at(server), Options(from_rank=0), seed=0)
    (again,) = (asked(b)["refused"] for b in server.bodies if "refused" in asked(b))
    assert again["written"] == "" and len(made.rows) == 5
    assert broken.document_id not in {row["positive_id"] for row in made.rows}
    assert made.stages["queries"].dropped == made.stages["queries"].failed_first == {"text": 1}


def test_a_second_try_may_be_better_and_the_first_is_what_is_counted() -> None:
    documents = small(6, ("math",))

    def answer(body: dict[str, Any]) -> str | Fault:
        if "refused" not in asked(body):
            return truncated('{"description": "half of') if stage(body) == "description" else "no JSON"
        assert body["messages"][0]["content"].endswith("named there.")
        return f"<think>hm</think>\n```json\n{well(body)}\n```"

    with endpoint(answer) as server:
        made = query_rows(documents, model_at(server), Options(from_rank=0), seed=0)
    assert len(made.rows) == 6 and Counter(stage(b) for b in server.bodies) == {"description": 12, "query": 12}
    assert all(s.second == 6 and s.failed_first == {"json": 6} and not s.dropped for s in made.stages.values())
    rooms = {(stage(b), "refused" in asked(b)): b["max_tokens"] for b in server.bodies}
    assert rooms["description", True] == 2 * rooms["description", False]


def test_an_endpoint_that_dies_half_way_is_asked_nothing_twice(tmp_path: Path) -> None:
    documents = small(6, ("twitter", "math"))
    source = bare_file(tmp_path, documents, licence="cc0-1.0")
    out, cache = tmp_path / "out", tmp_path / "replies.sqlite"
    build = ["build", "my-obliq-queries", "--source", source, "--out", out, "--from-rank", "0", "--cache", cache]
    answered: list[tuple[str, str]] = []

    def dying(body: dict[str, Any]) -> str | Fault:
        if len(answered) >= 18:  # in the middle of stage B
            return Fault(status=404, text="gone")
        answered.append((stage(body), asked(body)["document"]))
        return well(body)

    with endpoint(dying) as server:
        first = run(*build, "--generate", "tiny", "--base-url", server.base_url, "--concurrency", "1")
    assert first.exit_code == 0, first.output
    assert "queries by tiny: 6 passed" in first.output and "6 without an answer" in first.output
    assert len(rows_in(out, "all")) == 6
    later: list[tuple[str, str]] = []

    def alive(body: dict[str, Any]) -> str:
        later.append((stage(body), asked(body)["document"]))
        return well(body)

    with endpoint(alive) as server:
        second = run(*build, "--generate", "tiny", "--base-url", server.base_url)
    assert second.exit_code == 0 and "6 calls (18 from the cache" in second.output, second.output
    assert not set(answered) & set(later) and len(answered) + len(later) == 24
    assert len(rows_in(out, "all")) == 12
    third = run(*build, "--generate", "tiny", "--base-url", refusing_url())
    assert third.exit_code == 0 and "up to date" in third.output and "0 calls (24 from the cache" in third.output


def test_nothing_answered_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    source = bare_file(tmp_path, small(6, ("twitter",)))
    build = ["build", "my-obliq-queries", "--source", source, "--out", tmp_path / "out", "--generate", "tiny"]
    done = run(*build, "--base-url", refusing_url())
    assert done.exit_code == 1 and "cannot connect" in done.output and not (tmp_path / "out").exists()
    with pytest.raises(GenerationError, match="cannot connect"):
        query_rows(small(6, ("math",)), LanguageModel("tiny", base_url=refusing_url()), Options(), seed=0)


# Rows.


def test_a_pair_may_ask_with_its_anchor() -> None:
    own = {d.document_id: d.text for d in SAMPLE if d.task == "writing"}
    passages = pair_rows(SAMPLE, None, Options(query_form="passage"), seed=0)
    words = pair_rows(SAMPLE, None, Options(), seed=0)
    assert all(row["query"] == own[row["anchor_id"]] for row in passages.rows)
    assert [r | {"query": ""} for r in passages.rows] == [r | {"query": ""} for r in words.rows]
    assert passages.facts == words.facts | {"query_form": "passage"}
    bare = [replace(d, description=None, query=None, generator=None) for d in GOOD["writing"][:20]]
    assert len(pair_rows(bare, None, Options(k=2, query_form="passage"), seed=0).rows) == 40
    with endpoint(well) as server, pytest.raises(ValueError, match="passages need no description; leave one"):
        pair_rows(bare, model_at(server), Options(k=2, query_form="passage"), seed=0)


def test_only_the_anchors_that_were_drawn_are_described() -> None:
    bare = [replace(d, description=None, query=None, generator=None) for d in GOOD["writing"][:20]]
    with endpoint(well) as server:
        made = pair_rows(bare, model_at(server), Options(k=2, dose=7, from_rank=0), seed=0)
    anchors = {row["anchor_id"] for row in made.rows}
    assert len(made.rows) == 7 and len(server.bodies) == len(anchors) < 20
    assert {stage(b) for b in server.bodies} == {"description"} and {r["generator"] for r in made.rows} == {"tiny"}
    with pytest.raises(
        ValueError, match=r"anchors have no description, such as .*: have them written with --generate"
    ):
        pair_rows(bare, None, Options(k=2, dose=7), seed=0)


def test_documents_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    row: dict[str, Any] = {"_id": 1, "text": "A text.", "task": "math"}
    faults: list[tuple[dict[str, Any], str]] = [
        ({"query": "x"}, r"documents\.jsonl:1: the row has a description or a query; say in `generator` who wrote it"),
        ({"task": "maths"}, "got task 'maths', .* Did you mean 'math'"),
        ({"lable": "x"}, r"unknown keys \['lable'\]"),
        ({"text": None}, r"missing keys \['text'\]"),
        ({"text": " "}, "text: the text is empty"),
    ]
    for more, message in faults:
        path.write_text(json.dumps(row | more))
        with pytest.raises(ValueError, match=message):
            load("my", path)
    path.write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    with pytest.raises(ValueError, match="math: ids must be unique; doubled: 1 of documents"):
        load("my", path)
    path.write_text("")
    with pytest.raises(ValueError, match="there is no document in it"):
        load("my", path)
    with pytest.raises(ValueError, match=r"got the source 'my', wanted 'sample' or 'bench', or your own documents"):
        load("my")
    with pytest.raises(ValueError, match="got 0 documents a task, wanted at least 1"):
        draw(SAMPLE, 0, 0)
    assert Counter(d.task for d in draw(SAMPLE, 5, 0)) == dict.fromkeys(TASKS, 5)
    with pytest.raises(ValueError, match=r"1 of 1 documents have no query, such as \['1'\]: have them written with"):
        path.write_text(json.dumps(row))
        query_rows(load("my", path), None, Options(), 0)


# The command.


def test_the_sample_is_built_offline_and_read_back(tmp_path: Path) -> None:
    out = tmp_path / "queries"
    done = run("build", "sample-obliq-queries", "--out", out)
    assert done.exit_code == 0 and "no language model was asked" in done.output, done.output
    assert "congress: tip_of_tongue             96   0.002    0.006" in done.output
    rows = read_oblique_rows(out)
    assert len(rows) == len(SAMPLE) and {r.generator for r in rows} == {"authored"}
    assert [r.query for r in rows] == [d.query for d in SAMPLE]
    assert [r for task in TASKS for r in read_oblique_rows(out, task)] == rows
    figures = json.loads((tmp_path / "queries.report.json").read_text())
    assert figures["refused"] == {"coverage": 5, "entities": 6} and figures["generator"] is None
    assert figures["overlap"]["congress: tip_of_tongue"]["max_coverage"] < 0.1
    assert run("build", "sample-obliq-queries", "--out", out).output.endswith(f"up to date: {out}\n")
    # What was built is a source of its own, row by row.
    again = tmp_path / "again"
    assert run("build", "my-obliq-queries", "--source", out, "--out", again).exit_code == 0
    assert rows_in(again, "all") == rows_in(out, "all")
    refused = run("build", "my-obliq-queries", "--source", out, "--out", again, "--from-rank", "3")
    assert "holds rows of an earlier build, which are taken as they are" in refused.output
    wrong = run("build", "my-obliq-style-pairs", "--source", out, "--out", tmp_path / "x")
    assert wrong.exit_code == 1 and "which are not those of obliq-style-pairs" in wrong.output


def test_style_pairs_from_a_file_of_vectors(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((96, 8)).astype(np.float32)
    np.save(tmp_path / "v.npy", vectors)
    out = tmp_path / "pairs"
    build = ["build", "sample-obliq-style-pairs", "--out", out]
    done = run(*build, "--vectors", tmp_path / "v.npy", "--k", "1", "--dose", "50", "--seed", "2")
    assert done.exit_code == 0 and "writing/train: 50 rows" in done.output, done.output
    facts = json.loads((out / MANIFEST).read_text())
    assert facts["specialist"]["vectors"] == "v.npy" and len(facts["specialist"]["sha256"]) == 64
    assert (facts["k"], facts["dose"], facts["edges"], facts["random_graph"]) == (1, 50, 96, False)
    rows = read_oblique_rows(out)
    assert len(rows) == 50 and all(r.anchor_id and r.anchor_id != r.positive_id for r in rows)
    np.save(tmp_path / "v.npy", vectors[:90])
    short = run(*build, "--vectors", tmp_path / "v.npy")
    assert short.exit_code == 1 and "numbers of shape [90, 8] for 96 documents" in short.output
    for more, message in [
        (["--dose", "1000"], "got a dose of 1000 and 288 edges, wanted from 1 to 288"),
        (["--k", "96"], "got k = 96 and 96 documents, wanted from 1 to 95"),
        (["--lens", "generic"], "--lens is for obliq-queries; sample-obliq-style-pairs does not read it"),
    ]:
        failed = run(*build, *more)
        assert failed.exit_code == 1 and message in failed.output
    assert len(rows_in(out, "writing")) == 50  # as it was
    failed = run("build", "sample-stance-triplets", "--out", tmp_path / "x", "--k", "5")
    assert (
        failed.exit_code == 1
        and "--k is for obliq-style-pairs; sample-stance-triplets does not read it" in failed.output
    )


def test_a_build_by_a_model_says_so_and_its_card_shows_the_prompts(tmp_path: Path) -> None:
    from dataset_builders import card_texts

    documents = small(6)
    source = bare_file(tmp_path, documents)
    with endpoint(well) as server:
        build = builds.prepare(
            "my-obliq-queries", source, model=lambda: model_at(server), options=Options(from_rank=0)
        )
    assert build.unlicensed and build.report is not None
    assert "descriptions by tiny: 30 passed, 0 of them at the second try; 0 dropped (none)" in build.report.lines()[0]
    ((sha, text),) = card_texts.prompts(build).items()
    assert build.facts["prompts_sha256"] == sha == lenses.sha256(text) and build.generators == {("tiny", sha): 30}
    assert all(prompt in text for prompt in [*attributes.PROMPTS.values(), lenses.PROMPTS["tip_of_tongue"]])
    assert "held against their documents" in " ".join(card_texts.made(build))
    assert "by a language model" in card_texts.bias(build)


def test_rows_from_the_benchmarks_documents_are_held_against_its_own_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obliq_bench, "download", lambda task: obliq_bench.SAMPLE)
    assert row_report.reference_of("bench", None) == obliq_bench.SAMPLE
    assert row_report.reference_of("sample", None) is None
    rows = query_rows(load("sample"), None, Options(), 0).rows[:3]
    for prefix, whose in (("bench", "the benchmark's"), ("sample", "the sample's")):
        part = row_report.measure(rows, row_report.reference_of(prefix, None))
        assert next(iter(part.statistics["overlap"])).endswith(f": {whose} own queries")


def test_the_benchmarks_own_corpora_are_documents_without_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obliq_bench, "download", lambda task: obliq_bench.SAMPLE)
    found = load("bench")
    assert {(d.source, d.licence, d.attribute, d.query) for d in found} == {("bench", "cc-by-4.0", None, None)}
    for task in TASKS:
        bench = obliq_bench.read(task)
        own = [d for d in found if d.task == task]
        assert [d.text for d in own] == [d.text for d in bench.corpus.values()]
        together = siblings(own)
        for ids in bench.excluded.values():  # what is kept from one query together is no negative for each other
            assert all(len(ids) == 1 or ids & together[i] != {i} for i in ids)
