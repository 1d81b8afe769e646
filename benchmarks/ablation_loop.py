"""Word ablation as one would write it from the formula: the opponent of `hub_models.evaluation.ablation`.

For every claim, instruction, document and word: encode the two queries and the document, subtract the cosines.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from dataset_builders.instructions import UNSEEN, format_query
from hub_models.evaluation.stance import Judgements

STANCE_BIT = {"support": 1, "attack": 2}
EPSILON = 1e-9


def ablation_metrics(
    judged: Judgements, encode: Callable[[Sequence[str]], np.ndarray], query_template: str
) -> dict[str, tuple[float, float]]:
    """RIS, RCS and DI for positives and hard negatives, over all claims: mean and sample std of each."""

    def similarity(query: str, document: str) -> float:
        a, b = encode([query, document])
        return float(np.dot(a, b))

    def deltas(instruction: str, claim: str, document: str) -> tuple[list[float], list[float]]:
        """Δ of each word of the instruction, and of each word of the claim."""
        full = similarity(format_query(query_template, instruction, claim), document)
        found = []
        for words, ablated in (
            (instruction.split(), lambda rest: format_query(query_template, rest, claim)),
            (claim.split(), lambda rest: format_query(query_template, instruction, rest)),
        ):
            of_part = []
            if len(words) > 1:
                for i in range(len(words)):
                    rest = " ".join(words[:i] + words[i + 1 :])
                    of_part.append(similarity(ablated(rest), document) - full)
            found.append(of_part)
        return found[0], found[1]

    ris, rcs, di_positive, di_hard = [], [], [], []
    for row, claim in enumerate(judged.claims):
        for instruction in UNSEEN:
            positive, hard = [], []
            for column, document in enumerate(judged.documents):
                label = judged.first[row, column]
                if not label:
                    continue
                of_instruction, of_claim = deltas(instruction.text, claim.claim, document.text)
                moved_by_instruction, moved_by_claim = sum(map(abs, of_instruction)), sum(map(abs, of_claim))
                ris.append(moved_by_instruction / (moved_by_instruction + moved_by_claim + EPSILON))
                rcs.append(moved_by_claim / (moved_by_instruction + moved_by_claim + EPSILON))
                words = instruction.text.split()
                of_stance_word = of_instruction[words.index(instruction.stance_word)]
                (positive if label == STANCE_BIT[instruction.stance] else hard).append(of_stance_word)
            if positive:
                di_positive.append(statistics.mean(positive))
            if hard:
                di_hard.append(statistics.mean(hard))
    found = {"ris": ris, "rcs": rcs, "di_positive": di_positive, "di_hard": di_hard}
    return {name: (statistics.mean(values), statistics.stdev(values)) for name, values in found.items()}
