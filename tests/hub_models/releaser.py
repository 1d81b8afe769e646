"""Commands of ``hub_models`` against one loopback Hub, forked from a process that has imported everything."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import torch

from hub_models.adapter import attach_lora
from hub_models.base import load_base
from hub_models.cards import write_card
from hub_models.manifest import adapter_sha256
from hub_models.recipe import Recipe
from hub_models.release import probe
from tests.dataset_builders.publisher import Publisher, serve
from tests.hub.clients import TestHub
from tests.hub.store import Commit
from tests.run_folders import manifest
from tests.tiny import REVISION, build, tiny

NAME = "tiny-stance-lora"
BASE = "slant-tests/tiny-bge-large"
RECIPE = "stance-bge-large"
CARD = b"---\nlicense: mit\n---\n# A tiny base\n"


class Releaser(Publisher):
    """Forks ``python -m hub_models``; ``read_back=False`` leaves out the gate's and the stranger's processes."""

    module = "tests.hub_models.releaser"


def make_run(folder: Path, recipe: Recipe | None = None, *, seed: int = 1, **changes: object) -> Path:
    """A run as training leaves it, with a random adapter on a tiny base."""
    recipe = recipe or tiny(RECIPE)
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    torch.manual_seed(seed)
    for name, matrix in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(matrix, std=0.2)
    model.save_pretrained(str(folder), create_model_card=False)
    facts = {
        "name": NAME,
        "base": recipe.base,
        "base_revision": recipe.base_revision,
        "base_licence": "mit",
        "query_template": recipe.query_template,
        "prompts": dict(model.prompts),
        "max_seq_length": recipe.max_seq_length,
        "pooling": recipe.pooling,
        "adapter_sha256": adapter_sha256(folder),
    }
    manifest(**{**facts, **changes}).write(folder)
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    (folder / "train.log").write_text("{}\n")
    write_card(folder)
    probe(model).write(folder)
    return folder


def put_base(hub: TestHub, folder: Path, *, seed: int = 0) -> None:
    """The tiny base on the Hub under its id, its first commit the one that recipes pin."""
    build(RECIPE, seed=seed).save_pretrained(str(folder))
    files: dict[str, bytes | Path] = {
        p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file() and p.name != "README.md"
    }
    first = ("model", BASE) not in hub.store.repos
    commit = hub.put("model", BASE, {**files, "README.md": CARD})
    if first:
        rename(hub, BASE, commit, REVISION)


def rename(hub: TestHub, repo_id: str, commit: Commit, sha: str) -> None:
    """Give the head of a repository the sha that a recipe pins."""
    repo = hub.repo("model", repo_id)
    repo.commits[sha] = dataclasses.replace(repo.commits.pop(commit.oid), oid=sha)
    repo.branches["main"] = sha


def _serve() -> None:
    import datasets  # noqa: F401
    import huggingface_hub.hf_api  # noqa: F401

    from dataset_builders import __main__ as builders
    from dataset_builders import publish as data
    from hub_models import __main__ as command
    from hub_models import publish, release_all, space  # noqa: F401

    if spaces := os.environ.get("TEST_SPACES"):
        space.SPACES = Path(spaces)

    def skip() -> None:
        data.readback.compare = lambda *asked: None
        publish.gate = lambda *asked: None
        publish._verify = lambda *asked: None

    def either(argv: list[str]) -> None:
        (builders if argv[0] == "publish" else command).app(argv)

    serve(either, skip)


if __name__ == "__main__":
    _serve()
