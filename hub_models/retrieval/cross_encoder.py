"""Cross-encoders as rerankers: any model that sentence-transformers' ``CrossEncoder`` loads (S 4.1).

A language model such as Qwen3-Reranker is asked for "yes" or "no" about a pair; its score is the difference of the two
logits at the last position. Its repository's chat template does not know pairs, so ours stands in for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from dataset_builders.instructions import DEFAULT_QUERY_TEMPLATE, format_query
from hub_models import model_files
from hub_models.retrieval.rerank import Cost, Reranked

MAX_TOKENS = 8192
"""Of a pair with its frame."""

# The frame that Qwen3-Reranker was trained with, letter by letter: a model's protocol is not ours to reword.
_QWEN3_RERANKER = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
    "<Instruct>: {{ messages | selectattr('role', 'eq', 'system') | map(attribute='content') | first | "
    "default('Given a web search query, retrieve relevant passages that answer the query', true) }}\n"
    "<Query>: {{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}\n"
    "<Document>: {{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first }}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>{{ '\n\n' }}"  # jinja drops a last newline
)


class CrossEncoderReranker:
    """Orders candidates by a cross-encoder's score, equal ones in first-stage order.

    Args:
        path_or_id: Folder or Hub id.
        instruction: What makes a document relevant. A model with a chat frame gets it there, another one before the
            query. None leaves the frame's own, as S does, whose queries carry their instruction.
        revision: Commit of the Hub id.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If its repository brings code of its own.
    """

    def __init__(self, path_or_id: str, instruction: str | None = None, *, revision: str | None = None) -> None:
        from sentence_transformers import CrossEncoder

        if model_files.find(path_or_id, "config.json", revision) is None:
            raise FileNotFoundError(model_files.no_such_model(path_or_id, revision))
        with model_files.loading(path_or_id):
            frame = _frame(path_or_id, revision)
            self.model = CrossEncoder(
                path_or_id,
                revision=revision,
                activation_fn=nn.Identity(),  # behind a sigmoid, clear cases would tie
                processor_kwargs={"chat_template": frame} if frame else None,
            )
        self.model.max_seq_length = min(self.model.max_seq_length or MAX_TOKENS, MAX_TOKENS)
        self.has_frame = "message" in getattr(self.model[0], "modality_config", {})
        self.instruction = instruction

    def scores(self, query: str, documents: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """float32[n_docs], unbounded; of a language model logit(yes) − logit(no).

        Raises:
            ValueError: If a score is not finite.
        """
        if not documents:
            return np.zeros(0, np.float32)
        prompt = self.instruction if self.has_frame else None
        if self.instruction and not self.has_frame:
            query = format_query(DEFAULT_QUERY_TEMPLATE, self.instruction, query)
        found = self.model.predict([(query, d) for d in documents], prompt=prompt, show_progress_bar=False)
        found = np.asarray(found, np.float32).reshape(len(documents), -1)
        if found.shape[1] != 1:
            raise ValueError(f"got {found.shape[1]} scores a pair, wanted a cross-encoder with one")
        if not np.isfinite(found).all():
            raise ValueError("got a score that is not finite; load the cross-encoder in float32 or bfloat16")
        return np.asarray(found[:, 0])

    def __call__(self, query: str, candidates: Sequence[str]) -> Reranked:
        start = time.perf_counter()
        order = np.argsort(-self.scores(query, candidates), kind="stable").tolist()
        return Reranked(order, Cost(seconds=time.perf_counter() - start))


def _frame(path_or_id: str, revision: str | None) -> str | None:
    """Our chat frame, for a language model whose own frame does not carry a query and a document."""
    from transformers import AutoConfig, AutoTokenizer

    # Left out, transformers would ask at the terminal whether to run a repository's code.
    pin: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
    names = AutoConfig.from_pretrained(path_or_id, **pin).architectures or [""]
    if not names[0].endswith("ForCausalLM"):
        return None
    own = AutoTokenizer.from_pretrained(path_or_id, **pin).chat_template or ""
    return None if "document" in str(own) else _QWEN3_RERANKER
