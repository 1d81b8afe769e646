"""Can this specialist teach my attribute? The purity of its neighbour graph, before anybody trains (O 6.5, I)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataset_builders.checks import show
from dataset_builders.knn import Hits, neighbours
from dataset_builders.rows import read_rows
from dataset_builders.sources.obliq_bench import read_qrels
from dataset_builders.text import check_text, did_you_mean

Float32 = NDArray[np.float32]

KS = (1, 3, 5, 10)
"""Neighbourhood sizes of O (H)."""

LEVEL = 0.95
RESAMPLES = 10_000
_CELLS = 4_000_000  # of the resamples' counts at a time


@dataclass(frozen=True)
class Probe:
    """Documents in the order of their vectors.

    Attributes:
        ids: Distinct.
        labels: The attribute of a document, by id; absent where it is not known.
        texts: By id; empty if the file holds none.
        sources: The longer text that a document is a part of, by id; absent for a text of its own.
    """

    ids: list[str]
    labels: dict[str, str]
    texts: dict[str, str]
    sources: dict[str, str]


@dataclass(frozen=True, slots=True)
class Purity:
    """One neighbourhood size.

    Attributes:
        k: Neighbours a document.
        edges: Directed edges with both ends labelled.
        same: Those whose ends share the label.
        rate: ``same / edges``; null without an edge.
        low: Lower end of its 95 % interval, resampling labels; null with fewer than two labels among the edges.
        high: The upper end.
        base: The rate among all pairs of labelled documents that may be neighbours.
    """

    k: int
    edges: int
    same: int
    rate: float | None
    low: float | None
    high: float | None
    base: float

    @property
    def lift(self) -> float | None:
        """How many times the base rate the rate is."""
        return None if self.rate is None else self.rate / self.base


def purity(
    vectors: Float32, probe: Probe, ks: Sequence[int] = KS, *, seed: int = 0, resamples: int = RESAMPLES
) -> list[Purity]:
    """Measure how often neighbours share an attribute.

    The graph is over all documents: those without a label take up neighbours' places, but no edge to or from them
    counts (O I). Edges from documents of one label are no independent draws, so the interval resamples labels, not
    edges.

    Args:
        vectors: float32[n, d], a row for each id of the probe.
        probe: The documents.
        ks: Neighbourhood sizes.
        seed: Of the resampling.
        resamples: Their number.

    Returns:
        One row for each size, in order.

    Raises:
        ValueError: If rows and ids differ in number, a vector is zero or not finite, a size is below 1 or does not
            leave a document out, no two documents that may be neighbours share a label, or all do.
    """
    n = len(probe.ids)
    if len(vectors) != n:
        raise ValueError(f"got {len(vectors)} vectors for {n} documents, wanted a row for each, in their order")
    wrong = [k for k in ks if not 1 <= k < n]
    if wrong or not ks:
        raise ValueError(f"got k = {wrong or 'none'} and {n} documents, wanted from 1 to {n - 1}: the others")
    base = base_rate(probe)
    if base in (0, 1):
        raise ValueError(
            f"{len(probe.labels)} of {n} documents have a label, and {'no two' if base == 0 else 'all'} that may be "
            f"neighbours share it: nothing can be told from that; label more documents"
        )
    sources: list[Hashable] | None = [probe.sources.get(i) for i in probe.ids] if probe.sources else None
    graph = neighbours(vectors, max(ks), probe.ids, sources=sources)
    return [_at(k, graph, probe, base, seed, resamples) for k in ks]


def _at(k: int, graph: Sequence[Hits], probe: Probe, base: float, seed: int, resamples: int) -> Purity:
    same: Counter[str] = Counter()
    edges: Counter[str] = Counter()
    for document, hits in zip(probe.ids, graph, strict=True):
        label = probe.labels.get(document)
        for neighbour, _ in hits[:k]:
            if label is not None and neighbour in probe.labels:
                edges[label] += 1
                same[label] += probe.labels[neighbour] == label
    names = sorted(edges)
    counts = np.array([[same[name], edges[name]] for name in names], dtype=np.float64).reshape(-1, 2)
    total = edges.total()
    low, high = _interval(counts, seed, resamples) if len(names) > 1 else (None, None)
    return Purity(k, total, same.total(), same.total() / total if total else None, low, high, base)


def _interval(counts: NDArray[np.float64], seed: int, resamples: int) -> tuple[float, float]:
    """Percentiles of the ratio of sums, resampling the rows of float64[labels, (same, edges)]."""
    rng = np.random.default_rng(seed)
    labels = len(counts)
    ratios = []
    for start in range(0, resamples, step := max(1, _CELLS // labels)):
        drawn = rng.multinomial(labels, np.full(labels, 1 / labels), size=min(step, resamples - start)) @ counts
        ratios.append(drawn[:, 0] / drawn[:, 1])
    low, high = np.quantile(np.concatenate(ratios), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def base_rate(probe: Probe) -> float:
    """The share of equal labels among all pairs of labelled documents, of one source left out; 0 without a pair."""

    def pairs(groups: Mapping[Hashable, int]) -> int:
        return sum(n * (n - 1) for n in groups.values())

    labelled = [(label, probe.sources.get(i)) for i, label in probe.labels.items()]
    same = pairs(Counter(label for label, _ in labelled))
    same -= pairs(Counter(pair for pair in labelled if pair[1] is not None))
    everything = len(labelled) * (len(labelled) - 1)
    everything -= pairs(Counter(source for _, source in labelled if source is not None))
    return same / everything if everything else 0.0


def qrel_groups(qrels: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Document to the smallest document id of its group: documents that are relevant for one query are of one group,
    and so are those that a chain of queries links (union-find, O I)."""
    parent: dict[str, str] = {}

    def root(document: str) -> str:
        parent.setdefault(document, document)
        while parent[document] != document:
            parent[document] = parent[parent[document]]
            document = parent[document]
        return document

    for grades in qrels.values():
        relevant = [document for document, grade in grades.items() if grade > 0]
        for document in relevant:
            a, b = sorted((root(relevant[0]), root(document)))
            parent[b] = a
    return {document: root(document) for document in parent}


def read_probe(labels: Path, corpus: Path | None = None) -> Probe:
    """Read the labelled documents.

    Args:
        labels: JSONL or parquet, a row for each document in the order of the vectors: ``_id``, and as far as there are
            any ``text``, ``label``, ``text_id`` (of the longer text that it is a part of); or the rows of an oblique
            corpus, with the last two as ``attribute`` and ``text_id`` of ``metadata``. Or qrels (``.tsv``), from
            which groups are found by `qrel_groups`.
        corpus: The rows of all documents, where ``labels`` are qrels or labels of some of them.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a row has no id, an id is doubled, a label is no string, a text is blank or broken, a label is
            of no document, or there is not one label.
    """
    for path in (labels, corpus):
        if path is not None and not path.is_file():
            raise FileNotFoundError(f"{path}: no such file")
    if labels.suffix == ".tsv":
        if corpus is None:
            raise ValueError(f"{labels.name}: qrels do not name all documents; give their file with --corpus")
        qrels: dict[str, dict[str, int]] = {}
        for query, document, grade in read_qrels(labels):
            qrels.setdefault(query, {})[document] = grade
        found = qrel_groups(qrels)
        probe = _read(corpus)
    else:
        probe = _read(labels)
        found = probe.labels
        if corpus is not None:
            probe = _read(corpus)
    unknown = sorted(set(found).difference(probe.ids))
    if unknown:
        raise ValueError(f"{labels.name}: {len(unknown)} labels are of no document, such as {unknown[:5]}")
    if not found:
        raise ValueError(f"{labels.name}: none of the {len(probe.ids)} documents has a label")
    return Probe(probe.ids, {i: found[i] for i in probe.ids if i in found}, probe.texts, probe.sources)


def _read(path: Path) -> Probe:
    probe = Probe([], {}, {}, {})
    for where, row in read_rows(path):
        if "_id" not in row:
            hints = "".join(did_you_mean(key, ("_id",)) for key in row)
            raise ValueError(f"{where}: got the keys {list(row)}, wanted _id, label, text.{hints}")
        document = str(row["_id"])
        probe.ids.append(document)
        metadata = row.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise ValueError(f"{where}: metadata: got {type(metadata).__name__}, wanted an object")
        label, source = row.get("label", metadata.get("attribute")), row.get("text_id", metadata.get("text_id"))
        if label is not None:
            probe.labels[document] = check_text(label, f"{where}: label")
        if source is not None:
            probe.sources[document] = str(source)
        if row.get("text") is not None:
            probe.texts[document] = check_text(row["text"], f"{where}: text")
    doubled = [i for i, n in Counter(probe.ids).items() if n > 1]
    if doubled:
        raise ValueError(f"{path.name}: ids must be unique; doubled: {doubled[:10]}")
    return probe


def read_vectors(path: Path) -> Float32:
    """float32[n, d] of an ``.npy`` file, mapped, such as `python -m hub_models encode` writes.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no matrix of floating-point numbers.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path.name}: the file is no .npy of numbers ({error})") from None
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype.kind != "f":
        got = getattr(vectors, "shape", type(vectors).__name__), str(getattr(vectors, "dtype", ""))
        raise ValueError(f"{path.name}: got {got[0]} {got[1]}, wanted floating-point numbers of shape [n, d]")
    return vectors if vectors.dtype == np.float32 else vectors.astype(np.float32)


def table(rows: Sequence[Purity]) -> list[list[str]]:
    """The rows as cells, under a header (O table I.1)."""
    cells = [["k", "edges", "same", "rate", "interval", "base rate", "lift"]]
    for row in rows:
        interval = "-" if row.low is None else f"{show(row.low)}-{show(row.high)}"
        lift = "-" if row.lift is None else f"{row.lift:.1f}"
        cells.append([str(row.k), show(row.edges), show(row.same), show(row.rate), interval, f"{row.base:.4f}", lift])
    return cells
