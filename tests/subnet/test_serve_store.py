"""The store: what is stored comes back, and a file that is not the service's store is refused."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.processes import largest_file
from tests.serve_ledgers import handled, made, new_ledger, placed, replay, state_of
from tests.serve_services import (
    Caller,
    Time,
    opened,
    served,
    the_fabric,
    tick,
    without_processes,
)

from weft.core.errors import InputError, WeftError
from weft.subnet.service import makers
from weft.subnet.service.ledger import (
    Announced,
    Decision,
    Event,
    Expired,
    Failed,
    KeyGivenBack,
    Ledger,
    Left,
    Refused,
    Renewed,
    Requested,
    Withdrawn,
)
from weft.subnet.service.log import pack, pack_key, read_event, read_log, unpack, unpack_key
from weft.subnet.service.replay import recorded
from weft.subnet.service.replay import replay as whole_replay
from weft.subnet.service.service import Rules, Service
from weft.subnet.service.store import ServiceStore, StoreFailed, hashed

KEY = "/v1/applications/a/keys/p"


def history() -> list[Event]:
    """Return events of every kind, whose grants are not in alphabetical order."""
    return [
        *placed("b"), Requested(2, "b", "q", 50), *placed("a", 3), Requested(4, "a", "q", 9),
        Requested(5, "b", "p", 500), Renewed(6, "b"), Withdrawn(7, (("a", "q"),), "cäble"),
        Failed(8, "a", "q", "none"), Announced(9, "c", (8, 9), {"x": ((0,), (1,))}),
        Announced(9, "d", (10,), {}), Requested(10, "a", "p", 2), Expired(13), Left(14, "d"),
        made(15, "a", "q"), Requested(16, "a", "q", 500), KeyGivenBack(17, "b", "q"),
        Requested(17, "b", "q", 400),
    ]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a store with a history."""
    store = opened(tmp_path / "store")
    ledger = new_ledger()
    for event in history():
        store.record(handled(ledger, event))
    store.close()
    return store.path


# -- what is stored ----------------------------------------------------------------------------


def test_a_restart_comes_back_to_the_same_state_after_each_event(tmp_path: Path) -> None:
    ledger = new_ledger()
    for event in history():
        store = opened(tmp_path / "store")
        store.record(handled(ledger, event))
        store.close()
        store = opened(tmp_path / "store")
        again = new_ledger()
        store.load(again)
        store.close()
        assert state_of(again) == state_of(ledger), event
        assert again.now_ns == ledger.now_ns


def test_the_log_replays_byte_for_byte(path: Path, tmp_path: Path) -> None:
    store = opened(path)
    lines = [line for _, line in store.log()]
    stored = new_ledger()
    store.load(stored)
    assert [number for number, _ in store.log(after=3, limit=2)] == [4, 5]
    store.close()
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in lines))
    ledger = new_ledger()
    assert replay(ledger, read_log(log)) == (len(history()), 0)
    assert state_of(ledger) == state_of(stored)
    # What is read back is written as it was, to the last byte.
    second = opened(tmp_path / "second")
    second.record([(event, answer) for event, answer in handled(new_ledger(), *history())])
    assert [line for _, line in second.log()] == lines
    second.close()


@pytest.mark.parametrize("first", range(0, 20, 3))
def test_a_log_that_begins_with_a_snapshot_replays_byte_for_byte(
    tmp_path: Path, first: int
) -> None:
    store, ledger = opened(tmp_path / "store"), new_ledger()
    begins = [first, first + 4, first + 9]
    for at, event in enumerate(history()):
        if at in begins:
            store.record(handled(ledger, ledger.snapshot(event.time_ns)))
        before = [line for _, line in store.log()]
        while store.trim(most=2):
            pass
        assert [line for _, line in store.log()] == before  # only what is not part of it goes
        store.record(handled(ledger, event))
    log = tmp_path / "log"
    lines = list(store.log())
    log.write_text("".join(f"{line}\n" for _, line in lines))
    again = new_ledger()
    assert replay(again, read_log(log)) == (len(lines), 0)
    assert state_of(again) == state_of(ledger)
    written = [begin for begin in begins if begin < len(history())]
    if len(written) > 1:  # the last snapshot and all since the one before
        kinds = [json.loads(line)["event"] for _, line in lines]
        start = kinds.index("snapshot")
        assert set(kinds[:start]) <= {"announced", "made"}
        assert len(kinds) - start == len(history()) - written[-2] + 2
        assert len(store._database.execute("SELECT number FROM event").fetchall()) == len(lines)
    store.close()
    store, loaded = opened(tmp_path / "store"), new_ledger()
    store.load(loaded)
    store.close()
    assert state_of(loaded) == state_of(ledger)


def test_a_snapshot_of_another_state_is_refused(path: Path, tmp_path: Path) -> None:
    store, ledger = opened(path), new_ledger()
    store.load(ledger)
    store.record(handled(ledger, ledger.snapshot(20)))
    lines = [line for _, line in store.log()]
    store.close()
    log = tmp_path / "log"
    # An event before it is lost.
    log.write_text("".join(f"{line}\n" for line in lines if '"time_ns":16' not in line))
    with pytest.raises(Refused, match="not that of the snapshot"):
        replay(new_ledger(), read_log(log))
    log.write_text(lines[-1])
    with pytest.raises(Refused, match="there is no application"):
        replay(new_ledger(), read_log(log))


def test_a_changed_decision_is_noticed(path: Path, tmp_path: Path) -> None:
    store = opened(path)
    lines = [json.loads(line) for _, line in store.log()]
    store.close()
    grants = [each for each in lines if each["event"] == "requested"]
    grants[1]["decision"]["granted"][0]["alternative"] += 1
    log = tmp_path / "log"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert replay(new_ledger(), read_log(log)) == (len(lines), 1)


@pytest.mark.slow  # as the log of a service that was killed
def test_the_log_replays_in_another_process(path: Path, tmp_path: Path) -> None:
    store = opened(path)
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for _, line in store.log()))
    store.close()
    program = (
        "import sys; from tests.serve_ledgers import new_ledger, replay;"
        "from weft.subnet.service.log import read_log;"
        "print(*replay(new_ledger(), read_log(sys.argv[1])))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, log], cwd=Path(__file__).parents[2], capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.split() == [str(len(history())), "0"]


@pytest.mark.parametrize(
    "text",
    [
        "nonsense", "[]", "{}", '{"decision":{}}', '{"decision":{},"event":"done"}',
        '{"decision":{},"event":"requested","time_ns":1}',
        '{"decision":{},"event":"left","time_ns":"1","application":"a"}',
        '{"decision":{},"event":"left","time_ns":1,"application":["a"]}',
        '{"decision":{},"event":"withdrawn","time_ns":1,"keys":[["a"]],"reason":""}',
        '{"decision":{},"event":"made","time_ns":1,"application":"a","phase":"p"}',
        '{"decision":{},"paths":{"key":"eJw=","base":"eJw="},"event":"made","time_ns":1,'
        '"application":"a","phase":"p"}',
        '{"decision":{},"paths":{"key":"eJwDAAAAAAE=","base":"eJwDAAAAAAE="},"event":"made",'
        '"time_ns":1,"application":"a","phase":"p"}',
        '{"decision":{},"paths":[],"event":"left","time_ns":1,"application":"a"}',
        '{"decision":{},"event":"announced","time_ns":1,"application":"a","hosts":[1],'
        '"phases":{"p":[[]]}}',
    ],
)  # fmt: skip
def test_a_line_that_is_not_of_a_log_is_one_error(tmp_path: Path, text: str) -> None:
    log = tmp_path / "log"
    log.write_text(f"\n{text}\n" if text == "nonsense" else f"{text}\n")
    with pytest.raises(InputError, match="of a log of weft serve") as error:
        list(read_log(log))
    assert error.value.line == 1


def test_a_key_is_packed_and_unpacked() -> None:
    key = made(1, "a", "p").key
    assert pack_key(unpack_key("p", pack_key(key))) == pack_key(key)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sources", lambda a: a[:-1]), ("destinations", lambda a: a.astype(float)),
        ("link", lambda a: a - 100), ("link", lambda a: a[:-1]), ("offset", lambda a: a[:-1]),
        ("offset", lambda a: a[::-1]), ("lid_offset", lambda a: a[0]),
        ("lid_offset", lambda a: a[:-1]), ("lid_offset", lambda a: a[:0]),
    ],
)  # fmt: skip
def test_arrays_that_are_no_key_are_one_error(name: str, change: Any) -> None:
    event = made(1, "a", "p")
    arrays = unpack(pack_key(event.key))
    arrays[name] = change(arrays[name])
    content = {"event": "made", "time_ns": 1, "application": "a", "phase": "p"}
    with pytest.raises(InputError, match="not an event"):
        read_event(content, pack(arrays), pack_key(event.base))


def test_the_token_of_an_application_ends_with_it_in_the_same_batch(tmp_path: Path) -> None:
    store = opened(tmp_path / "store")
    ledger = new_ledger()
    here = Announced(1, "a", (0,), {})
    store.record(handled(ledger, here, Left(2, "a")), {"a": "first", "": "root"})
    assert store.tokens() == {"": hashed("root")}
    store.record(handled(ledger, Announced(3, "a", (0,), {})), {"a": "second"})
    store.record(handled(ledger, Left(4, "a"), Announced(5, "a", (0,), {})), {"a": "third"})
    assert store.tokens() == {"": hashed("root"), "a": hashed("third")}
    store.close()
    text = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"third" not in text
    assert b"root" not in text


def test_only_the_owner_may_read_the_files(path: Path) -> None:
    store = opened(path)
    store.record([], {"a": "token"})
    files = list(path.parent.iterdir())
    assert len(files) == 4  # with the lock, and SQLite's -wal and -shm
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    store.close()


# -- files that are not the store --------------------------------------------------------------


def refusal(path: Path, digest: str | None = None, **settings: str) -> str:
    """Return why a store is refused."""
    usual = {"criterion": "max", "while_missing": "wait"} | settings
    with pytest.raises(InputError) as error:
        ServiceStore(path, digest or the_fabric().digest, usual)
    assert error.value.file == str(path.resolve())
    return error.value.message


def test_the_store_of_another_service_is_refused(path: Path) -> None:
    assert refusal(path, "other").startswith("is the store of another fabric")
    assert refusal(path, criterion="variance") == "was made with criterion max, not variance"
    assert refusal(path, while_missing="base") == "was made with while_missing wait, not base"


def changed(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def test_a_later_version_is_refused(path: Path) -> None:
    changed(path, "UPDATE meta SET value = '3' WHERE name = 'version'")
    assert refusal(path) == "is a store of version 3; this weft knows version 2"
    with pytest.raises(InputError, match="is a store of version 3; this weft knows version 2"):
        recorded(path)


@pytest.mark.parametrize("table", ["other (x)", "meta (x)", "meta (name, value)"])
def test_the_database_of_another_program_is_refused_and_left_alone(
    tmp_path: Path, table: str
) -> None:
    path = tmp_path / "other"
    changed(path, f"CREATE TABLE {table}")
    before = path.read_bytes()
    assert refusal(path) == "is a database of another program"
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("not a database, but text " * 100)
    assert refusal(path) == "cannot be used as a store: file is not a database"
    assert refusal(tmp_path) in ("cannot be written: Is a directory", "cannot be used as a store")
    assert refusal(tmp_path / "none" / "store") == "cannot be written: No such file or directory"


def test_a_damaged_store_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 200] = os.urandom(200)
    path.write_bytes(bytes(content))
    message = refusal(path)
    assert "damaged" in message or "malformed" in message


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM event WHERE number = 1",
        "UPDATE event SET event = 'x' WHERE number = 1",
        "UPDATE event SET key = x'00' WHERE key IS NOT NULL",
        "UPDATE event SET event = replace(event, '[2,', '[99,') WHERE number = 1",
        "UPDATE granted SET application = 'z' WHERE phase = 'p' AND application = 'b'",
        "UPDATE granted SET alternative = 99",
        "UPDATE key SET state = 'ready'",
        "UPDATE key SET state = 'making'",
        "UPDATE key SET phase = phase || 'x'",
        "DELETE FROM application",
    ],
)
def test_contents_that_contradict_one_another_are_one_error(path: Path, statement: str) -> None:
    changed(path, statement)
    store = opened(path)
    with pytest.raises(WeftError, match="is damaged"):
        store.load(new_ledger())
    store.close()


def test_a_second_service_on_a_store_is_refused_by_whatever_name(path: Path) -> None:
    store = opened(path)
    expected = f"is in use by another weft serve (process {os.getpid()})"
    link = path.parent / "link"
    link.symlink_to(path)
    assert refusal(path) == expected
    assert refusal(link) == expected
    store.close()
    opened(link).close()
    os.link(path, path.parent / "hard")
    assert "several names" in refusal(path)


def test_a_lock_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.lock").symlink_to("/dev/full")
    assert refusal(tmp_path / "store").startswith("cannot be locked: ")


def test_a_new_store_on_a_full_disk_is_refused_and_begins_when_there_is_space(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    for size in (0, 2, 100, 4096, 9000, 30_000):
        with largest_file(size), pytest.raises(InputError, match="cannot be "):
            opened(path).close()
    opened(path).close()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:  # modes do not stop root, but this folder takes no files
        folder = Path("/proc")
    else:
        folder = tmp_path / "folder"
        folder.mkdir(mode=0o500)
    assert refusal(folder / "store").startswith("cannot be written: ")


# -- a service on it ---------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    """Return the clocks of services, which have no processes."""
    without_processes(monkeypatch)
    return Time(monkeypatch)


@pytest.fixture
def running(tmp_path: Path, clock: Time) -> Iterator[tuple[Caller, Service]]:
    """Yield a service with application a of one phase."""
    with served(tmp_path / "store") as (caller, service):
        caller.place("a", ["h0", "h4"], p="ring", q="ring")
        yield caller, service


def full(service: Service, pages: int | None = None) -> None:
    """Let the disk of a store be full, or have space for some more pages."""
    database = service.store._database
    (used,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={used + (pages or 0)}")


def test_a_full_disk_changes_nothing_and_is_over_when_there_is_space(
    running: tuple[Caller, Service],
) -> None:
    caller, service = running
    assert caller.call("POST", f"{KEY}/request").status_code == 200
    full(service)
    before = None
    while before is None:  # until the last page is full
        known = state_of(service.ledger)
        response = caller.call("POST", "/v1/applications/a/renew")
        if response.status_code == 507:
            before = known
    for method, path in [
        ("POST", "/v1/applications/a/keys/q/request"), ("POST", f"{KEY}/done"),
        ("POST", "/v1/applications/a/renew"), ("DELETE", "/v1/applications/a"),
    ]:  # fmt: skip
        status, code, message = caller.refused(method, path)
        assert (status, code) == (507, "not_stored")
        assert message.startswith("nothing has changed: ")
        assert "full" in message
        assert state_of(service.ledger) == before
    flows = [(0, 1)] * 1000
    body = {"name": "b", "hosts": ["h1", "h2"], "phases": [{"name": "p", "flows": flows}]}
    assert caller.refused("POST", "/v1/applications", body)[0] == 507
    assert state_of(service.ledger) == before
    assert "full" in caller.call("GET", "/v1/health").json()["problems"][0]
    assert caller.call("GET", KEY).json()["granted"]  # reading works
    full(service, 1000)
    assert caller.call("POST", f"{KEY}/done").status_code == 200
    assert caller.call("GET", "/v1/health").json()["problems"] == []
    caller.place("b", ["h1", "h2"], p="ring")
    assert caller.call("GET", "/v1/applications/b").json()["keys"][0]["state"] == "ready"


def test_keys_that_are_made_while_the_disk_is_full_are_offered_later(
    tmp_path: Path, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick(monkeypatch, 0.01)
    with served(tmp_path / "store") as (caller, service):
        real, tries = service.store.record, []

        def record(batch: list[tuple[Event, object]], tokens: object = None) -> None:
            if any(type(event).__name__ == "Made" for event, _ in batch):
                tries.append(batch)
                if len(tries) < 3:
                    raise StoreFailed("full")
            real(batch, tokens)  # type: ignore[arg-type]

        monkeypatch.setattr(service.store, "record", record)
        caller.call("POST", "/v1/applications", {
            "name": "a", "hosts": ["h0", "h4"], "phases": [{"name": "p", "pattern": "ring"}],
        })  # fmt: skip
        caller.until(lambda: len(tries) == 3)
        caller.until(lambda: caller.call("GET", KEY).json()["state"] == "ready")


def test_keys_are_offered_although_another_change_failed_while_they_were_made(
    tmp_path: Path, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = makers.make
    with served(tmp_path / "store") as (caller, service):

        def make(*arguments: Any) -> Any:
            service._recover()  # as after a change that could not be stored
            return real(*arguments)

        monkeypatch.setattr(makers, "make", make)
        caller.place("a", ["h0", "h4"], p="ring")
        assert caller.call("GET", KEY).json()["state"] == "ready"


def test_a_ledger_that_cannot_be_read_again_is_tried_again(
    running: tuple[Caller, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, service = running
    before = state_of(service.ledger)

    def broken(*_: object) -> None:
        raise WeftError("input/output error")

    def unexpected(*_: object) -> None:
        raise OverflowError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(service.store, "load", broken)
        patch.setattr(service.store, "record", unexpected)
        assert caller.refused("POST", f"{KEY}/request")[0] == 500
        assert caller.refused("POST", f"{KEY}/request")[:2] == (503, "unavailable")
        assert caller.refused("POST", f"{KEY}/done")[:2] == (503, "unavailable")
    assert caller.refused("POST", f"{KEY}/done")[1] == "not_held"
    assert state_of(service.ledger) == before
    assert caller.call("POST", f"{KEY}/request").status_code == 200


@pytest.mark.parametrize("where", ["handle", "view"])
def test_an_error_in_the_code_undoes_its_event_and_no_other_of_the_batch(
    running: tuple[Caller, Service], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    caller, service = running
    real = Ledger._request

    def request(ledger: Ledger, event: Requested) -> Decision:
        answer = real(ledger, event)
        if where == "handle" and event.phase == "q":
            raise ZeroDivisionError
        return answer

    def view(answer: Decision) -> str:
        assert where == "handle" or answer.granted[0].phase != "q"
        return answer.granted[0].phase

    monkeypatch.setattr(Ledger, "_request", request)
    caller.place("b", ["h1", "h5"], p="ring")

    async def ask(application: str, phase: str) -> str:
        return await service.do(lambda now: Requested(now, application, phase, 10**10), view)

    async def ask_all() -> list[Any]:
        three = (ask("a", "p"), ask("a", "q"), ask("b", "p"))
        return await asyncio.gather(*three, return_exceptions=True)

    first, second, third = caller.wait(ask_all())
    assert (first, third) == ("p", "p")
    assert isinstance(second, ZeroDivisionError | AssertionError)
    assert list(service.ledger.grants) == [("a", "p"), ("b", "p")]
    stored = new_ledger()
    service.store.load(stored)
    assert state_of(stored) == state_of(service.ledger)


def test_leases_begin_anew_although_the_ledger_could_not_be_read_at_first(
    running: tuple[Caller, Service], clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, service = running
    caller.call("POST", f"{KEY}/request", {"lease_s": 10})

    def broken(*_: object) -> None:
        raise WeftError("input/output error")

    clock.wall_ns += 3600 * 10**9
    with monkeypatch.context() as patch:
        patch.setattr(service.store, "load", broken)
        service._stale = True
        caller.wait(asyncio.sleep(0.6))
    caller.wait(asyncio.sleep(1.2))
    assert set(service.ledger.grants) == {("a", "p")}


def test_leases_still_end_after_an_error_in_the_code(
    running: tuple[Caller, Service], clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, service = running
    caller.call("POST", f"{KEY}/request", {"lease_s": 10})
    real, tries = service._clock.problem, []

    def problem() -> str:
        tries.append(1)
        return real() if len(tries) > 1 else str(1 // 0)

    monkeypatch.setattr(service._clock, "problem", problem)
    clock.pass_s(11)
    caller.wait(asyncio.sleep(1.2))
    assert not service.ledger.grants


def test_a_lease_that_is_renewed_as_it_ends_goes_on_or_is_said_to_be_over(
    running: tuple[Caller, Service], clock: Time
) -> None:
    caller, service = running
    caller.call("POST", f"{KEY}/request", {"lease_s": 10})

    async def both(*events: Any) -> list[Decision]:
        return await asyncio.gather(*(service.do(event) for event in events))

    def renew(now: int) -> Renewed:
        return Renewed(now, "a")

    (grant,) = service.ledger.grants.values()
    clock.wall_ns = clock.steady_ns = grant.until_ns
    renewed, over = caller.wait(both(renew, Expired))
    assert (len(renewed.granted), over.ended) == (1, ())
    (grant,) = service.ledger.grants.values()
    clock.wall_ns = clock.steady_ns = grant.until_ns
    over, renewed = caller.wait(both(Expired, renew))
    assert (len(over.ended), renewed.granted) == (1, ())


def test_a_restart_keeps_grants_and_begins_their_leases_anew(tmp_path: Path, clock: Time) -> None:
    path = tmp_path / "store"
    with served(path) as (caller, service):
        caller.place("a", ["h0", "h4"], p="ring", q="ring")
        first = caller.call("POST", f"{KEY}/request", {"lease_s": 10}).json()
        version = service.version
        before = state_of(service.ledger)
    clock.pass_s(3600)
    with served(path) as (caller, service):
        (grant,) = caller.call("GET", "/v1/state").json()["grants"]
        assert grant["alternative"] == first["alternative"]
        assert grant["since_ns"] == first["since_ns"]
        assert grant["until_ns"] - clock.wall_ns == pytest.approx(10e9, abs=1e6)
        assert service.version == version + 1  # numbers of changes go on
        after = state_of(service.ledger)
        assert {**after, "grants": 0} == {**before, "grants": 0}
        clock.pass_s(10.1)
        caller.wait(asyncio.sleep(1.2))
        assert caller.call("GET", "/v1/state").json()["grants"] == []


def test_a_client_that_vanishes_gives_its_keys_back_and_one_that_renews_does_not(
    running: tuple[Caller, Service], clock: Time
) -> None:
    caller, service = running
    caller.place("b", ["h1", "h5"], p="ring")
    for name in "ab":
        path = f"/v1/applications/{name}/keys/p/request"
        assert caller.call("POST", path, {"lease_s": 10}).status_code == 200
    for _ in range(3):
        clock.pass_s(4)
        renewed = caller.call("POST", "/v1/applications/a/renew").json()["grants"]
        assert [each["phase"] for each in renewed] == ["p"]
        caller.wait(asyncio.sleep(0.6))
    assert set(service.ledger.grants) == {("a", "p")}
    changes = caller.call("GET", "/v1/applications/b/changes").json()["changes"]
    assert [each["kind"] for each in changes] == ["ready", "expired"]
    assert caller.refused("POST", "/v1/applications/b/keys/p/done")[1] == "not_held"


def test_the_log_begins_anew_when_it_is_old(tmp_path: Path, clock: Time) -> None:
    def kinds() -> list[str]:
        return [json.loads(line)["event"] for _, line in service.store.log()]

    with served(tmp_path / "store", Rules(keep_log_s=3600)) as (caller, service):
        caller.place("a", ["h0", "h4"], p="ring", q="ring")
        caller.call("POST", "/v1/applications/a/keys/q/request", {"lease_s": 10**6})
        for hours in (0.9, 0.2, 0.9, 0.2):
            caller.call("POST", f"{KEY}/request", {"lease_s": 10**6})
            caller.call("POST", f"{KEY}/done")
            clock.pass_s(hours * 3600)
            caller.wait(asyncio.sleep(0.7))
        caller.call("POST", f"{KEY}/request", {"lease_s": 10**6})
        one = ["requested", "returned"]
        made = ["announced", "made", "made"]
        assert kinds() == [*made, "snapshot", *one, *one, "snapshot", "requested"]
        numbers = [number for number, _ in service.store.log()]
        assert numbers == [1, 2, 3, *range(9, 16)]
        # Whoever knows the log up to a line gets what is after it.
        lines = caller.call("GET", "/v1/log", params={"after": 13}).text.splitlines()
        assert [json.loads(line)["number"] for line in lines] == [14, 15]
        found = whole_replay(the_fabric(), recorded(service.store.path).lines, ("fixed",))
    assert (found.events, found.different, found.requests) == (10, 0, 3)


# -- clocks ------------------------------------------------------------------------------------


def test_times_go_on_when_the_clock_is_set_back(
    running: tuple[Caller, Service], clock: Time
) -> None:
    caller, service = running
    first = caller.call("POST", f"{KEY}/request", {"lease_s": 10}).json()
    clock.wall_ns -= 3600 * 10**9
    second = caller.call("POST", "/v1/applications/a/keys/q/request", {"lease_s": 100}).json()
    assert second["since_ns"] > first["since_ns"]
    caller.wait(asyncio.sleep(0.6))
    (problem,) = caller.call("GET", "/v1/health").json()["problems"]
    assert problem.startswith("the clock of the machine is 3600.0 s behind the last event")
    # Time passes all the same.
    clock.pass_s(11)
    caller.wait(asyncio.sleep(0.6))
    assert set(service.ledger.grants) == {("a", "q")}
    times = [json.loads(line)["time_ns"] for _, line in service.store.log()]
    assert times == sorted(set(times))
    # Nobody could renew an hour earlier: a clock that is set right ends no lease.
    clock.wall_ns += 3600 * 10**9
    caller.wait(asyncio.sleep(0.6))
    assert caller.call("GET", "/v1/health").json()["problems"] == []
    assert set(service.ledger.grants) == {("a", "q")}


def test_a_clock_that_is_set_forward_ends_no_lease(
    running: tuple[Caller, Service], clock: Time
) -> None:
    caller, service = running
    caller.call("POST", f"{KEY}/request", {"lease_s": 10})
    clock.wall_ns += 3600 * 10**9
    caller.wait(asyncio.sleep(1.2))
    assert set(service.ledger.grants) == {("a", "p")}
    clock.pass_s(11)
    caller.wait(asyncio.sleep(1.2))
    assert not service.ledger.grants


def test_a_store_of_the_future_is_used_and_said(tmp_path: Path, clock: Time) -> None:
    path = tmp_path / "store"
    with served(path) as (caller, _):
        caller.place("a", ["h0", "h4"], p="ring")
        last = caller.call("POST", f"{KEY}/request").json()["since_ns"]
    clock.wall_ns -= 7200 * 10**9
    with served(path) as (caller, service):
        (problem,) = caller.call("GET", "/v1/health").json()["problems"]
        assert "7200" in problem
        caller.call("POST", f"{KEY}/done")
        assert caller.call("POST", f"{KEY}/request").json()["since_ns"] > last
        assert service.ledger.now_ns > last


# -- a full disk -------------------------------------------------------------------------------


def test_a_service_goes_on_after_its_disk_was_full(tmp_path: Path, clock: Time) -> None:
    with served(tmp_path / "store") as (caller, _):
        caller.place("a", ["h0", "h4"], p="ring")
        assert caller.call("POST", f"{KEY}/request").status_code == 200
        size = max(each.stat().st_size for each in tmp_path.iterdir())
        statuses = []
        with largest_file(size + 20_000):
            for _ in range(200):
                for each in ("done", "request"):
                    statuses.append(caller.call("POST", f"{KEY}/{each}").status_code)
                if 507 in statuses:
                    break
            assert set(statuses) <= {200, 409, 507}
            held = caller.call("GET", KEY).json()["granted"]
            assert held == (statuses.count(200) % 2 == 0)
            assert 507 in statuses
            assert "cannot store" in caller.call("GET", "/v1/health").json()["problems"][0]
        other = "done" if held else "request"
        assert caller.call("POST", f"{KEY}/{other}").status_code == 200
        assert caller.call("GET", "/v1/health").json()["problems"] == []
    store = opened(tmp_path / "store")
    ledger = new_ledger()
    store.load(ledger)
    store.close()
    assert bool(ledger.grants) == (not held)


def replaced(path: Path) -> None:
    """Put a copy of a file into its place."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def cut(path: Path) -> None:
    """Remove the contents of a file."""
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("harm", "end"),
    [(Path.unlink, ""), (replaced, ""), (cut, ""), (Path.unlink, ".lock"), (replaced, ".lock"),
     (Path.unlink, "-wal"), (replaced, "-wal"), (cut, "-wal")],
)  # fmt: skip
def test_a_store_whose_files_are_removed_replaced_or_cut_is_not_written_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None], end: str
) -> None:
    without_processes(monkeypatch)
    tick(monkeypatch, 0.01)
    path = tmp_path / "serve.sqlite"
    file = path.with_name(path.name + end)
    with served(path) as (caller, service):
        caller.place("a", ["h1", "h2"], p="shift:offset=1")
        assert caller.call("POST", "/v1/applications/a/keys/p/request").status_code == 200
        harm(file)
        version = service.version
        body = {"name": "b", "hosts": ["h3"], "phases": [{"name": "p", "flows": []}]}
        for method, address, content in (
            ("POST", "/v1/applications/a/keys/p/done", {}), ("POST", "/v1/applications", body),
            ("DELETE", "/v1/applications/a", None),
        ):  # fmt: skip
            status, code, message = caller.refused(method, address, content)
            assert (status, code) == (507, "not_stored")
            assert "nothing is stored any more" in message
        caller.wait(asyncio.sleep(0.05))
        assert "nothing is stored any more" in str(caller.call("GET", "/v1/health").json())
        assert (service.version, set(service.ledger.applications)) == (version, {"a"})
        # Also when the file is there again: meanwhile another service may have used it.
        if not file.exists():
            file.write_bytes(b"")
            assert caller.refused("DELETE", "/v1/applications/a")[0] == 507
