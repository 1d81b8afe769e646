"""A token is read from the environment or the login, and is written nowhere (case 9)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import typer

from dataset_builders.__main__ import app as builders
from hub_models.__main__ import app as models
from tests.hub.accounts import TOKENS
from tests.hub.clients import TestHub
from tests.hub.faults import Status
from tests.hub_models.releaser import NAME, make_run, put_base

ROOT = Path(__file__).resolve().parents[2]

# At debug level, which no option gives: whatever the libraries would log, and a failure's whole traceback.
PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from huggingface_hub.utils import logging as hub_logging
hub_logging.set_verbosity_debug()
from dataset_builders.__main__ import app as builders
from hub_models.__main__ import app as models
from hub_models import publish
publish.gate = publish._verify = lambda *asked: None
run = sys.argv[1]
for app, argv in [
    (models, ["release", run, "--org", "org"]),
    (models, ["release", run, "--org", "org"]),
    (models, ["verify", "org/nothing"]),
    (builders, ["publish", "sample-stance-inversions", "--org", "org"]),
]:
    try:
        app(argv)
    except SystemExit as end:
        print("ended with", end.code)
"""


def test_no_token_in_logs_errors_and_what_is_published(loopback_hub: TestHub, tmp_path: Path) -> None:
    put_base(loopback_hub, tmp_path / "base")
    run = make_run(tmp_path / "run")
    loopback_hub.faults.add("POST", "/api/models/.*/commit/", Status(403))
    loopback_hub.faults.add("POST", "/api/datasets/.*/commit/", Status(403))
    home = tmp_path / "home"
    done = loopback_hub.run(["python", "-c", PROGRAM, str(run)], home=home, env={"HF_DEBUG": "1"})
    said = done.stdout + done.stderr
    assert done.stdout.count("ended with 1") == 3 and done.stdout.count("ended with 0") == 1, said
    assert "DEBUG" in said and f"may not publish org/{NAME}" in said
    assert not loopback_hub.faults.unused
    assert TOKENS.write not in said
    published = loopback_hub.files("model", f"org/{NAME}")
    shutil.rmtree(home / "xet", ignore_errors=True)  # the clients' own
    written = {p: p.read_bytes() for p in [*run.rglob("*"), *home.rglob("*")] if p.is_file()}
    for name, content in {**published, **written}.items():
        assert TOKENS.write.encode() not in content, name


def test_no_command_takes_a_token() -> None:
    def check(command: Any) -> int:
        assert not [p.name for p in command.params if "token" in p.name], command.name
        return 1 + sum(map(check, getattr(command, "commands", {}).values()))

    assert sum(check(typer.main.get_command(app)) for app in (builders, models)) > 20
    for script in ("train.py", "evaluate.py"):
        assert "--token" not in (ROOT / script).read_text()
