"""What oblique training rows are like: their numbers, how oblique they are beside the benchmark (O table J.1), and
what came of asking a language model for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dataset_builders.checks import Check, Part, align, none_of, show
from dataset_builders.counters import paid
from dataset_builders.negatives import NEGATIVES
from dataset_builders.oblique import query_quality
from dataset_builders.oblique.asking import Written
from dataset_builders.oblique.attributes import LENS_OF
from dataset_builders.oblique.gate import QUERIES, failures
from dataset_builders.oblique.statistics import overlap
from dataset_builders.rows import Row
from dataset_builders.sources import obliq_bench
from dataset_builders.sources.obliq_bench import FOLDERS, TASKS
from dataset_builders.sources.oblique import BENCH
from dataset_builders.text import text_key

ROWS = "Oblique training rows"
OVERLAP = "Queries and their documents (O table J.1)"
_LEAKED = 0.064  # the worst of O's own synthetic queries


def measure(rows: Sequence[Row], reference: Path | None = None) -> Part:
    """Statistics of training rows and the bounds that they are held to before they are published.

    The query of a style pair describes its anchor, which the row does not hold: it is compared with the positive.

    Args:
        rows: By the columns of the contract; at least one.
        reference: The benchmark to compare with, in the layout of OBLIQ-Bench; the embedded sample if there is none.
    """
    groups: dict[tuple[Any, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["task"], row["lens"]].append(row)
    counts = [["task", "lens", "rows", "documents", "attributes known", "generators"]]
    part = Part()
    for (task, lens), own in groups.items():
        attributes = {row["attribute"] for row in own if row["attribute"] is not None}
        generators = Counter(str(row["generator"]) for row in own)
        counts.append(
            [
                task,
                lens,
                show(len(own)),
                show(len({row["positive_id"] for row in own})),
                show(len(attributes)),
                ", ".join(f"{name} {n:,}" for name, n in sorted(generators.items())),
            ]
        )
        part.checks += _checks(task, lens, own)
    pairs = {key: [(row["query"], row["positive"]) for row in own] for key, own in groups.items()}
    figures = query_quality.measure(pairs, reference)
    part.tables = {ROWS: counts, OVERLAP: query_quality.table(figures)}
    part.statistics = {
        "overlap": figures,
        "rows": {f"{task}: {lens}": len(own) for (task, lens), own in groups.items()},
    }
    return part


def _checks(task: str, lens: str, rows: Sequence[Row]) -> list[Check]:
    name = f"{task}: {lens}"
    found = [(row["positive_id"], overlap(row["query"], row["positive"])) for row in rows]
    leaks = [f"{i}: {', '.join(o.leaked)}" for i, o in found if o.leaked]
    checks = [
        none_of(f"{name} rows with a negative that is the positive", _own_negatives(rows)),
        none_of(
            f"{name} rows without {NEGATIVES} negatives",
            [row["positive_id"] for row in rows if len(row["negatives"]) != NEGATIVES],
        ),
        none_of(
            f"{name} queries that are their document",
            [row["positive_id"] for row in rows if text_key(row["query"]) == text_key(row["positive"])],
        ),
        Check(f"{name} queries with an entity leaked", len(leaks) / len(rows), _LEAKED, faults=tuple(leaks)),
    ]
    if lens == "tip_of_tongue":
        bound = QUERIES["tip_of_tongue"].coverage
        over = tuple(f"{i} {o.coverage:.2f}" for i, o in found if o.coverage > bound)
        checks.append(Check(f"{name}: highest coverage", max(o.coverage for _, o in found), bound, faults=over))
    return checks


def _own_negatives(rows: Sequence[Row]) -> list[str]:
    return [
        row["positive_id"]
        for row in rows
        if any(
            n["id"] == row["positive_id"] or text_key(n["text"]) == text_key(row["positive"]) for n in row["negatives"]
        )
    ]


def reference_of(prefix: str, source: Path | None) -> Path | None:
    """The benchmark that a build is compared with: OBLIQ-Bench for its own documents, the folder itself where it holds
    a benchmark with queries, else none."""
    if source is None and prefix == BENCH:
        (root,) = {obliq_bench.download(task) for task in TASKS}  # one snapshot holds them all
        return root
    if source is None:
        return None
    queries = [source / folder / "queries+qrels" / "queries.jsonl" for folder in FOLDERS.values()]
    return source if all(file.is_file() for file in queries) else None


@dataclass(frozen=True)
class RowReport:
    """Figures of one build.

    Attributes:
        rows: Rows by task and lens.
        overlap: Rows of O table J.1 by name.
        stages: What was asked of a language model, by stage: texts that passed, how many of them at the second try,
            failed checks of the first one, what was dropped, what got no answer.
        refused: Queries that were there already and that the gate would refuse, by failed check; they are kept.
        generator: The language model; None where nothing was asked.
        prompts_sha256: Of all its prompts.
        counters: See `dataset_builders.generate.Counters`.
    """

    rows: dict[str, int]
    overlap: dict[str, dict[str, float]]
    stages: dict[str, dict[str, Any]]
    refused: dict[str, int]
    generator: str | None = None
    prompts_sha256: str | None = None
    counters: dict[str, Any] | None = None

    @classmethod
    def of(cls, rows: Sequence[Row], stages: Mapping[str, Written], part: Part, **asked: Any) -> RowReport:
        """Figures of rows and of the stages behind them.

        Args:
            rows: Of the build.
            stages: By name.
            part: Of `measure`.
            asked: ``generator``, ``prompts_sha256`` and ``counters``, where a language model was.
        """
        given = [] if stages else [row for row in rows if row["lens"] == LENS_OF[row["task"]]]
        refused = Counter(
            check for row in given for check in failures(row["query"], row["positive"], QUERIES[row["lens"]])
        )
        return cls(
            rows=part.statistics["rows"],
            overlap=part.statistics["overlap"],
            stages={
                name: {
                    "passed": len(stage.texts),
                    "second": stage.second,
                    "failed_first": stage.failed_first,
                    "dropped": stage.dropped,
                    "lost": stage.lost,
                    "unanswered": stage.unanswered,
                }
                for name, stage in stages.items()
            },
            refused=dict(sorted(refused.items())),
            **asked,
        )

    def as_dict(self) -> dict[str, Any]:
        """All figures by name, ready for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """What hangs on the answers alone: a resumed run says the same."""
        return [*self._said(), OVERLAP, *align(query_quality.table(self.overlap))]

    def summary(self) -> str:
        """As Markdown, for a README."""
        said = "\n\n" + "\n".join(f"- {line}" for line in self._said()) if self._said() else ""
        header, *body = query_quality.table(self.overlap)
        lines = [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *body)]
        return f"{said}\n\n{OVERLAP}:\n\n" + "\n".join(lines)

    def cost(self) -> str:
        """What this run asked and paid for."""
        if self.counters is None:
            return "no language model was asked"
        return paid(self.counters)

    def _said(self) -> list[str]:
        lines = [
            f"{name} by {self.generator}: {s['passed']:,} passed, {s['second']:,} of them at the second try; "
            f"{s['lost']:,} dropped ({_counts(s['dropped'])}), {s['unanswered']:,} without an answer; first try, "
            f"failed checks: {_counts(s['failed_first'])}"
            for name, s in self.stages.items()
        ]
        if self.refused:
            lines.append(f"queries kept as they came that the gate would refuse: {_counts(self.refused)}")
        return lines


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) or "none"
