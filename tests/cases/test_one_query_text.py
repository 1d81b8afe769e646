"""Case 12: a model is asked with one string, whoever asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from dataset_builders.instructions import UNSEEN
from dataset_builders.schema import TRIPLETS
from hub_models import StanceSearch, corpus
from hub_models.evaluation.named_tasks import load_tasks
from hub_models.evaluation.run import evaluate_model
from hub_models.training_data import TrainingSet
from tests.cases.readers import READERS  # noqa: F401  (puts the Space beside the packages)
from tests.hub_models.releaser import make_run
from tests.tiny import tiny

TEMPLATE = "Instruct: {instruction} Query: {claim}"
CLAIM = "Cities should ban cars."
ASKED = next(i for i in UNSEEN if i.stance == "attack").text
EXPECTED = f"Instruct: {ASKED} Query: {CLAIM}"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that reaches the model from the one place that encodes."""
    texts: list[str] = []
    real = corpus._encode

    def noted(batch: list[str], model: Any, size: int, prompt: str | None) -> Any:
        texts.extend((prompt or "") + text for text in batch)
        return real(batch, model, size, prompt)

    monkeypatch.setattr(corpus, "_encode", noted)
    return texts


def test_training_evaluation_search_space_and_release_say_the_same(tmp_path: Path, seen: list[str]) -> None:
    recipe = tiny("stance-bge-large", f"query_template={json.dumps(TEMPLATE)}")
    run = str(make_run(tmp_path / "run", recipe))
    claims = tmp_path / "mine.jsonl"
    row = {"claim": CLAIM, "support": ["Air gets cleaner."], "attack": ["Shops would close."]}
    claims.write_text(json.dumps(row) + "\n")

    triplet = {name: "x" for name in TRIPLETS} | {"claim": CLAIM, "instruction": ASKED, "negatives": []}
    trained = TrainingSet(Dataset.from_list([triplet], features=TRIPLETS), ()).columns(recipe.query_template, 0)
    assert trained["anchor"][:] == [EXPECTED]

    evaluate_model(run, load_tasks(["mine-stance"], claims, "test"), out=tmp_path / "out")
    assert EXPECTED in seen

    seen.clear()
    StanceSearch(run, ["Shops would close."]).search(CLAIM, "attack", instruction=ASKED)
    assert EXPECTED in seen

    seen.clear()
    from slant_space.engine import Engine
    from slant_space.questions import StanceQuestion
    from slant_space.settings import read_settings

    engine = Engine(read_settings({"SLANT_CORPUS": str(claims), "SLANT_MODEL": run}))
    engine.stance(engine.dial, StanceQuestion(claim=CLAIM, instruction="own", own_support="For", own_attack=ASKED))
    assert EXPECTED in seen and not [text for text in seen if CLAIM in text and not text.startswith("Instruct: ")]

    card = (Path(run) / "README.md").read_text()
    prompt = json.loads((Path(run) / "config_sentence_transformers.json").read_text())["prompts"]["attack"]
    assert prompt.startswith("Instruct: ") and prompt.endswith(" Query: ")
    assert prompt in card
