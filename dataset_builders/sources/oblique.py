"""Where oblique tasks come from: one door to all of them."""

from __future__ import annotations

from pathlib import Path

from dataset_builders.choices import ObliqueTaskName
from dataset_builders.sources import contract, inaugural, obliq_bench, oblique_contract, theoremqa
from dataset_builders.sources.obliq_bench import TASKS, ObliqueTask
from dataset_builders.text import did_you_mean

SAMPLE = "sample"
BENCH = "bench"

SOURCES: dict[str, tuple[ObliqueTaskName, ...]] = {
    SAMPLE: TASKS,
    BENCH: TASKS,
    theoremqa.NAME: ("math",),
    inaugural.NAME: ("writing",),
}
"""Source to the tasks that it has: the embedded sample, OBLIQ-Bench itself, and two made of public data."""


def load(source: str, task: str, data: Path | None = None, *, allow_dangling: bool = False) -> ObliqueTask:
    """One oblique task of a source.

    Args:
        source: ``sample`` (embedded), ``bench`` (OBLIQ-Bench from the Hub at its pinned commit), ``theoremqa`` and
            ``inaugural`` (need ``data``, the folder of the upstream file), or any name for your own ``data``.
        task: One of ``TASKS``.
        data: A folder in the layout of OBLIQ-Bench, or of a built or published ``{source}-obliq-bench``. It takes the
            place of the embedded and of the Hub's data.
        allow_dangling: As in `obliq_bench.read`.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If the source has no such task, is unknown and there is no ``data``, or the data is faulty.
    """
    known = SOURCES.get(source, TASKS)
    if task not in known:
        raise ValueError(f"{source}: got the oblique task {task!r}, wanted one of {known}.{did_you_mean(task, known)}")
    if source in (theoremqa.NAME, inaugural.NAME):
        if data is None:
            raise ValueError(f"{source}: the data does not come with the package; give its folder with --data")
        return theoremqa.read(data) if source == theoremqa.NAME else inaugural.read(data)
    if data is None and source not in SOURCES:
        raise ValueError(
            f"got the source {source!r}, wanted one of {list(SOURCES)}, or your own data: a folder in the layout of "
            f"OBLIQ-Bench or of a built NAME-obliq-bench.{did_you_mean(source, SOURCES)}"
        )
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"{data}: no such folder; wanted a folder in the layout of OBLIQ-Bench")
    if data is not None and contract.is_contract(data):
        return oblique_contract.read(task, data, allow_dangling=allow_dangling)
    folder = obliq_bench.download(task) if data is None and source == BENCH else data
    return obliq_bench.read(task, folder, allow_dangling=allow_dangling)


def at_hand() -> list[tuple[str, ObliqueTaskName]]:
    """The (source, task) pairs that need neither ``data`` nor the network: the sample, and what of OBLIQ-Bench is in
    the Hub's cache."""
    from huggingface_hub import try_to_load_from_cache

    def cached(task: ObliqueTaskName) -> bool:
        return all(
            isinstance(
                try_to_load_from_cache(obliq_bench.REPO, file, repo_type="dataset", revision=obliq_bench.REVISION),
                str,
            )
            for file in obliq_bench.files_of_task(task)
        )

    return [*((SAMPLE, task) for task in TASKS), *((BENCH, task) for task in TASKS if cached(task))]
