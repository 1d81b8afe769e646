"""Reranking policies by name: ``identity``, ``tourrank:5``, ``listwise:20``, ``sliding:20``, ``cross-encoder:ID``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from dataset_builders.text import did_you_mean
from hub_models.model_files import find
from hub_models.retrieval.listwise import BEST_K, Listwise
from hub_models.retrieval.rerank import Ask, Reranker, identity
from hub_models.retrieval.tourrank import TourRank

Kind = Literal["identity", "tourrank", "listwise", "sliding", "cross-encoder"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_OF_A_MODEL = {".safetensors", ".bin", ".json", ".jinja", ".txt", ".model"}
"""Suffixes of a model's weights, settings and vocabulary."""

_LEAST = {"tourrank": 1, "listwise": 2, "sliding": 2}


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy that has not been given a task or a model yet.

    Attributes:
        kind: Which one.
        number: Y of ``tourrank``, K of ``listwise`` and ``sliding``; None in ``listwise`` is each task's own K.
        model: Of ``cross-encoder``: folder or Hub id.
    """

    kind: Kind
    number: int | None = None
    model: str | None = None

    @classmethod
    def parse(cls, name: str) -> Policy:
        """Read a name.

        Raises:
            ValueError: If it is none of the policies, or its number is too small.
        """
        kind, _, value = name.strip().partition(":")
        if kind == "identity" and not value:
            return cls("identity")
        if kind == "listwise" and not value:
            return cls("listwise")
        if kind == "cross-encoder" and value:
            return cls("cross-encoder", model=value)
        least = _LEAST.get(kind)
        if least is None or not (value.isascii() and value.isdigit() and least <= int(value) < 10_000):
            least_of = f", with a number of at least {least}" if least is not None else ""
            raise ValueError(
                f"got the reranking policy {name!r}, wanted identity, tourrank:Y, listwise:K, sliding:K or "
                f"cross-encoder:ID{least_of}.{did_you_mean(kind, KINDS)}"
            )
        return cls(cast(Kind, kind), int(value))

    def __str__(self) -> str:
        value = self.model if self.kind == "cross-encoder" else self.number
        return self.kind if value is None else f"{self.kind}:{value}"

    @property
    def label(self) -> str:
        """Its name for others to read: a folder of this machine goes by its last part."""
        if self.model is not None and Path(self.model).is_dir():
            return f"{self.kind}:{Path(self.model).resolve().name}"
        return str(self)

    @property
    def revision(self) -> str | None:
        """Commit of a cross-encoder from the Hub, as far as the cache knows it."""
        found = None if self.model is None or Path(self.model).is_dir() else find(self.model, "config.json")
        return found.parent.name if found is not None and found.parent.parent.name == "snapshots" else None

    @property
    def content(self) -> str | None:
        """Which cross-encoder it is, whatever its folder or repository is called: the commit of one from the Hub, the
        SHA-256 of a folder's weights and settings. None of other policies.

        Raises:
            FileNotFoundError: If there is no such model.
        """
        if self.model is None:
            return None
        folder = Path(self.model)
        if not folder.is_dir():
            return self.revision
        files = sorted(p for p in folder.rglob("*") if p.suffix in _OF_A_MODEL and p.is_file())
        stats = ((p, p.stat()) for p in files)
        return _sha256(folder, tuple((p.relative_to(folder), s.st_size, s.st_mtime_ns) for p, s in stats))

    @property
    def pin(self) -> dict[str, Any]:
        """For a run's params: `content`, of a cross-encoder."""
        return {} if self.model is None else {"content": self.content}

    @property
    def name(self) -> str:
        """`label`, and for a cross-encoder the start of `content`: two of one label have two names."""
        return f"{self.label}@{str(self.content)[:12]}" if self.model is not None else self.label

    @property
    def asks(self) -> bool:
        """Whether it needs a language model."""
        return self.kind in _LEAST

    def of(self, task: ObliqueTaskName) -> Policy:
        """The same with the task's own K, where none was said."""
        return Policy("listwise", BEST_K[task]) if self.kind == "listwise" and self.number is None else self

    def build(self, task: ObliqueTaskName, ask: Ask | None, seed: int = 0) -> Reranker:
        """The reranker on an oblique task.

        Raises:
            FileNotFoundError: If there is no such cross-encoder.
            ValueError: If it needs a language model and there is none.
        """
        if self.kind == "identity":
            return identity
        if self.kind == "cross-encoder":
            from hub_models.retrieval.cross_encoder import CrossEncoderReranker

            return CrossEncoderReranker(str(self.model), OBLIQUE_INSTRUCTIONS[task])
        if ask is None:
            raise ValueError(f"the policy {self} asks a language model; name one")
        number = self.of(task).number or 0
        if self.kind == "tourrank":
            return TourRank(ask, number, seed)
        return Listwise(ask, task, number, sliding=self.kind == "sliding")


@lru_cache
def _sha256(folder: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """Over names and bytes of files; size and time of change see to it that a changed one is read again."""
    digest = hashlib.sha256()
    for path, size, _ in files:
        digest.update(f"{path.as_posix()} {size}\n".encode())
        with (folder / path).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


AUTO = (Policy("identity"), Policy("tourrank", 5), Policy("listwise"))
"""What O chooses among (equation 8)."""
