"""The card of a data set: metadata, counts, prompts, checks, licences, all from what was built and never by hand.

What a person writes before or after the generated part on the Hub, and metadata keys that are not ours, stay as they
are; a card made twice of the same data changes no byte.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from dataset_builders import card_texts
from dataset_builders.builds import Build
from dataset_builders.checks import show
from dataset_builders.folder import BEGIN, END, MANIFEST, README, read_card, shards
from dataset_builders.markdown import cell, template
from dataset_builders.quality import Report

EVAL = "eval.yaml"
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "1M<n<10M"

Origins = dict[str, dict[tuple[str, str], int]]
"""``origins[config][source, licence]`` is a number of rows."""


@dataclass(frozen=True)
class Card:
    """The generated half of a README.

    Attributes:
        head: Metadata that are ours.
        chosen: Metadata that hold where nobody chose others by hand.
        body: Markdown.
        configs: Names of the configs.
        eval_yaml: Content of ``eval.yaml``; None for data that nothing is measured on.
    """

    head: dict[str, Any]
    chosen: dict[str, Any]
    body: str
    configs: list[str]
    eval_yaml: str | None


def origins(stage: Path) -> Origins:
    """How many rows of each config have which source and licence."""
    found: Origins = {}
    for config, splits in shards(stage).items():
        rows: Counter[tuple[str, str]] = Counter()
        for file in (f for files in splits.values() for f in files):
            table = pq.read_table(file, columns=["source", "licence"], partitioning=None)
            counted = table.group_by(["source", "licence"]).aggregate([([], "count_all")]).to_pylist()
            rows.update({(row["source"], row["licence"]): row["count_all"] for row in counted})
        found[config] = dict(sorted(rows.items()))
    return found


def render(repo_id: str, build: Build, stage: Path, report: Report) -> Card:
    """The card of a staged build.

    Args:
        repo_id: Where it will be.
        build: What was built.
        stage: Where it was written to.
        report: Of `quality.check`, on the same data.
    """
    manifest = json.loads((stage / MANIFEST).read_bytes())
    configs = {c: {split: entry["rows"] for split, entry in s.items()} for c, s in manifest["configs"].items()}
    columns = {
        config: pq.read_schema(next(iter(splits.values()))[0]).names for config, splits in shards(stage).items()
    }
    found = origins(stage)
    licences = sorted({licence for by in found.values() for _, licence in by})
    oblique = build.kind.startswith("obliq-")
    body = template("dataset.md.j2").render(
        name=build.name,
        repo_id=repo_id,
        what=card_texts.WHAT[build.kind],
        paper=card_texts.PAPER[oblique],
        default=build.tables.default,
        configs=configs,
        columns=columns,
        layout=card_texts.LAYOUT[build.kind],
        statistics={t: rows for t, rows in report.part.tables.items() if (t in card_texts.OBLIQUE_TABLES) == oblique},
        made=card_texts.made(build),
        instructions=card_texts.instructions(build.kind),
        generators=card_texts.generators(build),
        prompts=card_texts.prompts(build),
        checks=_checks(report, oblique),
        issues=_issues(build, report),
        bias=card_texts.bias(build),
        origins=found,
        chain=card_texts.chain(licences),
        citations=card_texts.citations(build.source, oblique),
    )
    built, _ = read_card((stage / README).read_text(encoding="utf-8"), README)
    head = {
        "license": licences[0] if len(licences) == 1 else licences,
        "size_categories": [_size(sum(rows for splits in configs.values() for rows in splits.values()))],
        "configs": built["configs"],
    }
    chosen: dict[str, Any] = {"pretty_name": build.name, **card_texts.metadata(build)}
    return Card(head, chosen, body.strip(), list(configs), _eval(build, configs))


def merge(old: str | None, card: Card, remaining: Collection[str], where: str) -> str:
    """The README that shall stand on the Hub: the card over what is there.

    Args:
        old: What is there.
        card: The generated half.
        remaining: Paths on the Hub that stay: a config by hand whose files are among them stays as well.
        where: Names the README in errors.

    Raises:
        ValueError: If the metadata of ``old`` are no YAML, or its two markers are not both there, once and in order.
    """
    head, body = read_card(old or "", where)
    theirs = [c for c in head.get("configs") or [] if _stays(c, card.configs, remaining)]
    new = {**card.chosen, **head, **card.head, "configs": [*card.head["configs"], *theirs]}
    generated = f"{BEGIN}\n{card.body}\n{END}"
    if BEGIN not in body and END not in body:
        written = body.strip("\r\n")
        body = f"\n{written}\n\n{generated}\n" if written else f"\n{generated}\n"
    elif body.count(BEGIN) != 1 or body.count(END) != 1 or body.index(BEGIN) > body.index(END):
        raise ValueError(
            f"{where}: {README}: wanted one line {BEGIN!r} and one line {END!r} after it; mend it on the Hub"
        )
    else:
        before, _, rest = body.partition(BEGIN)
        body = before + generated + rest.partition(END)[2]
    if old and head == new:  # not a byte of the YAML changes, comments and quotes included
        return old[: len(old) - len(read_card(old, where)[1])] + body
    return f"---\n{yaml.safe_dump(new, sort_keys=False, allow_unicode=True, width=120)}---\n{body}"


def _stays(config: object, ours: Collection[Any], remaining: Collection[str]) -> bool:
    """Whether a config by hand has files on the Hub; one without breaks the others."""
    if not isinstance(config, dict) or config.get("config_name") in ours:
        return False
    files = config.get("data_files") or []
    entries = files if isinstance(files, list) else [files]
    patterns: list[str] = []
    for entry in entries:
        path = entry.get("path") if isinstance(entry, dict) else entry
        patterns += [p for p in (path if isinstance(path, list) else [path]) if isinstance(p, str)]
    config.pop("default", None)
    return any(fnmatch(path, pattern) for path in remaining for pattern in patterns)


def _size(rows: int) -> str:
    return next((name for limit, name in _SIZES if rows < limit), _LARGEST)


def _checks(report: Report, oblique: bool) -> list[list[str]]:
    tasks = tuple(f"{task}: " for task in card_texts.TASKS)
    rows = [["check", "figure", "bound", ""]]
    for c in report.part.checks:
        if c.name.startswith(tasks) == oblique:
            state = "kept" if c.passes else "not kept, see below"
            rows.append([c.name, show(c.figure), f"{'≥' if c.at_least else '≤'} {show(c.limit)}", state])
    return rows


def _issues(build: Build, report: Report) -> list[str]:
    issues = [f"{cell(name)}: {cell(why)}" for name, why in report.known.items()]
    issues += [
        f"{len(ids)} claims of `{split}` have arguments on one side only"
        + (" and are left out" if build.kind == "stance-triplets" else "")
        for split, ids in build.tables.one_sided.items()
        if ids
    ]
    return [*issues, *card_texts.issues(build)]


def _eval(build: Build, configs: Mapping[str, Mapping[str, int]]) -> str | None:
    if build.kind == "stance-arguments":
        tasks = {f"{build.source}-stance": "queries"}
        what = "Rank the arguments that support or attack a claim, as the instruction asks"
    elif build.kind == "obliq-bench":
        tasks = {f"{build.source}-obliq-{task}": f"{task}-queries" for task in card_texts.TASKS}
        what = "Find documents by a property that none of them states"
    else:
        return None
    entries = [
        {"id": name, "config": config, "split": "test"}
        for name, config in tasks.items()
        if "test" in configs.get(config, {})
    ]
    if not entries:
        return None
    content = {"name": build.name, "description": what, "evaluation_framework": "mteb", "tasks": entries}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
