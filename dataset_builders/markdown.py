"""Cards are Markdown made from templates: the templates, and how a text from outside is put into one.

The templates of all cards stand in ``model_cards/``; the wheel packs them inside this package, which both packages may
import.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import jinja2

# In a checkout they stand at the top, in a wheel beside this file.
_HERE = Path(__file__).resolve().parent
_TEMPLATES = (_HERE / "model_cards", _HERE.parent / "model_cards")

_OF_MARKDOWN = re.compile(r"[\\`*\[\]<>&|~$]|(?<!\w)_|_(?!\w)")
_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_REQUIRED = {"misuse": r"^## .*\bmisuse\b", "the licence chain": r"^## .*\blicences?\b"}


def template(name: str) -> jinja2.Template:
    """A card template with the filters ``cell`` (a text in Markdown) and ``literal`` (a text in Python)."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # the output is Markdown: `cell` escapes for that
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters.update(cell=cell, literal=literal)
    return environment.get_template(name)


def cell(text: object) -> str:
    """``text`` for one cell of a Markdown table: it reads as it was, and no character of it is markup.

    Character references are never structure in Markdown and never tags in HTML, so pipes, fences, brackets and angle
    brackets are written as such, and line ends as ``<br>``.
    """
    escaped = _OF_MARKDOWN.sub(lambda m: f"&#{ord(m[0])};", str(text))
    return _LINE_END.sub("<br>", escaped)


def literal(text: str) -> str:
    """``text`` as a Python literal on one line, in double quotes."""
    dumped = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in dumped)


def check_sections(card: str) -> None:
    """Refuse a card without its sections on misuse and on the licence chain: nothing is published without them.

    Raises:
        ValueError: Naming what is missing.
    """
    missing = [
        name for name, heading in _REQUIRED.items() if not re.search(heading, card, re.MULTILINE | re.IGNORECASE)
    ]
    if missing:
        raise ValueError(
            f"the card has no section on {' and none on '.join(missing)}; restore it (a second-level heading): "
            "nothing was pushed"
        )
