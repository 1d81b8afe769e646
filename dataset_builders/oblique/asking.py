"""Have a language model write one text for each document: held against the gate, asked once more, or dropped."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dataset_builders import json_reply
from dataset_builders.generate import GenerationError, LanguageModel, Request
from dataset_builders.oblique.documents import Document
from dataset_builders.oblique.gate import Bounds, failures

logger = logging.getLogger(__name__)

LONGEST: Final = 12_000
"""Characters of a document that are shown; a longer one is cut there. The gate compares with all of it."""
_ROOM: Final = 1024  # tokens; a model that thinks aloud first needs them

AGAIN: Final = """\
An earlier try at this was refused; "refused" holds what was written and what is wrong with it. Write it anew by the \
rules, and do not use any word that is named there."""


@dataclass(frozen=True)
class Task:
    """One text to write.

    Attributes:
        document: What it is for.
        system: The prompt.
        given: What is shown besides the document, by key.
        bounds: What the text must keep.
    """

    document: Document
    system: str
    given: Mapping[str, str]
    bounds: Bounds


@dataclass(frozen=True)
class Written:
    """What came of the tasks.

    Attributes:
        texts: The texts that passed, by the task's number.
        second: How many of them only when asked once more.
        failed_first: Candidates of the first round by failed check; one may fail several.
        dropped: Tasks given up by the checks that failed last.
        lost: How many tasks were given up.
        unanswered: Tasks for which the endpoint gave no answer.
    """

    texts: dict[int, str]
    second: int
    failed_first: dict[str, int]
    dropped: dict[str, int]
    lost: int
    unanswered: int


@dataclass(frozen=True)
class _Candidate:
    text: str
    failed: dict[str, str]


def write(model: LanguageModel, tasks: Sequence[Task], key: str, description: str) -> Written:
    """Ask for every text, once more for what fails, naming what failed.

    Args:
        model: See `LanguageModel`; its cache makes a killed run resume.
        tasks: What is asked for.
        key: Of the answer, a JSON object with one text.
        description: Of the progress bar.

    Raises:
        GenerationError: If no request of the first round was answered.
    """
    first = _ask(model, tasks, dict.fromkeys(range(len(tasks))), key, description)
    again = {i: c for i, c in first.items() if c.failed}
    second = _ask(model, tasks, again, key, f"{description}, once more") if again else {}
    found = first | second  # what got no answer the second time keeps what was wrong with it the first time
    dropped = [c.failed for c in found.values() if c.failed]
    unanswered = len(tasks) - len(found)
    if unanswered:
        logger.warning("%s: %d got no answer: run the same command again to ask for them", description, unanswered)
    return Written(
        texts={i: c.text for i, c in sorted(found.items()) if not c.failed},
        second=sum(not c.failed for c in second.values()),
        failed_first=_count([c.failed for c in first.values()]),
        dropped=_count(dropped),
        lost=len(dropped),
        unanswered=unanswered,
    )


def _count(failed: Sequence[Mapping[str, str]]) -> dict[str, int]:
    return dict(sorted(Counter(check for checks in failed for check in checks).items()))


def _ask(
    model: LanguageModel,
    tasks: Sequence[Task],
    refused: Mapping[int, _Candidate | None],
    key: str,
    description: str,
) -> dict[int, _Candidate]:
    """The candidates by the task's number; without those not answered."""
    numbers = list(refused)
    requests = [_request(tasks[i], key, refused[i]) for i in numbers]
    found: dict[int, _Candidate] = {}
    errors: list[GenerationError] = []
    for place, answer in model.ask_all(requests, description=description):
        i = numbers[place]
        if isinstance(answer, GenerationError):
            errors.append(answer)
            continue
        parsed = json_reply.parse(answer, key)
        if isinstance(parsed, str):
            found[i] = _Candidate("", {"json": parsed})
        else:
            text = parsed.get(key)
            failed = failures(text, tasks[i].document.text, tasks[i].bounds)
            # What is no text, half a surrogate pair in it for one, cannot be quoted in a request either.
            found[i] = _Candidate(text.strip() if isinstance(text, str) and "text" not in failed else "", failed)
    if errors:
        logger.warning(
            "%s: %d of %d requests got no answer, such as: %s", description, len(errors), len(requests), errors[0]
        )
        if len(errors) == len(requests) and None in refused.values():
            raise errors[0]
    return dict(sorted(found.items()))


def _request(task: Task, key: str, refused: _Candidate | None) -> Request:
    asked: dict[str, Any] = {"document": task.document.text[:LONGEST], **task.given}
    room, system = _ROOM, task.system
    if refused is not None:
        asked["refused"] = {"written": refused.text[:LONGEST], "wrong": list(refused.failed.values())}
        system = f"{system}\n\n{AGAIN}"
        room *= 2 if "json" in refused.failed else 1
    return Request(
        ({"role": "system", "content": system}, {"role": "user", "content": json.dumps(asked, ensure_ascii=False)}),
        schema={
            "type": "object",
            "properties": {key: {"type": "string"}},
            "required": [key],
            "additionalProperties": False,
        },
        max_tokens=room,
    )
