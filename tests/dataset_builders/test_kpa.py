"""KPA-2021, from fixtures and, where they are at hand, from the upstream files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dataset_builders import quality, sources
from dataset_builders.stance import quality as stance
from dataset_builders.stance.statistics import sizes

HEADER = "arg_id,argument,topic,stance\n"


def test_topics_are_claims_and_files_are_splits(tmp_path: Path) -> None:
    (tmp_path / "kpm_data").mkdir()
    (tmp_path / "kpm_data" / "arguments_train.csv").write_text(
        "\ufeff"
        + HEADER
        + 'arg_0_0,"It warms, and\nit wakes.",We should drink tea,1\narg_0_1,It tires.,We should drink tea,-1\n'
    )
    (tmp_path / "arguments_dev.csv").write_text(HEADER + "arg_4_0,It is dear.,We should burn coal,-1\n")
    data = sources.load("kpa", tmp_path)
    assert [(c.claim, c.split, c.licence) for c in data.claims] == [
        ("We should drink tea", "train", "cdla-sharing-1.0"),
        ("We should burn coal", "validation", "cdla-sharing-1.0"),
    ]
    assert [(a.argument_id, a.text, a.style) for a in data.arguments] == [
        ("kpa-arg_0_0", "It warms, and\nit wakes.", "natural"),
        ("kpa-arg_0_1", "It tires.", "natural"),
        ("kpa-arg_4_0", "It is dear.", "natural"),
    ]
    assert [r.stance for r in data.relations] == ["support", "attack", "attack"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("arg_id,argument,topic\n", r"arguments_train.csv: got the columns \['arg_id', .* wanted .*'stance'"),
        (HEADER + "a,b,c,0\n", "arguments_train.csv:2: got stance '0', wanted one of"),
        (HEADER + "a,b,c\n", "arguments_train.csv:2: got another number of fields than 4; mend the quotes"),
        (HEADER + "a,b,c,1,d\n", "arguments_train.csv:2: got another number of fields"),
        (HEADER + 'a,"b" c,d,1\n', "arguments_train.csv:2: the line cannot be read"),
        (HEADER + "a,,c,1\n", "arguments_train.csv:2: argument: the text is empty"),
        (HEADER + "a,b,,1\n", "arguments_train.csv:2: topic: the text is empty"),
        (HEADER, "arguments_train.csv: there is no row below the columns; fetch the file anew"),
        ("", r"arguments_train.csv: got the columns None, wanted"),
        ('arg_id,"argument', "arguments_train.csv:.*the line cannot be read"),
        (HEADER + "a,b,c,1\na,d,c,1\n", "argument_id 'kpa-a' stands for two texts"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "arguments_train.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        sources.load("kpa", tmp_path)


def test_a_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    from dataset_builders.sources import kpa

    with pytest.raises(FileNotFoundError, match=r"arguments_train.csv.*github.com/IBM/KPA_2021_shared_task"):
        kpa.read(tmp_path)
    with pytest.raises(ValueError, match=r"kpa: the data does not come with the package.*arguments_train.csv"):
        sources.load("kpa")


def test_the_upstream_counts(external: Path) -> None:
    data = sources.load("kpa", external / "kpa_2021")
    (train,) = (row for row in sizes(data) if row.split == "train")
    assert (train.claims, train.total) == (24, {"support": 2883, "attack": 2700})
    assert train.per_claim["support"] == (2883 / 24, 91, 137) and train.per_claim["attack"] == (112.5, 78, 130)
    assert len(data.restrict({"train"}).arguments) == 5583 and data.counts == {}
    assert Counter(a.style for a in data.arguments) == {"natural": len(data.arguments)}


def test_perspectrum_shares_one_claim_nearly(external: Path) -> None:
    shared = stance.overlap(*(sources.load(n, external / f) for n, f in (("kpa", "kpa_2021"), ("perspectrum",) * 2)))
    assert shared.statistics == {
        "claims": {"total": 24, "equal": 0, "near": 1},
        "arguments": {"total": 5583, "equal": 0, "near": 0},
    }
    assert shared.tables["Claims shared with perspectrum"][1:] == [
        ["Assisted suicide should be a criminal offence", "Suicide should be a criminal offence"]
    ]


@pytest.mark.slow  # a classifier on 5,583 texts, tenfold
def test_the_upstream_files_keep_the_bounds(external: Path) -> None:
    found = quality.check("kpa", external / "kpa_2021")
    assert found.broken == [] and found.mended == []


@pytest.mark.parametrize(
    "content",
    ["arg_id,argument,tópic,stance\n", HEADER + "a,Café,c,1\n", HEADER + "a,b,c,1\n" * 9_999 + "a,Café,c,1\n"],
)
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_named_wherever_it_is_met(tmp_path: Path, content: str, encoding: str) -> None:
    (tmp_path / "arguments_train.csv").write_bytes(content.encode(encoding))
    with pytest.raises(ValueError, match=r"arguments_train.csv: the file is no UTF-8 \(.*save it as UTF-8"):
        sources.load("kpa", tmp_path)


def test_one_file_without_a_row_is_not_covered_by_the_others(tmp_path: Path) -> None:
    (tmp_path / "arguments_train.csv").write_text(HEADER + "a,b,c,1\n")
    (tmp_path / "arguments_dev.csv").write_text(HEADER)
    with pytest.raises(ValueError, match=r"arguments_dev.csv: there is no row"):
        sources.load("kpa", tmp_path)
