"""LUAR as a specialist: consent, the commit that it is for, an episode of one, and what its code may get wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import RobertaModel
from typer.testing import CliRunner

from dataset_builders.__main__ import app as builders
from dataset_builders.oblique.documents import load as load_documents
from dataset_builders.oblique.purity import read_vectors
from hub_models import encoder
from hub_models.__main__ import app
from hub_models.corpus import encode_corpus
from hub_models.evaluation.systems import Encoder
from hub_models.hub_cache import install_snapshot
from tests.tiny_luar import INNER, TOKENS, WIDTH, write

TEXTS = ["Cities should ban cars.", "No.", "The claim: find evidence, refuting the word.", "a, b, c", "No."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("luar") / "model")


@pytest.fixture(scope="module")
def model(folder: Path) -> SentenceTransformer:
    return encoder.load(folder, device="cpu", trust_remote_code=str(folder))


def by_hand(folder: Path, model: SentenceTransformer, text: str) -> np.ndarray:
    """Without the checkpoint's code: the mean of the text's own token states, the linear map, length one."""
    weights = load_file(folder / "model.safetensors")
    inner = RobertaModel.from_pretrained(INNER)
    inner.load_state_dict(
        {n.removeprefix("transformer."): w for n, w in weights.items() if n.startswith("transformer.")}, strict=False
    )
    ids = torch.tensor([model.tokenizer(text)["input_ids"][:TOKENS]])
    with torch.no_grad():
        mean = inner.eval()(ids).last_hidden_state[0].double().mean(dim=0)
    vector = mean @ weights["linear.weight"].double().T + weights["linear.bias"].double()
    return (vector / vector.norm()).numpy()


def test_a_text_is_an_episode_of_its_own_of_length_one_in_order(folder: Path, model: SentenceTransformer) -> None:
    found = encode_corpus(TEXTS, model)
    assert (found.shape, found.dtype) == ((len(TEXTS), WIDTH), np.float32)
    np.testing.assert_allclose(found, [by_hand(folder, model, text) for text in TEXTS], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert np.abs(found[0] - found[1]).max() > 0.05


def test_texts_in_one_episode_would_give_another_vector(model: SentenceTransformer) -> None:
    """So that an episode of one is a choice that the other tests can see."""
    tokens = model.tokenizer(TEXTS[:2], padding=True, return_tensors="pt")
    with torch.no_grad():
        together = model[0].model(tokens["input_ids"].unsqueeze(0), tokens["attention_mask"].unsqueeze(0))
    unit = torch.nn.functional.normalize(together).numpy()
    assert np.abs(encode_corpus(TEXTS[:2], model) - unit).max(axis=1).min() > 0.01


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_neither_batch_nor_padding_changes_a_vector(
    model: SentenceTransformer, batch_size: int, tmp_path: Path
) -> None:
    alone = np.concatenate([encode_corpus([text], model) for text in TEXTS])
    np.testing.assert_allclose(encode_corpus(TEXTS, model, batch_size=batch_size), alone, atol=1e-5)
    kept = encode_corpus(TEXTS, model, batch_size=batch_size, cache_dir=tmp_path)
    np.testing.assert_allclose(kept, alone, atol=1e-5)


def test_a_long_text_is_cut_where_its_encoder_ends(folder: Path, model: SentenceTransformer, tmp_path: Path) -> None:
    cut = "word " * (TOKENS - 2)
    found = encode_corpus([cut, cut + "claim cars", "word"], model)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.abs(found[0] - found[2]).max() > 1e-3
    unsaid = write(tmp_path / "unsaid", length=None)
    assert (model.max_seq_length, encoder.load(unsaid, trust_remote_code=str(unsaid)).max_seq_length) == (TOKENS, 512)


def test_its_code_runs_only_for_whom_it_is_named(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    folder = write(tmp_path / "model", first_line=f"open({str(mark)!r}, 'w')")
    for named in (None, "org/other"):
        with pytest.raises(ValueError, match=rf"got trust_remote_code {named!r}; read the code .* say trust_remote_"):
            encoder.load(folder, trust_remote_code=named)
    assert not mark.exists()
    encoder.load(folder, trust_remote_code=str(folder))
    assert mark.exists()
    with pytest.raises(ValueError, match="it brings code of its own"):
        encoder.load(folder)  # although it ran in this process before


def test_what_runs_is_the_commit_that_was_named(tmp_path: Path) -> None:
    mark, repo = tmp_path / "ran", "slant-tests/tiny-luar"
    install_snapshot(repo, "b" * 40, write(tmp_path / "later", first_line=f"open({str(mark)!r}, 'w')"))  # main
    install_snapshot(repo, "a" * 40, write(tmp_path / "read"))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    arguments = ["encode", repo, str(tmp_path / "texts.txt"), "--out", str(tmp_path / "v.npy")]
    arguments += ["--trust-remote-code", repo]
    for revision in ([], ["--revision", "main"]):
        refused = CliRunner().invoke(app, [*arguments, *revision])
        assert (refused.exit_code, "wanted the commit whose code you have read" in refused.output) == (1, True)
    done = CliRunner().invoke(app, [*arguments, "--revision", "a" * 40])
    assert done.exit_code == 0, done.output
    assert not mark.exists()
    local = encoder.load(tmp_path / "read", trust_remote_code=str(tmp_path / "read"))
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), encode_corpus(TEXTS, local), atol=1e-6)


# -- the graph --------------------------------------------------------------------------------------------------------


def documents(path: Path) -> list[str]:
    """The sample's training documents of the writing task as rows; some of them with a line end inside."""
    texts = [d.text.replace(". ", ".\n", 1) for d in load_documents("sample") if d.task == "writing"]
    rows = [{"_id": f"d{i:02}", "text": text, "task": "writing"} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return texts


def pairs(rows: Path, vectors: Path) -> Result:
    """The command that takes over the neighbours of those vectors."""
    out = str(rows.with_name("pairs"))
    options = ["--vectors", str(vectors), "--k", "1", "--query-form", "passage"]
    return CliRunner().invoke(
        builders, ["build", "my-obliq-style-pairs", "--source", str(rows), "--out", out, *options]
    )


def test_one_command_makes_the_vectors_and_one_the_pairs(
    folder: Path, model: SentenceTransformer, tmp_path: Path
) -> None:
    rows, vectors = tmp_path / "documents.jsonl", tmp_path / "luar.npy"
    texts = documents(rows)
    arguments = ["encode", str(folder), str(rows), "--out", str(vectors), "--trust-remote-code", str(folder)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(read_vectors(vectors), encode_corpus(texts, model), atol=1e-6)
    built = pairs(rows, vectors)
    assert built.exit_code == 0, built.output
    assert f"writing/train: {len(texts)} rows" in built.output


def test_it_is_measured_as_a_retriever_too(folder: Path, model: SentenceTransformer) -> None:
    """O K: evaluate.py takes it like any encoder."""
    measured = Encoder(str(folder), trust_remote_code=str(folder))
    np.testing.assert_allclose(measured.encode(TEXTS), encode_corpus(TEXTS, model), atol=1e-6)
    assert measured.info.adapter_sha256 is None


# -- what its code may get wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("found[:-1]", r"gave \(1, 12\) for 2 texts, wanted shape \(2, 12\)"),
        ("found[:, :5]", r"gave \(2, 5\) for 2 texts"),
        ("found.unsqueeze(1)", r"gave \(2, 1, 12\) for 2 texts"),
        ("(found, None)", "gave tuple for 2 texts"),
        ("found * float('nan')", "2 of 2 texts got a vector with NaN, infinity or of length 0"),
        ("found * 0", "2 of 2 texts got a vector with NaN, infinity or of length 0"),
    ],
)
def test_what_is_no_vector_for_each_text_is_refused(tmp_path: Path, returned: str, words: str) -> None:
    folder = write(tmp_path / "model", returned=returned)
    broken = encoder.load(folder, device="cpu", trust_remote_code=str(folder))
    with pytest.raises(ValueError, match=words):
        encode_corpus(TEXTS[:2], broken)


def test_one_vector_for_all_is_refused_where_the_graph_is_made(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", returned="torch.ones_like(found)")
    rows, vectors = tmp_path / "documents.jsonl", tmp_path / "luar.npy"
    documents(rows)
    arguments = ["encode", str(folder), str(rows), "--out", str(vectors), "--trust-remote-code", str(folder)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    built = pairs(rows, vectors)
    assert (built.exit_code, "the same vector: nobody is nearer" in built.output) == (1, True)


def test_a_package_that_its_code_needs_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", first_line="import no_such_package")
    with pytest.raises(ValueError, match=r"its code needs what is not installed: .*no_such_package"):
        encoder.load(folder, trust_remote_code=str(folder))


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("linear.bias", None, r"they lack \['linear\.bias'\] and hold \[\] besides"),
        ("other.weight", (2, 2), r"they lack \[\] and hold \['other\.weight'\] besides"),
        ("linear.bias", (3,), r"its weights do not fit its code .*size mismatch for linear\.bias"),
    ],
)
def test_weights_of_another_model_are_refused(
    tmp_path: Path, name: str, shape: tuple[int, ...] | None, words: str
) -> None:
    folder = write(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights.pop(name, None)
    if shape is not None:
        weights[name] = torch.zeros(shape)
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ValueError, match=rf"(?s){words}"):
        encoder.load(folder, trust_remote_code=str(folder))


def test_a_checkpoint_without_its_code_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"model_type": "LUAR"}))
    with pytest.raises(ValueError, match=r"it is a LUAR, and its config\.json names no code"):
        encoder.load(folder, trust_remote_code=str(folder))


def test_rows_without_a_text_are_named(folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    arguments = ["encode", str(folder), str(rows), "--out", str(tmp_path / "v.npy")]
    for content, words in (('{"_id": "a"}\n', "rows.jsonl:1: text: got NoneType"), ("", "there is no row in it")):
        rows.write_text(content)
        done = CliRunner().invoke(app, arguments)
        assert (done.exit_code, words in done.output) == (1, True), done.output
