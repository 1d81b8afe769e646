"""Asking a language model at a loopback endpoint, in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dataset_builders import generate
from dataset_builders.generate import LanguageModel, Request
from tests.endpoint import Endpoint, Fault

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "default": None}}, "required": ["a"]}


def ask(text: str, **more: Any) -> Request:
    return Request(({"role": "user", "content": text},), **more)


def echo(body: dict[str, Any]) -> str:
    return f"re: {body['messages'][-1]['content']}"


def one_after_another(*answers: str | Fault) -> Callable[[dict[str, Any]], str | Fault]:
    left = iter(answers)
    return lambda body: next(left)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a module that imports it: no wait between two attempts."""
    monkeypatch.setattr(generate, "_backoff", lambda state: 0.0)


def model_at(server: Endpoint, **more: Any) -> LanguageModel:
    return LanguageModel("tiny", base_url=server.base_url, **more)
