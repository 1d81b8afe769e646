"""Answers as HTML. Every text is escaped; the marks around words are added afterwards."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import unicodedata
from collections.abc import Collection
from typing import Any

from markupsafe import Markup, escape

from dataset_builders.instructions import STANCES
from dataset_builders.oblique.statistics import content_words
from slant_space.corpora import Kind
from slant_space.engine import Explanation, Found, ObliqueAnswer, ObliqueFound, StanceAnswer, as_oblique_rows, as_rows

_WORD = re.compile(r"[^\W\d_]+")
NOTHING = "Nothing found: no document shares a word with this, or the filter leaves none."
_HEADS = {
    "support": ("▲", "Support", "arguments for the claim"),
    "attack": ("▼", "Attack", "arguments against the claim"),
    "bm25": ("≡", "Keywords", "BM25: shared words alone"),
    "base": ("○", "Base model", "by meaning, before tuning"),
    "stance": ("●", "Model tuned for stance", "by meaning, after tuning to tell sides apart"),
    "oblique": ("●", "Model tuned for oblique search", "by meaning, after tuning to find what is not said"),
    "model": ("●", "Model", "by meaning"),
}
_BADGES = {
    "right": ("✓", "right side", "By the labels this argument takes the asked side on this claim."),
    "wrong stance": ("⇄", "wrong stance", "By the labels this argument is on this claim but takes the other side."),
    "wrong topic": ("≠", "wrong topic", "By the labels this argument is about another claim."),
}


def highlight(text: str, words: Collection[str]) -> Markup:
    """The text, escaped, with a mark around each of ``words`` (lower-case, whole words)."""
    pieces, end = [], 0
    for match in _WORD.finditer(text):
        if match[0].lower() in words:
            pieces += [escape(text[end : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
            end = match.end()
    return Markup("").join([*pieces, escape(text[end:])])


def direction(text: str) -> str:
    """``rtl`` or ``ltr``, as the first letter runs that has a direction."""
    strong = (unicodedata.bidirectional(c) for c in text)
    return "rtl" if next((s for s in strong if s in ("L", "R", "AL")), "L") != "L" else "ltr"


def message(text: str, kind: str = "hint") -> str:
    """A sentence in place of results."""
    return str(Markup('<p class="sl-message sl-{}" role="status" dir="auto">{}</p>').format(kind, text))


def stance_results(answer: StanceAnswer, link: bool = True) -> str:
    """Both columns with a bar above them."""
    words = content_words(answer.question.claim)
    weights = {f"{w:.2f}" for w in answer.weight.values()}
    if len(weights) == 1:
        took = f"λ = {next(iter(weights))}"
    else:
        took = "λ = " + ", ".join(f"{answer.weight[s]:.2f} ({s})" for s in STANCES)
    if answer.auto:
        took += ", chosen automatically"
    q = answer.question
    dialled = "" if q.scale is None else f"adapter {q.scale:g}"
    took = " · ".join(filter(None, [took, dialled, q.source and f"only {q.source}", q.style and f"only {q.style}"]))
    other = "tuned" if answer.question.model == "base" else "base"
    columns = Markup("").join(
        _column(
            stance,
            Markup("").join(_stance_hit(found, stance, words, other) for found in column),
            bool(column),
            below=Markup('<p class="sl-asked">asked: “<bdi>{}</bdi> …”</p>').format(answer.question.words(stance)),
        )
        for stance, column in answer.columns.items()
    )
    bar = _bar(took, answer.remark, as_rows(answer), "stance-search", answer.question.address() if link else None)
    legend = Markup('<p class="sl-legend">{}</p>').format(_legend(answer, other))
    return str(
        Markup('<div class="sl-answer">{}{}<div class="sl-columns">{}</div></div>').format(bar, legend, columns)
    )


def _legend(answer: StanceAnswer, other: str) -> str:
    """What the signs mean that are on this page, for who cannot point at them."""
    found = [f for column in answer.columns.values() for f in column]
    said = ["λ weighs shared words (BM25) beside the meaning (dense); the bar shows what each gave"]
    if any(f.other_rank is not None for f in found):
        said.append(f"↑↓ places moved against the {other} model")
    if any(f.kind is not None for f in found):
        said.append("✓ ⇄ ≠ whether the labels agree")
    return " · ".join(said) + "."


def oblique_results(answer: ObliqueAnswer, link: bool = True) -> str:
    """A column for each system."""
    columns = Markup("").join(
        _column(
            answer.family if system == "tuned" else system,
            Markup("").join(map(_oblique_hit, column)),
            bool(column),
            below=_first_relevant(answer, system),
        )
        for system, column in answer.columns.items()
    )
    rows = as_oblique_rows(answer)
    bar = _bar("", "", rows, "oblique-search", answer.question.address() if link else None)
    return str(Markup('<div class="sl-answer">{}<div class="sl-columns sl-three">{}</div></div>').format(bar, columns))


def _first_relevant(answer: ObliqueAnswer, system: str) -> Markup:
    if system not in answer.first:
        return Markup("")
    rank = answer.first[system]
    said = "finds nothing relevant" if rank is None else f"first relevant: rank {rank}"
    return Markup('<p class="sl-first">{}</p>').format(said)


def _bar(took: str, remark: str, rows: list[dict[str, Any]], name: str, address: str | None) -> Markup:
    link = Markup("")
    if address:
        link = Markup('<button type="button" class="sl-button" data-copy data-address="{}">Copy link</button>')
        link = link.format(address)
    elif address is not None:
        remark = f"{remark} This text is too long for a link.".strip()
    return Markup(
        '<div class="sl-bar"><span class="sl-took" role="status">{took}</span><span class="sl-remark">{remark}</span>'
        '<span class="sl-actions">{link}<a class="sl-button" download="{name}.csv" href="{csv}">CSV</a>'
        '<a class="sl-button" download="{name}.json" href="{json}">JSON</a></span></div>'
    ).format(
        took=took,
        remark=remark,
        link=link,
        name=name,
        csv=_data("text/csv", csv_of(rows)),
        json=_data("application/json", json.dumps(rows, ensure_ascii=False, indent=1, allow_nan=False)),
    )


def csv_of(rows: list[dict[str, Any]]) -> str:
    """Rows as CSV; a text that a spreadsheet would run as a formula gets an apostrophe before it."""
    out = io.StringIO(newline="")
    if rows:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {k: f"'{v}" if isinstance(v, str) and v[:1] in "=+-@\t\r" and v else v for k, v in row.items()}
            )
    return out.getvalue()


def _data(mime: str, content: str) -> str:
    return f"data:{mime};charset=utf-8;base64,{base64.b64encode(content.encode()).decode()}"


def _column(name: str, items: Markup, any_found: bool, below: Markup) -> Markup:
    sign, head, what = _HEADS[name]
    body = Markup('<ol class="sl-hits">{}</ol>').format(items) if any_found else Markup(message(NOTHING))
    return Markup(
        '<section class="sl-column sl-{name}" aria-label="{head}"><header><h2><span aria-hidden="true">{sign}</span> '
        "{head}</h2><p>{what}</p>{below}</header>{body}</section>"
    ).format(
        name=name,
        head=head,
        sign=sign,
        what=what,
        below=below,
        body=body,
    )


def _stance_hit(found: Found, stance: str, words: Collection[str], other: str) -> Markup:
    about = Markup(" · ").join(
        Markup("<bdi>{}</bdi>").format(x) for x in (found.document.source, found.document.style) if x
    )
    return Markup(
        '<li class="sl-hit"><div class="sl-head"><span class="sl-rank" title="rank in the whole corpus">{rank}</span>'
        '{move}{badge}<span class="sl-about">{about}</span></div><p class="sl-text" dir="auto">{text}</p>'
        '<div class="sl-foot">{parts}<button type="button" class="sl-button sl-why" data-id="{id}" '
        'data-stance="{stance}" aria-label="Why rank {rank} in {stance}?">Why?</button></div></li>'
    ).format(
        rank=found.rank,
        move=_move(found, other),
        badge=_badge(found.kind),
        about=about,
        text=highlight(found.hit.text, words),
        parts=_parts(found),
        id=found.hit.id,
        stance=stance,
    )


def _badge(kind: Kind | None) -> Markup:
    if kind is None:
        return Markup("")
    sign, name, title = _BADGES[kind]
    return Markup('<span class="sl-badge sl-{}" title="{}"><span aria-hidden="true">{}</span> {}</span>').format(
        kind.replace(" ", "-"), title, sign, name
    )


def _move(found: Found, other: str) -> Markup:
    if found.other_rank is None:
        return Markup("")
    moved = found.other_rank - found.rank
    sign, css = ("↑", "up") if moved > 0 else ("↓", "down") if moved < 0 else ("=", "same")
    text = f"{sign} {abs(moved)}" if moved else "="
    where = f"rank {found.other_rank} in the {other} model"
    return Markup(
        '<span class="sl-move sl-{}" title="{}"><span aria-hidden="true">{}</span><span class="sl-unseen">{}</span>'
        "</span>"
    ).format(css, where, text, where)


def _parts(found: Found) -> Markup:
    dense, lexical = found.fused
    total = max(dense + lexical, 1e-9)
    return Markup(
        '<dl class="sl-parts"><div><dt>dense</dt><dd>{:.3f}</dd></div><div><dt>BM25</dt><dd>{:.2f}</dd></div>'
        '<div><dt>fused</dt><dd>{:.3f}</dd></div></dl><span class="sl-split" aria-hidden="true" '
        'title="what the fused score is made of"><i style="width:{:.0f}%"></i><b style="width:{:.0f}%"></b></span>'
    ).format(found.hit.dense, found.hit.bm25, found.hit.score, 100 * dense / total, 100 * lexical / total)


def _overlap(found: ObliqueFound) -> str:
    if found.coverage:
        return f"{found.coverage:.0%} of the query’s content words"
    return "function words only" if found.meets else "no word of the query"


def _oblique_hit(found: ObliqueFound) -> Markup:
    badge = Markup("")
    if found.right is not None:
        css, sign, name = ("right", "✓", "relevant") if found.right else ("wrong-topic", "≠", "not relevant")
        badge = Markup('<span class="sl-badge sl-{}"><span aria-hidden="true">{}</span> {}</span>').format(
            css, sign, name
        )
    attribute = (
        Markup(
            "<details class=sl-attribute><summary>Reveal the latent attribute</summary><p dir=auto>{}</p></details>"
        ).format(found.attribute)
        if found.attribute
        else Markup("")
    )
    return Markup(
        '<li class="sl-hit"><div class="sl-head"><span class="sl-rank">{rank}</span>{badge}<span class="sl-about" '
        'title="share of the query’s content words that this document has; the keywords’ ranks count all words">'
        "{overlap}</span>"
        '</div><p class="sl-text sl-long" dir="auto" tabindex="0">{text}</p>{attribute}</li>'
    ).format(
        rank=found.rank,
        badge=badge,
        overlap=_overlap(found),
        text=highlight(found.hit.text, found.shared),
        attribute=attribute,
    )


# -- why -----------------------------------------------------------------------------------------------------------


def explanation(found: Explanation, document: str, stance: str) -> str:
    """Heatmap with switches, three gauges, and what the switches did."""
    largest = max((abs(d) for _, _, d in found.words if d is not None), default=0) or 1
    parts = Markup("").join(
        Markup('<div class="sl-part"><h3>{}</h3><div class="sl-words" dir="{}">{}</div></div>').format(
            part.capitalize(),
            direction(" ".join(word for _, (_, word, _) in words)),
            Markup("").join(_word(i, word, delta, largest, i in found.removed) for i, (_, word, delta) in words),
        )
        for part in ("instruction", "claim")
        for words in [[(i, w) for i, w in enumerate(found.words) if w[0] == part]]
    )
    return str(
        Markup(
            '<section class="sl-why-panel" aria-label="Why this result" tabindex="-1"><h2>Why is this here?</h2>'
            '<div class="sl-head"><b class="sl-{stance}">{side}</b>{rank}{badge}</div>'
            '<blockquote class="sl-text sl-{stance}" dir="auto">{document}</blockquote>'
            '<p class="sl-hint">Each word shows what happens to the similarity when it is deleted: '
            '<span class="sl-key sl-draws">− draws the document nearer</span> '
            '<span class="sl-key sl-pushes">+ pushes it away</span>. Press a word to switch it off.</p>'
            '{parts}<p class="sl-standing" role="status">{standing}</p><div class="sl-gauges">{gauges}</div></section>'
        ).format(
            stance=stance,
            side=Markup('<span aria-hidden="true">{}</span> {}').format(*_HEADS[stance]),
            rank="" if found.rank is None else Markup('<span class="sl-rank">{}</span>').format(found.rank),
            badge=_badge(found.kind),
            document=document,
            parts=parts,
            standing=_standing(found),
            gauges=_gauges(found),
        )
    )


def _word(place: int, word: str, delta: float | None, largest: float, off: bool) -> Markup:
    if delta is None:
        return Markup('<span class="sl-word sl-fixed" title="the only word of its part"><bdi>{}</bdi></span>').format(
            word
        )
    css = "sl-draws" if delta < 0 else "sl-pushes"
    return Markup(
        '<button type="button" class="sl-word {css}{off}" style="--heat:{heat:.2f}" data-word="{place}" '
        'aria-pressed="{pressed}"><span dir="auto">{word}</span><small>{delta:+.3f}</small></button>'
    ).format(
        css=css,
        off=" sl-off" if off else "",
        heat=abs(delta) / largest,
        place=place,
        pressed="false" if off else "true",
        word=word,
        delta=delta,
    )


def _standing(found: Explanation) -> Markup:
    rank = "" if found.rank is None else f", rank {found.rank}"
    now = Markup("Cosine {:.3f}{} with the whole query.").format(found.cosine, rank)
    if not found.removed:
        return now
    rank = "" if found.rank_without is None else f", rank {found.rank_without}"
    gone = " ".join(word for i, (_, word, _) in enumerate(found.words) if i in found.removed)
    return now + Markup(" Without “<bdi>{}</bdi>”: cosine {:.3f}{}.").format(gone, found.cosine_without, rank)


def _gauges(found: Explanation) -> Markup:
    r = found.reliance
    if r.di is None:
        shown, di = "–", "There is no stance word here that could be deleted."
    elif r.di < 0:
        shown, di = (
            f"{r.di:+.3f}, nearer",
            "The stance word draws this document nearer: good if it takes the asked side.",
        )
    elif r.di > 0:
        shown, di = f"{r.di:+.3f}, away", "The stance word pushes this document away: good if it takes the other side."
    else:
        shown, di = "0", "The stance word does nothing."
    return Markup("").join(
        _gauge(*gauge)
        for gauge in [
            ("RIS", "relative instruction sensitivity", 0, r.ris, f"{r.ris:.2f}",
             f"{r.ris:.0%} of what the words do here comes from the instruction."),
            ("RCS", "relative claim sensitivity", 0, r.rcs, f"{r.rcs:.2f}",
             f"{r.rcs:.0%} of what the words do here comes from the claim."),
            ("DI", "direction: mean Δ of the stance words", 0.5, 0.5 + 5 * (r.di or 0), shown, di),
        ]
    )  # fmt: skip


def _gauge(name: str, meaning: str, start: float, end: float, shown: str, sentence: str) -> Markup:
    """A bar from ``start`` to ``end``, both in [0, 1]: that of a direction begins in the middle."""
    low, high = sorted((start, min(max(end, 0), 1)))
    return Markup(
        '<div class="sl-gauge"><div class="sl-gauge-head"><span><b>{name}</b> <small>{meaning}</small></span>'
        '<output>{shown}</output></div><div class="sl-track" aria-hidden="true">'
        '<i style="margin-left:{low:.0f}%;width:{width:.0f}%"></i></div><p>{sentence}</p></div>'
    ).format(name=name, meaning=meaning, shown=shown, low=100 * low, width=100 * (high - low), sentence=sentence)
