"""What a data set's card says in words, by kind and source."""

from __future__ import annotations

from typing import Any

from dataset_builders.builds import Build
from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, OBLIQUE_INSTRUCTIONS, SEEN, UNSEEN
from dataset_builders.sources import perspectrum, sample
from dataset_builders.sources.obliq_bench import TASKS as TASKS
from dataset_builders.stance.curricula import TRIPLETS_PER_CELL
from dataset_builders.stance.inversions import AGAIN, PROMPT, PROMPT_SHA256

OBLIQUE_TABLES = frozenset(
    {"Oblique tasks", "NDCG@10 of BM25 and of a random order", "Queries and their documents (O table J.1)"}
)

_STANCE_PAPER = "[Embedding Models for Stance-Aware Argument Retrieval](https://arxiv.org/abs/2608.28283)"
_OBLIQUE_PAPER = "[OBLIQ-IR: Training a Dense Retriever for Oblique Queries](https://arxiv.org/abs/2609.29649)"
PAPER = {False: _STANCE_PAPER, True: _OBLIQUE_PAPER}

WHAT = {
    "stance-triplets": (
        "Training triplets for search **by stance**: an instruction and a claim, an argument that does what the "
        "instruction asks, and one that does not. Three curricula differ in the negatives alone."
    ),
    "stance-arguments": (
        "Claims, arguments, and who supports or attacks what; and, made from them, the corpus, queries and judgements "
        "that MTEB reads."
    ),
    "stance-inversions": (
        "Arguments rewritten so that their facts stand and their stance towards the claim flips, each beside its "
        "original."
    ),
    "obliq-bench": (
        "Five small tasks of **oblique** search: a query names or shows a property that no document states."
    ),
}

LAYOUT = {
    "stance-triplets": (
        "There is no ready-made query: a recipe's template makes one of `instruction` and `claim`. `negatives` holds "
        "texts with their kind: `hard` (same claim, other stance), `semi_hard` (same stance, other claim), `easy` "
        "(neither), `inverted` (the positive rewritten). `homogeneous` has hard negatives only, `mixed` a third of "
        "each, `mixed_aug` half of that third of hard ones inverted."
    ),
    "stance-arguments": (
        "`relations` ties `arguments` to `claims`; an argument may serve several claims. `style` is `explicit` "
        "where an argument names its verdict and `natural` where it does not. `corpus`, `queries` and `qrels` are "
        "made from these: the corpus of `test` is the arguments of all test and validation claims. No group of "
        "near-duplicate claims, or of claims that share an argument, is cut by a split unless upstream cut it."
    ),
    "stance-inversions": (
        "`jaccard` is the share of words that an original and its inversion have in common; `original_stance` is "
        "the stance that was flipped."
    ),
    "obliq-bench": (
        "For each task `-corpus`, `-queries` (with `group_id`, the attribute: the unit of splits and of intervals) "
        "and `-qrels`; `-excluded` names documents that may not be returned for a query. The corpus of `test` is "
        "all there is, that of `validation` its own documents and the distractors. Training documents are in neither."
    ),
}

_CATEGORIES = {
    "stance-triplets": ["sentence-similarity", "text-retrieval"],
    "stance-arguments": ["text-retrieval"],
    "stance-inversions": ["text-classification"],
    "obliq-bench": ["text-retrieval"],
}

_SLANT = """@article{sparacino2026stance,
  title         = {Embedding Models for Stance-Aware Argument Retrieval},
  author        = {Sparacino, Angelo and Toni, Francesca and Dejl, Adam},
  year          = {2026},
  eprint        = {2608.28283},
  archivePrefix = {arXiv}
}"""
_OBLIQUE = """@article{abdalla2026obliq,
  title         = {OBLIQ-IR: Training a Dense Retriever for Oblique Queries},
  author        = {Abdalla, Mahmoud and Abdallah, Abdelrahman and Sedek, Shaimaa and Jatowt, Adam},
  year          = {2026},
  eprint        = {2609.29649},
  archivePrefix = {arXiv}
}"""
_PERSPECTRUM = """@inproceedings{chen2019perspectrum,
  title     = {Seeing Things from a Different Angle: Discovering Diverse Perspectives about Claims},
  author    = {Chen, Sihao and Khashabi, Daniel and Yin, Wenpeng and Callison-Burch, Chris and Roth, Dan},
  booktitle = {Proceedings of NAACL-HLT},
  year      = {2019}
}"""


def metadata(build: Build) -> dict[str, Any]:
    """Metadata of the card besides licence, size and configs. The language of a user's own data is not known here."""
    oblique = build.kind == "obliq-bench"
    known = build.source in (sample.NAME, perspectrum.NAME)
    return {
        **({"language": ["en"]} if known else {}),
        "task_categories": _CATEGORIES[build.kind],
        "tags": ["slant", "oblique-retrieval"] if oblique else ["slant", "stance", "argument-retrieval"],
    }


def made(build: Build) -> list[str]:
    """How it was made, line by line."""
    seed = build.facts["seed"]
    lines = {
        sample.NAME: [
            "All texts were written for this sample after one guideline, which stands in the README of Slant's "
            "sample; none is taken from elsewhere."
        ],
        perspectrum.NAME: [
            "Texts, labels and splits are those of Perspectrum 1.0; of each cluster the original wording."
        ],
    }.get(build.source, ["Texts and labels are those of the publisher's own file."])
    if build.source not in (sample.NAME, perspectrum.NAME):
        lines.append(f"Where the file gave no splits, they were drawn 70/10/20 by group, with the seed {seed}.")
    if build.kind == "stance-triplets":
        asked = build.facts["arguments"]["triplets"]
        each = (
            f"{asked:,} rows for each train curriculum"
            if asked
            else f"{TRIPLETS_PER_CELL} rows for each claim and instruction"
        )
        lines.append(f"{each}, drawn with the seed {seed}; the three curricula are one list of anchors and positives.")
    if build.kind == "stance-arguments":
        lines.append(
            f"`queries` puts the ten unseen instructions before each claim by the template "
            f"`{DEFAULT_QUERY_TEMPLATE}`; another template is formatted anew from the columns."
        )
    if build.kind == "obliq-bench":
        lines.append("Queries stand bare; the task's instruction below goes before each of them.")
    return [
        *lines,
        "The same command gives the same bytes: "
        f"`python -m dataset_builders build {build.name} --seed {seed}`"
        + ("." if build.source == sample.NAME else " with the same `--source`."),
    ]


def instructions(kind: str) -> list[list[str]]:
    """The exact instructions that stand in the data or go before it; none for inversions."""
    if kind == "obliq-bench":
        return [["task", "instruction"], *([task, OBLIQUE_INSTRUCTIONS[task]] for task in TASKS)]
    if kind == "stance-inversions":
        return []
    used = SEEN if kind == "stance-triplets" else UNSEEN
    return [["id", "instruction"], *([i.id, i.text] for i in used)]


def generators(build: Build) -> list[list[str]]:
    """Who wrote the rewritten texts."""
    rows = sorted(build.generators.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    table = [[name, prompt or "no prompt", f"{n:,}"] for (name, prompt), n in rows]
    return [["generator", "SHA-256 of the prompt", "rewritten texts"], *table] if table else []


def prompts(build: Build) -> dict[str, str]:
    """The exact prompts behind the rewritten texts, by their SHA-256."""
    used = {sha for _, sha in build.generators}
    return {sha: text for sha, text in {PROMPT_SHA256: f"{PROMPT}\n{AGAIN}"}.items() if sha in used}


def bias(build: Build) -> str:
    """One sentence or two on whoever wrote the texts."""
    if any(name != "authored" for name, _ in build.generators):
        return (
            "Part of them is by a language model: its phrases, its notion of a fair argument and its blind spots "
            "are in the data, and a model trained on it can learn to tell the generator in place of the stance."
        )
    if build.source == sample.NAME:
        return (
            "A few authors wrote all of them: their taste, their English and their harmless subjects are in the "
            "data, and every claim has as many supporting as attacking arguments, which is so nowhere else."
        )
    return "Their selection, their language and their time are in the data."


def issues(build: Build) -> list[str]:
    """What is known to be weak in the source."""
    unknown = sorted({sha for _, sha in build.generators if sha} - prompts(build).keys())
    found = [f"The text of the prompt `{sha[:16]}…` is not that of this version and is not shown." for sha in unknown]
    if build.source != sample.NAME:
        found.append("Labels are those of the source and were not checked by reading.")
    elif build.kind == "obliq-bench":
        found.append(
            "A test split has 4 to 8 attributes a task and at most 156 documents: too few to rank systems by."
        )
    else:
        found.append("A test split of 40 claims is too small for a leaderboard; use larger data to compare systems.")
    return found


def chain(licences: list[str]) -> str:
    """What the licences mean together."""
    if len(licences) == 1:
        return "All rows have the same licence; whatever is made from this data owes the attribution that it asks for."
    return "Several licences meet here: each binds the rows that carry it, and all bind what is made from all rows."


def citations(source: str, oblique: bool) -> list[str]:
    """BibTeX of the source and of the method."""
    return [*([_PERSPECTRUM] if source == perspectrum.NAME else []), _OBLIQUE if oblique else _SLANT]
