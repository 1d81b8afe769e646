"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class LexicalName(StrEnum):
    slant = "slant"
    s = "s"


Lexical = Annotated[
    LexicalName, typer.Option(help="Words and weights of that BM25: ours, or 's', the stance paper's own.")
]

TrustRemoteCode = Annotated[
    str | None,
    typer.Option(
        metavar="ORG/NAME", help="Base or model whose own code may run here, by its Hub id; read that code first."
    ),
]
