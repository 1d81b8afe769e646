from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from hub_models.__main__ import app
from hub_models.evaluation.probe import CHANCE, MEASURES, Pair, couples, measure, pairs_of, report, summarise
from hub_models.evaluation.probe import probe as run_probe
from tests.hub_models.evaluation.helpers import TINY
from tests.tiny import install_tiny

TEMPLATE = "{instruction} {claim}"
PAIRS = [Pair(f"c{i}", f"claim {i}", f"pro {i}", f"con {i}", "natural") for i in range(4)]
SUPPORT = {i.text for i, _ in couples()}


def stance_of(text):
    """Which side a text of `PAIRS` is on, or asks for."""
    return text.startswith("pro") or any(text.startswith(i) for i in SUPPORT)


def vectors(rule):
    return lambda texts: np.array([rule(t) for t in texts], np.float32)


def shares(rule):
    return {m: s.mean for m, s in summarise(measure(PAIRS, vectors(rule), TEMPLATE))["overall"].items()}


def test_opposites_differ_in_the_stance_word_alone():
    for supporting, attacking in couples():
        assert (supporting.stance, attacking.stance) == ("support", "attack")
        frame = supporting.text.split(supporting.stance_word)[0]
        assert attacking.text == f"{frame}{attacking.stance_word}"
    assert len(couples()) == 5


def test_who_knows_stance_is_always_right():
    assert shares(lambda t: [1, 0] if stance_of(t) else [0, 1]) == {"argument": 1, "instruction": 1, "both": 1}


def test_who_has_it_backwards_is_always_wrong():
    def backwards(text):
        side = stance_of(text)
        return [1, 0] if (side if text[:3] in ("pro", "con") else not side) else [0, 1]

    assert shares(backwards) == {"argument": 0, "instruction": 0, "both": 0}


def test_who_is_blind_to_the_instruction_follows_one_side():
    """Half of the arguments by chance of what is asked, never both ways; instructions are a tie."""

    def blind(text):
        return [1, 0] if text.startswith("pro") or text[:3] not in ("pro", "con") else [0, 1]

    assert shares(blind) == {"argument": 0.5, "instruction": 0.5, "both": 0}


def test_equal_vectors_are_ties_and_not_right():
    assert shares(lambda t: [1, 0]) == {"argument": 0.5, "instruction": 0.5, "both": 0}


def test_one_pair_by_hand():
    """Asked for support the pro side is closer; asked for attack too. Pro is closer to the asking for attack."""
    cosines = {True: [0.5, 0.4], False: [0.6, 0.3]}
    table = measure(
        PAIRS[:1],
        vectors(
            lambda t: ([1, 0] if t.startswith("pro") else [0, 1]) if t[:3] in ("pro", "con") else cosines[stance_of(t)]
        ),
        TEMPLATE,
    )
    support = table["stance"] == "support"
    assert set(table["argument"][support]) == {1} and set(table["argument"][~support]) == {0}
    assert set(table["instruction"][support]) == {0} and set(table["instruction"][~support]) == {0}
    assert set(table["both"]) == {0}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_swapping_the_sides_of_every_pair_turns_argument_around(seed):
    def random(text):
        return np.random.default_rng([seed, *text.encode()]).normal(size=8)

    swapped = [Pair(p.claim_id, p.claim, p.attack, p.support, p.style) for p in PAIRS]
    ours, theirs = (measure(pairs, vectors(random), TEMPLATE) for pairs in (PAIRS, swapped))
    assert (ours["argument"] + theirs["argument"] == 1).all()


def test_slices_and_their_intervals():
    found = summarise(measure(PAIRS, vectors(lambda t: [1, 0] if stance_of(t) else [0, 1]), TEMPLATE))
    assert list(found)[:4] == ["overall", "support", "attack", "style=natural"]
    assert sum(name.startswith("instruction=") for name in found) == 10
    overall = found["overall"]["argument"]
    assert (overall.mean, overall.low, overall.high, overall.n, overall.claims) == (1, 1, 1, 40, 4)
    assert set(found["overall"]) == set(MEASURES) == set(CHANCE)


def test_the_sample_asks_about_test_claims_alone():
    pairs = pairs_of("sample")
    assert len(pairs) == 40 * 8
    assert len({p.claim for p in pairs}) == 40
    assert {p.style for p in pairs} == {"explicit", "natural"}
    for pair in pairs:
        if pair.style == "explicit":
            assert "claim is true" in pair.support and "claim is false" in pair.attack


def test_pairs_of_ones_own(tmp_path):
    row = {
        "claim": "Tea is good.",
        "original": "It wakes.",
        "original_stance": "support",
        "inverted": "It robs sleep.",
    }
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"original_stance": "attack", "style": "natural"}))
    first, second = pairs_of("mine", path)
    assert (first.support, first.attack, first.style) == ("It wakes.", "It robs sleep.", None)
    assert (second.support, second.attack, second.style) == ("It robs sleep.", "It wakes.", "natural")
    assert first.claim_id == second.claim_id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inverted": " "}, r"mine.jsonl:1: inverted: the text is empty"),
        ({"original_stance": "suport"}, r"got original_stance 'suport'.*Did you mean 'support'\?"),
        ({"style": "plain"}, "got style 'plain', wanted one of"),
        ({"invertd": "x"}, r"unknown keys \['invertd'\].*Did you mean 'inverted'\?"),
        ({"original": None}, "original: got NoneType"),
    ],
)
def test_faulty_pairs_are_named(tmp_path, change, message):
    row = {"claim": "Tea.", "original": "a", "original_stance": "support", "inverted": "b"} | change
    (tmp_path / "mine.jsonl").write_text(json.dumps(row))
    with pytest.raises(ValueError, match=message):
        pairs_of("mine", tmp_path / "mine.jsonl")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([{}, {}], r"mine.jsonl:2: got the pair of mine.jsonl:1 once more on 'Tea.', wanted it once"),
        ([{}, {"original": "b", "original_stance": "attack", "inverted": "a"}], "mine.jsonl:2: got the pair of"),
        ([{"inverted": "a"}], "mine.jsonl:1: got the same text as original and inverted"),
        ([{"claim_id": ["c"]}], "mine.jsonl:1: claim_id: got list, wanted text or a whole number"),
        ([{"claim_id": True}], "mine.jsonl:1: claim_id: got bool"),
    ],
)
def test_pairs_that_say_nothing_or_say_it_twice_are_refused(tmp_path, changes, message):
    row = {"claim": "Tea.", "original": "a", "original_stance": "support", "inverted": "b"}
    (tmp_path / "mine.jsonl").write_text("\n".join(json.dumps(row | change) for change in changes))
    with pytest.raises(ValueError, match=message):
        pairs_of("mine", tmp_path / "mine.jsonl")


def test_a_whole_number_names_a_claim_and_so_does_0(tmp_path):
    row = {"claim": "Tea.", "original": "a", "original_stance": "support", "inverted": "b", "claim_id": 0}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row))
    assert [p.claim_id for p in pairs_of("mine", tmp_path / "mine.jsonl")] == ["0"]


def test_rows_without_an_inversion_and_no_rows(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"claim": "Tea.", "support": ["a"], "attack": ["b"]}\n')
    with pytest.raises(ValueError, match=r"got the unknown keys \['support', 'attack'\]"):
        pairs_of("mine", path)
    path.write_text('{"claim": "Tea.", "original": "a"}\n')
    with pytest.raises(ValueError, match=r"got no \['original_stance', 'inverted'\]"):
        pairs_of("mine", path)
    path.write_text("")
    with pytest.raises(ValueError, match="there is no row"):
        pairs_of("mine", path)
    with pytest.raises(FileNotFoundError):
        pairs_of("mine", tmp_path / "absent.jsonl")


def test_a_source_without_inversions_says_what_to_do(monkeypatch):
    from dataset_builders.sources import load
    from hub_models.evaluation import probe as module

    monkeypatch.setattr(module, "load", lambda name: load(name).restrict({"validation"}))
    with pytest.raises(
        ValueError, match="sample: none of its 0 test claims has an inverted argument; give --data FILE"
    ):
        pairs_of("sample")


def test_a_model_is_probed_and_every_number_printed_is_in_the_file(tmp_path):
    found = run_probe(install_tiny(TINY), PAIRS, "made")
    found.write(tmp_path / "deep" / "probe.json")
    stored = json.loads((tmp_path / "deep" / "probe.json").read_text())
    assert stored["model"]["id"] == install_tiny(TINY)
    assert (stored["data"]["pairs"], stored["data"]["claims"], stored["data"]["trained_on"]) == (4, 4, 0)
    text = report(found)
    assert max(map(len, text.splitlines())) <= 119
    for shares in stored["slices"].values():
        for share in shares.values():
            assert f"{share['mean']:.3f} [{share['low']:.3f}, {share['high']:.3f}]" in text


def test_the_command_writes_results_and_a_picture(tmp_path):
    row = {
        "claim": "Tea is good.",
        "original": "It wakes.",
        "original_stance": "support",
        "inverted": "It robs sleep.",
    }
    (tmp_path / "mine.jsonl").write_text(json.dumps(row))
    model, data = install_tiny(TINY), str(tmp_path / "mine.jsonl")
    done = CliRunner().invoke(app, ["probe", "--model", model, "--data", data, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "mine: 1 arguments of 1 claims" in done.output
    assert {"probe.json", "probe.png", "probe.svg"} <= {p.name for p in tmp_path.iterdir()}
    share = json.loads((tmp_path / "probe.json").read_text())["slices"]["overall"]["argument"]
    assert (share["low"], share["high"], share["n"], share["claims"]) == (None, None, 10, 1)

    failed = CliRunner().invoke(app, ["probe", "--model", "no/such", "--out", str(tmp_path / "none")])
    assert failed.exit_code == 1
    assert not (tmp_path / "none").exists()
