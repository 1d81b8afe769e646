"""The commands of ``python -m hub_models`` that put models and Spaces on the Hub, or look at what is there.

The token comes from ``HF_TOKEN`` or `hf auth login`; no option takes one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dataset_builders.terminal import told
from hub_models.options import TrustRemoteCode

app = typer.Typer()

Org = Annotated[str, typer.Option(help="Organisation or user on the Hub.")]
Tag = Annotated[str, typer.Option(help="Tag of the release; one that is set stays where it is.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
Merged = Annotated[bool, typer.Option("--merged", help="The merged model too, in a repository of its own.")]
Run = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A run folder of train.py.")]


@contextmanager
def _reaching_the_hub(needs: str | None = None, doing: str = "release") -> Iterator[None]:
    """Errors as one line; and, before anything slow is imported, whether the repository ``needs`` can be reached."""
    from huggingface_hub import constants

    from dataset_builders.hub_errors import HubError, offline
    from dataset_builders.hub_remote import check_name

    for name in ("httpx2", "httpx", "onnx_ir", "onnxscript"):  # every request, every rewritten node
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        if needs is not None:
            if constants.HF_HUB_OFFLINE:
                raise offline(doing)
            check_name(needs)
        yield
    except (ValueError, OSError, HubError) as error:
        raise told(error) from None
    except RuntimeError as error:
        if type(error).__name__ != "GateError":  # which would bring torch along
            raise
        raise told(f"the gate refuses the run: {error}") from None


@app.command()
def release(
    run: Run,
    org: Org,
    merged: Merged = False,
    base_id: Annotated[str | None, typer.Option(help="Hub id of a base that was loaded from a folder.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Make new repositories private.")] = False,
    tag: Tag = "v1.0.0",
    dry_run: DryRun = False,
) -> None:
    """Release a run: gate, one commit, read back by a fresh process, tag."""
    with _reaching_the_hub(f"{org}/model"):
        from hub_models import publish

        for done in publish.release(
            run, org, merged=merged, base_id=base_id, private=private, tag=tag, dry_run=dry_run
        ):
            for line in [*([done.card] if dry_run else []), *done.plan.lines()]:
                typer.echo(line)
            if done.commit is not None:
                state = "released" if done.commit.made else "up to date"
                typer.echo(f"{state}: {done.repo_id} at {done.commit.sha}, {tag}")


@app.command()
def verify(
    repo_id: Annotated[str, typer.Argument(help="A release on the Hub: organisation/name.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit; the newest by default.")] = None,
    trust_remote_code: TrustRemoteCode = None,
) -> None:
    """Load a release as a stranger does, check its files, and compare its vectors with the trained model's."""
    with _reaching_the_hub(repo_id, "verify"):
        from hub_models import verify as verification

        typer.echo(verification.verify(repo_id, revision, trust_remote_code=trust_remote_code).line())


@app.command()
def merge(run: Run, trust_remote_code: TrustRemoteCode = None) -> None:
    """Merge a run's adapter into its base, in a folder beside it, and measure what that changes."""
    with _reaching_the_hub():
        from hub_models import merge as merging

        folder = merging.merged(run, trust_remote_code)
        typer.echo((folder / merging.DIFFERENCE_NAME).read_text(encoding="utf-8"))
        typer.echo(f"merged: {folder}")


@app.command()
def onnx(
    model: Annotated[str, typer.Argument(help="Folder or Hub id of an encoder without an adapter.")],
    out: Annotated[Path, typer.Option(dir_okay=False, help="The file to write, such as model.onnx.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a Hub model.")] = None,
) -> None:
    """Export a model as ONNX: token ids and mask to the sentence's vector. Needs the extra `onnx`."""
    with _reaching_the_hub():
        import torch

        from hub_models import encoder, onnx_parity

        try:
            onnx_parity.export(encoder.load(model, revision=revision, device="cpu"), out)
        except ImportError as error:
            raise ValueError(f"{error.name} is not installed; install the extra `onnx`") from None
        except torch.onnx.OnnxExporterError as error:
            raise ValueError(f"torch.onnx cannot export {model}: {str(error).splitlines()[0]}") from None
        typer.echo(f"written: {out}")


@app.command("release-space")
def release_space(
    name: Annotated[str, typer.Argument(help="A folder under spaces/.")], org: Org, dry_run: DryRun = False
) -> None:
    """Push a Space with the package inside it and the released model as its default."""
    with _reaching_the_hub(f"{org}/{name}"):
        from hub_models import space

        plan, commit = space.release_space(name, org, dry_run=dry_run)
        for line in plan.lines():
            typer.echo(line)
        if commit is not None:
            typer.echo(f"{'released' if commit.made else 'up to date'}: {org}/{name} at {commit.sha}")


@app.command("release-all")
def release_all(
    org: Org,
    run: Annotated[Path, typer.Option(file_okay=False, help="A run folder of train.py.")] = Path("runs/quickstart"),
    oblique: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="A run of an oblique recipe besides; runs/obliq-minilm if it is there."),
    ] = None,
    merged: Merged = False,
    tag: Tag = "v1.0.0",
    dry_run: Annotated[
        bool | None, typer.Option("--dry-run/--push", help="Print what would be done, or do it; one of the two.")
    ] = None,
) -> None:
    """Release data, models, Spaces and a collection, in this order; what is up already is skipped."""
    if dry_run is None:
        raise typer.BadParameter("give --dry-run to look or --push to release")
    with _reaching_the_hub(f"{org}/model"):
        from hub_models.release_all import release_all as all_of_it

        if oblique is None and (at_hand := Path("runs/obliq-minilm")).is_dir():
            oblique = at_hand
        made = 0
        for step in all_of_it(run, org, oblique=oblique, merged=merged, tag=tag, dry_run=dry_run):
            made += step.made and step.kind != "collection"
            for line in step.lines:
                typer.echo(f"{step.kind:<11}{line}")
        if not dry_run:
            typer.echo(f"{made} commits")
