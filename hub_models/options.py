"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

TrustRemoteCode = Annotated[
    str | None,
    typer.Option(
        metavar="ORG/NAME", help="Base or model whose own code may run here, by its Hub id; read that code first."
    ),
]
