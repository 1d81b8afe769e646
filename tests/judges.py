"""Stand-ins for a language model that reranks, behind `tests.endpoint`: they read the prompts as a model would.

The oracle knows the judgements; the noisy oracle picks wrongly one time in five; the topical judge looks at shared
words alone, which is what O 6.3 says of real ones; further ones answer by chance or uselessly. All are functions of
the request, so a repeated one gets the same answer.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dataset_builders.sources.obliq_bench import ObliqueTask
from dataset_builders.text import FUNCTION_WORDS, words
from hub_models.retrieval.rerank_prompts import MAX_WORDS

_ASKED = re.compile(r"Query: (.*)\n(?:Which (\d+) of the|Order all) ", re.DOTALL)
_REWRITE = re.compile(r"Task: [^\n]*\nQuery: (.*)\nAnswer with the new query alone", re.DOTALL)
_NUMBER = re.compile(r"(?:\[\d+\]|Document \d+:) ")
NOISE = 0.2


@dataclass(frozen=True)
class Asked:
    """A prompt as a model reads it: the query, the documents in the order shown, and how many to pick (None: rank)."""

    query: str
    documents: list[str]
    wanted: int | None


Judge = Callable[[Asked, random.Random], list[int]]
"""Places of the documents from 0, best first."""


def read(body: dict[str, Any]) -> Asked:
    turns = [m["content"] for m in body["messages"] if m["role"] == "user"]
    asked = _ASKED.match(turns[-1])
    assert asked, turns[-1]
    return Asked(asked[1], [_NUMBER.sub("", t, count=1) for t in turns[1:-1]], int(asked[2]) if asked[2] else None)


def answering(judge: Judge) -> Callable[[dict[str, Any]], str]:
    """The judge as an endpoint's behaviour, in the form that the prompt asks for."""

    def answer(body: dict[str, Any]) -> str:
        if (rewritten := _REWRITE.match(body["messages"][-1]["content"])) is not None:
            return f"A text that fits this: {rewritten[1]}"
        asked = read(body)
        digest = hashlib.sha256(json.dumps(body["messages"]).encode()).digest()
        order = judge(asked, random.Random(digest))
        if asked.wanted is None:
            return " > ".join(f"[{place + 1}]" for place in order)
        return ", ".join(f"Document {place + 1}" for place in order[: asked.wanted])

    return answer


def oracle(*tasks: ObliqueTask) -> Judge:
    """Relevant documents first, by grade."""
    grades = {
        query.text: {
            _shown(task.corpus[d].text): grade for d, grade in task.qrels.get(i, {}).items() if d in task.corpus
        }
        for task in tasks
        for i, query in task.queries.items()
    }

    def judge(asked: Asked, rng: random.Random) -> list[int]:
        of_query = grades[asked.query]
        return sorted(range(len(asked.documents)), key=lambda i: -of_query.get(asked.documents[i], 0))

    return judge


def noisy(judge: Judge, share: float = NOISE) -> Judge:
    """Each pick is, with probability ``share``, some other document."""

    def wrong(asked: Asked, rng: random.Random) -> list[int]:
        order = judge(asked, rng)
        for place in range(asked.wanted or len(order)):
            if rng.random() < share:
                other = rng.randrange(len(order))
                order[place], order[other] = order[other], order[place]
        return order

    return wrong


def topical(asked: Asked, rng: random.Random) -> list[int]:
    """By the content words that are shared with the query, whatever the query asks for."""
    query = set(words(asked.query)) - FUNCTION_WORDS

    def shared(i: int) -> float:
        document = set(words(asked.documents[i])) - FUNCTION_WORDS
        return len(query & document) / (len(query | document) or 1)

    return sorted(range(len(asked.documents)), key=lambda i: -shared(i))


def chance(asked: Asked, rng: random.Random) -> list[int]:
    return rng.sample(range(len(asked.documents)), len(asked.documents))


def useless(body: dict[str, Any]) -> str:
    """An endpoint's behaviour, not a judge: it never gives a ranking."""
    return "I am sorry, but these texts cannot be compared."


def _shown(text: str) -> str:
    return " ".join(text.split()[:MAX_WORDS])
