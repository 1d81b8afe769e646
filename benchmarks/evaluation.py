"""Stance evaluation against sentence-transformers' evaluator and mteb on the same data, and against encoding alone.

The sample's test split with every query that `evaluate_model` asks: the 30 instructions and the bare claims. Ours
gives per-query values, slices, diagnostics and files; theirs the means of their metrics. First some of the claims,
encoded by each side; then all of them with a model that remembers its vectors, so that the rest of the work shows. At
last 2,048 documents with a baseline's results to compare with, once, against the encoding of the distinct texts alone.
MiniLM on the CPU; loading and figures are left out of all. The clock is the processor's: what else a machine does
takes more of these minutes than the sides differ by.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from sentence_transformers import SentenceTransformer

from hub_models.hub_cache import SAMPLE_BASE, use_project_cache

use_project_cache()

from benchmarks.evaluation_others import Remembering, by_mteb, by_sentence_transformers  # noqa: E402
from benchmarks.measure import Row, arguments, in_turns, report, row  # noqa: E402
from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE  # noqa: E402
from dataset_builders.sources import load as load_data  # noqa: E402
from dataset_builders.stance.data import StanceData  # noqa: E402
from hub_models import encoder  # noqa: E402
from hub_models.corpus import encode_corpus  # noqa: E402
from hub_models.evaluation.run import evaluate_model  # noqa: E402
from hub_models.evaluation.stance import judge, queries_of  # noqa: E402

UNIT = "CPU s"


def against_evaluators(model: SentenceTransformer, folder: Path, claims: int, repeats: int) -> list[Row]:
    encoder.load = lambda *_, **__: model  # type: ignore[assignment]
    data = tested(claims)
    judged = judge(data, "test")
    queries = queries_of(judged, DEFAULT_QUERY_TEMPLATE) + queries_of(judged, None)
    number = itertools.count()
    took = in_turns(
        {
            "ours": lambda: evaluate_model(SAMPLE_BASE, {"sample-stance": judged}, out=folder / str(next(number))),
            "st": lambda: by_sentence_transformers(model, judged, queries),
            "mteb": lambda: by_mteb(model, data, queries),
        },
        repeats,
        clock=time.process_time,
    )
    known = ", encoded before" if isinstance(model, Remembering) else ""
    what = f"stance evaluation, {len(queries):,} queries, {len(judged.documents)} documents{known}"
    fewer = f"{len({q.text for q in queries}):,} of the queries are distinct."
    return [
        row(what, took["ours"], took["st"], "<= 1", against="InformationRetrievalEvaluator", unit=UNIT, note=fewer),
        row(what, took["ours"], took["mteb"], "<= 1", against="mteb.evaluate", unit=UNIT),
    ]


def over_encoding(model: SentenceTransformer, folder: Path, claims: int, documents: int) -> Row:
    encoder.load = lambda *_, **__: model  # type: ignore[assignment]
    judged = judge(enlarged(tested(claims), documents), "test")
    texts = [d.text for d in judged.documents] + [c.claim for c in judged.claims]
    texts = list(dict.fromkeys(texts + [q.text for q in queries_of(judged, DEFAULT_QUERY_TEMPLATE)]))
    tasks = {"sample-stance": judged}
    baseline = str(evaluate_model(SAMPLE_BASE, tasks, out=folder / "baseline").results_path)
    took = in_turns(
        {
            "ours": lambda: evaluate_model(SAMPLE_BASE, tasks, out=folder / "over", baseline=baseline),
            "theirs": lambda: encode_corpus(texts, model, show_progress=False),
        },
        1,
        warm=False,
        clock=time.process_time,
    )
    what = f"evaluation with a comparison, {documents:,} documents"
    against = f"encoding its {len(texts):,} distinct texts"
    return row(what, took["ours"], took["theirs"], "<= 1.3", against=against, unit=UNIT, note="measured once.")


def tested(claims: int) -> StanceData:
    """So many test claims of the sample with their arguments."""
    data = load_data("sample")
    kept = [c for c in data.claims if c.split == "test"][:claims]
    ids = {c.claim_id for c in kept}
    relations = [r for r in data.relations if r.claim_id in ids]
    used = {r.argument_id for r in relations}
    arguments_ = [a for a in data.arguments if a.argument_id in used]
    return replace(data, claims=kept, relations=relations, arguments=arguments_, inversions=[])


def enlarged(data: StanceData, documents: int) -> StanceData:
    """The arguments several times over, told apart by a number, until there are enough."""
    copies = range(-(-documents // len(data.arguments)))
    arguments_ = [
        replace(a, argument_id=f"{a.argument_id}-{i}", text=f"{a.text} (Version {i}.)")
        for i in copies
        for a in data.arguments
    ][:documents]
    kept = {a.argument_id for a in arguments_}
    relations = [
        replace(r, argument_id=f"{r.argument_id}-{i}")
        for i in copies
        for r in data.relations
        if f"{r.argument_id}-{i}" in kept
    ]
    return replace(data, arguments=arguments_, relations=relations)


def main() -> None:
    asked = arguments(__doc__, encoded=16, claims=40, documents=2_048)
    model = encoder.load(SAMPLE_BASE)
    with tempfile.TemporaryDirectory() as folder:
        rows = against_evaluators(model, Path(folder) / "encoded", asked.encoded, asked.repeats)
        rows += against_evaluators(Remembering.of(model), Path(folder) / "known", asked.claims, asked.repeats)
        if asked.documents:
            rows.append(over_encoding(model, Path(folder), asked.claims, asked.documents))
    report(rows, asked.out)


if __name__ == "__main__":
    main()
