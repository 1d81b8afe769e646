"""The oblique study's report.md, in the shape of O tables H.1, I.1 and N.1, with the published numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dataset_builders.checks import show
from dataset_builders.markdown import cell
from dataset_builders.oblique.read import PAIRS
from dataset_builders.oblique.style_graph import K
from dataset_builders.sources.obliq_bench import TASKS
from hub_models.evaluation.oblique_metrics import MAIN
from hub_models.evaluation.oblique_table import FEW_GROUPS, UNIT
from hub_models.evaluation.published import teacher_graph
from hub_models.evaluation.study_obliq_grid import (
    CENTRAL,
    GENERIC,
    KS,
    MATCHED,
    NO_PAIRS,
    OTHER_FORM,
    PAIRS_,
    RANDOM,
    REPLACE,
    doses,
)
from hub_models.evaluation.study_obliq_results import LensRows, ObliqueStudyResults
from hub_models.evaluation.study_results import ZERO_SHOT, Spread, StudyTask
from hub_models.evaluation.study_text import budget, difference_text, made_by, spread_text, table, verdict

NAMES = {
    ZERO_SHOT: "base, not trained",
    NO_PAIRS: "no pairs",
    PAIRS_: f"pairs, k = {K}, whole graph",
    RANDOM: "random graph",
    REPLACE: "pairs in place of the task's queries",
    MATCHED: "the tasks' own lenses",
    GENERIC: "generic lens",
    "described": "pairs that ask in words",
    "passages": "pairs that ask with the anchor",
}


_FORMS = tuple(name for name, _ in OTHER_FORM.values())


def label(system: str) -> str:
    """A system's name as it is printed."""
    kind, _, what = system.partition("-")
    if system in NAMES:
        return NAMES[system]
    if kind == "by":
        return f"pairs by the second specialist ({what})"
    return {"k": f"pairs, k = {what}", "dose": f"{what} pairs, k = {K}"}.get(kind, system.replace("-", " "))


def report(study: ObliqueStudyResults, figures: Sequence[str] = ()) -> str:
    """The whole page.

    Args:
        study: What is reported.
        figures: Paths of pictures relative to the page.
    """
    parts = [
        ("What pairs of the style graph teach", _head(study)),
        ("The main question", _main(study)),
        ("What the pairs are made of (O H.1)", _teachers(study)),
        ("How many pairs (O N.1, figure 2)", _doses(study)),
        ("How many neighbours (O H.1)", _neighbours(study)),
        ("Tasks left out", _left_out(study)),
        ("Lens", _lens(study)),
        ("Collapse (O H.1)", _collapse(study)),
        ("The specialist itself (O I, K)", _specialist(study)),
        ("Budget", budget(study, label, "rows")),
        ("Figures", (f"![{path}]({path})" for path in figures)),
    ]
    lines: list[str] = []
    for level, (title, content) in enumerate(parts):
        found = list(content)
        if found:
            lines += [f"{'#' if level == 0 else '##'} {title}", "", *found, ""]
    return "\n".join(lines).rstrip() + "\n"


def _head(study: ObliqueStudyResults) -> Iterator[str]:
    done = len(study.trainings)
    if study.quick:
        yield "**A quick study, of one seed and few systems: it shows that everything works, not what is better.**"
        yield ""
    if done < study.planned:
        yield f"**Not finished: {done} of {study.planned} trainings are done; the same command goes on.**"
        yield ""
    yield from made_by(study)
    yield ""
    yield (
        "NDCG@10 on gold judgements, queries with their task's instruction; the mean over the seeds ± the sample std "
        "over the seeds. Differences are between systems that are each averaged over their seeds, with 95 % "
        f"intervals over each {UNIT} (the attribute asked for) drawn anew; of fewer than {FEW_GROUPS} groups they "
        "come out too narrow. Attributes of test queries occur in no training row."
    )
    yield ""
    yield (
        "A pair asks with the description of its anchor's style, as in O (equation 6)."
        if study.query_form == "description"
        else "A pair asks with its anchor itself, a passage, as the queries of writing do; in O it asks with the "
        "description of the anchor's style (equation 6), which is the system *pairs that ask in words*."
    )
    for line in study.left_to_say:
        yield ""
        yield line


def _main(study: ObliqueStudyResults) -> Iterator[str]:
    """With pairs, without, and with a random graph, on every set."""
    for name, task in study.tasks.items():
        if _found(task, PAIRS_) is None:
            continue
        counts = task.counts
        yield (
            f"**{name}**: {counts['queries']} queries in {counts['groups']} groups, {counts['documents']} documents."
        )
        yield ""
        yield from table(
            ["", "NDCG@10", "seeds", "against the base", "against no pairs"],
            [
                [
                    label(system),
                    spread_text(_found(task, system)),
                    _seeds(_found(task, system)),
                    _against(task, system, ZERO_SHOT),
                    _against(task, system, NO_PAIRS),
                ]
                for system in (ZERO_SHOT, *CENTRAL)
                if _found(task, system) is not None
            ],
        )
        yield ""
    yield from _answer(study)


def _answer(study: ObliqueStudyResults) -> Iterator[str]:
    """In words, what the interval of the task of the graph allows."""
    task = study.of_sample().get(PAIRS)
    for system, what in ((PAIRS_, "The pairs"), (RANDOM, "The random graph")):
        pair = task.pair(system, NO_PAIRS) if task else None
        found = pair.difference("overall", MAIN) if pair else None
        if found:
            yield f"- {what} on {PAIRS}: {verdict(found, 'lifted', 'lowered')}, {difference_text(found)}."


def _teachers(study: ObliqueStudyResults) -> Iterator[str]:
    systems = [s for s in study.systems if s in (ZERO_SHOT, *CENTRAL, REPLACE, *_FORMS) or s.startswith("by-")]
    yield from _by_task(study, systems)
    rows = teacher_graph()
    if rows:
        yield ""
        yield (
            "Beside it O table H.1 as printed, without wildchat: another base, other corpora, 5,000 pairs; compare "
            "the directions alone."
        )
        yield ""
        cells = [[row.source, *(_number(row.cells.get(task)) for task in TASKS)] for row in rows]
        yield from table(["O", *TASKS], cells)


def _doses(study: ObliqueStudyResults) -> Iterator[str]:
    """From no pair to the whole graph, and the whole graph in place of the written queries."""
    wanted = [NO_PAIRS, *(f"dose-{dose}" for dose in doses(study.documents)), PAIRS_, REPLACE]
    systems = [s for s in wanted if s in study.systems]
    if any(s.startswith("dose-") for s in systems) or REPLACE in systems:
        yield from _by_task(study, systems, others=True)


def _neighbours(study: ObliqueStudyResults) -> Iterator[str]:
    wanted = [f"dose-{study.documents}" if k == K else f"k-{k}" for k in KS]
    systems = [s for s in wanted if s in study.systems]
    if any(s.startswith("k-") for s in systems):
        yield f"At a dose of {study.documents} pairs, which k = 1 has."
        yield ""
        yield from _by_task(study, systems, others=True)


def _by_task(study: ObliqueStudyResults, systems: Sequence[str], *, others: bool = False) -> Iterator[str]:
    """A row a system, a column a task of the sample, and what the task of the graph gains."""
    tasks = study.of_sample()
    rest = [task for task in tasks if task != PAIRS]
    header = ["", *tasks, *(["mean of the others"] if others else []), f"{PAIRS} against no pairs"]
    rows = []
    for system in systems:
        cells = [spread_text(_found(task, system)) for task in tasks.values()]
        if others:
            means = [found.mean for t in rest if (found := _found(tasks[t], system)) and found.mean is not None]
            cells.append(_number(sum(means) / len(means) if means else None))
        against = _against(tasks[PAIRS], system, NO_PAIRS) if PAIRS in tasks else ""
        rows.append([label(system), *cells, against])
    yield from table(header, rows)


def _left_out(study: ObliqueStudyResults) -> Iterator[str]:
    """O's principal open evaluation: what a task's queries get from training on the others alone."""
    rows = []
    for task, found in study.of_sample().items():
        system = f"without-{task}"
        if system in study.systems:
            values = [spread_text(_found(found, s)) for s in (ZERO_SHOT, system, PAIRS_)]
            rows.append([task, *values, _against(found, system, ZERO_SHOT), _against(found, system, PAIRS_)])
    if rows:
        yield (
            "Trained on the rows of the other tasks, asked about the one left out (the limitations of O call this the "
            "principal open evaluation)."
        )
        yield ""
        header = ["task", "base", "task left out", "all tasks", "left out − base", "left out − all tasks"]
        yield from table(header, rows)


def _lens(study: ObliqueStudyResults) -> Iterator[str]:
    """The tasks' own lenses against the generic one, about the same documents and with the same pairs."""
    held = study.lenses
    if held is None or GENERIC not in study.systems:
        return
    yield (
        f"Both systems have the same pairs and {sum(held.rows.values()):,} written queries of the same documents, one "
        "through the lens of each task, the other through one generic prompt. Left out, since the other side has none "
        f"of the document: {held.matched_left_out:,} through the tasks' lenses, {held.generic_left_out:,} generic."
    )
    yield ""
    yield _writers(held)
    yield ""
    rows = []
    for task, found in study.of_sample().items():
        values = [spread_text(_found(found, system)) for system in (MATCHED, GENERIC)]
        rows.append([task, f"{held.rows.get(task, 0):,}", *values, _against(found, GENERIC, MATCHED)])
    yield from table(["task", "rows", "matched", "generic", "generic − matched"], rows)


def _writers(held: LensRows) -> str:
    """Who wrote each side: where that is not the same hand, the difference is no longer the lens's alone."""
    matched, generic = (", ".join(map(cell, by)) or "nobody named" for by in (held.matched_by, held.generic_by))
    if held.authored:
        return (
            f"**The writer differs too**: the matched rows are the sample's own ({matched}), the generic ones a "
            f"language model's ({generic}), so the difference is not the lens's alone. `--matched` takes rows of the "
            "same model through the tasks' lenses."
        )
    if held.matched_by and held.generic_by and held.matched_by != held.generic_by:
        return (
            f"**The writer differs too**: matched by {matched}, generic by {generic}, so the difference is not the "
            "lens's alone."
        )
    return f"Written by: matched {matched}, generic {generic}."


def _collapse(study: ObliqueStudyResults) -> Iterator[str]:
    """Different first documents, and the share of queries that get the most frequent one."""
    yield (
        "Different documents that come first for some query, of how many queries, and the share of queries that get "
        "the most frequent one; the mean over the seeds. O's random graph had 20 of 512, one of them first for 366."
    )
    yield ""
    tasks = study.of_sample()
    rows = []
    for system in study.systems:
        cells = []
        for task in tasks.values():
            first = [f for f in (task.dense(system).first if _found(task, system) else []) if f is not None]
            if not first:
                cells.append("n/a")
                continue
            distinct = sum(f.distinct for f in first) / len(first)
            share = sum(f.largest_share for f in first) / len(first)
            cells.append(f"{distinct:.1f} of {task.counts['queries']}, {share:.0%}")
        rows.append([label(system), *cells])
    yield from table(["", *tasks], rows)


def _specialist(study: ObliqueStudyResults) -> Iterator[str]:
    """Purity and lift of the graphs, and the specialist used directly."""
    yield (
        "Purity: how often neighbours share the attribute, against all pairs; intervals over attributes. Attributes "
        "measure the graph and never enter it."
    )
    yield ""
    yield from table(
        ["specialist", "over", "k", "edges", "same", "rate", "95 % interval", "base rate", "lift"],
        [
            [
                g.specialist,
                g.documents,
                str(g.k),
                f"{g.edges:,}",
                f"{g.same:,}",
                _number(g.rate),
                "n/a" if g.low is None or g.high is None else f"[{show(g.low)}, {show(g.high)}]",
                f"{g.base:.3f}",
                "n/a" if g.lift is None else f"{g.lift:.1f}",
            ]
            for g in study.graphs
        ],
    )
    for found in study.direct:
        interval = "" if found.low is None or found.high is None else f" [{found.low:.3f}, {found.high:.3f}]"
        rest = ", ".join(f"{m.removesuffix('_gold')} {v:.3f}" for m, v in found.metrics.items() if m != MAIN)
        yield ""
        yield (
            f"{found.specialist} as the retriever of {found.task}, untrained: NDCG@10 {found.metrics[MAIN]:.3f}"
            f"{interval}{f'; {rest}' if rest else ''}."
        )
    own = study.of_sample().get(PAIRS)
    bare = next((r for r in (own.runs if own else []) if (r.system, r.strategy) == (ZERO_SHOT, "claim_only")), None)
    if bare is not None:
        yield ""
        yield (
            "The second specialist as a retriever, if it is the base, is the base asked with the bare query: NDCG@10 "
            f"{spread_text(bare.value('overall', MAIN))} on the sample."
        )


def _found(task: StudyTask, system: str) -> Spread | None:
    """The system's NDCG@10, or None where it was not asked."""
    if not any(run.system == system for run in task.runs):
        return None
    return task.dense(system).value("overall", MAIN)


def _seeds(found: Spread | None) -> str:
    return "" if found is None or found.spread is None else ", ".join(_number(v) for v in found.seeds)


def _against(task: StudyTask, system: str, other: str) -> str:
    pair = task.pair(system, other)
    return difference_text(pair.difference("overall", MAIN)) if pair else ""


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
