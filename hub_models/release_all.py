"""One release in the right order: data, model, Space, and the collection that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dataset_builders.hub_errors import ask
from dataset_builders.hub_remote import api, check_access, check_name
from dataset_builders.publish import publish
from hub_models import space, staging
from hub_models.publish import FIRST_TAG, release
from hub_models.release import Probe

DATA = (
    *("sample-stance-arguments", "sample-stance-triplets", "sample-stance-inversions"),
    *("sample-obliq-bench", "sample-obliq-queries", "sample-obliq-style-pairs"),
)
PAPERS = ("2608.28283", "2609.29649")
TITLE = "Slant: stance-aware and oblique retrieval"
DESCRIPTION = "Two papers, the sample data, the adapters trained on it, and the demo."


@dataclass(frozen=True)
class Step:
    """One repository, or the collection.

    Attributes:
        kind: ``dataset``, ``model``, ``space`` or ``collection``.
        id: Where it is.
        lines: What is done, or would be, for people.
        made: Whether this call changed anything.
    """

    kind: str
    id: str
    lines: list[str]
    made: bool


def release_all(
    run: Path,
    org: str,
    *,
    oblique: Path | None = None,
    merged: bool = False,
    tag: str = FIRST_TAG,
    dry_run: bool = False,
) -> Iterator[Step]:
    """Publish the sample's data, the runs' models, the Spaces of this checkout and a collection of them.

    What is on the Hub already and equal is skipped, so that a release that was interrupted goes on where it stopped.

    Args:
        run: A run folder of ``train.py``.
        org: Organisation or user.
        oblique: One of an oblique recipe, if its model is released too.
        merged: See `publish.release`; of ``run`` alone.
        tag: Of data and models.
        dry_run: Only say what would be done.

    Yields:
        Each step once it is done.

    Raises:
        FileNotFoundError, ValueError, GateError, HubError: As the parts do; the models are looked at before anything
            is pushed.
    """
    runs = [run] if oblique is None else [run, oblique]
    for folder in runs:
        manifest = staging.check_run(folder)
        Probe.read(folder)
        check_name(f"{org}/{manifest.name}")
        if not dry_run:
            check_access(f"{org}/{manifest.name}")
        staging.resolve_base(manifest, None, private=False)
    items: list[tuple[str, str]] = [("paper", paper) for paper in PAPERS]
    for name in DATA:
        data = publish(name, org, tag=tag, dry_run=dry_run)
        yield Step("dataset", f"{org}/{name}", data.plan.lines(), data.commit is not None and data.commit.made)
        items.append(("dataset", f"{org}/{name}"))
    for folder in runs:
        for model in release(folder, org, merged=merged and folder == run, tag=tag, dry_run=dry_run):
            yield Step("model", model.repo_id, model.plan.lines(), model.commit is not None and model.commit.made)
            items.append(("model", model.repo_id))
    for name in space.names():
        if dry_run:  # it names models that this very release would bring
            yield Step("space", f"{org}/{name}", [f"{org}/{name}: after the models"], False)
            continue
        plan, commit = space.release_space(name, org)
        yield Step("space", f"{org}/{name}", plan.lines(), commit is not None and commit.made)
        items.append(("space", f"{org}/{name}"))
    if dry_run:
        yield Step("collection", f"{org}/…", [f"{TITLE!r} would hold {len(items)} items"], False)
    else:
        yield _collect(org, items)


def _collect(org: str, items: list[tuple[str, str]]) -> Step:
    made = ask(
        org, lambda: api.create_collection(TITLE, namespace=org, description=DESCRIPTION, exists_ok=True), "collect"
    )
    found = ask(org, lambda: api.get_collection(made.slug), "collect")
    there = {(str(item.item_type), item.item_id) for item in found.items}
    new = [item for item in items if item not in there]
    for kind, name in new:
        ask(
            name,
            lambda kind=kind, name=name: api.add_collection_item(  # type: ignore[misc]
                made.slug, name, kind, exists_ok=True
            ),
            "collect",
        )
    return Step("collection", made.slug, [f"{made.slug}: {len(items)} items, {len(new)} of them new"], bool(new))
