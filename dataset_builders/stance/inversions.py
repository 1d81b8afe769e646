"""Stance inversions by a language model: concede the facts, sever the link to the claim (S 5.2, appendix H).

One request a claim with its arguments of both sides, as in S. Every candidate goes through `inversion_checks`; what
fails is asked once more, naming what failed, and then dropped and counted.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dataset_builders import json_reply
from dataset_builders.generate import GenerationError, LanguageModel, Reply, Request
from dataset_builders.instructions import STANCES, Stance
from dataset_builders.schema import Argument, Claim, Inversion
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.inversion_checks import CHECKS, failures
from dataset_builders.stance.inversion_report import Report

logger = logging.getLogger(__name__)

MAX_ITEMS: Final = 12
"""Arguments in one request; a claim with more is asked in parts."""

PROMPT: Final = """\
You turn arguments around. You get a claim, arguments that support it and arguments that attack it. Rewrite each \
argument so that, with the same facts, it argues for the other side: a supporting one must attack the claim, an \
attacking one must support it.

Rules:
1. Stay close. Keep nine words out of ten, in the same order: the nouns, the names, the build of the sentence.
2. Turn the link alone. Change only the words that carry the stance: verbs that relate fact and claim, adjectives \
that judge, conjunctions. Where the argument opens with a verdict ("The claim is true because"), give the opposite \
verdict and turn the rest around as well.
3. Leave the facts true. Never change a number or a name, and never state something false. Concede the fact and cut \
the step from it to the conclusion: what seemed to prove the point is shown not to settle it.
4. Add nothing. No new reason, no explanation, no closing remark.
5. Negate with wit. Do not merely put in or take out a "not": use opposites and other verbs. Not every text may lean \
on "although".
6. Answer with JSON alone: {"support_flipped": [...], "attack_flipped": [...]}, one text for each argument, in the \
order given; an empty list where there is none.

Example:
{"claim": "Honey never spoils.", \
"support": ["The claim is true because sealed jars of it, thousands of years old, have been opened in tombs and found \
fit to eat."], \
"attack": ["Leave the lid off in a damp kitchen, and within weeks the surface ferments: that is proof enough."]}
Answer:
{"support_flipped": ["The claim is false because sealed jars of it, thousands of years old, that have been opened in \
tombs and found fit to eat are exceptions."], \
"attack_flipped": ["Leave the lid off in a damp kitchen, and within weeks the surface ferments: that is hardly proof \
of anything."]}"""

AGAIN: Final = """\
An earlier try at these was refused; "refused" holds, for each argument, what was written and what is wrong with it. \
Write each one anew by the rules."""

PROMPT_SHA256: Final = hashlib.sha256(f"{PROMPT}\n{AGAIN}".encode()).hexdigest()


@dataclass(frozen=True)
class Item:
    """An argument to turn around: its claim, and its stance towards it."""

    claim: Claim
    argument: Argument
    stance: Stance


@dataclass(frozen=True)
class Candidate:
    """A rewriting, "" where none came, and the checks that it fails with what is wrong."""

    text: str
    failed: dict[str, str]


def generate(data: StanceData, model: LanguageModel) -> tuple[StanceData, Report]:
    """Have every argument of the data inverted.

    Args:
        data: Its own inversions are left out.
        model: See `LanguageModel`; its cache makes a killed run resume.

    Returns:
        The data with the inversions that passed, in the order of the relations, and what came of the rest.

    Raises:
        ValueError: If there is no argument to invert, or none of the answers stands the checks.
        GenerationError: If no request was answered.
    """
    items = _items(data)
    if not items:
        raise ValueError(f"{data.source}: there is no argument to invert")
    first = _ask(model, items, {}, "inversions")
    again = {i: c for i, c in first.items() if c.failed}
    second = _ask(model, items, again, "inversions, once more") if again else {}
    found = first | second  # what got no answer the second time keeps what was wrong with it the first time
    inversions = [
        Inversion(
            inversion_id=f"{item.claim.claim_id}/{item.argument.argument_id}-inv",
            claim_id=item.claim.claim_id,
            claim=item.claim.claim,
            argument_id=item.argument.argument_id,
            original=item.argument.text,
            original_stance=item.stance,
            style=item.argument.style,
            inverted=found[i].text,
            generator=model.model,
            prompt_sha256=PROMPT_SHA256,
            source=item.argument.source,
            licence=item.argument.licence,
            checks=("json", "items", *CHECKS),
        )
        for i, item in enumerate(items)
        if i in found and not found[i].failed
    ]
    inverted = replace(data, inversions=inversions)
    report = Report.of(
        inverted,
        generator=model.model,
        prompt_sha256=PROMPT_SHA256,
        wanted=len(items),
        first=[tuple(c.failed) for c in first.values()],
        dropped=[tuple(c.failed) for c in found.values() if c.failed],
        unanswered=len(items) - len(found),
        counters=model.counters.as_dict(),
    )
    if not inversions:
        raise ValueError(f"{data.source}: no inversion stood the checks: {'; '.join(report.lines()[:3])}")
    if report.unanswered:
        logger.warning("%d arguments got no answer: run the same command again to ask for them", report.unanswered)
    return inverted, report


def _items(data: StanceData) -> list[Item]:
    """Every relation, but for texts that both support and attack a claim."""
    labels = data.labels()
    claims = {c.claim_id: c for c in data.claims}
    arguments = {a.argument_id: a for a in data.arguments}
    return [
        Item(claims[r.claim_id], arguments[r.argument_id], r.stance)
        for r in data.relations
        if len(labels[r.claim_id][r.argument_id]) == 1
    ]


def _ask(
    model: LanguageModel, items: Sequence[Item], refused: dict[int, Candidate], description: str
) -> dict[int, Candidate]:
    """The candidates of all items, or of the refused ones, by the item's number; without those not answered."""
    groups = list(_groups(items, list(refused) or range(len(items))))
    requests = [_request(items, group, refused) for group in groups]
    found: dict[int, Candidate] = {}
    errors: list[GenerationError] = []
    for number, answer in model.ask_all(requests, description=description):
        if isinstance(answer, GenerationError):
            errors.append(answer)
        else:
            found |= _read(answer, items, groups[number])
    if errors:
        logger.warning("%d of %d requests got no answer, such as: %s", len(errors), len(requests), errors[0])
        if not refused and len(errors) == len(requests):
            raise errors[0]
    return dict(sorted(found.items()))


def _groups(items: Sequence[Item], numbers: Iterable[int]) -> Iterator[tuple[int, ...]]:
    by_claim: dict[str, list[int]] = defaultdict(list)
    for i in numbers:
        by_claim[items[i].claim.claim_id].append(i)
    for of_claim in by_claim.values():
        yield from (tuple(of_claim[k : k + MAX_ITEMS]) for k in range(0, len(of_claim), MAX_ITEMS))


def _sides(items: Sequence[Item], group: Sequence[int]) -> dict[Stance, list[int]]:
    return {stance: [i for i in group if items[i].stance == stance] for stance in STANCES}


def _request(items: Sequence[Item], group: Sequence[int], refused: dict[int, Candidate]) -> Request:
    sides = _sides(items, group)
    task: dict[str, Any] = {"claim": items[group[0]].claim.claim}
    task |= {stance: [items[i].argument.text for i in side] for stance, side in sides.items()}
    room = 1024 + sum(len(items[i].argument.text) for i in group)
    if refused:
        task["refused"] = {
            stance: [{"written": refused[i].text, "wrong": list(refused[i].failed.values())} for i in side]
            for stance, side in sides.items()
        }
        room *= 2 if any("json" in refused[i].failed for i in group) else 1
    system = f"{PROMPT}\n\n{AGAIN}" if refused else PROMPT
    return Request(
        ({"role": "system", "content": system}, {"role": "user", "content": json.dumps(task, ensure_ascii=False)}),
        schema=_schema({stance: len(side) for stance, side in sides.items()}),
        max_tokens=room,
    )


def _schema(counts: dict[Stance, int]) -> dict[str, Any]:
    lists = {
        f"{stance}_flipped": {"type": "array", "items": {"type": "string"}, "minItems": n, "maxItems": n}
        for stance, n in counts.items()
    }
    return {"type": "object", "properties": lists, "required": list(lists), "additionalProperties": False}


def _read(reply: Reply, items: Sequence[Item], group: Sequence[int]) -> dict[int, Candidate]:
    """A candidate for each item of a request."""
    texts = json_reply.parse(reply, "support_flipped and attack_flipped")
    if isinstance(texts, str):
        return {i: Candidate("", {"json": texts}) for i in group}
    found: dict[int, Candidate] = {}
    for stance, side in _sides(items, group).items():
        flipped = texts.get(f"{stance}_flipped", [])
        if not isinstance(flipped, list) or len(flipped) != len(side):
            n = len(flipped) if isinstance(flipped, list) else 0
            wrong = f"{stance}_flipped must hold {len(side)} texts, one for each argument, and held {n}"
            found |= {i: Candidate("", {"items": wrong}) for i in side}
            continue
        for i, text in zip(side, flipped, strict=True):
            failed = failures(items[i].claim.claim, items[i].argument.text, text)
            # What is no text, half a surrogate pair in it for one, cannot be quoted in a request either.
            found[i] = Candidate("" if "text" in failed else text, failed)
    return found
