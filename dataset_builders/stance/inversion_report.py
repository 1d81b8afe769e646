"""What came of a run of inversions: counts by failure, overlap beside natural pairs (S 5.2), what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dataset_builders.counters import paid
from dataset_builders.stance import statistics as st
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.reversal import lemma_jaccard

_IN_S = {"inversions": (0.587, 0.590), "natural pairs": (0.094, None)}


@dataclass(frozen=True)
class Report:
    """Figures of one run.

    Attributes:
        generator: The model.
        prompt_sha256: Of the fixed part of the prompt.
        wanted: Arguments to invert.
        accepted: Inversions that passed, and how many of them only when asked once more.
        failed_first: Candidates of the first round by failed check; one may fail several.
        dropped: Arguments given up by the checks that failed last; ``total`` counts each once.
        unanswered: Arguments for which the endpoint gave no answer.
        overlap: Mean word Jaccard, raw and of dictionary forms, of inversions and of natural pairs; None of nothing.
        merely_negated_share: Of the first round's candidates.
        although_share: Of the accepted ones: those that say "although" or "though" where the original does not.
        counters: See `dataset_builders.generate.Counters`.
    """

    generator: str
    prompt_sha256: str
    wanted: int
    accepted: int
    accepted_second: int
    failed_first: dict[str, int]
    dropped: dict[str, int]
    unanswered: int
    overlap: dict[str, dict[str, float | None]]
    merely_negated_share: float | None
    although_share: float | None
    counters: dict[str, Any]

    @classmethod
    def of(
        cls,
        data: StanceData,
        *,
        generator: str,
        prompt_sha256: str,
        wanted: int,
        first: Sequence[tuple[str, ...]],
        dropped: Sequence[tuple[str, ...]],
        unanswered: int,
        counters: dict[str, Any],
    ) -> Report:
        """Measure a run.

        Args:
            data: With the accepted inversions.
            generator: The model.
            prompt_sha256: Of the fixed part of the prompt.
            wanted: Arguments to invert.
            first: The failed checks of each candidate of the first round.
            dropped: The failed checks of each argument given up.
            unanswered: Arguments without an answer.
            counters: Of the language model.
        """
        accepted = len(data.inversions)
        failed = Counter(check for checks in first for check in checks)
        return cls(
            generator=generator,
            prompt_sha256=prompt_sha256,
            wanted=wanted,
            accepted=accepted,
            accepted_second=accepted - sum(not checks for checks in first),
            failed_first=dict(sorted(failed.items())),
            dropped=dict(sorted(Counter(c for checks in dropped for c in checks).items())) | {"total": len(dropped)},
            unanswered=unanswered,
            overlap={
                "inversions": {
                    "jaccard": st.inversion_overlap(data),
                    "jaccard_lemma": st.inversion_overlap(data, overlap=lemma_jaccard),
                },
                "natural pairs": {
                    "jaccard": st.natural_overlap(data),
                    "jaccard_lemma": st.natural_overlap(data, overlap=lemma_jaccard),
                },
            },
            merely_negated_share=failed["negation"] / len(first) if first else None,
            although_share=len(st.by_although(data.inversions)) / accepted if accepted else None,
            counters=counters,
        )

    def as_dict(self) -> dict[str, Any]:
        """All figures by name, ready for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """What hangs on the answers alone: a resumed run says the same."""
        lines = [
            f"{self.accepted:,} of {self.wanted:,} arguments inverted by {self.generator}, {self.accepted_second:,} "
            f"of them at the second try; {self.dropped['total']:,} dropped, {self.unanswered:,} without an answer",
            f"first try, failed checks: {_counts(self.failed_first)}",
            f"dropped for: {_counts({k: n for k, n in self.dropped.items() if k != 'total'})}",
            f"merely negated {_show(self.merely_negated_share)} of the first try, by 'although' "
            f"{_show(self.although_share)} of those kept",
        ]
        for what, (raw, lemma) in _IN_S.items():
            ours = [_show(self.overlap[what][measure]) for measure in ("jaccard", "jaccard_lemma")]
            lines.append(
                f"word Jaccard of {what}: {ours[0]}, of dictionary forms {ours[1]}"
                f" (S: {_show(raw)}{'' if lemma is None else f', {_show(lemma)}'})"
            )
        return lines

    def summary(self) -> str:
        """The lines as a list in Markdown, for a README."""
        return "\n\n" + "\n".join(f"- {line}" for line in self.lines())

    def cost(self) -> str:
        """What this run asked and paid for, and where it found answers of an earlier one, what all of them cost."""
        return paid(self.counters)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) or "none"


def _show(value: float | None) -> str:
    return "not computed" if value is None else f"{value:.3f}"
