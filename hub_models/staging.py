"""What a model's repository receives: the files of a run, its base by Hub id and commit, and a card for strangers."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml, snapshot_download

from dataset_builders import sources
from dataset_builders.atomic import write_text
from dataset_builders.hub import OF_ANY_REPOSITORY
from dataset_builders.hub_errors import HubError, ask
from dataset_builders.hub_remote import Remote, api, look, read_text
from dataset_builders.markdown import check_sections
from hub_models import training_data
from hub_models.card_results import finite
from hub_models.cards import CARD_NAME, RECIPE_NAME, RESULTS_PATH, release_licence, write_card
from hub_models.evaluation.results import Results
from hub_models.evaluation.stance import judge
from hub_models.manifest import FILE_NAME, Manifest, TrainingData, check_adapter
from hub_models.model_files import missing_files
from hub_models.recipe import Recipe, load_recipe
from hub_models.release import PROBE_NAME
from hub_models.trained_claims import FILE_NAME as TRAINED_CLAIMS

logger = logging.getLogger(__name__)

ENCODER_FILES = (
    *("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"),
    *("[0-9]_*/config.json", "[0-9]_Dense/*.safetensors"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("chat_template.jinja", "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model"),
)
"""Of any encoder, besides its weights."""

ALLOW = (
    *(CARD_NAME, "LICENSE", FILE_NAME, RECIPE_NAME, PROBE_NAME, TRAINED_CLAIMS),
    *("adapter_config.json", "adapter_model.safetensors", *ENCODER_FILES),
    *("evaluation/results.json", "evaluation/figures/*.png", ".eval_results/*.yaml"),
)
"""Files of a run that are published, as patterns; optimiser states, logs and whatever else lies there are not."""

BASE_FILES = ("onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack")
"""Of a base what nothing here loads."""


@dataclass(frozen=True)
class Base:
    """A base model as a release names it: Hub id, commit, licence."""

    id: str
    revision: str
    licence: str


def is_ours(path: str, allow: Sequence[str]) -> bool:
    """Whether a file on the Hub is one that a release of the patterns ``allow`` writes, so that the next may remove
    it."""
    return path not in OF_ANY_REPOSITORY and any(fnmatch(path, pattern) for pattern in allow)


def check_run(run: Path) -> Manifest:
    """Read the manifest of a run that may be released.

    Raises:
        FileNotFoundError: If it is no run folder.
        ValueError: If the run failed, lacks a file, or its adapter is not the one that was trained.
    """
    manifest = Manifest.read(run)
    if manifest.status == "failed":
        raise ValueError(f"{run} did not pass the gate ({manifest.failure}); it is not released: train again")
    if missing := missing_files(run):
        raise ValueError(f"{run} lacks {', '.join(missing)}; restore them or train again")
    check_adapter(run, manifest.adapter_sha256)
    return manifest


def resolve_base(manifest: Manifest, base_id: str | None, *, private: bool) -> Base:
    """The base as strangers find it on the Hub.

    Args:
        manifest: Of the run.
        base_id: Hub id of a base that was loaded from a folder.
        private: Whether the release is for those who may read the base anyway.

    Raises:
        ValueError: If the base has no Hub id, ``base_id`` contradicts the run, its licence is unknown, or strangers
            may not read it.
        HubError: If the Hub has no such model or commit.
    """
    if manifest.status == "local" and base_id is None:
        raise ValueError(
            f"the base of {manifest.name} was loaded from the folder {Path(manifest.base).name!r}, which nobody else "
            "has; give its Hub id with --base-id organisation/name"
        )
    if manifest.status != "local" and base_id not in (None, manifest.base):
        raise ValueError(
            f"{manifest.name} was trained on {manifest.base}, got --base-id {base_id}; leave the option away"
        )
    name = base_id or manifest.base
    info = ask(name, lambda: api.model_info(name, revision=manifest.base_revision), "read")
    if info.private and not private:
        raise ValueError(f"the base {name} is private, so nobody else could load the release; release with --private")
    card = info.card_data
    licence = manifest.base_licence or (str(card.license) if card is not None and card.license else "unknown")
    base = Base(name, manifest.base_revision or str(info.sha), licence)
    chain = release_licence(manifest.model_copy(update={"base_licence": licence}))
    if chain == "unknown":
        unknown = [base.id] * (licence == "unknown") + [d.name for d in manifest.data if d.licence == "unknown"]
        raise ValueError(
            f"the licence of {' and of '.join(unknown)} is unknown, and nothing is released without the whole chain: "
            "have the base's card or the rows say it, and train again"
        )
    return base


def fetch_base(base: Base) -> None:
    """Bring what strangers would get for the base, at its commit and today, into the Hub's local cache.

    Raises:
        HubError: If the Hub does not give it.
    """
    for revision in (base.revision, None):
        ask(
            base.id,
            lambda revision=revision: snapshot_download(  # type: ignore[misc]
                base.id, revision=revision, ignore_patterns=list(BASE_FILES)
            ),
            "download",
        )


def stage(run: Path, folder: Path, remote: Remote, base: Base, *, tag: str) -> Manifest:
    """Lay out a release in ``folder``.

    Args:
        run: A run that `check_run` lets through.
        folder: Empty.
        remote: The repository that it is made for; what people wrote into its card stays.
        base: From `resolve_base`.
        tag: The release's.

    Raises:
        ValueError: If the results are of another adapter, a number is not finite, or the card lacks a section.
        HubError: If the Hub cannot be read.
    """
    org = remote.repo_id.split("/")[0]
    for path in sorted(p for p in run.rglob("*") if p.is_file()):
        name = path.relative_to(run).as_posix()
        if any(fnmatch(name, pattern) for pattern in ALLOW):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
        else:
            logger.info("not released: %s", name)
    recipe = load_recipe(run / RECIPE_NAME)
    manifest = Manifest.read(run)
    data = _linked(manifest.data, recipe, org)
    manifest = manifest.model_copy(
        update={
            "repo_id": remote.repo_id,
            "tag": tag,
            "status": "trained",
            "base": base.id,
            "base_revision": base.revision,
            "base_licence": base.licence,
            "data": data,
        }
    )
    manifest.write(folder)
    write_text(folder / RECIPE_NAME, _public_recipe(recipe, base, data).to_yaml())
    _name_base(folder / "adapter_config.json", base)
    if (there := read_text(remote, CARD_NAME)) is not None:
        write_text(folder / CARD_NAME, there)
    card = write_card(folder).read_bytes().decode()
    check_sections(card)
    if (folder / RESULTS_PATH).is_file():
        _write_eval_results(folder, org, remote.repo_id)
    return Manifest.read(folder)


def _name_base(path: Path, base: Base) -> None:
    config = json.loads(path.read_bytes())
    if config["base_model_name_or_path"] != base.id:
        config["base_model_name_or_path"] = base.id
        write_text(path, json.dumps(config, indent=2, sort_keys=True))


def _public_recipe(recipe: Recipe, base: Base, data: Sequence[TrainingData]) -> Recipe:
    entries = [
        entry.model_copy(update={"path": None, "sha256": None, "repo": part.name, "revision": part.revision})
        if part.revision
        else entry
        for entry, part in zip(recipe.data, data, strict=True)
    ]
    return recipe.model_copy(update={"base": base.id, "base_revision": base.revision, "data": tuple(entries)})


def _linked(data: Sequence[TrainingData], recipe: Recipe, org: str) -> tuple[TrainingData, ...]:
    """Training data by Hub id and commit, where the organisation has published the very rows of the run."""
    linked = []
    for part, entry in zip(data, recipe.data, strict=True):
        repo_id = part.name if entry.repo else f"{org}/{part.name}"
        there = None if part.revision else _head(repo_id)
        if there is None:
            linked.append(part)
            continue
        config = part.config or entry.config
        pinned = {"repo": repo_id, "revision": there, "path": None, "sha256": None, "config": config}
        try:
            _, found = training_data.read_entry(entry.model_copy(update=pinned), recipe)
        except ValueError as error:
            logger.warning("%s is not what the run was trained on: %s", repo_id, error)
            linked.append(part)
            continue
        if found.sha256 != part.sha256:
            logger.warning("%s at %s holds other rows than the run was trained on: not named", repo_id, there[:12])
            linked.append(part)
        else:
            linked.append(part.model_copy(update={"name": repo_id, "revision": there}))
    return tuple(linked)


def _head(repo_id: str) -> str | None:
    """The head of a data set on the Hub, or None where there is none of that name."""
    try:
        return look(repo_id, "dataset").sha
    except HubError as error:
        logger.warning("%s: %s", repo_id, error)
        return None


def _write_eval_results(folder: Path, org: str, repo_id: str) -> None:
    """``.eval_results/{task}.yaml`` for each task whose very data the organisation has published."""
    for name, task in Results.read(folder / RESULTS_PATH).tasks.items():
        run = task.run("dense")
        value = None if run is None else run.mean("overall", "precision_at_r")
        if value is None or not name.endswith("-stance"):
            continue
        dataset = f"{org}/{name}-arguments"
        sha = _head(dataset)
        if sha is None or _measured_on(dataset, sha, task.counts["split"]) != task.revision:
            logger.warning("%s was not measured on %s as it is on the Hub: no .eval_results", name, dataset)
            continue
        entry = EvalResultEntry(
            dataset_id=dataset,
            task_id=name,
            value=finite(value, name),
            dataset_revision=sha,
            source_url=f"https://huggingface.co/{repo_id}/blob/main/{RESULTS_PATH.as_posix()}",
            source_name="Slant results file",
            notes="precision at R, dense, unseen instructions",
        )
        path = folder / ".eval_results" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        write_text(path, yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False))


def _measured_on(dataset: str, sha: str, split: str) -> str:
    folder = ask(
        dataset,
        lambda: snapshot_download(dataset, repo_type="dataset", revision=sha, allow_patterns=["*/*.parquet", "*.md"]),
        "download",
    )
    return judge(sources.load(dataset.split("/")[1], Path(folder)), split).revision  # type: ignore[arg-type]
