"""What `datasets` sends and reads, and what its own push does to a repository."""

from __future__ import annotations

from typing import Any

from tests.hub.clients import TestHub


def _push() -> dict[str, Any]:
    from datasets import Dataset

    rows = Dataset.from_dict({"query": ["a", "b"], "positive": ["c", "d"]})
    rows.push_to_hub("org/pairs", "small", split="train")
    outcome: dict[str, Any] = {}
    try:
        rows.push_to_hub("org/pairs", "large", split="train", set_default=True)
        outcome["set_default"] = ""
    except Exception as error:
        outcome["set_default"] = repr(error)
    rows.push_to_hub("org/pairs", "large", split="train")
    return outcome


def _load() -> dict[str, Any]:
    from datasets import get_dataset_config_names, load_dataset

    rows = load_dataset("org/pairs", "large", split="train")
    return {"configs": get_dataset_config_names("org/pairs"), "rows": rows[:]}


def _default() -> list[Any]:
    from datasets import load_dataset

    found = load_dataset("org/mixed")
    return [{split: rows["x"][:] for split, rows in found.items()}, found["train"].info.config_name]


def test_the_library_s_own_push_makes_a_commit_a_config_and_trips_over_set_default(loopback_hub: TestHub) -> None:
    outcome = loopback_hub.call(_push)
    assert outcome["set_default"] == "KeyError('default')", "set_default works on a second config now"
    repo = loopback_hub.repo("dataset", "org/pairs")
    assert len(repo.commits) - 1 == 2, "a commit for each config that was pushed"
    seen = loopback_hub.call(_load, token=None)
    assert seen == {"configs": ["large", "small"], "rows": {"query": ["a", "b"], "positive": ["c", "d"]}}


def test_load_dataset_takes_the_default_config_and_its_splits_from_the_card(loopback_hub: TestHub) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    def parquet(*values: int) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(pa.table({"x": pa.array(values)}), buffer)
        return buffer.getvalue()

    card = (
        "---\nlicense: mit\nconfigs:\n"
        "- config_name: other\n  data_files:\n  - {split: train, path: other/train-*}\n"
        "- config_name: mixed\n  default: true\n  data_files:\n"
        "  - {split: train, path: mixed/train-*}\n  - {split: test, path: mixed/test-*}\n---\n"
    )
    files = {
        "README.md": card.encode(),
        "other/train-0.parquet": parquet(9),
        "mixed/train-0.parquet": parquet(1, 2),
        "mixed/test-0.parquet": parquet(3),
    }
    loopback_hub.put("dataset", "org/mixed", files, private=True)
    assert loopback_hub.call(_default) == [{"train": [1, 2], "test": [3]}, "mixed"]
    assert not loopback_hub.log.matching("GET", "/_cdn/")[0].user, "the token stays with the Hub"
