"""Changes of the subnet while other events happen, with a stand-in of OpenSM."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.processes import PATIENCE_S
from tests.serve_ledgers import new_ledger, replay, state_of
from tests.serve_services import opened, the_fabric, tick, without_processes

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.fabrics import LinkKind
from weft.sim.keys.alternatives import InstalledKey
from weft.subnet.service import installer, makers
from weft.subnet.service.installer import Seen
from weft.subnet.service.keeper import Keeper, _same_paths
from weft.subnet.service.ledger import BASE, KeyState, Refused
from weft.subnet.service.log import read_log
from weft.subnet.service.service import Rules, Service
from weft.subnet.service.store import ServiceStore, StoreFailed


class Subnet:
    """Stands in for `Installer`."""

    lmc = 4
    first: Seen | None = None
    moved = -1

    def __init__(self) -> None:
        self.seen = self.first
        self.unseen = ""
        self.base = np.arange(the_fabric().num_hosts) * 16 + 16
        if self.moved >= 0:
            self.base[self.moved] = 960
        self.wrong = 0
        self.refused: set[str] = set()
        self.never = False
        self.loads: list[tuple[list[InstalledKey], tuple[int, ...]]] = []

    async def look(self) -> Seen | None:
        if self.unseen:
            raise WeftError(self.unseen)
        seen, self.seen = self.seen, None
        return seen

    async def lids(self) -> Any:
        return self.base.copy()

    async def install(self, keys: Sequence[InstalledKey], missing: tuple[int, ...]) -> Any:
        if self.wrong:
            self.wrong -= 1
            raise WeftError("refused")
        if self.never or any(key.name in self.refused for key in keys):
            raise NotApplicable("packets can deadlock")
        self.loads.append((list(keys), missing))
        return SimpleNamespace(total_s=0.1)

    def close(self) -> None:
        pass


async def until(true: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.02)


def keeper_on(
    store: ServiceStore, subnet: Subnet, lmc: int = 4, rules: Rules | None = None
) -> Keeper:
    service = Service(the_fabric(), store, makers.MakerSettings(lmc=lmc), rules or Rules())
    return Keeper(service, cast(Any, subnet))


def run(
    path: Path, patch: pytest.MonkeyPatch, story: Any, lmc: int = 4, rules: Rules | None = None
) -> None:
    without_processes(patch)
    tick(patch, 0.02)
    patch.setattr("weft.subnet.service.keeper._RETRY_S", 0.1)

    async def whole() -> None:
        subnet = Subnet()
        with closing(opened(path, rules)) as store:
            keeper = keeper_on(store, subnet, lmc, rules)
            service = keeper.service
            await keeper.start()
            try:
                if "a" not in service.ledger.applications:
                    phases = [("p", [(0, 1)]), ("q", [(2, 3)])]
                    await service.announce("a", [0, 4, 8, 12], phases, None)
                phases = service.ledger.applications["a"].phases
                await until(lambda: all(p.state is KeyState.READY for p in phases.values()))
                await story(keeper, subnet)
            finally:
                await keeper.stop()

    asyncio.run(whole())


def cable_of(service: Service, phase: str = "p") -> int:
    key = service.ledger.applications["a"].phases[phase].key
    assert key is not None
    return int(key.link[0]) // 2


def test_an_application_that_leaves_as_its_cable_dies_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        cable = cable_of(service)
        leaves = asyncio.create_task(service.leave("a"))
        await asyncio.sleep(0)  # it waits for its turn
        subnet.seen = Seen((cable,), restarted=False)
        await keeper._look()
        await leaves
        assert subnet.loads[-1] == ([], (cable,))

    run(tmp_path / "s", monkeypatch, story)


def test_a_withdrawal_that_could_not_be_stored_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        real, tries = service.store.record, []

        def record(batch: Any, tokens: Any = None) -> None:
            if any(type(event).__name__ == "Withdrawn" for event, _ in batch):
                tries.append(batch)
                if len(tries) < 3:
                    raise StoreFailed("full")
            real(batch, tokens)

        monkeypatch.setattr(service.store, "record", record)
        cable = cable_of(service)
        subnet.seen = Seen((cable,), restarted=False)
        await until(lambda: len(tries) == 3)
        await until(lambda: subnet.loads[-1][1] == (cable,))
        await until(lambda: service.ledger.applications["a"].phases["p"].generation == 2)
        assert cable_of(service) != cable

    run(tmp_path / "s", monkeypatch, story)


def test_a_cable_is_withdrawn_although_the_lids_could_not_be_read_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        cable = cable_of(keeper.service)
        real, tries = subnet.lids, []

        async def lids() -> Any:
            tries.append(1)
            if len(tries) == 1:
                raise WeftError("guid2lid is being written")
            return await real()

        monkeypatch.setattr(subnet, "lids", lids)
        subnet.seen = Seen((cable,), restarted=False)
        await until(lambda: keeper.service.subnet.missing == (cable,))
        await until(lambda: subnet.loads[-1][1] == (cable,))
        await until(lambda: not keeper.service.problems)

    run(tmp_path / "s", monkeypatch, story)


def test_a_look_that_fails_is_not_a_problem_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        subnet.unseen = "OpenSM discovered a cable that is not in the fabric"
        await until(lambda: keeper.service.problems.get("subnet") == subnet.unseen)
        subnet.unseen, subnet.seen = "", Seen((), restarted=False)
        await until(lambda: not keeper.service.problems)

    run(tmp_path / "s", monkeypatch, story)


def test_the_watch_goes_on_when_the_ledger_cannot_be_read_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service, tries = keeper.service, []

        def broken(*_: object) -> None:
            tries.append(1)
            raise WeftError("input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(service.store, "load", broken)
            service._stale = True
            cable = cable_of(service)
            subnet.seen = Seen((cable,), restarted=False)
            await until(lambda: tries)
        await until(lambda: subnet.loads[-1][1] == (cable,))
        await until(lambda: service.ledger.applications["a"].phases["p"].generation == 2)

    run(tmp_path / "s", monkeypatch, story)


def test_other_tables_than_those_loaded_hold_grants_up_and_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        before = len(subnet.loads)
        subnet.wrong = 1
        subnet.seen = Seen((), restarted=False, intact=False)
        await until(lambda: keeper.service.problems)
        with pytest.raises(Refused, match="have not been compared"):
            await keeper.service.request("a", "p", None, 0)
        given = await keeper.service.request("a", "p", None, 5)
        assert given.granted.generation == 1
        assert len(subnet.loads) == before + 1

    run(tmp_path / "s", monkeypatch, story)


def test_a_restart_knows_cables_and_lids_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generations(keeper: Keeper) -> list[int]:
        return [p.generation for p in keeper.service.ledger.applications["a"].phases.values()]

    async def dies(keeper: Keeper, subnet: Subnet) -> None:
        # Without an LMC every flow takes the base routes, which change with each cable.
        between = the_fabric().link_kind == LinkKind.SWITCH_SWITCH
        cable = int(np.flatnonzero(between)[-1]) // 2
        monkeypatch.setattr(Subnet, "first", Seen((cable,), restarted=False))
        subnet.seen = subnet.first
        await until(lambda: subnet.loads[-1][1] == (cable,))
        await until(lambda: generations(keeper) == [2, 2])
        await keeper.service.request("a", "p", None, 0)

    async def same(keeper: Keeper, subnet: Subnet) -> None:
        assert generations(keeper) == [2, 2]
        assert set(keeper.service.ledger.grants) == {("a", "p")}
        monkeypatch.setattr(Subnet, "first", None)

    async def back(keeper: Keeper, subnet: Subnet) -> None:
        await until(lambda: generations(keeper) == [3, 3])
        assert not keeper.service.ledger.grants
        await keeper.service.request("a", "p", None, 5)
        monkeypatch.setattr(Subnet, "moved", 12)

    async def elsewhere(keeper: Keeper, subnet: Subnet) -> None:
        await until(lambda: generations(keeper) == [4, 4])
        assert not keeper.service.ledger.grants

    for story in (dies, same, back, elsewhere):
        run(tmp_path / "s", monkeypatch, story, lmc=0)


def test_routes_of_all_pairs_come_before_keys_that_do_not_fit_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        await keeper.service.announce("b", [1, 5], [("r", [(0, 1)])], None)
        known = keeper.service.ledger.applications
        phase, other = known["a"].phases["p"], known["b"].phases["r"]
        await until(lambda: other.state is KeyState.READY)
        cable = cable_of(keeper.service, "q")
        subnet.refused = {"p"}
        subnet.seen = Seen((cable,), restarted=False)
        await until(lambda: phase.state is KeyState.FAILED and other.generation == 2)
        assert ([], (cable,)) in subnet.loads
        assert phase.reason == "packets can deadlock"
        # Nothing is withdrawn for tables that cannot be loaded without keys either.
        subnet.never, subnet.seen = True, Seen((), restarted=False)
        await until(lambda: keeper.service.problems)
        assert (other.state, other.generation) == (KeyState.READY, 2)

    run(tmp_path / "s", monkeypatch, story)


def test_tables_that_could_not_be_loaded_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        subnet.wrong = 2
        subnet.seen = Seen((), restarted=True)
        await until(lambda: service.problems.get("subnet"))
        await until(lambda: not service.problems)

    run(tmp_path / "s", monkeypatch, story)


def test_other_lids_withdraw_the_keys_of_their_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        await service.announce("b", [1, 5], [("p", [(0, 1)])], None)
        other = service.ledger.applications["b"].phases["p"]
        await until(lambda: other.state is KeyState.READY)
        subnet.base[12] = 960
        subnet.seen = Seen((), restarted=True)
        mine = service.ledger.applications["a"].phases
        await until(lambda: all(phase.generation == 2 for phase in mine.values()))
        assert other.generation == 1
        assert service.subnet.base_lid is not None
        assert service.subnet.base_lid[12] == 960

    run(tmp_path / "s", monkeypatch, story)


def test_keys_are_not_offered_on_a_cable_that_dies_between_two_offers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        # The cable of each key that will be made dies while the first of them is stored.
        install = subnet.install
        dead: list[int] = []

        async def installed(keys: Sequence[InstalledKey], missing: tuple[int, ...]) -> Any:
            done = await install(keys, missing)
            new = [key for key in keys if key.name == "r1"]
            if new and not dead:
                dead.append(int(new[0].link[0]) // 2)
            return done

        real = service.store.record

        def record(batch: Any, tokens: Any = None) -> None:
            if any(getattr(event, "phase", "") == "r0" for event, _ in batch) and dead:
                service.subnet.missing = (dead[0],)  # `_look` sets this before it waits
            real(batch, tokens)

        monkeypatch.setattr(subnet, "install", installed)
        monkeypatch.setattr(service.store, "record", record)
        await service.announce("b", [1, 5, 9], [("r0", [(0, 1)]), ("r1", [(1, 2)])], None)
        phase = service.ledger.applications["b"].phases["r1"]
        await until(lambda: phase.state is KeyState.READY)
        assert phase.key is not None
        assert dead[0] not in phase.key.link // 2

    run(tmp_path / "s", monkeypatch, story)


def test_keys_that_are_refused_do_not_fail_those_of_other_applications(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        subnet.refused = {"bad"}
        async with keeper._installing:
            # While the first one waits, the other two are announced, and then made together.
            await service.announce("x", [3, 7], [("first", [(0, 1)])], None)
            await asyncio.sleep(0.1)
            await service.announce("b", [1, 5], [("bad", [(0, 1)])], None)
            await service.announce("c", [2, 6], [("good", [(0, 1)])], None)
        known = service.ledger.applications
        await until(lambda: known["c"].phases["good"].state is KeyState.READY)
        bad = known["b"].phases["bad"]
        await until(lambda: bad.state is KeyState.FAILED)
        assert bad.reason == "packets can deadlock"
        assert {key.name for key in subnet.loads[-1][0]} == {"p", "q", "first", "good"}

    run(tmp_path / "s", monkeypatch, story)


def test_keys_that_failed_with_a_load_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        subnet.wrong = 1
        await service.announce("b", [1, 5], [("p", [(0, 1)])], None)
        phase = service.ledger.applications["b"].phases["p"]
        await until(lambda: phase.state is KeyState.FAILED)
        await until(lambda: phase.state is KeyState.READY)

    run(tmp_path / "s", monkeypatch, story)


def test_grants_wait_until_tables_are_compared_after_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        await service.give_back("a", (await service.request("a", "p", None, 0)).granted.phase)

    run(tmp_path / "s", monkeypatch, first)

    async def again() -> None:
        subnet = Subnet()
        subnet.wrong = 1
        with closing(opened(tmp_path / "s")) as store:
            keeper = keeper_on(store, subnet)
            service = keeper.service
            await keeper.start()
            try:
                assert service.ledger.applications["a"].phases["p"].state is KeyState.READY
                with pytest.raises(Refused, match="have not been compared"):
                    await service.request("a", "p", None, 0)
                granted = (await service.request("a", "p", None, 5)).granted
                assert granted.phase == "p"
                assert subnet.loads
            finally:
                await keeper.stop()

    without_processes(monkeypatch)
    tick(monkeypatch, 0.02)
    monkeypatch.setattr("weft.subnet.service.keeper._RETRY_S", 0.1)
    asyncio.run(again())


def test_requests_fall_back_until_tables_are_compared_if_they_are_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        subnet.never, subnet.seen = True, Seen((), restarted=False, intact=False)
        await until(lambda: keeper.service.problems)
        given = await service.request("a", "p", None, 0)
        assert (given.granted.alternative, given.base_contention) == (BASE, 0)
        subnet.never = False
        await until(lambda: not keeper.service.problems)
        assert (await service.request("a", "q", None, 0)).granted.alternative == 0
        again = new_ledger("base")
        service.store.load(again)
        assert again.grants == service.ledger.grants

    rules = Rules(while_missing="base")
    run(tmp_path / "s", monkeypatch, story, rules=rules)
    log = tmp_path / "log"
    with closing(opened(tmp_path / "s", rules)) as store:
        log.write_text("".join(f"{line}\n" for _, line in store.log()))
    assert replay(new_ledger("base"), read_log(log))[1] == 0


def test_an_error_in_the_code_fails_the_keys_and_not_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        real = keeper._makers.run

        async def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(keeper._makers, "run", broken)
        await service.announce("b", [1, 5], [("p", [(0, 1)])], None)
        phase = service.ledger.applications["b"].phases["p"]
        await until(lambda: phase.state is KeyState.FAILED)
        assert "its log has the details" in phase.reason
        monkeypatch.setattr(keeper._makers, "run", real)
        await service.announce("c", [2, 6], [("p", [(0, 1)])], None)
        await until(lambda: service.ledger.applications["c"].phases["p"].state is KeyState.READY)

    run(tmp_path / "s", monkeypatch, story)


def test_a_restart_of_opensm_is_seen_when_its_first_sweep_ends() -> None:
    manager = SimpleNamespace(
        process=SimpleNamespace(pid=1, ended=lambda: ""), changed=lambda: True,
        intact=lambda: True, present=the_fabric,
    )  # fmt: skip
    worker = installer._Worker(
        the_fabric(), cast(Any, SimpleNamespace(manager=lambda _: manager)), ()
    )
    assert worker.look() == Seen((), restarted=False)
    manager.process.pid, manager.changed = 2, lambda: False
    assert worker.look() is None
    manager.changed = lambda: True
    assert worker.look() == Seen((), restarted=True)
    assert worker.look() == Seen((), restarted=False)


def test_a_process_that_replaces_one_that_died_waits_for_opensm() -> None:
    running: list[object] = []

    def manager(_: object) -> object:
        if not running:
            raise InputError("OpenSM does not run")
        return SimpleNamespace(process=SimpleNamespace(pid=1, ended=lambda: "it has ended"))

    installer._attach(the_fabric(), cast(Any, SimpleNamespace(manager=manager)), ())
    for message in ("OpenSM does not run", "OpenSM does not run: it has ended"):
        with pytest.raises(WeftError, match=f"{message}$"):
            installer._look()
        running.append(1)


def test_keys_that_a_dead_cable_does_not_touch_have_the_new_base_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[Any] = []
    # More alternatives would be on every cable.
    monkeypatch.setattr(makers, "MakerSettings", partial(makers.MakerSettings, alternatives=1))

    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        ledger, phases = service.ledger, service.ledger.applications["a"].phases
        for name in phases:
            await service.request("a", name, None, 0.0)
        on_base = [set((phase.base.link // 2).tolist()) for phase in phases.values()]
        on_keys = [set((phase.key.link // 2).tolist()) for phase in phases.values()]
        name, cable = next(
            (name, cable) for name, cables in zip(phases, on_base, strict=True)
            for cable in sorted(cables - on_keys[0] - on_keys[1])
        )  # fmt: skip
        phase = phases[name]
        before, key, since = phase.base, phase.key, ledger.grants["a", name]
        subnet.seen = Seen((cable,), restarted=False)
        await until(lambda: phase.base is not before)
        assert phase.base is not None
        assert cable not in phase.base.link // 2
        assert (phase.key, phase.generation, ledger.grants["a", name]) == (key, 1, since)
        loads = np.zeros_like(ledger.base_loads)
        for each in phases.values():
            each.base_flows.add(0, 1, loads)
        assert loads.tolist() == ledger.base_loads.tolist()
        assert [each.kind for each in service.changes["a"] if each.phase == name] == ["ready"]
        subnet.seen = Seen((), restarted=False)
        await until(lambda: _same_paths(phase.base, before))
        await service.do(ledger.snapshot)
        subnet.seen = Seen((cable,), restarted=False)
        await until(
            lambda: all(cable not in each.base.link // 2 for each in phases.values() if each.base)
        )
        known.append(state_of(ledger))

    run(tmp_path / "s", monkeypatch, story, lmc=5)
    with closing(opened(tmp_path / "s")) as store:
        ledger = new_ledger()
        store.load(ledger)
        assert state_of(ledger) == known[0]
        (tmp_path / "log").write_text("".join(f"{line}\n" for _, line in store.log()))
    ledger = new_ledger()
    _, different = replay(ledger, read_log(tmp_path / "log"))
    assert different == 0
    assert state_of(ledger) == known[0]


def cable_of_p_only(service: Service) -> int:
    """Return a cable between switches on the paths of the key `p`, and not of `q`."""
    p, q = (phase.key for phase in service.ledger.applications["a"].phases.values())
    assert p is not None
    assert q is not None
    cables = sorted(set((p.link // 2).tolist()) - set((q.link // 2).tolist()))
    return next(c for c in cables if the_fabric().link_kind[2 * c] == LinkKind.SWITCH_SWITCH)


@pytest.mark.parametrize("where", ["makers", "store", "other change"])
def test_keys_are_made_and_base_routes_recorded_although_these_failed_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(makers, "MakerSettings", partial(makers.MakerSettings, alternatives=1))
    tries: list[int] = []

    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service = keeper.service
        paths, record = makers.base_paths, service.store.record
        await until(lambda: keeper._based == ())

        def base_paths(*arguments: Any) -> Any:
            tries.append(1)
            if where == "makers" and len(tries) == 1:
                raise WeftError("the process that makes keys has died; try again")
            if where == "other change":
                service._stale = len(tries) == 1  # as after a failure
            return paths(*arguments)

        def recorded(batch: Any, tokens: Any = None) -> None:
            if any(type(event).__name__ == "Rebased" for event, _ in batch):
                tries.append(1)
                if len(tries) < 4 and where == "store":
                    raise StoreFailed("full")
            record(batch, tokens)

        monkeypatch.setattr(makers, "base_paths", base_paths)
        monkeypatch.setattr(service.store, "record", recorded)
        cable = cable_of_p_only(service)
        subnet.seen = Seen((cable,), restarted=False)
        await until(lambda: service.subnet.missing == (cable,) and tries)
        if where == "makers":
            await until(lambda: "has died" in service.problems.get("base routes", ""))
        await until(lambda: service.ledger.applications["a"].phases["p"].state is KeyState.READY)
        await until(lambda: keeper._based == (cable,) and not service.problems)
        assert len(tries) > 1
        (_, key), (_, other) = keeper._ready().items()
        flows = [(each.name, each.sources, each.destinations) for each in (key, other)]
        phases = service.ledger.applications["a"].phases.values()
        for phase, base in zip(phases, paths(flows, (cable,)), strict=True):
            assert phase.base is not None
            assert _same_paths(phase.base, base)

    run(tmp_path / "s", monkeypatch, story, lmc=5)


def test_the_watch_does_not_wait_for_base_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(makers, "MakerSettings", partial(makers.MakerSettings, alternatives=1))

    async def story(keeper: Keeper, subnet: Subnet) -> None:
        service, work = keeper.service, keeper._makers.run
        waiting, may = asyncio.Event(), asyncio.Event()

        async def busy(function: Any, *arguments: Any, limit_s: float | None = None) -> Any:
            if function is makers.base_paths:
                assert limit_s == service.rules.make_limit_s
                waiting.set()
                await may.wait()
            return await work(function, *arguments, limit_s=limit_s)

        monkeypatch.setattr(keeper._makers, "run", busy)
        p = service.ledger.applications["a"].phases["p"]
        first = cable_of_p_only(service)
        subnet.seen = Seen((first,), restarted=False)
        await until(waiting.is_set)
        await until(lambda: p.generation == 2)
        second = cable_of_p_only(service)
        subnet.seen = Seen((first, second), restarted=False)
        await until(lambda: subnet.loads[-1][1] == (first, second))
        await until(lambda: p.generation == 3)
        may.set()
        await until(lambda: keeper._based == (first, second))

    run(tmp_path / "s", monkeypatch, story, lmc=5)


def test_a_service_starts_although_base_routes_cannot_be_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first(keeper: Keeper, subnet: Subnet) -> None:
        pass

    async def again(keeper: Keeper, subnet: Subnet) -> None:
        await until(lambda: "memory" in keeper.service.problems.get("base routes", ""))
        assert (await keeper.service.request("a", "p", None, 5)).granted.generation == 1
        monkeypatch.setattr(makers, "base_paths", paths)
        await until(lambda: not keeper.service.problems)

    def failed(*_: Any) -> Any:
        raise InputError("too much memory")

    run(tmp_path / "s", monkeypatch, first)
    paths = makers.base_paths
    monkeypatch.setattr(makers, "base_paths", failed)
    run(tmp_path / "s", monkeypatch, again)
