"""What plain loading makes of a released adapter (hub.md 1 and 2), with the installed versions.

If one of these fails after an upgrade, loading has changed: read the release's door (`hub_models.load`) and the line on
the cards again before the expectation here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hub.clients import TestHub


def _make(folder: str) -> None:
    """A tiny base in two versions, and an adapter in two versions that were trained on the first."""
    import torch
    from peft import LoraConfig
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel, BertTokenizer, set_seed

    def base(seed: int) -> SentenceTransformer:
        from pathlib import Path

        set_seed(seed)
        tiny = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        raw = Path(f"{folder}/raw-{seed}")
        raw.mkdir(parents=True)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "cats", "dogs"]
        (raw / "vocab.txt").write_text("\n".join(words))
        BertTokenizer(str(raw / "vocab.txt")).save_pretrained(raw)
        model = BertModel(BertConfig(vocab_size=len(words), **tiny))
        with torch.no_grad():
            for weights in model.parameters():
                weights.normal_(std=0.5)
        model.save_pretrained(raw)
        transformer = Transformer(str(raw))
        return SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu")

    for seed in (0, 1):
        base(seed).save(f"{folder}/base-{seed}")
    for seed in (2, 3):
        model = SentenceTransformer(f"{folder}/base-0", device="cpu", prompts={"query": f"query {seed}: "})
        set_seed(seed)
        model.add_adapter(LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules=["query", "value"]))
        with torch.no_grad():
            for name, weights in model[0].model.named_parameters():
                if "lora_" in name:
                    weights.normal_(std=0.5)
        model[0].model.peft_config["default"].base_model_name_or_path = "org/base"
        model.save(f"{folder}/adapter-{seed}")


def _embed(base_of_then: str) -> dict[str, Any]:
    from huggingface_hub import snapshot_download
    from sentence_transformers import SentenceTransformer

    text = ["cats a b"]
    plain = SentenceTransformer("org/adapter", revision="v1", device="cpu")
    pinned = {"adapter_kwargs": {"revision": "v1"}}
    by_hand = SentenceTransformer("org/base", revision=base_of_then, device="cpu")
    by_hand.load_adapter("org/adapter", adapter_kwargs={"revision": "v1"})
    models = {
        "main": SentenceTransformer("org/adapter", device="cpu"),
        "revision": plain,
        "snapshot": SentenceTransformer(snapshot_download("org/adapter", revision="v1"), device="cpu"),
        "adapter_kwargs": SentenceTransformer("org/adapter", revision="v1", model_kwargs=pinned, device="cpu"),
        "base and adapter": by_hand,
    }
    vectors: dict[str, Any] = {name: model.encode(text)[0].tolist() for name, model in models.items()}
    return vectors | {"prompts": plain.prompts, "prompts by hand": by_hand.prompts}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with TestHub() as hub:
        hub.call(_make, str(folder))
    return folder


def _files(folder: Path) -> dict[str, bytes | Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}


def test_plain_loading_pins_neither_the_adapter_s_weights_nor_the_base(loopback_hub: TestHub, trained: Path) -> None:
    hub = loopback_hub
    then = hub.put("model", "org/base", _files(trained / "base-0"))
    released = hub.put("model", "org/adapter", _files(trained / "adapter-2"))
    hub.repo("model", "org/adapter").tags["v1"] = released.oid

    def embed() -> dict[str, Any]:
        seen: dict[str, Any] = hub.call(_embed, then.oid, token=None)
        return seen

    first = embed()
    truth = pytest.approx(first["base and adapter"], abs=1e-6)
    for name in ("main", "revision", "snapshot", "adapter_kwargs"):
        assert first[name] == truth, f"as released, {name} gives the released vectors"

    hub.put("model", "org/adapter", _files(trained / "adapter-3"))
    moved = embed()
    assert moved["main"] != truth
    assert moved["revision"] == pytest.approx(moved["main"], abs=1e-6), "hub.md 1: weights of main at revision v1"
    assert moved["prompts"]["query"] == "query 2: ", "but the prompts of v1"
    for name in ("snapshot", "adapter_kwargs", "base and adapter"):
        assert moved[name] == truth, name

    hub.put("model", "org/base", _files(trained / "base-1"))
    rebased = embed()
    for name in ("snapshot", "adapter_kwargs"):
        assert rebased[name] != truth, f"hub.md 2: the base is never pinned, not even by {name}"
    assert rebased["base and adapter"] == truth
    assert rebased["prompts by hand"]["query"] == "", "hub.md 2: this way the prompts are the base's"


def _frame() -> list[Any]:
    from peft import PeftModel
    from transformers import AutoModel, AutoTokenizer

    model = PeftModel.from_pretrained(AutoModel.from_pretrained("org/base"), "org/adapter", revision="v1")
    tokens = AutoTokenizer.from_pretrained("org/adapter", revision="v1")("cats", return_tensors="pt")
    return list(model(**tokens).last_hidden_state.shape)


def test_transformers_and_peft_load_from_it(loopback_hub: TestHub, trained: Path) -> None:
    loopback_hub.put("model", "org/base", _files(trained / "base-0"))
    released = loopback_hub.put("model", "org/adapter", _files(trained / "adapter-2"))
    loopback_hub.repo("model", "org/adapter").tags["v1"] = released.oid
    assert loopback_hub.call(_frame, token=None) == [1, 3, 16]
