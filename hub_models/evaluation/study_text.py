"""How the reports of all studies say a number: over seeds, as a difference, as a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hub_models.evaluation.results import Comparison
from hub_models.evaluation.study_results import Spread, StudyResults


def spread_text(found: Spread | None) -> str:
    """``0.598 ± 0.004``, without the spread where there is none."""
    if found is None or found.mean is None:
        return "n/a"
    return f"{found.mean:.3f}" + ("" if found.spread is None else f" ± {found.spread:.3f}")


def difference_text(found: Comparison | None) -> str:
    """``+0.041 [+0.012, +0.070]``, without an interval where there is none; nothing where nothing was compared."""
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.delta:+.3f}"
    return f"{found.delta:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def verdict(found: Comparison, positive: str, negative: str) -> str:
    """Which of two words the interval allows."""
    if not found.excludes_zero:
        return "no clear difference"
    return positive if found.delta > 0 else negative


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown."""
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def made_by(study: StudyResults) -> Iterator[str]:
    """On which base, with how many seeds, by which command."""
    revision = f" @ {study.base_revision[:8]}" if study.base_revision else ""
    yield f"Base {study.base}{revision}, {len(study.seeds)} seed(s), split {study.split}. Made by"
    yield ""
    yield f"    {study.command}"


def budget(study: StudyResults, label: Callable[[str], str], rows: str) -> Iterator[str]:
    """What each training saw.

    Args:
        study: Its trainings are listed.
        label: A system's name as it is printed.
        rows: What a training row is called.
    """
    yield f"| trained | seed | {rows} | steps | tokens encoded | mean loss | differs from the recipe by |"
    yield "|---|---|---|---|---|---|---|"
    for t in study.trainings:
        loss = "n/a" if t.train_loss is None else f"{t.train_loss:.3f}"
        overrides = ", ".join(f"`{o}`" for o in t.overrides)
        yield f"| {label(t.system)} | {t.seed} | {t.rows:,} | {t.steps:,} | {t.tokens:,} | {loss} | {overrides} |"
