"""Search that asks for a stance, and search whose query names a property that no document states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sentence_transformers import SentenceTransformer

from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, STANCES, Stance, seen_for
from dataset_builders.text import check_text, did_you_mean
from hub_models.retrieval.fusion import check_weight
from hub_models.retrieval.ranking import Documents, Hit, Ranking
from hub_models.retrieval.text_search import Hybrid, TextSearch, check_k

__all__ = ["Hit", "ObliqueSearch", "StanceSearch"]


class StanceSearch(TextSearch):
    """Stance-aware search over texts held in memory: the arguments that support a claim, or those that attack it.

    Args:
        model: A run folder or Hub id, loaded with its pinned base and its own query template; a
            `SentenceTransformer`, whose template is read off its prompts ``support`` and ``attack`` if it has them; or
            another search, whose model and levers are shared.
        texts: The documents, as a list or as id to text.
        cache_dir: Keeps the documents' vectors for the next time.
        adapter_scale: Weight of the adapter, from 0 (the base) to 2; None is what ``python -m hub_models tune`` chose
            for this model on validation claims, or as trained (1). Plain loading by sentence-transformers cannot do
            this.
        anchor: Weight in [0, 1] of the model's own base, asked with the claim alone, beside the adapted scores; None
            is likewise what was chosen, or 0.
        index: Where the documents' vectors lie. ``float32``: in memory, exact. ``int8``: in memory, a quarter of it.
            ``binary``: a thirty-second in memory, which finds 1,000 candidates, whose float32 vectors are read from
            ``cache_dir``. ``milvus:PATH.db`` or ``milvus:http://HOST:PORT``: in Milvus, embedded or on a server (extra
            ``milvus``), exact; above 2,000 documents it gives 1,000 candidates. What gives candidates has no anchor
            and no ``hybrid="auto"``.
        progress: Is called with how many documents were encoded, after each block of them, unless ``cache_dir`` keeps
            them.

    Attributes:
        levers: The two of them as they are.
        query_template: What formats instruction and claim into the query.
        depth: How many candidates of either side are fused, or None where the whole corpus is (up to 200,000
            documents, if the index scores them all).

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If ``texts`` is a single string or has no document, an id is no string, a document is empty or no
            valid Unicode, the model gives no usable vector, a lever is out of range, or one is pulled of a model
            without an adapter; if the index is unknown, lacks its ``cache_dir``, or gives no scores for an anchor.
        ModuleNotFoundError, ConnectionError: If Milvus is not installed, or does not answer.

    Example:
        ```python
        search = StanceSearch("org/stance-minilm-lora", ["Uniforms level differences.", "Uniforms stifle expression."])
        for hit in search.search("Schools should require uniforms.", stance="attack", k=1):
            print(hit.score, hit.text)
        ```
    """

    def search(
        self,
        claim: str,
        stance: Stance = "attack",
        k: int = 10,
        hybrid: Hybrid = 0.1,
        *,
        instruction: str | None = None,
    ) -> list[Hit]:
        """The ``k`` best documents, by score descending, then id ascending.

        Args:
            claim: What the documents should support or attack.
            stance: Which of the two.
            k: At most this many hits.
            hybrid: Weight λ of BM25 beside the dense score, in [0, 1]; 0 is dense alone, ``auto`` chooses by query
                with what ``tune`` fitted. BM25 is given the claim, never the instruction: it keeps the search on the
                topic and knows nothing of stance.
            instruction: Your own words for the stance, such as "Find statements rejecting"; else the first instruction
                that training used for it.

        Raises:
            ValueError: If the claim or the instruction is empty or no valid Unicode, the stance unknown, ``k`` no
                whole number or below 1, ``hybrid`` no number in [0, 1], ``auto`` without a λ model for these levers,
                or a hybrid search meant for documents without a single word.
        """
        check_k(k)
        return self.rank(claim, stance, hybrid, instruction=instruction).hits(k)

    def rank(
        self,
        claim: str,
        stance: Stance = "attack",
        hybrid: Hybrid = 0.1,
        *,
        instruction: str | None = None,
        with_bm25: bool = False,
    ) -> Ranking:
        """All scores of one query, of which `search` gives the best.

        Args:
            claim, stance, hybrid, instruction: As in `search`.
            with_bm25: Give the BM25 scores also where their weight is 0.

        Raises:
            ValueError: As in `search`, which looks at ``k`` besides.
        """
        check_text(claim, "claim")
        if stance not in STANCES:
            raise ValueError(
                f"got stance {stance!r}, wanted one of {list(STANCES)}.{did_you_mean(str(stance), STANCES)}"
            )
        self._check_hybrid(hybrid)
        asked = check_text(instruction, "instruction") if instruction is not None else seen_for(stance)[0].text
        return self._rank(asked, claim, hybrid, with_bm25)


class ObliqueSearch(TextSearch):
    """Search by a property that no document states: a description, an example, a hazy recollection (O section 2).

    Args:
        model: As in `StanceSearch`.
        texts: The documents, as a list or as id to text.
        task: Whose instruction stands before each query: one of ``OBLIQUE_INSTRUCTIONS``.
        cache_dir, adapter_scale, anchor, index: As in `StanceSearch`; the anchor is asked with the bare query.

    Attributes:
        task: As given.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: As in `StanceSearch`, or if the task is unknown.

    Example:
        ```python
        search = ObliqueSearch("org/stance-minilm-lora", posts, task="twitter")
        hits = search.search("The writer is tired of meetings and hides it behind praise.", k=5)
        ```
    """

    def __init__(
        self,
        model: SentenceTransformer | str | Path | TextSearch,
        texts: Sequence[str] | Mapping[str, str] | Documents,
        *,
        task: str,
        cache_dir: str | Path | None = None,
        adapter_scale: float | None = None,
        anchor: float | None = None,
        index: str = "float32",
    ) -> None:
        if task not in OBLIQUE_INSTRUCTIONS:
            known = list(OBLIQUE_INSTRUCTIONS)
            raise ValueError(f"got the oblique task {task!r}, wanted one of {known}.{did_you_mean(str(task), known)}")
        self.task = task
        super().__init__(model, texts, cache_dir=cache_dir, adapter_scale=adapter_scale, anchor=anchor, index=index)

    def search(
        self,
        query: str,
        k: int = 10,
        hybrid: float = 0.0,
        *,
        instruction: str | None = None,
        exclude: Iterable[str] = (),
    ) -> list[Hit]:
        """The ``k`` best documents, by score descending, then id ascending.

        Args:
            query: The description, the example or the recollection.
            k: At most this many hits.
            hybrid: Weight of BM25, in [0, 1]. By default 0: what is asked for stands in no document's words.
            instruction: In place of the task's own.
            exclude: Ids that may not be returned, such as the example itself.

        Raises:
            ValueError: If the query or the instruction is empty or no valid Unicode, ``k`` no whole number or below 1,
                or ``hybrid`` no number in [0, 1].
        """
        check_k(k)
        return self.rank(query, hybrid, instruction=instruction, exclude=exclude).hits(k)

    def rank(
        self,
        query: str,
        hybrid: float = 0.0,
        *,
        instruction: str | None = None,
        exclude: Iterable[str] = (),
        with_bm25: bool = False,
    ) -> Ranking:
        """All scores of one query, of which `search` gives the best.

        Args:
            query, hybrid, instruction, exclude: As in `search`.
            with_bm25: Give the BM25 scores also where their weight is 0.

        Raises:
            ValueError: As in `search`, which looks at ``k`` besides.
        """
        check_text(query, "query")
        check_weight(hybrid)
        asked = OBLIQUE_INSTRUCTIONS[self.task] if instruction is None else check_text(instruction, "instruction")
        return self._rank(asked, query, hybrid, with_bm25).without(exclude)
