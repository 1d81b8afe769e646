"""The stance instructions, their stance words, the oblique prefixes, and the one function that formats a query.

The 20 seen instructions train a model, the 10 unseen ones measure it (stance paper, appendix B). An oblique task has
one prefix, in training and at inference (O, appendix B.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Stance = Literal["support", "attack"]
STANCES: tuple[Stance, ...] = get_args(Stance)

DEFAULT_QUERY_TEMPLATE = "{instruction} {claim}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One way to ask for a stance.

    Attributes:
        id: Stable id, ``{stance}-{seen|unseen}-{nn}``.
        text: The instruction as it stands before the claim.
        stance: What it asks for.
        seen: Whether training may use it.
        stance_word: The word(s) that carry the stance, a substring of ``text`` (word ablation deletes them).
    """

    id: str
    text: str
    stance: Stance
    seen: bool
    stance_word: str


_SEEN: dict[Stance, list[tuple[str, str]]] = {
    "support": [
        ("Find evidence backing", "backing"),
        ("Retrieve arguments in favor of", "favor"),
        ("Search for statements validating", "validating"),
        ("Highlight information corroborating", "corroborating"),
        ("Uncover points upholding", "upholding"),
        ("Show claims affirming", "affirming"),
        ("Provide reasoning that supports", "supports"),
        ("Identify excerpts substantiating", "substantiating"),
        ("Extract statements advocating for", "advocating"),
        ("Gather facts verifying", "verifying"),
    ],
    "attack": [
        ("Find evidence refuting", "refuting"),
        ("Retrieve arguments against", "against"),
        ("Search for statements invalidating", "invalidating"),
        ("Highlight information contradicting", "contradicting"),
        ("Uncover points opposing", "opposing"),
        ("Show claims challenging", "challenging"),
        ("Provide reasoning that undermines", "undermines"),
        ("Identify excerpts disputing", "disputing"),
        ("Extract statements arguing against", "arguing against"),
        ("Gather facts debunking", "debunking"),
    ],
}

_UNSEEN: dict[Stance, list[tuple[str, str]]] = {
    "support": [
        ("Discover sources promoting", "promoting"),
        ("Retrieve evidence confirming", "confirming"),
        ("Locate specific arguments justifying", "justifying"),
        ("Find statements endorsing", "endorsing"),
        ("Show points backing up", "backing"),
    ],
    "attack": [
        ("Discover sources dismissing", "dismissing"),
        ("Retrieve evidence disproving", "disproving"),
        ("Locate specific arguments attacking", "attacking"),
        ("Find statements rejecting", "rejecting"),
        ("Show points doubting", "doubting"),
    ],
}


def _number(table: dict[Stance, list[tuple[str, str]]], seen: bool) -> tuple[Instruction, ...]:
    label = "seen" if seen else "unseen"
    return tuple(
        Instruction(f"{stance}-{label}-{i:02d}", text, stance, seen, word)
        for stance in STANCES
        for i, (text, word) in enumerate(table[stance], start=1)
    )


SEEN = _number(_SEEN, seen=True)
UNSEEN = _number(_UNSEEN, seen=False)
INSTRUCTIONS = SEEN + UNSEEN

STANCE_WORDS = frozenset(word for i in INSTRUCTIONS for word in i.stance_word.split())
"""Every word that carries the stance of an instruction, lower-cased. S's own list, of which these are most, is not
published to the letter; the general words on it (good, bad, agree …) stand in no instruction."""


OBLIQUE_INSTRUCTIONS: dict[str, str] = {
    "twitter": (
        "Retrieve tweets that implicitly express the latent stance described in the query, without surface mention of "
        "the topic."
    ),
    "math": (
        "Given an example problem, retrieve other math problems whose solutions share the same abstract reasoning "
        "technique."
    ),
    "writing": (
        "Given a prose snippet, retrieve other snippets by the same author across different topics, based on "
        "stylistic fingerprint."
    ),
    "congress": (
        "Retrieve the specific Congressional hearing passage matching the user's lossy recollection of the exchange."
    ),
    "wildchat": "Retrieve conversations in which the assistant shows the failure mode described in the query.",
}
"""Oblique task to the instruction before each of its queries: those of O B.3 to the letter, but for WildChat's, which
O does not give: that one is ours."""

OUR_OBLIQUE_INSTRUCTIONS = frozenset({"wildchat"})


def seen_for(stance: Stance) -> tuple[Instruction, ...]:
    """The ten instructions that training may use for ``stance``, in the paper's order."""
    return tuple(i for i in SEEN if i.stance == stance)


def format_query(template: str, instruction: str, claim: str) -> str:
    """Fill a recipe's query template. Training, evaluation and search all come through here.

    Args:
        template: Holds ``{instruction}`` and ends with ``{claim}``, such as ``"{instruction} {claim}"``.
        instruction: The instruction's text.
        claim: The claim. Braces in it are kept as they are.

    Raises:
        ValueError: If the template lacks a field or has something after ``{claim}``.
    """
    check_template(template)
    head = template[: -len("{claim}")]
    return head.replace("{instruction}", instruction) + claim


def query_prefix(template: str, instruction: str) -> str:
    """What stands before the claim: the prompt that a release carries for ``encode(claim, prompt_name=...)``."""
    return format_query(template, instruction, "")


def check_template(template: str) -> None:
    """Refuse a query template that cannot be written as a prompt plus the claim.

    Raises:
        ValueError: If ``{instruction}`` is missing or ``{claim}`` is not at the very end, once.
    """
    if "{instruction}" not in template or not template.endswith("{claim}") or template.count("{claim}") != 1:
        raise ValueError(
            f"query template {template!r}: wanted {{instruction}} somewhere and {{claim}} once, at the very end "
            f"(a release stores what precedes the claim as a prompt). Example: {DEFAULT_QUERY_TEMPLATE!r}"
        )
