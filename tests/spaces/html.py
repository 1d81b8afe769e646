"""What tests read off the pages that the Space draws."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any


class Elements(HTMLParser):
    """The tags and the text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.text = "".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def component(page: Any, elem_id: str) -> Any:
    """A part of the page."""
    return next(block for block in page.blocks.values() if getattr(block, "elem_id", None) == elem_id)


def texts_of(css: str, page: str) -> list[str]:
    """What stands in the elements of a class, one after the other; none may hold another of its kind."""
    found = re.findall(rf'<(\w+) class="{css}"[^>]*>(.*?)</\1>', page)
    return [Elements(inner).text for _, inner in found]
