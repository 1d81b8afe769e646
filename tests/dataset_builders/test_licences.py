"""What counts as a licence where data is published."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataset_builders import builds
from dataset_builders.publish import _check_licences
from tests.dataset_builders.publisher import NAME, claims


def build(tmp_path: Path, licence: str) -> builds.Build:
    return builds.prepare(NAME, claims(tmp_path / "mine.jsonl", licence=licence))


@pytest.mark.parametrize(
    "licence", ["mit", "cc-by-4.0", "cc0-1.0", "cdla-sharing-1.0", "gpl-3.0-or-later", "gfdl-1.3+", "0bsd", "llama3.1"]
)
def test_identifiers_of_the_hub_may_be_published(licence: str, tmp_path: Path) -> None:
    made = build(tmp_path, licence)
    assert made.licences == [licence] and not made.unlicensed
    _check_licences(made)


@pytest.mark.parametrize(
    ("licence", "words"),
    [
        ("unknown", "rows have the licence 'unknown', such as .* give each row a `licence`"),
        ("unknown ", "a licence that is no identifier, such as 'unknown ' of 'claim-"),
        ("Unknown", "no identifier, such as 'Unknown'"),
        ("CC-BY-4.0", "no identifier, such as 'CC-BY-4.0'.*Did you mean 'cc-by-4.0'"),
        (" mit", "such as ' mit'.*wanted one as the Hub spells it.*Did you mean 'mit'"),
        ("cc by 4.0", "such as 'cc by 4.0'"),
        ("mit\ntags: [free]", r"such as 'mit\\ntags: \[free\]'"),
        ("mit\n", r"such as 'mit\\n'.*Did you mean 'mit'"),
        ("mit\u2028", "no identifier"),
        ("ask me", "such as 'ask me'"),
        ("https://example.org/licence", "such as 'https://example.org/licence'"),
        ("мит", "no identifier"),
        ("m" * 9 + "!" + "m" * 999, "such as 'mmmmmmmmm!m{50}'"),
    ],
)
def test_what_is_no_identifier_builds_and_is_not_published(licence: str, words: str, tmp_path: Path) -> None:
    made = build(tmp_path, licence)
    with pytest.raises(ValueError, match=words) as error:
        _check_licences(made)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400
    assert "Did you mean 'unknown'" not in str(error.value)


def test_one_row_without_a_licence_is_enough(tmp_path: Path) -> None:
    path = claims(tmp_path / "mine.jsonl", licence="mit")
    path.write_text(path.read_text().replace("mit", "by hand", 1))
    made = builds.prepare(NAME, path)
    assert set(made.unlicensed.values()) == {"by hand"}
    with pytest.raises(ValueError, match=f"{len(made.unlicensed)} rows have a licence"):
        _check_licences(made)
