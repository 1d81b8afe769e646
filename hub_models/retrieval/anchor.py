"""A tuned encoder's own base as topical anchor: two cosines, added.

Training for stance costs topical sharpness (semi-hard errors). The base, which is the same network with its adapter
off, still has it, and is asked with the claim alone. `fuse` adds the two score lists over the whole corpus, each on
[0, 1]. With fixed scales the sum is one inner product of concatenated vectors: `joined` makes them, for an index of
one's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hub_models.retrieval.fusion import check_weight

Float32 = NDArray[np.float32]


def joined(adapted: Float32, base: Float32, weight: float) -> Float32:
    """Vectors whose inner product is the mean of two cosines, the base's weighing ``weight`` times the adapted one's.

    Made of queries and of documents alike, so that any index of unit vectors can hold them: they have length 1.

    Args:
        adapted: float32[n, d], L2-normalised: documents, or queries with their instruction, adapter on.
        base: float32[n, d], L2-normalised: the same documents, or the claims alone, adapter off.
        weight: w, in [0, 1].

    Returns:
        float32[n, 2 d], L2-normalised; the inner product of two is (cos_adapted + w cos_base) / (1 + w).

    Raises:
        ValueError: If the weight is not in [0, 1], or the shapes differ.

    Example:
        >>> import numpy as np
        >>> q = joined(np.float32([[1, 0]]), np.float32([[0, 1]]), 0.5)
        >>> d = joined(np.float32([[1, 0]]), np.float32([[1, 0]]), 0.5)
        >>> round(float((q @ d.T)[0, 0]), 3)
        0.667
    """
    check_weight(weight)
    if adapted.shape != base.shape:
        raise ValueError(
            f"got adapted vectors of shape {adapted.shape} and base vectors of shape {base.shape}, wanted the same "
            "texts, encoded by one model with its adapter on and off"
        )
    shares = np.sqrt(np.array([1, weight]) / (1 + weight)).astype(np.float32)
    return np.concatenate([adapted * shares[0], base * shares[1]], axis=1)
