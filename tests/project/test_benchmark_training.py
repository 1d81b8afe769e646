"""What the benchmarks of training make of seconds, losses and points: by hand, and nothing is trained."""

from __future__ import annotations

import pytest
import torch

from benchmarks import measure, training
from benchmarks import time_to_quality as ttq


def run(*points: tuple[float, float, float]) -> ttq.Run:
    """Of (seconds, P@R on validation, on test), a step a second."""
    return [
        {"step": 10 * seconds, "seconds": seconds, "validation": validation, "test": test}
        for seconds, validation, test in points
    ]


STOCK = {
    "stock-slow": run((0, 0.4, 0.4), (10, 0.42, 0.5), (20, 0.45, 0.8)),
    "stock-good": run((0, 0.4, 0.4), (10, 0.5, 0.45), (20, 0.57, 0.52), (30, 0.6, 0.5)),
    "stock-steep": run((0, 0.4, 0.4), (10, 0.65, 0.7), (20, 0.55, 0.9)),
}
"""The second ends best on validation; the others have more on the way there, or on the test claims."""


def test_the_stock_run_that_ends_best_on_validation_is_compared() -> None:
    assert ttq.best(STOCK) == "stock-good"


def test_the_first_of_ours_at_nine_tenths_of_its_gain_on_validation_is_taken() -> None:
    never, late = run((0, 0.4, 0.4), (1, 0.57, 0.9)), run((0, 0.4, 0.4), (19, 0.59, 0.4))
    early = run((0, 0.4, 0.4), (9, 0.59, 0.4), (18, 0.5, 0.4))  # there once, if not at its end
    assert ttq.target(STOCK["stock-good"], "validation") == pytest.approx(0.58)
    assert ttq.first({"never": never, "late": late, "early": early}, STOCK["stock-good"]) == "early"
    assert ttq.first({"never": never, "late": late}, STOCK["stock-good"]) == "late"
    assert ttq.first({"never": never}, STOCK["stock-good"]) == "never"


def test_a_row_has_the_seconds_of_the_first_points_at_the_target() -> None:
    ours = run((0, 0.4, 0.4), (6, 0.57, 0.48), (9, 0.6, 0.495), (12, 0.6, 0.6))
    row = ttq.row("validation", ours, STOCK["stock-good"])
    assert (row["ours"], row["theirs"], row["ratio"], row["bound"]) == (9, 30, 0.3, "<= 0.6")
    assert row["steps"] == {"ours": 90, "theirs": 300} and row["note"] == "measured once."
    row = ttq.row("test", ours, STOCK["stock-good"])  # it has .49 at its second point, before it loses some
    assert (row["ours"], row["theirs"], row["ratio"]) == (9, 20, 0.45)
    assert row["precision_at_r"] == {"base": 0.4, "target": pytest.approx(0.49), "ours": 0.6, "theirs": 0.5}


def test_a_run_that_never_gets_there_has_no_seconds_and_misses_the_bound() -> None:
    row = ttq.row("validation", run((0, 0.4, 0.4), (9, 0.57, 0.9)), STOCK["stock-good"])
    assert (row["ours"], row["theirs"], row["ratio"], row["bound"]) == (None, 30, None, "<= 0.6")


@pytest.mark.parametrize("final", [0.4, 0.3])
def test_where_the_stock_script_gains_nothing_there_is_no_ratio_and_no_bound(final: float) -> None:
    row = ttq.row("test", run((0, 0.4, 0.4), (9, 0.6, 0.9)), run((0, 0.4, 0.4), (10, 0.6, final)))
    assert (row["ours"], row["theirs"], row["ratio"], row["bound"]) == (None, None, None, None)
    assert row["note"] == "measured once; the stock script gains nothing, so there is no target."


def test_rates_are_by_the_median_turn_and_the_ratio_is_the_median_of_theirs() -> None:
    row = training.speed_row("CPU second", {"ours": [10.0, 20.0, 40.0], "theirs": [30.0, 40.0, 60.0]}, 120)
    assert (row["name"], row["ours"], row["theirs"]) == ("training, triplets a CPU second", 6, 3)
    assert (row["ratio"], row["spread"], row["bound"]) == (2, [1.5, 3], ">= 1.2")


@pytest.mark.parametrize("stock", [[2.0, 1.1, 0.5], [2.0, 0.9, 0.5]])
def test_losses_are_compared_where_they_are_furthest_apart_to_either_side(stock: list[float]) -> None:
    row = training.loss_row([2.0, 1.0, 0.51], stock)
    assert (row["ours"], row["theirs"], row["steps"]) == (1, stock[1], 30)
    assert row["ratio"] == pytest.approx(max(stock[1], 1 / stock[1])) and row["bound"] == "<= 1.02"
    assert row["note"] == "measured once, over 30 steps: the furthest apart of 3 means of ten."


def test_the_operations_of_a_product_are_two_for_each_number_multiplied() -> None:
    a, b = torch.ones(3, 5), torch.ones(7, 5)
    with torch.inference_mode():  # as encoding does
        assert measure.operations(lambda: torch.nn.functional.linear(a, b)) == 2 * 3 * 5 * 7
    assert measure.product_rate(repeats=1) > 0
