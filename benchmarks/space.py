"""How long a visitor of the Space waits, once it is warm: both columns from base and tuned model, HTML and all.

Each measure is a median over distinct questions, the first few left out, of what answers a request. The way to the
browser comes on top: a row says what a client on this machine sees. Over 100,000 documents texts and vectors are made
up; queries are encoded everywhere. The model is the one that the Space would open with, and must have an adapter.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from gradio_client import Client

from benchmarks.measure import ROOT, Row, arguments, report, row, seconds
from benchmarks.synthetic import texts, vectors
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from hub_models import StanceSearch

sys.path.insert(0, str(ROOT / "spaces" / "stance_and_oblique_search"))

from slant_space import render
from slant_space.corpora import Corpus, Document
from slant_space.engine import Dial, Engine
from slant_space.interface import build, serve
from slant_space.questions import ObliqueQuestion, StanceQuestion
from slant_space.settings import read_settings

WARM_UP = 5
"""Questions left out: at least one of each oblique task, which is encoded when it is first asked."""


class MadeUp(StanceSearch):
    """A search whose documents' vectors are made up; queries are encoded."""

    def _vectors(self, state: Callable[[], Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return vectors(len(self.documents), self.encode(["width"]).shape[1], seed=0)


def made_up(model: StanceSearch, documents: int) -> Dial:
    """A corpus of drawn words, with its base at hand as a visitor's has."""
    corpus = Corpus("drawn", {str(i): Document(str(i), t) for i, t in enumerate(texts(documents, 10, 40, seed=0))})
    return Dial(corpus, MadeUp(model, {d.id: d.text for d in corpus.documents.values()}))


def stance(engine: Engine, dial: Dial, claim: str) -> None:
    render.stance_results(engine.stance(dial, StanceQuestion(claim=claim)))


def oblique(engine: Engine, question: ObliqueQuestion) -> None:
    render.oblique_results(engine.oblique(question))


def explain(engine: Engine, claim: str, document: str) -> None:
    question = StanceQuestion(claim=claim)
    render.explanation(engine.explain(engine.dial, question, "attack", document), document, "attack")


def milliseconds(calls: Iterable[Callable[[], Any]]) -> float:
    """The median of all but the first, which warm up."""
    return 1000 * statistics.median([seconds(call) for call in calls][WARM_UP:])


def limit(name: str, ours: float, most: float | None) -> Row:
    """A row against a time, or one that is there to be read."""
    if most is None:
        return row(name, ours, None, None, against="", unit="ms")
    return row(name, ours, most, "<= 1", against=f"{most:g} ms", unit="ms")


def main() -> None:
    asked = arguments(__doc__, documents=100_000, questions=40)
    engine = Engine(read_settings(os.environ))
    if not engine.has_adapter:
        sys.exit(f"got {engine.settings.model_name} without an adapter; run `make quickstart`, or set SLANT_MODEL")
    n = asked.questions + WARM_UP
    claims = [*engine.dial.corpus.claims, *texts(n, 8, 16, seed=2)][:n]
    of_tasks = [
        [ObliqueQuestion(t, q.text) for q in engine.task(t).task.queries.values()] for t in OBLIQUE_INSTRUCTIONS
    ]
    queries = [question for of_each in zip(*of_tasks, strict=False) for question in of_each][
        :n
    ]  # task by task in turn
    large = made_up(engine.dial.released, asked.documents)
    of_sample = f"a stance search of the Space, {len(engine.dial.corpus.documents)} documents"
    rows = [
        limit(of_sample, milliseconds(partial(stance, engine, engine.dial, c) for c in claims), 150),
        limit(
            f"a stance search of the Space, {asked.documents:,} documents",
            milliseconds(partial(stance, engine, large, c) for c in texts(n, 8, 16, seed=1)),
            300,
        ),
    ]
    rows[-1]["note"] = "texts and their vectors are made up; claims are encoded."
    del large
    demo = build(engine)
    serve(demo, prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    client = Client(demo.local_url, verbose=False)
    over_http = [partial(client.predict, c, api_name="/stance_search") for c in claims]
    rows.append(limit(f"{of_sample}, by gradio_client", milliseconds(over_http), None))
    demo.close()
    oblique_search, explanation = (
        (partial(oblique, engine, q) for q in queries),
        (partial(explain, engine, c, engine.dial.released.search(c, k=1)[0].text) for c in claims),
    )
    rows.append(limit("an oblique search of the Space", milliseconds(oblique_search), None))
    rows.append(limit("an explanation of the Space", milliseconds(explanation), None))
    report(rows, asked.out)


if __name__ == "__main__":
    main()
