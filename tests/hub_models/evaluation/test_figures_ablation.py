from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from hub_models.evaluation.ablation import ablate, word_deltas
from hub_models.evaluation.figures import STYLE, draw_probe, save
from hub_models.evaluation.figures_ablation import direction, heatmap, median_query, sensitivity
from hub_models.evaluation.probe import MEASURES, Pair, Probe, measure, summarise
from hub_models.evaluation.stance import judge
from tests.hub_models.evaluation.helpers import argument, claim, made

TEMPLATE = "{instruction} {claim}"
DATA = made(
    [claim("c1", "Tea $x$ is <b>good</b>."), claim("c2", "Zoos help animals.")],
    [argument(f"a{i}", f"Argument {i} $y_1$.", "natural") for i in range(4)],
    [("a0", "c1", "support"), ("a1", "c1", "attack"), ("a2", "c2", "support"), ("a3", "c2", "attack")],
)


def encoder(seed):
    def encode(texts):
        vectors = np.stack([np.random.default_rng([seed, *t.encode()]).normal(size=6) for t in texts])
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    return encode


@pytest.fixture(scope="module")
def judged():
    return judge(DATA, "test")


@pytest.fixture(scope="module")
def tables(judged):
    return {label: ablate(judged, encoder(i), TEMPLATE).table for i, label in enumerate(("base", "tuned"))}


def test_every_figure_is_drawn_and_repeats_to_the_byte(judged, tables, tmp_path):
    with matplotlib.rc_context(STYLE):
        for folder in ("once", "again"):
            save(sensitivity(tables, "title"), tmp_path / folder, "sensitivity")
            save(direction(tables, "title"), tmp_path / folder, "direction")
            save(heatmap(judged, tables, "c1-attack-unseen-02"), tmp_path / folder, "heatmap")
    once, again = ({p.name: p.read_bytes() for p in (tmp_path / f).iterdir()} for f in ("once", "again"))
    assert once == again
    assert set(once) == {f"{s}.{kind}" for s in ("sensitivity", "direction", "heatmap") for kind in ("png", "svg")}


@pytest.mark.parametrize("models", [1, 2, 4, 9])
def test_as_many_models_as_a_study_has_get_their_place_and_the_base_its_colour(tables, models):
    many = {f"model {i}": tables["base"] for i in range(models)}
    figure = sensitivity(many, "title")
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == list(many)
    colours = [h.get_facecolor()[:3] for h in figure.axes[0].get_legend().get_patches()]
    assert (colours[0] == matplotlib.colors.to_rgb("#c8443a")) == (models > 1)
    assert len(set(colours)) == min(models, 7)


def test_the_heatmap_shows_each_words_delta(judged, tables):
    figure = heatmap(judged, tables, "c1-attack-unseen-02")
    base, tuned = figure.axes[:2]
    assert (base.get_title("left"), tuned.get_title("left")) == ("base", "tuned")
    words = ["Retrieve", "evidence", "disproving", "Tea", "$x$", "is", "<b>good</b>."]
    assert [t.get_text() for t in base.get_xticklabels()] == words
    assert [t.get_text()[:5] for t in base.get_yticklabels()] == ["[POS]", "[NEG]"]
    for seed, axes in enumerate((base, tuned)):
        for row, text in enumerate(("Argument 1 $y_1$.", "Argument 0 $y_1$.")):
            found = word_deltas(
                "Retrieve evidence disproving", "Tea $x$ is <b>good</b>.", text, encoder(seed), TEMPLATE
            )
            shown = [t.get_text() for t in axes.texts if t.get_position()[1] == row]
            assert shown == [f"{delta:+.2f}".replace("0.", ".") for *_, delta in found]


def test_one_model_has_one_panel(judged, tables):
    alone = {"model": tables["base"]}
    assert len(direction(alone, "").axes) == 1
    assert len(heatmap(judged, alone, "c1-attack-unseen-02").axes) == 2  # with the colour bar
    assert [t.get_text() for t in sensitivity(alone, "").axes[0].get_legend().get_texts()] == ["model"]


def test_the_means_of_the_direction_are_those_of_the_table(tables):
    for axes, table in zip(direction(tables, "").axes, tables.values(), strict=True):
        labels = [t.get_text() for t in axes.get_legend().get_texts()]
        means = [table["di"][table["kind"] == kind].mean() for kind in ("positive", "hard")]
        assert labels == [f"right arguments, mean {means[0]:+.3f}", f"hard negatives, mean {means[1]:+.3f}"]


def test_the_example_is_the_median_one():
    rows = [("a", "hard", 0.5), ("a", "positive", 0.1), ("b", "hard", 0.9), ("b", "positive", 0.0), ("c", "hard", 0.1)]
    rows += [
        ("c", "positive", 0.0),
        ("c", "hard", 0.3),
        ("d", "positive", 0.0),
        ("e", "positive", 0.0),
        ("e", "hard", np.nan),
    ]
    table = {
        "query_id": np.array([r[0] for r in rows], object),
        "kind": np.array([r[1] for r in rows], object),
        "di": np.array([r[2] for r in rows]),
    }
    assert median_query(table) == "a"  # apart by .4, between .2 and .9; d has one kind, e has no word
    only = {name: column[table["query_id"] == "d"] for name, column in table.items()}
    assert median_query(only) is None


def test_the_picture_of_a_probe_shows_its_shares(tmp_path):
    pairs = [Pair(f"c{i}", f"claim {i}", f"pro {i}", f"con {i}", "natural") for i in range(3)]
    slices = summarise(measure(pairs, encoder(0), TEMPLATE))
    found = Probe({"id": "m$x$"}, TEMPLATE, {"source": "made", "claims": 3}, slices, {})
    drawn = draw_probe(found, tmp_path)
    assert drawn == tmp_path / "probe.png" and (tmp_path / "probe.svg").exists()
    before = drawn.read_bytes(), (tmp_path / "probe.svg").read_bytes()
    draw_probe(found, tmp_path)
    assert (drawn.read_bytes(), (tmp_path / "probe.svg").read_bytes()) == before

    from hub_models.evaluation.probe import picture

    axes = picture(found).axes[0]
    points = [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() not in ("None", None)]
    assert points == [slices[name][m].mean for m in MEASURES for name in slices]
