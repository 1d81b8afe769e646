"""The choice of a reranker (O equation 8): another one than identity only where the interval says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hub_models.evaluation.policy import choose, keep_choices, store
from hub_models.evaluation.policy_run import ChosenReranking
from hub_models.evaluation.reranking import Reranking, Setting
from hub_models.evaluation.results import ModelInfo, PerQuery, Results, RunResult, TaskResult
from hub_models.manifest import Manifest
from hub_models.retrieval.policies import AUTO, Policy
from tests.run_folders import manifest

GROUPS = [f"g{i // 2}" for i in range(40)]


def test_the_largest_clear_gain_is_chosen() -> None:
    rng = np.random.default_rng(0)
    base = rng.uniform(0, 0.5, 40)
    values = {"identity": base, "good": base + 0.1, "better": base + 0.2, "noise": base + rng.normal(0, 0.3, 40)}
    choice = choose(values, GROUPS)
    assert choice.policy == "better" and choice.queries == 40
    assert choice.differences["better"].delta == pytest.approx(0.2) and choice.means["identity"] == base.mean()
    said = choice.as_dict()
    assert said["groups"] == 20 and said["candidates"]["good"]["low"] == pytest.approx(0.1)


def test_a_gain_within_the_interval_is_not_enough() -> None:
    gain = np.where(np.arange(40) % 4 < 2, 0.5, -0.48)  # +0.01 on average, and each group wholly up or down
    choice = choose({"identity": np.full(40, 0.5), "lucky": 0.5 + gain}, GROUPS)
    assert choice.means["lucky"] > choice.means["identity"] and choice.policy == "identity"


def test_harm_and_a_single_group_leave_identity() -> None:
    base = np.full(4, 0.5)
    assert choose({"identity": base, "worse": base - 0.2}, ["a", "a", "b", "c"]).policy == "identity"
    alone = choose({"identity": base, "better": base + 0.2}, ["a"] * 4)
    assert alone.policy == "identity" and alone.differences["better"].low is None


def test_of_equal_ones_the_first() -> None:
    base = np.zeros(6)
    assert choose({"identity": base, "a": base + 1, "b": base + 1}, list("aabbcc")).policy == "a"


def test_nothing_to_choose_from() -> None:
    with pytest.raises(ValueError, match=r"\['a'\] on 1 development queries, wanted 'identity' among the policies"):
        choose({"a": np.zeros(1)}, ["g"])
    with pytest.raises(ValueError, match="on 0 development queries"):
        choose({"identity": np.zeros(0)}, [])


def test_slant_json_keeps_a_policy_for_each_task(tmp_path: Path) -> None:
    manifest().write(tmp_path)
    store(tmp_path, "a-obliq-math", {"policy": "tourrank:5", "depth": 100})
    store(tmp_path, "a-obliq-writing", {"policy": "identity", "depth": 100})
    assert Manifest.read(tmp_path).rerank_policy == {
        "a-obliq-math": {"policy": "tourrank:5", "depth": 100},
        "a-obliq-writing": {"policy": "identity", "depth": 100},
    }
    with pytest.raises(FileNotFoundError, match="no run folder"):
        store(tmp_path / "elsewhere", "a", {})


def test_only_the_choice_that_was_asked_for_is_kept(tmp_path: Path) -> None:
    """The results hold two choices, of ``auto`` among others each; the first command asks for none."""
    manifest().write(tmp_path)
    autos = [ChosenReranking((policy,), Setting(depth=7), {}) for policy in AUTO[:2]]
    plain = Reranking(Policy("identity"), Setting(depth=7))
    runs = [chose(plain, None), *(chose(auto, str(auto.policies[0])) for auto in autos)]
    task = TaskResult(dataset="a", revision="r", query_template="{claim}", counts={}, runs=runs)
    info = ModelInfo(id="m", revision=None, base=None, base_revision=None, adapter_sha256=None)
    results = Results(model=info, environment={}, tasks={"a-obliq-math": task})
    for asked, kept in (([plain], None), ([autos[1]], "tourrank:5"), ([autos[0]], "identity"), ([], "identity")):
        said = keep_choices(str(tmp_path), results, ["a-obliq-math"], asked)
        found = Manifest.read(tmp_path).rerank_policy
        assert said == (["a-obliq-math"] if asked and asked != [plain] else [])
        assert (found or {}).get("a-obliq-math", {}).get("policy") == kept
    assert keep_choices("bm25", results, ["a-obliq-math"], autos) == []


def chose(variant: Reranking | ChosenReranking, policy: str | None) -> RunResult:
    choice = {} if policy is None else {"choice": {"policy": policy}}
    return RunResult(
        strategy="rerank", params=variant.params, seed=0, slices={}, compare=[], diagnostics=choice,
        per_query=PerQuery(path="p", sha256="0"), timing={},
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["identity", "tourrank:5", "listwise:20", "listwise", "sliding:20", "cross-encoder:a/b"]
)
def test_policies_have_names(name: str) -> None:
    assert str(Policy.parse(name)) == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tourank:5", "Did you mean 'tourrank'"),
        ("tourrank", "with a number of at least 1"),
        ("tourrank:0", "with a number of at least 1"),
        ("listwise:1", "with a number of at least 2"),
        ("tourrank:٥", "with a number of at least 1"),
        ("identity:5", "wanted identity, tourrank:Y"),
        ("cross-encoder:", "cross-encoder:ID"),
        ("", "wanted identity"),
    ],
)
def test_other_names_are_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Policy.parse(name)


def test_listwise_takes_each_task_s_own_k() -> None:
    assert [str(p.of("congress")) for p in AUTO] == ["identity", "tourrank:5", "listwise:50"]
    assert str(Policy.parse("listwise:7").of("congress")) == "listwise:7"
    with pytest.raises(ValueError, match="the policy tourrank:5 asks a language model"):
        AUTO[1].build("math", None)
