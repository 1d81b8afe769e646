"""Where results go, and whether they can."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dataset_builders.atomic import named
from dataset_builders.lock import locked
from hub_models.evaluation.results import RESULTS_NAME
from hub_models.manifest import FILE_NAME

logger = logging.getLogger(__name__)

LOCAL_RESULTS = Path("results") / "local"


def check_writable(folder: Path) -> None:
    """Refuse a folder that results cannot be written to, and leave nothing in it."""
    if (folder / RESULTS_NAME).is_dir():
        raise IsADirectoryError(f"{folder / RESULTS_NAME}: got a folder, wanted a file; move it or give another --out")
    for place in (folder, folder / "per_query", folder / "figures"):
        nearest = next(p for p in (place, *place.parents) if p.exists() or p.is_symlink())
        if not nearest.is_dir():
            raise NotADirectoryError(f"{nearest}: got no folder, wanted one; move it or give another --out")
        try:
            with tempfile.TemporaryFile(dir=nearest):
                pass
        except OSError as error:
            raise named(error, nearest, "cannot write results there; give another --out") from error


@contextmanager
def alone(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes from writing results into ``folder``, which need not be there.

    Args:
        folder: Where results go.
        wait: For another process to be done, instead of giving up.

    Raises:
        BlockingIOError: If another process writes into it.
    """
    place = folder.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = place.with_name(f".{place.name}.lock")
    with locked(lock) as mine:
        if mine:
            yield
            return
    if not wait:
        raise BlockingIOError(
            f"{folder}: another process writes its results there; wait until it is done, or give another --out"
        )
    logger.info("%s: waiting for another process that writes its results there", folder)
    with locked(lock, wait=True):
        yield


def default_folder(model: str) -> Path:
    """``evaluation/`` inside a run folder, else ``results/local/NAME``."""
    if (Path(model) / FILE_NAME).is_file():
        return Path(model) / "evaluation"
    name = Path(model).resolve().name if Path(model).is_dir() else model
    return LOCAL_RESULTS / name.replace("/", "--")
