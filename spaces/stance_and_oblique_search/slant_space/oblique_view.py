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

Shown = tuple[str, tuple[ObliqueQuestion, str]]
"""Results, and what they answer: the question, and which corpus was asked."""

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
        k = gr.Slider(*RESULTS, value=5, step=1, label="Results a column", scale=2, min_width=200, elem_id="oblique-k")
    pick = gr.Dropdown([], value=None, label="Pick a query of the sample", elem_id="oblique-pick")
    with gr.Row(equal_height=True):
        query = gr.Textbox(
            label="Query", lines=2, max_lines=10, elem_id="query", placeholder="Type or paste a query", scale=5,
            min_width=260,
        )  # fmt: skip
        go = gr.Button("Search", variant="primary", scale=1, min_width=110, elem_id="oblique-search")
    instruction = gr.HTML(asked_of("twitter"), elem_id="oblique-asked", apply_default_css=False)
    results = gr.HTML(elem_id="oblique-results", js_on_load=ON_RESULTS, apply_default_css=False)
    asked = gr.State(None)

    def queries(name: str) -> list[tuple[str, str]]:
        texts = [q.text for q in engine.task(name).task.queries.values()]
        return [(text if len(text) <= 120 else f"{text[:117]} …", text) for text in texts]

    def answer(question: ObliqueQuestion, own: Dial | None, which: str) -> Shown:
        shown = question, which
        try:
            mine = None if which == "sample" else engine.chosen(own, which)
            return render.oblique_results(engine.oblique(question, mine), link=mine is None), shown
        except ValueError as error:
            return render.message(str(error), "error" if question.query.strip() else "hint"), shown

    def search(task: str, query: str, k: int, own: Dial | None, which: str) -> Shown:
        return answer(ObliqueQuestion.of({"task": task, "query": query, "k": k}), own, which)

    def choose(picked: str | None, typed: str, task: str, *values: Any) -> Any:
        *given, shown = values
        # As in the stance search: a list that is passed without a choice asks too.
        if not picked or picked == typed or (shown is not None and shown[0].query == picked):
            return gr.skip()
        return picked, *search(task, picked, *given)

    def choose_lens(lens: str) -> Any:
        if lens not in LENSES:
            return gr.skip()
        tasks = tasks_of(lens)
        return gr.Dropdown(tasks, value=tasks[0][1])

    def choose_task(name: str, k: int, own: Dial | None, which: str, shown: tuple[ObliqueQuestion, str] | None) -> Any:
        if name not in OBLIQUE_INSTRUCTIONS or (shown is not None and shown[0].task == name):
            return gr.skip()
        found = queries(name)
        first = found[0][1]
        return gr.Dropdown(found, value=first), first, asked_of(name), *search(name, first, k, own, which)

    def open_address(link: str) -> tuple[Any, ...]:
        question = ObliqueQuestion.of_address(link) or ObliqueQuestion(query=queries("twitter")[0][1])
        lens, found = lens_of(question.task), queries(question.task)
        tasks = gr.Dropdown(tasks_of(lens), value=question.task)
        picked = gr.Dropdown(found, value=question.query if question.query in [text for _, text in found] else None)
        said = asked_of(question.task)
        return lens, tasks, picked, question.query, question.k, said, *answer(question, None, "sample")

    drawn = [results, asked]
    gr.on(
        [go.click, query.submit, k.release, use_mine.change], search, [task, query, k, mine, use_mine], drawn,
        show_progress="minimal", trigger_mode="always_last", **HIDDEN,
    )  # fmt: skip
    changed = {
        "fn": choose_task, "inputs": [task, k, mine, use_mine, asked], "outputs": [pick, query, instruction, *drawn],
        **HIDDEN,
    }  # fmt: skip
    lens.input(choose_lens, lens, task, api_visibility="private", queue=False).then(**changed)
    task.input(**changed)
    pick.input(
        choose, [pick, query, task, k, mine, use_mine, asked], [query, *drawn], show_progress="minimal", **HIDDEN
    )
    demo.load(
        open_address, address, [lens, task, pick, query, k, instruction, *drawn], js=READ_ADDRESS,
        show_progress="hidden", **HIDDEN,
    )  # fmt: skip
