"""The story of one release, told by a client process: released, then the adapter moves on, then its base does.

Uploads to ``org/base`` and ``org/adapter``, and prints as JSON what each way of loading gives at each stage.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import HfApi, snapshot_download
from peft import LoraConfig, PeftModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizer, set_seed

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "cats", "dogs"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def make_base(folder: Path, *, seed: int) -> Path:
    """A tiny random encoder without prompts."""
    raw = folder / f"raw-{seed}"
    raw.mkdir(parents=True)
    (raw / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizer(str(raw / "vocab.txt")).save_pretrained(raw)
    set_seed(seed)
    model = BertModel(BertConfig(vocab_size=len(WORDS), **SIZES))
    with torch.no_grad():
        for weights in model.parameters():
            weights.normal_(std=0.5)
    model.save_pretrained(raw)
    made = SentenceTransformer(modules=[Transformer(str(raw)), Pooling(16)], device="cpu")
    made.save(str(folder / f"base-{seed}"))
    return folder / f"base-{seed}"


def make_adapter(folder: Path, base: Path, *, seed: int) -> Path:
    """A random adapter on that base, which it knows by its Hub id."""
    model = SentenceTransformer(str(base), device="cpu", prompts={"query": f"query {seed}: "})
    model.add_adapter(LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules=["query", "value"]))
    set_seed(seed)
    encoder = model[0].model
    with torch.no_grad():
        for name, weights in encoder.named_parameters():
            if "lora_" in name:
                weights.normal_(std=0.5)
    encoder.peft_config["default"].base_model_name_or_path = "org/base"
    model.save(str(folder / f"adapter-{seed}"))
    return folder / f"adapter-{seed}"


def loaded(base_revision: str) -> dict[str, Any]:
    """The same text through the release v1, by each way of loading it, and through main."""
    pinned = {"adapter_kwargs": {"revision": "v1"}}
    by_hand = SentenceTransformer("org/base", revision=base_revision, device="cpu")
    by_hand.load_adapter("org/adapter", adapter_kwargs={"revision": "v1"})
    models = {
        "main": SentenceTransformer("org/adapter", device="cpu"),
        "revision": SentenceTransformer("org/adapter", revision="v1", device="cpu"),
        "snapshot": SentenceTransformer(snapshot_download("org/adapter", revision="v1"), device="cpu"),
        "adapter_kwargs": SentenceTransformer("org/adapter", revision="v1", model_kwargs=pinned, device="cpu"),
        "base and adapter": by_hand,
    }
    return {
        name: {"vector": model.encode("cats a b").tolist(), "query": model.prompts["query"]}
        for name, model in models.items()
    }


def token_vectors() -> list[int]:
    """The shape that transformers and peft give without sentence-transformers."""
    model = PeftModel.from_pretrained(AutoModel.from_pretrained("org/base"), "org/adapter", revision="v1")
    tokens = AutoTokenizer.from_pretrained("org/adapter", revision="v1")("cats", return_tensors="pt")
    return list(model(**tokens).last_hidden_state.shape)


def main(folder: Path) -> dict[str, Any]:
    api = HfApi()
    base = make_base(folder, seed=0)
    for name in ("org/base", "org/adapter"):
        api.create_repo(name)
    then = api.upload_folder(repo_id="org/base", folder_path=base).oid
    api.upload_folder(repo_id="org/adapter", folder_path=make_adapter(folder, base, seed=2))
    api.create_tag("org/adapter", tag="v1")
    story = {"released": loaded(then), "transformers and peft": token_vectors()}
    api.upload_folder(repo_id="org/adapter", folder_path=make_adapter(folder, base, seed=3))
    story["adapter moved"] = loaded(then)
    api.upload_folder(repo_id="org/base", folder_path=make_base(folder, seed=1))
    story["base moved"] = loaded(then)
    return story


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))  # noqa: T201
