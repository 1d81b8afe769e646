"""What a name stands for: the tables of ``{source}-stance-{kind}`` and ``{source}-obliq-bench``, made and written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataset_builders import folder, sources
from dataset_builders.generate import LanguageModel
from dataset_builders.oblique.tables import oblique_tables
from dataset_builders.sources import obliq_bench, sample
from dataset_builders.stance import inversions, splits, tables
from dataset_builders.stance.inversion_report import Report
from dataset_builders.stance.tables import Tables
from dataset_builders.text import did_you_mean

KINDS = {
    "stance-triplets": "training triplets of the three curricula",
    "stance-arguments": "claims, arguments, relations, and the view that MTEB reads",
    "stance-inversions": "arguments rewritten so that their stance flips",
    "obliq-bench": "five oblique tasks: corpus, queries, qrels, exclusions",
}


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
        unlicensed: Ids of rows whose licence is unknown.
        generators: Rows of inversions by (generator, SHA-256 of its prompt).
        report: Of what a language model wrote just now; None where nothing was asked.
    """

    name: str
    source: str
    kind: str
    tables: Tables
    licences: list[str]
    facts: Mapping[str, Any]
    unlicensed: list[str] = field(default_factory=list)
    generators: Mapping[tuple[str, str | None], int] = field(default_factory=dict)
    report: Report | None = None

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
    match = re.fullmatch(r"(?P<source>[a-z0-9][a-z0-9_.-]*)-(?P<kind>(?:stance|obliq)-[a-z]+)", name)
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
) -> Build:
    """Load a source and lay out its tables.

    Args:
        name: ``{source}-{kind}``.
        source: Your own data, as for `sources.load`.
        seed: Seed of the split and of the triplets.
        triplets: Rows of each curriculum; by default 6 a cell.
        model: Makes the language model that writes the inversions, in place of those that the source has.

    Raises:
        FileNotFoundError: If there is nothing at ``source``.
        GenerationError: If the language model cannot be asked.
        ValueError: If the name, the data or their combination is not one that can be built.
    """
    prefix, kind = parse(name)
    if kind != "stance-inversions" and model is not None:
        raise ValueError(f"--generate is for {prefix}-stance-inversions; {name} is made without a language model")
    if kind != "stance-triplets" and triplets is not None:
        raise ValueError(f"--triplets is for {prefix}-stance-triplets; {name} takes all there is")
    if prefix == sample.NAME and source is not None:
        raise ValueError("sample-* is made from the embedded sample alone; give your data a name of its own")
    facts: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "arguments": {"triplets": triplets, "source": source.name if source else None},
    }
    if kind == "obliq-bench":
        return _oblique(name, prefix, facts)
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
    unlicensed = [c.claim_id for c in data.claims if c.licence == "unknown"]
    unlicensed += [a.argument_id for a in data.arguments if a.licence == "unknown"]
    unlicensed += [i.inversion_id for i in data.inversions if i.licence == "unknown"]
    return Build(
        name,
        prefix,
        kind,
        built,
        tables.licences_of(data),
        facts | {"one_sided": built.one_sided},
        unlicensed,
        generators,
        report,
    )


def _oblique(name: str, prefix: str, facts: Mapping[str, Any]) -> Build:
    if prefix != sample.NAME:
        raise ValueError(f"got {name!r}, wanted {sample.NAME}-obliq-bench: no other oblique source says its licence")
    found = oblique_tables(
        [obliq_bench.read(task) for task in obliq_bench.TASKS], source=sample.NAME, licence=sample.LICENCE
    )
    default = f"{obliq_bench.TASKS[0]}-queries"
    return Build(name, prefix, "obliq-bench", Tables(found, default, {}), [sample.LICENCE], facts)
