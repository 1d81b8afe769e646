"""Small stance data and encoders made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from dataset_builders.schema import Argument, Claim, Relation, Split, Style
from dataset_builders.stance.data import StanceData
from hub_models.adapter import attach_lora
from hub_models.base import load_base
from hub_models.evaluation.metrics import Float32
from tests.tiny import REVISION, tiny

TINY = "stance-bge-large"


def claim(claim_id: str, text: str | None = None, split: Split | None = "test") -> Claim:
    return Claim(claim_id, text or f"Claim {claim_id}.", None, None, claim_id, split, "made", "cc0-1.0")


def argument(argument_id: str, text: str | None = None, style: Style | None = None) -> Argument:
    return Argument(argument_id, text or f"Argument {argument_id}.", style, "made", "cc0-1.0")


def made(
    claims: Sequence[Claim], arguments: Sequence[Argument], relations: Sequence[tuple[str, str, str]]
) -> StanceData:
    """Stance data from (argument, claim, stance) rows."""
    return StanceData("made", list(claims), list(arguments), [Relation(a, c, s) for a, c, s in relations])


def random_data(seed: int, *, n_claims: int = 6, n_arguments: int = 30) -> StanceData:
    """Claims over two splits, arguments of both styles that share claims, texts that repeat, sides that are empty."""
    rng = np.random.default_rng(seed)
    splits: list[Split] = ["test", "test", "validation", "train"]
    claims = [claim(f"c{i}", split=splits[i % 4]) for i in range(n_claims)]
    styles: list[Style] = ["explicit", "natural"]
    arguments = [argument(f"a{i}", f"text {rng.integers(n_arguments)}", styles[i % 2]) for i in range(n_arguments)]
    relations = {
        (f"a{rng.integers(n_arguments)}", f"c{rng.integers(n_claims)}", str(rng.choice(["support", "attack"])))
        for _ in range(2 * n_arguments)
    }
    return made(claims, arguments, sorted(relations))


def random_encoder(seed: int, dim: int = 4) -> Callable[[Sequence[str]], Float32]:
    """A vector of its own for each text: small whole numbers, so that scores are exact and often tie."""

    def encode(texts: Sequence[str]) -> Float32:
        return np.array([np.random.default_rng([seed, *t.encode()]).integers(-2, 3, dim) for t in texts], np.float32)

    return encode


def write_short_form(path: Path, n_claims: int = 4) -> Path:
    """A small file of one's own, each claim with arguments of both styles: real sentences, that an encoder can tell
    apart."""
    topics = ["cars in cities", "school uniforms", "nuclear power", "homework", "zoos", "tea"][:n_claims]
    rows = []
    for topic in topics:
        shared = {"claim": f"We should ban {topic}.", "split": "test"}
        natural = {
            "support": [f"A ban on {topic} would make life calmer.", f"There is little good in {topic}."],
            "attack": [f"Many people depend on {topic}.", f"A ban on {topic} would be unfair and costly."],
        }
        explicit = {
            "support": [f"The claim is true because {topic} are a burden to all."],
            "attack": [f"The claim is false because {topic} do more good than harm."],
        }
        rows += [shared | {"style": "natural"} | natural, shared | {"style": "explicit"} | explicit]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_run(folder: Path, *, template: str = "{instruction} {claim}", strength: float = 0.02) -> Path:
    """A run folder as training leaves it, with an adapter of random weights on a tiny base."""
    recipe = tiny(TINY)
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * strength
    model.save_pretrained(str(folder), create_model_card=False)
    pins = {"base": recipe.base, "base_revision": REVISION, "query_template": template}
    (folder / "slant.json").write_text(json.dumps(pins), encoding="utf-8")
    return folder
