"""Print constraints that hold each direct dependency of pyproject.toml at the lowest version it allows.

    python .github/lowest.py > lowest.txt && make test CONSTRAINTS=lowest.txt

Only the standard library is used: it runs before anything is installed. Dependencies of dependencies are left open.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_FLOOR = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,.-]+\])?>=(?P<version>[\w.]+)")


def floors(pyproject: str) -> list[str]:
    """``name==version`` for each dependency that has a floor, extras included, in the file's order.

    Raises:
        ValueError: If a dependency with a version bound has no floor: what is lowest then is anybody's guess.
    """
    project = tomllib.loads(pyproject)["project"]
    requirements = project["dependencies"] + [r for extra in project["optional-dependencies"].values() for r in extra]
    found = []
    for requirement in requirements:
        if match := _FLOOR.match(requirement):
            found.append(f"{match['name']}=={match['version']}")
        elif re.search(r"[<>=~!]", requirement):
            raise ValueError(f"{requirement!r}: wanted name>=version first, so that the lowest version is known")
    return found


if __name__ == "__main__":
    text = Path(__file__).resolve().parent.parent.joinpath("pyproject.toml").read_text(encoding="utf-8")
    sys.stdout.write("\n".join(floors(text)) + "\n")
