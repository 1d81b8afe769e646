"""Draw the README's pictures of the Space, as it opens here: `make screenshots`."""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from PIL import Image
from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "spaces" / "stance_and_oblique_search"))
CLAIM = "?view=stance&claim=Zoos+do+little+to+protect+endangered+species."
OBLIQUE = "?view=oblique&task=congress&k=3&query="
RECOLLECTION = "someone at a hearing who was asked a simple question and never gave an answer"
LETTERS = """text,source
Since the night bus stopped I walk home along the main road in the dark.,reader
The last bus carried two people on most evenings. That money would mend the school roof.,council
My daughter gave up her late shift at the hospital when the line was cut.,reader
A taxi shared by three costs less than the empty bus did.,editor
Pubs and the cinema lost a third of their guests in one winter.,trade
Nobody on our street could sleep when it turned below our windows at one.,reader
"""
"""A visitor's own file, made up for the picture."""


def main() -> None:
    """Serve the Space, visit it, and write five pictures beside this file."""
    from slant_space.engine import Engine
    from slant_space.interface import build, serve
    from slant_space.settings import read_settings

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium on the PATH; install it, or name it in CHROMIUM")
    demo = build(Engine(read_settings(os.environ)))
    serve(demo, prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 980})
        _open(page, demo.local_url + CLAIM)
        _save(page, "space-stance.png")
        page.locator("#stance-results .sl-why").nth(2).click()
        page.wait_for_selector("#why button.sl-word")
        page.wait_for_timeout(500)
        _save(page.locator("#why"), "space-why.png")
        _open(page, demo.local_url + OBLIQUE + quote_plus(RECOLLECTION), "#oblique-results")
        _save(page, "space-oblique.png")
        _open(page, demo.local_url + "?view=stance&claim=The+night+bus+should+run+again.")
        page.get_by_role("tab", name="Your corpus").click()
        letters = {"name": "letters.csv", "mimeType": "text/csv", "buffer": LETTERS.encode()}
        page.set_input_files("#upload input[type=file]", letters)
        page.locator("#upload-said", has_text="6 documents are indexed").wait_for()
        page.get_by_role("tab", name="Stance").click()
        page.locator("#stance-results .sl-text", has_text="cinema").first.wait_for()
        page.wait_for_timeout(1000)
        _save(page, "space-corpus.png")
        phone = browser.new_page(viewport={"width": 390, "height": 980})
        _open(phone, demo.local_url + CLAIM + "&__theme=dark")
        phone.evaluate("document.querySelector('#stance-results').scrollIntoView()")
        phone.wait_for_timeout(500)
        _save(phone, "space-phone.png")
        browser.close()
    demo.close()


def _open(page: Page, address: str, results: str = "#stance-results") -> None:
    page.set_default_timeout(300_000)  # an oblique task is encoded when it is first asked
    page.goto(address, wait_until="domcontentloaded")
    page.wait_for_selector(f"{results} .sl-hit")
    page.wait_for_timeout(1000)  # the last fade


def _save(what: Any, name: str) -> None:
    """Few colours are enough for a page, and make a small file."""
    picture = Image.open(io.BytesIO(what.screenshot())).convert("RGB")
    picture.quantize(96).save(HERE / name, optimize=True)


if __name__ == "__main__":
    main()
