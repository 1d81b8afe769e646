from __future__ import annotations

from pathlib import Path

from dataset_builders.spelling import accepted_words, misspelt, unknown_words


def test_american_words_are_known_and_others_counted() -> None:
    texts = ["The colour of teh barn's café, which Zorblatt painted gray.", "Teh end? I can't; we've colour at 3pm."]
    assert unknown_words(texts) == {"colour": 2, "teh": 1}


def test_accepted_words_are_read_without_comments(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("# foreign\ncolour\n\nteh  # on purpose\n")
    assert accepted_words(tmp_path / "words.txt") == {"colour", "teh"}


def test_an_accepted_word_that_is_gone_is_named() -> None:
    assert misspelt(["recieve teh colour"], {"colour", "wierd"}) == (["recieve", "teh"], ["wierd"])
