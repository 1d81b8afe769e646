"""Each endpoint that is served meets the real client once."""

from __future__ import annotations

from typing import Any

from tests.hub.accounts import TOKENS
from tests.hub.clients import TestHub
from tests.hub.server import ENDPOINTS, UNSERVED


def _tour(fill: str) -> dict[str, Any]:
    from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi
    from huggingface_hub.utils import get_session

    api = HfApi()
    seen: dict[str, Any] = {"user": api.whoami()["name"]}
    for kind in ("model", "dataset", "space"):
        where = {"repo_id": "org/tour", "repo_type": kind}
        api.create_repo(**where, space_sdk="static" if kind == "space" else None)
        card = b"---\nlicense: mit\nsdk: static\ntags: [a]\n---\n# Tour"
        adds = [CommitOperationAdd("README.md", card), CommitOperationAdd("deep/er/x.bin", b"\0" + fill.encode() * 99)]
        first = api.create_commit(**where, operations=adds, commit_message="first")
        api.create_tag(**where, tag="v1")
        api.create_branch(**where, branch="side", revision="v1")
        second = api.create_commit(
            **where,
            operations=[
                CommitOperationCopy("deep/er/x.bin", "y.bin"),
                CommitOperationCopy("README.md", "deep/old.md"),
                CommitOperationDelete("README.md"),
            ],
            commit_message="second",
            parent_commit=first.oid,
        )
        assert [commit.commit_id for commit in api.list_repo_commits(**where)][:2] == [second.oid, first.oid]
        assert [entry.path for entry in api.list_repo_tree(**where)] == [".gitattributes", "deep", "y.bin"]
        assert [entry.path for entry in api.list_repo_tree(**where, path_in_repo="deep", recursive=True)] == [
            "deep/er",
            "deep/er/x.bin",
            "deep/old.md",
        ]
        assert "README.md" in api.list_repo_files(**where, revision="v1")
        refs = api.list_repo_refs(**where)
        seen[kind] = [ref.name for ref in refs.branches]
        assert refs.tags[0].target_commit == first.oid
        info = api.repo_info(**where, files_metadata=True)
        assert info.sha == second.oid and info.siblings is not None and info.siblings[-1].size == 100
        folder = api.snapshot_download(**where, revision="side")
        assert api.verify_repo_checksums(**where, revision="side", local_dir=folder).mismatches == []
        api.auth_check(**where)
        api.auth_check(**where, write=True)
        api.delete_tag(**where, tag="v1")
        api.delete_branch(**where, branch="side")
        api.update_repo_settings(**where, private=True)
    assert [model.id for model in api.list_models(author="org")] == ["org/tour"]
    assert [each.id for each in api.list_datasets(search="TOU")] == ["org/tour"]
    assert [space.id for space in api.list_spaces(limit=5)] == ["org/tour"]
    assert api.get_space_runtime("org/tour").stage == "RUNNING"
    get_session().get(f"{api.endpoint}/api/agent-harnesses").raise_for_status()

    collection = api.create_collection("Slant 1.0", namespace="org", description="One release")
    assert api.create_collection("Slant 1.0", namespace="org", exists_ok=True).slug == collection.slug
    slug = collection.slug
    api.add_collection_item(slug, "org/tour", "model", note="the model")
    api.add_collection_item(slug, "org/tour", "model", exists_ok=True)
    items = api.add_collection_item(slug, "2403.12345", "paper").items
    api.update_collection_item(slug, items[1].item_object_id, position=0)
    api.update_collection_metadata(slug, title="Slant 1.1")
    found = api.get_collection(slug)
    seen["collection"] = [found.title, [(item.item_type, item.item_id, item.note) for item in found.items]]
    assert [each.slug for each in api.list_collections(owner="org")] == [slug]
    api.delete_collection_item(slug, found.items[0].item_object_id)
    assert len(api.get_collection(slug).items) == 1
    api.delete_collection(slug)
    for kind in ("model", "dataset", "space"):
        api.delete_repo("org/tour", repo_type=kind)
    return seen


def test_every_endpoint_is_exercised_by_the_real_client(loopback_hub: TestHub) -> None:
    """Twice: large files go by way of Xet, and with Xet switched off by way of LFS."""
    seen = loopback_hub.call(_tour, "x")
    assert seen["user"] == "ada"
    assert seen["dataset"] == ["main", "side"]
    assert seen["collection"] == ["Slant 1.1", [["paper", "2403.12345", None], ["model", "org/tour", "the model"]]]
    by_xet = {f"{entry.method} {entry.kind}" for entry in loopback_hub.log.entries}
    assert not any("lfs" in kind for kind in by_xet), "hf_xet now falls back to LFS: say so in README.md"
    loopback_hub.call(_tour, "l", env={"HF_HUB_DISABLE_XET": "1"})
    kinds = {f"{entry.method} {entry.kind}" for entry in loopback_hub.log.entries}
    assert set(ENDPOINTS) - kinds == set()
    assert not [kind for kind in kinds if UNSERVED in kind]
    assert not loopback_hub.store.repos and not loopback_hub.store.collections
    assert not any(TOKENS.write in repr(entry) for entry in loopback_hub.log.entries)


def test_the_log_sums_requests_and_bytes_by_kind(loopback_hub: TestHub) -> None:
    loopback_hub.put("model", "org/m", {"w.bin": b"\1" * 5000})
    loopback_hub.run(["hf", "download", "org/m", "w.bin", "--quiet"], token=None)
    summary = loopback_hub.log.summary()
    assert summary["GET (storage) /_cdn/{sha}"] == {"requests": 1, "bytes_up": 0, "bytes_down": 5000}
    assert loopback_hub.log.bytes_down >= 5000
