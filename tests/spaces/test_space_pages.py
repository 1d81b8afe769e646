"""What the Space shows: pages, colours, and the folder that the Hub takes."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import tomllib
from dataclasses import replace
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from slant_space import corpora, render
from slant_space.about import about
from slant_space.engine import Explanation, Found, StanceAnswer, as_oblique_rows, as_rows
from slant_space.interface import STYLE, theme
from slant_space.oblique_view import LENSES
from slant_space.questions import ObliqueQuestion, StanceQuestion

from hub_models.evaluation.ablation import reliance
from hub_models.retrieval.ranking import Hit
from tests.spaces.conftest import SPACE
from tests.spaces.html import Elements, texts_of

CASES = SPACE.parents[1] / "tests" / "cases"
HOSTILE, IN_TABLES = (
    [json.loads(line) for line in (CASES / name).read_text("utf-8").splitlines()]
    for name in ("case26_hostile_texts.jsonl", "case30_card_rows.jsonl")
)


def test_the_about_page_names_base_data_licences_and_papers(engine, monkeypatch):
    page = about(engine)
    pinned = json.loads((Path(engine.settings.model) / "slant.json").read_text())
    revision = pinned["base_revision"]
    link = f'<a href="https://huggingface.co/{pinned["base"]}/tree/{revision}"><code>{pinned["base"]}</code></a>'
    assert f"A LoRA adapter on {link}, revision <code>{revision}</code>, licence not stated." in page
    assert "The sample: 480 documents, 40 labelled claims. The sample was written for this project" in page
    assert 'and is <a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>' in page
    assert re.findall(r"<li><b>(\w+)</b>, asked by", page) == [task for tasks in LENSES.values() for task in tasks]
    assert {"2608.28283", "2609.29649"} <= set(re.findall(r'href="https://arxiv.org/abs/([\d.]+)"', page))
    hostile = '"><script>alert(1)</script>'
    data = {"name": "org/rows", "config": hostile, "rows": 9_600, "licence": "cc-by-4.0", "revision": hostile}
    pins = {"base": "/home/me/bases/own", "base_revision": None, "base_licence": "mit", "data": [data]}
    monkeypatch.setattr("slant_space.about.slant_json", lambda *_, **__: pins)
    monkeypatch.setattr("slant_space.about._of_card", lambda *_: "apache-2.0")
    page = about(engine)
    assert "<code>run</code>, licence apache-2.0. A LoRA adapter on <code>own</code>, licence mit." in page
    assert "/home/me" not in page and '<a href="https://huggingface.co/datasets/org/rows/tree/' in page
    assert "9,600 rows, licence cc-by-4.0</li>" in page
    assert "script" not in Elements(page).tags and hostile in Elements(page).text


def test_the_files_of_an_oblique_answer_hold_its_rows(engine):
    answer = engine.oblique(ObliqueQuestion(query="=tea, \N{SNOWMAN}", k=3))
    links = dict(
        re.findall(
            r'download="oblique-search\.(csv|json)" href="data:[^"]*;base64,([^"]*)"', render.oblique_results(answer)
        )
    )
    files = {kind: base64.b64decode(content).decode() for kind, content in links.items()}
    rows = as_oblique_rows(answer)
    assert json.loads(files["json"]) == rows and len(rows) >= 6
    assert [row["id"] for row in csv.DictReader(io.StringIO(files["csv"]))] == [row["id"] for row in rows]


def test_words_are_marked_after_escaping():
    assert render.highlight("1 < 2, and lt is a word", {"lt"}) == "1 &lt; 2, and <mark>lt</mark> is a word"
    assert render.highlight("amp & Amp", {"amp"}) == "<mark>amp</mark> &amp; <mark>Amp</mark>"


@given(st.text(max_size=60), st.sets(st.sampled_from(["lt", "amp", "script", "a", "b"])))
def test_a_marked_text_reads_as_it_was(text, words):
    page = Elements(str(render.highlight(text, words)))
    assert set(page.tags) <= {"mark"}
    assert page.text == text


@pytest.mark.parametrize(
    "text", [row["text"] for row in HOSTILE + IN_TABLES] + ['" onmouseover="alert(1)', "{{value}} ${value}"]
)
def test_hostile_texts_are_text_in_every_page(engine, text):
    dial = engine.index("mine", [corpora.Document(text, text, source=text), corpora.Document("x", "Tea warms.")])
    question = StanceQuestion(claim=text, instruction="own", own_support=text, own_attack=text, k=3)
    stance = render.stance_results(engine.stance(dial, question))
    why = (
        render.explanation(engine.explain(dial, question, "attack", text, frozenset({1})), text, "attack")
        if (" " in text)
        else ""
    )
    asked = render.oblique_results(engine.oblique(ObliqueQuestion(query=text, k=3), dial))
    assert f"<bdi>{render.escape(text)}</bdi>" in stance, "what reads from right to left turns nothing around it"
    for html in (stance, why, asked, render.message(text)):
        page = Elements(html)
        assert not {"img", "script", "b"} & set(page.tags) - ({"b"} if html in (stance, why) else set())
        assert not page.handlers
    assert text in Elements(stance).text


def test_a_result_shows_its_badge_its_move_and_what_its_score_is_made_of():
    def found(rank, other_rank, kind, fused):
        hit = Hit(f"d{rank}", "Zoos help.", dense=0.5, bm25=2.0, score=sum(fused))
        return Found(hit, fused, rank, other_rank, kind, corpora.Document(hit.id, hit.text, source="post"))

    column = [
        found(2, 5, "right", (0.75, 0.25)),
        found(3, 1, "wrong stance", (0.6, 0.0)),
        found(4, 4, "wrong topic", (0.1, 0.3)),
        found(5, None, None, (0.0, 0.0)),
    ]
    question = StanceQuestion(claim="Zoos matter.", source="post", scale=0.5)
    page = render.stance_results(StanceAnswer(question, {"support": column}, {"support": 0.5}, False, ""))
    hits = page.split('<li class="sl-hit">')[1:]
    assert re.findall(r'<span class="sl-rank"[^>]*>(\d+)</span>', page) == ["2", "3", "4", "5"]
    moves = [re.findall(r'sl-move sl-(\w+)" title="([^"]*)"><span aria-hidden="true">([^<]*)<', hit) for hit in hits]
    assert moves == [
        [("up", "rank 5 in the base model", "↑ 3")],
        [("down", "rank 1 in the base model", "↓ 2")],
        [("same", "rank 4 in the base model", "=")],
        [],
    ]
    badges = [
        re.findall(r'sl-badge sl-([\w-]+)" title="[^"]*"><span aria-hidden="true">(.)</span> ([\w ]+)<', h)
        for h in hits
    ]
    assert badges == [
        [("right", "✓", "right side")],
        [("wrong-stance", "⇄", "wrong stance")],
        [("wrong-topic", "≠", "wrong topic")],
        [],
    ]
    parts = [tuple(re.findall(r"<dd>([\d.]+)</dd>", hit)) for hit in hits]
    assert parts == [("0.500", "2.00", score) for score in ("1.000", "0.600", "0.400", "0.000")]
    shares = [tuple(re.findall(r"width:(\d+)%", hit)) for hit in hits]
    assert shares == [("75", "25"), ("100", "0"), ("25", "75"), ("0", "0")]
    assert 'aria-label="Why rank 2 in support?"' in hits[0]
    assert texts_of("sl-took", page) == ["λ = 0.50 · adapter 0.5 · only post"]


def explained(stance_word, kind="wrong stance", claim=("Zoos", "help")):
    """Deleting “refuting” moves the cosine by ``stance_word``, the three others by 0.01, -0.02 and 0.04."""
    deltas = [("instruction", "Find", 0.01), ("instruction", "refuting", stance_word)]
    deltas += [("claim", claim[0], -0.02), ("claim", claim[1], 0.04)]
    return Explanation(deltas, reliance(deltas), 0.8765, 3, kind, frozenset(), 0.8765, 3)


@pytest.mark.parametrize(
    ("stance_word", "ris", "rcs", "di", "sentence", "bar"),
    [
        # |0.01| + |0.03| of 0.1 are the instruction's; the bar begins in the middle and reaches its end at 0.1
        (-0.03, 40, 60, "-0.030, nearer", "The stance word draws this document nearer", ("35", "15")),
        (0.05, 50, 50, "+0.050, away", "The stance word pushes this document away", ("50", "25")),
        (0.33, 85, 15, "+0.330, away", "The stance word pushes this document away", ("50", "50")),
        (0.0, 14, 86, "0", "The stance word does nothing.", ("50", "0")),
    ],
)
def test_gauges_say_how_much_comes_from_where_and_which_way_the_stance_word_goes(
    stance_word, ris, rcs, di, sentence, bar
):
    page = render.explanation(explained(stance_word), "Zoos help.", "attack")
    heads, sentences = texts_of("sl-gauge-head", page), re.findall(r"</div><p>([^<]*)</p>", page)
    assert heads == [
        f"RIS relative instruction sensitivity{ris / 100:.2f}",
        f"RCS relative claim sensitivity{rcs / 100:.2f}",
        f"DI direction: mean Δ of the stance words{di}",
    ]
    assert sentences[0] == f"{ris}% of what the words do here comes from the instruction."
    assert sentences[1] == f"{rcs}% of what the words do here comes from the claim."
    assert sentences[2].startswith(sentence)
    bars = re.findall(r"margin-left:(\d+)%;width:(\d+)%", page)
    assert bars == [("0", str(ris)), ("0", str(rcs)), bar]


def test_why_names_side_rank_and_badge_beside_the_text():
    page = render.explanation(explained(-0.03), "Zoos help.", "attack")
    head = re.search(r'<div class="sl-head">(.*?)</div>', page)[1]
    assert Elements(head).text == "▼ Attack3⇄ wrong stance"
    typed = replace(explained(-0.03, kind=None), rank=None)
    head = re.search(r'<div class="sl-head">(.*?)</div>', render.explanation(typed, "Zoos help.", "support"))[1]
    assert Elements(head).text == "▲ Support"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ban cars", "ltr"),
        ("יש לאסור", "rtl"),
        ("2. يجب منع", "rtl"),
        ("“cars” יש", "ltr"),
        ("42", "ltr"),
        ("", "ltr"),
    ],
)
def test_words_run_as_their_first_letter_does(text, expected):
    assert render.direction(text) == expected


def test_the_words_of_a_hebrew_claim_run_from_right_to_left_and_their_instruction_does_not():
    page = render.explanation(explained(-0.03, claim=("יש", "לאסור")), "Zoos help.", "attack")
    assert re.findall(r'<div class="sl-words" dir="(\w+)">', page) == ["ltr", "rtl"]


def test_tables_are_strict_and_no_formula_is_left(engine):
    dial = engine.index("mine", [corpora.Document("1", "=HYPERLINK(1)"), corpora.Document("2", "plain, text")])
    rows = as_rows(engine.stance(dial, StanceQuestion(claim="Tea is good.", k=3)))
    found = list(csv.DictReader(io.StringIO(render.csv_of(rows))))
    assert {r["text"] for r in found} == {"'=HYPERLINK(1)", "plain, text"}
    assert [float(r["score"]) for r in found] == [r["score"] for r in rows]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert render.csv_of([]) == ""


def contrast(one, other):
    """The ratio of WCAG 2, from 1 to 21."""

    def luminance(colour):
        parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def test_colours_have_contrast_in_light_and_dark():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    sheet = STYLE.read_text(encoding="utf-8")
    for scheme in (":root", ".dark"):
        block = re.search(rf"^{re.escape(scheme)} \{{(.*?)\}}", sheet, re.S | re.M)[1]
        colours = dict(re.findall(r"--sl-([a-z]+): (#[0-9a-f]{6})", block))
        for text in ("ink", "soft", "support", "attack", "accent", "warn"):
            for ground in ("card", "page"):
                assert contrast(colours[text], colours[ground]) >= 4.5, (scheme, text, ground)
        assert contrast(colours["ink"], colours["mark"]) >= 4.5
    for knob in ("-webkit-slider-thumb", "-moz-range-thumb"):  # its ground is a card, its colour a text's
        assert re.search(rf"::{knob} \{{ background-color: var\(--sl-accent\) !important; \}}", sheet)


@pytest.mark.parametrize("dark", [False, True])
def test_what_gradio_draws_has_contrast_too(dark):
    rules = re.findall(r"([^{}]+)\{([^}]*)\}", theme()._get_theme_css())
    values = {}
    for selector, body in rules:
        if dark or ".dark" not in selector:
            values |= {k: v.strip() for k, v in re.findall(r"--([\w-]+):\s*([^;]+);", body)}

    def colour(name):
        value = values[name]
        while found := re.fullmatch(r"var\(--([\w-]+)\)", value):
            value = values[found[1]]
        return {"white": "#ffffff", "black": "#000000"}.get(value, value)

    for text, ground in [
        ("button-primary-text-color", "button-primary-background-fill"),
        ("button-primary-text-color-hover", "button-primary-background-fill-hover"),
        ("block-title-text-color", "block-background-fill"),
        ("block-label-text-color", "block-label-background-fill"),
        ("block-info-text-color", "block-background-fill"),
        ("body-text-color", "input-background-fill"),
        ("body-text-color-subdued", "block-background-fill"),
        ("input-placeholder-color", "input-background-fill"),
        ("checkbox-label-text-color", "checkbox-label-background-fill"),
        ("checkbox-label-text-color-selected", "checkbox-label-background-fill-selected"),
    ]:
        assert contrast(colour(text), colour(ground)) >= 4.5, (text, ground)


def test_the_hub_can_install_what_the_package_wants_beside_what_it_adds_itself():
    """It installs gradio's extras `oauth` and `mcp` in one go with the requirements: bounds that exclude one another
    would leave the Space without a build."""
    project = tomllib.loads((SPACE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    ours |= {
        r.name: r.specifier & ours.get(r.name, SpecifierSet())
        for line in (SPACE / "requirements.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
        for r in [Requirement(line)]
    }
    added = [
        r
        for r in map(Requirement, requires("gradio") or [])
        if r.name in ours
        and (r.marker is None or any(r.marker.evaluate({"extra": extra}) for extra in ("oauth", "mcp")))
    ]
    assert {"mcp", "pydantic"} <= {r.name for r in added}
    for theirs in added:
        both = theirs.specifier & ours[theirs.name]
        assert any(both.contains(bound.version) for bound in both), (theirs.name, str(both))


def test_the_space_is_a_folder_that_the_hub_takes():
    import yaml

    head = yaml.safe_load((SPACE / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert head["sdk"] == "gradio" and head["app_file"] == "app.py" and head["models"]
    pins = Path(SPACE.parents[1] / "constraints.txt").read_text(encoding="utf-8")
    assert f"gradio=={head['sdk_version']}\n" in pins
    assert not any(path.name == "__init__.py" for path in (SPACE, SPACE.parent) for path in path.glob("*.py"))
