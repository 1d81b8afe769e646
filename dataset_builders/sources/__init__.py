"""Where stance data comes from: one file per upstream or shape, and one door to all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dataset_builders.sources import contract, hub, kpa, perspectrum, public_json, sample, short_form, tfu
from dataset_builders.stance.data import StanceData
from dataset_builders.text import did_you_mean

SOURCES = {
    sample.NAME: "180 claims with arguments in two styles and inversions, embedded (CC BY 4.0)",
    perspectrum.NAME: "680 debate claims with perspectives, from a folder of the upstream files (CC BY-SA 4.0)",
    kpa.NAME: "arguments on 31 debate motions, from a folder of the upstream files (CDLA-Sharing-1.0)",
    tfu.NAME: "the stance paper's training arguments and inversions, from its triplets (Hub; no licence named)",
    **{name: f"an evaluation corpus of the stance paper, {file} (Hub; no licence named)"
       for name, file in public_json.FILES.items()},
}  # fmt: skip

TEST_ONLY = frozenset(public_json.FILES)
"""Sources whose claims are all ``test``: nothing is trained on them."""

_REPOS = {tfu.NAME: tfu.REPO, **dict.fromkeys(public_json.FILES, public_json.REPO)}
_FOLDERS = {
    perspectrum.NAME: f"{perspectrum.CLAIMS} (github.com/CogComp/perspectrum, data/dataset)",
    kpa.NAME: "arguments_train.csv and its like (github.com/IBM/KPA_2021_shared_task, kpm_data and test_data)",
}


def load(name: str, data: Path | None = None) -> StanceData:
    """Load the stance data of a source.

    Args:
        name: ``sample`` (embedded), ``perspectrum`` and ``kpa`` (need ``data``, the folder of the upstream files),
            ``tfu`` and the corpora of ``TEST_ONLY`` (from the Hub, without ``data``), or any other name for your own
            ``data``.
        data: A file in short form, a folder of such files, a ``.json`` file in the shape of `public_json`, a built
            ``{source}-stance-arguments`` folder, a folder of the source's upstream files, or ``ORG/NAME@REVISION``, a
            Hub data set of any of these. It takes the place of the embedded and of the Hub's data.

    Returns:
        Claims with their groups; equal claims and equal arguments are merged. ``split`` is None where neither the rows
        nor the file's name give one.

    Raises:
        FileNotFoundError: If there is nothing at ``data``, or the Hub's data cannot be had.
        ValueError: If the name is unknown and there is no ``data``, or the data is faulty.
    """
    if data is None and name == sample.NAME:
        return sample.read()
    if data is None and name in _FOLDERS:
        raise ValueError(
            f"{name}: the data does not come with the package; give the folder that holds {_FOLDERS[name]}"
        )
    if data is None and name not in _REPOS:
        raise ValueError(
            f"got the source {name!r}, wanted one of {list(SOURCES)}, or your own data: a JSONL or parquet file, or a "
            f"folder of them.{did_you_mean(name, SOURCES)}"
        )
    repo, revision = (_REPOS[name], None) if data is None else hub.parse(data) or (None, None)
    if repo is not None:
        data = hub.snapshot(repo, revision)
        file = public_json.FILES.get(name)
        if repo == public_json.REPO and file is not None and not (data / file).is_file():
            raise FileNotFoundError(f"{file} is not in {repo}@{data.name}; name another revision, or give the file")
        return replace(_read(name, data), revision=f"{repo}@{data.name}")
    assert data is not None
    return _read(name, data)


def _read(name: str, data: Path) -> StanceData:
    """Read what lies at ``data``: the source's upstream files where they are there, else one of our own shapes."""
    if name == perspectrum.NAME and (data / perspectrum.CLAIMS).is_file():
        return perspectrum.read(data)
    if name == kpa.NAME and kpa.files_in(data):
        return kpa.read(data)
    if name == tfu.NAME and (data / tfu.HOMOGENEOUS).is_file():
        return tfu.read(data)
    if name in public_json.FILES and (data / public_json.FILES[name]).is_file():
        data = data / public_json.FILES[name]
    if data.suffix == ".json" and data.is_file():
        return public_json.read(name, data, "test" if name in TEST_ONLY else short_form.split_of(data))
    if contract.is_contract(data):
        return contract.read(name, data)
    return short_form.read(name, data)


def at_hand() -> list[str]:
    """The sources with test claims that need neither ``data`` nor the network: the sample, and what of the stance
    paper's corpora is in the Hub's cache."""
    return [sample.NAME, *(n for n, file in public_json.FILES.items() if hub.is_cached(public_json.REPO, file))]
