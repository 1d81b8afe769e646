"""``python -m benchmarks [NAME ...]``: run the benchmarks and write the table, ``benchmarks/README.md``.

Each is a script of its own, which leaves its rows in ``benchmarks/results/NAME.json``. Without names those run that
have left none: what was stopped goes on where it was. Those that are named run anew; ``all`` names all.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.growth import ENCODED, FITTED_FROM, fitted
from benchmarks.measure import ROOT, holds
from dataset_builders.atomic import write_text
from dataset_builders.text import did_you_mean

SCRIPTS = {
    "training": "triplets a second of a training step",
    "time_to_quality": "time to 90 % of the stock script's final gain",
    "curricula": "31,800 triplets, and 10 million rows, with parquet",
    "ablation": "word ablation on the sample's test split",
    "evaluation": "stance evaluation",
    "negatives": "hard negatives by BM25",
    "graph": "exact nearest neighbours",
    "hybrid": "hybrid query over 500,000 documents",
    "bootstrap": "paired bootstrap",
    "startup": "imports and --help",
    "space": "what a visitor of the Space waits for",
}
"""What there is to run, in this order, and what each is about."""
MISSED, NOT_RUN = "**✗**", "not run"
RESULTS = Path(__file__).resolve().parent / "results"
TOUGHNESS = Path(__file__).with_name("toughness.md")
"""The page's last section, kept by hand."""
PACKAGES = (
    "numpy", "scipy", "scikit-learn", "faiss-cpu", "bm25s", "rank-bm25", "torch", "transformers", "peft",
    "sentence-transformers", "mteb", "datasets", "pyarrow", "gradio",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, or of {', '.join(SCRIPTS)}")
    names = list(SCRIPTS) if (asked := parser.parse_args().names) == ["all"] else asked
    for name in names:
        if name not in SCRIPTS:
            parser.error(f"got {name!r}, wanted all, or of {', '.join(SCRIPTS)}.{did_you_mean(name, SCRIPTS)}")
    failed = [name for name in names or _missing(RESULTS) if not run(name, RESULTS)]
    write_text(Path(__file__).with_name("README.md"), page(RESULTS))
    missed = [row["name"] for rows in _read(RESULTS).values() for row in rows["rows"] if _mark(row) == MISSED]
    for what, found in (("failed", failed), ("not within the bound", missed)):
        if found:
            print(f"{what}: {', '.join(found)}", file=sys.stderr)
    return 1 if failed else 0


def _missing(folder: Path) -> list[str]:
    return [name for name in SCRIPTS if not (folder / f"{name}.json").exists()]


def run(name: str, folder: Path, *options: str) -> bool:
    """Run one script in a process of its own and keep its rows. Says whether it succeeded; if not, old rows stay."""
    print(f"== {name}: {SCRIPTS[name]}", file=sys.stderr, flush=True)
    start, worked = time.monotonic(), _others()
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "rows.json"
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", "--out", str(out), *options], cwd=ROOT)
        if done.returncode or not out.exists():
            return False
        rows = json.loads(out.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    took = time.monotonic() - start
    others = worked and round((_others() - worked) / took, 1)
    kept = {"seconds": round(took), "others": others, "machine": machine(), "versions": versions(), "rows": rows}
    write_text(folder / f"{name}.json", json.dumps(kept, indent=1, allow_nan=False) + "\n")
    return True


def _others() -> Any:
    """Processor seconds since the machine's start, less those of processes that this one has waited for: by what it
    grows while a benchmark runs, others have worked. None where the system does not say."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system, _idle, _waiting, *rest = map(int, stat.read_text().splitlines()[0].split()[1:9])
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK") - ours.ru_utime - ours.ru_stime


def machine() -> dict[str, Any]:
    """What the numbers hang on."""
    facts = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next(
        (line.split(":", 1)[1].strip() for line in facts if line.startswith("model name")), platform.processor()
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def versions() -> dict[str, str]:
    """Of the libraries that take part."""
    return {package: version(package) for package in PACKAGES}


def _read(folder: Path) -> dict[str, Any]:
    found = {}
    for name in SCRIPTS:
        path = folder / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text())
    return found


def _mark(row: dict[str, Any]) -> str:
    """The last cell: a bound is missed too where the opponent has a figure and ours never came to one."""
    if row["bound"] is None:
        return ""
    if row["theirs"] is None:
        return NOT_RUN
    return "✓" if row["ratio"] is not None and holds(row["ratio"], row["bound"]) else MISSED


def page(folder: Path) -> str:
    """The Markdown page of all results: what has none stands as ``n/a``, not run; what misses its bound is marked."""
    found = _read(folder)
    lines = [
        "# Speed and memory",
        "",
        'Written by `make bench`; `make bench BENCH="NAME ..."` runs some anew, `BENCH=all` all. Ours and the',
        "opponent take turns in one process (memory and imports: processes of their own), medians of five or more",
        "where no note says otherwise. A bound of at least (≥) is on how many times ours is better, one of at most",
        "(≤) on what ours takes of theirs; where `against` is a time or a size, it is the limit itself. In brackets",
        "stand the lowest and the highest ratio of a turn, where they were kept. **✗** marks a row that misses its",
        "bound, or whose own side never came to a figure (n/a).",
        "",
        "| what | against | ours | theirs | ratio | bound | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, about in SCRIPTS.items():
        rows = found[name]["rows"] if name in found else []
        lines += [_line(row) for row in rows] or [f"| {about} | | n/a | n/a | n/a | | {NOT_RUN} |"]
    shares = [f"- {row['name']}: {row['share']:.0%} of {row['share_of']}." for row in _rows(found) if "share" in row]
    for row in _rows(found):
        if "matmul_share" in row:
            of_both = ", ".join(f"{side} {share:.0%}" for side, share in row["matmul_share"].items())
            shares.append(f"- {row['name']}: {of_both} of the rate of a matrix product.")
    lines += ["", "Share of what this machine can do:", "", *shares] if shares else []
    notes = [f"- {row['name']}: {row['note']}" for row in _rows(found) if "note" in row]
    lines += ["", "Notes:", "", *notes] if notes else []
    grown = folder / "scale.json"
    if grown.exists():
        found["scale"] = json.loads(grown.read_text())
        lines += _growth(found["scale"]["points"])
    return "\n".join([*lines, *_where(found), *_beside(found), "", TOUGHNESS.read_text(encoding="utf-8")])


def _growth(points: list[dict[str, Any]]) -> list[str]:
    return [
        "",
        "## Growth",
        "",
        "Written by `make scale`: time and memory from a thousand to a million documents, or triplets, each point",
        "once, in a process of its own on one core. A slope is that of log(value) over log(documents) from",
        f"{FITTED_FROM:,} on (encoding: up to it): 1 is linear growth, the bound is on what would not scale. Texts",
        f"are drawn words throughout; above {ENCODED:,} documents, and for all queries, vectors are synthetic.",
        "",
        "![Time and memory over the number of documents](figures/scale.png)",
        "",
        "| what | slope | bound | | at the largest size |",
        "|---|---|---|---|---|",
        *(
            f"| {row['name']} | {_number(row['ours'])} | {row['bound'].replace('<=', '≤')} | {_mark(row)} "
            f"| {_number(row['there'], ' ' + row['there_unit'])} of {row['most']:,} |"
            for row in fitted(points)
        ),
        "",
        "What lifts a slope above 1 here: the sampler takes claims from a heap, which is n log n; the dense index",
        "looks for equal texts in a table that outgrows the processor's caches; and small sizes find their memory in",
        "what the imports left free: the sampler's is linear from 100,000 triplets on.",
    ]


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for measured in found.values() for row in measured["rows"]]


def _line(row: dict[str, Any]) -> str:
    bound = (row["bound"] or "none").replace(">=", "≥").replace("<=", "≤")
    unit = f" {row['unit']}" if row.get("unit") else ""
    ours, theirs = (_number(row[key], unit) for key in ("ours", "theirs"))
    ratio = _number(row["ratio"])
    if "spread" in row:
        ratio += f" ({' to '.join(map(_number, row['spread']))})"
    cells = [row["name"], row.get("against", ""), ours, theirs, ratio, bound, _mark(row)]
    return f"| {' | '.join(cells)} |"


def _number(value: float | None, unit: str = "") -> str:
    return "n/a" if value is None else f"{value:,.3g}{unit}" if abs(value) < 1000 else f"{value:,.0f}{unit}"


def _where(found: dict[str, Any]) -> list[str]:
    """Machines and versions, those that differ apart."""
    lines = []
    for key in ("machine", "versions"):
        kept: dict[str, list[str]] = {}
        for name, measured in found.items():
            facts = ", ".join(f"{what.replace('_', ' ')} {value}" for what, value in measured[key].items())
            kept.setdefault(facts, []).append(name)
        lines += ["", f"{key.capitalize()}:", "", *(f"- {', '.join(names)}: {facts}" for facts, names in kept.items())]
    return lines


def _beside(found: dict[str, Any]) -> list[str]:
    """How idle the machine was, of the runs that know."""
    known = [f"{name} {m['others']:g}" for name, m in found.items() if m.get("others") is not None]
    if not known:
        return []
    return ["", f"Cores that other work kept busy meanwhile, on average, where it was counted: {', '.join(known)}."]


if __name__ == "__main__":
    sys.exit(main())
