"""TheoremQA as an oblique task: questions that the same theorem solves (github.com/TIGER-AI-Lab/TheoremQA, MIT).

A query is a question, relevant are the others with its theorem, and it never finds itself or an equal text.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from dataset_builders.rows import read_rows
from dataset_builders.sources.obliq_bench import ObliqueTask, ObliqueText
from dataset_builders.text import check_text, text_key

NAME = "theoremqa"
FILE = "theoremqa_test.json"


def read(folder: Path) -> ObliqueTask:
    """The task ``math`` made of the folder's file. Questions that hang on a picture are left out.

    Raises:
        FileNotFoundError: If the file is not there.
        ValueError: If the file is no list of objects, an id is doubled, a text is empty or broken, or a row
            lacks a key.
    """
    path = folder / FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; wanted the folder that holds {FILE} of TIGER-AI-Lab/TheoremQA")
    texts: dict[str, ObliqueText] = {}
    for where, row in read_rows(path):
        missing = [key for key in ("id", "Question", "theorem") if key not in row]
        if missing:
            raise ValueError(f"{where}: lacks {missing}")
        question_id = check_text(row["id"], f"{where}: id")
        if question_id in texts:
            raise ValueError(f"{where}: the id {question_id!r} is doubled")
        if row.get("Picture"):
            continue
        theorem = text_key(check_text(row["theorem"], f"{where}: theorem"))
        question = check_text(row["Question"], where)
        texts[question_id] = ObliqueText(question, theorem, None, {"field": row.get("field")})

    of_theorem: dict[str | None, list[str]] = defaultdict(list)
    of_text: dict[str, list[str]] = defaultdict(list)
    for i, text in texts.items():
        of_theorem[text.attribute].append(i)
        of_text[text_key(text.text)].append(i)
    excluded = {i: frozenset(of_text[text_key(t.text)]) for i, t in texts.items()}
    relevant = {i: {d: 1 for d in of_theorem[t.attribute] if d not in excluded[i]} for i, t in texts.items()}
    queries = {i: t for i, t in texts.items() if relevant[i]}
    return ObliqueTask("math", texts, queries, {i: relevant[i] for i in queries}, {i: excluded[i] for i in queries})
