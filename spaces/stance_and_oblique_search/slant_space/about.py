"""Models, data, licences, papers and limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from huggingface_hub import metadata_load
from markupsafe import Markup
from yaml import YAMLError

from dataset_builders.sources.hub import REPO_ID
from hub_models.manifest import is_machine_path
from hub_models.model_files import ADAPTER_CONFIG, commit_of, find, read_json, slant_json
from slant_space.engine import Engine
from slant_space.oblique_view import LENSES

HUB = "https://huggingface.co"
CC_BY = Markup('<a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>')


def about(engine: Engine) -> str:
    """The page."""
    return str(
        Markup(
            """<article class="sl-about-page">
<h2>What this is</h2>
<p>Ask an embedding model for statements against a claim, and it returns what is on the topic, half of it in favour.
This page shows that, what tuning changes, and which words of a query did it.</p>
<h2>Model</h2>{model}
<h2>Data</h2>{data}
<h2>What a stance score is not</h2><ul>
<li>It is no probability, and two searches' scores do not compare.</li>
<li>It ranks texts by how they stand towards a claim. It does not say what is true, nor what a person believes.</li>
<li>English, short claims, single arguments: anything else was not measured.</li>
<li>Arguments that do not name their verdict are often put on the wrong side. Read both columns.</li>
<li>RIS, RCS and DI describe one model's arithmetic on one query; they are no reasons that a person would
give.</li></ul>
<h2>Papers</h2><ul>
<li><a href="https://arxiv.org/abs/2608.28283">Embedding Models for Stance-Aware Argument Retrieval</a>: stance search,
λ, word ablation</li>
<li><a href="https://arxiv.org/abs/2609.29649">OBLIQ-IR</a>: oblique search</li></ul>
<h2>Use it from code</h2>
<p>The endpoints <code>/stance_search</code>, <code>/oblique_search</code> and <code>/explain</code> are typed: see
“Use via API” at the foot of the page, or call them with <code>gradio_client</code>; the MCP server is at
<code>/gradio_api/mcp/</code>.</p>
<h2>Privacy</h2><p>Uploads are held in memory for the visit, and an hour at most beyond it. Searches are not logged
here. A shared link holds the claim.</p>
</article>"""
        ).format(model=_model(engine), data=_data(engine))
    )


def _model(engine: Engine) -> Markup:
    """Which weights answer, whose they are, and what the adapter was trained on."""
    settings = engine.settings
    note = settings.note and f" {settings.note[0].upper()}{settings.note[1:]}."
    revision = settings.revision or commit_of(settings.model, None)
    name = _linked(settings.model_name, revision, path=settings.model)
    said = Markup("<p>{}, {}.{} {}</p>")
    licence = _licence(_of_card(settings.model, settings.revision))
    if not engine.has_adapter:
        return said.format(name, licence, note, "An encoder without an adapter: there is no base to compare with.")
    pinned = slant_json(settings.model, revision=settings.revision)
    config = find(settings.model, ADAPTER_CONFIG, settings.revision)
    base = pinned.get("base") or (read_json(config)["base_model_name_or_path"] if config else "a base not known")
    base_name = Path(base).name if is_machine_path(base) else base
    of_base = Markup("A LoRA adapter on {}, {}.").format(
        _linked(base_name, pinned.get("base_revision"), path=base), _licence(pinned.get("base_licence"))
    )
    learnt = Markup("").join(
        Markup("<li>{}{}, {:,} rows, {}</li>").format(
            _linked(data["name"], data.get("revision"), kind="/datasets"),
            f" ({data['config']})" if data.get("config") else "",
            data["rows"],
            _licence(data["licence"]),
        )
        for data in pinned.get("data", [])
    )
    return said.format(name, licence, note, of_base) + (
        Markup("<p>It was trained on</p><ul>{}</ul>").format(learnt) if learnt else Markup("")
    )


def _data(engine: Engine) -> Markup:
    corpus = engine.dial.corpus
    sizes = f"{len(corpus.documents):,} documents, {len(corpus.claims):,} labelled claims"
    if engine.settings.corpus is None:
        stance = Markup("The sample: {}. The sample was written for this project and is {}.").format(sizes, CC_BY)
    else:
        stance = Markup("{}: {}, given by whoever opened this page; its licence is not known here.").format(
            corpus.name, sizes
        )
    tasks = Markup("").join(
        Markup("<li><b>{}</b>, asked by {}: {}</li>").format(task, lens[0].lower() + lens[1:], label)
        for lens, tasks in LENSES.items()
        for task, label in tasks.items()
    )
    return Markup(
        "<p>{} A filter hides results and changes no score: scores and ranks are those over the whole corpus, as in "
        "the published tables.</p><p>Oblique search looks in five small corpora, made up for this project and {}:</p>"
        "<ul>{}</ul>"
    ).format(stance, CC_BY, tasks)


def _linked(name: str, revision: str | None, *, path: str = "", kind: str = "") -> Markup:
    """A name with its revision, a link where it is one of the Hub."""
    shown = Markup("<code>{}</code>").format(name)
    if re.fullmatch(REPO_ID, name) and not Path(path or name).is_dir():
        at = f"/tree/{revision}" if revision else ""
        shown = Markup('<a href="{}">{}</a>').format(f"{HUB}{kind}/{name}{at}", shown)
    return shown + Markup(", revision <code>{}</code>").format(revision) if revision else shown


def _licence(said: Any) -> str:
    return f"licence {said}" if said else "licence not stated"


def _of_card(model: str, revision: str | None) -> Any:
    """The licence that a model's card states, if it has a card that can be read."""
    card = find(model, "README.md", revision)
    try:
        return (metadata_load(card) or {}).get("license") if card else None
    except (ValueError, YAMLError):
        return None
