"""Measure an encoder on stance-aware retrieval: results.json, per-query values, figures, and a table.

python evaluate.py --model runs/quickstart --tasks sample-stance --baseline sentence-transformers/all-MiniLM-L6-v2
python evaluate.py --model any/encoder --tasks my-stance --data my.jsonl
"""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hub_models.hub_cache import use_project_cache


class EvaluatedSplit(StrEnum):
    test = "test"
    validation = "validation"


def main(
    model: Annotated[str, typer.Option(help="Folder of a run, folder of an encoder, or Hub id.")],
    tasks: Annotated[str, typer.Option(help="SOURCE-stance, several with commas, or 'stance' for all at hand.")],
    data: Annotated[
        Path | None, typer.Option(help="Your own data for the one task named: JSONL, parquet, or a folder.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare with this folder or Hub id, or with an earlier results.json.")
    ] = None,
    split: Annotated[
        EvaluatedSplit, typer.Option(help="Which claims to ask about; data without splits is all test.")
    ] = EvaluatedSplit.test,
    out: Annotated[
        Path | None, typer.Option(help="Default: RUN/evaluation for a run folder, else results/local/MODEL.")
    ] = None,
) -> None:
    """Measure an encoder on stance-aware retrieval, beside a baseline if one is given."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("hub_models").setLevel(logging.INFO)
    use_project_cache()  # before anything imports the Hub clients
    from hub_models.evaluation.figures import draw
    from hub_models.evaluation.report import table
    from hub_models.evaluation.run import evaluate_model, load_tasks

    try:
        judged = load_tasks([name.strip() for name in tasks.split(",")], data, split.value)
        evaluation = evaluate_model(model, judged, out=out, baseline=baseline)
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    for name in judged:
        typer.echo(table(evaluation.results, name, evaluation.baseline))
        for figure in draw(evaluation, name):
            typer.echo(f"figure   {figure}")
    typer.echo(f"results  {evaluation.results_path}")


if __name__ == "__main__":
    typer.run(main)
