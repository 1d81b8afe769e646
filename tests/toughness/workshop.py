"""Every command that writes, forked from one process that has imported everything."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from tests.dataset_builders.publisher import serve
from tests.hub_models.releaser import Releaser
from tests.toughness.commands import NOTE

_LATE = (
    *("corpus", "cards", "merge", "publish", "release_all", "space", "training", "verify"),
    *(f"evaluation.{name}" for name in ("figures", "figures_levers", "hybrid", "named_tasks", "policy", "probe")),
    *(f"evaluation.{name}" for name in ("report", "report_published", "rerank_option", "run", "systems", "tuning")),
    *(f"evaluation.{name}" for name in ("study", "study_figures", "study_report")),
)
"""What the commands import only when they are called."""


class Workshop(Releaser):
    """Forks ``train``, ``evaluate`` and the commands of both packages by their first word.

    ``read_back=False`` leaves out the processes that only read what was written.
    """

    module = "tests.toughness.workshop"


def _serve() -> None:
    import datasets  # noqa: F401
    import huggingface_hub.hf_api  # noqa: F401
    import typer

    import evaluate
    import train
    from dataset_builders import __main__ as builders
    from dataset_builders import publish as data
    from hub_models import __main__ as models
    from hub_models import publish, training

    for name in _LATE:
        importlib.import_module(f"hub_models.{name}")
    of_builders = set(typer.main.get_command(builders.app).commands)  # type: ignore[attr-defined]

    def skip() -> None:
        data.readback.compare = lambda *asked: None
        training.gate = lambda *asked, **more: None
        publish.gate = lambda *asked: None
        publish._verify = lambda *asked: None

    def either(argv: list[str]) -> None:
        if argv[0] == "careless":
            Path(argv[1]).write_bytes(NOTE)
            sys.exit(0)
        if argv[0] == "train":
            sys.argv = argv
            sys.exit(train.main())
        if argv[0] == "evaluate":
            evaluate.app(argv[1:])
        (builders.app if argv[0] in of_builders else models.app)(argv)

    os.environ["COLUMNS"] = "1000"  # no line of typer's is broken
    serve(either, skip)


if __name__ == "__main__":
    _serve()
