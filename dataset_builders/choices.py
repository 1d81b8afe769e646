"""Names and defaults that commands and recipes show, apart from what uses them: ``--help`` imports nothing heavy."""

from __future__ import annotations

from typing import Final, Literal

ObliqueTaskName = Literal["twitter", "math", "writing", "congress", "wildchat"]
Lens = Literal["descriptive", "analogue", "tip_of_tongue", "style", "generic"]
QueryForm = Literal["description", "passage"]
"""What asks in a style pair: its anchor's style in words (O equation 6), or its anchor itself."""
FROM_RANK: Final = 20
"""O does not say from which BM25 rank; this is that of ReasonIR, whose row format O takes over. Counted from 0."""
STYLE_NEIGHBOURS: Final = 3
"""Neighbours a document in O's style graph; its sweep is 1, 3, 5, 10 (H)."""
STYLOMETRIC: Final = "stylometric"
"""The built-in specialist of style."""
