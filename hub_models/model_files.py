"""What lies in a model's folder or Hub repository, and what its files say before anything is loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, HFValidationError, RepositoryNotFoundError
from safetensors import SafetensorError

from dataset_builders.description import read_description
from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE
from dataset_builders.text import did_you_mean
from hub_models import remote_code
from hub_models.manifest import ADAPTER_NAME, FILE_NAME
from hub_models.recipe import Recipe, load_recipe, recipe_names

ADAPTER_CONFIG = "adapter_config.json"
# Without its own tokenizer an adapter would be loaded with the base's, which lacks what training has set.
_OF_AN_ADAPTER = (ADAPTER_CONFIG, ADAPTER_NAME, "modules.json", "tokenizer.json", "tokenizer_config.json")


def find(source: str, filename: str, revision: str | None = None) -> Path | None:
    """A file of a model's folder or Hub repository, or null if it is not there (offline: not in the cache).

    Raises:
        FileNotFoundError: If there is no such repository.
    """
    if Path(source).is_dir():
        path = Path(source) / filename
        return path if path.is_file() else None
    try:
        return Path(hf_hub_download(source, filename, revision=revision))
    except EntryNotFoundError:
        return None
    except GatedRepoError:
        raise  # there is such a model, and the Hub's own words say how to get at it
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise FileNotFoundError(no_such_model(source, revision)) from error


def missing_files(folder: Path) -> list[str]:
    """Which of the files that an adapter's folder needs are not there."""
    return [name for name in _OF_AN_ADAPTER if not (folder / name).is_file()]


@contextmanager
def loading(source: str) -> Iterator[None]:
    """Say in our words what a library finds wrong with a model: damage, or code of its own.

    Raises:
        ValueError: If the weights are damaged, or the model's repository brings code, which is never run.
    """
    try:
        yield
    except ValueError as error:
        if isinstance(error, remote_code.UnnamedCodeError) or "trust_remote_code" not in str(error):
            raise
        raise ValueError(
            f"model {source}: it brings code of its own, which is not run here; wanted a model of a class that the "
            "libraries know. If you trust that code, load the model yourself, with trust_remote_code=True"
        ) from None
    except SafetensorError as error:
        raise ValueError(
            f"model {source}: its weights or its base's are cut off or damaged ({error}); restore them or train again"
        ) from None


def runs_own_code(base: str, revision: str | None, named: str | None) -> bool:
    """`remote_code.allowed` for a model's folder or Hub repository, its tokenizer's code included.

    Raises:
        FileNotFoundError, ValueError: As `find` and `remote_code.allowed` do.
    """
    if not remote_code.allowed(base, find(base, "config.json", revision), named):
        return False
    remote_code.check_own(base, find(base, "tokenizer_config.json", revision))
    return True


def no_such_model(source: str, revision: str | None) -> str:
    """What to say where neither a folder nor the Hub has a model."""
    if Path(source).is_dir():
        return (
            f"model {source!r}: the folder has neither modules.json nor config.json, wanted the folder of a trained "
            "model or a Hub id such as 'organisation/name'"
        )
    parent = Path(source).parent
    near = did_you_mean(Path(source).name, [p.name for p in parent.iterdir() if p.is_dir()]) if parent.is_dir() else ""
    wanted = f"{source!r} at {revision}" if revision else repr(source)
    return (
        f"model {wanted}: there is no such folder, and neither the Hub nor its local cache gives such a model"
        f"{offline_said()}.{near} Wanted the folder of a trained model or a Hub id such as 'organisation/name'."
    )


def offline_said() -> str:
    """Why the Hub may not have been asked; nothing if it was."""
    return " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""


def slant_json(path_or_id: str | Path, *, revision: str | None = None) -> dict[str, Any]:
    """What stands in a model's ``slant.json``; nothing, where it has none."""
    path = find(str(path_or_id), FILE_NAME, revision)
    return {} if path is None else read_json(path)


def read_json(path: Path) -> dict[str, Any]:
    """The keys and values of a model's file.

    Raises:
        ValueError: If it is too large, or no JSON object.
    """
    text = read_description(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON ({error}); restore it or train again") from None
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: got {type(content).__name__}, wanted an object with keys; restore it or train again"
        )
    return content


def commit_of(repo_id: str, revision: str | None) -> str | None:
    """The commit in the Hub cache that ``revision`` (null: ``main``) stands for; null for a folder."""
    if Path(repo_id).is_dir():
        return None
    paths = [try_to_load_from_cache(repo_id, name, revision=revision) for name in ("modules.json", "config.json")]
    return next((Path(path).parent.name for path in paths if isinstance(path, str)), None)


def query_template_of(path_or_id: str | Path, *, revision: str | None = None) -> str:
    """The template that formats a model's queries: its release's own, else the one of the recipe that comes with the
    package for it or for the base that it adapts, else the default."""
    template = slant_json(path_or_id, revision=revision).get("query_template")
    if template:
        return str(template)
    recipe = _recipe_of(path_or_id, revision)
    return recipe.query_template if recipe else DEFAULT_QUERY_TEMPLATE


def max_query_length_of(path_or_id: str | Path, *, revision: str | None = None) -> int | None:
    """After how many tokens a model's oblique queries are cut, where that is earlier than other texts: as its release
    says, or else the recipe that comes with the package for it or for the base that it adapts."""
    stored = slant_json(path_or_id, revision=revision)
    if stored:
        return stored.get("max_query_length")
    recipe = _recipe_of(path_or_id, revision)
    return recipe.max_query_length if recipe else None


def _recipe_of(path_or_id: str | Path, revision: str | None) -> Recipe | None:
    """The package's recipe with this base. Who trained an adapter elsewhere told its base alone."""
    config = find(str(path_or_id), ADAPTER_CONFIG, revision)
    base = read_json(config).get("base_model_name_or_path") if config else str(path_or_id)
    return next((r for r in map(load_recipe, recipe_names()) if r.base == base), None)
