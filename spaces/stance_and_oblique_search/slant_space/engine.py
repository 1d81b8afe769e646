"""The searches behind the views. The model is loaded once; documents are encoded once for each adapter scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, STANCES, Stance, format_query
from dataset_builders.lexical import tokenize
from dataset_builders.oblique.statistics import content_words, overlap
from dataset_builders.sources import oblique
from dataset_builders.sources.obliq_bench import ObliqueTask, read_attributes
from dataset_builders.text import check_text, text_key
from hub_models import ObliqueSearch, StanceSearch
from hub_models.evaluation.ablation import Part, Reliance, reliance, word_deltas
from hub_models.model_files import slant_json
from hub_models.retrieval.fusion import fuse
from hub_models.retrieval.ranking import Documents, Hit, Mask, Ranking
from slant_space.corpora import Corpus, Document, Kind, open_corpus
from slant_space.once import Once
from slant_space.questions import POSITIONS, ObliqueQuestion, StanceQuestion
from slant_space.settings import Settings

QUERY_CHARACTERS = 100_000
INSTRUCTION_CHARACTERS = 1_000
EXPLAINED_WORDS = 80
DIAL_DOCUMENTS = 5_000
"""The dial has to encode every document anew: above this many it is off."""
_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class Found:
    """A result of the stance search.

    Attributes:
        hit: Document and scores.
        fused: Each part's share of the score: dense, then BM25 with its weight, both on [0, 1].
        rank: Over the whole corpus, from 1.
        other_rank: The same in the other model, tuned or base; None where there is no other.
        kind: What it is by the labels.
        document: The document.
    """

    hit: Hit
    fused: tuple[float, float]
    rank: int
    other_rank: int | None
    kind: Kind | None
    document: Document


@dataclass(frozen=True, slots=True)
class StanceAnswer:
    """Both columns, the λ that each took, and what could not be done as asked."""

    question: StanceQuestion
    columns: dict[Stance, list[Found]]
    weight: dict[Stance, float]
    auto: bool
    remark: str


@dataclass(frozen=True, slots=True)
class ObliqueFound:
    """A result of an oblique search.

    Attributes:
        hit: Document and scores.
        rank: From 1.
        right: Whether it is relevant by the labels; None where that is not known.
        coverage: Share of the query's content words that it has.
        shared: Those words.
        meets: Whether it has any word of the query at all, function words among them.
        attribute: What makes it relevant, where the data says so.
    """

    hit: Hit
    rank: int
    right: bool | None
    coverage: float
    shared: frozenset[str]
    meets: bool
    attribute: str | None


@dataclass(frozen=True, slots=True)
class ObliqueAnswer:
    """One column for each system: ``bm25``, ``base``, ``tuned``.

    Attributes:
        question: What was asked.
        columns: The best documents of each system.
        first: For each system the rank of the first relevant document, None where it finds none; empty where the
            query has no labels.
        family: What the model was tuned for, ``stance`` or ``oblique``.
    """

    question: ObliqueQuestion
    columns: dict[str, list[ObliqueFound]]
    first: dict[str, int | None]
    family: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a document is where it is.

    Attributes:
        words: Part, word, and Δ of its deletion; None for the single word of a part, which cannot be deleted.
        reliance: RIS, RCS, DI.
        cosine: Of the whole query and the document.
        rank: Of the document; None where it is of no corpus.
        kind: What it is by the labels.
        removed: Places in ``words`` that are switched off.
        cosine_without: Cosine of the query without them.
        rank_without: The document's rank then.
    """

    words: list[tuple[Part, str, float | None]]
    reliance: Reliance
    cosine: float
    rank: int | None
    kind: Kind | None
    removed: frozenset[int]
    cosine_without: float
    rank_without: int | None


class Dial:
    """A search over one corpus at each position of the adapter dial; the last ones used are kept.

    Attributes:
        corpus: The documents.
        released: The model as released.
        base: The model without its adapter; None where it has none.
    """

    def __init__(self, corpus: Corpus, search: StanceSearch) -> None:
        self.corpus, self.released = corpus, search
        self.base = search.at(adapter_scale=0.0, anchor=0.0) if search.has_adapter else None
        self._at: Once[float, StanceSearch] = Once(lambda scale: search.at(adapter_scale=scale), _POSITIONS)

    @property
    def turns(self) -> bool:
        """Whether the dial can be turned."""
        return self.released.has_adapter and len(self.released.documents) <= DIAL_DOCUMENTS

    def tuned(self, scale: float | None) -> StanceSearch:
        """The model with its adapter at ``scale``; as released where that is None or the dial is off."""
        if scale is None or not self.turns or scale == self.released.levers.adapter_scale:
            return self.released
        if self.base is not None and self.released.levers.but(scale, None) == self.base.levers:
            return self.base
        return self._at(scale)


class Engine:
    """Everything that is loaded once.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If model or corpus is faulty.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        corpus = open_corpus(settings.corpus)
        texts = {d.id: d.text for d in corpus.documents.values()}
        model = _model_path(settings)
        self.dial = Dial(corpus, StanceSearch(model, texts, cache_dir=settings.cache))
        prompts = slant_json(model).get("prompts") or {}
        self.family = "oblique" if set(OBLIQUE_INSTRUCTIONS) <= set(prompts) else "stance"
        """What the model was tuned for."""
        self.task = Once(self._task, len(OBLIQUE_INSTRUCTIONS))
        """An oblique task of the sample by its name, read and encoded when first asked."""

    def prepare(self) -> None:
        """Encode ahead what visitors may ask for first: the oblique tasks, and the dial's positions."""
        if self.settings.corpus is None:
            for name in OBLIQUE_INSTRUCTIONS:
                self.task(name)
        for scale in POSITIONS:
            self.dial.tuned(scale)

    @property
    def has_adapter(self) -> bool:
        return self.dial.released.has_adapter

    @property
    def has_auto(self) -> bool:
        return self.dial.released.has_auto

    @property
    def scale(self) -> float:
        """The adapter's scale as released."""
        return self.dial.released.levers.adapter_scale

    def index(self, name: str, documents: list[Document], tell: Callable[[int], object] | None = None) -> Dial:
        """A visitor's own corpus with the model of all; ``tell`` hears how many of the documents are done."""
        corpus = Corpus(name, {d.id: d for d in documents})
        texts = {d.id: d.text for d in documents}
        released, encoded = self.dial.released, 0
        times = 1 + released.has_adapter + bool(released.levers.anchor)  # tuned, base, base as the anchor

        def count(more: int) -> None:
            nonlocal encoded
            encoded += more
            if tell is not None:
                tell(encoded // times)

        search = StanceSearch(released, texts, progress=count)
        dial = Dial(corpus, search)
        search.progress = None  # a dial that is turned later is no part of it
        return dial

    def chosen(self, own: Dial | None, which: str) -> Dial:
        """The corpus that a visitor searches: the sample's, or their own.

        Raises:
            ValueError: If their own is no longer held.
        """
        if which == "sample":
            return self.dial
        if own is None:
            raise ValueError("Your corpus is no longer held; upload it again, or search in another.")
        return own

    def stance(self, dial: Dial, question: StanceQuestion) -> StanceAnswer:
        """Search for both stances.

        Raises:
            ValueError: If the claim or the own words are empty, too long or no valid text.
        """
        claim = _query(question.claim, "claim")
        for stance in STANCES:
            _instruction(question, stance)
        base, tuned = dial.base, dial.tuned(question.scale)
        auto, remark = question.auto and tuned.has_auto, ""
        if question.auto and not auto:
            remark = f"There is no automatic λ for these settings; λ = {question.weight:g} was taken."
        if question.scale is not None and question.scale != self.scale and not dial.turns:
            remark += " The dial is off for this corpus or model."
        columns: dict[Stance, list[Found]] = {}
        weights: dict[Stance, float] = {}
        among = _among(dial.corpus, question)
        for stance in STANCES:
            words = question.words(stance)
            first = tuned.rank(claim, stance, "auto" if auto else question.weight, instruction=words, with_bm25=True)
            weights[stance] = first.weight
            # Both with one λ: else a move would tell of λ and not of the model.
            second = (
                base.rank(claim, stance, first.weight, instruction=words, with_bm25=True) if base is not None else None
            )
            shown, other = (second, first) if second is not None and question.model == "base" else (first, second)
            columns[stance] = _found(dial.corpus, claim, stance, shown, other, question.k, among)
        return StanceAnswer(question, columns, weights, auto, remark.strip())

    def explain(
        self,
        dial: Dial,
        question: StanceQuestion,
        stance: Stance,
        document: str,
        removed: frozenset[int] = frozenset(),
        weight: float | None = None,
    ) -> Explanation:
        """Delete the query's words in turn against one document.

        Args:
            dial: The corpus of the ranks.
            question: What was asked.
            stance: The column.
            document: The document's text.
            removed: Places of words that are switched off.
            weight: The λ that was taken.

        Raises:
            ValueError: If the query has too many words or the document too many characters, or no word of a part
                would be left.
        """
        claim, instruction = _query(question.claim, "claim"), _instruction(question, stance)
        _bounded(check_text(document, "document"), "document", QUERY_CHARACTERS)
        parts: dict[Part, list[str]] = {"instruction": instruction.split(), "claim": claim.split()}
        n = sum(map(len, parts.values()))
        if n > EXPLAINED_WORDS:
            raise ValueError(
                f"the query has {n:,} words; up to {EXPLAINED_WORDS} can be explained, so shorten the claim"
            )
        base = dial.base
        search = base if base is not None and question.model == "base" else dial.tuned(question.scale)
        deltas = word_deltas(instruction, claim, document, search.encode, search.query_template)
        left = iter(deltas)
        words: list[tuple[Part, str, float | None]] = [
            (part, word, next(left)[2] if len(of_part) > 1 else None)
            for part, of_part in parts.items()
            for word in of_part
        ]
        kept: dict[Part, str] = {
            part: " ".join(w for i, (p, w, _) in enumerate(words) if p == part and i not in removed) for part in parts
        }
        for part, text in kept.items():
            if not text:
                raise ValueError(f"the {part} needs at least one word; switch another one on first")
        key = next((d.id for d in dial.corpus.documents.values() if d.text == document), None)
        weight = question.weight if weight is None else weight

        def standing(instruction: str, claim: str) -> tuple[float, int | None]:
            ranking = search.rank(claim, stance, weight, instruction=instruction)
            if key is not None:
                return float(ranking.dense[ranking.documents.place[key]]), ranking.rank(key)
            vectors = search.encode([format_query(search.query_template, instruction, claim), document])
            return float(vectors[0] @ vectors[1]), None

        cosine, rank = standing(instruction, claim)
        cosine_without, rank_without = standing(kept["instruction"], kept["claim"]) if removed else (cosine, rank)
        kind = None if key is None else dial.corpus.kind(claim, stance, key)
        return Explanation(words, reliance(deltas), cosine, rank, kind, removed, cosine_without, rank_without)

    # -- oblique ---------------------------------------------------------------------------------------------------

    def _task(self, name: str) -> _Task:
        return _Task(self.dial.released, oblique.load("sample", name).restrict("test"))

    def oblique(self, question: ObliqueQuestion, own: Dial | None = None) -> ObliqueAnswer:
        """Search by keywords, by the base and by the tuned model: in a visitor's own corpus, else in the one that the
        Space was given, else in the task's.

        Raises:
            ValueError: If the query is empty, too long or no valid text.
        """
        query = _query(question.query, "query")
        if own is None and self.settings.corpus is not None:
            own = self.dial
        task = None if own is not None else self.task(question.task)
        rankings = task.rankings(query) if task else _own_rankings(own, question.task, query)
        columns = {
            name: [_oblique_found(query, hit, ranking, task) for hit in ranking.hits(question.k)]
            for name, ranking in rankings.items()
        }
        relevant = task.relevant(query) if task else None
        first = {} if relevant is None else {name: _first(r, relevant) for name, r in rankings.items()}
        return ObliqueAnswer(question, columns, first, self.family)


class _Task:
    """One oblique task with its searches."""

    def __init__(self, model: StanceSearch, task: ObliqueTask) -> None:
        self.task = task
        self.attributes = {i: description for i, (_, description) in read_attributes(task.task).items()}
        self.ids = {text_key(q.text): i for i, q in task.queries.items()}
        documents = Documents({i: d.text for i, d in task.corpus.items()})
        self.tuned = ObliqueSearch(model, documents, task=task.task)
        self.base = self.tuned.at(adapter_scale=0.0, anchor=0.0) if model.has_adapter else None

    def rankings(self, query: str) -> dict[str, Ranking]:
        asked = self.ids.get(text_key(query))
        out = set(self.task.excluded.get(asked, frozenset())) if asked else set()
        out |= {i for i, d in self.task.corpus.items() if text_key(d.text) == text_key(query)}  # the example itself
        tuned = self.tuned.rank(query, exclude=out, with_bm25=True)
        base = {"base": self.base.rank(query, exclude=out)} if self.base else {}
        return {"bm25": tuned.by_words().without(out), **base, "tuned" if base else "model": tuned}

    def relevant(self, query: str) -> set[str] | None:
        """Ids of what is relevant to the query; None where that is not known."""
        asked = self.ids.get(text_key(query))
        return None if asked is None else {i for i, grade in self.task.qrels.get(asked, {}).items() if grade > 0}

    def attribute(self, document_id: str) -> str | None:
        return self.attributes.get(self.task.corpus[document_id].attribute or "")


def _own_rankings(own: Dial | None, task: str, query: str) -> dict[str, Ranking]:
    assert own is not None
    instruction = OBLIQUE_INSTRUCTIONS[task]
    # The instruction is all that an oblique search differs in, and the documents are encoded already.
    tuned = own.released.rank(query, hybrid=0, instruction=instruction, with_bm25=True)
    base = {"base": own.base.rank(query, hybrid=0, instruction=instruction)} if own.base else {}
    return {"bm25": tuned.by_words(), **base, "tuned" if base else "model": tuned}


def _first(ranking: Ranking, relevant: set[str]) -> int | None:
    found = [i for i in relevant if ranking.score[ranking.documents.place[i]] > -np.inf]
    return min(map(ranking.rank, found), default=None)


def _oblique_found(query: str, hit: Hit, ranking: Ranking, task: _Task | None) -> ObliqueFound:
    relevant = task.relevant(query) if task else None
    return ObliqueFound(
        hit,
        ranking.rank(hit.id),
        None if relevant is None else hit.id in relevant,
        overlap(query, hit.text).coverage,
        frozenset(content_words(query) & content_words(hit.text)),
        not set(tokenize(query)).isdisjoint(tokenize(hit.text)),
        task.attribute(hit.id) if task else None,
    )


def _found(
    corpus: Corpus, claim: str, stance: Stance, shown: Ranking, other: Ranking | None, k: int, among: Mask | None
) -> list[Found]:
    parts = fuse(shown.dense, np.zeros_like(shown.dense), 0), fuse(shown.bm25, shown.bm25, 0) * shown.weight
    found = []
    for hit in shown.hits(k, among):
        place = shown.documents.place[hit.id]
        found.append(
            Found(
                hit,
                (float(parts[0][place]), float(parts[1][place])),
                shown.rank(hit.id),
                other.rank(hit.id) if other else None,
                corpus.kind(claim, stance, hit.id),
                corpus.documents[hit.id],
            )
        )
    return found


def _among(corpus: Corpus, question: StanceQuestion) -> Mask | None:
    if not question.source and not question.style:
        return None
    return np.array(
        [
            (not question.source or d.source == question.source) and (not question.style or d.style == question.style)
            for d in corpus.documents.values()
        ]
    )


def _query(text: str, what: str) -> str:
    if not text.strip():
        raise ValueError(f"Type or pick a {what} first.")
    return check_text(_bounded(text, what, QUERY_CHARACTERS).strip(), what)


def _instruction(question: StanceQuestion, stance: Stance) -> str:
    what = f"your words for {stance}"
    return _bounded(check_text(question.words(stance), what), what, INSTRUCTION_CHARACTERS)


def _bounded(text: str, what: str, most: int) -> str:
    if len(text) > most:
        raise ValueError(f"{what}: got {len(text):,} characters, wanted at most {most:,}; shorten it")
    return text


def _model_path(settings: Settings) -> str | Path:
    """The model's folder or id; a commit of the Hub as the folder of its snapshot."""
    if settings.revision is None or Path(settings.model).is_dir():
        return settings.model
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(settings.model, revision=settings.revision))


def as_rows(answer: StanceAnswer) -> list[dict[str, Any]]:
    """A stance answer as rows for CSV, JSON and the API."""
    return [
        {
            "stance": stance,
            "rank": found.rank,
            "id": found.hit.id,
            "text": found.hit.text,
            "score": found.hit.score,
            "dense": found.hit.dense,
            "bm25": found.hit.bm25,
            "weight": answer.weight[stance],
            "other_rank": found.other_rank,
            "label": found.kind,
            "source": found.document.source,
            "style": found.document.style,
        }
        for stance, column in answer.columns.items()
        for found in column
    ]


def as_oblique_rows(answer: ObliqueAnswer) -> list[dict[str, Any]]:
    """An oblique answer as rows."""
    return [
        {
            "system": system,
            "rank": found.rank,
            "id": found.hit.id,
            "text": found.hit.text,
            "score": found.hit.score,
            "relevant": found.right,
            "query_coverage": found.coverage,
        }
        for system, column in answer.columns.items()
        for found in column
    ]
