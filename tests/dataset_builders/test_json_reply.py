"""The object in a reply: it is found or refused in words, whatever the reply is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dataset_builders import json_reply
from dataset_builders.generate import Reply

PIECES = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "```json\n",
    "```",
    "<think>",
    "</think>",
    "\\ud800",
    "1e999",
    "NaN",
    "null",
]
REPLIES = st.text(st.characters()) | st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join)
"""Any characters, halves of pairs among them, and what replies are made of in any order."""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def parse(text: str, finish_reason: str = "stop") -> dict[str, Any] | str:
    return json_reply.parse(Reply(text, 1, 1, finish_reason, False, 0.0), "query")


@given(REPLIES, st.sampled_from(["stop", "length", ""]))
@example("[" * 100_000, "stop")  # deeper than Python nests
@example("9" * 5_000, "stop")  # longer than int() reads
@settings(deadline=None)
def test_any_text_is_an_object_or_a_refusal_in_words(text: str, finish_reason: str) -> None:
    found = parse(text, finish_reason)
    assert isinstance(found, dict) or found.startswith("the answer was ")
    if finish_reason == "length" or "{" not in text:
        assert isinstance(found, str)


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.sampled_from(["{}", "```json\n{}\n```", "```\n{}```"]))
@settings(deadline=None)
def test_an_object_is_found_with_thoughts_and_fences_around_it(wanted: dict[str, Any], around: str) -> None:
    written = around.replace("{}", json.dumps(wanted))
    assert parse(written) == parse(f"<think>{{}} or so?</think>\n {written} \n") == wanted


@given(VALUES.filter(lambda value: not isinstance(value, dict)))
@settings(deadline=None)
def test_other_values_are_refused_by_the_keys_that_were_asked_for(value: Any) -> None:
    assert parse(json.dumps(value)) == "the answer was no JSON object with query"
