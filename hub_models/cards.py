"""The model card of a run: metadata, results, prompts, recipe, licences, snippets, all from files and never by hand.

A card's numbers come from one results file. What a person writes before or after the generated part, and every
metadata key that is not ours, stay as they are; writing a card twice changes no byte.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import ModelCardData, constants

from dataset_builders.atomic import write_text
from dataset_builders.description import read_description
from dataset_builders.folder import read_card
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, UNSEEN, query_prefix
from dataset_builders.leaks import home_folder
from dataset_builders.markdown import cell as cell  # for those who write a cell of their own
from dataset_builders.markdown import literal, template
from dataset_builders.sources.hub import REPO_ID
from hub_models.card_results import (
    COST_COLUMNS,
    OBLIQUE_COLUMNS,
    cost_rows,
    evaluation_results,
    oblique_table,
    task_table,
)
from hub_models.evaluation.report import COLUMNS
from hub_models.evaluation.results import Results, TaskResult
from hub_models.manifest import ADAPTER_NAME, Manifest, check_adapter, is_machine_path
from hub_models.recipe import Recipe, load_recipe
from hub_models.requirements import REQUIREMENTS

CARD_NAME = "README.md"
RECIPE_NAME = "recipe.yaml"
RESULTS_PATH = Path("evaluation") / "results.json"

BEGIN = "<!-- slant: generated from here on; write above or below, not between -->"
END = "<!-- slant: generated up to here -->"

# Licences whose terms the base's own licence can stand for. Any other one binds the adapter too.
PERMISSIVE = frozenset(
    {"apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-3.0", "cc-by-4.0", "cdla-permissive-2.0"}
)

_TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction", "lora")
_FAMILY_TAGS = {"stance": ("stance", "argument-retrieval"), "oblique": ("oblique-retrieval",)}

# By the end of a figure's name.
_ALT = {
    "-composition": "Share of right documents and of each error among the first R",
    "-top5": "One claim, the first five documents of base and adapter",
    "-ablation-sensitivity": "Word ablation: relative sensitivity to instruction and claim",
    "-ablation-direction": "Word ablation: what deleting the stance word does to right arguments and hard negatives",
    "-ablation-heatmap": "Word ablation: one query, word by word, against each argument on its claim",
}

_HUB_ID = re.compile(rf"{REPO_ID}|[\w.-]+")  # the oldest models have no organisation


def write_card(run_dir: Path | str, results_path: Path | str | None = None) -> Path:
    """Write or renew ``run_dir/README.md``, and note in ``slant.json`` which results file its numbers come from.

    Args:
        run_dir: A run folder of ``train.py`` with ``slant.json`` and ``recipe.yaml``.
        results_path: The results file; by default ``run_dir/evaluation/results.json`` where it exists. Without one the
            card says "not measured yet".

    Returns:
        The card's path.

    Raises:
        FileNotFoundError: If the run folder lacks a file, or ``results_path`` does not exist.
        ValueError: If the adapter is not the one that ``slant.json`` names, the results are of another adapter, a
            number is not finite, the card's metadata cannot be read, or the card would hold a path of this machine.
    """
    run_dir = Path(run_dir)
    manifest = Manifest.read(run_dir)
    if (run_dir / ADAPTER_NAME).is_file():
        check_adapter(run_dir, manifest.adapter_sha256)
    recipe = _read_recipe(run_dir / RECIPE_NAME)
    if results_path is None and (run_dir / RESULTS_PATH).exists():
        results_path = run_dir / RESULTS_PATH
    results, digest = None, None
    if results_path is not None:
        results = _read_results(Path(results_path), manifest)
        digest = hashlib.sha256(Path(results_path).read_bytes()).hexdigest()

    path = run_dir / CARD_NAME
    old = read_description(path) if path.exists() else ""
    drawn = [] if results is None else _inside(run_dir, figures(run_dir, results_path))
    block = _render(manifest, recipe, results, drawn)
    head, body = _metadata(old, manifest, results, path), body_with(old, block, path)
    _refuse_machine_paths(head, body, run_dir)
    write_text(path, head + body)
    manifest.model_copy(update={"results_sha256": digest}).write(run_dir)
    return path


def search_snippet(run_dir: Path | str) -> str:
    """A shell command that searches with the adapter of ``run_dir`` and runs as printed, in any shell, offline."""
    at_home = Path(constants.HF_HUB_CACHE) == Path(constants.HF_HOME) / "hub"
    cache = f"HF_HOME={_quoted(constants.HF_HOME)}" if at_home else f"HF_HUB_CACHE={_quoted(constants.HF_HUB_CACHE)}"
    return f"""\
{cache} HF_HUB_OFFLINE=1 {_quoted(sys.executable)} - <<'PY'
from hub_models import StanceSearch
texts = ["Deliveries and ambulances need the streets.", "Air gets cleaner at once.", "Cheese is made of milk."]
search = StanceSearch({literal(os.path.abspath(run_dir))}, texts)
for hit in search.search("Cities should ban cars from their centers.", stance="attack", k=2):
    print(f"{{hit.score:.3f}}  {{hit.text}}")
PY"""


def _quoted(path: str) -> str:
    return shlex.quote(os.path.abspath(path))  # and not resolved: a resolved interpreter is outside its environment


def release_licence(manifest: Manifest) -> str:
    """The licence of the adapter: the base's while all data are permissive, else the one that binds most.

    ``unknown`` where a link of the chain is unknown, ``other`` where several restrictive licences meet.
    """
    links = [manifest.base_licence or "unknown", *(d.licence for d in manifest.data)]
    chain = {licence for link in links for licence in link.split(" and ")}
    binding = chain - PERMISSIVE
    if "unknown" in chain:
        return "unknown"
    if len(binding) > 1:
        return "other"
    return next(iter(binding), manifest.base_licence or "unknown")


def _read_recipe(path: Path) -> Recipe:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: a run folder holds the resolved recipe; train again")
    return load_recipe(path)


def _recipe_rows(recipe: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """The recipe's settings, dotted. Base, template and data are told elsewhere, and data may name a folder."""
    told_elsewhere = {"name", "base", "base_revision", "architecture", "query_template", "data"}
    for key, value in recipe.items():
        if not prefix and key in told_elsewhere:
            continue
        if isinstance(value, dict):
            yield from _recipe_rows(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def _read_results(path: Path, manifest: Manifest) -> Results:
    results = Results.read(path)
    if results.model.adapter_sha256 != manifest.adapter_sha256:
        raise ValueError(
            f"{path}: got results of adapter {results.model.adapter_sha256}, wanted {manifest.adapter_sha256} "
            f"({manifest.name}); evaluate this run with `python evaluate.py --model {path.parent.parent} --tasks …`"
        )
    return results


def figures(run_dir: Path | str, results_path: Path | str | None = None) -> list[Path]:
    """The figures beside the results file, the composition first; none where nothing was measured."""
    folder = Path(results_path or Path(run_dir) / RESULTS_PATH).parent
    return sorted(folder.glob("figures/*.png"), key=lambda path: ("composition" not in path.name, path.name))


def _inside(run_dir: Path, paths: Iterable[Path]) -> list[str]:
    """Those of ``paths`` that lie in the run folder, relative to it: a release carries no other."""
    root = run_dir.resolve()
    return [p.resolve().relative_to(root).as_posix() for p in paths if p.resolve().is_relative_to(root)]


def _render(manifest: Manifest, recipe: Recipe, results: Results | None, drawn: list[str]) -> str:
    is_oblique = manifest.family == "oblique"
    table_of: Callable[[str, TaskResult], Any] = oblique_table if is_oblique else task_table
    tables = [table_of(name, task) for name, task in results.tasks.items()] if results else []
    example = next(i for i in UNSEEN if i.stance == "attack").text
    return template("oblique_model.md.j2" if is_oblique else "model.md.j2").render(
        m=manifest,
        base_is_public=_is_public(manifest),
        # Until the release has a Hub id, a snippet is run inside the folder: true wherever the folder goes.
        model_id=manifest.repo_id or ".",
        recipe=list(_recipe_rows(recipe.model_dump(mode="json"))),
        # The positives of the other rows, and the negatives of all rows.
        negatives=recipe.global_batch * (1 + recipe.negatives_per_anchor) - 1,
        tables=[table for table in tables if table is not None],
        columns=OBLIQUE_COLUMNS if is_oblique else COLUMNS,
        tasks=list(OBLIQUE_INSTRUCTIONS),
        revision=f', revision="{manifest.tag}"' if manifest.repo_id and manifest.tag else "",
        cost=[row for row in cost_rows(results) if not is_oblique or row.label.startswith("NanoBEIR")],
        cost_columns=COST_COLUMNS,
        figures=[(path, _alt(path)) for path in drawn],
        licence=release_licence(manifest),
        example=example,
        prefix=query_prefix(manifest.query_template, example),
        requirements=REQUIREMENTS,
    )


def _alt(path: str) -> str:
    stem = Path(path).stem
    return next((alt for end, alt in _ALT.items() if stem.endswith(end)), stem)


def _metadata(old: str, manifest: Manifest, results: Results | None, path: Path) -> str:
    """The YAML head: ours over what stands there, but licence and language only where nobody chose them."""
    kept, _ = read_card(old, str(path))
    ours: dict[str, Any] = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": list(dict.fromkeys([*_tags(kept, path), *_TAGS, *_FAMILY_TAGS[manifest.family]])),
    }
    if _is_public(manifest):
        ours |= {"base_model": manifest.base, "base_model_relation": "adapter"}
    if datasets := [d.name for d in manifest.data if _is_dataset_id(d.name, manifest)]:
        ours["datasets"] = list(dict.fromkeys(datasets))
    if kept.get("license") == "unknown":  # written while the base had none; nobody chose that
        kept.pop("license")
    chosen = {"language": "en", "license": release_licence(manifest)}
    if chosen["license"] == "other":
        chosen["license_name"] = "several-see-card"
    kept.pop("model-index", None)
    merged = {**chosen, **kept, **ours}
    try:
        data = ModelCardData(**merged)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: its metadata are none of a model card ({error}); repair or remove the head"
        ) from None
    if results is not None and (
        entries := evaluation_results(results, OBLIQUE_COLUMNS if manifest.family == "oblique" else COLUMNS)
    ):
        data.model_name, data.eval_results = manifest.name, entries
    return f"---\n{data.to_yaml(original_order=[*kept, *chosen, *ours])}\n---\n"


def _tags(head: dict[str, Any], path: Path) -> list[str]:
    tags = head.get("tags") or []
    tags = [tags] if isinstance(tags, str) else tags
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(
            f"{path}: got tags {tags!r} in its metadata, wanted a list of texts; repair or remove the head"
        )
    return tags


def _is_dataset_id(name: str, manifest: Manifest) -> bool:
    """Whether ``name`` is a Hub id or, before the release, one of our own repository names; no file or folder of a
    user."""
    if manifest.repo_id is not None and "/" not in name:
        return False
    return re.fullmatch(rf"{REPO_ID}|[a-z0-9-]+-(?:stance|obliq)-[a-z-]+", name) is not None


def body_with(old: str, block: str, path: Path) -> str:
    """The text after the head: ``block`` in the place of the old generated part, or after what a person wrote.

    Raises:
        ValueError: If the comments around the generated part are not there once each, in order; ``path`` names the
            card.
    """
    _, text = read_card(old, str(path))
    generated = f"{BEGIN}\n\n{block.strip()}\n\n{END}"
    if BEGIN not in text and END not in text:
        written = text.strip("\r\n")
        return f"\n{written}\n\n{generated}\n" if written else f"\n{generated}\n"
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{path}: wanted one line {BEGIN!r} and one line {END!r} after it; restore or remove both")
    before, _, rest = text.partition(BEGIN)
    return before + generated + rest.partition(END)[2]


def _is_public(manifest: Manifest) -> bool:
    """Whether the base can be named on a card: a Hub id, and not a folder."""
    return manifest.status != "local" and _HUB_ID.fullmatch(manifest.base) is not None


def _refuse_machine_paths(head: str, body: str, run_dir: Path) -> None:
    values = _strings(yaml.safe_load(head.strip().strip("-")))
    found = [value for value in values if is_machine_path(value)]
    for path in {os.path.abspath(run_dir), str(run_dir.resolve()), os.getcwd(), *map(str, home_folder())} - {"/"}:
        if re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w-])", head + body):
            found.append(path)
    if found:
        raise ValueError(
            f"the card of {run_dir.name} would hold the path {found[0]!r} of this machine; give a Hub id or a name"
        )


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
