"""``results/published/REPRODUCE.md``: how to come by each published line of the stance paper, and what to expect.

Made from ``stance.yaml`` and the recipes: ``python -m hub_models reproduce > results/published/REPRODUCE.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from hub_models.evaluation.published import StanceRow, stance_rows, stance_sizes
from hub_models.plan import plan
from hub_models.recipe import Recipe, load_recipe, recipe_names

FILES = {
    "tfu-heldout": "tfu_training_heldout.json",
    "tfu-validation-gpt5": "tfu_validation_gpt5.json",
    "tfu-validation-qwen3-8b": "tfu_validation_qwen.json",
    "argtumour": "argtumour.json",
    "tfu-evaluation": "tfu_evaluation.json",
    "averitec": "averitec.json",
}
"""Corpus to its file in S's ``as9122/stance-evaluation-corpora``."""

RERANKER = "Qwen/Qwen3-Reranker-8B"
STANCES = ("attack", "support", "overall")

AS_IS, TRAINED, TRAINED_SMALL = 0.005, 0.03, 0.06
"""Tolerances; see `_INTRODUCTION`."""

_FEW_CLAIMS = 20
_GIB = 2**30

_INTRODUCTION = f"""# The stance paper's tables: how to come by each number

Generated from `stance.yaml` by `python -m hub_models reproduce`; a test holds the two together. None of these rows has
been reproduced here yet: the bases and S's data lie on the Hub, and the large ones want a GPU.

S's retrieval tables cut at min(R, 10), so they compare with our `_cap10` metrics; `evaluate.py --compare published`
prints the two and their difference. Expected values stand as attack / support / overall; a line holds if each of our
means is within its tolerance:

- ± {AS_IS} where nothing is trained: rounding, the order of ties, and arithmetic in bf16 on other hardware;
- ± {TRAINED} where an adapter is trained anew, ± {TRAINED_SMALL} on a corpus of fewer than {_FEW_CLAIMS} claims: S
  gives neither seeds nor the enumeration of its triplets, and trained each curriculum once.

The tolerances are our judgement; S states none. Hardware: S used single L40S and A40 GPUs of 48 GB.
"""


def page() -> str:
    """The whole page."""
    rows = stance_rows()
    retrieval = [row for row in rows if "ndcg_at_10" in row.cells]
    ablation = [row for row in rows if "ris" in row.cells]
    recipes = _recipes(rows)
    lines = [_INTRODUCTION, *_data(), "", *_training(recipes)]
    for table, found in groupby(retrieval, lambda row: row.table):
        lines += ["", *_retrieval(table, list(found), recipes)]
    for table, found in groupby(ablation, lambda row: row.table):
        lines += ["", *_ablation(table, list(found), recipes)]
    return "\n".join(lines) + "\n"


def _recipes(rows: Sequence[StanceRow]) -> dict[str, Recipe]:
    """Base to the recipe that adapts it."""
    found = {made.base: made for made in map(load_recipe, recipe_names())}
    return {base: found[base] for base in dict.fromkeys(row.base for row in rows)}


def _data() -> Iterator[str]:
    yield "## Data (table 1)"
    yield ""
    yield "`CORPORA` stands for a copy of the data set `as9122/stance-evaluation-corpora`; S's triplets are"
    yield "`as9122/stance-tfu-training`. `python -m dataset_builders check SOURCE --data FILE` prints these counts, to"
    yield "be met exactly, but for the training claims, which are public as triplets only."
    yield ""
    yield "| source | file | claims | supporting | a claim (least-most) | attacking | a claim (least-most) |"
    yield "|---|---|---|---|---|---|---|"
    for corpus, n in stance_sizes().items():
        support = f"{n['support']} | {n['support_per_claim']:.2f} ({n['support_min']}-{n['support_max']})"
        attack = f"{n['attack']} | {n['attack_per_claim']:.2f} ({n['attack_min']}-{n['attack_max']})"
        yield f"| {corpus} | {FILES.get(corpus, 'rebuilt from the triplets')} | {n['claims']} | {support} | {attack} |"


def _training(recipes: dict[str, Recipe]) -> Iterator[str]:
    yield "## Models"
    yield ""
    yield "`MODEL` below is a base's Hub id or one of these runs. Memory is `plan`'s estimate for training."
    yield ""
    yield "| base | GPU memory | to train a CURRICULUM of homogeneous, mixed, mixed_aug |"
    yield "|---|---|---|"
    for base, recipe in recipes.items():
        gib = sum(plan(recipe).memory.values()) / _GIB
        command = f"python train.py --recipe {recipe.name} --set data.0.config=CURRICULUM --out {_run(recipe, None)}"
        yield f"| {base} | {gib:.0f} GiB | `{command}` |"
    yield ""
    yield "S published adapters too, such as `as9122/qwen3-8b-embedding-stance-mixed`: where one is evaluated in place"
    yield f"of a run trained anew, expect ± {AS_IS}."


def _run(recipe: Recipe, curriculum: str | None) -> str:
    return f"runs/{recipe.name}-{curriculum or 'CURRICULUM'}"


def _model(row: StanceRow, recipes: dict[str, Recipe]) -> str:
    return _run(recipes[row.base], row.curriculum) if row.curriculum else row.base


def _tolerance(row: StanceRow) -> float:
    if row.curriculum is None:
        return AS_IS
    return TRAINED_SMALL if stance_sizes()[row.corpus]["claims"] < _FEW_CLAIMS else TRAINED


def _evaluate(row: StanceRow, options: str) -> str:
    data = f"--tasks {row.corpus}-stance --data CORPORA/{FILES[row.corpus]}"
    return f"python evaluate.py --model MODEL {data} --compare published{options}"


def _retrieval(table: str, rows: list[StanceRow], recipes: dict[str, Recipe]) -> Iterator[str]:
    first = rows[0]
    yield f"## Table {table}: {first.corpus}, {first.base.split('/')[-1]}"
    yield ""
    yield f"`{_evaluate(first, '')}`, for the hybrid rows with `--hybrid 0.1,0.15,0.2 --lexical s`"
    if any(row.reranked for row in rows):
        yield f"and for the reranked ones with `--rerank cross-encoder:{RERANKER}`"
    yield ""
    yield "| row | MODEL | NDCG@10 | P@R | hard@R | semi-hard@R | easy@R | ± |"
    yield "|---|---|---|---|---|---|---|---|"
    for system, found in groupby(rows, lambda row: row.system):
        by_slice = {row.slice: row for row in found}
        cells = [
            " / ".join(f"{by_slice[s].cells[metric].mean:.3f}" for s in STANCES)
            for metric in by_slice["overall"].cells
        ]
        row = by_slice["overall"]
        yield f"| {system} | `{_model(row, recipes)}` | {' | '.join(cells)} | {_tolerance(row)} |"


def _ablation(table: str, rows: list[StanceRow], recipes: dict[str, Recipe]) -> Iterator[str]:
    yield f"## Table {table}: {rows[0].corpus}, word ablation"
    yield ""
    yield f"`{_evaluate(rows[0], ' --ablation')}`"
    yield ""
    yield "| base | row | MODEL | RIS | RCS | DI (positive) | DI (hard negative) | ± |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        cells = [f"{cell.mean:.3f}" for cell in row.cells.values()]
        model = f"`{_model(row, recipes)}`"
        name = row.base.split("/")[-1]
        yield f"| {name} | {row.system} | {model} | {' | '.join(cells)} | {_tolerance(row)} |"
