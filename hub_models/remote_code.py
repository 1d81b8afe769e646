"""Bases that bring code of their own: it runs only where somebody says so by the base's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING


class UnnamedCodeError(ValueError):
    """A base brings code, and nobody named it."""


def allowed(base: str, config: Path | None, named: str | None) -> bool:
    """Whether loading ``base`` runs code from its repository, which is then what the user wants.

    Args:
        base: Hub id or folder.
        config: Its ``config.json``, if it has one.
        named: The base whose code may run, as the user says.

    Raises:
        UnnamedCodeError: If the base cannot be loaded without its code and ``named`` is another name or none, or if
            the code would come from a third repository.
    """
    classes = _classes(config)
    if "AutoModel" not in classes:
        return False
    if named != base:
        if _content(config).get("model_type") in CONFIG_MAPPING:
            return False  # transformers has a class of its own for it
        raise UnnamedCodeError(
            f"base {base}: it brings code of its own ({classes['AutoModel']}), which would run with all your rights, "
            f"got trust_remote_code {named!r}; read the code in its repository, then say trust_remote_code={base}"
        )
    if elsewhere := sorted(name for name in classes.values() if "--" in name):
        raise UnnamedCodeError(
            f"base {base}: its code is that of another repository ({elsewhere[0].split('--')[0]}), which the name "
            f"{base} does not stand for; use a copy of the base that holds its code"
        )
    return True


def _classes(config: Path | None) -> dict[str, str]:
    found = _content(config).get("auto_map") or {}
    return {key: name for key, name in found.items() if isinstance(name, str)}


def _content(config: Path | None) -> dict[str, Any]:
    if config is None:
        return {}
    content: dict[str, Any] = json.loads(config.read_bytes())
    return content
