"""Logs of `weft serve` replayed, compared with plain recomputations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.cli import main
from weft.sim.keys.network import key_network
from weft.subnet.service import makers
from weft.subnet.service.ledger import (
    Announced,
    Event,
    Expired,
    Failed,
    KeyGivenBack,
    Ledger,
    Left,
    Made,
    Renewed,
    Requested,
    Withdrawn,
)
from weft.subnet.service.log import read_log
from weft.subnet.service.replay import recorded, replay, simulated
from weft.subnet.service.store import ServiceStore

SPEC = "xgft:2;4,4;1,4"
FABRIC = weft.fabric(SPEC)
S = 10**9
SETTINGS = {"criterion": "max", "while_missing": "wait"}


def made_keys(name: str, ends: dict[str, Any]) -> list[makers.MadeKey]:
    makers.initialise(FABRIC, makers.MakerSettings())
    found = makers.make(ends, (), makers.seed_of(name))
    assert all(isinstance(each, makers.MadeKey) for each in found)
    return [each for each in found if isinstance(each, makers.MadeKey)]


def record(path: Path, seed: int = 0, **settings: str) -> list[Event]:
    """Write a store with random requests of three applications; return its events."""
    random = np.random.default_rng(seed)
    rules: Any = SETTINGS | settings
    store = ServiceStore(path, FABRIC.digest, rules)
    ledger = Ledger(key_network(FABRIC), **rules)
    events: list[Event] = []
    now = 1_795_000_000 * S

    def do(event: Event) -> None:
        store.record([(event, ledger.handle(event))])
        events.append(event)

    hosts = random.permutation(16)
    for number, name in enumerate(("a", "b", "c")):
        mine = hosts[5 * number : 5 * number + 5]
        phases = {
            f"p{k}": (tuple(range(5)), tuple(random.permutation(5).tolist())) for k in range(3)
        }
        do(Announced(now, name, tuple(mine.tolist()), phases))
        if name == "b" and settings.get("while_missing") == "base":
            do(Requested(now, "b", "p0", 900 * S))
            do(KeyGivenBack(now + S, "b", "p0"))
            now += S
        placed = ledger.applications[name].phases.values()
        for key in made_keys(name, {p.name: (p.sources, p.destinations) for p in placed}):
            do(Made(now, name, key.phase, key.key, key.base))
    for _ in range(60):
        now += int(random.integers(1, 5 * S))
        at = (str(random.choice(["a", "b", "c"])), f"p{random.integers(3)}")
        held = at in ledger.grants
        do(KeyGivenBack(now, *at) if held else Requested(now, *at, int(random.integers(3, 40)) * S))
        if random.random() < 0.2 and any(each == at[0] for each, _ in ledger.grants):
            do(Renewed(now, at[0]))
        if any(grant.until_ns <= now for grant in ledger.grants.values()):
            do(Expired(now))
    do(Withdrawn(now, (("a", "p0"),), "a cable died"))
    do(Failed(now + S, "a", "p0", "no way"))
    do(Left(now + 2 * S, "b"))
    store.close()
    return events


def counted(ledger: Ledger, *, base: bool) -> Counter[int]:
    """Return the flows on each link, path by path."""
    flows: Counter[int] = Counter()
    for at, granted in ledger.grants.items():
        phase = ledger.phase(*at)
        key = phase.base if base else phase.key
        if granted.alternative < 0:
            continue
        assert key is not None
        offset, links = key.links(0 if base else granted.alternative)
        seen = set()
        for flow, pair in enumerate(zip(key.sources, key.destinations, strict=True)):
            if pair not in seen:
                flows.update(links[offset[flow] : offset[flow + 1]].tolist())
            seen.add(pair)
    return flows


def plain_means(events: list[Event], **settings: Any) -> tuple[list[float], list[int], float]:
    ledger = Ledger(key_network(FABRIC), **settings)
    total, largest, held = [0.0, 0.0], [0, 0], 0.0
    for event in events:
        if any(grant.alternative >= 0 for grant in ledger.grants.values()):
            seconds = (event.time_ns - ledger.now_ns) / S
            held += seconds
            for number in (0, 1):
                most = max(counted(ledger, base=number == 1).values(), default=0)
                total[number] += most * seconds
                largest[number] = max(largest[number], most)
        ledger.handle(event)
        for number in (0, 1):
            most = max(counted(ledger, base=number == 1).values(), default=0)
            largest[number] = max(largest[number], most)
    return [each / held for each in total], largest, held


@pytest.mark.parametrize("seed", range(3))
def test_means_and_decisions_agree_with_a_plain_recomputation(tmp_path: Path, seed: int) -> None:
    events = record(tmp_path / "s.sqlite", seed)
    found = replay(FABRIC, recorded(tmp_path / "s.sqlite").lines)
    assert (found.events, found.different) == (len(events), 0)
    assert found.requests == sum(isinstance(event, Requested) for event in events) > 20
    means, largest, held = plain_means(events)
    courses = [found.courses[name] for name in ("recorded", "base")]
    assert [course.mean for course in courses] == pytest.approx(means, rel=1e-12)
    assert [course.largest for course in courses] == largest
    assert courses[0].held_s == pytest.approx(held)
    assert 0 < means[0] < means[1]


def test_other_rules_hold_the_same_keys_at_the_same_times(tmp_path: Path) -> None:
    """Compare with keys that are moved and counted by themselves, for ``fixed`` and ``shift``."""
    events = record(tmp_path / "s.sqlite", 1)
    choices: Any = ("shift", "optimum", "fixed", "first-fit", "installed")
    found = replay(FABRIC, recorded(tmp_path / "s.sqlite").lines, choices)
    assert list(found.courses) == ["recorded", "base", *choices]
    held = found.courses["recorded"].held_s
    assert all(course.held_s == held for course in found.courses.values())
    assert found.courses["optimum"].mean <= found.courses["fixed"].mean

    ledger = Ledger(key_network(FABRIC))
    keys: dict[tuple[str, str], weft.RoutingKey] = {}
    total = seconds = 0.0
    for event in events:
        loads = sum((keys[at].loads for at in ledger.grants), np.zeros(1, np.int32))
        if ledger.grants:
            seconds += (event.time_ns - ledger.now_ns) / S
            total += int(loads.max()) * (event.time_ns - ledger.now_ns) / S
        ledger.handle(event)
        if isinstance(event, Announced):
            phases = ledger.applications[event.application].phases
            for number, phase in enumerate(phases.values()):
                keys[event.application, phase.name] = weft.keys(
                    FABRIC, phase.sources, phase.destinations, first="random",
                    seed=makers.seed_of(event.application) + number,
                )  # fmt: skip
    assert found.courses["fixed"].mean == pytest.approx(total / seconds)
    # The installed keys found a LID for every flow, so the same rule decides the same.
    assert found.courses["installed"].mean == pytest.approx(found.courses["recorded"].mean)


def test_requests_on_base_routes_are_told_apart(tmp_path: Path) -> None:
    events = record(tmp_path / "s.sqlite", while_missing="base")
    source = recorded(tmp_path / "s.sqlite")
    assert source.settings["while_missing"] == "base"
    found = replay(FABRIC, source.lines, ("shift",), while_missing="base")
    assert (found.different, found.on_base) == (0, 1)
    means, _, held = plain_means(events, while_missing="base")
    assert found.courses["recorded"].mean == pytest.approx(means[0])
    assert found.courses["recorded"].held_s == pytest.approx(held)


def lines_of(store: Path) -> str:
    opened = ServiceStore(store, FABRIC.digest, {})
    text = "".join(f"{line}\n" for _, line in opened.log())
    opened.close()
    return text


def test_a_changed_decision_is_found(tmp_path: Path) -> None:
    record(tmp_path / "s.sqlite")
    lines = lines_of(tmp_path / "s.sqlite").splitlines()
    at = next(n for n, line in enumerate(lines) if '"event":"requested"' in line)
    old = json.loads(lines[at])["decision"]["granted"][0]["alternative"]
    lines[at] = lines[at].replace(f'"alternative":{old}', f'"alternative":{old + 1}')
    path = tmp_path / "log"
    path.write_text("\n".join(lines))
    assert replay(FABRIC, read_log(path)).different == 1


@pytest.mark.parametrize("seed", range(3))
def test_packets_take_exactly_the_granted_paths(tmp_path: Path, seed: int) -> None:
    events = record(tmp_path / "s.sqlite", seed)
    found = replay(FABRIC, recorded(tmp_path / "s.sqlite").lines, most_moments=5)
    moments = found.moments
    assert 1 < len(moments) <= 5
    contentions = [moment.contention for moment in moments]
    assert contentions == sorted(contentions, reverse=True)
    assert contentions[0] == found.courses["recorded"].largest
    sets = {frozenset((*at, n) for at, (_, n) in moment.paths.items()) for moment in moments}
    assert len(sets) == len(moments)
    for moment in moments[:2]:
        # The flows of each link at that time, counted path by path.
        ledger = Ledger(key_network(FABRIC))
        for event in events:
            ledger.handle(event)
            if event.time_ns == moment.time_ns and isinstance(event, Requested):
                break
        flows = counted(ledger, base=False)
        twin = simulated(FABRIC, moment, 1 << 16)
        assert twin.differing == 0
        assert {n: int(f) for n, f in enumerate(twin.simulated) if f} == flows
        assert twin.predicted_slowdown >= moment.contention
        assert 0.8 * twin.predicted_slowdown < twin.slowdown < 2.5 * twin.predicted_slowdown


def test_wrong_predictions_are_found(tmp_path: Path) -> None:
    record(tmp_path / "s.sqlite")
    moment = replay(FABRIC, recorded(tmp_path / "s.sqlite").lines).moments[0]
    moment.loads[np.flatnonzero(moment.loads)[:3]] += 1
    assert simulated(FABRIC, moment, 4096).differing == 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    record(Path("s.sqlite"))
    return tmp_path


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("log").write_text(lines_of(Path("s.sqlite")))
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    for source in ("s.sqlite", "log"):
        assert main(["replay", source, SPEC, "--choice", "shift", "--level", "packet"]) == 0
        out = capsys.readouterr().out
        assert "all decisions are the same" in out
        assert "as recorded" in out
        assert "simulated flows are as predicted on every link" in out
    assert main(["replay", "s.sqlite", SPEC, "--choice", "shift", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["different"] == 0
    assert set(facts["contention"]) == {"recorded", "base", "shift"}
    # A store is only read.
    left = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert {name: left[name] for name in before} == before

    changed = Path("log").read_text().replace('"reason":"done"', '"reason":"lost"', 2)
    Path("log").write_text(changed)
    assert main(["replay", "log", SPEC]) == 1
    assert "2 decisions differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing", SPEC], "nothing: cannot be read: No such file"),
        (["text", SPEC], "text:1: is not a line of a log of weft serve"),
        (["part", SPEC], "part: event 1 of the log contradicts the fabric or the events before it"),
        (["s.sqlite", "xgft:2;4,4;1,2"], "s.sqlite: is the store of another fabric"),
        (
            ["s.sqlite", SPEC, "--criterion", "variance"],
            "s.sqlite: was recorded with criterion max",
        ),
        (["s.sqlite", SPEC, "--moments", "0"], "--moments must be at least 1"),
        (["cut", SPEC], "cut: cannot be read as a store"),
        (["other.sqlite", SPEC], "other.sqlite: cannot be read as a store"),
    ],
)
def test_bad_input(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    import sqlite3

    Path("text").write_text("hello\n")
    Path("part").write_text(lines_of(Path("s.sqlite")).partition("\n")[2])
    Path("cut").write_bytes(Path("s.sqlite").read_bytes()[:1000])
    with sqlite3.connect("other.sqlite") as database:
        database.execute("CREATE TABLE t (a)")
    database.close()
    assert main(["replay", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1
