"""``check``: the sample keeps its bounds and its committed figures, and every bound can break."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import plain, write_jsonl
from typer.testing import CliRunner

from dataset_builders import quality
from dataset_builders.__main__ import app
from dataset_builders.checks import Check, Part, align, none_of, show
from dataset_builders.oblique import quality as oblique
from dataset_builders.quality import Report
from dataset_builders.sources import obliq_bench, sample
from dataset_builders.sources.obliq_bench import AuthoredDocument, ObliqueTask
from dataset_builders.stance import quality as stance
from dataset_builders.stance.data import StanceData

STATISTICS = obliq_bench.SAMPLE.parent / "statistics.json"


@pytest.fixture(scope="module")
def report() -> Report:
    return quality.check("sample")


def test_the_sample_keeps_every_bound(report: Report) -> None:
    assert [(c.name, c.figure, c.faults[:5]) for c in report.broken] == []
    assert report.mended == []
    assert {c.name.split(":")[0] for c in report.part.checks} >= set(obliq_bench.TASKS)


def same(now: Any, then: Any, where: str = "") -> list[str]:
    """Where two trees of figures differ; fractions may differ by .005, as solvers do between machines."""
    if isinstance(now, dict) and isinstance(then, dict):
        return [d for key in {**now, **then} for d in same(now.get(key), then.get(key), f"{where}/{key}")]
    if isinstance(now, float) and isinstance(then, float):
        return [] if abs(now - then) <= 0.005 else [f"{where}: {now}, committed {then}"]
    return [] if now == then else [f"{where}: {now}, committed {then}"]


def test_the_committed_statistics_are_those_of_the_sample(report: Report) -> None:
    """Renew them with ``python -m dataset_builders check sample --out dataset_builders/sample/statistics.json``."""
    assert same(json.loads(report.json()), json.loads(STATISTICS.read_text())) == []


def test_statistics_that_differ_are_seen() -> None:
    assert same({"a": {"b": 1}, "c": 0.5}, {"a": {"b": 2}, "c": 0.501}) == ["/a/b: 1, committed 2"]
    assert same({"a": 1.0}, {}) == ["/a: 1.0, committed None"]
    assert same({"a": 0.5}, {"a": 0.51}) == ["/a: 0.5, committed 0.51"]


def test_tables_show_the_figures(report: Report) -> None:
    text = "\n".join(report.lines())
    assert "train       120     480         4.00 (4-4)          480         4.00 (4-4)" in text
    assert "S: .587" in text and "Perspectrum .641" in text
    for title in (
        "Stance data (S table 1)",
        "Word Jaccard",
        "NDCG@10 of BM25 and of a random order",
        "O table J.1",
        "Bounds",
    ):
        assert title in text
    assert "FAIL" not in text
    figures = json.loads(report.json())
    assert figures["stance"]["splits"]["test"] == {"claims": 40, "support": 160, "attack": 160}
    assert set(figures["oblique"]) == set(obliq_bench.TASKS) and set(figures["checks"]) == {
        c.name for c in report.part.checks
    }


def test_the_ratchet() -> None:
    bad, good = none_of("bad", ["x", "y"]), none_of("good", [])
    part = Part({}, {}, [bad, good, Check("few", 2, 3, at_least=True)])
    assert [c.name for c in Report("s", part, {}).broken] == ["bad", "few"]
    known = Report("s", part, {"bad": "upstream", "few": "small"})
    assert known.broken == [] and known.mended == []
    assert "known  bad    2       <= 0" in known.lines() and "bad (known: upstream): x; y" in known.lines()
    assert Report("s", part, {"bad": "", "few": "", "good": "was bad", "gone": ""}).mended == ["good", "gone"]
    assert "good: mended; take it off KNOWN_ISSUES of 's'" in Report("s", part, {"good": ""}).lines()


def test_figures_and_columns() -> None:
    assert [show(f) for f in (None, 1440, 0.5, 0.0)] == ["-", "1,440", "0.500", "0.000"]
    assert align([["a", "b"], ["long", ""]]) == ["a     b", "long"]
    assert Check("at most", 0.15, 0.15).passes and Check("at least", 3, 3, at_least=True).passes
    assert not Check("at most", 0.151, 0.15).passes and not Check("at least", 2, 3, at_least=True).passes


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_command_on_data_of_ones_own(tmp_path: Path) -> None:
    rows = [
        {"claim": "Tea is good.", "support": ["It warms."], "attack": ["It tires."], "split": "train"},
        {"claim": "Coal is dear.", "support": ["It is mined."], "attack": ["It lasts."], "split": "test"},
    ]
    data = write_jsonl(tmp_path / "mine.jsonl", rows)
    code, text = run("mine", "--data", data, "--out", tmp_path / "figures.json")
    assert code == 0, text
    assert json.loads((tmp_path / "figures.json").read_text())["splits"]["train"] == {
        "claims": 1,
        "support": 1,
        "attack": 1,
    }

    write_jsonl(data, [*rows[:1], {**rows[1], "support": ["It  WARMS.", "It lasts."]}])
    code, text = run("mine", "--data", data)
    assert code == 1
    failed = re.findall(r"^FAIL  (.+?)  ", text, re.MULTILINE)
    assert failed == ["texts of both stances to one claim", "arguments in two splits", "groups in two splits"]
    assert "error: 3 bounds broken" in text


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    code, text = run("sampel")
    assert code == 1 and "Did you mean 'sample'?" in text
    code, text = run("mine", "--data", tmp_path / "nothing")
    assert code == 1 and "no such file or folder" in text


def test_known_issues_are_of_the_named_data_alone(tmp_path: Path) -> None:
    """A ``sample`` or ``perspectrum`` of one's own is held to the general bounds, without another's exceptions."""
    data = write_jsonl(
        tmp_path / "x.jsonl", [{"claim": "Tea is good.", "support": ["It warms."], "attack": ["It tires."]}]
    )
    assert quality.check("sample", data).known == {}
    assert len(quality.check("sample", data).part.checks) == 7


def test_perspectrum_has_its_known_issues(external: Path) -> None:
    found = quality.check("perspectrum", external / "perspectrum")
    assert found.broken == [] and found.mended == [] and len(found.known) == 6


# Every bound of the sample can break: one fault planted, one check failed.


def failing(part: Part) -> set[str]:
    return {c.name for c in part.checks if not c.passes}


def edit(items: list[Any], n: int, **changes: Any) -> list[Any]:
    return [replace(item, **changes) if i == n else item for i, item in enumerate(items)]


StanceFault = Callable[[StanceData], StanceData]


def arguments(data: StanceData, text: Callable[[int, str, str], str]) -> StanceData:
    """Every argument's text replaced by ``text(number, its text, its stance)``."""
    side = {r.argument_id: r.stance for r in data.relations}
    new = [replace(a, text=text(i, a.text, side[a.argument_id])) for i, a in enumerate(data.arguments)]
    return replace(data, arguments=new)


def inversions(data: StanceData, text: Callable[[int, str], str]) -> StanceData:
    return replace(data, inversions=[replace(v, inverted=text(i, v.original)) for i, v in enumerate(data.inversions)])


def without_last_claim(data: StanceData) -> StanceData:
    last = data.claims[-1].claim_id
    return replace(data, claims=data.claims[:-1], relations=[r for r in data.relations if r.claim_id != last])


def few_arguments(data: StanceData) -> StanceData:
    kept = data.arguments[:1399]
    ids = {a.argument_id for a in kept}
    return replace(data, arguments=kept, relations=[r for r in data.relations[2:] if r.argument_id in ids])


# Faults that do not touch each other are planted together, since a measurement takes two seconds.
STANCE_FAULTS: list[tuple[set[str], list[StanceFault]]] = [
    (
        {
            "claims",
            "claims of validation",
            "arguments",
            "domains",
            "kinds of veracity",
            "claims' sides without 3 to 5 arguments",
            "claims' sides not half explicit, half natural",
            "near-duplicate claims",
        },
        [
            without_last_claim,
            lambda d: replace(d, claims=[replace(c, veracity="true", domain="all", split="train") for c in d.claims]),
            lambda d: replace(d, claims=edit(d.claims, 3, claim=d.claims[0].claim)),
            lambda d: replace(d, arguments=edit(d.arguments, 0, style="natural")),
            few_arguments,
        ],
    ),
    (
        {
            "train and test arguments without an inversion",
            "inversions that merely negate",
            "share of inversions by 'although'",
            "natural: stance from words, accuracy",
        },
        [
            lambda d: replace(d, inversions=d.inversions[1:]),
            lambda d: inversions(d, lambda i, t: f"{t} not" if i == 0 else f"although {i} {t}"),
            lambda d: arguments(d, lambda i, t, side: f"{t} {side}"),
        ],
    ),
    (
        {
            "word Jaccard of inversions",
            "texts that occur twice, inversions included",
            "near-duplicate arguments",
            "share of arguments with another's skeleton",
            "natural: stance from sentences, accuracy",
            "natural: stance from punctuation, accuracy",
        },
        [
            lambda d: inversions(d, lambda i, t: "no"),
            lambda d: arguments(d, lambda i, t, side: "So it is in the end." if i < 20 else t),
            lambda d: arguments(d, lambda i, t, side: f"{t} So. So. So!" if side == "support" else t),
        ],
    ),
    (
        {"natural: stance from length, accuracy"},
        [lambda d: arguments(d, lambda i, t, side: t + " day" * 40 * (side == "attack"))],
    ),
]


@pytest.fixture(scope="module")
def stances() -> StanceData:
    return sample.read()


@pytest.mark.parametrize(("names", "faults"), STANCE_FAULTS)
def test_planted_faults_break_their_bounds(stances: StanceData, names: set[str], faults: list[StanceFault]) -> None:
    for fault in faults:
        stances = fault(stances)
    assert names <= failing(stance.measure(stances, sample=True))


def test_bounds_of_the_sample_are_not_for_every_source() -> None:
    assert failing(stance.measure(plain(3))) == set()


Task = tuple[ObliqueTask, list[AuthoredDocument], dict[str, Any]]


def with_query(task: ObliqueTask, query: str, **changes: Any) -> ObliqueTask:
    return replace(task, queries={**task.queries, query: replace(task.queries[query], **changes)})


def drop_gold(task: Task) -> Task:
    query = next(iter(task[0].qrels))
    kept = dict(list(task[0].qrels[query].items())[1:])
    return replace(task[0], qrels={**task[0].qrels, query: kept}), *task[1:]


def no_exclusions(task: Task) -> Task:
    return replace(task[0], excluded={}), *task[1:]


def doubled_document(task: Task) -> Task:
    first = next(iter(task[0].corpus.values()))
    return replace(task[0], corpus={**task[0].corpus, "twin": replace(first, text=first.text + "!")}), *task[1:]


def doubled_query(task: Task) -> Task:
    one, two = list(task[0].queries)[:2]
    return with_query(task[0], one, text=task[0].queries[two].text.upper()), *task[1:]


def moved(task: Task) -> Task:
    attribute = task[1][0].attribute
    return task[0], task[1], {**task[2], attribute: ("test", "")}


def quoting(task: Task) -> Task:
    """Every query quotes a relevant document's first words: BM25 finds it, entities and words leak."""
    queries = {
        i: replace(q, text=" ".join(t.text for d in task[0].qrels[i] for t in [task[0].corpus[d]]))
        for i, q in task[0].queries.items()
    }
    return replace(task[0], queries=queries), *task[1:]


OBLIQUE_FAULTS: list[tuple[str, str, Callable[[Task], Task]]] = [
    ("twitter", "documents", lambda t: (t[0], t[1][:50], t[2])),
    ("twitter", "attributes", lambda t: (t[0], t[1], dict(list(t[2].items())[1:]))),
    ("twitter", "texts in another split than their attribute", moved),
    ("writing", "equal or near-duplicate documents", doubled_document),
    ("wildchat", "equal queries", doubled_query),
    ("congress", "training rows not marked authored", lambda t: (t[0], edit(t[1], 0, generator="model"), t[2])),
    ("twitter", "queries whose gold is not what shows the attribute", drop_gold),
    ("congress", "queries whose gold is not what shows the attribute", drop_gold),
    ("math", "queries that may find themselves", no_exclusions),
    ("writing", "queries that may find themselves", no_exclusions),
    ("twitter", "BM25's NDCG@10 above random", quoting),
    ("congress", "highest coverage of queries", quoting),
    ("congress", "queries with an entity leaked", quoting),
    ("writing", "passages not of 60 to 150 words", lambda t: (t[0], edit(t[1], 0, text="Short."), t[2])),
    (
        "writing",
        "topics of the author with the fewest",
        lambda t: (t[0], [replace(d, metadata={**d.metadata, "topic": d.document_id}) for d in t[1]], t[2]),
    ),
]


@pytest.mark.parametrize(("task", "name", "fault"), OBLIQUE_FAULTS, ids=[f"{t}: {n}" for t, n, _ in OBLIQUE_FAULTS])
def test_a_planted_fault_breaks_the_bound_of_its_task(task: str, name: str, fault: Callable[[Task], Task]) -> None:
    whole = obliq_bench.read(task), obliq_bench.read_train(task), obliq_bench.read_attributes(task)
    assert f"{task}: {name}" in failing(oblique.measure(*fault(whole)))


def test_another_piece_of_the_querys_text_is_a_self_hit() -> None:
    task = obliq_bench.read("writing")
    query = next(q for q in task.queries if len(task.excluded[q]) == 2)
    source = task.queries[query].metadata["document"]
    broken = replace(task, excluded={**task.excluded, query: frozenset({source})})
    (other,) = task.excluded[query] - {source}
    checks = oblique.measure(broken, obliq_bench.read_train("writing"), obliq_bench.read_attributes("writing")).checks
    (found,) = [c for c in checks if c.name == "writing: queries that may find themselves"]
    assert found.faults == (f"{query} finds {other}",)


def test_spelling_counts_all_texts(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that stands in one description of one task is seen."""
    whole = obliq_bench.read_train

    def with_slip(task: str, folder: Path | None = None) -> list[AuthoredDocument]:
        return edit(whole(task, folder), 3, description="A teh.") if task == "math" else whole(task, folder)

    monkeypatch.setattr(obliq_bench, "read_train", with_slip)
    monkeypatch.setattr(stance, "measure", lambda data, sample: Part())
    (found,) = [c for c in quality.check("sample").part.checks if c.name == "misspelt words"]
    assert "teh" in found.faults
