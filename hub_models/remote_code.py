"""Bases that bring code of their own: it runs only where somebody says so by the base's name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from dataset_builders.description import read_description


class UnnamedCodeError(ValueError):
    """A base brings code, and nobody named it or its commit."""


def allowed(base: str, config: Path | None, named: str | None) -> bool:
    """Whether loading ``base`` runs code from its repository, which is then what the user wants.

    Args:
        base: Hub id or folder.
        config: Its ``config.json``, if it has one.
        named: The base whose code may run, as the user says.

    Raises:
        UnnamedCodeError: If the base cannot be loaded without its code and ``named`` is another name or none, or if
            the code would come from a third repository.
        ValueError: If ``config`` is too large or no JSON object, or its ``auto_map`` is none.
    """
    classes = _auto_map(config)
    if "AutoModel" not in classes:
        return False
    if named != base:
        if _content(config).get("model_type") in CONFIG_MAPPING:
            return False  # transformers has a class of its own for it
        raise UnnamedCodeError(
            f"base {base}: it brings code of its own ({', '.join(_names(classes['AutoModel']))}), which would run "
            f"with all your rights, got trust_remote_code {named!r}; read the code in its repository, then say "
            f"trust_remote_code={base}"
        )
    check_own(base, config)
    return True


def check_own(base: str, file: Path | None) -> None:
    """Refuse code that ``base`` takes from a third repository.

    Args:
        base: Hub id or folder.
        file: Its ``config.json`` or ``tokenizer_config.json``, if it has one.

    Raises:
        UnnamedCodeError: If a class of the file's ``auto_map`` is another repository's.
        ValueError: If the file is too large or no JSON object, or its ``auto_map`` is none.
    """
    names = [name for entry in _auto_map(file).values() for name in _names(entry)]
    if elsewhere := sorted(name for name in names if "--" in name):
        raise UnnamedCodeError(
            f"base {base}: its code is that of another repository ({elsewhere[0].split('--')[0]}), which the name "
            f"{base} does not stand for; use a copy of the base that holds its code"
        )


def check_pinned(model: str, revision: str | None) -> None:
    """Refuse a model's own code at a commit that nobody named: what runs is then what was read.

    Args:
        model: Hub id or folder; a folder needs no commit.
        revision: As the user says.

    Raises:
        UnnamedCodeError: If ``model`` is a Hub id and ``revision`` no commit.
    """
    if not Path(model).is_dir() and not re.fullmatch(r"[0-9a-f]{40}", revision or ""):
        raise UnnamedCodeError(
            f"model {model}: got revision {revision!r} beside trust_remote_code, wanted the commit whose code you "
            "have read, 40 hexadecimal digits (a branch may hold other code tomorrow), or a folder with that commit"
        )


def _auto_map(file: Path | None) -> dict[str, Any]:
    found = _content(file).get("auto_map") or {}
    if not isinstance(found, dict):
        raise ValueError(f"{file}: got {type(found).__name__} as auto_map, wanted an object; get the file anew")
    return found


def _names(entry: object) -> list[str]:
    """The classes of an entry: one, or those of a slow and of a fast tokenizer, null where there is none."""
    return [name for name in (entry if isinstance(entry, list) else [entry]) if isinstance(name, str)]


def _content(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    text = read_description(file)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: it is no JSON ({error}); get the file anew") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file}: got {type(content).__name__}, wanted a JSON object; get the file anew")
    return content
