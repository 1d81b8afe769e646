"""What a data set's card says in words, by kind and source."""

from __future__ import annotations

from typing import Any

from dataset_builders.builds import ROW_KINDS, Build
from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, OBLIQUE_INSTRUCTIONS, SEEN, UNSEEN
from dataset_builders.markdown import cell
from dataset_builders.negatives import NEGATIVES
from dataset_builders.oblique import lenses
from dataset_builders.oblique.gate import QUERIES
from dataset_builders.oblique.row_report import OVERLAP, ROWS
from dataset_builders.sources import oblique as oblique_sources
from dataset_builders.sources import perspectrum, sample
from dataset_builders.sources.obliq_bench import REPO, REVISION
from dataset_builders.sources.obliq_bench import TASKS as TASKS
from dataset_builders.stance.curricula import TRIPLETS_PER_CELL
from dataset_builders.stance.inversions import AGAIN, PROMPT, PROMPT_SHA256

OBLIQUE_TABLES = frozenset({"Oblique tasks", "NDCG@10 of BM25 and of a random order", OVERLAP, ROWS})

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
    "obliq-queries": (
        "Training rows for **oblique** search: a query that names or shows a property, a document that has it and "
        "never states it, and four documents that a keyword search takes for better ones."
    ),
    "obliq-style-pairs": (
        "Training rows for search by an author's **hand**: a line that describes the style of one text, and another "
        "text that a frozen specialist of style holds to be near it. Nobody checked that they have one author."
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
    "obliq-queries": (
        "`instruction` goes before `query` by a recipe's template; `lens` says how the query was made; `negatives` "
        "are hard ones of the kind `bm25`, by rank; `attribute` is the positive's, where somebody labelled it; "
        "`generator` wrote the query. `all` holds every row, the other configs those of one task. Rows that "
        "share `positive_id` are no negatives for each other. All rows are for training."
    ),
    "obliq-style-pairs": (
        "`query` describes the style of `anchor_id`, which is near to `positive` by the specialist; `negatives` are "
        "hard ones of the kind `bm25`, found with the positive as the query. `attribute` is empty: no known author "
        "went into the graph. All rows are for training."
    ),
}

_CATEGORIES = {
    "stance-triplets": ["sentence-similarity", "text-retrieval"],
    "stance-arguments": ["text-retrieval"],
    "stance-inversions": ["text-classification"],
    "obliq-bench": ["text-retrieval"],
    "obliq-queries": ["sentence-similarity", "text-retrieval"],
    "obliq-style-pairs": ["sentence-similarity", "text-retrieval"],
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
    oblique = build.kind.startswith("obliq-")
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
    if build.source == oblique_sources.BENCH:
        lines = [f"Documents are those of the corpora of OBLIQ-Bench, `{REPO}` at `{REVISION}`."]
    elif build.source not in (sample.NAME, perspectrum.NAME) and build.kind not in ROW_KINDS:
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
    if build.kind in ROW_KINDS:
        if build.source == sample.NAME and "generator" in build.facts:
            lines = ["Documents are the training documents of Slant's sample, which were written for it."]
        lines += _rows_made(build)
    again = (
        f" --generate {cell(build.facts['generator'])}` and the same answers" if "generator" in build.facts else "`"
    )
    return [
        *lines,
        "The same command gives the same bytes: "
        f"`python -m dataset_builders build {build.name} --seed {seed}{again}"
        + ("." if build.source == sample.NAME else " with the same `--source`."),
    ]


def _rows_made(build: Build) -> list[str]:
    facts = build.facts
    lines = [
        f"{NEGATIVES} hard negatives a row by BM25 over the task's training documents, from rank "
        f"{facts.get('from_rank', 'not recorded')} on (counted from 0); none has the text of the positive, and none "
        "is part of the same longer text."
    ]
    if build.kind == "obliq-queries":
        lines.append(
            "Documents of the same known attribute are no negatives for each other, but in congress, where a query "
            "means one document alone."
        )
    else:
        specialist = facts.get("specialist") or {}
        named = cell(specialist.get("name") or f"vectors {specialist.get('vectors', 'not recorded')}")
        graph = "**positives drawn at random, as a control**" if facts.get("random_graph") else "its nearest others"
        lines.append(
            f"The graph: specialist `{named}`, each document with {facts.get('k', 'an unrecorded number of')} "
            f"neighbours, {graph}; {facts.get('dose') or 'all'} of {facts.get('edges', 'its')} edges, drawn uniformly "
            f"with the seed {facts['seed']}. No neighbour of an anchor is a negative for it."
            + (" A query is the anchor itself." if facts.get("query_form") == "passage" else "")
        )
    if facts.get("generator"):
        lines.append(
            f"Texts by `{cell(facts['generator'])}` were held against their documents one by one; what leaked was "
            "asked for once more with its words named, and then dropped. A recollection of congress may share "
            f"{QUERIES['tip_of_tongue'].coverage:.0%} of its content words with its document at most."
        )
    return lines


def instructions(kind: str) -> list[list[str]]:
    """The exact instructions that stand in the data or go before it; none for inversions."""
    if kind == "obliq-style-pairs":
        return [["task", "instruction"], ["writing", OBLIQUE_INSTRUCTIONS["writing"]]]
    if kind.startswith("obliq-"):
        return [["task", "instruction"], *([task, OBLIQUE_INSTRUCTIONS[task]] for task in TASKS)]
    if kind == "stance-inversions":
        return []
    used = SEEN if kind == "stance-triplets" else UNSEEN
    return [["id", "instruction"], *([i.id, i.text] for i in used)]


def generators(build: Build) -> list[list[str]]:
    """Who wrote the rewritten texts, or the queries."""
    rows = sorted(build.generators.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    table = [[name, prompt or "no prompt", f"{n:,}"] for (name, prompt), n in rows]
    what = "queries" if build.kind in ROW_KINDS else "rewritten texts"
    return [["generator", "SHA-256 of the prompt", what], *table] if table else []


def prompts(build: Build) -> dict[str, str]:
    """The exact prompts behind the rewritten texts or queries, by their SHA-256."""
    used = {sha for _, sha in build.generators}
    known = {PROMPT_SHA256: f"{PROMPT}\n{AGAIN}"}
    if build.kind in ROW_KINDS:
        queries = build.kind == "obliq-queries"
        named = [t.config for t in build.tables.tables if t.config in TASKS]
        text = lenses.prompt_text([t for t in TASKS if t in named], build.facts.get("lens"), queries=queries)
        known = {lenses.sha256(text): text}
    return {sha: text for sha, text in known.items() if sha in used}


def bias(build: Build) -> str:
    """One sentence or two on whoever wrote the texts."""
    if build.kind in ROW_KINDS and any(name != "authored" for name, _ in build.generators):
        return (
            "The queries are by a language model, or not said to be by people: what it holds to be a stance, a style "
            "or a failure, and its way of putting it, are in the data, and a model trained on it can learn these in "
            "place of the property."
        )
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
    if build.kind in ROW_KINDS:
        found += _row_issues(build)
    elif build.source != sample.NAME:
        found.append("Labels are those of the source and were not checked by reading.")
    elif build.kind == "obliq-bench":
        found.append(
            "A test split has 4 to 8 attributes a task and at most 156 documents: too few to rank systems by."
        )
    else:
        found.append("A test split of 40 claims is too small for a leaderboard; use larger data to compare systems.")
    return found


def _row_issues(build: Build) -> list[str]:
    found = [
        "Whether a document really has the property, and a negative lacks it, was not checked by reading: some "
        "negatives of unlabelled documents answer the query."
    ]
    if build.kind == "obliq-style-pairs":
        found.append(
            "Pairs are a specialist's guesses. They may teach subject in place of style: measure the specialist with "
            "`python -m dataset_builders purity` first."
        )
    if build.source == oblique_sources.BENCH:
        found.append(
            "The documents are those that the benchmark searches: a model trained on them has seen its corpora, and "
            "its scores there are no zero-shot scores."
        )
    return found


def chain(licences: list[str]) -> str:
    """What the licences mean together."""
    if len(licences) == 1:
        return "All rows have the same licence; whatever is made from this data owes the attribution that it asks for."
    return "Several licences meet here: each binds the rows that carry it, and all bind what is made from all rows."


def citations(source: str, oblique: bool) -> list[str]:
    """BibTeX of the source and of the method."""
    return [*([_PERSPECTRUM] if source == perspectrum.NAME else []), _OBLIQUE if oblique else _SLANT]
