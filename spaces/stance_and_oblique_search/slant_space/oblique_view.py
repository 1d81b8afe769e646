"""The oblique search: keywords, base and tuned model side by side."""

from __future__ import annotations

from typing import Any

import gradio as gr

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS
from slant_space import render
from slant_space.engine import Dial, Engine
from slant_space.questions import RESULTS, ObliqueQuestion
from slant_space.scripts import ON_RESULTS, READ_ADDRESS
from slant_space.stance_view import HIDDEN

LENSES = {
    "A description": {"twitter": "Posts that imply a view", "wildchat": "Chats where the assistant fails in some way"},
    "An example": {"math": "Problems solved by the same idea", "writing": "Texts by the same hand"},
    "A hazy recollection": {"congress": "A passage of a hearing"},
}
"""The lens, which is how one asks, to its tasks."""


def lens_of(task: str) -> str:
    return next(lens for lens, tasks in LENSES.items() if task in tasks)


def build(engine: Engine, mine: gr.State, use_mine: gr.Radio, address: gr.Textbox, demo: gr.Blocks) -> None:
    """Lay out the view and wire it."""

    def tasks_of(lens: str) -> list[tuple[str, str]]:
        return [(label, task) for task, label in LENSES[lens].items()]

    def asked_of(task: str) -> str:
        return render.message(f"The model is asked: {OBLIQUE_INSTRUCTIONS[task]}")

    first = next(iter(LENSES))
    gr.HTML(
        '<p class="sl-hint">Ask for what no document says in so many words. Keywords fail here; see how far meaning '
        "gets. Marked words are those that query and document share.</p>",
        apply_default_css=False,
    )
    with gr.Row():
        lens = gr.Radio(list(LENSES), value=first, label="You have", elem_id="lens", scale=3, min_width=260)
        task = gr.Dropdown(
            tasks_of(first), value="twitter", label="You look for", elem_id="task", scale=2, min_width=240
        )
        k = gr.Slider(*RESULTS, value=5, step=1, label="Results a column", scale=2, min_width=200)
    pick = gr.Dropdown([], value=None, label="Pick a query of the sample", elem_id="oblique-pick")
    with gr.Row(equal_height=True):
        query = gr.Textbox(
            label="Query", lines=2, max_lines=10, elem_id="query", placeholder="Type or paste a query", scale=5,
            min_width=260,
        )  # fmt: skip
        go = gr.Button("Search", variant="primary", scale=1, min_width=110, elem_id="oblique-search")
    instruction = gr.HTML(asked_of("twitter"), elem_id="oblique-asked", apply_default_css=False)
    results = gr.HTML(elem_id="oblique-results", js_on_load=ON_RESULTS, apply_default_css=False)

    def queries(name: str) -> list[tuple[str, str]]:
        texts = [q.text for q in engine.task(name).task.queries.values()]
        return [(text if len(text) <= 120 else f"{text[:117]} …", text) for text in texts]

    def answer(question: ObliqueQuestion, own: Dial | None, which: str) -> str:
        try:
            mine = None if which == "sample" else engine.chosen(own, which)
            return render.oblique_results(engine.oblique(question, mine), link=mine is None)
        except ValueError as error:
            return render.message(str(error), "error" if question.query.strip() else "hint")

    def search(task: str, query: str, k: int, own: Dial | None, which: str) -> str:
        return answer(ObliqueQuestion.of({"task": task, "query": query, "k": k}), own, which)

    def choose_lens(lens: str) -> Any:
        if lens not in LENSES:
            return gr.skip()
        tasks = tasks_of(lens)
        return gr.Dropdown(tasks, value=tasks[0][1])

    def choose_task(name: str) -> tuple[Any, Any, str]:
        if name not in OBLIQUE_INSTRUCTIONS:
            return gr.skip(), gr.skip(), gr.skip()
        found = queries(name)
        return gr.Dropdown(found, value=found[0][1]), found[0][1], asked_of(name)

    def open_address(link: str) -> tuple[Any, ...]:
        question = ObliqueQuestion.of_address(link)
        if question is None:
            found = queries("twitter")
            picked = gr.Dropdown(found, value=found[0][1])
            return gr.skip(), gr.skip(), picked, found[0][1], gr.skip(), gr.skip(), gr.skip()
        lens = lens_of(question.task)
        tasks = gr.Dropdown(tasks_of(lens), value=question.task)
        picked = gr.Dropdown(queries(question.task), value=None)
        shown = answer(question, None, "sample")
        return lens, tasks, picked, question.query, question.k, asked_of(question.task), shown

    event = {"fn": search, "inputs": [task, query, k, mine, use_mine], "outputs": results, **HIDDEN}
    gr.on(
        [go.click, query.submit, k.release, use_mine.change],
        show_progress="minimal",
        trigger_mode="always_last",
        **event,
    )
    changed = {"fn": choose_task, "inputs": task, "outputs": [pick, query, instruction], **HIDDEN}
    lens.input(choose_lens, lens, task, api_visibility="private", queue=False).then(**changed).then(**event)
    task.input(**changed).then(**event)
    pick.input(lambda chosen: chosen or gr.skip(), pick, query, api_visibility="private", queue=False).then(**event)
    demo.load(
        open_address, address, [lens, task, pick, query, k, instruction, results], js=READ_ADDRESS,
        show_progress="hidden", **HIDDEN,
    )  # fmt: skip
