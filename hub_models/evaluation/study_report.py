"""A study's report.md, in the shape of the stance paper's tables 2-25, with the published numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hub_models.evaluation.published import CURRICULUM_OF
from hub_models.evaluation.report_ablation import left_whole
from hub_models.evaluation.stance_ranking import ORACLE, TOPIC
from hub_models.evaluation.study_published import beside_published
from hub_models.evaluation.study_results import ZERO_SHOT, Spread, StudyResults, StudyRun, StudyTask
from hub_models.evaluation.study_text import budget, difference_text, made_by, spread_text, verdict

COLUMNS = {
    "ndcg_at_10": "NDCG@10",
    "precision_at_r": "P@R",
    "hard_at_r": "hard@R",
    "semi_hard_at_r": "semi-hard@R",
    "easy_at_r": "easy@R",
}
ABLATION = {"ris": "RIS", "rcs": "RCS", "di_positive": "DI (positive)", "di_hard": "DI (hard negative)"}
HIGHER_IS_BETTER = {"ndcg_at_10", "precision_at_r"}
STANCES = ("attack", "support", "overall")  # S's order

_PRINTED = {ours: printed for printed, ours in CURRICULUM_OF.items() if ours} | {ZERO_SHOT: "Zero-Shot"}


def label(system: str) -> str:
    """A system's name as S prints it, where S has it."""
    return _PRINTED.get(system, system)


def run_label(run: StudyRun) -> str:
    """A run's name: its system, and how it searched."""
    if run.strategy == "dense" and not run.params:
        return label(run.system)
    params = ", ".join(f"{'λ' if key == 'weight' else key} = {value}" for key, value in run.params.items())
    return f"{label(run.system)}, {run.strategy} ({params})"


def report(study: StudyResults, figures: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        study: What is reported.
        figures: Paths of pictures relative to the page.
    """
    lines = [f"# {study.recipe}: what each curriculum teaches", ""]
    lines += [*_head(study), "", *budget(study, label, "triplets")]
    for name, task in study.tasks.items():
        lines += ["", f"## {name}", "", _sizes(study, task), "", *_claims(task), ""]
        lines += [*retrieval_table(task), "", *_ceilings(task), "", *_pairs(task), ""]
        lines += [*_styles(task), *_ablation(task), *beside_published(study, task, run_label)]
    if figures:
        lines += ["", "## Figures", "", *(f"![{path}]({path})" for path in figures)]
    return "\n".join(lines).rstrip() + "\n"


def _head(study: StudyResults) -> Iterator[str]:
    if study.quick:
        steps = max(t.steps for t in study.trainings)
        yield f"**A quick study, of {steps} steps and one seed: it shows that everything works, not what is better.**"
        yield ""
    yield from made_by(study)
    yield ""
    yield (
        "A cell is the mean over the seeds ± the sample std over the seeds; the base has none, nor has a single "
        "seed. Queries are those of the unseen instructions. In the retrieval tables the best of a column and stance "
        "is **bold**, the best of its group <ins>underlined</ins>. Intervals are 95 %, over claims drawn anew, of the "
        "difference between two systems that are each averaged over their seeds."
    )


def _sizes(study: StudyResults, task: StudyTask) -> str:
    counts = task.counts
    left_out = sum(counts["left_out"].values())
    return (
        f"{counts['claims']} claims of the split {counts['split']}, {counts['queries']} queries, corpus of "
        f"{counts['documents']} arguments."
    ) + (f" Left out: {left_out} (claim, stance) pairs without a single right document." if left_out else "")


# -- what it shows -------------------------------------------------------------------------------------------------


def _claims(task: StudyTask) -> Iterator[str]:
    """Blindness, collapse and cure in words, each with its figure: only what the figures say."""
    systems = [run.system for run in task.runs]
    base = task.dense(ZERO_SHOT)
    hard, oracle = base.value("overall", "hard_at_r"), base.value("overall", ORACLE)
    if hard and hard.mean is not None and oracle and oracle.mean is not None:
        yield (
            f"- **Stance blindness.** Of what the base finds first, {hard.mean:.1%} is on the claim and of the wrong "
            f"stance; with a perfect judge of stance behind it, P@R would be {oracle.mean:.3f}."
        )
    collapse = task.pair("homogeneous", ZERO_SHOT)
    found = collapse.difference("overall", "semi_hard_at_r") if collapse else None
    if found:
        yield (
            f"- **Topical collapse.** The homogeneous curriculum changes the share of the right stance on another "
            f"claim by {difference_text(found)}: {verdict(found, 'more of it, as S reports', 'less of it')}."
        )
    for name in dict.fromkeys(s for s in systems if s not in (ZERO_SHOT, "homogeneous")):
        pair = task.pair(name, "homogeneous")
        semi = pair.difference("overall", "semi_hard_at_r") if pair else None
        stance = pair.difference("overall", "hard_at_r") if pair else None
        if semi and stance:
            yield (
                f"- **Cure by {label(name)}?** Against homogeneous semi-hard {difference_text(semi)} "
                f"({verdict(semi, 'worse', 'better')}), hard {difference_text(stance)} "
                f"({verdict(stance, 'worse', 'better')})."
            )


# -- S tables 2-19 -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of the retrieval table before its best cells are marked."""

    group: int
    name: str
    stance: str
    cells: dict[str, Spread | None]


def retrieval_table(task: StudyTask) -> Iterator[str]:
    """Dense and hybrid groups, three lines a system; see S tables 2-19."""
    groups = (
        ("GROUP 1: dense", [run for run in task.runs if run.strategy == "dense" and not run.params]),
        ("GROUP 2: hybrid and other ways of searching", [r for r in task.runs if _is_other(r)]),
    )
    lines = [
        _Line(i, run_label(run), stance, {m: run.value(stance, m) for m in COLUMNS})
        for i, (_, runs) in enumerate(groups)
        for run in runs
        for stance in STANCES
    ]
    yield f"| strategy | stance | {' | '.join(COLUMNS.values())} |"
    yield "|---" * (2 + len(COLUMNS)) + "|"
    for i, (title, runs) in enumerate(groups):
        if runs:
            yield f"| *{title}* |" + " |" * (1 + len(COLUMNS))
        for line in (found for found in lines if found.group == i):
            cells = [_marked(line, metric, lines) for metric in COLUMNS]
            yield f"| {line.name} | {line.stance} | {' | '.join(cells)} |"


def _is_other(run: StudyRun) -> bool:
    return run.strategy != "claim_only" and (run.strategy != "dense" or bool(run.params))


def _marked(line: _Line, metric: str, lines: Sequence[_Line]) -> str:
    text = spread_text(line.cells[metric])
    value = _printed(line, metric)
    if value is None:
        return text
    same = [other for other in lines if other.stance == line.stance]
    if value == _best([_printed(other, metric) for other in same], metric):
        return f"**{text}**"
    if value == _best([_printed(other, metric) for other in same if other.group == line.group], metric):
        return f"<ins>{text}</ins>"
    return text


def _printed(line: _Line, metric: str) -> float | None:
    """The value to three decimals: what a reader sees as equal is equally good."""
    cell = line.cells[metric]
    return None if cell is None or cell.mean is None else round(cell.mean, 3)


def _best(values: Sequence[float | None], metric: str) -> float:
    known = [value for value in values if value is not None]
    return max(known) if metric in HIGHER_IS_BETTER else min(known)


def _ceilings(task: StudyTask) -> Iterator[str]:
    """What the stance oracle would reach, and what tuning costs in topic."""
    yield "| | stance oracle P@R | topic P@R, claim alone, both stances right | P@R, claim alone |"
    yield "|---|---|---|---|"
    for run in task.runs:
        if run.strategy == "claim_only":
            dense = task.dense(run.system)
            cells = [dense.value("overall", ORACLE), dense.value("overall", TOPIC)]
            cells.append(run.value("overall", "precision_at_r"))
            yield f"| {label(run.system)} | {' | '.join(map(spread_text, cells))} |"
    yield ""
    yield "Stance oracle: ranked by the base and the claim alone, what is of the wrong stance dropped; a ceiling."


def _pairs(task: StudyTask) -> Iterator[str]:
    yield f"| difference, overall | {' | '.join(COLUMNS.values())} |"
    yield "|---" * (1 + len(COLUMNS)) + "|"
    for pair in task.pairs:
        cells = [difference_text(pair.difference("overall", metric)) for metric in COLUMNS]
        yield f"| {label(pair.system)} − {label(pair.against)} | {' | '.join(cells)} |"


def _styles(task: StudyTask) -> Iterator[str]:
    """Arguments with and without explicit openings, each a corpus of its own."""
    dense = [run for run in task.runs if run.strategy == "dense" and not run.params]
    styles = [name for name in dense[0].slices if name.startswith("style=")]
    if not styles:
        return
    yield "Arguments of one style alone, as a corpus of their own:"
    yield ""
    yield f"| style | strategy | {' | '.join(COLUMNS.values())} |"
    yield "|---" * (2 + len(COLUMNS)) + "|"
    for style in styles:
        for run in dense:
            cells = [spread_text(run.value(style, metric)) for metric in COLUMNS]
            yield f"| {style.removeprefix('style=')} | {label(run.system)} | {' | '.join(cells)} |"
    yield ""


# -- S tables 20-25 ------------------------------------------------------------------------------------------------


def _ablation(task: StudyTask) -> Iterator[str]:
    """Word ablation of the dense runs; see S tables 20-25."""
    dense = [run for run in task.runs if run.strategy == "dense" and not run.params]
    measured = [run for run in dense if run.value("overall", "ris")]
    if not measured:
        return
    yield "Word ablation (S 3.3): mean ± spread over the seeds, and in brackets the std within a seed."
    yield ""
    yield f"| strategy | {' | '.join(ABLATION.values())} |"
    yield "|---" * (1 + len(ABLATION)) + "|"
    for run in measured:
        cells = [_with_std(run.value("overall", metric)) for metric in ABLATION]
        yield f"| {label(run.system)} | {' | '.join(cells)} |"
    yield ""
    for line in left_whole(task.skipped):
        yield from (line, "")


def _with_std(found: Spread | None) -> str:
    return spread_text(found) + (f" ({found.std:.2f})" if found is not None and found.std is not None else "")
