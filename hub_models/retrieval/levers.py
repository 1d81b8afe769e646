"""How a tuned encoder is used: its adapter's scale and its anchor, as given or as its ``slant.json`` stores them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hub_models.adapter import check_scale
from hub_models.model_files import slant_json
from hub_models.retrieval.adaptive import LambdaModel
from hub_models.retrieval.fusion import check_weight


@dataclass(frozen=True, slots=True)
class Levers:
    """How an encoder with an adapter is used.

    Attributes:
        adapter_scale: Weight of the adapter, 1 as trained.
        anchor: Weight of the base's scores, in [0, 1]; 0 for none.

    Raises:
        ValueError: If a number is out of its range.
    """

    adapter_scale: float = 1.0
    anchor: float = 0.0

    def __post_init__(self) -> None:
        check_scale(self.adapter_scale)
        check_weight(self.anchor)

    def __str__(self) -> str:
        return f"adapter scale {self.adapter_scale:g} and anchor {self.anchor:g}"

    @property
    def pulled(self) -> bool:
        """Whether anything differs from the plain model."""
        return self != Levers()

    def but(self, adapter_scale: float | None, anchor: float | None) -> Levers:
        """The same with what is given instead; None leaves it."""
        return Levers(
            self.adapter_scale if adapter_scale is None else adapter_scale, self.anchor if anchor is None else anchor
        )

    @property
    def params(self) -> dict[str, Any]:
        """Those that are pulled, as a run of a results file names them."""
        params: dict[str, Any] = {} if self.adapter_scale == 1 else {"adapter_scale": self.adapter_scale}
        return params | ({"anchor": self.anchor} if self.anchor else {})


@dataclass(frozen=True, slots=True)
class Stored:
    """What ``python -m hub_models tune`` chose for a model; nothing, where it was not asked."""

    levers: Levers
    lambda_model: LambdaModel | None


def stored(path_or_id: str | Path) -> Stored:
    """Read a model's levers and λ model.

    Raises:
        ValueError: If ``slant.json`` holds what is none, such as a λ model of another version.
    """
    content = slant_json(path_or_id)
    scale, anchor, model = (content.get(key) for key in ("adapter_scale", "anchor_weight", "lambda_model"))
    try:
        return Stored(
            Levers(1.0 if scale is None else scale, 0.0 if anchor is None else anchor),
            None if model is None else LambdaModel.model_validate(model),
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(["lambda_model", *map(str, first["loc"])])
        raise ValueError(f"model {path_or_id}: slant.json, {place}: {first['msg']}; run tune again") from None
    except ValueError as error:
        raise ValueError(f"model {path_or_id}: slant.json: {error}; run tune again") from None
