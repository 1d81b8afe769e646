"""The stance search and, below it, why a result is where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import gradio as gr

from dataset_builders.instructions import STANCES
from slant_space import render
from slant_space.engine import Dial, Engine
from slant_space.questions import OWN, PAIRS, RESULTS, SCALE_STEP, SCALES, StanceQuestion
from slant_space.scripts import ON_RESULTS, ON_WHY, READ_ADDRESS

HIDDEN = {"api_visibility": "private", "concurrency_id": "search", "concurrency_limit": 2}
"""Of every event behind a view: the named endpoints are those of `api`."""


Shown = tuple[str, dict[str, Any] | None, str]
"""Results, what they answer, and an empty panel below them."""


def pair_choices() -> list[tuple[str, str]]:
    """The picker's entries: seen, unseen, own words."""
    labels = [
        (f"{key.split('-')[0].capitalize()}: {pair['support']} / {pair['attack'].split()[-1]}", key)
        for key, pair in PAIRS.items()
    ]
    return [*labels, ("Your own words", OWN)]


def build(engine: Engine, mine: gr.State, use_mine: gr.Radio, address: gr.Textbox, demo: gr.Blocks) -> None:
    """Lay out the view and wire it."""
    corpus = engine.dial.corpus
    with gr.Row(equal_height=True):
        claim = gr.Textbox(
            label="Claim", placeholder="Schools should require uniforms.", lines=1, max_lines=4, scale=5,
            min_width=260, elem_id="claim", autofocus=True,
        )  # fmt: skip
        go = gr.Button("Search", variant="primary", scale=1, min_width=110, elem_id="search")
    with gr.Row():
        pick = gr.Dropdown(
            corpus.claims, value=None, label="Or pick a claim", visible=bool(corpus.claims), scale=3, min_width=240,
            elem_id="pick",
        )  # fmt: skip
        model = gr.Radio(
            [("Tuned", "tuned"), ("Base", "base")], value="tuned", label="Model", visible=engine.has_adapter, scale=2,
            elem_id="model",
        )  # fmt: skip
    with gr.Accordion("Instruction, dials and filters", open=False) as panel:
        instruction = gr.Dropdown(
            pair_choices(), value="seen-01", label="Instruction", elem_id="instruction",
            info="What stands before the claim when the model is asked. Unseen ones played no part in training.",
        )  # fmt: skip
        with gr.Row(visible=False) as own_words:
            own_support = gr.Textbox(
                label="Your words for support", placeholder="Find praise of", min_width=240, elem_id="own-support"
            )
            own_attack = gr.Textbox(
                label="Your words for attack", placeholder="Find doubts about", min_width=240, elem_id="own-attack"
            )
        with gr.Row():
            weight = gr.Slider(
                0, 1, value=0.1, step=0.05, label="λ: weight of shared words (BM25)", elem_id="weight",
                info="0 ranks by meaning alone; more keeps the search on the topic.",
            )  # fmt: skip
            auto = gr.Checkbox(
                value=False, label="Choose λ for each query", interactive=engine.has_auto, elem_id="auto",
                min_width=120, info=None if engine.has_auto else "needs a λ model: python -m hub_models tune",
            )  # fmt: skip
            scale = gr.Slider(
                *SCALES, value=engine.scale, step=SCALE_STEP, label="Adapter: from topic to stance", elem_id="scale",
                info="0 is the base, 1 as trained.", visible=engine.dial.turns,
            )  # fmt: skip
        with gr.Row():
            source = gr.Dropdown([("All", ""), *corpus.sources()], value="", label="Source", elem_id="source")
            style = gr.Dropdown([("All", ""), *corpus.styles()], value="", label="Style", elem_id="style")
            k = gr.Slider(*RESULTS, value=6, step=1, label="Results a side", elem_id="k")
    results = gr.HTML(elem_id="stance-results", js_on_load=ON_RESULTS, apply_default_css=False)
    why = gr.HTML(elem_id="why", js_on_load=ON_WHY, apply_default_css=False)
    asked = gr.State(None)

    controls = [claim, instruction, own_support, own_attack, model, weight, auto, scale, source, style, k]
    names = [f.name for f in fields(StanceQuestion)]

    def answer(question: StanceQuestion, own: Dial | None, which: str) -> Shown:
        if question.instruction == OWN and not (question.own_support.strip() and question.own_attack.strip()):
            return render.message("Fill in both fields, then press Enter."), None, ""
        try:
            dial = engine.chosen(own, which)
            found = engine.stance(dial, question)
        except ValueError as error:
            return render.message(str(error), "error" if question.claim.strip() else "hint"), None, ""
        shown = {"question": question, "which": which, "weight": found.weight}
        return render.stance_results(found, link=dial is engine.dial), shown, ""

    def question_of(given: Sequence[Any]) -> StanceQuestion:
        question = StanceQuestion.of(dict(zip(names, given, strict=True)))
        return replace(question, scale=None) if question.scale == engine.scale else question

    def search(*values: Any) -> Any:
        *given, own, which, shown = values
        question = question_of(given)
        if shown is not None and (shown["question"], shown["which"]) == (question, which):
            return gr.skip()  # a field that was left as it was asks too
        return answer(question, own, which)

    def choose(picked: str | None, typed: str, *values: Any) -> Any:
        *given, own, which, shown = values
        # A keyboard that passes the list without a choice asks too, and must not write over what is typed.
        if not picked or picked == typed or (shown is not None and shown["question"].claim == picked):
            return gr.skip()
        return picked, *answer(question_of([picked, *given]), own, which)

    def filters_of(own: Dial | None, which: str) -> list[Any]:
        searched = own.corpus if own is not None and which != "sample" else corpus
        known = (searched.sources(), searched.styles())
        return [gr.Dropdown([("All", ""), *names], value="") for names in known]

    def open_address(link: str) -> list[Any]:
        first = corpus.claims[0] if corpus.claims else ""
        question = StanceQuestion.of_address(link) or StanceQuestion(claim=first)
        values = [getattr(question, name) for name in names]
        values[names.index("scale")] = engine.scale if question.scale is None else question.scale
        for name, known in (("source", corpus.sources()), ("style", corpus.styles())):
            if getattr(question, name) not in known:
                values[names.index(name)] = ""
        if not engine.has_auto:
            values[names.index("auto")] = False
        question = question_of(values)
        picked = question.claim if question.claim in corpus.claims else None
        turned = replace(question, claim="", model="tuned") != StanceQuestion()
        opened, own_row = gr.Accordion(open=turned), gr.Row(visible=question.instruction == OWN)
        return [*values, picked, opened, own_row, *answer(question, None, "sample")]

    def why_here(event: gr.EventData, shown: dict[str, Any] | None, own: Dial | None) -> tuple[str, Any]:
        if shown is None:
            return "", shown
        data, stance = event._data or {}, (event._data or {}).get("stance")
        try:
            document = engine.chosen(own, shown["which"]).corpus.documents.get(str(data.get("id")))
        except ValueError as error:
            return render.message(str(error), "error"), shown
        if document is None or stance not in STANCES:
            return render.message("This result is of another search; search again.", "error"), shown
        return redraw({**shown, "document": document.text, "stance": stance, "removed": frozenset()}, own)

    def switch(event: gr.EventData, shown: dict[str, Any] | None, own: Dial | None) -> tuple[str, Any]:
        if shown is None or "document" not in shown:
            return "", shown
        place = (event._data or {}).get("word")
        return redraw({**shown, "removed": shown["removed"] ^ {place}}, own, shown)

    def redraw(shown: dict[str, Any], own: Dial | None, before: dict[str, Any] | None = None) -> tuple[str, Any]:
        try:
            dial = engine.chosen(own, shown["which"])
            found = engine.explain(
                dial, shown["question"], shown["stance"], shown["document"], shown["removed"],
                shown["weight"][shown["stance"]],
            )  # fmt: skip
        except ValueError as error:
            return render.message(str(error), "error"), before or shown
        return render.explanation(found, shown["document"], shown["stance"]), shown

    drawn = [results, asked, why]
    event = {"fn": search, "inputs": [*controls, mine, use_mine, asked], "outputs": drawn, **HIDDEN}
    # A change while a search runs is searched after it, and the last one stays on the page.
    last = {"show_progress": "minimal", "trigger_mode": "always_last"}
    gr.on([go.click, claim.submit], **last, **event)
    live = [c.input for c in (model, auto, source, style)] + [c.release for c in (weight, scale, k)]
    gr.on([*live, own_support.submit, own_attack.submit], **last, **event)
    use_mine.change(
        filters_of, [mine, use_mine], [source, style], show_progress="hidden", api_visibility="private", queue=False
    ).then(**event)
    pick.input(choose, [pick, *controls, mine, use_mine, asked], [claim, *drawn], show_progress="minimal", **HIDDEN)
    instruction.input(
        lambda key: gr.Row(visible=key == OWN), instruction, own_words, api_visibility="private", queue=False
    ).then(**event)
    results.click(why_here, [asked, mine], [why, asked], show_progress="minimal", **HIDDEN)
    why.click(switch, [asked, mine], [why, asked], show_progress="hidden", **HIDDEN)
    demo.load(
        open_address, address, [*controls, pick, panel, own_words, *drawn], js=READ_ADDRESS, show_progress="minimal",
        **HIDDEN,
    )  # fmt: skip
