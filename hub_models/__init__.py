"""Everything that makes, measures or serves a Slant model. The names below are imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hub_models.corpus import encode_corpus as encode_corpus
    from hub_models.encoder import load as load
    from hub_models.retrieval.search import ObliqueSearch as ObliqueSearch
    from hub_models.retrieval.search import StanceSearch as StanceSearch

_HOME_OF = {
    "ObliqueSearch": "hub_models.retrieval.search",
    "StanceSearch": "hub_models.retrieval.search",
    "encode_corpus": "hub_models.corpus",
    "load": "hub_models.encoder",
}
__all__ = ["ObliqueSearch", "StanceSearch", "encode_corpus", "load"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
