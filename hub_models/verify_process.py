"""The fresh process of `verify`: a release loaded as a stranger does, then by the door that pins it."""

from __future__ import annotations

import json
import sys

import numpy as np
from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer

from hub_models.reload import describe, embed


def main(out: str) -> None:
    """Read ``{"repo_id", "revision", "plain", "texts", "trust_remote_code"}`` from stdin; write embeddings and
    settings of both doors."""
    question = json.load(sys.stdin)
    trusted = question["trust_remote_code"]
    found = {}
    if question["plain"]:
        plain = SentenceTransformer(question["repo_id"], trust_remote_code=trusted is not None)
        found["plain"], found["plain_description"] = embed(plain, question["texts"]), json.dumps(describe(plain))
    # After plain loading, which gets no help from this package.
    from hub_models.encoder import load

    snapshot_download(question["repo_id"], revision=question["revision"])  # every file, for its checksum
    pinned = load(question["repo_id"], revision=question["revision"], trust_remote_code=trusted)
    found["pinned"], found["pinned_description"] = embed(pinned, question["texts"]), json.dumps(describe(pinned))
    np.savez(out, **found)


if __name__ == "__main__":
    main(sys.argv[1])
