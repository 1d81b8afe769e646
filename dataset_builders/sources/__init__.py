"""Where stance data comes from: one file per upstream, and one door to all of them."""

from __future__ import annotations

from pathlib import Path

from dataset_builders.sources import contract, perspectrum, sample, short_form
from dataset_builders.stance.data import StanceData
from dataset_builders.text import did_you_mean

SOURCES = {
    sample.NAME: "180 claims with arguments in two styles and inversions, embedded (CC BY 4.0)",
    perspectrum.NAME: "680 debate claims with perspectives, from a folder of the upstream files (CC BY-SA 4.0)",
}


def load(name: str, data: Path | None = None) -> StanceData:
    """Load the stance data of a source.

    Args:
        name: ``sample`` (embedded), ``perspectrum`` (needs ``data``, the folder of the upstream files), or any other
            name for your own ``data``.
        data: A file in short form, a folder of such files, or a built ``{source}-stance-arguments`` folder. It takes
            the place of the embedded data.

    Returns:
        Claims with their groups; equal claims and equal arguments are merged. ``split`` is None where neither the rows
        nor the file's name give one.

    Raises:
        FileNotFoundError: If there is nothing at ``data``.
        ValueError: If the name is unknown and there is no ``data``, or the data is faulty.
    """
    if data is None:
        if name == sample.NAME:
            return sample.read()
        if name == perspectrum.NAME:
            raise ValueError(
                "perspectrum: the data does not come with the package; give the folder that holds "
                f"{perspectrum.CLAIMS} (github.com/CogComp/perspectrum, data/dataset)"
            )
        raise ValueError(
            f"got the source {name!r}, wanted one of {list(SOURCES)}, or your own data: a JSONL or parquet file, or a "
            f"folder of them.{did_you_mean(name, SOURCES)}"
        )
    if name == perspectrum.NAME and (data / perspectrum.CLAIMS).is_file():
        return perspectrum.read(data)
    if contract.is_contract(data):
        return contract.read(name, data)
    return short_form.read(name, data)
