"""``python -m hub_models study stance`` and ``study obliq``: many trainings, one report."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dataset_builders.choices import QueryForm
from dataset_builders.terminal import told
from hub_models.options import Lexical, LexicalName

app = typer.Typer(help="Train many systems with one budget, measure all on all sets, and report it as the papers do.")


class StudySplit(StrEnum):
    test = "test"
    validation = "validation"


Out = Annotated[Path, typer.Option(file_okay=False, help="Folder for everything; a killed study goes on in it.")]
Seeds = Annotated[int, typer.Option(min=1, help="Trainings of each system, with the seeds 0, 1, …")]
Split = Annotated[StudySplit, typer.Option(help="Which claims or queries to ask about.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override of the recipe.")]
RecipeName = Annotated[str, typer.Option(help="Name of a recipe, or a YAML file.")]


def _command() -> str:
    return shlex.join(["python", "-m", "hub_models", *sys.argv[1:]])


@app.command()
def stance(
    out: Out,
    recipe: RecipeName = "stance-minilm",
    curricula: Annotated[
        str, typer.Option(help="Configs of the triplets, with commas.")
    ] = "homogeneous,mixed,mixed_aug",
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME: KEY=VALUE …'", help="A further system: the recipe with these overrides."),
    ] = None,
    seeds: Seeds = 3,
    source: Annotated[
        str | None, typer.Option(help="Train on this source and evaluate on it too; by default the recipe's own data.")
    ] = None,
    data: Annotated[Path | None, typer.Option(exists=True, help="The data of --source: a file or folder.")] = None,
    evaluate: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE=PATH", help="A further evaluation set, besides the embedded sample."),
    ] = None,
    split: Split = StudySplit.test,
    hybrid: Annotated[
        str, typer.Option(help="Weights of BM25 beside the dense scores, with commas; '' for none.")
    ] = "0.1,0.15,0.2",
    lexical: Lexical = LexicalName.slant,
    quick: Annotated[bool, typer.Option("--quick", help="100 steps and one seed: does everything work?")] = False,
    overrides: Overrides = None,
) -> None:
    """Train every curriculum with the same budget, measure all on all sets, and report it as the paper's tables do."""
    from hub_models.evaluation import study as studies

    try:
        written = studies.study_stance(
            out, recipe, studies.parse_systems(curricula, also or []), seeds=1 if quick else seeds, source=source,
            data=data, further=evaluate or [], split=split.value, hybrid=hybrid,
            lexical=lexical.value, quick=quick, overrides=overrides or [], command=_command(),
        )  # fmt: skip
    except (ValueError, OSError, RuntimeError) as error:
        raise told(error) from None
    for path in written:
        typer.echo(path)


@app.command()
def obliq(
    out: Out,
    recipe: RecipeName = "obliq-minilm",
    seeds: Seeds = 3,
    specialist: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Vectors of a second specialist, a row a document: .npy. Default: the recipe's base.",
        ),
    ] = None,
    generic: Annotated[
        Path | None,
        typer.Option(exists=True, help="Rows of `build sample-obliq-queries --lens generic --generate MODEL`."),
    ] = None,
    matched: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="Rows of the same MODEL without --lens, which those of --generic are held against. Default: the "
            "sample's authored ones.",
        ),
    ] = None,
    query_form: Annotated[
        QueryForm,
        typer.Option(help="What asks in a pair: its anchor's style in words, as in O, or its anchor."),
    ] = "description",
    evaluate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE=PATH", help="A further evaluation set, for the base and the systems of the main question."
        ),
    ] = None,
    split: Split = StudySplit.test,
    quick: Annotated[bool, typer.Option("--quick", help="One seed, few systems: does everything work?")] = False,
    overrides: Overrides = None,
) -> None:
    """Train with and without pairs of the style graph, and with what could explain them, and report it as O does."""
    from hub_models.evaluation import study_obliq as studies

    try:
        written = studies.study_oblique(
            out, recipe, seeds=1 if quick else seeds, specialist=specialist, generic=generic, matched=matched,
            query_form=query_form, further=evaluate or [],
            split=split.value, quick=quick, overrides=overrides or [], command=_command(),
        )  # fmt: skip
    except (ValueError, OSError, RuntimeError) as error:
        raise told(error) from None
    for path in written:
        typer.echo(path)
