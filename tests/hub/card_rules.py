"""What the Hub's validator says of a card's metadata, as far as the tests need it."""

from __future__ import annotations

import re
from typing import Any

import yaml

COLOURS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")
SDKS = ("gradio", "docker", "static")
LISTS = ("tags", "datasets", "task_categories", "task_ids", "size_categories", "models", "configs")


def problems(text: str, kind: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Errors and warnings, each as ``{"message": ...}``.

    Args:
        text: the whole README.md.
        kind: "model", "dataset" or "space".
    """
    found = re.match(r"---[^\S\n]*\n(.*?)^---[^\S\n]*$", text.replace("\r\n", "\n"), re.DOTALL | re.MULTILINE)
    if not found or not found[1].strip():
        warning = "empty or missing yaml metadata in repo card"
        return (_messages(['"sdk" is required']) if kind == "space" else []), _messages([warning])
    try:
        card = yaml.safe_load(found[1])
    except yaml.YAMLError as error:
        return _messages([f"YAML cannot be read: {error}"]), []
    if not isinstance(card, dict):
        return _messages(["YAML must be an object"]), []
    errors = [*_shared(card), *(_space(card) if kind == "space" else _configs(card) if kind == "dataset" else [])]
    warnings = [] if "license" in card or kind == "space" else ['"license" is missing']
    return _messages(errors), _messages(warnings if kind == "dataset" else [])


def _messages(texts: list[str]) -> list[dict[str, str]]:
    return [{"message": text} for text in texts]


def _shared(card: dict[str, Any]) -> list[str]:
    errors = [f'"{name}" must be an array' for name in LISTS if card.get(name) and not isinstance(card[name], list)]
    licences = card.get("license")
    for licence in licences if isinstance(licences, list) else [licences]:
        if licence is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", str(licence)):
            errors.append(f'"license" must be one of the known identifiers, not {licence!r}')
    index = card.get("model-index")
    if index is not None and not (isinstance(index, list) and all("name" in m and "results" in m for m in index)):
        errors.append('"model-index" must be an array of objects with "name" and "results"')
    return errors


def _configs(card: dict[str, Any]) -> list[str]:
    configs = card.get("configs") or []
    names = [config.get("config_name") for config in configs if isinstance(config, dict)]
    errors = [] if len(names) == len(configs) and all(names) else ['each of "configs" needs a "config_name"']
    if len(set(names)) < len(names):
        errors.append('"config_name" must be unique')
    if sum(bool(config.get("default")) for config in configs if isinstance(config, dict)) > 1:
        errors.append('only one of "configs" may be the default')
    return errors


def _space(card: dict[str, Any]) -> list[str]:
    errors = [] if card.get("sdk") in SDKS else [f'"sdk" must be one of {", ".join(SDKS)}']
    for name in ("colorFrom", "colorTo"):
        if name in card and card[name] not in COLOURS:
            errors.append(f'"{name}" must be one of {", ".join(COLOURS)}')
    if len(str(card.get("short_description", ""))) > 60:
        errors.append('"short_description" length must be less than or equal to 60 characters long')
    return errors
