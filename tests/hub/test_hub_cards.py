"""The card validator of the loopback Hub, rule by rule."""

from __future__ import annotations

import pytest

from tests.hub.card_rules import problems


@pytest.mark.parametrize(
    ("card", "kind", "complaint"),
    [
        ("# no metadata", "model", "empty or missing yaml metadata"),
        ("---\nlicense: [mit\n---\n", "model", "YAML cannot be read"),
        ("---\n- mit\n---\n", "model", "YAML must be an object"),
        ("---\nlicense: Apache License 2\n---\n", "model", '"license" must be one of'),
        ("---\nlicense: mit\ntags: stance\n---\n", "model", '"tags" must be an array'),
        ("---\nmodel-index: [{name: x}]\n---\n", "model", '"model-index" must be an array'),
        ("---\nlicense: mit\nconfigs: [{data_files: x}]\n---\n", "dataset", '"config_name"'),
        ("---\nconfigs: [{config_name: a}, {config_name: a}]\n---\n", "dataset", '"config_name" must be unique'),
        (
            "---\nconfigs: [{config_name: a, default: true}, {config_name: b, default: true}]\n---\n",
            "dataset",
            "may be the default",
        ),
        ("---\ntags: [a]\n---\n", "dataset", '"license" is missing'),
        ("---\ntitle: x\n---\n", "space", '"sdk" must be one of'),
        ("---\nsdk: gradio\ncolorTo: mauve\n---\n", "space", '"colorTo" must be one of'),
        (f"---\nsdk: gradio\nshort_description: {'x' * 61}\n---\n", "space", '"short_description" length'),
    ],
)
def test_a_card_is_complained_of(card: str, kind: str, complaint: str) -> None:
    errors, warnings = problems(card, kind)
    assert any(complaint in each["message"] for each in [*errors, *warnings])


@pytest.mark.parametrize("kind", ["model", "dataset", "space"])
def test_a_good_card_passes(kind: str) -> None:
    card = "---\nlicense: cc-by-sa-4.0\ntags: [a]\nsdk: gradio\nconfigs: [{config_name: a}]\n---\n# Good\n"
    assert problems(card, kind) == ([], [])
