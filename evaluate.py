"""Measure an encoder on stance-aware and oblique retrieval: results.json, per-query values, figures, and tables.

python evaluate.py --model runs/quickstart --tasks sample-stance --baseline sentence-transformers/all-MiniLM-L6-v2
python evaluate.py --model any/encoder --tasks my-stance --data my.jsonl
python evaluate.py --model any/encoder --tasks obliq --baseline bm25
accelerate launch evaluate.py --model any/encoder --tasks bench-obliq-wildchat --cache .cache/vectors
"""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dataset_builders.terminal import print_any_text, told
from hub_models.hub_cache import use_project_cache
from hub_models.options import Lexical, LexicalName, TrustRemoteCode

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)


class EvaluatedSplit(StrEnum):
    test = "test"
    validation = "validation"


class Comparable(StrEnum):
    published = "published"


@app.command()
def main(
    model: Annotated[
        str,
        typer.Option(help="Folder of a run, folder of an encoder, or Hub id; or 'bm25' or 'random'."),
    ],
    tasks: Annotated[
        str,
        typer.Option(
            help="SOURCE-stance or SOURCE-obliq-TASK, several with commas; 'stance' or 'obliq' for all at hand; "
            "'nanobeir'."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your own data for the one task named: JSONL, parquet or a folder; oblique: OBLIQ-Bench's layout."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Compare with this folder, Hub id, 'bm25' or 'random', or with an earlier results.json."),
    ] = None,
    split: Annotated[
        EvaluatedSplit,
        typer.Option(
            help="Which claims or queries to ask about. Without splits, stance data is all test, and the validation "
            "of oblique data is its seeded development split."
        ),
    ] = EvaluatedSplit.test,
    late_interaction: Annotated[
        bool, typer.Option("--late-interaction", help="The model has a vector for each token. Oblique tasks.")
    ] = False,
    ablation: Annotated[
        bool,
        typer.Option("--ablation", help="Delete the queries' words one at a time: RIS, RCS and DI. Stance tasks."),
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Keeps the vectors here: killed runs go on, several processes share, and a run added later sees the "
            "same vectors to the last bit, so that texts which the tokenizer cannot tell apart keep their order.",
        ),
    ] = None,
    allow_dangling: Annotated[
        bool,
        typer.Option(
            "--allow-dangling", help="Take judgements of absent documents and print the ceiling. Oblique tasks."
        ),
    ] = False,
    rerank: Annotated[
        str | None,
        typer.Option(
            help="Rerank what was found first, several with commas: identity, tourrank:Y, listwise:K, sliding:K, "
            "cross-encoder:ID (stance tasks: only this one), auto (chosen on development queries, and kept in a run's "
            "slant.json), rewrite, oracle-tournament:Y. With --cache nothing is encoded twice."
        ),
    ] = None,
    rerank_depth: Annotated[int, typer.Option(min=2, help="Documents of a query that are reranked.")] = 100,
    llm: Annotated[
        str | None,
        typer.Option(
            help="Language model that --rerank asks. Its answers and results are kept under its name, host and our "
            "prompts: when another one answers to that name there, give another --out and --cache."
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Its OpenAI-compatible endpoint; without one a provider of the Hub.")
    ] = None,
    compare: Annotated[
        Comparable | None, typer.Option(help="Set the paper's own numbers of this model beside it. Stance tasks.")
    ] = None,
    hybrid: Annotated[
        str | None,
        typer.Option(
            help="Stance tasks: also with BM25 of the claim beside the dense scores, at these weights in [0, 1], with "
            "commas; 'auto' chooses one by query with what `python -m hub_models tune` fitted."
        ),
    ] = None,
    lexical: Lexical = LexicalName.slant,
    adapter_scale: Annotated[
        float | None,
        typer.Option(help="Stance tasks: also with the adapter at this scale, 0 to 2. Default: what tune stored."),
    ] = None,
    anchor: Annotated[
        float | None,
        typer.Option(
            help="Stance tasks: also with the model's own base, asked with the claim alone, beside it at this weight "
            "in [0, 1]. Default: what tune stored."
        ),
    ] = None,
    trust_remote_code: TrustRemoteCode = None,
    out: Annotated[
        Path | None, typer.Option(help="Default: RUN/evaluation for a run folder, else results/local/MODEL.")
    ] = None,
) -> None:
    """Measure an encoder on stance-aware and oblique retrieval, beside a baseline if one is given."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("hub_models").setLevel(logging.INFO)
    use_project_cache()  # before anything imports the Hub clients
    from hub_models.evaluation.figures import draw
    from hub_models.evaluation.hybrid import variants
    from hub_models.evaluation.policy import keep_choices
    from hub_models.evaluation.report import report
    from hub_models.evaluation.report_published import beside_published, curriculum_of
    from hub_models.evaluation.rerank_option import Rerankings, language_model, rerankings
    from hub_models.evaluation.run import evaluate_model, load_tasks, share_encoding
    from hub_models.evaluation.stance import Judgements

    try:
        names = [name.strip() for name in tasks.split(",")]
        judged = load_tasks(names, data, split.value, allow_dangling=allow_dangling)
        if compare and not any(isinstance(found, Judgements) for found in judged.values()):
            raise ValueError(f"got --compare published with {', '.join(judged)}, wanted a stance task")
        if rerank is None and (llm, base_url) != (None, None):
            raise ValueError("got --llm or --base-url and no --rerank: say what the language model is to rerank")
        curriculum = curriculum_of(model) if compare else None
        if share_encoding(model, judged, cache, baseline, trust_remote_code):
            return
        of_stance = variants(
            model, judged, hybrid=hybrid, lexical=lexical.value, adapter_scale=adapter_scale, anchor=anchor
        )
        asked = language_model(llm, base_url, cache)
        reranked = Rerankings()
        if rerank is not None:
            reranked = rerankings(
                rerank,
                judged,
                names,
                data,
                split.value,
                depth=rerank_depth,
                model=asked,
                allow_dangling=allow_dangling,
            )
        evaluation = evaluate_model(
            model,
            judged,
            out=out,
            baseline=baseline,
            late_interaction=late_interaction,
            cache=cache,
            ablation=ablation,
            variants=[*of_stance, *reranked.stance],
            oblique_variants=reranked.oblique,
            trust_remote_code=trust_remote_code,
        )
        keep_choices(model, evaluation.results, judged, reranked.oblique)
    except (ValueError, OSError, RuntimeError) as error:
        raise told(error) from error
    failed = False
    for name in judged:
        typer.echo(report(evaluation.results, name, evaluation.baseline))
        if compare and isinstance(judged[name], Judgements):
            typer.echo(beside_published(evaluation.results, name, curriculum))
        try:
            for figure in draw(evaluation, name):
                typer.echo(f"figure   {figure}")
        except (ValueError, OSError, RuntimeError) as error:  # the numbers are there and stand
            typer.echo(f"error: {name}: measured, but its figures are not drawn: {error}", err=True)
            failed = True
    typer.echo(f"results  {evaluation.results_path}")
    if failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    print_any_text()
    app()
