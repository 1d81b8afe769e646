"""What plain loading makes of a released adapter, with the installed versions of the libraries.

If one of these fails after an upgrade, loading has changed: look again at how a release is loaded exactly and at the
line on the cards that repeats its numbers, before the expectation here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hub.clients import TestHub

Story = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Loading the release v1 when it is new, after the adapter's main has moved, and after the base's has."""
    program = str(Path(__file__).with_name("adapter_story.py"))
    with TestHub() as hub:
        done = hub.run(["python", program, str(tmp_path_factory.mktemp("story"))])
        assert not hub.errors
    told: Story = json.loads(done.stdout.splitlines()[-1])
    return told


def same(stage: dict[str, Any], way: str, other: Any) -> bool:
    return bool(stage[way]["vector"] == pytest.approx(other["vector"], abs=1e-6))


def test_a_new_release_is_the_same_by_every_way_of_loading(story: Story) -> None:
    stage = story["released"]
    assert all(same(stage, way, stage["main"]) for way in stage)
    assert story["transformers and peft"] == [1, 3, 16]


def test_a_revision_gives_the_config_of_the_release_and_the_weights_of_main(story: Story) -> None:
    released, stage = story["released"]["main"], story["adapter moved"]
    assert not same(stage, "main", released)
    assert same(stage, "revision", stage["main"]), "sentence-transformers now honours `revision` for adapters"
    assert stage["revision"]["query"] == "query 2: " != stage["main"]["query"]
    assert [way for way in stage if same(stage, way, released)] == ["snapshot", "adapter_kwargs", "base and adapter"]


def test_the_base_is_pinned_by_hand_alone_and_then_the_prompts_are_the_base_s(story: Story) -> None:
    released, stage = story["released"]["main"], story["base moved"]
    assert [way for way in stage if same(stage, way, released)] == ["base and adapter"]
    assert stage["base and adapter"]["query"] == "" != released["query"]
