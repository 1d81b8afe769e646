"""Encoding many texts: equal to encoding each, once for each, and not lost when killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from typer.testing import CliRunner

from hub_models.__main__ import app
from hub_models.adapter import adapter_off, attach_lora
from hub_models.base import load_base
from hub_models.corpus import encode_corpus
from tests.tiny import build, install_tiny, tiny

TEXTS = ["No.", "Cities should ban cars.", "", "No.", "no.", "a " * 30, "\u2028 line", "🙂"]


@pytest.fixture
def model() -> SentenceTransformer:
    return build("stance-bge-large")


class Spy:
    """Counts the texts that reach a model's `encode`, and can fail from some text on."""

    def __init__(self, model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch, fail_after: int | None = None):
        self.texts: list[str] = []
        encode = model.encode

        def spy(texts: list[str], **options: Any) -> Any:
            if fail_after is not None and len(self.texts) >= fail_after:
                raise KeyboardInterrupt
            self.texts.extend(texts)
            return encode(texts, **options)

        monkeypatch.setattr(model, "encode", spy)


def test_rows_are_those_of_plain_encoding_in_order(model: SentenceTransformer) -> None:
    vectors = encode_corpus(TEXTS, model, batch_size=2)
    assert (vectors.dtype, vectors.shape) == (np.float32, (8, 32))
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, model.encode(text), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_model_that_does_not_normalise_gives_unit_vectors() -> None:
    whole = build("stance-bge-large")
    bare = SentenceTransformer(modules=list(whole)[:2], device="cpu")
    assert abs(np.linalg.norm(bare.encode("No.")) - 1) > 0.1
    np.testing.assert_allclose(encode_corpus(TEXTS, bare), encode_corpus(TEXTS, whole), atol=1e-5)


def test_each_distinct_text_is_encoded_once_longest_first(
    model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(model, monkeypatch)
    encode_corpus(TEXTS * 3, model)
    assert sorted(spy.texts) == sorted(set(TEXTS))
    assert [len(text) for text in spy.texts] == sorted((len(text) for text in spy.texts), reverse=True)


def test_no_text_gives_no_row(model: SentenceTransformer) -> None:
    assert encode_corpus([], model).shape == (0, 32)
    model.truncate_dim = 8
    assert encode_corpus([], model).shape == (0, 8)
    np.testing.assert_allclose(np.linalg.norm(encode_corpus(TEXTS, model), axis=1), 1, atol=1e-6)


def test_the_default_prompt_of_a_model_stays_away(model: SentenceTransformer) -> None:
    expected = encode_corpus(TEXTS, model)
    model.prompts, model.default_prompt_name = {"query": "Find evidence refuting "}, "query"
    np.testing.assert_array_equal(encode_corpus(TEXTS, model), expected)
    assert np.abs(encode_corpus(TEXTS, model, prompt="Find evidence refuting ") - expected).max() > 0.01


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_that_returns_nan_names_a_text(model: SentenceTransformer, value: float) -> None:
    with torch.no_grad():
        model.transformers_model.embeddings.word_embeddings.weight.fill_(value)
    with pytest.raises(ValueError, match=r"2 of 2 texts got a vector with NaN.*'Cities should ban cars\.'"):
        encode_corpus(["No.", "Cities should ban cars."], model)


def test_a_vector_of_length_zero_is_an_error() -> None:
    model = build("stance-instructor-xl")
    with torch.no_grad():
        model[2].linear.weight.zero_()
    with pytest.raises(ValueError, match="of length 0"):
        encode_corpus(["No."], model)


def test_a_lone_surrogate_is_an_error_before_any_encoding(
    model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(model, monkeypatch)
    with pytest.raises(ValueError, match="text 1 holds a lone surrogate"):
        encode_corpus(["fine", "bad \ud800"], model)
    assert spy.texts == []


# The cache


def test_cached_rows_are_bit_equal_and_not_encoded_again(
    model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = encode_corpus(TEXTS, model, cache_dir=tmp_path)
    spy = Spy(model, monkeypatch)
    np.testing.assert_array_equal(encode_corpus(TEXTS, model, cache_dir=tmp_path), first)
    assert spy.texts == []
    encode_corpus([*TEXTS, "new"], model, cache_dir=tmp_path)
    assert spy.texts == ["new"]


def test_a_killed_run_goes_on_where_it_was(
    model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    texts = [f"{i} {'word ' * (i % 7)}" for i in range(100)]
    expected = encode_corpus(texts, model, batch_size=2)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        Spy(model, patch, fail_after=64)
        encode_corpus(texts, model, batch_size=2, cache_dir=tmp_path)
    spy = Spy(model, monkeypatch)
    np.testing.assert_array_equal(encode_corpus(texts, model, batch_size=2, cache_dir=tmp_path), expected)
    assert len(spy.texts) == 100 - 64


def test_a_full_disk_leaves_no_half_shard(
    model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def savez(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(np, "savez", savez)
        encode_corpus(TEXTS, model, cache_dir=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "max_seq_length", 4),
        lambda m: setattr(m[1], "pooling_mode", "mean"),
        lambda m: setattr(m, "truncate_dim", 8),
        lambda m: m.transformers_model.embeddings.word_embeddings.weight.data.add_(1),
        lambda m: m.to(torch.bfloat16),
    ],
    ids=["length", "pooling", "dimensions", "weights", "precision"],
)
def test_whatever_changes_the_model_changes_the_key(model: SentenceTransformer, change: Any, tmp_path: Path) -> None:
    encode_corpus(TEXTS, model, cache_dir=tmp_path)
    change(model)
    np.testing.assert_array_equal(encode_corpus(TEXTS, model, cache_dir=tmp_path), encode_corpus(TEXTS, model))


def test_adapter_on_and_off_are_kept_apart_and_prompts_too(tmp_path: Path) -> None:
    recipe = tiny("stance-bge-large")
    model = load_base(recipe, device="cpu")
    base = encode_corpus(TEXTS, model)
    attach_lora(model, recipe)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.fill_(0.1)
    on = encode_corpus(TEXTS, model, cache_dir=tmp_path)
    with adapter_off(model):
        np.testing.assert_array_equal(encode_corpus(TEXTS, model, cache_dir=tmp_path), base)
    np.testing.assert_array_equal(encode_corpus(TEXTS, model, cache_dir=tmp_path), on)
    assert np.abs(on - base).max() > 1e-3
    model.set_pooling_include_prompt(False)
    whole = encode_corpus(["ab c"], model, cache_dir=tmp_path)
    split = encode_corpus(["c"], model, cache_dir=tmp_path, prompt="ab ")
    assert np.abs(whole - split).max() > 1e-4


def test_a_static_embedding_can_be_cached_too(tmp_path: Path) -> None:
    tokenizer = build("stance-bge-large").tokenizer.backend_tokenizer
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
    expected = encode_corpus(["no.", "cars"], static, cache_dir=tmp_path)
    np.testing.assert_array_equal(encode_corpus(["no.", "cars"], static, cache_dir=tmp_path), expected)


# The command


def test_the_command_encodes_lines_that_end_at_lf_alone(tmp_path: Path) -> None:
    texts = ["a\u2028b", "c\x85d", "e\rf", "last"]
    (tmp_path / "texts.txt").write_bytes("\n".join([*texts, ""]).encode())
    out = tmp_path / "vectors.npy"
    base = install_tiny("stance-bge-large")
    result = CliRunner().invoke(app, ["encode", base, str(tmp_path / "texts.txt"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(np.load(out), encode_corpus(texts, build("stance-bge-large")), atol=1e-6)


def test_the_command_refuses_before_encoding(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a\n")
    arguments = ["encode", "nobody/nothing", str(tmp_path / "texts.txt"), "--out"]
    absent = CliRunner().invoke(app, [*arguments, str(tmp_path / "no" / "v.npy")])
    assert absent.exit_code == 1
    assert "does not exist; make it first" in absent.output
    nobody = CliRunner().invoke(app, [*arguments, str(tmp_path / "v.npy")])
    assert nobody.exit_code == 1
    assert "no such folder" in nobody.output


def test_the_command_resumes_from_a_cache_and_one_rank_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "texts.txt").write_text("no.\ncars\n")
    arguments = ["encode", install_tiny("stance-bge-large"), str(tmp_path / "texts.txt"), "--out"]
    cache = ["--cache", str(tmp_path / "cache")]
    first, second = tmp_path / "first.npy", tmp_path / "second.npy"
    assert CliRunner().invoke(app, [*arguments, str(first), *cache]).exit_code == 0
    assert len(list((tmp_path / "cache").rglob("*.npz"))) == 1
    again = CliRunner().invoke(app, [*arguments, str(second), *cache])
    assert again.exit_code == 0, again.output
    np.testing.assert_array_equal(np.load(second), np.load(first))
    assert "2 x 32, by 1 process(es)" in again.output
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    other = tmp_path / "other.npy"
    assert CliRunner().invoke(app, [*arguments, str(other), *cache]).exit_code == 0
    assert not other.exists()
    alone = CliRunner().invoke(app, [*arguments, str(other)])
    assert alone.exit_code == 1
    assert "2 processes share the work through a folder: give" in alone.output
