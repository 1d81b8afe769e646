"""Printing to terminals that lack a character."""

from __future__ import annotations

import io
import sys


def print_any_text() -> None:
    """Show ``?`` for a character that the terminal lacks: no result is lost for a rule that cannot be drawn.

    Without UTF-8 it lacks many; and nothing can show the bytes of a file name that are no text.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
