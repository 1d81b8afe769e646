"""What language models are asked when they rerank. Our own words: O appendix P shows the captions of its prompts only.

Every document is a turn of its own, answered by a receipt, so that none can pass for an instruction or for another
document; the last turn alone asks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.generate import Message

MAX_WORDS = 300
"""Of a document, counted at white space; the rest is not shown."""

_ATTRIBUTE: dict[ObliqueTaskName, tuple[str, str]] = {
    "twitter": (
        "the opinion a post conveys, mostly without stating it. Compare attitudes: whose side it takes, what it "
        "approves of, what it mocks or fears, and how the query describes that",
        "Posts on the query's subject that convey another opinion are wrong; posts on any other subject that convey "
        "the described one are right",
    ),
    "math": (
        "the way of reasoning by which a problem is solved: the kind of argument, the step on which all of it turns",
        "Do not go by area, objects, numbers or wording: a problem of the same area solved by another argument is "
        "wrong, one of a distant area solved by the same argument is right",
    ),
    "writing": (
        "the hand that wrote a passage. Look at how it is written: length and rhythm of sentences, formality, "
        "punctuation, favourite constructions and small words",
        "Do not go by what a passage is about. Subject, plot, places and names say nothing of its author, and a "
        "passage on the query's subject is no better for it",
    ),
    "congress": (
        "one particular exchange that somebody half remembers: who pressed whom, how the other side answered or "
        "evaded, how it turned",
        "The memory avoids the words that were spoken. Do not go by shared words or by the general topic; go by "
        "whether the course of the exchange is the one remembered",
    ),
    "wildchat": (
        "how the assistant fails in a conversation: the kind of mistake that the query describes",
        "Do not go by what the conversation is about. One on the query's subject in which the assistant does well, or "
        "fails otherwise, is wrong",
    ),
}
"""Oblique task to the latent attribute by which its documents are ranked, and the topical fall-back it rules out."""


def listwise_messages(task: ObliqueTaskName, query: str, documents: Sequence[str]) -> tuple[Message, ...]:
    """Ask for a ranking of all documents by the task's latent attribute, as ``[2] > [1]``."""
    attribute, instead = _ATTRIBUTE[task]
    system = (
        f"You put texts in order by a property that they do not state: {attribute}. {instead}. If you cannot tell two "
        "texts apart by this property, keep them in the order given; never fall back on the topic."
    )
    opening = (
        f"I will give you {len(documents)} texts, each with its number in brackets. Put them in order by how well "
        f"they have the property asked for by this query: {query}"
    )
    closing = (
        f"Query: {query}\nOrder all {len(documents)} texts above, best first, by the property you were told and not "
        "by topic. Answer with the numbers alone, in this form: [2] > [1]. Every number once, no other word."
    )
    return _conversation(system, opening, [f"[{i}] {_cut(d)}" for i, d in enumerate(documents, 1)], closing)


def tournament_messages(query: str, documents: Sequence[str], wanted: int) -> tuple[Message, ...]:
    """Ask for the ``wanted`` most relevant documents, as ``Document 2, Document 1``. Names no attribute, as TourRank's
    own prompt does not (O figure P.1)."""
    system = "You compare documents and choose those that are most relevant to a query."
    opening = (
        f"I will give you {len(documents)} documents, one at a time. Choose the {wanted} that are most relevant to "
        f"this query: {query}"
    )
    closing = (
        f"Query: {query}\nWhich {wanted} of the {len(documents)} documents are most relevant to it? Answer with these "
        "alone, the best one first, in this form: Document 2, Document 1. No other word."
    )
    return _conversation(system, opening, [f"Document {i}: {_cut(d)}" for i, d in enumerate(documents, 1)], closing)


def rewrite_messages(instruction: str, query: str) -> tuple[Message, ...]:
    """Ask for a better search query (the rewriter among O's baselines)."""
    system = (
        "You write queries for a search engine that finds texts by meaning. Given what is to be found and a user's "
        "query, describe in a few sentences what the wanted texts themselves would look like and contain."
    )
    user = f"Task: {instruction}\nQuery: {query}\nAnswer with the new query alone."
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


def prompts_digest() -> str:
    """Twelve digits of the SHA-256 of all of the above: results are of these words and no others."""
    documents = ["first", "word " * (MAX_WORDS + 1)]
    said = [listwise_messages(task, "query", documents) for task in _ATTRIBUTE]
    said += [tournament_messages("query", documents, 1), rewrite_messages("instruction", "query")]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]


def _cut(document: str) -> str:
    return " ".join(document.split()[:MAX_WORDS])


def _conversation(system: str, opening: str, documents: Sequence[str], closing: str) -> tuple[Message, ...]:
    turns = [("system", system), ("user", opening), ("assistant", "Understood. Give me the first one.")]
    for number, document in enumerate(documents, 1):
        turns += [("user", document), ("assistant", f"Received number {number}.")]
    turns.append(("user", closing))
    return tuple({"role": role, "content": content} for role, content in turns)
