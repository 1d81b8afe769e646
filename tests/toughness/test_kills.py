"""kill -9 at drawn points: nothing is half-written, a rerun finishes, and ends with the same bytes.

A process dies before a drawn change of the file system, or while it stands at a drawn request to the Hub; or within a
file, at a drawn length beyond which the kernel lets it write no more and kills it (SIGXFSZ). No clock decides, and a
seed repeats the points. `make test-all` kills as often as CONTRIBUTING.md says, the default tests a few times.
"""

from __future__ import annotations

import copy
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataset_builders.publisher import NAME, claims
from tests.endpoint import Endpoint
from tests.hub.faults import Hold
from tests.toughness.commands import BUILD, CARELESS, ENCODE, EVALUATE, GENERATE, TRAIN, Command, State
from tests.toughness.endings import Ending
from tests.toughness.place import Place
from tests.toughness.workshop import Workshop

KILLED = (-signal.SIGKILL, -signal.SIGXFSZ)
REPO = f"org/{NAME}"


def endings(seed: int, place: Place) -> Iterator[tuple[bool, Ending]]:
    """Drawn: from an empty folder or a full one, and where; every third in the middle of a file."""
    draw = random.Random(seed)
    while True:
        renewed = place.command.renews and draw.random() < 0.5
        if draw.random() < 1 / 3:
            # Small files are many: the logarithm of the length is drawn.
            at, after = int(place.bytes[renewed] ** draw.random()), draw.randint(0, place.inside[renewed] - 1)
            yield renewed, Ending("kill-bytes", at=at, after=after, inside=place.out)
        else:
            yield renewed, Ending("kill", at=draw.randint(1, place.inside[renewed]), inside=place.out)


def kill(command: Command, times: int, seed: int, workshop: Workshop, model: Endpoint, folder: Path) -> Counter[str]:
    """Kill it so often; the counts say where it was hit and what it left."""
    place = Place(folder, workshop, command, model.base_url)
    counts: Counter[str] = Counter()
    for _, (renewed, ending) in zip(range(2 * times), endings(seed, place), strict=False):
        place.start_again(renewed=renewed)
        start = shown(place.folder / "out")
        model.bodies.clear()
        done = place.go(ending)
        assert done.code in (*KILLED, 0), done.output
        if done.code == 0:
            counts["through before"] += 1
            continue
        said = f"{command.name} {ending}, renewed {renewed}"
        command.check(place.folder / "out")
        counts["killed"] += 1
        counts["in the middle of a file" if ending.how == "kill-bytes" else "before a change"] += 1
        begun, finished = shown(place.folder / "out") != start, command.state(place.folder) == place.wanted
        counts["done by then" if finished else "half done" if begun else "nothing begun"] += 1
        place.run()
        found = command.state(place.folder)
        differing = {name for name in found.keys() | place.wanted.keys() if found.get(name) != place.wanted.get(name)}
        assert not differing, f"{said}: {sorted(differing)}"
        if command is GENERATE:
            asked = [body["messages"][-1]["content"] for body in model.bodies]
            assert len(asked) - len(set(asked)) <= 3, f"{said}: asked again, and more than were under way"
        if counts["killed"] == times:
            return counts
    raise AssertionError(f"{command.name}: only {counts['killed']} of {times} were killed")


def shown(out: Path) -> State:
    """Every file but the locks, whatever is staged among them."""
    files = [p for p in out.rglob("*") if p.is_file() and p.suffix != ".lock"]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def say(capsys: pytest.CaptureFixture[str], what: str, counts: Counter[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{what}: {', '.join(f'{name} {number}' for name, number in counts.items())}\n")


def _times(command: Command, many: int, few: int | None = None) -> list[object]:
    default = [] if few is None else [pytest.param(command, few, 0, id=f"{command.name}-{few}")]
    return [*default, pytest.param(command, many, 1, id=f"{command.name}-{many}", marks=pytest.mark.slow)]


@pytest.mark.parametrize(
    ("command", "times", "seed"),
    [
        *_times(BUILD, 50, 2),
        *_times(GENERATE, 50, 2),
        *_times(ENCODE, 10, 2),
        *_times(TRAIN, 10),
        *_times(EVALUATE, 10),
    ],
)
def test_killed_anywhere_it_finishes_with_the_same_bytes(
    command: Command,
    times: int,
    seed: int,
    workshop: Workshop,
    model: Endpoint,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = kill(command, times, seed, workshop, model, tmp_path)
    if times >= 10:
        say(capsys, command.name, counts)
        assert counts["before a change"] and counts["in the middle of a file"]
        assert counts["half done"], "every kill came before anything was done, or after all was"


def test_a_command_that_writes_in_place_is_found_out(workshop: Workshop, model: Endpoint, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="half-written"):
        kill(CARELESS, 10, 0, workshop, model, tmp_path)


@pytest.mark.parametrize(
    ("times", "seed"), [pytest.param(2, 0), pytest.param(50, 1, marks=pytest.mark.slow)], ids=["2", "50"]
)
def test_a_killed_publish_leaves_the_old_or_the_new_release(
    times: int, seed: int, workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub, draw, data = workshop.hub, random.Random(seed), tmp_path / "my.jsonl"
    key, count = ("dataset", REPO), tmp_path / "count"

    def publish(tag: str, ending: Ending | None = None) -> int:
        argv = ("publish", NAME, "--org", "org", "--source", data, "--tag", tag)
        done = workshop.run(*argv, read_back=False, ending=ending)
        assert done.code in (*KILLED, 0), done.output
        return done.code

    hub.store.repos.pop(key, None)
    claims(data, ("one", "two", "three", "four"))
    assert publish("v0") == 0
    first = copy.deepcopy(hub.repo(*key))
    requests, changes = {}, {}
    for renewed in (False, True):  # what the Hub has seen is not sent again: the texts are new each time
        hub.store.repos.pop(key)
        if renewed:
            hub.store.repos[key] = copy.deepcopy(first)
        hub.log.clear()
        claims(data, (f"renewed {renewed}", "two", "three", "four"))
        assert publish("v1", Ending("count", into=str(count))) == 0
        requests[renewed], changes[renewed] = len(hub.log.entries), int(count.read_text().split()[0])
    counts: Counter[str] = Counter()
    for turn in range(2 * times):
        claims(data, (f"turn {turn} of {seed}", "two", "three", "four"))
        renewed = draw.random() < 0.5
        hub.store.repos.pop(key)
        if renewed:
            hub.store.repos[key] = copy.deepcopy(first)
        kind = draw.choice(["change", "bytes", "request", "answer"])
        if kind == "change":
            code = publish("v1", Ending("kill", at=draw.randint(1, changes[renewed])))
        elif kind == "bytes":
            code = publish("v1", Ending("kill-bytes", at=int(20_000 ** draw.random())))
        else:
            hold = hub.faults.add("*", "", Hold(done=kind == "answer"), nth=draw.randint(1, requests[renewed]))
            argv = ("publish", NAME, "--org", "org", "--source", data, "--tag", "v1")
            running = workshop.start(*argv, read_back=False)
            while not hold.reached.wait(0.02) and not running.has_ended():
                pass  # it may need a request less than the one that was counted
            if hold.reached.is_set():
                running.kill()
            code = running.wait().code
            hold.release.set()
            hub.faults.clear()
        if code == 0:
            counts["through before"] += 1
            continue
        counts["killed"] += 1
        counts[{"change": "before a change", "bytes": "in the middle of a file"}.get(kind, f"at a drawn {kind}")] += 1
        there = hub.store.repos.get(key)
        stopped = {} if there is None else dict(there.head.files)
        assert publish("v1") == 0
        after = hub.repo(*key)
        new = dict(after.head.files)
        nothing = {".gitattributes": new[".gitattributes"]}
        assert stopped in ({}, nothing, first.head.files, new), f"{kind}: a mixture"
        assert after.tags["v1"] == after.head.oid
        assert len(after.commits) == (3 if renewed else 2), f"{kind}: commits for nothing"
        hub.store.repos.pop(key)
        assert publish("v1") == 0
        assert hub.repo(*key).head.files == new, f"{kind}: other bytes than an unbroken release"
        counts["done by then" if stopped == new else "as before"] += 1
        if counts["killed"] == times:
            break
    assert counts["killed"] == times
    if times >= 10:
        say(capsys, "publish", counts)
        assert counts["as before"] and counts["done by then"]
