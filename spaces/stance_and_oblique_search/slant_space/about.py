"""Models, data, licences, papers and limits."""

from __future__ import annotations

from markupsafe import Markup

from slant_space.engine import Engine


def about(engine: Engine) -> str:
    """The page."""
    settings, corpus = engine.settings, engine.dial.corpus
    tuned = (
        "An adapter on its base."
        if engine.has_adapter
        else "An encoder without an adapter: there is no base to compare with."
    )
    revision = f", revision {settings.revision}" if settings.revision else ""
    return str(
        Markup(
            """<article class="sl-about-page">
<h2>What this is</h2>
<p>Ask an embedding model for statements against a claim, and it returns what is on the topic, half of it in favour.
This page shows that, what tuning changes, and which words of a query did it.</p>
<h2>Model</h2><p>{model}{revision}. {tuned} {note} A model has the licence of its card.</p>
<h2>Data</h2><p>{corpus}: {documents} documents, {claims} labelled claims. The sample was written for this project
and is CC BY 4.0; so is the oblique sample. A filter hides results and changes no score: scores and ranks are those
over the whole corpus, as in the published tables.</p>
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
“Use via API” below, or call them with <code>gradio_client</code>; the MCP server is at
<code>/gradio_api/mcp/</code>.</p>
<h2>Privacy</h2><p>Uploads are held in memory for the visit, and an hour at most beyond it. Searches are not logged
here. A shared link holds the claim.</p>
</article>"""
        ).format(
            model=settings.model_name,
            revision=revision,
            tuned=tuned,
            note=settings.note and settings.note[0].upper() + settings.note[1:] + ".",
            corpus=corpus.name.capitalize() if corpus.name == "sample" else corpus.name,
            documents=f"{len(corpus.documents):,}",
            claims=f"{len(corpus.claims):,}",
        )
    )
