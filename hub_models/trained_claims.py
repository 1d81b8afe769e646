"""Which claims, or oblique queries, a run was trained on: so that an evaluation on one of them says so.

Of oblique rows the documents count too: a document may be a query. The file holds ids made from the texts, one a line:
it tells whether a text is among them, not what they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dataset_builders.atomic import write_text
from dataset_builders.text import claim_key, text_id
from hub_models import model_files

FILE_NAME = "trained_claims.txt"


def ids(claims: Iterable[str]) -> set[str]:
    """One id a distinct claim; case, white space and a closing full stop make no difference."""
    return {text_id("claim", claim_key(claim)) for claim in set(claims)}


def write(folder: Path, claims: Iterable[str]) -> None:
    """Note the claims of a run's training rows in its folder."""
    write_text(folder / FILE_NAME, "".join(f"{i}\n" for i in sorted(ids(claims))))


def read(path_or_id: str) -> frozenset[str]:
    """The ids that a run or release notes; none where it notes nothing."""
    path = model_files.find(path_or_id, FILE_NAME)
    return frozenset(path.read_text(encoding="utf-8").split()) if path is not None else frozenset()
