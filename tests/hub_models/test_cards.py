from __future__ import annotations

import ast
import hashlib
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from markdown_it import MarkdownIt
from run_folders import DATA, manifest, metric, results, run_folder

from hub_models.card_results import evaluation_results, finite, public_name
from hub_models.cards import PERMISSIVE, cell, figures, release_licence, search_snippet, write_card
from hub_models.evaluation.report import COLUMNS
from hub_models.evaluation.results import Results
from hub_models.manifest import Manifest
from hub_models.plan import plan
from hub_models.recipe import load_recipe

CASES = Path(__file__).resolve().parents[1] / "cases"


def card_of(folder: Path) -> tuple[dict[str, Any], str]:
    text = write_card(folder).read_text()
    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


def tables(markdown: str) -> list[list[list[str]]]:
    """The tables as a Markdown parser sees them: rows of cells of plain text, with ``<br>`` as a line end."""
    found: list[list[list[str]]] = []
    inside = False
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown):
        if token.type in ("table_open", "table_close"):
            inside = token.type == "table_open"
            found += [[]] if inside else []
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and inside:
            parts = [child.content for child in token.children or []]
            found[-1][-1].append("".join("\n" if p == "<br>" else p for p in parts if p not in ("<code>", "</code>")))
    return found


def snippets(markdown: str) -> list[str]:
    return [t.content for t in MarkdownIt().parse(markdown) if t.type == "fence" and t.info == "python"]


# ---------------------------------------------------------------------------------------------------------- metadata


def test_metadata_come_from_the_manifest(tmp_path: Path) -> None:
    head, _ = card_of(run_folder(tmp_path))
    assert head == {
        "language": "en",
        "license": "apache-2.0",
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": [
            "sentence-transformers",
            "sentence-similarity",
            "feature-extraction",
            "lora",
            "stance",
            "argument-retrieval",
        ],
        "base_model": "sentence-transformers/all-MiniLM-L6-v2",
        "base_model_relation": "adapter",
        "datasets": ["sample-stance-triplets"],
    }


def test_model_index_is_the_results_file_and_nothing_else(tmp_path: Path) -> None:
    measured = results()
    head, _ = card_of(run_folder(tmp_path, measured))
    (index,) = head["model-index"]
    assert index["name"] == "stance-minilm-lora"
    slices = measured["tasks"]["sample-stance"]["runs"][0]["slices"]
    got = {(r["dataset"]["config"], m["type"]): m["value"] for r in index["results"] for m in r["metrics"]}
    assert got == {(s, m): pytest.approx(slices[s][m]["mean"], abs=5e-5) for s in slices for m in COLUMNS}
    assert {r["dataset"]["revision"] for r in index["results"]} == {"e" * 64}


def test_seen_instructions_stay_out_of_the_model_index(tmp_path: Path) -> None:
    measured = results()
    slices = measured["tasks"]["sample-stance"]["runs"][0]["slices"]
    slices["instructions=seen"] = slices["overall"]
    head, body = card_of(run_folder(tmp_path, measured))
    configs = {r["dataset"]["config"] for r in head["model-index"][0]["results"]}
    assert configs == {"overall", "style=explicit", "style=natural"}
    assert "instructions=seen: 70 queries" in body


def test_a_value_that_was_not_computed_has_no_entry(tmp_path: Path) -> None:
    measured = results()
    measured["tasks"]["sample-stance"]["runs"][0]["slices"]["overall"]["precision_at_r"] = metric(None)
    head, body = card_of(run_folder(tmp_path, measured))
    entries = [r for r in head["model-index"][0]["results"] if r["dataset"]["config"] == "overall"]
    assert [m["type"] for m in entries[0]["metrics"]] == ["ndcg_at_10", "hard_at_r", "semi_hard_at_r", "easy_at_r"]
    assert "not computed" in body


def test_numpy_numbers_become_plain_yaml() -> None:
    value = finite(np.float64(0.5), "x")
    assert type(value) is float
    read = Results.model_validate(results())
    read.tasks["sample-stance"].runs[0].slices["overall"]["precision_at_r"].mean = np.float64(0.123456)
    assert {type(e.metric_value) for e in evaluation_results(read)} == {float}


@pytest.mark.parametrize(
    ("break_", "words"),
    [
        (lambda task: task["counts"].clear(), "got counts without 'split', wanted it there; evaluate anew"),
        (lambda task: task["counts"].pop("documents"), "got counts without 'documents'"),
        (lambda task: task["counts"].pop("style"), "got counts without 'style.explicit.documents'"),
        (lambda task: task["counts"].update(style=None), "got counts without 'style.explicit.documents'"),
        (
            lambda task: task["runs"][0]["slices"]["overall"].pop("precision_at_r"),
            r"sample-stance, overall: got the metrics \['ndcg_at_10', .*\], wanted 'precision_at_r' among them",
        ),
    ],
)
def test_results_that_lack_what_a_card_shows_are_refused(tmp_path: Path, break_: Any, words: str) -> None:
    measured = results()
    break_(measured["tasks"]["sample-stance"])
    with pytest.raises(ValueError, match=words):
        write_card(run_folder(tmp_path, measured))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan")])
def test_numbers_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"sample, overall: got .*, wanted a finite number"):
        finite(value, "sample, overall")


@pytest.mark.parametrize(
    ("base", "data", "licence"),
    [
        ("apache-2.0", ["cc-by-4.0"], "apache-2.0"),
        ("mit", ["cc-by-4.0", "cc0-1.0"], "mit"),
        ("mit", ["cc-by-sa-4.0"], "cc-by-sa-4.0"),
        ("cc-by-nc-4.0", ["cc-by-4.0"], "cc-by-nc-4.0"),
        ("cc-by-nc-4.0", ["cc-by-sa-4.0"], "other"),
        (None, ["cc-by-4.0"], "unknown"),
        ("mit", ["unknown"], "unknown"),
    ],
)
def test_the_strictest_link_sets_the_licence(tmp_path: Path, base: str | None, data: list[str], licence: str) -> None:
    rows = [{**DATA, "licence": one} for one in data]
    assert release_licence(manifest(base_licence=base, data=rows)) == licence
    head, body = card_of(run_folder(tmp_path, base_licence=base, data=rows))
    assert head["license"] == licence
    assert ("license_name" in head) == (licence == "other")
    assert ["this adapter", licence] in [row for table in tables(body) for row in table]


def test_no_copyleft_counts_as_permissive() -> None:
    assert not [
        name for name in PERMISSIVE if "sa" in name.split("-") or "nc" in name or "nd" in name or "gpl" in name
    ]


# -------------------------------------------------------------------------------------------------------------- body


def test_without_results_the_card_says_so(tmp_path: Path) -> None:
    head, body = card_of(run_folder(tmp_path))
    assert "Not measured yet." in body and "model-index" not in head
    assert Manifest.read(tmp_path).results_sha256 is None


def test_the_results_table(tmp_path: Path) -> None:
    _, body = card_of(run_folder(tmp_path, results()))
    (table,) = [t for t in tables(body) if t[0][0].startswith("slice")]
    assert table == [
        ["slice", "", "NDCG@10", "P@R", "hard", "semi-hard", "easy"],
        ["overall: 70 queries, 240 documents", "base: org/base", "", "0.375", "", "", ""],
        ["", "this adapter", "0.550", "0.500", "0.100", "0.375", "0.025"],
        ["", "difference", "", "+0.125 [+0.062, +0.188]", "", "", ""],
        ["", "claim only, no instruction", "0.487", "0.438", "0.100", "0.438", "0.025"],
        ["", "ceiling: topic by the base, stance perfect", "", "0.688", "", "", ""],
        ["style=explicit: 70 queries, 130 documents", "this adapter", "0.675", "0.625", "0.100", "0.250", "0.025"],
        ["", "ceiling: topic by the base, stance perfect", "", "0.688", "", "", ""],
        ["style=natural: 70 queries, 110 documents", "this adapter", "0.425", "0.375", "0.100", "0.500", "0.025"],
        ["", "ceiling: topic by the base, stance perfect", "", "0.688", "", "", ""],
    ]
    assert "95% intervals, 2,000 resamples of whole claims (14 of them), seed 0" in body
    assert "14 claims (split test) of sample-stance-arguments" in body


def test_figures_in_the_run_folder_are_shown_and_others_are_not(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", results())
    for place in (folder / "evaluation", tmp_path / "elsewhere"):
        (place / "figures").mkdir(parents=True)
        (place / "figures" / "sample-stance-composition.png").touch()
        (place / "figures" / "a-top5.png").touch()
    assert [f.name for f in figures(folder)] == ["sample-stance-composition.png", "a-top5.png"]
    _, body = card_of(folder)
    shown = re.findall(r"!\[.*?\]\((.*?)\)", body)
    assert shown == ["evaluation/figures/sample-stance-composition.png", "evaluation/figures/a-top5.png"]
    other = tmp_path / "elsewhere" / "results.json"
    other.write_text(json.dumps(results()))
    assert "![" not in write_card(folder, other).read_text()


def test_the_manifest_says_where_the_numbers_come_from(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, results())
    write_card(folder)
    digest = hashlib.sha256((folder / "evaluation" / "results.json").read_bytes()).hexdigest()
    assert Manifest.read(folder).results_sha256 == digest


def test_results_that_are_gone_are_gone_from_the_card_and_the_manifest(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, results())
    write_card(folder)
    (folder / "evaluation" / "results.json").unlink()
    head, body = card_of(folder)
    assert "model-index" not in head and "Not measured yet." in body
    assert Manifest.read(folder).results_sha256 is None


def test_results_of_another_adapter_are_refused(tmp_path: Path) -> None:
    measured = results()
    measured["model"]["adapter_sha256"] = "f" * 64
    folder = run_folder(tmp_path, measured)
    with pytest.raises(ValueError, match=r"got results of adapter f{64}, wanted c{64} \(stance-minilm-lora\)"):
        write_card(folder)
    assert not (folder / "README.md").exists()


def test_a_results_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no results file"):
        write_card(run_folder(tmp_path), tmp_path / "nothing.json")


def test_a_folder_without_recipe_is_an_error(tmp_path: Path) -> None:
    (run_folder(tmp_path) / "recipe.yaml").unlink()
    with pytest.raises(FileNotFoundError, match="a run folder holds the resolved recipe"):
        write_card(tmp_path)


def test_prompts_are_shown_to_the_last_space(tmp_path: Path) -> None:
    _, body = card_of(run_folder(tmp_path))
    (table,) = [t for t in tables(body) if t[0] == ["prompt_name", "prompt"]]
    assert {name: ast.literal_eval(shown) for name, shown in table[1:]} == manifest().prompts


def test_the_recipe_is_told_without_its_paths(tmp_path: Path) -> None:
    _, body = card_of(run_folder(tmp_path))
    settings = dict(next(t for t in tables(body) if t[0] == ["setting", "value"])[1:])
    assert settings["lora.r"] == "64"
    assert settings["lora.target_modules"] == load_recipe("stance-minilm").lora.target_modules
    assert (
        settings["negatives per anchor in a step"] == str(15 + 16) == str(plan(load_recipe("stance-minilm")).negatives)
    )
    assert "my.jsonl" not in body


@pytest.mark.parametrize(("status", "words"), [("failed", "Do not use this run"), ("local", "Local run")])
def test_a_run_that_is_not_done_says_so_and_names_no_path(tmp_path: Path, status: str, words: str) -> None:
    base = str(tmp_path / "base")
    failure = f"{base} cannot be loaded" if status == "failed" else None
    head, body = card_of(run_folder(tmp_path / "run", status=status, failure=failure, base=base))
    assert words in body and "base_model" not in head
    assert str(tmp_path) not in body


# --------------------------------------------------------------------------------------------- texts and machine paths


def case_texts() -> list[str]:
    files = [CASES / "case26_hostile_texts.jsonl", CASES / "case30_card_rows.jsonl"]
    rows = [json.loads(line) for file in files for line in file.read_text().split("\n") if line]
    return [row["text"] for row in rows] + [r"a\|b", "`` ` ``", "$x$", "&lt;", "a\r\nb", "x\u2028y"]


@pytest.mark.parametrize("text", case_texts())
def test_a_text_stays_in_its_cell_and_reads_as_it_was(text: str) -> None:
    (table,) = tables(f"| a | b |\n|---|---|\n| {cell(text)} | end |\n")
    assert table[1:] == [[re.sub(r"\r\n|\u2028", "\n", text), "end"]]
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(f"| a |\n|---|\n| {cell(text)} |\n")
    allowed = r"</?(table|thead|tbody|tr|th|td|br)>"
    assert re.findall(r"<[^>]*>", re.sub(allowed, "", rendered)) == []


@pytest.mark.parametrize("text", case_texts())
def test_texts_break_neither_tables_nor_snippets_of_a_card(tmp_path: Path, text: str) -> None:
    data = {**DATA, "name": f"n{text}", "source": f"s{text}", "licence": f"l{text}"}
    prompts = {**manifest().prompts, "attack": text}
    _, body = card_of(run_folder(tmp_path, data=[data], prompts=prompts, versions={"python": text}))
    plain = re.sub(r"\r\n|\u2028", "\n", text)
    shown = [row for table in tables(body) for row in table]
    assert [f"n{plain}", "mixed_aug", "4800", f"s{plain}", f"l{plain}", "b" * 16 + "…"] in shown
    assert ["python", plain] in shown
    assert ast.literal_eval(next(row[1] for row in shown if row[0] == "attack")) == text
    assert len(snippets(body)) == 3
    assert "<script" not in body and "<img" not in body


def test_a_card_with_a_path_of_this_machine_is_refused(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", versions={"python": str(tmp_path / "run")})
    with pytest.raises(ValueError, match="of this machine; give a Hub id or a name"):
        write_card(folder)
    (folder / "README.md").write_text("---\nthumbnail: ~/me.png\n---\n")
    with pytest.raises(ValueError, match=r"~/me\.png"):
        write_card(run_folder(folder))


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("/srv/ckpt/base", "base"),
        ("~/base/", "base"),
        (r"C:\ckpt\base", "base"),
        ("./my.jsonl", "my.jsonl"),
        ("org/x", "org/x"),
    ],
)
def test_of_a_path_only_the_last_part_is_public(name: str, public: str) -> None:
    assert public_name(name) == public


def test_a_measured_path_is_not_published(tmp_path: Path) -> None:
    measured = results()
    task = measured["tasks"]["sample-stance"]
    task["dataset"] = "/srv/data/mine"
    task["runs"][0]["compare"][0]["baseline"] = "/srv/runs/other"
    head, body = card_of(run_folder(tmp_path, measured))
    assert "/srv" not in body and "/srv" not in json.dumps(head)
    assert "| base: other |" in body


# ------------------------------------------------------------------------------------------------ hand-written parts


def test_a_second_run_changes_no_byte(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, results())
    files = ("README.md", "slant.json")
    write_card(folder)
    first = [(folder / name).read_bytes() for name in files]
    write_card(folder)
    assert [(folder / name).read_bytes() for name in files] == first


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_card_written_by_hand_keeps_its_head_and_its_words(tmp_path: Path, line_end: str) -> None:
    folder = run_folder(tmp_path, results())
    by_hand = (CASES / "case03_card.md").read_text().replace("\n", line_end)
    (folder / "README.md").write_bytes(by_hand.encode())
    write_card(folder)
    first = (folder / "README.md").read_bytes().decode()
    head = yaml.safe_load(first.split("---")[1])
    assert head["license"] == "cc-by-4.0"
    assert [c["config_name"] for c in head["configs"]] == ["corpus", "queries", "qrels"]
    assert head["base_model_relation"] == "adapter" and "model-index" in head
    assert by_hand.split(f"---{line_end}")[2].strip() in first
    write_card(folder)
    assert (folder / "README.md").read_bytes().decode() == first


def test_words_before_and_after_the_generated_part_stay(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    path = write_card(folder)
    text = (
        path.read_text().replace("\n<!-- slant: generated from", "\nBefore.\n\n<!-- slant: generated from")
        + "\nAfter.\n"
    )
    path.write_text(text)
    run_folder(folder, results())
    write_card(folder)
    renewed = path.read_text()
    assert renewed.index("Before.") < renewed.index("### sample-stance") < renewed.index("After.")
    assert "Not measured yet" not in renewed
    assert renewed.count("# stance&#45;minilm") <= 1


def test_a_lost_marker_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    path = write_card(run_folder(tmp_path))
    broken = path.read_text().replace("<!-- slant: generated up to here -->", "")
    path.write_text(broken)
    with pytest.raises(ValueError, match="restore or remove both"):
        write_card(tmp_path)
    assert path.read_text() == broken


def test_a_head_behind_a_byte_order_mark_is_a_head(tmp_path: Path) -> None:
    head = "\ufeff---\r\nlicense: cc-by-4.0\r\nmine: 1\r\n---\r\nBy hand.\r\n"
    (run_folder(tmp_path) / "README.md").write_bytes(head.encode())
    text = write_card(tmp_path).read_bytes().decode()
    kept = yaml.safe_load(text.split("---")[1])
    assert (kept["license"], kept["mine"]) == ("cc-by-4.0", 1) and text.count("license: cc-by-4.0") == 1
    assert "By hand." in text


def test_a_head_that_is_no_yaml_is_an_error(tmp_path: Path) -> None:
    (run_folder(tmp_path) / "README.md").write_text("---\n: [\n---\n")
    with pytest.raises(ValueError, match="the part between the --- lines is no YAML"):
        write_card(tmp_path)


@pytest.mark.parametrize("line", ["tags: 5", "tags: [1]", "eval_results: 4"])
def test_a_head_that_is_none_of_a_card_is_an_error(tmp_path: Path, line: str) -> None:
    (run_folder(tmp_path) / "README.md").write_text(f"---\n{line}\n---\n")
    with pytest.raises(ValueError, match=r"README\.md: .*repair or remove the head"):
        write_card(tmp_path)


def test_an_adapter_that_was_exchanged_gets_no_card(tmp_path: Path) -> None:
    (run_folder(tmp_path) / "adapter_model.safetensors").write_bytes(b"another")
    with pytest.raises(ValueError, match=f"got SHA-256 .*, wanted {'c' * 64} as slant.json says"):
        write_card(tmp_path)


# --------------------------------------------------------------------------------------------------------- snippets


@pytest.mark.parametrize(("repo_id", "shown"), [(None, '"."'), ("org/stance-minilm-lora", '"org/stance-minilm-lora"')])
def test_snippets_carry_the_real_id(tmp_path: Path, repo_id: str | None, shown: str) -> None:
    _, body = card_of(run_folder(tmp_path, repo_id=repo_id))
    found = snippets(body)
    assert len(found) == 3
    assert all(f"({shown}" in code for code in found)
    for code in found:
        ast.parse(code)


def test_the_printed_command_is_one_that_a_shell_reads(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    command, *lines, end = search_snippet(folder).split("\n")
    assert (len(lines), end) == (5, "PY")
    ast.parse("\n".join(lines))
    assert ast.literal_eval(re.search(r"StanceSearch\((.*), texts\)", lines[2])[1]) == str(folder)  # type: ignore[index]
    words = shlex.split(command.replace("<<'PY'", ""))
    assert words[0].startswith("HF_HOME=/") and words[1] == "HF_HUB_OFFLINE=1"
    subprocess.run([words[2], "--version"], check=True, capture_output=True)


# -------------------------------------------------------------------------------------------------- what tuning costs


def cost(body: str) -> list[list[str]]:
    (table,) = [t for t in tables(body) if t[0] == ["", "base", "this adapter", "difference"]]
    return table[1:]


def test_what_tuning_costs_stands_on_the_card(tmp_path: Path) -> None:
    measured = results()
    task = measured["tasks"]["sample-stance"]
    dense = task["runs"][0]
    for values in dense["slices"].values():
        values["topic_precision_at_r"] = metric(0.75)
    dense["compare"].append(
        {**dense["compare"][0], "metric": "topic_precision_at_r", "delta": -0.125, "low": -0.25, "high": 0}
    )
    run = {**dense, "slices": {"overall": {"ndcg_at_10": metric(0.5)}}}
    run["compare"] = [
        {**dense["compare"][0], "metric": "ndcg_at_10", "delta": -0.0625, "low": -0.09375, "high": -0.03125}
    ]
    measured["tasks"]["nanobeir"] = {**task, "dataset": "nanobeir", "counts": {"datasets": 13}, "runs": [run]}
    head, body = card_of(run_folder(tmp_path, measured))
    assert cost(body) == [
        ["sample-stance, overall: topic precision at R", "0.875", "0.750", "-0.125 [-0.250, +0.000]"],
        ["sample-stance, style=explicit: topic precision at R", "n/a: not compared", "0.750", ""],
        ["sample-stance, style=natural: topic precision at R", "n/a: not compared", "0.750", ""],
        ["NanoBEIR: NDCG@10", "0.562", "0.500", "-0.062 [-0.094, -0.031]"],
    ]
    assert {r["dataset"]["name"].split()[0] for r in head["model-index"][0]["results"]} == {"sample-stance"}


def test_without_numbers_the_card_says_why(tmp_path: Path) -> None:
    measured = results()
    _, body = card_of(run_folder(tmp_path / "a", measured))
    assert ["NanoBEIR: NDCG@10", "n/a", "n/a: not measured; `evaluate.py --tasks nanobeir` does", ""] in cost(body)
    assert ["sample-stance, overall: topic precision at R", "n/a", "n/a: not computed", ""] in cost(body)
    task = measured["tasks"]["sample-stance"]
    null = {"mean": None, "std": None, "n": 0, "reason": "NanoX cannot be had: no <network>"}
    run = {**task["runs"][0], "slices": {"overall": {"ndcg_at_10": null}}, "compare": []}
    measured["tasks"]["nanobeir"] = {**task, "dataset": "nanobeir", "counts": {"datasets": 13}, "runs": [run]}
    _, body = card_of(run_folder(tmp_path / "b", measured))
    assert ["NanoBEIR: NDCG@10", "n/a", "n/a: NanoX cannot be had: no <network>", ""] in cost(body)
