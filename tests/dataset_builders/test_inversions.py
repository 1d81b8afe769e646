from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from builders import stance_data
from typer.testing import CliRunner, Result

from dataset_builders import generate, json_reply, sources
from dataset_builders.__main__ import app
from dataset_builders.generate import GenerationError, LanguageModel, Reply
from dataset_builders.instructions import STANCES, Stance
from dataset_builders.schema import INVERSIONS
from dataset_builders.stance import inversions
from dataset_builders.stance.data import StanceData
from dataset_builders.stance.inversion_checks import CHECKS, failures
from dataset_builders.stance.inversions import PROMPT, PROMPT_SHA256
from tests.endpoint import Endpoint, Fault, endpoint, refusing_url, too_many, truncated

SAMPLE = sources.load("sample").restrict({"train"})
EXPLICIT = {i.original: i.inverted for i in SAMPLE.inversions if i.style == "explicit"}
Flip = Callable[[str], str]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "_backoff", lambda state: 0.0)


def sides(n: int) -> dict[str, dict[Stance, list[str]]]:
    """The explicit arguments of n claims of the sample, two on either side."""
    of: dict[str, dict[Stance, list[str]]] = {}
    for i in SAMPLE.inversions:
        if i.style == "explicit":
            of.setdefault(i.claim, {s: [] for s in STANCES})[i.original_stance].append(i.original)
    return dict(list(of.items())[:n])


def data_of(n: int) -> StanceData:
    return stance_data(sides(n))


def claims_file(folder: Path, n: int) -> Path:
    path = folder / "claims.jsonl"
    rows = [{"claim": claim, **of, "split": "train", "licence": "cc0-1.0"} for claim, of in sides(n).items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def task_of(body: dict[str, Any]) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(body["messages"][-1]["content"])
    return task


def flipped(body: dict[str, Any], flip: Flip = EXPLICIT.__getitem__) -> str:
    task = task_of(body)
    return json.dumps({f"{stance}_flipped": [flip(text) for text in task[stance]] for stance in STANCES})


def model_at(server: Endpoint, **more: Any) -> LanguageModel:
    return LanguageModel("tiny", base_url=server.base_url, **more)


def test_one_request_a_claim_with_both_sides() -> None:
    data = data_of(3)
    with endpoint(flipped) as server:
        inverted, report = inversions.generate(data, model_at(server, price=(1.0, 1.0)))
    assert sorted(task_of(b)["claim"] for b in server.bodies) == sorted(c.claim for c in data.claims)
    body = next(b for b in server.bodies if task_of(b)["claim"] == data.claims[0].claim)
    assert body["messages"][0] == {"role": "system", "content": PROMPT}
    assert task_of(body) == {"claim": data.claims[0].claim, **sides(1)[data.claims[0].claim]}
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["support_flipped", "attack_flipped"]
    assert schema["properties"]["attack_flipped"] == {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 2,
        "maxItems": 2,
    }
    assert {i.original: i.inverted for i in inverted.inversions} == {a.text: EXPLICIT[a.text] for a in data.arguments}
    first = inverted.inversions[0]
    assert (first.generator, first.prompt_sha256) == ("tiny", PROMPT_SHA256)
    assert first.checks == ("json", "items", *CHECKS)
    assert (report.wanted, report.accepted, report.accepted_second, report.unanswered) == (12, 12, 0, 0)
    assert report.failed_first == {} and report.dropped == {"total": 0}
    assert report.counters["calls"] == 3 and report.counters["cost"] > 0
    assert "12 of 12 arguments inverted by tiny, 0 of them at the second try" in report.lines()[0]
    assert "3 calls (0 from the cache, 0 retries, 0 failed)" in report.cost()


def test_the_example_of_the_prompt_stands_its_own_checks() -> None:
    question, answer = (json.loads(line) for line in PROMPT.split("Example:\n")[1].split("\nAnswer:\n"))
    for stance in STANCES:
        assert len(question[stance]) == len(answer[f"{stance}_flipped"]) == 1
        assert not failures(question["claim"], question[stance][0], answer[f"{stance}_flipped"][0])


def test_what_fails_is_asked_once_more_by_name_and_then_dropped() -> None:
    data = data_of(2)
    mended, hopeless = data.arguments[0].text, data.arguments[5].text

    def answer(body: dict[str, Any]) -> str:
        again = "refused" in task_of(body)
        return flipped(body, lambda t: t if t == hopeless or (t == mended and not again) else EXPLICIT[t])

    with endpoint(answer) as server:
        inverted, report = inversions.generate(data, model_at(server))
    second = [body for body in server.bodies if "refused" in task_of(body)]
    asked = {text for body in second for stance in STANCES for text in task_of(body)[stance]}
    assert asked == {mended, hopeless} and len(server.bodies) == 4
    note = next(task_of(b) for b in second if mended in task_of(b)["support"])["refused"]
    assert note["attack"] == [] and note["support"][0]["written"] == mended
    assert any("says what the original says" in wrong for wrong in note["support"][0]["wrong"])
    assert any("stance is not reversed" in wrong for wrong in note["support"][0]["wrong"])
    assert all("earlier try" in body["messages"][0]["content"] for body in second)
    assert hopeless not in {i.original for i in inverted.inversions} and len(inverted.inversions) == 7
    assert (report.accepted, report.accepted_second) == (7, 1)
    assert report.failed_first == {"changed": 2, "flipped": 2}
    assert report.dropped == {"changed": 1, "flipped": 1, "total": 1}


@pytest.mark.parametrize(
    ("spoil", "check", "said"),
    [
        (lambda text: text[:-9], "json", "the answer was no JSON"),
        (truncated, "json", "the answer was cut off"),
        (lambda text: f"[{text}]", "json", "no JSON object"),
        (lambda text: "...", "json", "no JSON"),
        (lambda text: "[" * 100_000, "json", "no JSON"),
        (lambda text: text.replace("support_flipped", "support"), "items", "support_flipped must hold 2 texts"),
        (lambda text: json.dumps(json.loads(text) | {"support_flipped": ["one"]}), "items", "and held 1"),
        (lambda text: json.dumps(json.loads(text) | {"support_flipped": "one"}), "items", "and held 0"),
        (lambda text: json.dumps(json.loads(text) | {"support_flipped": [None, 3]}), "text", "wanted a text"),
    ],
)
def test_a_spoilt_answer_is_asked_once_more(spoil: Callable[[str], str | Fault], check: str, said: str) -> None:
    def answer(body: dict[str, Any]) -> str | Fault:
        return flipped(body) if "refused" in task_of(body) else spoil(flipped(body))

    with endpoint(answer) as server:
        inverted, report = inversions.generate(data_of(1), model_at(server))
    assert len(inverted.inversions) == 4 and len(server.bodies) == 2
    assert report.failed_first == {check: 4 if check == "json" else 2}
    task = task_of(server.bodies[1])
    assert said in task["refused"]["support"][0]["wrong"][0]
    assert len(task["attack"]) == (2 if check == "json" else 0)
    room = [body["max_tokens"] for body in server.bodies]
    assert room[1] == 2 * room[0] if check == "json" else room[1] < room[0]


@pytest.mark.parametrize(
    "wrap", ["```json\n{}\n```", "```\n{}\n```\n", "<think>\n{{not yet\n</think>\n\n{}", "  {}\n"]
)
def test_thoughts_and_fences_are_taken_away(wrap: str) -> None:
    with endpoint(lambda body: wrap.format(flipped(body))) as server:
        _, report = inversions.generate(data_of(1), model_at(server))
    assert report.accepted == 4 and report.failed_first == {}


@pytest.mark.parametrize("broken", ["no \ud83d text", "no \x00 text", "\ud800", " "])
@pytest.mark.parametrize("mended", [True, False])
def test_one_broken_text_costs_at_most_its_own_argument(broken: str, mended: bool, tmp_path: Path) -> None:
    """The answer is good JSON, in which a string stands that no later step can hold."""
    data = data_of(2)
    spoilt = data.arguments[2].text

    def answer(body: dict[str, Any]) -> str:
        hold = mended and "refused" in task_of(body)
        return flipped(body, lambda t: broken if t == spoilt and not hold else EXPLICIT[t])

    with endpoint(answer) as server:
        for _ in range(2):  # and what lies in the cache spoils no rerun
            inverted, report = inversions.generate(data, model_at(server, cache=tmp_path / "c"))
            assert {i.original for i in inverted.inversions} == {a.text for a in data.arguments} - (
                set() if mended else {spoilt}
            )
            assert report.failed_first == {"text": 1}
            assert report.dropped == ({"total": 0} if mended else {"text": 1, "total": 1})
    (again,) = (task_of(body)["refused"] for body in server.bodies if "refused" in task_of(body))
    assert [note["written"] for stance in STANCES for note in again[stance]] == [""]


@pytest.mark.parametrize("around", ["{}\n", "\n{}", "{} \n", "```\n{}", "\n```{}"])
@pytest.mark.parametrize("closed", [True, False])
def test_a_fence_around_any_amount_of_white_space_is_read_at_once(around: str, closed: bool) -> None:
    """A pattern that backtracks over the white space needs hours for this."""
    text = "```json\n" + around.format("\n" * 200_000) + '{"a": 1}' + "\n" * 200_000 + ("```" if closed else "")
    reply = Reply(text, 0, 0, "stop", cached=False, seconds=0)
    found = json_reply.parse(reply, "a")
    assert found == {"a": 1} if closed and "`" not in around else isinstance(found, str)


def test_faults_that_pass_cost_no_argument() -> None:
    faults = iter([too_many(), Fault(status=500), Fault(late=True), Fault(cut=True)])
    with endpoint(lambda body: next(faults, None) or flipped(body)) as server:
        _, report = inversions.generate(data_of(2), model_at(server, timeout=0.3, concurrency=1))
    assert report.accepted == 8 and report.counters["retries"] == 4


def test_an_argument_of_both_stances_is_left_out() -> None:
    data = data_of(1)
    both = replace(data.relations[0], stance="attack")
    with endpoint(flipped) as server:
        _, report = inversions.generate(replace(data, relations=[*data.relations, both]), model_at(server))
    assert report.wanted == 3


def test_a_claim_of_many_arguments_is_asked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inversions, "MAX_ITEMS", 3)
    with endpoint(flipped) as server:
        _, report = inversions.generate(data_of(2), model_at(server))
    assert report.accepted == 8
    assert sorted(sum(len(task_of(b)[s]) for s in STANCES) for b in server.bodies) == [1, 1, 3, 3]


def test_overlap_is_that_of_the_paper() -> None:
    data = stance_data({"Rain is good.": {"support": ["Rain helps roses."], "attack": ["Rain harms cats."]}})
    flips = {"Rain helps roses.": "Rain harms roses.", "Rain harms cats.": "Rain helps cats."}
    with endpoint(lambda body: flipped(body, flips.__getitem__)) as server:
        _, report = inversions.generate(data, model_at(server))
    # Two of four words in common for the inversions; for the one natural pair one of five.
    assert report.overlap == {
        "inversions": {"jaccard": 0.5, "jaccard_lemma": 0.5},
        "natural pairs": {"jaccard": pytest.approx(0.2), "jaccard_lemma": pytest.approx(0.2)},
    }
    assert report.although_share == report.merely_negated_share == 0.0


def test_shares_of_lazy_answers() -> None:
    data = stance_data({"Rain is good.": {"support": ["It helps the old roses."], "attack": ["It harms young cats."]}})
    flips = {
        "It helps the old roses.": "It never helps the old roses.",
        "It harms young cats.": "Although it harms young cats.",
    }
    with endpoint(lambda body: flipped(body, flips.__getitem__)) as server:
        _, report = inversions.generate(data, model_at(server))
    assert (report.merely_negated_share, report.although_share) == (0.5, 1.0)
    assert report.dropped == {"negation": 1, "total": 1}


def test_an_answer_that_never_comes_is_counted_and_asked_for_the_next_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = data_of(3)
    refused = data.claims[1].claim

    def answer(body: dict[str, Any]) -> str | Fault:
        return Fault(status=400, text="content filter") if task_of(body)["claim"] == refused else flipped(body)

    with endpoint(answer) as server:
        _, report = inversions.generate(data, model_at(server, cache=tmp_path / "c"))
        assert (report.accepted, report.unanswered) == (8, 4)
        assert "1 of 3 requests got no answer, such as" in caplog.text and "content filter" in caplog.text
        server.bodies.clear()
        server.answer = flipped
        _, report = inversions.generate(data, model_at(server, cache=tmp_path / "c"))
    assert [task_of(b)["claim"] for b in server.bodies] == [refused]
    assert (report.accepted, report.unanswered) == (12, 0)


def test_nothing_to_invert_and_nothing_that_stands() -> None:
    with endpoint(lambda body: flipped(body, lambda t: t)) as server:
        with pytest.raises(
            ValueError, match=r"no inversion stood the checks: 0 of 4.*dropped for: changed 4, flipped 4"
        ):
            inversions.generate(data_of(1), model_at(server))
        empty = replace(data_of(1), relations=[])
        with pytest.raises(ValueError, match="there is no argument to invert"):
            inversions.generate(empty, model_at(server))
    with pytest.raises(GenerationError, match="cannot connect"):
        inversions.generate(data_of(2), LanguageModel("tiny", base_url=refusing_url()))


def paid(output: str) -> str:
    """The tokens and dollars that a command's last figures say."""
    return re.findall(r"[\d,]+ \+ [\d,]+ tokens, \$[\d.]+", output)[-1]


def build(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["build", *map(str, arguments)])


def test_from_claims_to_mixed_aug(tmp_path: Path) -> None:
    claims, home = claims_file(tmp_path, 12), tmp_path / "data"
    arguments, inverted, triplets = (home / f"mine-stance-{k}" for k in ("arguments", "inversions", "triplets"))
    assert build("mine-stance-arguments", "--out", arguments, "--source", claims).exit_code == 0
    with endpoint(flipped) as server:
        ask = ["--generate", "tiny", "--base-url", server.base_url, "--price", "1", "2"]
        result = build("mine-stance-inversions", "--out", inverted, "--source", arguments, *ask)
        assert result.exit_code == 0, result.output
        assert "48 of 48 arguments inverted by tiny" in result.output
        assert "word Jaccard of inversions: 0." in result.output and "(S: 0.587, 0.590)" in result.output
        assert "12 calls (0 from the cache" in result.output and "tokens, $0." in result.output
        readme = (inverted / "README.md").read_text()
        assert "48 of 48 arguments inverted by tiny" in readme
        before = {f: f.read_bytes() for f in inverted.rglob("*") if f.is_file()}
        again = build("mine-stance-inversions", "--out", inverted, "--source", arguments, *ask)
        assert "up to date" in again.output and "0 calls (12 from the cache" in again.output
        assert before == {f: f.read_bytes() for f in inverted.rglob("*") if f.is_file()}
        assert len(server.bodies) == 12
    report = json.loads((home / "mine-stance-inversions.report.json").read_text())
    assert report["accepted"] == 48 and report["counters"]["cached"] == 12
    assert "; with the answers of earlier runs " in again.output and paid(result.output) == paid(again.output)
    assert report["counters"]["cached_cost"] > 0 == report["counters"]["cost"]
    (shard,) = inverted.glob("inversions/train-*.parquet")
    rows = pq.read_table(shard).to_pylist()
    assert list(rows[0]) == list(INVERSIONS) and len(rows) == 48
    assert rows[0]["checks"] == ["json", "items", *CHECKS] and rows[0]["prompt_sha256"] == PROMPT_SHA256
    assert 0 < rows[0]["jaccard"] < 1 and 0 < rows[0]["jaccard_lemma"] < 1
    result = build("mine-stance-triplets", "--out", triplets, "--source", arguments)
    assert result.exit_code == 0, result.output
    (shard,) = triplets.glob("mixed_aug/train-*.parquet")
    negatives = [n for row in pq.read_table(shard).to_pylist() for n in row["negatives"]]
    texts = {n["text"] for n in negatives if n["kind"] == "inverted"}
    assert texts and texts <= {row["inverted"] for row in rows}


def test_a_build_killed_in_the_middle_asks_only_what_is_missing(tmp_path: Path) -> None:
    claims, out = claims_file(tmp_path, 8), tmp_path / "mine-stance-inversions"
    command = [sys.executable, "-m", "dataset_builders", "build", "mine-stance-inversions", "--out", str(out)]
    running: list[subprocess.Popen[bytes]] = []

    def answer(body: dict[str, Any]) -> str:
        if len(running) == 1 and len(server.bodies) == 5:
            os.kill(running[0].pid, signal.SIGKILL)
        return flipped(body)

    with endpoint(answer) as server:
        ask = ["--source", str(claims), "--generate", "tiny", "--base-url", server.base_url, "--concurrency", "1"]
        running.append(subprocess.Popen([*command, *ask], stderr=subprocess.DEVNULL))
        assert running[0].wait() == -signal.SIGKILL
        assert not list(out.rglob("*.parquet"))
        first = [task_of(b)["claim"] for b in server.bodies]
        running.append(subprocess.Popen([*command, *ask], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        output = running[1].communicate()[0].decode()
    claims_asked = [task_of(b)["claim"] for b in server.bodies]
    assert len(first) == 5 and claims_asked[5:] == [first[4], *list(sides(8))[5:]]
    assert "32 of 32 arguments inverted" in output and "4 calls (4 from the cache" in output


def test_an_endpoint_that_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    out, url = tmp_path / "mine-stance-inversions", refusing_url()
    ask = ["--source", claims_file(tmp_path, 2), "--generate", "tiny", "--base-url", url]
    result = build("mine-stance-inversions", "--out", out, *ask)
    assert result.exit_code == 1 and not out.exists()
    assert f"error: {url}, model 'tiny': cannot connect" in result.output


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with endpoint(flipped) as server:
        ask = ["--source", claims_file(tmp_path, 2), "--generate", "tiny", "--base-url", server.base_url]
        result = build("mine-stance-inversions", "--out", tmp_path / "full", *ask)
    assert result.exit_code == 1 and "holds what no build has written, such as notes.txt" in result.output
    assert not server.bodies


def test_a_report_that_cannot_be_written_is_noticed_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "mine-stance-inversions.report.json").mkdir()
    with endpoint(flipped) as server:
        ask = ["--source", claims_file(tmp_path, 2), "--generate", "tiny", "--base-url", server.base_url]
        result = build("mine-stance-inversions", "--out", tmp_path / "mine-stance-inversions", *ask)
    assert result.exit_code == 1 and "report.json: a folder is in the way of the report" in result.output
    assert not server.bodies and not (tmp_path / "mine-stance-inversions").exists()


def test_the_report_is_written_once_the_data_set_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report tells of the data beside it: where the data cannot be written, an earlier run's stays."""
    out, report = tmp_path / "mine-stance-inversions", tmp_path / "mine-stance-inversions.report.json"
    report.write_text("earlier")

    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    with endpoint(flipped) as server:
        ask = ["--source", claims_file(tmp_path, 2), "--generate", "tiny", "--base-url", server.base_url]
        with monkeypatch.context() as patch:
            patch.setattr("dataset_builders.builds.Build.write", full)
            assert build("mine-stance-inversions", "--out", out, *ask).exit_code == 1
        assert report.read_text() == "earlier"
        assert build("mine-stance-inversions", "--out", out, *ask).exit_code == 0
    assert json.loads(report.read_text())["accepted"] == 8


def test_of_two_builds_into_one_folder_the_second_is_refused_before_it_asks(tmp_path: Path) -> None:
    out = tmp_path / "mine-stance-inversions"
    source = claims_file(tmp_path, 2)
    second: list[Result] = []

    def answer(body: dict[str, Any]) -> str:
        if not second and body["model"] == "tiny":  # the first one is in the middle of asking
            ask = ["--source", source, "--generate", "other", "--base-url", server.base_url]
            second.append(build("mine-stance-inversions", "--out", out, "--cache", tmp_path / "own", *ask))
        return flipped(body)

    with endpoint(answer) as server:
        ask = ["--source", source, "--generate", "tiny", "--base-url", server.base_url, "--concurrency", "1"]
        first = build("mine-stance-inversions", "--out", out, *ask)
    assert first.exit_code == 0 and "8 of 8 arguments inverted by tiny" in first.output
    assert second[0].exit_code == 1 and "another build asks a language model for this folder" in second[0].output
    assert {body["model"] for body in server.bodies} == {"tiny"} and not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["sample-stance-triplets", "--generate", "m"], "--generate is for sample-stance-inversions"),
        (["sample-stance-inversions", "--base-url", "http://localhost"], "without --generate MODEL"),
        (["sample-stance-inversions", "--price", "1", "2"], "without --generate MODEL"),
        (["sample-stance-inversions", "--generate", "m", "--base-url", "nowhere"], "got the address 'nowhere'"),
        (["sample-stance-inversions", "--generate", "m", "--base-url", "http://h", "--provider", "p"], "give one"),
        (["sample-stance-inversions", "--generate", "m", "--price", "-1", "2"], "price: got"),
    ],
)
def test_options_that_do_not_fit(arguments: list[str], match: str, tmp_path: Path) -> None:
    result = build(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 1 and match in result.output
    assert not (tmp_path / "out").exists()


def test_without_a_model_the_inversions_of_the_source_stay(tmp_path: Path) -> None:
    assert build("sample-stance-inversions", "--out", tmp_path / "s").exit_code == 0
    (shard,) = (tmp_path / "s").glob("inversions/train-*.parquet")
    rows = pq.read_table(shard).to_pylist()
    assert {row["generator"] for row in rows} == {"authored"} and all(row["checks"] == [] for row in rows)
    assert all(0 < row["jaccard_lemma"] <= 1 for row in rows)
