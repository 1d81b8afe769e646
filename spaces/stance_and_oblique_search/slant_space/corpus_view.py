"""A visitor's own corpus: uploaded, indexed in memory, searched in the same views, and gone with the visit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import gradio as gr

from slant_space import render
from slant_space.corpora import (
    DOCUMENT_CHARACTERS,
    UPLOAD_BYTES,
    UPLOAD_DOCUMENTS,
    UPLOAD_TYPES,
    read_documents,
)
from slant_space.engine import Engine

LIMITS = (
    f"CSV or JSONL with a column text (id, source and style if you like), or TXT with a document a line. UTF-8, up to "
    f"{UPLOAD_DOCUMENTS:,} documents of {DOCUMENT_CHARACTERS:,} characters, {UPLOAD_BYTES // 2**20} MB in all. It is "
    "held in memory for this visit, an hour at most beyond it, and stored nowhere."
)


def telling(progress: Callable[..., Any], total: int) -> Callable[[int], None]:
    """Says to the visitor how many of ``total`` documents are done."""
    return lambda done: progress(done / total, desc=f"{done:,} of {total:,} documents")


def build(engine: Engine, mine: gr.State, use_mine: gr.Radio) -> None:
    """Lay out the view and wire it."""
    gr.HTML(render.message(LIMITS), apply_default_css=False)
    file = gr.File(
        label="Your documents", file_types=list(UPLOAD_TYPES), type="filepath", elem_id="upload", height=140
    )
    said = gr.HTML(elem_id="upload-said", apply_default_css=False)

    def index(path: str | None, progress: gr.Progress = gr.Progress()) -> tuple[str, Any, Any, Any]:  # noqa: B008
        if path is None:
            return gr.skip(), gr.skip(), gr.skip(), None
        place = Path(path)
        try:
            content = place.read_bytes()
        except FileNotFoundError:  # gradio names a file by its content, and another visitor's twin was removed
            return render.message("The file did not arrive; upload it again.", "error"), gr.skip(), gr.skip(), None
        finally:
            place.unlink(missing_ok=True)  # the only copy on the disk
        try:
            documents = read_documents(place.name, content)
            tell = telling(progress, len(documents))
            tell(0)
            dial = engine.index(place.name, documents, tell)
        except ValueError as error:
            return render.message(str(error), "error"), gr.skip(), gr.skip(), None
        done = f"{len(documents):,} documents are indexed. Both searches now look in {place.name}."
        # Of another value each time, so that a second file is a change too, which the views follow.
        own = f"own-{uuid4().hex}"
        choice = gr.Radio([(engine.dial.corpus.title, "sample"), (place.name, own)], value=own, visible=True)
        return render.message(done), dial, choice, None

    file.upload(
        index, file, [said, mine, use_mine, file], api_visibility="private", concurrency_id="index",
        concurrency_limit=1, show_progress="full", show_progress_on=said,
    )  # fmt: skip
