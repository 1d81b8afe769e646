"""The rehearsal: the proof that a stranger gets what was released."""

from __future__ import annotations

import re

import pytest

from hub_models.release_all import DATA
from tests.hub.rehearsal import ORG, Report, rehearse


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return rehearse(tmp_path_factory.mktemp("rehearsal"))


def test_everything_is_released_in_one_commit_each_and_once(report: Report) -> None:
    wanted = {f"dataset {ORG}/{name}" for name in DATA}
    wanted |= {f"model {ORG}/stance-minilm-lora", f"model {ORG}/stance-minilm-merged"}
    assert wanted <= report.commits.keys() and set(report.commits.values()) == {1}
    assert report.second == 0
    assert report.ratio <= 1.2
    assert report.unserved == []


def test_every_snippet_of_every_card_and_of_the_readme_runs(report: Report) -> None:
    printed = report.snippets
    models = [f"{ORG}/stance-minilm-lora", f"{ORG}/stance-minilm-merged"]
    assert set(printed) == {*(f"{ORG}/{name}" for name in DATA), *models, "README.md"}
    similarities, shape, hits, pinned = printed[f"{ORG}/stance-minilm-lora"]
    assert len(re.findall(r"-?0\.\d+", similarities)) == 2
    assert shape == "(384,)\n" == pinned
    assert len(re.findall(r"^\d\.\d{3}  \w", hits, re.MULTILINE)) == 2
    assert len(re.findall(r"-?0\.\d+", printed[f"{ORG}/stance-minilm-merged"][0])) == 2
    assert all(printed[f"{ORG}/{name}"] for name in DATA)
    assert len(printed["README.md"]) == 3


def test_what_was_committed_was_read_back_and_merging_changed_next_to_nothing(report: Report) -> None:
    line = r"verified: (\S+) at \w+: \d+ files .* ([\d.]+) at least \(plain loading: ([\d.]+)\)"
    verified = re.findall(line, report.output)
    assert [name for name, *_ in verified] == [f"{ORG}/stance-minilm-lora", f"{ORG}/stance-minilm-merged"]
    assert all(float(cosine) > 0.9999 and float(plain) > 0.9999 for _, cosine, plain in verified)
