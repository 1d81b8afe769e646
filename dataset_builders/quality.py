"""What ``check`` prints and decides: the statistics of a source, and the bounds that its data must keep.

`KNOWN_ISSUES` is a ratchet: a check that fails and is not listed is an error, and so is a listed one that passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataset_builders import sources, spelling
from dataset_builders.checks import Check, Part, align, none_of, show
from dataset_builders.choices import ObliqueTaskName
from dataset_builders.oblique import quality as oblique
from dataset_builders.sources import obliq_bench, perspectrum, sample
from dataset_builders.stance import quality as stance
from dataset_builders.stance import splits
from dataset_builders.stance.data import StanceData

# By source: the checks that are known to fail, and why that may stand.
KNOWN_ISSUES: dict[str, dict[str, str]] = {
    perspectrum.NAME: dict.fromkeys(
        [
            "claims in two splits",
            "near-duplicate claims in two splits",
            "arguments in two splits",
            "near-duplicate arguments in two splits",
            "groups in two splits",
        ],
        "upstream's splits share claims and perspectives, and upstream's splits are kept",
    )
    | {"claims among their own arguments": "upstream's relations are kept, as its counts are"},
}


@dataclass(frozen=True)
class Report:
    """What `check` found.

    Attributes:
        source: Name of the source.
        part: Tables, statistics and checks.
        known: Names of checks that are known to fail, with the reason.
    """

    source: str
    part: Part
    known: Mapping[str, str]

    @property
    def broken(self) -> list[Check]:
        """The checks that fail and are not known to."""
        return [c for c in self.part.checks if not c.passes and c.name not in self.known]

    @property
    def mended(self) -> list[str]:
        """Names that must leave `KNOWN_ISSUES`: their checks pass, or there is no such check."""
        failing = {c.name for c in self.part.checks if not c.passes}
        return [name for name in self.known if name not in failing]

    def lines(self) -> list[str]:
        """All of it as plain text."""
        out = []
        for title, rows in self.part.tables.items():
            out += [title, *align(rows), ""]
        rows = [["", "check", "figure", "bound"]]
        for c in self.part.checks:
            state = "ok" if c.passes else "known" if c.name in self.known else "FAIL"
            rows.append([state, c.name, show(c.figure), f"{'>=' if c.at_least else '<='} {show(c.limit)}"])
        out += ["Bounds", *align(rows)]
        for c in self.part.checks:
            if not c.passes:
                why = f" (known: {self.known[c.name]})" if c.name in self.known else ""
                more = f"; and {len(c.faults) - 10} more" if len(c.faults) > 10 else ""
                out.append(f"{c.name}{why}: {'; '.join(c.faults[:10])}{more}")
        return out + [f"{name}: mended; take it off KNOWN_ISSUES of {self.source!r}" for name in self.mended]

    def json(self) -> str:
        """The statistics and each check's figure as strict JSON, fractions to four digits."""
        figures = {c.name: c.figure for c in self.part.checks}
        return json.dumps(_rounded({**self.part.statistics, "checks": figures}), indent=2, allow_nan=False) + "\n"


def check(
    source: str,
    data: Path | None = None,
    against: Sequence[tuple[str, Path | None]] = (),
    *,
    seed: int | None = None,
) -> Report:
    """Measure a source and hold it against its bounds.

    Every stance source is measured; no text in it may be of both stances to a claim, and no two splits may share a
    claim, an argument or a group. The embedded sample must keep the bounds that it was written to as well, in its
    stance part and in each oblique task, and every word in it must be spelt.

    Args:
        source: As for `sources.load`.
        data: As for `sources.load`.
        against: Other sources, each as for `sources.load`; what they share with this one is counted.
        seed: Measure the splits that `build` makes with this seed, where the source has none of its own.

    Raises:
        FileNotFoundError: If there is nothing at ``data``.
        ValueError: For what `sources.load` refuses.
    """
    embedded = source == sample.NAME and data is None
    stances = sources.load(source, data)
    others = [sources.load(*other) for other in against]
    if seed is not None:
        stances = splits.assign(stances, seed)
    part = stance.measure(stances, sample=embedded)
    if embedded:
        part = _sample(stances, part)
    for other in others:
        shared = stance.overlap(stances, other)
        part.tables |= shared.tables
        part.statistics.setdefault("shared", {})[other.source] = shared.statistics
    # Known issues are those of the data that the name stands for.
    known = KNOWN_ISSUES.get(source, {}) if data is None or source == perspectrum.NAME else {}
    return Report(source, part, known)


def _sample(stances: StanceData, part: Part) -> Part:
    texts = [
        *(c.claim for c in stances.claims),
        *(a.text for a in stances.arguments),
        *(i.inverted for i in stances.inversions),
    ]
    tasks: dict[ObliqueTaskName, dict[str, Any]] = {}
    checks = list(part.checks)
    for name in obliq_bench.TASKS:
        task, train = obliq_bench.read(name), obliq_bench.read_train(name)
        attributes = obliq_bench.read_attributes(name)
        measured = oblique.measure(task, train, attributes)
        tasks[name] = measured.statistics
        checks += measured.checks
        texts += [t.text for t in [*task.corpus.values(), *task.queries.values()]]
        texts += [t for d in train for t in (d.text, d.description, d.query)]
        texts += [description for _, description in attributes.values()]
    misspelt, unneeded = spelling.misspelt(texts, spelling.accepted_words())
    checks += [none_of("misspelt words", misspelt), none_of("accepted words that no text needs", unneeded)]
    return Part(part.tables | oblique.tables(tasks), {"stance": part.statistics, "oblique": tasks}, checks)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {str(key): _rounded(v) for key, v in value.items()}
    return value
