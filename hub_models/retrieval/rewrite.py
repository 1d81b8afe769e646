"""Queries that a language model rewrites before the search: a baseline of O (tables 1-4)."""

from __future__ import annotations

from dataclasses import dataclass

from dataset_builders.generate import Request
from dataset_builders.thoughts import answer_of
from hub_models.retrieval.rerank import Ask, Cost
from hub_models.retrieval.rerank_prompts import rewrite_messages


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The query to search with, and what it cost."""

    query: str
    cost: Cost


class Rewriter:
    """One language-model call a query. A reply without a word leaves the query as it is, and counts as a fallback.

    Args:
        ask: The model.
        instruction: What the task looks for.
    """

    def __init__(self, ask: Ask, instruction: str) -> None:
        self._ask = ask
        self.instruction = instruction

    def __call__(self, query: str) -> Rewritten:
        reply = self._ask(Request(rewrite_messages(self.instruction, query)))
        text = " ".join(answer_of(reply.text).replace("\x00", " ").split()).strip("\"'`")
        if not any(c.isalpha() for c in text):
            return Rewritten(query, Cost.of(reply, "fallback"))
        return Rewritten(text, Cost.of(reply, "repaired" if reply.finish_reason == "length" else "parsed"))
