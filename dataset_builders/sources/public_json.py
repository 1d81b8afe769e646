"""The six evaluation corpora of the stance paper, and anything in their shape: topics, and documents with relations.

A file holds one object: ``topics``, each with ``topic_id`` and ``topic``; ``documents``, each with ``text`` and
``relations``, each with ``topic_id`` and ``label`` (``support`` or ``attack``). A document may carry several relations
and has no id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dataset_builders.instructions import STANCES
from dataset_builders.rows import Row, one_of, read_json
from dataset_builders.schema import Argument, Claim, Relation, Split
from dataset_builders.sources.merge import merge
from dataset_builders.stance.data import StanceData
from dataset_builders.text import check_text, did_you_mean, text_id

REPO = "as9122/stance-evaluation-corpora"
LICENCE = "unknown"  # the repository names none
FILES = {
    "tfu-heldout": "tfu_training_heldout.json",
    "tfu-validation-gpt5": "tfu_validation_gpt5.json",
    "tfu-validation-qwen3-8b": "tfu_validation_qwen.json",
    "tfu-evaluation": "tfu_evaluation.json",
    "averitec": "averitec.json",
    "argtumour": "argtumour.json",
}


def read(name: str, path: Path, split: Split | None = None) -> StanceData:
    """Read one file.

    Topics of one text are one claim, documents of one text are one argument with the relations of all of them. A
    document that no topic relates to is left out, and counted.

    Args:
        name: Name of the source.
        path: The file.
        split: What every claim is; the stance paper measures on the whole of its corpora.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no JSON of this shape, a text is empty or broken, a label is unknown, a ``topic_id``
            stands for two texts, a relation names a topic that is not there, or there is no topic, or no document
            with a relation.
    """
    page = read_json(path)
    if not isinstance(page, dict):
        raise ValueError(f"{path.name}: got a JSON {type(page).__name__}, wanted an object with topics and documents")
    _wanted(page, ("topics", "documents"), path.name)
    topics: dict[str, str] = {}
    for where, topic in _objects(page, "topics", ("topic_id", "topic"), path.name):
        topic_id = _id(topic["topic_id"], where)
        text = check_text(topic["topic"], f"{where}: topic")
        if topics.setdefault(topic_id, text) != text:
            raise ValueError(f"{where}: topic_id {topic_id!r} stands for {topics[topic_id]!r} and for {text!r}")
    arguments: list[Argument] = []
    relations: list[Relation] = []
    unrelated = 0
    for where, document in _objects(page, "documents", ("text", "relations"), path.name):
        argument_id = text_id("argument", check_text(document["text"], f"{where}: text"))
        found = list(_objects(document, "relations", ("topic_id", "label"), where))
        for place, relation in found:
            topic_id = _id(relation["topic_id"], place)
            if topic_id not in topics:
                raise ValueError(
                    f"{place}: topic_id {topic_id!r} is none of the {len(topics)} topics; add the topic or remove the "
                    f"relation.{did_you_mean(topic_id, topics)}"
                )
            stance = one_of("label", relation["label"], STANCES, place)
            relations.append(Relation(argument_id, f"{name}-{topic_id}", stance))
        if found:
            arguments.append(Argument(argument_id, document["text"], None, name, LICENCE))
        unrelated += not found
    claims = [
        Claim(f"{name}-{i}", text, None, None, f"{name}-{i}", split, name, LICENCE) for i, text in topics.items()
    ]
    if not claims:
        raise ValueError(f"{path.name}: there is no topic; wanted at least one with its documents")
    if not arguments:
        raise ValueError(
            f"{path.name}: none of the {len(page['documents'])} documents relates to a topic; wanted the arguments on "
            f"the {len(claims)} topics"
        )
    repeated = sum(n - 1 for n in Counter(a.argument_id for a in arguments).values())
    counts = {"documents with an earlier one's text, merged": repeated, "documents without a relation": unrelated}
    return merge(name, claims, arguments, relations, counts=counts)


def _objects(parent: Row, key: str, required: tuple[str, ...], where: str) -> Iterator[tuple[str, Row]]:
    """The objects of a list with the words that say where each stands."""
    items: Any = parent[key]
    if not isinstance(items, list):
        raise ValueError(f"{where}: {key}: got {type(items).__name__} {str(items)[:80]!r}, wanted a list")
    for number, item in enumerate(items, start=1):
        place = f"{where}: {key} {number}"
        if not isinstance(item, dict):
            raise ValueError(f"{place}: got {type(item).__name__} {str(item)[:80]!r}, wanted an object")
        _wanted(item, required, place)
        yield place, item


def _wanted(row: Row, required: tuple[str, ...], where: str) -> None:
    """Other keys may stand beside the required ones: the corpora's authors may add some."""
    missing = [key for key in required if key not in row]
    if missing:
        hints = "".join(did_you_mean(key, [k for k in row if k not in required]) for key in missing)
        raise ValueError(f"{where}: got the keys {list(row)}, wanted {list(required)}; missing {missing}.{hints}")


def _id(value: object, where: str) -> str:
    """A topic's id as a text: 7 and "7" are one."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{where}: topic_id: got {type(value).__name__} {value!r}, wanted a text or an integer")
    return check_text(str(value), f"{where}: topic_id")
