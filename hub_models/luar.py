"""LUAR, the specialist that O learns style from, as an encoder of single texts (O 3.2, appendices H and K).

A checkpoint reads several texts of one author at once, an episode: int64[batch, episode, tokens] to float32[batch, d].
Here every text is an episode of its own, so that each document has a vector. The model's class is code of its
repository; `hub_models.remote_code` says when that may run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.input_module import InputModule
from transformers import AutoConfig, AutoTokenizer
from transformers.dynamic_module_utils import get_class_from_dynamic_module

MODEL_TYPE = "LUAR"
"""As the ``config.json`` of a checkpoint says."""

MAX_TOKENS = 512
"""Its encoder has positions for no more."""

_FILES = ("*.json", "*.py", "*.txt")  # configuration, code, tokenizer


class Episodes(InputModule):  # type: ignore[misc]
    """Texts to vectors, each text an episode of its own, cut after `max_seq_length` tokens; not normalised.

    Args:
        folder: Holds configuration, code and tokenizer.
        code: Whether that code may run.
    """

    def __init__(self, folder: Path, code: bool) -> None:
        super().__init__()
        config = AutoConfig.from_pretrained(folder, trust_remote_code=code)
        # Not AutoModel: its from_pretrained lets no class load a part of itself, as LUAR's does (transformers 5), and
        # its from_config gives the class of the first checkpoint in the process to all whose configuration is alike.
        self.model = get_class_from_dynamic_module(config.auto_map["AutoModel"], str(folder))(config)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=code)
        self.max_seq_length = min(MAX_TOKENS, self.tokenizer.model_max_length)

    def get_embedding_dimension(self) -> int:
        width: int = self.model.config.embedding_size
        return width

    def preprocess(self, inputs: list[str], prompt: str | None = None, **_: Any) -> dict[str, torch.Tensor]:
        """``input_ids`` and ``attention_mask``, int64[batch, tokens]."""
        texts = [(prompt or "") + text for text in inputs]
        return dict(
            self.tokenizer(texts, padding=True, truncation=True, max_length=self.max_seq_length, return_tensors="pt")
        )

    def forward(self, features: dict[str, torch.Tensor], **_: Any) -> dict[str, torch.Tensor]:
        """Adds ``sentence_embedding``, float32[batch, d].

        Raises:
            ValueError: If the model gives anything else.
        """
        ids, mask = features["input_ids"], features["attention_mask"]
        found = self.model(input_ids=ids.unsqueeze(1), attention_mask=mask.unsqueeze(1))
        wanted = (len(ids), self.get_embedding_dimension())
        got = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        if got != wanted:
            raise ValueError(f"the code of {MODEL_TYPE} gave {got} for {len(ids)} texts, wanted shape {wanted}")
        return {**features, "sentence_embedding": found}

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        raise NotImplementedError("a specialist is asked, never saved")


def load(source: str, revision: str | None, device: str | None, *, code: bool) -> SentenceTransformer:
    """A checkpoint as an encoder: code, weights and tokenizer of one commit.

    Args:
        source: Folder or Hub id.
        revision: Branch, tag or commit of a Hub model.
        device: Such as ``"cpu"``; null lets sentence-transformers choose.
        code: From `remote_code.allowed`.

    Raises:
        ValueError: If its code may not run or needs a package that is not here, there are no weights, or they are not
            those of the code.
    """
    if not code:
        raise ValueError(f"model {source}: it is a {MODEL_TYPE}, and its config.json names no code; get it anew")
    folder = Path(source)
    if not folder.is_dir():
        folder = Path(snapshot_download(source, revision=revision, allow_patterns=list(_FILES)))
    try:
        module = Episodes(folder, code)
        weights = module.load_torch_weights(source, revision=revision)
        missing, unexpected = module.model.load_state_dict(weights, strict=False)
    except ImportError as error:
        raise ValueError(f"model {source}: its code needs what is not installed: {error}") from None
    except RuntimeError as error:
        raise ValueError(f"model {source}: its weights do not fit its code ({error})") from None
    # Older versions of transformers saved the positions too, which are no weights.
    unexpected = [name for name in unexpected if not name.endswith(".position_ids")]
    if missing or unexpected:
        raise ValueError(
            f"model {source}: its weights do not fit its code: they lack {missing[:5]} and hold {unexpected[:5]} "
            "besides; get its files anew"
        )
    return SentenceTransformer(modules=[module], device=device)
