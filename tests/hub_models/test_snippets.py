"""What a card and the quickstart tell a reader to type is typed here, in fresh processes, offline."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from run_folders import manifest, run_folder
from typer.testing import CliRunner

from dataset_builders.__main__ import app as builders
from hub_models.__main__ import app
from hub_models.cards import write_card
from hub_models.hub_cache import install_snapshot

HUB_ID = "org/stance-minilm-lora"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained adapter on the real base, saved as training saves one, with its card."""
    from hub_models.adapter import attach_lora
    from hub_models.base import load_base
    from hub_models.recipe import load_recipe

    recipe = load_recipe("stance-minilm", ["lora.r=2"])
    model = load_base(recipe, device="cpu")
    attach_lora(model, recipe)
    folder = tmp_path_factory.mktemp("runs") / "an adapter's folder"
    model.save_pretrained(str(folder), create_model_card=False)
    weights = (folder / "adapter_model.safetensors").read_bytes()
    manifest(
        adapter_sha256=hashlib.sha256(weights).hexdigest(),
        query_template=recipe.query_template,
        prompts={name: text for name, text in model.prompts.items()},
    ).write(folder)
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    write_card(folder)
    return folder


def typed(card: Path, cwd: Path) -> list[str]:
    """Each Python snippet of ``card`` run as a script of its own; what each printed."""
    fences = [t for t in MarkdownIt().parse(card.read_text()) if t.type == "fence" and t.info == "python"]
    code = "\n".join(
        ["snippets = " + repr([t.content for t in fences]), "for s in snippets:", "    exec(s, {})", "    print('--')"]
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("--\n")[:-1]


def assert_told(printed: list[str]) -> None:
    similarities, shape, hits = printed
    assert len(re.findall(r"-?0\.\d+", similarities)) == 2
    assert shape == "(384,)\n"
    assert {line.split("  ")[1] for line in hits.splitlines()} == {
        "Deliveries and ambulances need the streets.",
        "Without cars the air gets cleaner at once.",
    }


@pytest.mark.slow  # what `card` prints is run below
def test_without_a_hub_id_the_snippets_run_inside_the_folder(adapter: Path) -> None:
    assert_told(typed(adapter / "README.md", cwd=adapter))


@pytest.mark.slow  # the rehearsal runs those of released cards
def test_with_a_hub_id_the_snippets_run_anywhere(adapter: Path, tmp_path: Path) -> None:
    run_folder(tmp_path, repo_id=HUB_ID)
    install_snapshot(HUB_ID, "1" * 40, adapter)
    assert_told(typed(write_card(tmp_path), cwd=tmp_path))


def test_the_command_prints_where_all_is_and_a_search_that_runs_as_printed(adapter: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["card", str(adapter)])
    assert done.exit_code == 0, done.output
    assert re.search(rf"^adapter +{re.escape(str(adapter))}$", done.output, re.MULTILINE)
    assert re.search(rf"^card +{re.escape(str(adapter / 'README.md'))}$", done.output, re.MULTILINE)
    snippet = done.output[re.search(r"^HF_", done.output, re.MULTILINE).start() :]  # type: ignore[union-attr]
    fresh = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    found = subprocess.run(["sh", "-c", snippet], cwd=tmp_path, env=fresh, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert len(re.findall(r"^\d\.\d{3}  \w", found.stdout, re.MULTILINE)) == 2


def test_the_readme_runs_as_printed(adapter: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "quickstart").symlink_to(adapter)
    built = CliRunner().invoke(
        builders, ["build", "sample-stance-triplets", "--out", str(tmp_path / "data" / "sample-stance-triplets")]
    )
    assert built.exit_code == 0, built.output
    similarities, triplet, hits, precision = typed(ROOT / "README.md", cwd=tmp_path)
    assert len(re.findall(r"-?0\.\d+", similarities)) == 2
    assert triplet.rstrip().endswith(("hard", "semi_hard", "easy", "inverted"))
    assert len(re.findall(r"^\d\.\d{3}  \w", hits, re.MULTILINE)) == 2
    assert 0 < float(precision) < 1


def test_the_readme_names_the_cache_of_the_quickstart() -> None:
    """Plain sentence-transformers looks nowhere else for the base, and a shell does not have what make exports."""
    exported = re.search(r"^export HF_HOME +:= \$\(CURDIR\)/(\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert exported is not None
    assert f"export HF_HOME=$PWD/{exported[1]}`" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_command_explains_what_is_wrong(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["card", str(tmp_path)])
    assert done.exit_code == 1
    assert "no run folder of" in done.output
