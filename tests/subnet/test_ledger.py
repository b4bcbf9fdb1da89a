"""The ledger: grants, leases and withdrawals, and refusals that change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.serve_ledgers import HOSTS, PHASES, handled, made, new_ledger, placed, state_of

from weft.subnet.service.ledger import (
    BASE,
    Announced,
    Event,
    Expired,
    Failed,
    KeyGivenBack,
    KeyState,
    Ledger,
    Left,
    Made,
    Refused,
    Renewed,
    Requested,
    Withdrawn,
)


def announced(name: str, *hosts: int, phases: object = None) -> Announced:
    return Announced(9, name, hosts, phases or {})  # type: ignore[arg-type]


@pytest.fixture
def ledger() -> Ledger:
    """Return a ledger with application a, which holds the key of phase p."""
    ledger = new_ledger()
    handled(ledger, *placed("a"), Requested(2, "a", "p", 100))
    return ledger


REFUSED: list[tuple[Event, str, str]] = [
    (Requested(1, "a", "q", 5), "clock_backwards", "the event is 1 ns earlier than the one before"),
    (Requested(9, "b", "p", 5), "unknown_application", "there is no application b"),
    (Requested(9, "a", "r", 5), "unknown_phase", "application a has no phase r"),
    (Requested(9, "a", "p", 5), "in_use", "a already holds the key of phase p"),
    (KeyGivenBack(9, "b", "p"), "unknown_application", "there is no application b"),
    (KeyGivenBack(9, "a", "r"), "unknown_phase", "application a has no phase r"),
    (KeyGivenBack(9, "a", "q"), "not_held", "a does not hold the key of phase q"),
    (Renewed(9, "b"), "unknown_application", "there is no application b"),
    (Left(9, "b"), "unknown_application", "there is no application b"),
    (announced("a", 2), "name_taken", "there is already an application a"),
    (announced("b", 2, 5), "host_taken", "host h5 belongs to application a"),
    (announced("b", 2, 16), "unknown_host", "the fabric has no host 16"),
    (announced("b", -1), "unknown_host", "the fabric has no host -1"),
    (announced("b", 2, 2), "host_twice", "host h2 is named twice"),
    (
        announced("b", 2, 3, phases={"p": ((0,), (1,)), "q": ((0,), (2,))}),
        "unknown_rank", "phase q names rank 2; expected 0 to 1",
    ),
    (
        announced("b", 2, 3, phases={"q": ((-1,), (1,))}),
        "unknown_rank", "phase q names rank -1; expected 0 to 1",
    ),
    (made(9, "a", "q"), "already_made", "the key of phase q is already installed"),
    (Failed(9, "a", "q", "x"), "already_made", "the key of phase q is already installed"),
    (Failed(9, "a", "r", "x"), "unknown_phase", "application a has no phase r"),
    (
        Withdrawn(9, (("a", "p"), ("a", "r")), "cable"),
        "unknown_phase", "application a has no phase r",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("event", "code", "message"), REFUSED, ids=lambda each: str(each)[:40])
def test_what_is_refused_changes_nothing(
    ledger: Ledger, event: Event, code: str, message: str
) -> None:
    before = state_of(ledger)
    with pytest.raises(Refused) as refused:
        ledger.handle(event)
    assert (refused.value.code, refused.value.message) == (code, message)
    assert state_of(ledger) == before
    assert ledger.now_ns == 2  # a refused event has not happened


def test_a_grant_says_what_was_granted_and_until_when(ledger: Ledger) -> None:
    grant = ledger.grants["a", "p"]
    assert (grant.since_ns, grant.lease_ns, grant.until_ns) == (2, 100, 102)
    assert (grant.alternative, grant.generation) == (0, 1)
    key = ledger.phase("a", "p").key
    assert key is not None
    assert ledger.loads.sum() == len(key.links(0)[1])


def test_loads_are_the_sum_of_the_granted_paths() -> None:
    ledger = new_ledger()
    handled(ledger, *placed("a"), *placed("b"))
    expected = np.zeros(len(ledger.loads), dtype=int)
    base = expected.copy()
    for application, phase in [("a", "p"), ("b", "p"), ("b", "q"), ("a", "q")]:
        (grant,) = ledger.handle(Requested(3, application, phase, 9)).granted
        known = ledger.phase(application, phase)
        assert known.key is not None
        assert known.base is not None
        for loads, key, number in [(expected, known.key, grant.alternative), (base, known.base, 0)]:
            edge_of = {int(link): at for at, link in enumerate(ledger.network.edge)}
            graph = ledger.network.fabric.graph
            for link in key.links(number)[1].tolist():
                loads[edge_of[int(graph.edge_of_link[link])]] += 1
    assert ledger.loads.tolist() == expected.tolist()
    assert ledger.base_loads.tolist() == base.tolist()
    # The alternatives let the four keys pass each other better than the base routes.
    assert ledger.loads.max() <= ledger.base_loads.max()
    for application in "ab":
        ledger.handle(Left(4, application))
    assert not ledger.loads.any()
    assert not ledger.base_loads.any()
    assert not state_of(ledger)["known"]
    assert not ledger._taken


def test_a_lease_ends_at_its_time_and_not_before(ledger: Ledger) -> None:
    assert ledger.handle(Expired(101)).ended == ()
    answer = ledger.handle(Expired(102))
    assert [(each.phase, answer.reason) for each in answer.ended] == [("p", "expired")]
    assert not ledger.loads.any()
    with pytest.raises(Refused, match="does not hold"):
        ledger.handle(KeyGivenBack(103, "a", "p"))
    assert ledger.handle(Requested(103, "a", "p", 7)).granted[0].until_ns == 110


def test_a_renewal_prolongs_all_grants_of_the_application_and_no_other(ledger: Ledger) -> None:
    handled(ledger, *placed("b", 3), Requested(4, "b", "p", 100), Requested(5, "a", "q", 1000))
    answer = ledger.handle(Renewed(50, "a"))
    assert {(each.phase, each.until_ns) for each in answer.granted} == {("p", 150), ("q", 1050)}
    assert {each.since_ns for each in answer.granted} == {2, 5}
    assert ledger.grants["b", "p"].until_ns == 104
    assert [each.application for each in ledger.handle(Expired(149)).ended] == ["b"]
    assert [each.phase for each in ledger.handle(Expired(150)).ended] == ["p"]


def test_a_withdrawn_key_is_given_back_and_made_anew(ledger: Ledger) -> None:
    answer = ledger.handle(Withdrawn(3, (("a", "p"), ("a", "q")), "cable"))
    assert [each.phase for each in answer.ended] == ["p"]
    assert answer.reason == "withdrawn"
    assert not ledger.loads.any()
    for name in PHASES:
        phase = ledger.phase("a", name)
        assert (phase.state, phase.reason, phase.key) == (KeyState.MAKING, "cable", None)
    with pytest.raises(
        Refused, match="the key of phase p is not in the tables yet: cable"
    ) as refused:
        ledger.handle(Requested(4, "a", "p", 5))
    assert refused.value.code == "not_ready"
    ledger.handle(made(5, "a", "p"))
    assert ledger.handle(Requested(6, "a", "p", 5)).granted[0].generation == 2


def test_a_failed_key_says_why_and_can_be_made_later() -> None:
    ledger = new_ledger()
    handled(ledger, placed("a")[0], Failed(2, "a", "p", "no path"))
    with pytest.raises(Refused, match="could not be made: no path") as refused:
        ledger.handle(Requested(3, "a", "p", 5))
    assert refused.value.code == "key_failed"
    handled(ledger, made(4, "a", "p"), Requested(5, "a", "p", 5))
    assert ledger.phase("a", "p").reason == ""


def test_while_tables_are_missing_base_routes_are_granted_as_configured() -> None:
    ledger = new_ledger("base")
    handled(ledger, placed("a")[0])
    (grant,) = ledger.handle(Requested(2, "a", "p", 5)).granted
    assert (grant.alternative, grant.generation) == (BASE, 0)
    assert not ledger.loads.any()
    # The key arrives while the base routes are in use, which then need not be given back to it.
    ledger.handle(made(3, "a", "p"))
    assert ledger.handle(KeyGivenBack(4, "a", "p")).ended == (grant,)
    assert not ledger.loads.any()
    assert ledger.handle(Requested(5, "a", "p", 5)).granted[0].alternative == 0
    # A failed key is no reason to refuse either.
    handled(ledger, *placed("b", 6)[:1], Failed(6, "b", "q", "no path"))
    assert ledger.handle(Requested(7, "b", "q", 5)).granted[0].alternative == BASE


def test_hosts_of_an_application_that_left_are_free(ledger: Ledger) -> None:
    answer = ledger.handle(Left(3, "a"))
    assert [(each.phase, answer.reason) for each in answer.ended] == [("p", "left")]
    ledger.handle(Announced(4, "c", HOSTS["a"], {}))
    assert ledger._taken == dict.fromkeys(HOSTS["a"], "c")


def test_the_same_events_lead_to_the_same_state() -> None:
    events: list[Event] = [
        *placed("a"), *placed("b"), Requested(2, "a", "p", 50), Requested(3, "b", "p", 50),
        KeyGivenBack(4, "a", "p"), Requested(4, "b", "q", 9), Expired(20),
        Requested(21, "a", "q", 5),
    ]  # fmt: skip
    one, other = new_ledger(), new_ledger()
    assert [a for _, a in handled(one, *events)] == [a for _, a in handled(other, *events)]
    assert state_of(one) == state_of(other)
    assert any(isinstance(event, Made) for event in events)
