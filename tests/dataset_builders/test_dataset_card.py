"""Cards of data sets: what a person wrote stays, hostile texts stay in their cells, a second time changes no byte."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from dataset_builders import builds, card_texts, quality
from dataset_builders.dataset_card import Card, merge, render
from dataset_builders.markdown import check_sections
from dataset_builders.stance.inversions import PROMPT_SHA256
from tests.dataset_builders.publisher import claims

CASE_03 = Path(__file__).parents[1] / "cases" / "case03_card" / "README.md"
CARD = Card(
    {
        "license": "cc-by-4.0",
        "configs": [{"config_name": "claims", "data_files": "claims/a.parquet", "default": True}],
    },
    {"language": ["en"]},
    "# generated\n\n## Misuse\n\n## Licences",
    ["claims"],
    None,
)


def rendered(tmp_path: Path, **more: object) -> Card:
    data = claims(tmp_path / "my.jsonl", **more)
    build = builds.prepare("my-stance-arguments", data)
    build.write(tmp_path / "stage")
    return render("org/my-stance-arguments", build, tmp_path / "stage", quality.check("my", data, seed=0))


def test_a_card_by_hand_keeps_its_text_and_its_configs_that_have_files() -> None:
    """Case 3; twice changes no byte."""
    old = CASE_03.read_text()
    once = merge(old, CARD, ["corpus/part.parquet", "README.md"], "org/x")
    head = yaml.safe_load(once.split("---\n")[1])
    assert [c["config_name"] for c in head["configs"]] == ["claims", "corpus"]  # queries and qrels have no file
    assert head["license"] == "cc-by-4.0" and head["language"] == ["en"]
    assert old.split("---\n", 2)[2].strip() in once and once.count("# generated") == 1
    assert merge(once, CARD, ["corpus/part.parquet", "README.md"], "org/x") == once


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_comments_and_line_ends_by_hand_stay_where_the_metadata_are_the_same(ends: str) -> None:
    card = merge(None, CARD, [], "org/x")
    front, body = card.split("---\n", 2)[1:]
    by_hand = f"---\n# mine{ends}{front}---\nBefore.{ends}{body}After.{ends}"
    again = merge(by_hand, CARD, [], "org/x")
    assert again == by_hand
    renewed = merge(by_hand, Card(CARD.head, CARD.chosen, "# new", ["claims"], None), [], "org/x")
    assert renewed == by_hand.replace(CARD.body, "# new")


@pytest.mark.parametrize("body", ["<!-- build: begin -->\nx", "<!-- build: end -->x<!-- build: begin -->"])
def test_a_torn_pair_of_markers_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match=r"org/x: README\.md: wanted one line '<!-- build: begin -->' and one"):
        merge(body, CARD, [], "org/x")


def test_a_choice_by_hand_wins_and_a_fact_does_not() -> None:
    new = merge("---\nlanguage: [de]\nlicense: mit\npretty_name: Mine\n---\n", CARD, [], "org/x")
    head = yaml.safe_load(new.split("---\n")[1])
    assert (head["language"], head["license"], head["pretty_name"]) == (["de"], "cc-by-4.0", "Mine")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("## Licences\n", "misuse"),
        ("## Limits and misuse\n", "the licence chain"),
        ("# Misuse\nLicences", "misuse and none on the licence chain"),
    ],
)
def test_no_card_without_misuse_and_licences(text: str, missing: str) -> None:
    with pytest.raises(ValueError, match=f"the card has no section on {missing}; restore it"):
        check_sections(text)


def test_what_the_card_says_is_what_was_built(tmp_path: Path) -> None:
    card = rendered(tmp_path)
    check_sections(card.body)
    tables = MarkdownIt().enable("table").render(card.body)
    assert "<td><code>claims</code></td>\n<td>my</td>\n<td>cc0-1.0</td>\n<td>4</td>" in tables
    assert "<td>texts of both stances to one claim</td>\n<td>0</td>\n<td>≤ 0</td>\n<td>kept</td>" in tables
    assert "<td>support-unseen-01</td>\n<td>Discover sources promoting</td>" in tables
    assert card.head["license"] == "cc0-1.0" and card.head["size_categories"] == ["n<1K"]
    assert "language" not in card.chosen  # of a user's own data nobody told it
    assert yaml.safe_load(card.eval_yaml or "")["tasks"] == [{"id": "my-stance", "config": "queries", "split": "test"}]


def test_a_hostile_source_stays_in_its_cell(tmp_path: Path) -> None:
    hostile = "<script>a</script> | b\n```\n{{ x }}"
    card = rendered(tmp_path, source=hostile)
    html = MarkdownIt().enable("table").render(card.body)
    assert "<td>&lt;script&gt;a&lt;/script&gt; | b<br>```<br>{{ x }}</td>" in html and "<script>" not in html


def test_two_licences_are_both_named(tmp_path: Path) -> None:
    data = claims(tmp_path / "a.jsonl")
    lines = data.read_text().splitlines()
    data.write_text("\n".join([lines[0].replace("cc0-1.0", "cc-by-4.0"), *lines[1:]]) + "\n")
    build = builds.prepare("my-stance-arguments", data)
    build.write(tmp_path / "stage")
    card = render("org/x", build, tmp_path / "stage", quality.check("my", data, seed=0))
    assert card.head["license"] == ["cc-by-4.0", "cc0-1.0"]
    assert "| `claims` | my | cc-by-4.0 | 1 |\n| `claims` | my | cc0-1.0 | 3 |" in card.body


def test_generated_texts_bring_their_exact_prompt_and_an_unknown_one_is_said() -> None:
    build = builds.prepare("sample-stance-inversions")
    ours = replace(build, generators={("some/model", PROMPT_SHA256): 7, ("other", "ab" * 32): 1})
    (sha, text), *rest = card_texts.prompts(ours).items()
    assert sha == PROMPT_SHA256 == hashlib.sha256(text.encode()).hexdigest() and not rest
    assert [row[0] for row in card_texts.generators(ours)[1:]] == ["other", "some/model"]
    assert "`abababababababab…` is not that of this version" in card_texts.issues(ours)[0]
    assert "language model" in card_texts.bias(ours) and "language model" not in card_texts.bias(build)
    assert not card_texts.prompts(build) and len(card_texts.issues(build)) == 1
