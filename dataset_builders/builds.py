"""What a name stands for: the tables of ``{source}-stance-{kind}`` and ``{source}-obliq-{kind}``, made and written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dataset_builders import folder, sources
from dataset_builders.checks import Part
from dataset_builders.generate import LanguageModel
from dataset_builders.oblique import documents, lenses, row_report, training, training_tables
from dataset_builders.oblique.tables import oblique_tables
from dataset_builders.sources import obliq_bench, sample
from dataset_builders.stance import inversions, splits, tables
from dataset_builders.stance.tables import Tables
from dataset_builders.text import did_you_mean

KINDS = {
    "stance-triplets": "training triplets of the three curricula",
    "stance-arguments": "claims, arguments, relations, and the view that MTEB reads",
    "stance-inversions": "arguments rewritten so that their stance flips",
    "obliq-bench": "five oblique tasks: corpus, queries, qrels, exclusions",
    "obliq-queries": "training rows of the five tasks, each query through its task's lens",
    "obliq-style-pairs": "training rows of writing from the neighbour graph of a specialist of style",
}
GENERATED = ("stance-inversions", "obliq-queries", "obliq-style-pairs")
"""Kinds that a language model may write."""
ROW_KINDS = ("obliq-queries", "obliq-style-pairs")
"""Kinds of oblique training rows."""
_OPTIONS = {
    "obliq-queries": ("lens", "documents", "from_rank"),
    "obliq-style-pairs": ("vectors", "k", "dose", "random_graph", "query_form", "approximate", "from_rank"),
}


class Report(Protocol):
    """What a build says of itself besides its counts."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        ...

    def lines(self) -> list[str]:
        """For a terminal; equal for equal rows."""
        ...

    def summary(self) -> str:
        """For a README, in Markdown."""
        ...

    def cost(self) -> str:
        """What was asked and paid for."""
        ...


LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
"""An identifier of a licence in the Hub's spelling: SPDX's in lower case. Data may carry any text; see `publish`."""


@dataclass(frozen=True)
class Build:
    """One data set, ready to be written.

    Attributes:
        name: ``{source}-{kind}``.
        source: Name of the source.
        kind: One of `KINDS`.
        tables: Its configs and splits; read once.
        licences: Every licence that a row of the source carries.
        facts: What `folder.write` records.
        unlicensed: The licence of each row, by its id, where that is unknown or no identifier of one.
        generators: Rows of inversions by (generator, SHA-256 of its prompt).
        report: Of oblique training rows, or of what a language model wrote just now.
        part: Statistics and bounds of oblique training rows; other kinds are measured by `quality.check`.
    """

    name: str
    source: str
    kind: str
    tables: Tables
    licences: list[str]
    facts: Mapping[str, Any]
    unlicensed: Mapping[str, str] = field(default_factory=dict)
    generators: Mapping[tuple[str, str | None], int] = field(default_factory=dict)
    report: Report | None = None
    part: Part | None = None

    def write(self, out: Path) -> bool:
        """Write the dataset folder; see `folder.write`."""
        return folder.write(
            out,
            self.tables.tables,
            default=self.tables.default,
            licences=self.licences,
            summary=tables.summary(self.name, self.tables, self.licences)
            + (self.report.summary() if self.report else ""),
            facts=self.facts,
        )


def parse(name: str) -> tuple[str, str]:
    """The source and the kind of a data set's name.

    Raises:
        ValueError: If it is none, with the nearest one.
    """
    match = re.fullmatch(r"(?P<source>[a-z0-9][a-z0-9_.-]*)-(?P<kind>(?:stance|obliq)-[a-z-]+)", name)
    if match and match["kind"] in KINDS:
        return match["source"], match["kind"]
    prefixes = dict.fromkeys([match["source"] if match else "sample", *sources.SOURCES])
    known = [f"{prefix}-{kind}" for prefix in prefixes for kind in KINDS]
    raise ValueError(
        f"got the data set name {name!r}, wanted {{source}}-{{kind}} with a kind of {list(KINDS)}."
        f"{did_you_mean(name, known)}"
    )


def prepare(
    name: str,
    source: Path | None = None,
    *,
    seed: int = 0,
    triplets: int | None = None,
    model: Callable[[], LanguageModel] | None = None,
    options: training.Options | None = None,
) -> Build:
    """Load a source and lay out its tables.

    Args:
        name: ``{source}-{kind}``.
        source: Your own data, as for `sources.load`; for oblique training rows as for `documents.load`, or an earlier
            build of the same kind, whose rows are taken as they are.
        seed: Seed of the split, of the triplets, and of what is drawn for oblique training rows.
        triplets: Rows of each curriculum; by default 6 a cell.
        model: Makes the language model that writes the inversions, or the descriptions and queries of oblique training
            rows, in place of those that the source has.
        options: Of oblique training rows.

    Raises:
        FileNotFoundError: If there is nothing at ``source``.
        GenerationError: If the language model cannot be asked.
        ValueError: If the name, the data or their combination is not one that can be built.
    """
    prefix, kind = parse(name)
    if kind not in GENERATED and model is not None:
        kinds = ", ".join(f"{prefix}-{known}" for known in GENERATED)
        raise ValueError(f"--generate is for {kinds}; {name} is made without a language model")
    if kind != "stance-triplets" and triplets is not None:
        raise ValueError(f"--triplets is for {prefix}-stance-triplets; {name} takes all there is")
    if prefix == sample.NAME and source is not None:
        raise ValueError("sample-* is made from the embedded sample alone; give your data a name of its own")
    facts: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "arguments": {"triplets": triplets, "source": _text_of(source)},
    }
    _check_options(name, kind, options or training.Options())
    if kind == "obliq-bench":
        return _oblique(name, prefix, facts)
    if kind in ROW_KINDS:
        return _oblique_rows(name, prefix, kind, source, facts, model, options or training.Options(), seed)
    data = splits.assign(sources.load(prefix, source), seed)
    if data.revision is not None:
        facts["revision"] = data.revision
    report = None
    if model is not None:
        data, report = inversions.generate(data, model())
        facts |= {"generator": report.generator, "prompt_sha256": report.prompt_sha256}
    if kind == "stance-triplets":
        built = tables.triplet_tables(data, triplets=triplets, seed=seed)
    elif kind == "stance-arguments":
        built = tables.argument_tables(data)
    else:
        built = tables.inversion_tables(data)
    generators: dict[tuple[str, str | None], int] = {}
    for i in data.inversions if kind != "stance-arguments" else []:
        generators[i.generator, i.prompt_sha256] = generators.get((i.generator, i.prompt_sha256), 0) + 1
    licences = [(c.claim_id, c.licence) for c in data.claims]
    licences += [(a.argument_id, a.licence) for a in data.arguments]
    licences += [(i.inversion_id, i.licence) for i in data.inversions]
    return Build(
        name,
        prefix,
        kind,
        built,
        tables.licences_of(data),
        facts | {"one_sided": built.one_sided},
        _unlicensed(licences),
        generators,
        report,
    )


def _text_of(source: Path | None) -> str | None:
    """The name of a file as a text: where the locale is not UTF-8, Python hands over half surrogate pairs."""
    return None if source is None else os.fsencode(source.name).decode("utf-8", "replace")


def _oblique(name: str, prefix: str, facts: Mapping[str, Any]) -> Build:
    if prefix != sample.NAME:
        raise ValueError(f"got {name!r}, wanted {sample.NAME}-obliq-bench: no other oblique source says its licence")
    found = oblique_tables(
        [obliq_bench.read(task) for task in obliq_bench.TASKS], source=sample.NAME, licence=sample.LICENCE
    )
    default = f"{obliq_bench.TASKS[0]}-queries"
    return Build(name, prefix, "obliq-bench", Tables(found, default, {}), [sample.LICENCE], facts)


def _unlicensed(licences: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Those of (row, licence) under which nothing is published."""
    return {row: licence for row, licence in licences if licence == "unknown" or not LICENCE.fullmatch(licence)}


def _check_options(name: str, kind: str, options: training.Options) -> None:
    """Refuse an option that this kind does not read."""
    known = _OPTIONS.get(kind, ())
    default = training.Options()
    for option, value in vars(options).items():
        if value != getattr(default, option) and option not in known:
            kinds = [other for other, of in _OPTIONS.items() if option in of]
            raise ValueError(f"--{option.replace('_', '-')} is for {' and '.join(kinds)}; {name} does not read it")


def _oblique_rows(
    name: str,
    prefix: str,
    kind: str,
    source: Path | None,
    facts: dict[str, Any],
    model: Callable[[], LanguageModel] | None,
    options: training.Options,
    seed: int,
) -> Build:
    queries = kind == "obliq-queries"
    earlier = training_tables.rebuilt(source, kind) if source is not None else None
    asked: dict[str, Any] = {}
    if earlier is not None:
        if model is not None or options != training.Options():
            raise ValueError(f"{name}: --source holds rows of an earlier build, which are taken as they are")
        made = training.Made(earlier[0], {}, earlier[1])
    else:
        found = documents.load(prefix, source)
        asker = model() if model is not None else None
        made = (training.query_rows if queries else training.pair_rows)(found, asker, options, seed)
        if asker is not None:
            tasks = [row["task"] for row in made.rows]
            sha = lenses.sha256(lenses.prompt_text(tasks, options.lens, queries=queries))
            asked = {"generator": asker.model, "prompts_sha256": sha, "counters": asker.counters.as_dict()}
            made.facts.update(generator=asker.model, prompts_sha256=sha)
    part = row_report.measure(made.rows, row_report.reference_of(prefix, source))
    sha_of = {made.facts.get("generator"): made.facts.get("prompts_sha256")}
    generators: dict[tuple[str, str | None], int] = {}
    for row in made.rows:
        key = str(row["generator"]), sha_of.get(row["generator"])
        generators[key] = generators.get(key, 0) + 1
    return Build(
        name,
        prefix,
        kind,
        (training_tables.query_tables if queries else training_tables.pair_tables)(made.rows),
        sorted({row["licence"] for row in made.rows}),
        facts | made.facts,
        _unlicensed((f"{row['task']} {row['positive_id']}", row["licence"]) for row in made.rows),
        generators,
        row_report.RowReport.of(made.rows, made.stages, part, **asked),
        part,
    )
