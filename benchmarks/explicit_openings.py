"""Perspectrum in the wording of TFU: each perspective behind an opening that gives its stance away.

``python benchmarks/explicit_openings.py FOLDER OUT.jsonl`` writes the claims in the short form, one line a claim, for
``train.py`` and ``evaluate.py --data``: "The claim is true because …", "The claim is false because …".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dataset_builders.atomic import write_text
from dataset_builders.instructions import STANCES, Stance
from dataset_builders.sources import perspectrum

OPENINGS: dict[Stance, str] = {"support": "The claim is true because ", "attack": "The claim is false because "}


def opened(stance: Stance, text: str) -> str:
    """The perspective behind its opening, its first letter small unless a second capital follows (an acronym)."""
    first = text[:1] if text[1:2].isupper() else text[:1].lower()
    return OPENINGS[stance] + first + text[1:]


def main(folder: Path, out: Path) -> None:
    data = perspectrum.read(folder)
    texts = {a.argument_id: a.text.strip() for a in data.arguments}
    lines = []
    for claim in data.claims:
        row: dict[str, object] = {"claim_id": claim.claim_id, "claim": claim.claim, "group_id": claim.group_id}
        row |= {"split": claim.split, "style": "explicit", "source": "perspectrum", "licence": claim.licence}
        for stance in STANCES:
            mine = [r.argument_id for r in data.relations if (r.claim_id, r.stance) == (claim.claim_id, stance)]
            row[stance] = [opened(stance, texts[a]) for a in mine]
        lines.append(json.dumps(row, ensure_ascii=False, allow_nan=False))
    write_text(out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
