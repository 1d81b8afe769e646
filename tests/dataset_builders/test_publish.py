"""Publishing data: the real command and the real clients against the loopback Hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dataset_builders import folder
from dataset_builders.folder import Table, batches_of
from dataset_builders.schema import OBLIQUE_ROWS
from dataset_builders.stance.inversions import PROMPT_SHA256
from tests.dataset_builders.publisher import NAME, Publisher, claims, commits
from tests.dataset_builders.test_inversions import EXPLICIT, claims_file, flipped, sides
from tests.endpoint import endpoint
from tests.hub.clients import TestHub


def load_all(hub: TestHub, name: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Every row of every config, loaded by a stranger in a fresh process."""

    def load(repo: str) -> Any:
        from datasets import get_dataset_config_names, load_dataset

        return {
            config: {split: rows.to_list() for split, rows in load_dataset(repo, config).items()}
            for config in get_dataset_config_names(repo)
        }

    found: dict[str, dict[str, list[dict[str, Any]]]] = hub.call(load, f"org/{name}", token=None)
    return found


def snippets(card: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", card, re.DOTALL)


def test_the_sample_triplets_load_by_their_name_alone_and_the_card_runs(hub: TestHub, publisher: Publisher) -> None:
    done = publisher.run("publish", "sample-stance-triplets", "--org", "org", "--tag", "v1.0.0")
    assert done.code == 0, done.output
    repo = hub.repo("dataset", "org/sample-stance-triplets")
    assert commits(hub, "sample-stance-triplets") == 1 and set(repo.tags) == {"v1.0.0"}
    card = hub.files("dataset", "org/sample-stance-triplets")["README.md"].decode()
    code = "\n".join(snippets(card)) + (
        "\nfrom datasets import load_dataset\n"
        "default, named = (load_dataset('org/sample-stance-triplets', *c, split='train') for c in ((), "
        "('mixed_aug',)))\nassert default.num_rows == 14400 and default.to_list() == named.to_list()\n"
        "assert 'inverted' in {n['kind'] for row in default['negatives'] for n in row}\n"
    )
    out = hub.run(code, token=None).stdout
    assert "'train': 14400" in out and out.count("homogeneous") >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "sample-stance-arguments",
        "sample-stance-inversions",
        "sample-obliq-bench",
        "sample-obliq-queries",
        "sample-obliq-style-pairs",
    ],
)
def test_the_other_repositories_of_the_sample(hub: TestHub, publisher: Publisher, name: str) -> None:
    for _ in range(2):
        done = publisher.run("publish", name, "--org", "org")
        assert done.code == 0, done.output
    assert commits(hub, name) == 1
    hub.run("\n".join(snippets(hub.files("dataset", f"org/{name}")["README.md"].decode())), token=None)


def test_a_second_run_makes_no_commit_and_a_tag_is_set_once(hub: TestHub, publisher: Publisher, data: Path) -> None:
    first = publisher.run("publish", NAME, "--org", "org", "--source", data)
    assert first.code == 0 and "published: org/my-stance-arguments at " in first.output, first.output
    files = hub.files("dataset", f"org/{NAME}")
    second = publisher.run("publish", NAME, "--org", "org", "--source", data, "--tag", "v1.0.0", read_back=False)
    assert second.code == 0 and "up to date: " in second.output, second.output
    assert commits(hub) == 1 and hub.files("dataset", f"org/{NAME}") == files
    repo = hub.repo("dataset", f"org/{NAME}")
    claims(data, ("one", "two", "three", "five"))
    third = publisher.run("publish", NAME, "--org", "org", "--source", data, "--tag", "v1.0.0")
    assert third.code == 1 and "a tag stays where it is: choose the next version" in third.output
    assert commits(hub) == 1 and list(repo.tags) == ["v1.0.0"]


def test_fewer_shards_and_renamed_configs_leave_no_old_row_and_a_hand_stays(
    hub: TestHub, publisher: Publisher, data: Path
) -> None:
    assert publisher.run("publish", NAME, "--org", "org", "--source", data, read_back=False).code == 0
    # As an earlier version might have left it: more shards, a config of another name, and what a person wrote.
    old = hub.files("dataset", f"org/{NAME}")
    shard = next(content for path, content in old.items() if path.startswith("claims/train"))
    readme = old["README.md"].decode()
    by_hand = (
        "- config_name: extra\n  data_files: extra/rows.parquet\n- config_name: old\n  data_files: old/*.parquet\n"
    )
    readme = readme.replace("configs:\n", f"configs:\n{by_hand}", 1).replace(
        "pretty_name:", "# a remark\npretty_name:"
    )
    readme = readme.replace(
        "<!-- build: begin -->", "## Why this data exists\n\nA sentence by hand.\n\n<!-- build: begin -->"
    )
    stale = {
        "claims/train-00001-of-00002.parquet": shard,
        "old/train-00000-of-00001-0123456789abcdef.parquet": shard,
    }
    hub.put(
        "dataset",
        f"org/{NAME}",
        {**stale, "README.md": readme.encode(), "extra/rows.parquet": shard, "notes.txt": b"mine"},
    )
    before = commits(hub)

    claims(data, ("one", "five", "six"))  # no test split any more
    done = publisher.run("publish", NAME, "--org", "org", "--source", data)
    assert done.code == 0, done.output
    assert commits(hub) == before + 1
    files = hub.files("dataset", f"org/{NAME}")
    assert not stale.keys() & files.keys() and {"extra/rows.parquet", "notes.txt"} <= files.keys()
    assert not [path for path in files if "/test-" in path]
    assert "A sentence by hand." in files["README.md"].decode() and "extra" in files["README.md"].decode()
    assert "config_name: old" not in files["README.md"].decode()

    publisher.run("publish", NAME, "--org", "org", "--source", data, read_back=False)
    assert commits(hub) == before + 1  # a hand-written part is no reason for a commit
    claimed = {row["claim"] for rows in load_all(hub, NAME)["claims"].values() for row in rows}
    assert claimed == {"Claim one holds.", "Claim five holds.", "Claim six holds."}
    assert {row["claim"] for row in load_all(hub, NAME)["extra"]["train"]} == {"Claim one holds.", "Claim two holds."}


def test_generated_inversions_are_built_published_and_loaded(
    hub: TestHub, publisher: Publisher, tmp_path: Path
) -> None:
    name, source = "my-stance-inversions", tmp_path / "data" / "my-stance-arguments"
    built = source.with_name(name)
    with endpoint(flipped) as server:
        for command in (
            ("build", source.name, "--source", claims_file(tmp_path, 3), "--out", source),
            ("build", name, "--source", source, "--out", built, "--generate", "tiny", "--base-url", server.base_url),
            ("publish", name, "--source", source, "--org", "org"),
        ):
            done = publisher.run(*command)
            assert done.code == 0, done.output
        assert len(server.bodies) == 3  # one for each claim: publishing asks nobody
    assert commits(hub, name) == 1
    (shard,) = built.glob("inversions/train-*.parquet")
    assert load_all(hub, name) == {"inversions": {"train": pq.read_table(shard).to_pylist()}}
    rows = load_all(hub, name)["inversions"]["train"]
    originals = [text for of in sides(3).values() for texts in of.values() for text in texts]
    assert {row["original"]: row["inverted"] for row in rows} == {text: EXPLICIT[text] for text in originals}
    assert {(row["generator"], row["prompt_sha256"]) for row in rows} == {("tiny", PROMPT_SHA256)}
    card = hub.files("dataset", f"org/{name}")["README.md"].decode()
    assert "tiny" in card and PROMPT_SHA256 in card


def test_ones_own_oblique_rows_are_held_to_their_bounds(hub: TestHub, publisher: Publisher, tmp_path: Path) -> None:
    rows = [
        {
            "task": "congress",
            "lens": "tip_of_tongue",
            "instruction": "Retrieve.",
            "query": f"somebody scolded a herald over a kettle, number {i}",
            "positive_id": f"p{i}",
            "positive": f"MR. ADAMS: The boiler of works {i} burst.",
            "negatives": [{"id": f"n{j}", "text": f"Another text {j}.", "kind": "bm25"} for j in range(4)],
            "attribute": None,
            "generator": "tiny",
            "source": "mine",
            "licence": "cc0-1.0",
        }
        for i in range(6)
    ]
    out = tmp_path / "built"

    def build() -> None:
        items = [("all", rows), ("congress", rows)]
        folder.write(
            out,
            [Table(c, "train", OBLIQUE_ROWS, 6, batches_of(r, OBLIQUE_ROWS)) for c, r in items],
            default="all",
            licences=["cc0-1.0"],
            summary="# built",
            facts={},
        )

    build()
    publish = ("publish", "my-obliq-queries", "--org", "org", "--source", out)
    done = publisher.run(*publish)
    assert done.code == 0, done.output
    card = hub.files("dataset", "org/my-obliq-queries")["README.md"].decode()
    assert "congress: tip_of_tongue: highest coverage" in card and "by a language model" in card
    assert load_all(hub, "my-obliq-queries")["all"]["train"] == rows
    rows[0]["query"] = "somebody scolded a herald when the boiler burst"
    build()
    refused = publisher.run(*publish)
    assert refused.code == 1 and commits(hub, "my-obliq-queries") == 1, refused.output
    assert "1 bounds do not hold: congress: tip_of_tongue: highest coverage" in refused.output
    rows[0]["query"], rows[1]["licence"] = rows[1]["query"], "unknown"
    build()
    assert "1 rows have the licence 'unknown', such as ['congress p1']" in publisher.run(*publish).output
