"""A decoder that looks both ways by code of its own: the mask, the mean, the padding, the consent, a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from typer.testing import CliRunner

from hub_models import onnx_parity, publish, training
from hub_models.__main__ import app
from hub_models.adapter import attach_lora
from hub_models.base import _pad_on, attends_both_ways, load_base
from hub_models.encoder import load
from hub_models.evaluation import tuning
from hub_models.manifest import Manifest
from hub_models.model_files import runs_own_code
from hub_models.training import train
from tests.hub_models.releaser import make_run
from tests.tiny import REVISION, build
from tests.tiny_bidirectional import install, recipe

TEXTS = ["Cities should ban private cars.", "No.", "A longer text about bees, cheese and the sea at night."]


@pytest.fixture(scope="module")
def model() -> SentenceTransformer:
    return load_base(recipe(), device="cpu")


def test_an_early_token_sees_a_late_one(model: SentenceTransformer) -> None:
    transformer = model.transformers_model
    assert type(transformer).__name__ == "LlamaBidirectionalModel"
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 7, 9]])
    with torch.no_grad():
        for mask in (None, torch.ones_like(ids)):
            hidden = transformer(input_ids=ids, attention_mask=mask).last_hidden_state
            assert (hidden[0, :3] - hidden[1, :3]).abs().amax(dim=-1).min() > 1e-3  # each of the three before it
        padded = torch.cat([ids, torch.tensor([[5], [200]])], dim=1)
        mask = torch.tensor([[1, 1, 1, 1, 0]] * 2)
        hidden = transformer(input_ids=padded, attention_mask=mask).last_hidden_state
        assert (hidden[0, 0] - hidden[1, 0]).abs().max() > 1e-3
        same = transformer(input_ids=padded[[0, 0]].index_put_((torch.tensor(1), torch.tensor(4)), torch.tensor(99)),
                           attention_mask=mask).last_hidden_state  # fmt: skip
        torch.testing.assert_close(same[0, :4], same[1, :4])  # what a pad is does not matter
    assert attends_both_ways(model)
    assert not attends_both_ways(build("stance-qwen3-8b"))


def test_a_base_whose_code_turns_causal_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"its first token does not see the last one, recipe obliq-3b wants attention"
    ):
        load_base(recipe(causal=True), device="cpu")
    load_base(recipe("bidirectional=false", causal=True), device="cpu")


def test_the_vector_is_the_mean_over_the_texts_own_tokens_of_length_one(model: SentenceTransformer) -> None:
    found = model.encode(TEXTS)
    assert found.shape == (3, 32)
    for text, vector in zip(TEXTS, found, strict=True):
        ids = torch.tensor([model.tokenizer(text)["input_ids"]])
        with torch.no_grad():
            mean = model.transformers_model(input_ids=ids).last_hidden_state[0].double().mean(dim=0).numpy()
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


def test_the_mean_is_taken_in_float32() -> None:
    """2,048 half-precision hundreds: their sum is beyond what float16 holds, and in bfloat16 it would stop growing."""
    states = torch.full((1, 2048, 1), 100, dtype=torch.float16)
    features = {"token_embeddings": states, "attention_mask": torch.ones(1, 2048, dtype=torch.long)}
    assert float(Pooling(1, pooling_mode="mean")(features)["sentence_embedding"]) == 100


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(side: str) -> None:
    model = load_base(recipe(), device="cpu")
    _pad_on(model.tokenizer, side)  # type: ignore[arg-type]
    together = model.encode(TEXTS)
    alone = np.concatenate([model.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_code_runs_only_for_whom_its_base_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"brings code of its own \(llama_bidirectional_model\.LlamaBidirectional"):
        load_base(recipe(trusted=False), device="cpu")
    with pytest.raises(ValueError, match=r"trust_remote_code 'org/other' for the base 'slant-tests/tiny-bidir"):
        recipe("trust_remote_code=org/other")
    elsewhere = install(repository="org/code")
    with pytest.raises(ValueError, match=r"its code is that of another repository \(org/code\)"):
        load_base(recipe(f"base={elsewhere}", "pooling=mean", f"trust_remote_code={elsewhere}"), device="cpu")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_tokenizers_code_is_no_third_repositorys_either(tmp_path: Path, name: str) -> None:
    """Its entry is a pair, slow and fast, and stands in a file of its own as well."""
    maps: dict[str, dict[str, object]] = {"config.json": {"AutoModel": "m.X"}, "tokenizer_config.json": {}}
    maps[name]["AutoTokenizer"] = ["evil/repo--tok.T", None]
    for file, classes in maps.items():
        (tmp_path / file).write_text(json.dumps({"model_type": "x", "auto_map": classes}))
    with pytest.raises(ValueError, match=r"its code is that of another repository \(evil/repo\)"):
        runs_own_code(str(tmp_path), None, str(tmp_path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1]", "got list, wanted a JSON object"),
        ('{"auto_map": ["m.X"]}', "got list as auto_map"),
        ("{", "it is no JSON"),
    ],
)
def test_an_odd_configuration_is_named(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=rf"config\.json: {words}"):
        runs_own_code(str(tmp_path), None, None)


def pairs(folder: Path) -> Path:
    """Eight rows in ReasonIR's shape."""
    path = folder / "rows.jsonl"
    rows = [
        {"query": ["Find the like.", f"query number {i}"], "pos": [f"document {i} is right"],
         "neg": [["", f"document {i} of class {n} is wrong"] for n in range(4)]}
        for i in range(8)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_two_steps_and_the_real_gate(tmp_path: Path) -> None:
    """The gate loads the run in a process of its own, which needs the code once more."""
    made = recipe(f"data={pairs(tmp_path)}")
    run = train(made, tmp_path / "run")
    manifest = Manifest.read(run)
    assert (manifest.status, manifest.steps, manifest.code_revision) == ("trained", 2, REVISION)
    assert (manifest.max_query_length, manifest.pooling) == (24, "mean")
    card = (run / "README.md").read_text()
    assert 'SentenceTransformer(".", trust_remote_code=True)' in card
    assert f"{made.base}` at commit `{REVISION}`" in card
    assert f"| base: {made.base} | cc-by-nc and llama3.2 |" in card
    with pytest.raises(ValueError, match=f"say trust_remote_code={made.base}"):
        load(run)
    loaded = load(run, trust_remote_code=made.base)
    plain = SentenceTransformer(str(run), trust_remote_code=True)
    np.testing.assert_allclose(loaded.encode(TEXTS), plain.encode(TEXTS), atol=1e-6)
    assert np.abs(loaded.encode(TEXTS) - load_base(made, device="cpu").encode(TEXTS)).max() > 1e-3


def test_both_ways_stays_both_ways_under_the_adapter() -> None:
    model = load_base(recipe(), device="cpu")
    attach_lora(model, recipe())
    assert attends_both_ways(model)
    moved = [name for name, p in model.named_parameters() if p.requires_grad]
    assert len(moved) == 2 * 7 * 2  # layers, projections, A and B
    assert training.precision_of(recipe()) == "fp32"


# -- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run for stance on a base with code of its own, its adapter random."""
    return make_run(tmp_path / "run", recipe(), code_revision=REVISION)


def _consented(*arguments: str) -> str:
    """What a command says that refuses the base's code unless it is named, and then runs."""
    refused = CliRunner().invoke(app, [*arguments])
    assert (refused.exit_code, f"say trust_remote_code={install()}" in refused.output) == (1, True), refused.output
    done = CliRunner().invoke(app, [*arguments, "--trust-remote-code", install()])
    assert done.exit_code == 0, done.output
    return done.output


def test_encode_runs_code_by_name(run: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    _consented("encode", str(run), str(tmp_path / "texts.txt"), "--out", str(tmp_path / "v.npy"))
    loaded = load(run, trust_remote_code=install())
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), loaded.encode(TEXTS), atol=1e-6)


def test_probe_runs_code_by_name(run: Path, tmp_path: Path) -> None:
    pair = {"claim": "Cars.", "original": "Yes.", "original_stance": "support", "inverted": "No."}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair) + "\n")
    said = _consented(
        "probe", "--model", str(run), "--data", str(tmp_path / "pairs.jsonl"), "--out", str(tmp_path / "probe")
    )
    assert "pairs: 1 arguments of 1 claims" in said
    assert json.loads((tmp_path / "probe" / "probe.json").read_text())["model"]["base"] == install()


def test_tune_runs_code_by_name(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "SCALES", (1.0,))
    monkeypatch.setattr(tuning, "ANCHORS", (0.0,))
    rows = [
        {"claim": f"{n} holds.", "support": [f"{n} is so."], "attack": [f"{n} is not."], "split": "validation"}
        for n in ("One", "Two", "Three", "Four", "Five", "Six")
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _consented("tune", str(run), "--tasks", "mine-stance", "--data", str(tmp_path / "mine.jsonl"))
    assert Manifest.read(run).lambda_model is not None


def test_merge_runs_code_by_name_and_carries_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_parity, "measure", lambda model: {"reason": "another test's"})
    _consented("merge", str(run))
    whole = run.with_name("run-merged")
    with pytest.raises(ValueError, match=f"say trust_remote_code={whole}"):
        load(whole)
    found = load(whole, trust_remote_code=str(whole)).encode(TEXTS)
    np.testing.assert_allclose(found, load(run, trust_remote_code=install()).encode(TEXTS), atol=1e-5)


def test_no_merged_model_with_code_is_released(run: Path) -> None:
    """Before anything is asked of the Hub, which tests cannot reach."""
    with pytest.raises(ValueError, match=r"brings code of its own, which a merged model would carry; .*--merged"):
        publish.release(run, "org", merged=True)


def test_no_merged_model_for_oblique_search_is_released(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", prompts={"twitter": "Find it: ", "query": "", "document": ""})
    with pytest.raises(ValueError, match=r"is a model for oblique search, of which the adapter alone is released"):
        publish.release(run, "org", merged=True)
