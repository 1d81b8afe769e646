"""The base of a recipe, ready for an adapter: pooling, length, padding, end token, prompts."""

from __future__ import annotations

import re
from typing import Any, Literal

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import processors

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, STANCES, query_prefix, seen_for
from hub_models.hub_cache import ensure_base
from hub_models.model_files import ADAPTER_CONFIG, find, loading, no_such_model, read_json, runs_own_code
from hub_models.recipe import Recipe


def load_base(recipe: Recipe, *, device: str | None = None) -> SentenceTransformer:
    """The recipe's base, ready for an adapter: pooling, length, padding, end token, prompts and similarity set.

    A base with ``modules.json`` keeps its own modules, which must agree with the recipe; for a plain transformer the
    recipe's pooling and a normalisation are added. The weights keep the precision they were published in, because that
    is what plain loading of the release will give.

    Raises:
        FileNotFoundError: If there is no such base.
        ValueError: If the base brings code that the recipe does not name, is no transformer or itself an adapter, its
            weights are damaged, its pooling is known neither from it nor from the recipe, or what both say differs; or
            if it should attend both ways and does not.
    """
    ensure_base(recipe.base)
    adapter_config = find(recipe.base, ADAPTER_CONFIG, recipe.base_revision)
    if adapter_config is not None:
        own = read_json(adapter_config).get("base_model_name_or_path")
        raise ValueError(
            f"base {recipe.base}: got an adapter on {own}, wanted a whole encoder: an adapter is not put on another; "
            f"set base={own}"
        )
    code = runs_own_code(recipe.base, recipe.base_revision, recipe.trust_remote_code)
    with loading(recipe.base):
        if find(recipe.base, "modules.json", recipe.base_revision) is not None:
            model = SentenceTransformer(
                recipe.base, revision=recipe.base_revision, device=device, trust_remote_code=code
            )
        else:
            model = _with_pooling(recipe, device, code)
    _check_modules(model, recipe)
    if recipe.bidirectional and not attends_both_ways(model):
        raise ValueError(
            f"base {recipe.base}: its first token does not see the last one, recipe {recipe.name} wants attention "
            "both ways; its code does not fit this version of transformers, or it is a decoder: set "
            "bidirectional=false to train it as it is"
        )
    # In the paper's mode the instruction is pooled like the claim; Instructor's own configuration leaves it out.
    model.set_pooling_include_prompt(True)
    if recipe.end_token is not None:
        _append_end_token(model.tokenizer, recipe.end_token)
    if recipe.pooling == "lasttoken":
        _pad_on(model.tokenizer, "left")
    pad_for_absolute_positions(model)
    model.max_seq_length = min(recipe.max_seq_length, model.max_seq_length or recipe.max_seq_length)
    model.prompts = prompts(recipe.query_template)
    model.default_prompt_name = None
    model.similarity_fn_name = "cosine"
    # Else adapter_config.json would name a folder of this machine wherever the base came from the cache.
    model.transformers_model.name_or_path = recipe.base
    return model


def prompts(query_template: str, family: Literal["stance", "oblique"] = "stance") -> dict[str, str]:
    """The prompts of a release as prefixes: the first seen instruction of each stance, or the instruction of each
    oblique task; queries and documents bare."""
    instructions: dict[str, str] = (
        OBLIQUE_INSTRUCTIONS if family == "oblique" else {stance: seen_for(stance)[0].text for stance in STANCES}
    )
    named = {name: query_prefix(query_template, instruction) for name, instruction in instructions.items()}
    return named | {"query": "", "document": ""}


def _with_pooling(recipe: Recipe, device: str | None, code: bool) -> SentenceTransformer:
    if find(recipe.base, "config.json", recipe.base_revision) is None:
        raise FileNotFoundError(no_such_model(recipe.base, recipe.base_revision))
    if recipe.pooling is None or recipe.dense is not None:
        raise ValueError(
            f"base {recipe.base} has no modules.json, so its pooling is not known and a projection has no weights: "
            f"got pooling {recipe.pooling} and dense {recipe.dense}; set pooling=cls, mean or lasttoken and dense=null"
        )
    # Left out, transformers would ask at the terminal whether to run a repository's code.
    pin: dict[str, Any] = {"revision": recipe.base_revision, "trust_remote_code": code}
    transformer = Transformer(recipe.base, model_kwargs=dict(pin), processor_kwargs=dict(pin), config_kwargs=dict(pin))
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode=recipe.pooling)
    return SentenceTransformer(modules=[transformer, pooling, Normalize()], device=device)


def _check_modules(model: SentenceTransformer, recipe: Recipe) -> None:
    pooling = next((m for m in model if isinstance(m, Pooling)), None)
    if model.transformers_model is None or pooling is None:
        got = [type(m).__name__ for m in model]
        raise ValueError(f"base {recipe.base}: got the modules {got}, wanted a Transformer and a Pooling")
    if recipe.pooling not in (None, pooling.pooling_mode):
        raise ValueError(
            f"base {recipe.base}: its files say pooling {pooling.pooling_mode!r}, recipe {recipe.name} says "
            f"{recipe.pooling!r}; set pooling={pooling.pooling_mode}"
        )
    dense = next((m.out_features for m in model if isinstance(m, Dense)), None)
    if recipe.architecture is not None and recipe.dense != dense:
        raise ValueError(f"base {recipe.base}: its Dense is {dense} wide, recipe {recipe.name} says {recipe.dense}")


@torch.no_grad()
def attends_both_ways(model: SentenceTransformer) -> bool:
    """Whether another last token changes the first token's hidden state, in a text alone and in a padded batch."""
    transformer = model.transformers_model.eval()
    first, second = [i for i in range(len(model.tokenizer)) if i not in model.tokenizer.all_special_ids][:2]
    ids = torch.tensor([[first, second, first, second], [first, second, first, first]], device=transformer.device)

    def state(rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = transformer(input_ids=rows, attention_mask=mask).last_hidden_state
        return hidden[:, 0]

    whole = torch.ones_like(ids)
    padded = torch.cat([whole, torch.zeros_like(whole[:, :1])], dim=1)
    alone = [state(ids[i : i + 1], whole[:1]) for i in (0, 1)]
    longer = torch.cat([ids, ids[:, :1]], dim=1)
    together = state(longer, padded)
    return not torch.equal(*alone) and not torch.equal(together[0], together[1])


def _append_end_token(tokenizer: Any, token: str) -> None:
    """Make every text end with ``token`` exactly once, however short it is cut; saved with the tokenizer."""
    backend, end = tokenizer.backend_tokenizer, tokenizer.get_vocab().get(token)
    if end is None:
        raise ValueError(f"end_token {token!r} is not in the vocabulary of {tokenizer.name_or_path}")

    def ends() -> bool:
        probes = tokenizer(["a", "a b c d e f"], truncation=True, max_length=4)["input_ids"]
        backend.no_truncation()  # else the length of the probe would be saved
        return all(ids[-1] == end and ids.count(end) == 1 for ids in probes)

    if ends():
        return
    template = processors.TemplateProcessing(
        single=f"$A {token}", pair=f"$A {token} $B:1 {token}:1", special_tokens=[(token, end)]
    )
    before = [] if backend.post_processor is None else [backend.post_processor]
    backend.post_processor = processors.Sequence([*before, template])
    if not ends():
        raise ValueError(f"end_token {token!r}: the tokenizer of {tokenizer.name_or_path} appends tokens of its own")


def pad_for_absolute_positions(model: SentenceTransformer) -> None:
    """Pad on the right where position vectors are looked up by index.

    There a pad on the left moves the text to other positions, so that a text alone and in a batch would differ.
    Rotary and relative positions do not care.
    """
    transformer = model.transformers_model
    if transformer is not None and any(
        isinstance(module, torch.nn.Embedding) and re.search(r"position|\bwpe$", name)
        for name, module in transformer.named_modules()
    ):
        _pad_on(model.tokenizer, "right")


def _pad_on(tokenizer: Any, side: Literal["left", "right"]) -> None:
    tokenizer.padding_side = side
    tokenizer.init_kwargs["padding_side"] = side  # the attribute alone is not saved
