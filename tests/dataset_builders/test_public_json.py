"""The shape of the stance paper's evaluation corpora: topics, documents, relations."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataset_builders import sources
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.statistics import conflicts, sizes

Page = dict[str, Any]


def page() -> Page:
    """Three topics, one of them without an attack; a document that speaks of two topics."""
    return {
        "topics": [
            {"topic_id": 1, "topic": "Tea keeps people awake."},
            {"topic_id": 2, "topic": "Coffee keeps people awake."},
            {"topic_id": 3, "topic": "Rivers freeze from below."},
        ],
        "documents": [
            {"text": "Both hold caffeine.", "relations": [says(1, "support"), says(2, "support")]},
            {"text": "Many sleep well after a cup.", "relations": [says(2, "attack")]},
            {"text": "Herbal infusions hold none.", "relations": [says(1, "attack")]},
            {"text": "Ice forms where it is coldest.", "relations": [says(3, "support")]},
        ],
    }


def says(topic_id: object, label: str) -> dict[str, object]:
    return {"topic_id": topic_id, "label": label}


def load(tmp_path: Path, content: object, name: str = "averitec") -> StanceData:
    (tmp_path / "averitec.json").write_text(json.dumps(content), encoding="utf-8")
    return sources.load(name, tmp_path)


def relations(data: StanceData) -> set[tuple[str, str, str]]:
    claim = {c.claim_id: c.claim for c in data.claims}
    text = {a.argument_id: a.text for a in data.arguments}
    return {(text[r.argument_id], claim[r.claim_id], r.stance) for r in data.relations}


def test_topics_and_documents_become_claims_and_arguments(tmp_path: Path) -> None:
    data = load(tmp_path, page())
    assert relations(data) == {
        ("Both hold caffeine.", "Tea keeps people awake.", "support"),
        ("Both hold caffeine.", "Coffee keeps people awake.", "support"),
        ("Many sleep well after a cup.", "Coffee keeps people awake.", "attack"),
        ("Herbal infusions hold none.", "Tea keeps people awake.", "attack"),
        ("Ice forms where it is coldest.", "Rivers freeze from below.", "support"),
    }
    assert {(c.split, c.source, c.licence) for c in data.claims} == {("test", "averitec", "unknown")}
    first, second, third = (c.group_id for c in data.claims)
    assert first == second != third, "a shared argument ties two claims"
    (row,) = sizes(data)
    assert (row.claims, row.total) == (3, {"support": 3, "attack": 2})
    assert row.per_claim == {"support": (1, 1, 1), "attack": (2 / 3, 0, 1)}
    assert data.counts == {} and data.revision is None


def test_a_file_of_ones_own_has_no_split_but_by_its_name(tmp_path: Path) -> None:
    for name, split in (("mine.json", None), ("validation.json", "validation")):
        (tmp_path / name).write_text(json.dumps(page()))
        data = sources.load("mine", tmp_path / name)
        assert {c.split for c in data.claims} == {split} and data.source == "mine"


def test_equal_topics_and_equal_documents_are_one(tmp_path: Path) -> None:
    content = page()
    content["topics"].append({"topic_id": "4", "topic": "tea keeps  people awake"})
    content["documents"] += [
        {"text": "both hold CAFFEINE.", "relations": [says("4", "support"), says(3, "attack")]},
        {"text": "Nobody asked.", "relations": []},
    ]
    data = load(tmp_path, content)
    assert len(data.claims) == 3 and len(data.arguments) == 4
    assert ("Both hold caffeine.", "Rivers freeze from below.", "attack") in relations(data)
    assert len(relations(data)) == 6
    assert data.counts == {
        "claims that repeat another, merged": 1,
        "documents with an earlier one's text, merged": 1,
        "documents without a relation": 1,
    }


def test_a_claim_is_not_its_own_argument(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = page()
    content["documents"] += [
        {"text": "TEA keeps people awake", "relations": [says(1, "support")]},
        {"text": "Coffee keeps people awake", "relations": [says(2, "support"), says(1, "support")]},
    ]
    with caplog.at_level(logging.WARNING):
        data = load(tmp_path, content)
    assert data.counts == {"relations of a claim to itself, left out": 2}
    assert "averitec: relations of a claim to itself left out: 2" in caplog.text
    texts = {text for text, _, _ in relations(data)}
    assert "TEA keeps people awake" not in {a.text for a in data.arguments}
    assert "Coffee keeps people awake" in texts, "it still says something of the other claim"


def test_both_labels_on_one_topic_are_kept_and_seen(tmp_path: Path) -> None:
    content = page()
    content["documents"][0]["relations"].append(says(1, "attack"))
    data = load(tmp_path, content)
    assert conflicts(data) == [("averitec-1", data.arguments[0].argument_id)]


def change(edit: Callable[[Page], object]) -> Page:
    content = page()
    edit(content)
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "averitec.json: got a JSON list, wanted an object with topics and documents"),
        ({"topics": []}, r"averitec.json: got the keys \['topics'\], wanted .* missing \['documents'\]"),
        ({"topics": [], "documents": []}, "averitec.json: there is no topic"),
        (change(lambda p: p.update(documents=[])), "averitec.json: none of the 0 documents relates to a topic"),
        (
            change(lambda p: p.update(documents=[{"text": "x", "relations": []}])),
            "averitec.json: none of the 1 documents relates to a topic; wanted the arguments on the 3 topics",
        ),
        ({"topics": {}, "documents": []}, "averitec.json: topics: got dict '{}', wanted a list"),
        (
            change(lambda p: p["documents"][1]["relations"].append(says(1, "suport"))),
            "averitec.json: documents 2: relations 2: got label 'suport', wanted one of .*Did you mean 'support'",
        ),
        (
            change(lambda p: p["documents"][0]["relations"].append(says(7, "attack"))),
            "documents 1: relations 3: topic_id '7' is none of the 3 topics; add the topic or remove the relation",
        ),
        (
            change(lambda p: p["topics"].append({"topic_id": 1, "topic": "Tea is dear."})),
            "topics 4: topic_id '1' stands for 'Tea keeps people awake.' and for 'Tea is dear.'",
        ),
        (change(lambda p: p["topics"].append({"topic_id": 4, "topic": " "})), "topics 4: topic: the text is empty"),
        (change(lambda p: p["topics"].append({"topic_id": True, "topic": "x"})), "topics 4: topic_id: got bool True"),
        (change(lambda p: p["topics"].append("x")), "topics 4: got str 'x', wanted an object"),
        (
            change(lambda p: p["topics"].append({"topic_id": 4, "topics": "x"})),
            r"topics 4: got the keys .* missing \['topic'\]. Did you mean 'topics'",
        ),
        (change(lambda p: p["documents"][0].update(text=None)), "documents 1: text: got NoneType None, wanted a text"),
        (change(lambda p: p["documents"][0].update(relations=None)), "documents 1: relations: got NoneType 'None'"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "averitec.json: the file is no JSON"),
        (b"\xff", "averitec.json: the file is no UTF-8"),
        (
            b'{"topics": [], "topics": []}',
            r"averitec.json: the file cannot be read \(the keys \['topics'\] stand twice",
        ),
        (b"[" * 100_000, "averitec.json: the file nests lists or objects too deeply"),
    ],
)
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "averitec.json").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        sources.load("averitec", tmp_path)


def test_the_corpus_measures_and_builds_like_any_other(tmp_path: Path) -> None:
    """Back from our own contract it is the same; triplets are refused, since nothing is trained on a test corpus."""
    from typer.testing import CliRunner

    from dataset_builders.__main__ import app

    load(tmp_path, page())
    out = tmp_path / "averitec-stance-arguments"
    run = CliRunner().invoke(app, ["build", out.name, "--source", str(tmp_path), "--out", str(out)])
    assert run.exit_code == 0, run.output
    assert relations(sources.load("averitec", out)) == relations(sources.load("averitec", tmp_path))
    refused = ["build", "averitec-stance-triplets", "--source", str(tmp_path), "--out", str(tmp_path / "t")]
    run = CliRunner().invoke(app, refused)
    assert run.exit_code == 1 and "none of the 3 claims is in the split train" in run.output
    listed = CliRunner().invoke(app, ["list"]).output
    assert "averitec-stance-arguments" in listed and "averitec-stance-triplets" not in listed
    assert "tfu-stance-triplets" in listed and "kpa-stance-triplets" in listed
