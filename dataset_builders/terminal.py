"""What commands print: to terminals that lack a character, and of what is wrong."""

from __future__ import annotations

import io
import sys

import typer


def print_any_text() -> None:
    """Show ``?`` for a character that the terminal lacks: no result is lost for a rule that cannot be drawn.

    Without UTF-8 it lacks many; and nothing can show the bytes of a file name that are no text.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def told(error: Exception | str) -> typer.Exit:
    """Print what was wrong or went wrong in one line; raised, what this returns ends the command with 1."""
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(1)
