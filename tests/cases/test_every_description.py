"""What can be wrong with a file that describes something: a recipe, a manifest, results, a card."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataset_builders.description import LARGEST
from dataset_builders.folder import read_card, shards
from dataset_builders.hub_remote import Blob, Remote, api, read_text
from dataset_builders.plain_yaml import read_yaml
from hub_models.cards import write_card
from hub_models.evaluation.results import Results
from hub_models.evaluation.study_obliq_results import ObliqueStudyResults
from hub_models.evaluation.study_results import StudyResults
from hub_models.manifest import Manifest
from hub_models.model_files import read_json
from hub_models.plan import processes_of
from hub_models.recipe import RECIPES, load_recipe
from hub_models.remote_code import allowed
from tests.cases.test_every_reader import spoilt
from tests.run_folders import manifest, results, run_folder

TOPOLOGY = RECIPES.parent / "accelerate" / "fsdp2_8.yaml"
COMMITTED = Path(__file__).parents[2] / "results"
CARD = "---\nlicense: mit\nmine: [1, 2]\nconfigs:\n- {config_name: a, data_files: a.parquet}\n---\nBy hand: “–”.\n"


@dataclass(frozen=True)
class Description:
    """One file that describes something: its name, what stands in it, and what reads it."""

    file: str
    content: str
    read: Callable[[Path], object]


def _of_a_run(path: Path) -> object:
    text = path.read_bytes()
    folder = run_folder(path.parent / "run")
    (folder / path.name).write_bytes(text)
    return write_card(folder)


def _of_the_hub(path: Path) -> object:
    remote = Remote("org/name", "dataset", "a" * 40, False, {path.name: Blob(path.stat().st_size, "", False)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(api), "hf_hub_download", lambda *_, **__: str(path))
        text = read_text(remote, path.name)
    return read_card(text or "", path.name)


DESCRIPTIONS = {
    "a recipe": Description("my.yaml", (RECIPES / "stance-minilm.yaml").read_text(encoding="utf-8"), load_recipe),
    "a manifest": Description(
        "slant.json", manifest().model_dump_json(indent=1), lambda path: Manifest.read(path.parent)
    ),
    "results": Description("results.json", json.dumps(results(), indent=1), Results.read),
    "a study's results": Description(
        "results.json", (COMMITTED / "study-minilm" / "results.json").read_text(encoding="utf-8"), StudyResults.read
    ),
    "an oblique study's results": Description(
        "results.json",
        (COMMITTED / "oblique-study" / "results.json").read_text(encoding="utf-8"),
        ObliqueStudyResults.read,
    ),
    "a topology": Description("my.yaml", f"# mean\n{TOPOLOGY.read_text(encoding='utf-8')}", processes_of),
    "a model's own file": Description(
        "adapter_config.json", '{"base_model_name_or_path": "org/mit", "r": 8}', read_json
    ),
    "a base's config": Description(
        "config.json",
        '{"model_type": "bert", "license": "mit"}',
        lambda path: allowed("b", path, None),
    ),
    "a data set's card": Description("README.md", CARD, lambda path: shards(path.parent)),
    "a run's card": Description("README.md", CARD, _of_a_run),
    "a card on the Hub": Description("README.md", CARD, _of_the_hub),
}
every_description = pytest.mark.parametrize("described", DESCRIPTIONS.values(), ids=DESCRIPTIONS.keys())


@every_description
@pytest.mark.parametrize("form", ["as it was", "Windows line ends"])
def test_it_is_read(described: Description, form: str, tmp_path: Path) -> None:
    content = described.content.replace("\n", "\r\n") if form == "Windows line ends" else described.content
    (tmp_path / described.file).write_bytes(content.encode())
    described.read(tmp_path / described.file)


@every_description
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_named_with_its_file(described: Description, encoding: str, tmp_path: Path) -> None:
    content = re.sub(r"mit\b|cc-by|mean", "Café", described.content)
    (tmp_path / described.file).write_bytes(content.encode(encoding, "replace"))
    with pytest.raises(ValueError, match=re.escape(described.file)) as caught:
        described.read(tmp_path / described.file)
    assert not isinstance(caught.value, UnicodeError)


@every_description
def test_a_spoilt_file_is_read_or_refused_by_name(described: Description, tmp_path: Path) -> None:
    rng = random.Random(7)
    refused = 0
    for turn in range(40):
        folder = tmp_path / str(turn)
        folder.mkdir()
        # Its beginning: in a long file what is spoilt would be a number among thousands.
        content = spoilt(described.content[:2_000], rng)
        (folder / described.file).write_bytes(content)
        try:
            described.read(folder / described.file)
        except ValueError as error:
            assert not isinstance(error, UnicodeError), content
            assert Path(described.file).name in str(error) and len(str(error)) < 20_000, content
            refused += 1
    assert refused > 1


@every_description
def test_one_that_is_far_too_large_is_refused_before_it_is_read(described: Description, tmp_path: Path) -> None:
    path = tmp_path / described.file
    path.write_bytes(described.content.encode())
    os.truncate(path, LARGEST + 1)
    with pytest.raises(
        ValueError, match=rf"{described.file}: got a file of 16,777,217 bytes, wanted at most 16,777,216"
    ):
        described.read(path)


def test_what_is_too_large_on_the_hub_is_not_fetched() -> None:
    remote = Remote("org/name", "dataset", "a" * 40, False, {"README.md": Blob(LARGEST + 1, "", False)})
    with pytest.raises(ValueError, match=r"org/name/README\.md: got a file of 16,777,217 bytes, wanted at most"):
        read_text(remote, "README.md")


def test_a_wrong_value_is_told_in_short(tmp_path: Path) -> None:
    (tmp_path / "slant.json").write_text(json.dumps({"schema_version": "9" * 1_000_000}))
    (tmp_path / "my.yaml").write_text(f"seed: {'x' * 1_000_000}")
    for read in (lambda: Manifest.read(tmp_path), lambda: load_recipe(tmp_path / "my.yaml")):
        with pytest.raises(ValueError, match=r"schema_version|seed") as caught:
            read()
        assert len(str(caught.value)) < 20_000


YAML = {
    "a day that is none": ("a: 2024-02-30", "day is out of range"),
    "a number too long": (f"a: {'9' * 5000}", "4300 digits"),
    "lists in lists": ("[" * 1_000, "it nests too deeply"),
    "a text too long": ("#" * (2**20 + 1), "it has 1,048,57[78] characters, wanted at most 1,048,576"),
    "a broken line": ("a: [\nb: 1", "while parsing a flow sequence"),
    "a tag": ("!!python/object/apply:os.getcwd []", "could not determine a constructor"),
    "aliases of aliases": (
        "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))]),
        "its aliases stand for more than 100,000 values",
    ),
    "an alias of itself": ("a: &a [*a]", "its aliases stand for more than 100,000 values"),
}


@pytest.mark.parametrize("fault", YAML)
def test_yaml_that_is_none_or_without_end(fault: str, tmp_path: Path) -> None:
    text, words = YAML[fault]
    with pytest.raises(ValueError, match=words) as caught:
        read_yaml(text)
    assert "\n" not in str(caught.value)
    (tmp_path / "README.md").write_text(f"---\n{text}\n---\n")
    with pytest.raises(ValueError, match=rf"README\.md: the part between the --- lines is no YAML \(.*{words}"):
        shards(tmp_path)
    (tmp_path / "my.yaml").write_text(text)
    with pytest.raises(ValueError, match=rf"my\.yaml is no YAML \(.*{words}"):
        load_recipe(tmp_path / "my.yaml")
    with pytest.raises(ValueError, match=rf"my\.yaml: accelerate does not read it \(.*{words}"):
        processes_of(tmp_path / "my.yaml")
    with pytest.raises(ValueError, match=rf"(?s)override seed=.*the value is no YAML \(.*{words}"):
        load_recipe("stance-minilm", [f"seed={text}"])


def test_aliases_are_read_where_they_are_few() -> None:
    assert read_yaml("a: &a [1]\nb: *a") == {"a": [1], "b": [1]}
