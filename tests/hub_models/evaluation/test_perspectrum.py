"""Zero-shot all-MiniLM-L6-v2 on the development claims of Perspectrum, real data that lies outside the project."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dataset_builders.instructions import STANCES, UNSEEN
from dataset_builders.sources import load
from hub_models.corpus import encode_corpus
from hub_models.evaluation.metrics import COMPOSITION, STANCE_BIT, document_kinds, rank_columns, stance_values
from hub_models.evaluation.stance import judge
from hub_models.evaluation.stance_runs import evaluate
from hub_models.evaluation.stance_table import summarise

pytestmark = pytest.mark.slow  # about five thousand texts through a real encoder

SHARES = [f"{name}_at_r" for name in COMPOSITION]


def test_reference_figures_without_shared_perspectives(external, minilm):
    """The first wording of each cluster, one document for each (claim, perspective): 914 documents. A perspective that
    serves two claims then counts as wrong for the one it was not filed under."""
    folder = external / "perspectrum"
    pool = {p["pId"]: p["text"] for p in json.loads((folder / "perspective_pool_v1.0.json").read_text())}
    split = json.loads((folder / "dataset_split_v1.0.json").read_text())
    rows = json.loads((folder / "perspectrum_with_answers_v1.0.json").read_text())
    claims = [row for row in rows if split[str(row["cId"])] == "dev"]
    bit = {"SUPPORT": STANCE_BIT["support"], "UNDERMINE": STANCE_BIT["attack"]}
    filed = [(i, p["pids"][0], bit[p["stance_label_3"]]) for i, row in enumerate(claims) for p in row["perspectives"]]
    owner, stance = np.array([f[0] for f in filed]), np.array([f[2] for f in filed], np.uint8)
    documents = encode_corpus([pool[pid] for _, pid, _ in filed], minilm)
    assert len(documents) == 914

    asked = [(i, instruction) for i in range(len(claims)) for instruction in UNSEEN]
    asked = [(i, x) for i, x in asked if ((owner == i) & (stance == STANCE_BIT[x.stance])).any()]
    assert len(asked) == 1245
    of_claim = np.array([i for i, _ in asked])
    labels = np.where(owner == of_claim[:, None], stance, np.uint8(0))
    wanted = np.array([[STANCE_BIT[x.stance]] for _, x in asked], np.uint8)

    def shares(texts):
        order = rank_columns(encode_corpus(texts, minilm) @ documents.T, 60)
        kinds = document_kinds(np.take_along_axis(labels, order, axis=1), stance[order], wanted)
        values = stance_values(kinds, ((labels & wanted) > 0).sum(axis=1))
        return [float(values[name].mean()) for name in SHARES]

    formatted = shares([f"{x.text} {claims[i]['text']}" for i, x in asked])
    assert formatted == pytest.approx([0.377, 0.270, 0.191, 0.162], abs=0.003)
    assert shares([claims[i]["text"] for i, _ in asked])[0] == pytest.approx(0.395, abs=0.003)


def test_a_shared_perspective_is_right_for_each_of_its_claims(external, minilm):
    """The same data as the project reads it: figures are better, since fewer right documents are called wrong."""
    judged = judge(load("perspectrum", external / "perspectrum"), "validation")
    assert {stance: judged.counts()["left_out"][stance] for stance in STANCES} == {"support": 9, "attack": 20}
    measured = evaluate(judged, "{instruction} {claim}", lambda texts: encode_corpus(texts, minilm))
    dense, bare = (summarise(found.table)["overall"] for found in measured.values())
    assert [dense[name].mean for name in SHARES] == pytest.approx([0.403, 0.307, 0.163, 0.127], abs=0.003)
    assert bare["precision_at_r"].mean == pytest.approx(0.425, abs=0.003)
    assert dense["precision_at_r"].n == 1245
