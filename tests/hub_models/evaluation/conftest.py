"""Fixtures for evaluations."""

from __future__ import annotations

import pytest

from hub_models.evaluation import systems


@pytest.fixture
def encoded(monkeypatch):
    """Every text that reaches the one encoding place, in order."""
    texts: list[str] = []
    real = systems.encode_corpus

    def counting(batch, model, **kwargs):
        texts.extend(batch)
        return real(batch, model, **kwargs)

    monkeypatch.setattr(systems, "encode_corpus", counting)
    return texts
