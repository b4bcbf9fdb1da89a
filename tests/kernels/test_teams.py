"""Teams of threads: barriers order what members write, and errors end the whole team."""

from __future__ import annotations

import time

import numpy as np
import pytest

from weft.kernels.lean import lean_njit
from weft.kernels.teams import Team, fetch_add, load, meet, store


@lean_njit(nogil=True)
def _in_turn(barrier, seen, tickets, member, members, meetings):
    """Write at each meeting a number that depends on what all members wrote before it."""
    for number in range(meetings):
        total = np.int64(0)
        for other in range(members):
            total += seen[(number & 1) * members + other]
        seen[((number + 1) & 1) * members + member] = total % 1000 + member + 1
        fetch_add(tickets, 0, 1)
        if not meet(barrier, members):
            return np.int64(-1)
    return load(tickets, 0)


@lean_njit(nogil=True)
def _message(barrier, box, member):
    """Pass a value from member 1 to member 0 through the entry that says that it is there."""
    if member:
        box[0] = 42
        store(box, 1, 1)
        return np.int64(0)
    while not load(box, 1):
        pass
    return box[0]


@pytest.mark.parametrize("members", [1, 2, 3, 7])
def test_all_members_see_what_was_written_before_a_meeting(members: int) -> None:
    meetings = 500
    expected = np.zeros(members, dtype=np.int64)
    for _ in range(meetings):
        expected = expected.sum() % 1000 + np.arange(members) + 1
    seen, tickets = np.zeros(2 * members, dtype=np.int64), np.zeros(1, dtype=np.int64)
    with Team(members) as team:
        for _ in range(2):
            seen[:] = tickets[:] = 0
            own = [
                (team.barrier, seen, tickets, each, members, meetings) for each in range(members)
            ]
            assert team.run(_in_turn, own) == [members * meetings] * members
            at = (meetings & 1) * members
            assert (seen[at : at + members] == expected).all()


def test_a_stored_entry_shows_what_was_written_before_it() -> None:
    with Team(2) as team:
        for _ in range(50):
            box = np.zeros(2, dtype=np.int64)
            assert team.run(_message, [(team.barrier, box, 0), (team.barrier, box, 1)]) == [42, 0]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("failing", [0, 2])
def test_an_error_of_one_member_ends_the_team_and_is_raised_once(
    failing: int, error: type[BaseException]
) -> None:
    results = []

    def kernel(member: int, *own: object) -> None:
        if member == failing:
            raise error("broken")
        results.append(_in_turn(*own))

    seen, tickets = np.zeros(6, dtype=np.int64), np.zeros(1, dtype=np.int64)
    with Team(3) as team:
        own = [(each, team.barrier, seen, tickets, each, 3, 10) for each in range(3)]
        with pytest.raises(error, match="broken"):
            team.run(kernel, own)
        assert results == [-1, -1]
        again = [(team.barrier, seen, tickets, each, 3, 10) for each in range(3)]
        tickets[:] = 0
        assert team.run(_in_turn, again) == [30] * 3  # the team can go on


def test_a_meeting_of_more_members_than_processors_takes_microseconds() -> None:
    """A waiting member that kept its processor would hold up the others for milliseconds each."""
    members, meetings = 8, 400
    seen, tickets = np.zeros(2 * members, dtype=np.int64), np.zeros(1, dtype=np.int64)
    own = [(seen, tickets, each, members, meetings) for each in range(members)]
    with Team(members) as team:
        team.run(_in_turn, [(team.barrier, *each) for each in own])
        began = time.process_time()
        team.run(_in_turn, [(team.barrier, *each) for each in own])
        assert (time.process_time() - began) / meetings < 2e-3
