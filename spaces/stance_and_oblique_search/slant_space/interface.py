"""The page: a header, the views, the endpoints; and how it is served."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from slant_space import about, api, corpus_view, oblique_view, stance_view
from slant_space.corpora import Corpus
from slant_space.engine import Dial, Engine
from slant_space.questions import ObliqueQuestion
from slant_space.scripts import ON_KEYS, READ_ADDRESS
from slant_space.settings import read_settings

WAITING = 40
"""Requests that may wait; beyond, gradio tells the visitor that the page is busy, and to try again."""

VISITS = 300
"""Visits whose uploads and last answers are held; beyond, the one that was idle longest must upload again."""

STYLE = Path(__file__).with_name("style.css")


def build(engine: Engine) -> gr.Blocks:
    """The whole page over one engine."""
    with gr.Blocks(title="Slant: search that takes a side", delete_cache=(600, 600), analytics_enabled=False) as demo:
        header = gr.HTML(_header(engine, engine.dial.corpus), js_on_load=ON_KEYS, apply_default_css=False)
        mine = gr.State(None)
        address = gr.Textbox(visible=False)
        use_mine = gr.Radio(
            [(engine.dial.corpus.title, "sample")], value="sample", label="Search in", visible=False,
            elem_id="search-in",
        )  # fmt: skip
        with gr.Tabs() as tabs:
            with gr.Tab("Stance", id="stance"):
                stance_view.build(engine, mine, use_mine, address, demo)
            with gr.Tab("Oblique", id="oblique"):
                oblique_view.build(engine, mine, use_mine, address, demo)
            with gr.Tab("Your corpus", id="corpus"):
                corpus_view.build(engine, mine, use_mine)
            with gr.Tab("About", id="about"):
                gr.HTML(about.about(engine), apply_default_css=False)

        def open_tab(link: str) -> Any:
            return gr.Tabs(selected="oblique") if ObliqueQuestion.of_address(link) else gr.skip()

        def head(own: Dial | None, which: str) -> Any:
            dial = engine.dial if which == "sample" else own
            return gr.skip() if dial is None else _header(engine, dial.corpus)

        use_mine.change(head, [mine, use_mine], header, show_progress="hidden", api_visibility="private", queue=False)
        demo.load(open_tab, address, tabs, js=READ_ADDRESS, api_visibility="private", queue=False)
        api.build(engine)
    demo.queue(max_size=WAITING)
    return demo


def _header(engine: Engine, corpus: Corpus) -> str:
    settings = engine.settings
    chips = [f"model: {settings.model_name}", settings.note, f"{corpus.title}: {len(corpus.documents):,} documents"]
    return str(
        Markup(
            '<header class="sl-hero"><h1>Search that takes a side</h1><p>Type a claim. See the arguments for it and '
            "those against it, where the model gets the side wrong, and which words of the query did it.</p>"
            '<ul class="sl-chips">{}</ul></header>'
        ).format(Markup("").join(Markup("<li><bdi>{}</bdi></li>").format(chip) for chip in chips if chip))
    )


def theme() -> gr.themes.Base:
    """Fonts of the visitor's own system: nothing is fetched from elsewhere. Texts have a contrast of at least 4.5."""
    base: gr.themes.Base = gr.themes.Base(
        primary_hue="indigo",
        neutral_hue="slate",
        radius_size="md",
        font=["ui-sans-serif", "system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    )
    quiet, quiet_dark = "*neutral_600", "*neutral_300"
    return base.set(
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        block_title_text_color=quiet,
        block_label_text_color=quiet,
        block_info_text_color=quiet,
        block_info_text_color_dark=quiet_dark,
        body_text_color_subdued=quiet,
        body_text_color_subdued_dark=quiet_dark,
        input_placeholder_color=quiet,
        input_placeholder_color_dark=quiet_dark,
    )


def serve(demo: gr.Blocks, **options: Any) -> tuple[Any, str, str]:
    """Start the server, the MCP server with it."""
    started: tuple[Any, str, str] = demo.launch(
        theme=theme(),
        css_paths=[STYLE],
        max_file_size="5mb",
        state_session_capacity=VISITS,
        footer_links=["api"],
        mcp_server=True,
        ssr_mode=False,
        **options,
    )
    return started


def main() -> None:
    """Open the Space that the environment describes."""
    engine = Engine(read_settings(os.environ))
    demo = build(engine)
    threading.Thread(target=engine.prepare, daemon=True).start()  # after gradio has put its own methods into tqdm
    serve(demo)
