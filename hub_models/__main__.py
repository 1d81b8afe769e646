"""``python -m hub_models``: everything about a model that is neither training nor evaluation."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from dataset_builders.terminal import print_any_text, told
from hub_models import release_commands, study_commands
from hub_models.options import TrustRemoteCode

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

app.add_typer(release_commands.app)
app.add_typer(study_commands.app, name="study")


@app.callback()
def _main() -> None:
    from hub_models.hub_cache import use_project_cache

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    use_project_cache()


@app.command()
def plan(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe, or a YAML file.")],
    world_size: Annotated[
        int | None, typer.Option(min=1, help="Processes, one for each device; by default 1.")
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(help="Or as many as this file of accelerate starts, as hub_models/accelerate/*.yaml."),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")] = None,
) -> None:
    """Print what a run takes: parameters, memory, steps, tokens, negatives."""
    from hub_models.plan import plan as make
    from hub_models.plan import processes_of
    from hub_models.recipe import load_recipe

    try:
        made = load_recipe(recipe, overrides or [])
        if world_size is not None and config_file is not None:
            raise ValueError(f"got --world-size {world_size} and --config-file {config_file}, wanted one of them")
        processes = processes_of(config_file) if config_file is not None else world_size or 1
        typer.echo(make(made, processes).table())
    except (ValueError, OSError) as error:
        raise told(error) from None


@app.command()
def diagnose(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Per-query values of a run: parquet.")],
    metric: Annotated[str, typer.Option(help="A column of it.")] = "ndcg_at_10_gold",
    against: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Another run on the same queries, or an oracle's.")
    ] = None,
) -> None:
    """Print, as JSON, what the mean of a run hides: interval, ties, collapse, recall ceiling, shuffle control."""
    import json

    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    from hub_models.evaluation.diagnostics import comparable, contrast, describe

    def columns(path: Path) -> dict[str, Any]:
        try:
            table = read_table(path)
        except (ArrowException, OSError) as error:
            said = str(error).partition("\n")[0]
            raise ValueError(f"{path}: got no readable parquet ({said}), wanted a per_query file of a run") from None
        return dict(comparable({name: table.column(name).to_numpy() for name in table.column_names}))

    try:
        found = describe(columns(file), metric)
        if against is not None:
            found["against"] = contrast(columns(file), columns(against), metric)
    except (ValueError, OSError) as error:
        raise told(error) from None
    typer.echo(json.dumps(found, indent=1, allow_nan=False))


@app.command()
def probe(
    model: Annotated[str, typer.Option(help="Folder or Hub id of any encoder.")],
    source: Annotated[str, typer.Option(help="A source whose test claims have inverted arguments.")] = "sample",
    data: Annotated[
        Path | None,
        typer.Option(help="Your own pairs instead: JSONL or parquet with claim, original, original_stance, inverted."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Default: RUN/evaluation or results/local/MODEL.")
    ] = None,
    trust_remote_code: TrustRemoteCode = None,
) -> None:
    """Measure an encoder's sense of stance with minimal pairs: probe.json, a picture, and a table."""
    from hub_models.evaluation import probe as module
    from hub_models.evaluation.figures import draw_probe
    from hub_models.evaluation.places import check_writable, default_folder

    try:
        folder = out or default_folder(model)
        check_writable(folder)
        pairs = module.pairs_of(source, data)
        found = module.probe(model, pairs, source if data is None else data.stem, trust_remote_code)
        found.write(folder / module.PROBE_NAME)
        drawn = draw_probe(found, folder)
    except (ValueError, OSError) as error:
        raise told(error) from None
    typer.echo(f"{module.report(found)}\n\nresults  {folder / module.PROBE_NAME}\nfigure   {drawn}")


@app.command()
def tune(
    run: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A run folder of train.py.")],
    tasks: Annotated[str, typer.Option(help="One stance task, SOURCE-stance; its validation claims are asked.")],
    data: Annotated[Path | None, typer.Option(help="Your own data for it: JSONL, parquet or a folder.")] = None,
    cache: Annotated[
        Path | None, typer.Option(file_okay=False, help="Keeps the vectors here: a killed run goes on.")
    ] = None,
    trust_remote_code: TrustRemoteCode = None,
) -> None:
    """Choose adapter scale, anchor and the weight of BM25 on validation claims, and keep them in RUN's slant.json."""
    from dataset_builders.atomic import check_folder
    from hub_models.evaluation.figures_levers import draw_levers
    from hub_models.evaluation.named_tasks import load_tasks
    from hub_models.evaluation.stance import Judgements
    from hub_models.evaluation.systems import Encoder
    from hub_models.evaluation.tuning import TUNING, keep, summary
    from hub_models.evaluation.tuning import tune as choose
    from hub_models.manifest import Manifest

    try:
        Manifest.read(run)
        check_folder(run)
        ((name, judged),) = load_tasks([tasks], data, "validation", wide=True).items()
        if not isinstance(judged, Judgements):
            raise ValueError(f"--tasks: got {tasks!r}, wanted one stance task, such as sample-stance")
        found = choose(judged, Encoder(str(run), cache, trust_remote_code), name)
        keep(run, found)
        figure = draw_levers(found.curve, found.levers, f"{run.resolve().name} on {name}", run / TUNING)
    except (ValueError, OSError) as error:
        raise told(error) from None
    typer.echo(summary(found))
    typer.echo(f"figure   {figure}\nkept in  {run / 'slant.json'}")


@app.command()
def encode(
    model: Annotated[str, typer.Argument(help="Folder or Hub id of an encoder.")],
    texts: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="JSONL or parquet with a `text` in each row; else one text a line, lines end at LF.",
        ),
    ],
    out: Annotated[Path, typer.Option(dir_okay=False, help="A .npy file: float32[texts, dimensions], unit length.")],
    cache: Annotated[
        Path | None, typer.Option(file_okay=False, help="Keeps shards here; processes that share it share the work.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1)] = 32,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a Hub model.")] = None,
    trust_remote_code: TrustRemoteCode = None,
) -> None:
    """Encode a file of texts into a file of vectors. LUAR gets each text as an episode of its own."""
    from numpy import save

    from dataset_builders.atomic import check_folder, write_with
    from dataset_builders.rows import read_texts
    from hub_models.corpus import encode_corpus
    from hub_models.encoder import load
    from hub_models.processes import rank_and_count

    rank, processes = rank_and_count()
    try:
        if not out.parent.is_dir():
            raise FileNotFoundError(f"--out {out}: the folder {out.parent} does not exist; make it first")
        check_folder(out.parent)
        if processes > 1 and cache is None:
            raise ValueError(f"{processes} processes share the work through a folder: give --cache DIR")
        found = read_texts(texts)
        encoder = load(model, revision=revision, trust_remote_code=trust_remote_code)
        vectors = encode_corpus(found, encoder, cache_dir=cache, batch_size=batch_size)
        if rank == 0:
            write_with(out, lambda file: save(file, vectors))
            typer.echo(f"{out}: {vectors.shape[0]} x {vectors.shape[1]}, by {processes} process(es)")
    except (ValueError, OSError) as error:
        raise told(error) from None


@app.command()
def reproduce() -> None:
    """Print the page that says how to come by each published number: results/published/REPRODUCE.md."""
    from hub_models.evaluation.reproduce import page

    typer.echo(page(), nl=False)


@app.command()
def card(
    run: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A run folder of train.py.")],
    results: Annotated[
        Path | None, typer.Option(help="A results file; by default RUN/evaluation/results.json.")
    ] = None,
) -> None:
    """Write a run's model card, and print where everything is and how to search with it."""
    from hub_models.cards import figures, search_snippet, write_card

    try:
        written = write_card(run, results)
    except (ValueError, OSError) as error:
        raise told(error) from None
    for name, path in [("adapter", run), ("card", written), *(("figure", f) for f in figures(run, results))]:
        typer.echo(f"{name:<9}{path}")
    typer.echo(f"\nSearch with it, from any shell:\n\n{search_snippet(run)}")


if __name__ == "__main__":
    print_any_text()
    app()
