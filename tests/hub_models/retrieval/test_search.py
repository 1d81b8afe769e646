from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dataset_builders.instructions import seen_for
from dataset_builders.lexical import BM25
from hub_models.corpus import encode_corpus
from hub_models.encoder import load
from hub_models.retrieval import ranking as module
from hub_models.retrieval.dense import DenseIndex
from hub_models.retrieval.fusion import fuse
from hub_models.retrieval.levers import Levers
from hub_models.retrieval.search import Hit, StanceSearch
from tests.candidate_lists import fuse_lists
from tests.hub_models.evaluation.helpers import write_run
from tests.hub_models.retrieval.test_adaptive import fitted

TEXTS = {
    "d10": "Deliveries and ambulances need the streets.",
    "d2": "The air in the centre gets cleaner at once.",
    "d1": "Cheese is made of milk.",
    "d3": "Cities that ban cars lose their shoppers.",
    "d4": "Cities that do not ban cars are loud.",
}
CLAIM = "Cities should ban cars from their centers."


@pytest.fixture(scope="module")
def search(minilm):
    return StanceSearch(minilm, TEXTS)


def test_hits_are_the_fused_scores_of_the_formatted_query(search, minilm):
    query = f"{seen_for('attack')[0].text} {CLAIM}"
    dense = encode_corpus(list(TEXTS.values()), minilm) @ encode_corpus([query], minilm)[0]
    bm25 = BM25(list(TEXTS.values()), list(TEXTS)).scores(CLAIM)
    score = dict(zip(TEXTS, fuse(dense, bm25, 0.1), strict=True))
    hits = search.search(CLAIM, stance="attack", k=10, hybrid=0.1)
    assert [hit.id for hit in hits] == sorted(TEXTS, key=lambda d: (-score[d], d))
    for hit in hits:
        place = list(TEXTS).index(hit.id)
        assert hit.text == TEXTS[hit.id]
        assert hit.dense == pytest.approx(dense[place], abs=1e-5)
        assert hit.bm25 == pytest.approx(bm25[place])
        assert hit.score == pytest.approx(score[hit.id], abs=1e-4)
    assert search.depth is None


def test_the_stance_and_the_instruction_reach_the_model(search):
    support, attack = (search.search(CLAIM, stance=s, k=1)[0].dense for s in ("support", "attack"))
    assert support != attack
    own = search.search(CLAIM, stance="attack", instruction=seen_for("support")[0].text, k=1)[0]
    assert own.dense == support


def test_weight_zero_is_the_dense_order(search):
    hits = search.search(CLAIM, hybrid=0)
    assert [h.dense for h in hits] == sorted((h.dense for h in hits), reverse=True)
    assert {h.bm25 for h in hits} == {0.0}


def test_a_claim_without_a_known_word_leaves_the_dense_order(search):
    plain, mixed = search.search("zzzqqq", hybrid=0), search.search("zzzqqq", hybrid=0.5)
    assert [h.id for h in plain] == [h.id for h in mixed]
    assert {h.bm25 for h in mixed} == {0.0}


def test_negation_moves_the_lexical_side(search):
    scores = {h.id: h.bm25 for h in search.search("Cities should not ban cars.", hybrid=0.1)}
    without = {h.id: h.bm25 for h in search.search("Cities should ban cars.", hybrid=0.1)}
    assert scores["d4"] > without["d4"]
    assert scores["d3"] == without["d3"]


def test_equal_texts_are_ordered_by_id_and_k_is_clipped(minilm):
    hits = StanceSearch(minilm, {"b": "Same.", "a10": "Same.", "a9": "Same."}).search(CLAIM, k=99, hybrid=0)
    assert [h.id for h in hits] == ["a10", "a9", "b"]
    assert len({h.score for h in hits}) == 1


def test_a_list_gets_its_positions_as_ids(minilm):
    hits = StanceSearch(minilm, ["Cheese is made of milk.", "Cars fill cities."]).search("Cars fill cities.", k=1)
    assert (hits[0].id, hits[0].text) == ("1", "Cars fill cities.")
    assert isinstance(hits[0], Hit)


def test_a_single_document_is_found(minilm):
    (hit,) = StanceSearch(minilm, ["Cars fill cities."]).search(CLAIM, hybrid=0.1)
    assert hit.score == 0.0  # alone it is neither better nor worse than anything
    assert 0 < hit.dense < 1


def test_large_corpora_fuse_candidate_lists(minilm, monkeypatch, search):
    monkeypatch.setattr(module, "WHOLE_CORPUS_LIMIT", 4)
    monkeypatch.setattr(module, "CANDIDATES", 2)
    large = StanceSearch(minilm, TEXTS)
    assert large.depth == 2
    dense = {h.id: h.dense for h in search.search(CLAIM, hybrid=0)}
    bm25 = dict(BM25(list(TEXTS.values()), list(TEXTS)).search(CLAIM, 2))
    expected = fuse_lists(dict(sorted(dense.items(), key=lambda d: -d[1])[:2]), bm25, 0.3)
    hits = large.search(CLAIM, hybrid=0.3)
    assert [h.id for h in hits] == list(expected)
    assert [h.score for h in hits] == pytest.approx(list(expected.values()))
    assert [h.id for h in large.search(CLAIM, hybrid=0)] == sorted(dense, key=lambda d: -dense[d])[:2]


def test_bad_questions(search):
    for claim, words in (("", "claim: the text is empty"), ("a\x00", "NUL"), ("\ud800", "lone surrogate")):
        with pytest.raises(ValueError, match=words):
            search.search(claim)
    with pytest.raises(ValueError, match="instruction: the text is empty"):
        search.search(CLAIM, instruction=" ")
    with pytest.raises(ValueError, match=r"got stance 'atack'.*Did you mean 'attack'\?"):
        search.search(CLAIM, stance="atack")
    with pytest.raises(ValueError, match="got stance None, wanted one of"):
        search.search(CLAIM, stance=None)
    for k, shown in ((0, "0"), (1.5, "1.5"), ("3", "'3'"), (None, "None")):
        with pytest.raises(ValueError, match=f"got k = {shown}, wanted a whole number of at least 1"):
            search.search(CLAIM, k=k)
    for weight, shown in ((-1, "-1"), (1.5, "1.5"), ("0.1", "'0.1'"), (None, "None"), (float("nan"), "nan")):
        with pytest.raises(ValueError, match=f"weight {shown}, wanted a number from 0 to 1"):
            search.search(CLAIM, hybrid=weight)
    assert search.search(CLAIM, k=np.int64(1), hybrid=np.float32(0.1)), "numbers of numpy are numbers"


def test_bad_corpora(minilm):
    with pytest.raises(ValueError, match="got no document to search in"):
        StanceSearch(minilm, [])
    with pytest.raises(ValueError, match="got the single text 'abc', wanted a list of documents or id to document"):
        StanceSearch(minilm, "abc")
    with pytest.raises(ValueError, match="document '1': the text is empty"):
        StanceSearch(minilm, ["Fine.", "  "])
    with pytest.raises(ValueError, match="got the document id 7 of type int, wanted a string"):
        StanceSearch(minilm, {7: "Fine."})
    with pytest.raises(ValueError, match="none of the 1 documents has a word"):
        StanceSearch(minilm, ["!?"]).search(CLAIM)
    assert StanceSearch(minilm, ["!?"]).search(CLAIM, hybrid=0)
    with pytest.raises(FileNotFoundError, match="absent"):
        StanceSearch("/absent/model", ["Fine."])


def test_hostile_texts_come_back_as_they_are(minilm):
    texts = ["<img src=x onerror=alert(1)>", "a\u2028b", "family \U0001f468\u200d\U0001f469\u200d\U0001f467"]
    hits = StanceSearch(minilm, texts).search("<script>alert(1)</script>")
    assert sorted(h.text for h in hits) == sorted(texts)


def test_a_run_searches_with_its_own_template(tmp_path):
    template = "Instruct: {instruction}\nQuery: {claim}"
    run = write_run(tmp_path / "run", template=template)
    by_path = StanceSearch(run, TEXTS)
    assert by_path.query_template == template
    assert by_path._model.prompts["attack"], "a release carries its prompts"


@pytest.mark.parametrize("template", ["{instruction} {claim}", "Instruct: {instruction}\nQuery: {claim}"])
def test_a_loaded_model_tells_its_template_by_its_prompts(minilm, template, monkeypatch):
    monkeypatch.setattr(
        minilm, "prompts", {"attack": template.format(instruction=seen_for("attack")[0].text, claim="")}
    )
    assert StanceSearch(minilm, ["A text."]).query_template == template


def test_a_model_without_prompts_gets_the_default_template(search):
    assert search.query_template == "{instruction} {claim}"


def test_importing_the_package_imports_no_model_library():
    code = "import sys, hub_models; assert not {'torch', 'transformers', 'huggingface_hub'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import hub_models

    with pytest.raises(AttributeError, match="has no attribute 'StanceSerch'"):
        _ = hub_models.StanceSerch


# -- dense ---------------------------------------------------------------------------------------------------------


def test_equal_texts_have_equal_scores_to_the_last_bit():
    rng = np.random.default_rng(0)
    texts = [f"t{i % 37}" for i in range(500)]
    distinct = rng.normal(size=(37, 384)).astype(np.float32)
    scores = DenseIndex(texts, distinct[[int(t[1:]) for t in texts]]).scores(
        rng.normal(size=(9, 384)).astype(np.float32)
    )
    assert scores.shape == (9, 500)
    for i in range(37):
        assert (scores[:, i::37] == scores[:, [i]]).all()


def test_a_wrong_dimension_says_what_was_wanted():
    index = DenseIndex(["a", "b"], np.eye(2, dtype=np.float32))
    assert index.scores(np.array([[1, 0]], np.float32)).tolist() == [[1, 0]]
    with pytest.raises(ValueError, match=r"got queries of dimension \(3,\), wanted \(2,\)"):
        index.scores(np.zeros((1, 3), np.float32))
    with pytest.raises(ValueError, match="got 1 texts and 2 vectors"):
        DenseIndex(["a"], np.eye(2, dtype=np.float32))


# -- levers and the weight by query --------------------------------------------------------------------------------


def kept(run, **what):
    path = run / "slant.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | what))
    return run


def test_the_stored_levers_are_taken_unless_others_are_given(tmp_path):
    run = kept(write_run(tmp_path / "run", strength=0.3), adapter_scale=0.5, anchor_weight=0.4)
    search = StanceSearch(run, TEXTS)
    assert search.levers == Levers(0.5, 0.4)
    assert StanceSearch(run, TEXTS, anchor=0).levers == Levers(0.5, 0.0)
    plain = StanceSearch(run, TEXTS, adapter_scale=1, anchor=0)
    assert not plain.levers.pulled

    query, texts, model = f"{seen_for('attack')[0].text} {CLAIM}", list(TEXTS.values()), load(run, adapter_scale=0.5)
    base = load(json.loads((run / "slant.json").read_text())["base"])
    dense = encode_corpus(texts, model) @ encode_corpus([query], model)[0]
    expected = fuse(dense, encode_corpus(texts, base) @ encode_corpus([CLAIM], base)[0], 0.4)
    hits = {h.id: h for h in search.search(CLAIM, hybrid=0)}
    np.testing.assert_allclose([hits[i].dense for i in TEXTS], dense, atol=1e-5)
    shown = fuse(expected, np.zeros(len(texts)), 0)
    np.testing.assert_allclose([hits[i].score for i in TEXTS], shown, atol=1e-4)
    again = {h.id: h.dense for h in plain.search(CLAIM, hybrid=0)}
    assert max(abs(again[i] - hits[i].dense) for i in TEXTS) > 1e-3


def test_a_lever_of_a_model_without_an_adapter_is_refused(minilm):
    with pytest.raises(
        ValueError, match=r"got adapter scale 0\.5 and anchor 0 for a model without an adapter, wanted"
    ):
        StanceSearch(minilm, TEXTS, adapter_scale=0.5)
    with pytest.raises(ValueError, match="got the weight 2, wanted a number from 0 to 1"):
        StanceSearch(minilm, TEXTS, anchor=2)


def test_auto_takes_the_weight_that_the_model_chooses(tmp_path, search):
    always = fitted(coefficients=[[-1.0] * 8, [0.0] * 8, [1.0, *[0.0] * 7]])
    run = kept(write_run(tmp_path / "run"), lambda_model=always.model_dump(mode="json"))
    tuned = StanceSearch(run, TEXTS)
    assert tuned.search(CLAIM, hybrid="auto") == tuned.search(CLAIM, hybrid=0.3) != tuned.search(CLAIM, hybrid=0.1)
    assert [h.id for h in tuned.search("zzzqqq", hybrid="auto")] == [h.id for h in tuned.search("zzzqqq", hybrid=0)]
    for other in (search, StanceSearch(run, TEXTS, adapter_scale=0.5)):
        with pytest.raises(ValueError, match="got hybrid 'auto' and no λ model for adapter scale"):
            other.search(CLAIM, hybrid="auto")


def test_a_folder_for_vectors_may_be_a_string(minilm, tmp_path):
    kept = StanceSearch(minilm, TEXTS, cache_dir=str(tmp_path / "vectors"))
    assert list((tmp_path / "vectors").iterdir())
    assert kept.search(CLAIM) == StanceSearch(minilm, TEXTS).search(CLAIM)
