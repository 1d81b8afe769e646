"""Oblique rows in a recipe: mixtures, doses, replacing, what may share a step, a run, its card and its evaluation."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from dataset_builders.__main__ import build
from dataset_builders.folder import rows_sha256
from dataset_builders.instructions import OBLIQUE_INSTRUCTIONS, format_query
from dataset_builders.oblique.read import read_oblique_rows
from dataset_builders.read import read_config
from dataset_builders.schema import OBLIQUE_ROWS
from hub_models import trained_claims, training_data
from hub_models.batching import DistinctClaimBatchSampler, RowKeys
from hub_models.cards import write_card
from hub_models.evaluation.run import evaluate_model, load_tasks
from hub_models.manifest import Manifest
from hub_models.recipe import Recipe, load_recipe
from hub_models.training import train
from tests.tiny import tiny


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    made = {}
    for kind in ("queries", "style-pairs"):
        made[kind] = folder / f"sample-obliq-{kind}"
        build(name=made[kind].name, out=made[kind])
    return made


def recipe(entries: list[dict[str, Any]], *overrides: str) -> Recipe:
    return load_recipe("obliq-minilm", [f"data={json.dumps(entries)}", *overrides])


def entry(path: Path, **settings: Any) -> dict[str, Any]:
    return {"path": str(path), **settings}


def counted(rows: training_data.TrainingSet) -> dict[tuple[str, str], int]:
    return dict(Counter(zip(rows.triplets["task"][:], rows.triplets["lens"][:], strict=True)))


QUERIES = {
    ("twitter", "descriptive"): 96,
    ("math", "analogue"): 96,
    ("writing", "analogue"): 96,
    ("congress", "tip_of_tongue"): 96,
    ("wildchat", "descriptive"): 84,
}
PAIRS = {("writing", "style"): 288}


# --- The recipe ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["obliq-minilm", "obliq-3b"])
def test_the_recipes_hold_the_papers_settings(name: str) -> None:
    made = load_recipe(name)
    assert (made.pooling, made.loss.name, made.loss.scale) == ("mean", "cached_mnrl", 50)
    assert (made.lora.r, made.lora.alpha, made.lora.dropout) == (16, 32, 0.05)
    assert (made.learning_rate, made.warmup, made.schedule, made.epochs) == (2e-4, 0.03, "linear", 1)
    assert not made.gradient_checkpointing  # which the cached loss does not go with
    if name == "obliq-3b":
        assert (made.global_batch, made.negatives_per_anchor) == (320, 4)
        assert (made.max_seq_length, made.max_query_length) == (1024, 256)
        assert [e.dose for e in made.data] == [149_361, 5_000]
        assert (made.base_revision, made.trust_remote_code, made.bidirectional) == (None, None, True)


def test_queries_are_not_cut_later_than_all_texts() -> None:
    with pytest.raises(ValueError, match="got max_query_length 300 above max_seq_length 256"):
        load_recipe("obliq-minilm", ["max_query_length=300"])


# --- The mixture -----------------------------------------------------------------------------------------------------


def test_a_mixture_has_exactly_its_doses(sample: dict[str, Path]) -> None:
    queries, pairs = sample["queries"], sample["style-pairs"]
    both = training_data.read(recipe([entry(queries), entry(pairs)]))
    assert counted(both) == QUERIES | PAIRS
    assert [(p.name, p.config, p.rows) for p in both.parts] == [
        ("sample-obliq-queries", "all", 468),
        ("sample-obliq-style-pairs", "writing", 288),
    ]
    assert {(p.licence, p.source) for p in both.parts} == {("cc-by-4.0", "sample")}
    mixed = [entry(queries, config="math", dose=10), entry(queries, task="congress", dose=96), entry(pairs, dose=50)]
    rows = training_data.read(recipe(mixed))
    assert counted(rows) == {("math", "analogue"): 10, ("congress", "tip_of_tongue"): 96, ("writing", "style"): 50}
    assert rows.hash == training_data.read(recipe(mixed)).hash != training_data.read(recipe(mixed, "seed=1")).hash
    for wrong, what in [
        ([entry(pairs, dose=289)], r"sample-obliq-style-pairs: got 288 rows, the recipe's dose is 289; lower it"),
        ([entry(queries, config="maths")], r"wanted 'maths'.*Did you mean 'math'"),
        ([entry(pairs, task="math")], r"got rows of \['writing'\], wanted the task 'math'"),
        ([entry(queries, split="validation")], r"config 'all' has the splits \['train'\], wanted 'validation'"),
    ]:
        with pytest.raises(ValueError, match=what):
            training_data.read(recipe(wrong))
    with pytest.raises(ValueError, match=r"data\.0\.task = 'maths': Input should be 'twitter', 'math'"):
        recipe([entry(queries, task="maths")])


def test_replacing_takes_the_written_queries_of_writing_out_and_blending_keeps_them(sample: dict[str, Path]) -> None:
    """O N.1: "blend" adds the graph to the written rows of writing, "replace" substitutes it for them."""
    queries, pairs = sample["queries"], sample["style-pairs"]
    rows = training_data.read(recipe([entry(queries), entry(pairs, mode="replace")]))
    without = {key: n for key, n in QUERIES.items() if key[0] != "writing"}
    assert counted(rows) == without | PAIRS
    assert [p.rows for p in rows.parts] == [372, 288]
    # The dose is what is trained on: drawn from what stays.
    assert training_data.read(recipe([entry(queries, dose=372), entry(pairs, mode="replace")])).parts[0].rows == 372
    pinned = training_data.read(recipe([entry(queries)])).parts[0].sha256
    training_data.read(recipe([entry(queries, sha256=pinned), entry(pairs, mode="replace", dose=5)]))
    for wrong, what in [
        ([entry(queries, dose=373), entry(pairs, mode="replace")], r"got 372 rows, the recipe's dose is 373"),
        ([entry(queries, config="writing"), entry(pairs, mode="replace")], r"replace all of its 96 rows"),
        (
            [entry(queries, config="math"), entry(pairs, mode="replace")],
            r"no entry holds a written query of 'writing'",
        ),
        ([entry(queries, mode="replace")], r"468 of 468 rows that are no style pairs.*task 'twitter', lens 'descr"),
    ]:
        with pytest.raises(ValueError, match=what):
            training_data.read(recipe(wrong))


def test_stance_rows_are_neither_replaced_nor_mixed_in(sample: dict[str, Path], tmp_path: Path) -> None:
    stance = Path(__file__).parent.parent / "cases" / "case18_column_order.jsonl"
    with pytest.raises(ValueError, match=r"got stance triplets and oblique rows in one run \(.*: stance, .*: oblique"):
        training_data.read(recipe([entry(stance), entry(sample["queries"])]))
    with pytest.raises(ValueError, match=r"got mode 'replace'; triplets can only be blended"):
        training_data.read(recipe([entry(stance, mode="replace")]))
    with pytest.raises(ValueError, match=r"got the task 'math' for stance triplets"):
        training_data.read(recipe([entry(stance, task="math")]))


def test_the_hash_is_that_of_the_built_table(sample: dict[str, Path]) -> None:
    table = read_config(sample["queries"], "math", OBLIQUE_ROWS)["train"]
    part = training_data.read(recipe([entry(sample["queries"], config="math")])).parts[0]
    assert part.sha256 == rows_sha256(table)


def test_the_samples_rows_are_built_where_they_are_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = training_data.read(load_recipe("obliq-minilm"))
    assert counted(rows) == QUERIES | PAIRS
    assert (tmp_path / "data" / "sample-obliq-queries" / "README.md").is_file()


def test_rows_in_reasonirs_shape(tmp_path: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    lines = [
        {"query": "bare", "pos": ["first", ["", "second"]], "neg": [["", "wrong"], "worse"]},
        {"query": ["Do this.", "paired"], "pos": [["", "third"]], "neg": ["wrong", "worse"]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = training_data.read(recipe([entry(path, task="math")]))
    columns = rows.columns("Instruct: {instruction}\nQuery: {claim}", 2)
    math = OBLIQUE_INSTRUCTIONS["math"]
    assert columns["anchor"][:] == [f"Instruct: {math}\nQuery: bare"] * 2 + ["Instruct: Do this.\nQuery: paired"]
    assert columns["positive"][:] == ["first", "second", "third"]
    assert columns.column_names == ["anchor", "positive", "negative_1", "negative_2"]
    assert (rows.parts[0].config, rows.parts[0].licence) == (None, "unknown")
    with pytest.raises(ValueError, match=r"2 of 3 rows name neither an instruction nor a task"):
        training_data.read(recipe([entry(path)]))
    with pytest.raises(ValueError, match=r"only a built folder has configs"):
        training_data.read(recipe([entry(path, config="math")]))
    for text in ["", " ", None, 7]:  # documents without text
        path.write_text(json.dumps({**lines[0], "pos": [text]}))
        with pytest.raises(ValueError, match=r"theirs\.jsonl:1: pos 1: (the text is empty|got (NoneType|int))"):
            training_data.read(recipe([entry(path, task="math")]))


# --- What may share a step -------------------------------------------------------------------------------------------


def key_rows(rows: list[tuple[str, str | None, str, list[str]]]) -> RowKeys:
    """By query, attribute, positive, negatives; the positive's id is its text."""
    return RowKeys.from_queries(
        [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows], [r[2] for r in rows], [r[3] for r in rows]
    )


def clash(keys: RowKeys, i: int, j: int) -> bool:
    foes = [set(keys.foes[keys.offsets[r] : keys.offsets[r + 1]].tolist()) for r in (i, j)]
    return bool(keys.claim[i] == keys.claim[j] or keys.anchor[i] in foes[1] or keys.anchor[j] in foes[0])


def test_rows_that_ask_for_the_same_thing_keep_apart_by_hand() -> None:
    keys = key_rows(
        [
            ("style of a", None, "b", ["n"]),  # 0
            ("style of a", None, "c", ["n"]),  # 1: the same anchor's other neighbour
            ("style of d", None, "b", ["n"]),  # 2: another anchor, the same positive as 0
            ("style of e", None, "f", ["c"]),  # 3: a known positive of 1 is its negative
            ("proof by x", "m/1", "p", ["n"]),  # 4
            ("proof like x", "m/1", "q", ["n"]),  # 5: the same attribute as 4
            ("style of g", None, "q", ["n"]),  # 6: 5's positive, so right for 4 too
            ("unlike all", None, "z", ["n"]),  # 7
        ]
    )
    found = {(i, j) for i in range(8) for j in range(i) if clash(keys, i, j)}
    assert found == {(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (5, 4), (6, 4), (6, 5)}
    # 2 and 1: 2's positive b is right for the query of 1, as row 0 says.


def test_the_own_negative_that_is_right_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1 negatives are a known positive of their own query, .*row 0 .*'B'"):
        key_rows([("q", None, "a", ["B"]), ("Q ", None, "b", ["n"])])
    with pytest.raises(ValueError, match=r"known positive of their own query"):
        key_rows([("q", "t/1", "a", ["b"]), ("r", "t/1", "b", [])])


oblique_rows = st.lists(
    st.tuples(
        st.integers(0, 5).map("q{}".format),
        st.sampled_from([None, None, "t/1", "t/2"]),
        st.integers(0, 7).map("p{}".format),
        st.lists(st.integers(8, 12).map("p{}".format), max_size=2),
    ),
    min_size=4,
    max_size=24,
)


@settings(max_examples=150, deadline=None)
@given(oblique_rows, st.integers(2, 4), st.integers(0, 3))
def test_no_step_holds_a_known_positive_of_another_row(
    rows: list[tuple[str, str | None, str, list[str]]], batch: int, seed: int
) -> None:
    """Against the rule over texts. Rows that ask for the same are linked by query or attribute, in chains."""
    keys = key_rows(rows)
    asks = list(range(len(rows)))
    for _ in rows:
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                if a[0] == b[0] or (a[1] is not None and a[1] == b[1]):
                    asks[i] = asks[j] = min(asks[i], asks[j])
    right = [{b[2] for j, b in enumerate(rows) if asks[j] == asks[i]} for i in range(len(rows))]

    def wrong(i: int, j: int) -> bool:
        return not right[i].isdisjoint([rows[j][2], *rows[j][3]])

    for i in range(len(rows)):
        for j in range(i):
            assert clash(keys, i, j) == (wrong(i, j) or wrong(j, i))
    if len(keys.claim_ids) < batch:
        return
    for rows_of in DistinctClaimBatchSampler(range(len(rows)), batch, keys=keys, seed=seed, min_coverage=0):
        for a in rows_of:
            assert not any(wrong(a, b) for b in rows_of if a != b)


def test_the_sample_fills_its_batches(sample: dict[str, Path]) -> None:
    rows = training_data.read(recipe([entry(sample["queries"]), entry(sample["style-pairs"])]))
    keys = rows.keys()
    sampler = DistinctClaimBatchSampler(range(len(keys)), 8, keys=keys)
    assert sampler.coverage > 0.99
    attribute = rows.triplets["attribute"][:]
    task, query = rows.triplets["task"][:], rows.triplets["query"][:]
    full = 0
    for batch in sampler:
        named = [(task[i], attribute[i]) for i in batch if attribute[i] is not None and task[i] != "congress"]
        assert len(set(named)) == len(named)
        assert len({query[i] for i in batch}) == len(batch)
        full += len(batch) == 8
    assert full > 80


def test_in_a_tip_of_the_tongue_task_an_attribute_is_not_asked_for(sample: dict[str, Path]) -> None:
    rows = training_data.read(recipe([entry(sample["queries"], config="congress")]))
    attributes = rows.triplets["attribute"][:]
    keys = rows.keys()
    pairs = [(i, j) for i in range(96) for j in range(i) if attributes[i] == attributes[j]]
    assert len(pairs) > 100
    assert sum(clash(keys, i, j) for i, j in pairs) < len(pairs) / 4  # where one is the other's hard negative


def test_the_random_graph_trains_too(tmp_path: Path) -> None:
    """No positive that is drawn for an anchor is a negative of another of its rows."""
    folder = tmp_path / "sample-obliq-style-pairs"
    build(name=folder.name, out=folder, random_graph=True, k=10, seed=3)
    assert len(read_oblique_rows(folder)) == 960
    training_data.read(recipe([entry(folder)])).keys()


# --- A run -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("gate_in_process")
def test_a_run_says_what_it_is_for(sample: dict[str, Path], tmp_path: Path) -> None:
    template = "Instruct: {instruction}\nQuery: {claim}"
    data = [entry(sample["queries"], dose=12), entry(sample["style-pairs"], dose=6)]
    made = tiny(
        "stance-bge-large", f"data={json.dumps(data)}", f"query_template={json.dumps(template)}", "name=obliq-tiny",
        "global_batch=2", "accumulation=1", "epochs=1", "precision=fp32", "gradient_checkpointing=false",
        "learning_rate=1e-3", "loss={name: cached_mnrl, scale: 50.0, mini_batch: 2}", "max_query_length=24",
    )  # fmt: skip
    run = train(made, tmp_path / "run")
    manifest = Manifest.read(run)
    assert (manifest.name, manifest.status, manifest.family) == ("obliq-tiny-lora", "trained", "oblique")
    assert manifest.prompts == {
        **{task: f"Instruct: {text}\nQuery: " for task, text in OBLIQUE_INSTRUCTIONS.items()},
        "query": "",
        "document": "",
    }
    assert [d.rows for d in manifest.data] == [12, 6]
    model = SentenceTransformer(str(run), device="cpu")
    query = "Short sentences, no adjectives."
    np.testing.assert_allclose(
        model.encode(query, prompt_name="writing"),
        model.encode(format_query(template, OBLIQUE_INSTRUCTIONS["writing"], query)),
        atol=1e-6,
    )
    rows = training_data.read(made)
    assert trained_claims.read(str(run)) == trained_claims.ids([*rows.triplets["query"], *rows.triplets["positive"]])

    tasks = load_tasks(["sample-obliq-math"], None, "test")
    found = evaluate_model(str(run), tasks, out=tmp_path / "measured", baseline="random").results.tasks
    task = found["sample-obliq-math"]
    assert task.query_template == template
    assert (task.counts["trained_on"], task.counts["query_tokens"]) == (0, 24)
    (run / "evaluation").mkdir()
    (run / "evaluation" / "results.json").write_bytes((tmp_path / "measured" / "results.json").read_bytes())
    card = write_card(run).read_text()
    dense = task.run("dense")
    assert dense is not None
    assert f"| this adapter | {dense.mean('overall', 'ndcg_at_10_gold'):.3f} |" in card
    assert "sample-obliq-style-pairs | writing | 6 | sample | cc-by-4.0" in card
    assert "by **stance**" not in card
    assert "- oblique-retrieval" in card
    assert "Oblique retrieval" in card.split("---")[1]
