"""``python -m dataset_builders``: list the data sets, build one, check a source, measure a specialist or queries."""

from __future__ import annotations

import json
import logging
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dataset_builders.choices import FROM_RANK, STYLE_NEIGHBOURS, STYLOMETRIC, Lens, QueryForm
from dataset_builders.terminal import print_any_text, told

if TYPE_CHECKING:
    from dataset_builders.builds import Build
    from dataset_builders.oblique.purity import Float32, Probe

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command("list")
def list_() -> None:
    """Show the data sets that can be built."""
    from dataset_builders import builds, sources

    for source, what in sources.SOURCES.items():
        typer.echo(f"{source}: {what}")
        for kind, description in builds.KINDS.items():
            if (source == "sample" or kind.startswith("stance-")) and not (
                kind == "stance-triplets" and source in sources.TEST_ONLY
            ):
                typer.echo(f"  {source}-{kind:<18} {description}")
    typer.echo("{your name}-stance-{kind} --source FILE_OR_FOLDER: the same from your own claims")
    typer.echo("{your name}-obliq-{queries|style-pairs} --source FILE_OR_FOLDER: the same from your own documents")
    typer.echo("bench-obliq-{queries|style-pairs} --generate MODEL: the same from the corpora of OBLIQ-Bench (Hub)")


@app.command()
def build(
    name: Annotated[
        str,
        typer.Argument(
            help="{source}-stance-{triplets|arguments|inversions}, {source}-obliq-{queries|style-pairs}, or "
            "sample-obliq-bench"
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(help="Folder to write: an empty one, or an earlier build, whose rows are all replaced or none."),
    ],
    source: Annotated[
        Path | None, typer.Option(help="Your JSONL or parquet, a folder, or ORG/NAME@REVISION on the Hub.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the triplets.")] = 0,
    triplets: Annotated[int | None, typer.Option(help="Rows of each curriculum; by default 6 a cell.")] = None,
    lens: Annotated[
        Lens | None, typer.Option(help="Queries through this lens in place of each task's own (needs --generate).")
    ] = None,
    documents: Annotated[int | None, typer.Option(help="Documents of each task that get a query, drawn.")] = None,
    from_rank: Annotated[int, typer.Option(min=0, help="BM25 rank of the first hard negative.")] = FROM_RANK,
    vectors: Annotated[
        Path | None, typer.Option(help=f"Specialist of style: a .npy file, a row a document; else {STYLOMETRIC}.")
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Neighbours a document in the style graph.")] = STYLE_NEIGHBOURS,
    dose: Annotated[int | None, typer.Option(help="Edges of the style graph to draw; by default all.")] = None,
    random_graph: Annotated[bool, typer.Option("--random-graph", help="The control: positives at random.")] = False,
    query_form: Annotated[
        QueryForm, typer.Option(help="Query of a style pair: the anchor's style in words, or the anchor itself.")
    ] = "description",
    approximate: Annotated[bool, typer.Option("--approximate", help="Approximate neighbours, for a million.")] = False,
    generate: Annotated[
        str | None, typer.Option(help="Model that writes new inversions, or oblique queries.", metavar="MODEL")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Its OpenAI-compatible endpoint; key: OPENAI_API_KEY.")] = None,
    provider: Annotated[str | None, typer.Option(help="Or its provider on the Hub; key: HF_TOKEN.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Its answers; by default OUT.replies.sqlite.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests under way at once.")] = 8,
    requests_per_minute: Annotated[float | None, typer.Option(help="Upper limit.")] = None,
    price: Annotated[
        tuple[float, float] | None, typer.Option(help="Dollars per million prompt and completion tokens.")
    ] = None,
) -> None:
    """Build a data set that `load_dataset(OUT, CONFIG)` reads."""
    from dataset_builders import builds
    from dataset_builders.folder import check_target
    from dataset_builders.generate import GenerationError, LanguageModel
    from dataset_builders.lock import locked
    from dataset_builders.oblique.training import Options

    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for every request otherwise
    asked = {"base_url": base_url, "provider": provider, "requests_per_minute": requests_per_minute, "price": price}
    try:
        model, report = None, out.with_name(f"{out.name}.report.json")
        alone: AbstractContextManager[bool] = nullcontext(True)
        if generate is not None:
            builds.parse(name)
            check_target(out)
            if report.is_dir():
                raise IsADirectoryError(
                    f"{report}: a folder is in the way of the report; move it, or choose another --out"
                )
            out.parent.mkdir(parents=True, exist_ok=True)
            cache = cache or out.with_name(f"{out.name}.replies.sqlite")
            model = partial(LanguageModel, generate, cache=cache, concurrency=concurrency, **asked)  # type: ignore[arg-type]
            alone = locked(out.with_name(f".{out.name}.generate.lock"))
        elif any(value is not None for value in (*asked.values(), cache)):
            raise ValueError("options of a language model without --generate MODEL")
        options = Options(lens, documents, from_rank, vectors, k, dose, random_graph, query_form, approximate)
        with alone as mine:
            if not mine:
                raise ValueError(f"{out}: another build asks a language model for this folder; wait until it is done")
            built = builds.prepare(name, source, seed=seed, triplets=triplets, model=model, options=options)
            changed = built.write(out)
            if built.report is not None:
                _write(report, _json(built.report.as_dict()))
    except (ValueError, OSError, GenerationError) as error:
        raise told(error) from None
    for line in _lines(built):
        typer.echo(line)
    typer.echo(f"{'built' if changed else 'up to date'}: {out}")


@app.command()
def publish(
    name: Annotated[str, typer.Argument(help="As for build.")],
    org: Annotated[str, typer.Option(help="Organisation or user on the Hub.")],
    source: Annotated[Path | None, typer.Option(help="As for build.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="As for build.")] = 0,
    triplets: Annotated[int | None, typer.Option(help="As for build.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and the card.")] = False,
    tag: Annotated[str | None, typer.Option(help="Tag of the release, such as v1.0.0.")] = None,
) -> None:
    """Build, check and publish a data set in one commit, and read it back. Token: HF_TOKEN or `hf auth login`."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    for name_ in ("httpx2", "bm25s"):  # every request, every index
        logging.getLogger(name_).setLevel(logging.WARNING)
    from dataset_builders.hub_errors import HubError
    from dataset_builders.publish import publish as publish_

    try:
        done = publish_(
            name, org, source=source, seed=seed, triplets=triplets, private=private, tag=tag, dry_run=dry_run
        )
    except (ValueError, OSError, HubError) as error:
        raise told(error) from None
    for line in [*([done.card] if dry_run else []), *done.plan.lines()]:
        typer.echo(line)
    if done.commit is not None:
        typer.echo(f"{'published' if done.commit.made else 'up to date'}: {org}/{name} at {done.commit.sha}")


@app.command()
def check(
    source: Annotated[str, typer.Argument(help="A source of `list`, or a name for your own data.")],
    data: Annotated[
        Path | None, typer.Option(help="Your JSONL or parquet, a folder, or ORG/NAME@REVISION on the Hub.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Another source, to count what it shares; may be repeated.", metavar="SOURCE[=PATH]"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file for the statistics.")] = None,
) -> None:
    """Print a source's statistics and its bounds; fail if one is broken."""
    from dataset_builders import quality

    try:
        _probe(out)
        report = quality.check(source, data, [_source(text) for text in against or ()])
    except (ValueError, OSError) as error:
        raise told(error) from None
    for line in report.lines():
        typer.echo(line)
    _write(out, report.json())
    if report.broken or report.mended:
        raise told(f"{len(report.broken)} bounds broken, {len(report.mended)} known issues mended")


@app.command()
def purity(
    labels: Annotated[Path, typer.Option(help="Documents with _id, label, text, text_id; or qrels.")],
    vectors: Annotated[
        Path | None,
        typer.Option(help="A .npy file, a row a document, as `python -m hub_models encode` writes."),
    ] = None,
    specialist: Annotated[str | None, typer.Option(help=f"A built-in one instead: {STYLOMETRIC}.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="All documents, where --labels are qrels.")] = None,
    k: Annotated[list[int] | None, typer.Option(help="Neighbours a document; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the intervals.")] = 0,
    out: Annotated[Path | None, typer.Option(help="JSON file for the figures.")] = None,
) -> None:
    """Print how often a specialist's neighbours share an attribute, against random pairs (O table I.1)."""
    from dataset_builders.checks import align
    from dataset_builders.oblique import purity as purity_of

    try:
        _probe(out)
        probe = purity_of.read_probe(labels, corpus)
        rows = purity_of.purity(_vectors(vectors, specialist, probe), probe, k or purity_of.KS, seed=seed)
    except (ValueError, OSError) as error:
        raise told(error) from None
    counts = {
        "documents": len(probe.ids),
        "labelled": len(probe.labels),
        "labels": len(set(probe.labels.values())),
        "longer_texts": len(set(probe.sources.values())),
    }
    typer.echo(", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in counts.items()))
    for line in align(purity_of.table(rows)):
        typer.echo(line)
    _write(out, _json(counts | {"seed": seed, "rows": [asdict(row) | {"lift": row.lift} for row in rows]}))


@app.command("query-quality")
def query_quality_(
    queries: Annotated[Path, typer.Option(help="Rows with query and positive: JSONL, parquet, or a folder of them.")],
    task: Annotated[str | None, typer.Option(help="Their task, where the rows do not say it.")] = None,
    data: Annotated[Path | None, typer.Option(help="The benchmark to compare with; by default the sample.")] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file for the figures.")] = None,
) -> None:
    """Print what queries share with their documents, beside the benchmark's own (O table J.1)."""
    from dataset_builders.checks import align
    from dataset_builders.oblique import query_quality

    try:
        _probe(out)
        rows = query_quality.measure(query_quality.read_pairs(queries, task), data)
    except (ValueError, OSError) as error:
        raise told(error) from None
    for line in align(query_quality.table(rows)):
        typer.echo(line)
    _write(out, _json(rows))


def _vectors(path: Path | None, specialist: str | None, probe: Probe) -> Float32:
    from dataset_builders.oblique.purity import read_vectors
    from dataset_builders.oblique.stylometry import stylometric
    from dataset_builders.text import did_you_mean

    if (path is None) == (specialist is None):
        raise ValueError("give either --vectors FILE or --specialist NAME")
    if path is not None:
        return read_vectors(path)
    if specialist != STYLOMETRIC:
        raise ValueError(
            f"got the specialist {specialist!r}, wanted {STYLOMETRIC!r}, or --vectors with those of any model."
            f"{did_you_mean(str(specialist), [STYLOMETRIC])}"
        )
    without = [i for i in probe.ids if i not in probe.texts]
    if without:
        raise ValueError(f"{len(without)} documents have no text, such as {without[:5]}: {specialist} reads texts")
    return stylometric([probe.texts[i] for i in probe.ids])


def _source(text: str) -> tuple[str, Path | None]:
    name, _, path = text.partition("=")
    return name, Path(path) if path else None


def _json(figures: Any) -> str:
    return json.dumps(figures, indent=2, allow_nan=False) + "\n"


def _probe(out: Path | None) -> None:
    """Refuse a file that cannot be written before anything is measured."""
    from dataset_builders.atomic import check_folder

    if out is None:
        return
    if out.is_dir():
        raise IsADirectoryError(f"--out: got the folder {out}, wanted a file; add a name to it")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"--out: {out}: the folder {out.parent} is not there; make it or choose another one")
    if out.is_file() or not out.exists():  # else a pipe or a device
        check_folder(out.parent)
    elif not os.access(out, os.W_OK):
        raise PermissionError(f"--out: {out} cannot be written; choose another one")


def _write(out: Path | None, text: str) -> None:
    """Write a file whole or not at all; a pipe or a device is written as it is."""
    if out is None:
        return
    if out.exists() and not out.is_file():
        out.write_text(text, encoding="utf-8")
        return
    from dataset_builders.atomic import write_text

    try:
        write_text(out, text)
    except OSError as error:
        raise told(f"{out}: {error.strerror or error}") from None


def _lines(built: Build) -> list[str]:
    lines = [f"{t.config}/{t.split}: {t.rows:,} rows" for t in built.tables.tables]
    lines += [
        f"{split}: {len(ids)} one-sided claims{' left out' if built.kind == 'stance-triplets' else ''}"
        for split, ids in built.tables.one_sided.items()
        if ids
    ]
    return lines + ([*built.report.lines(), built.report.cost()] if built.report is not None else [])


if __name__ == "__main__":
    print_any_text()
    app()
