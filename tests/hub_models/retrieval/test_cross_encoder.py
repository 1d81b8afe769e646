"""Cross-encoders, on a tiny random model of Qwen3-Reranker's class and on a tiny BERT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from hub_models.retrieval.cross_encoder import CrossEncoderReranker
from tests.tiny_rerankers import bert_reranker, qwen3_reranker

QUERY = "Find evidence refuting cities should ban cars"
DOCUMENTS = [
    "cars are loud",
    "no.",
    "a much longer text about buses, trams and what they cost a town",
    "cars are loud",
]

# Written out by hand: what Qwen3-Reranker is shown.
FRAME = """<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer \
can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: {instruction}
<Query>: {query}
<Document>: {document}<|im_end|>
<|im_start|>assistant
<think>

</think>

"""
WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"


@pytest.fixture(scope="module")
def reranker_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qwen3_reranker(tmp_path_factory.mktemp("reranker"))


def by_hand(folder: Path, instruction: str, documents: list[str]) -> list[float]:
    """logit(yes) - logit(no) at the last position, pair by pair: no padding, no sentence-transformers."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    yes, no = tokenizer.convert_tokens_to_ids(["yes", "no"])
    found = []
    for document in documents:
        text = FRAME.format(instruction=instruction, query=QUERY, document=document)
        with torch.inference_mode():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0, -1]
        found.append(float(logits[yes] - logits[no]))
    return found


def test_a_language_model_scores_as_by_hand(reranker_folder: Path) -> None:
    for instruction in (None, "Retrieve texts by the same author."):
        scores = CrossEncoderReranker(str(reranker_folder), instruction).scores(QUERY, DOCUMENTS)
        wanted = by_hand(reranker_folder, instruction or WEB_SEARCH, DOCUMENTS)
        assert np.std(wanted) > 0.01
        np.testing.assert_allclose(scores, wanted, atol=1e-5)


def test_the_order_is_by_score_and_equal_ones_stay(reranker_folder: Path) -> None:
    reranker = CrossEncoderReranker(str(reranker_folder))
    found = reranker(QUERY, DOCUMENTS)
    scores = by_hand(reranker_folder, WEB_SEARCH, DOCUMENTS)
    assert [scores[i] for i in found.order] == sorted(scores, reverse=True)
    assert found.order.index(0) < found.order.index(3)  # the same text twice
    assert found.cost.calls == 0 and found.cost.seconds > 0
    assert reranker(QUERY, []).order == []


def test_a_frame_that_knows_pairs_is_kept(reranker_folder: Path, tmp_path: Path) -> None:
    own = PreTrainedTokenizerFast.from_pretrained(reranker_folder)
    own.chat_template = "{% for m in messages if m.role in ('query', 'document') %}{{ m.content }}|{% endfor %}"
    AutoModelForCausalLM.from_pretrained(reranker_folder).save_pretrained(tmp_path)
    own.save_pretrained(tmp_path)
    kept = CrossEncoderReranker(str(tmp_path)).scores(QUERY, DOCUMENTS[:1])
    assert abs(kept[0] - by_hand(reranker_folder, WEB_SEARCH, DOCUMENTS[:1])[0]) > 1e-3


def test_a_classifier_gets_the_instruction_before_the_query(tmp_path: Path) -> None:
    bert_reranker(tmp_path)
    plain = CrossEncoderReranker(str(tmp_path))
    asked = CrossEncoderReranker(str(tmp_path), "find the claim")
    np.testing.assert_allclose(
        asked.scores("cars", DOCUMENTS), plain.scores("find the claim cars", DOCUMENTS), atol=1e-6
    )
    assert not np.allclose(asked.scores("cars", DOCUMENTS), plain.scores("cars", DOCUMENTS), atol=1e-6)


def test_no_such_cross_encoder() -> None:
    with pytest.raises(FileNotFoundError, match="slant-tests/no-such-reranker"):
        CrossEncoderReranker("slant-tests/no-such-reranker")
