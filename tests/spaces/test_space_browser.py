"""Every view in a real browser, at desktop and phone width."""

from __future__ import annotations

import csv
import json
import os
import re
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from slant_space.interface import STYLE
from slant_space.questions import PAIRS

from tests.spaces.conftest import SPACE

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
expect.set_options(timeout=60_000)  # as long as a page waits
CASE_26 = SPACE.parents[1] / "tests/cases/case26_hostile_texts.jsonl"
HOSTILE = "<img src=x onerror=alert(1)>"
IDS = "els => els.map(e => e.dataset.id)"


@pytest.fixture
def visit(space, browser):
    """Opens the page with an address; afterwards no dialog may have come and no script may have failed."""
    contexts, troubles = [], []

    def open_page(address="", width="desktop", scheme="light"):
        size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
        contexts.append(browser.new_context(viewport=size, accept_downloads=True, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)

        def dismiss(dialog):
            troubles.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", dismiss)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(space.local_url + address, wait_until="domcontentloaded")
        page.wait_for_selector("#stance-results .sl-hit, #stance-results .sl-message", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles


def shown(page):
    return page.eval_on_selector_all("#stance-results .sl-why", IDS)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_view(visit, engine, width):
    page = visit(width=width)
    assert page.locator("#stance-results .sl-column").count() == 2
    first = engine.dial.corpus.claims[0]
    expect(page.locator("#claim").get_by_role("textbox")).to_have_value(first)  # a visit begins with results
    assert shown(page)[:6] == [h.id for h in engine.dial.released.search(first, "support", k=6)]
    for side in ("Support", "Attack"):
        assert page.get_by_role("region", name=side).is_visible(), "not by colour alone"

    page.locator("#stance-results .sl-why").first.focus()
    page.keyboard.press("Enter")
    words = page.locator("#why button.sl-word")
    words.first.wait_for()
    assert page.locator("#why .sl-gauge p").all_inner_texts()
    expect(page.locator("#why .sl-why-panel")).to_be_focused()  # a keyboard goes on from where it looks
    words.nth(1).focus()
    page.keyboard.press("Enter")
    page.locator("#why .sl-standing", has_text="Without “evidence”").wait_for()
    assert words.nth(1).get_attribute("aria-pressed") == "false"
    expect(words.nth(1)).to_be_focused()
    _fits(page, width)

    page.get_by_role("tab", name="Oblique").click()
    page.wait_for_selector("#oblique-results .sl-hit")  # this view too begins with results
    assert page.locator("#oblique-results .sl-column").count() == 3
    attribute = page.locator("#oblique-results .sl-attribute p").first
    assert not attribute.is_visible()
    page.locator("#oblique-results .sl-attribute summary").first.click()
    assert attribute.is_visible()
    _fits(page, width)
    unlabelled = page.evaluate(
        "() => [...document.querySelectorAll('input:not([type=file]), textarea, select')]"
        ".filter(e => e.offsetParent && !e.labels?.length && !e.ariaLabel && !e.getAttribute('aria-labelledby'))"
        ".map(e => e.outerHTML.slice(0, 120))"
    )
    assert not unlabelled

    page.get_by_role("tab", name="About").click()
    assert page.get_by_text("What a stance score is not").is_visible()
    left = "s => document.querySelector(s).getBoundingClientRect().left"
    assert page.evaluate(left, ".sl-about-page li") - page.evaluate(left, ".sl-about-page") >= 16, "room for a bullet"
    assert page.get_by_role("contentinfo").inner_text().startswith("Use via API")
    _fits(page, width)


def _fits(page, width):
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width][0], "nothing is scrolled sideways"


def test_another_lens_brings_its_tasks_and_queries(visit, engine):
    page = visit()
    page.get_by_role("tab", name="Oblique").click()
    page.get_by_role("radio", name="An example").check()
    page.wait_for_url("**task=math**")
    queries = [q.text for q in engine.task("math").task.queries.values()]
    expect(page.locator("#query textarea")).to_have_value(queries[0])
    page.locator("#oblique-pick input").click()
    page.get_by_role("option").nth(3).click()
    page.wait_for_url(lambda url: quote(queries[3][:12]).replace("%20", "+").split("%")[0] in url)
    expect(page.locator("#query textarea")).to_have_value(queries[3])
    again = visit(page.url[page.url.index("?") :])
    again.wait_for_selector("#oblique-results .sl-hit")
    expect(again.get_by_role("radio", name="An example")).to_be_checked()
    expect(again.locator("#query textarea")).to_have_value(queries[3])
    assert "view=oblique" in again.url
    with again.expect_download() as download:
        again.locator("#oblique-results").get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "oblique-search.csv"
    rows = list(csv.DictReader(download.value.path().open(encoding="utf-8", newline="")))
    assert [r["text"] for r in rows] == again.locator("#oblique-results .sl-text").all_inner_texts()


def test_a_dark_page_has_the_dark_colours(visit):
    block = re.search(r"^\.dark \{(.*?)\}", STYLE.read_text(encoding="utf-8"), re.S | re.M)[1]
    dark = dict(re.findall(r"--sl-([a-z]+): #([0-9a-f]{6})", block))
    page = visit(scheme="dark")
    for selector, style, colour in [
        ("body", "backgroundColor", "page"),
        (".sl-hero h1", "color", "ink"),
        (".sl-hit", "backgroundColor", "card"),
        (".sl-hit .sl-text", "color", "ink"),
        (".sl-support h2", "color", "support"),
    ]:
        got = page.locator(selector).first.evaluate(f"e => getComputedStyle(e).{style}")
        assert got == "rgb({}, {}, {})".format(*bytes.fromhex(dark[colour])), selector


def test_an_upload_on_a_phone_says_how_far_it_is_and_is_searched(visit, engine, monkeypatch, tmp_path):
    go, index = threading.Event(), engine.index

    def held(name, documents, tell):
        tell(1)
        assert go.wait(120)
        return index(name, documents, tell)

    monkeypatch.setattr(engine, "index", held)
    (tmp_path / "mine.txt").write_text("Tea warms.\nTea stains.\nCars are loud.\n")
    page = visit(width="phone")
    page.get_by_role("tab", name="Your corpus").click()
    page.set_input_files("#upload input[type=file]", str(tmp_path / "mine.txt"))
    said = page.locator("#upload-said")
    said.get_by_text("1 of 3 documents").wait_for()
    clock, text, bar = (
        said.locator(part).bounding_box()
        for part in (".meta-text-center", ".progress-level-inner", ".progress-bar-wrap")
    )
    assert clock["y"] + clock["height"] <= text["y"] and text["y"] + text["height"] <= bar["y"], "one below the other"
    assert bar["y"] + bar["height"] <= said.bounding_box()["y"] + said.bounding_box()["height"]
    _fits(page, "phone")
    go.set()
    said.get_by_text("3 documents are indexed. Both searches now look in mine.txt").wait_for()
    page.get_by_role("tab", name="Stance").click()
    page.locator("#stance-results .sl-text", has_text="Tea warms.").first.wait_for()
    assert set(page.locator("#stance-results .sl-text").all_inner_texts()) == {
        "Tea warms.", "Tea stains.", "Cars are loud."
    }  # fmt: skip
    _fits(page, "phone")


def opened(page):
    """The page with its dials in sight."""
    page.get_by_role("button", name="Dials and filters").click()
    return page


def took(page, words):
    """Waits until the results say what they took."""
    page.locator("#stance-results .sl-took", has_text=words).wait_for()


def test_a_key_on_a_slider_searches_once(visit, engine):
    page = opened(visit())
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/queue/join" in request.url else None)
    claim = engine.dial.corpus.claims[0]
    for key, weight in (("ArrowRight", 0.15), ("ArrowRight", 0.2), ("Home", 0.0), ("End", 1.0)):
        page.locator("#weight input[type=range]").focus()
        page.keyboard.press(key)
        took(page, f"λ = {weight:.2f}")
        assert shown(page)[:6] == [h.id for h in engine.dial.released.search(claim, "support", k=6, hybrid=weight)]
    assert len(asked) == 4
    page.locator("#scale input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    took(page, "λ = 1.00 · adapter 0.75")
    page.locator("#k input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelectorAll('#stance-results .sl-hit').length === 10")
    assert len(asked) == 6
    page.get_by_role("tab", name="Oblique").click()
    page.locator("#oblique-k input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelectorAll('#oblique-results .sl-hit').length === 12")


def test_unseen_instructions_are_picked_from_the_list_and_ones_own_wait_for_their_words(visit, engine):
    page = opened(visit())
    page.locator("#instruction input").click()
    page.get_by_role("option", name="Unseen:").nth(1).click()
    pair = PAIRS["unseen-02"]
    page.locator("#stance-results .sl-asked", has_text=pair["attack"]).wait_for()
    claim = engine.dial.corpus.claims[0]
    hits = engine.dial.released.search(claim, "support", k=6, instruction=pair["support"])
    assert shown(page)[:6] == [h.id for h in hits]

    page.locator("#instruction input").click()
    page.get_by_role("option", name="Your own words").click()
    said = page.locator("#stance-results .sl-message")
    expect(said).to_have_text("Fill in both fields, then press Enter.")
    page.fill("#own-support textarea, #own-support input", "Find praise of")
    page.keyboard.press("Enter")
    expect(said).to_have_text("Fill in both fields, then press Enter.")
    page.fill("#own-attack textarea, #own-attack input", "Find doubts about")
    page.keyboard.press("Enter")
    page.locator("#stance-results .sl-asked", has_text="Find doubts about").wait_for()
    hits = engine.dial.released.search(claim, "support", k=6, instruction="Find praise of")
    assert shown(page)[:6] == [h.id for h in hits]


def test_the_address_is_that_of_the_results_in_sight(visit, engine):
    page = visit()
    page.wait_for_url("**view=stance**")
    page.get_by_role("tab", name="Oblique").click()
    page.wait_for_url("**view=oblique**")
    page.get_by_role("tab", name="Stance").click()
    page.wait_for_url("**view=stance**")
    page.fill("#claim textarea, #claim input", "tea " * 600)
    page.keyboard.press("Enter")
    page.locator("#stance-results .sl-remark", has_text="too long for a link").wait_for()
    page.wait_for_url(lambda url: "?" not in url)


def test_a_card_opens_why_and_its_buttons_have_names_of_their_own(visit):
    page = visit("?view=stance&claim=Zoos+do+little+to+protect+endangered+species.&weight=0.3&style=explicit")
    assert page.locator("#weight").is_visible(), "what a link has set is in sight"
    took(page, "λ = 0.30 · only explicit")
    for side in ("support", "attack"):
        assert page.get_by_role("button", name=f"Why rank 1 in {side}?").count() == 1
    card = page.get_by_role("region", name="Attack").locator(".sl-hit").nth(1)
    rank, badge = card.locator(".sl-rank").inner_text(), card.locator(".sl-badge").inner_text()
    card.locator(".sl-text").click()
    head = page.locator("#why .sl-head")
    head.wait_for()
    assert head.locator(".sl-rank").inner_text() == rank and head.locator(".sl-badge").inner_text() == badge
    assert "Attack" in head.inner_text()
    assert page.locator("#why blockquote").inner_text() == card.locator(".sl-text").inner_text()


def test_a_change_is_searched_and_its_link_opens_the_same_page(visit, engine):
    page = opened(visit())
    page.locator("#weight input[type=number]").fill("0.5")
    page.keyboard.press("Enter")
    took(page, "λ = 0.50")
    page.get_by_role("radio", name="Base").check()
    page.wait_for_url("**model=base**")
    claim = engine.dial.corpus.claims[5]
    page.fill("#claim textarea, #claim input", claim)
    page.press("#claim textarea, #claim input", "Enter")
    page.wait_for_url(lambda url: f"claim={quote(claim[:9], safe='')}".replace("%20", "+") in url)
    before, link = shown(page), page.url
    assert before[:6] == [h.id for h in engine.dial.base.search(claim, "support", k=6, hybrid=0.5)]
    again = visit(link[link.index("?") :])
    assert shown(again) == before
    expect(again.locator("#claim").get_by_role("textbox")).to_have_value(claim)
    with again.expect_download() as download:
        again.get_by_role("link", name="JSON").first.click()
    rows = json.loads(download.value.path().read_text(encoding="utf-8"))
    assert [r["id"] for r in rows] == before


def test_uploads_and_addresses_that_are_html_stay_text(visit):
    page = visit(
        f"?view=stance&claim={quote(HOSTILE)}&instruction=own&own_support={quote(HOSTILE)}&own_attack=x+{quote(HOSTILE)}"
    )
    assert page.get_by_text(HOSTILE).first.is_visible()
    page.get_by_role("tab", name="Your corpus").click()
    page.set_input_files("#upload input[type=file]", str(CASE_26))
    page.locator("#upload-said", has_text="4 documents are indexed").wait_for()
    page.get_by_role("tab", name="Stance").click()
    page.locator("#stance-results", has_text="javascript:alert(1)").wait_for()
    texts = page.locator("#stance-results .sl-text").all_inner_texts()
    assert HOSTILE in texts and "</mark><script>alert(1)</script>" in texts
    page.locator("#stance-results .sl-why", has_text="Why?").first.click()
    page.wait_for_selector("#why blockquote")
    for view in ("#stance-results", "#why"):
        assert page.locator(f"{view} img, {view} script, {view} [onerror], {view} a[href^=javascript]").count() == 0


def test_a_keyboard_may_pass_the_list_of_claims_and_keep_its_own(visit, engine):
    page = visit("?view=stance&claim=Tea+warms.")
    page.locator("#pick input").focus()
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Tab")
    expect(page.get_by_role("option")).to_have_count(0)  # it closes behind the keyboard
    page.locator("#search").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#claim").get_by_role("textbox")).to_have_value("Tea warms.")
    page.locator("#stance-results .sl-text").first.wait_for()  # the search is through, and redraws nothing any more
    page.locator("#pick input").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("option").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "claim=Tea" not in url)
    assert page.locator("#claim").get_by_role("textbox").input_value() in engine.dial.corpus.claims


def test_the_list_shows_the_first_claim_and_passing_it_leaves_what_is_typed(visit, engine):
    page = visit()
    expect(page.locator("#pick input")).to_have_value(engine.dial.corpus.claims[0])
    page.fill("#claim textarea, #claim input", "Tea warms.")
    page.locator("#pick input").focus()
    page.keyboard.press("Tab")
    page.locator("#search").click()
    page.wait_for_url("**claim=Tea+warms.**")
    expect(page.locator("#claim").get_by_role("textbox")).to_have_value("Tea warms.")
    page.locator("#pick input").click()
    page.get_by_role("option").first.click()
    page.wait_for_url(lambda url: "Tea+warms" not in url)
    expect(page.locator("#claim").get_by_role("textbox")).to_have_value(engine.dial.corpus.claims[0])


def test_a_file_brings_its_own_filters_another_one_replaces_it_and_nothing_stays(visit, engine, tmp_path):
    page, other = visit(), visit()
    for name, source in (("one.csv", "diary"), ("two.csv", "letters")):
        rows = f'text,source,style\r\n"A ""quoted"",\nfirst in {name}.",{source},old\r\nA second.,post,\r\n'
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + rows.encode())
        page.get_by_role("tab", name="Your corpus").click()
        page.set_input_files("#upload input[type=file]", str(tmp_path / name))
        page.locator("#upload-said", has_text=f"2 documents are indexed. Both searches now look in {name}").wait_for()
        page.get_by_role("tab", name="Stance").click()
        page.locator("#stance-results .sl-text", has_text=f"first in {name}.").first.wait_for()
    chips, choice = page.locator(".sl-chips"), page.locator("#search-in")
    expect(chips).to_contain_text("two.csv: 2 documents")
    choice.get_by_role("radio", name="Sample").check()
    expect(chips).to_contain_text("Sample: 480 documents")
    choice.get_by_role("radio", name="two.csv").check()
    page.locator("#stance-results .sl-text", has_text="first in two.csv.").first.wait_for()
    opened(page).locator("#source input").click()
    assert [o.strip("✓ \n") for o in page.get_by_role("option").all_inner_texts()] == ["All", "letters", "post"]
    page.get_by_role("option", name="letters").click()
    page.wait_for_function("document.querySelectorAll('#stance-results .sl-hit').length === 2")  # one on each side
    assert other.locator("#search-in").count() == 0 or not other.locator("#search-in").is_visible()
    other.locator("#search").click()
    assert set(shown(other)) <= set(engine.dial.corpus.documents), "another visitor sees nothing of it"
    held = [p for p in Path(os.environ["GRADIO_TEMP_DIR"]).rglob("*") if p.is_file() and p.suffix == ".csv"]
    assert not held


def test_a_visitor_without_a_claim_and_one_with_a_bad_file_read_what_to_do(visit, tmp_path):
    page = visit("?view=stance")
    assert "Type or pick a claim first" in page.inner_text("#stance-results")
    faulty = tmp_path / "bad.csv"
    faulty.write_text("words\nx\n")
    page.get_by_role("tab", name="Your corpus").click()
    page.set_input_files("#upload input[type=file]", str(faulty))
    page.locator("#upload-said", has_text="wanted one called `text`").wait_for()


def test_beyond_the_queue_a_visitor_reads_that_it_is_busy(visit, space, monkeypatch):
    page = visit()
    monkeypatch.setattr(space._queue, "max_size", 0)
    page.get_by_role("button", name="Search").first.click()
    page.get_by_text("currently busy. Please try again.").first.wait_for()
