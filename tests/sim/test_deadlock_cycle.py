"""The deadlock proof: cycles of channel dependencies, found and explained."""

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.sim.packet.congestion_trees import cycles_of, deadlock_cycle


def state(links, lanes, waits):
    """Return the arrays of a state; `waits` is {(link, vl): (link, vl, why)}."""
    wants = np.full((links, lanes), -1, dtype=np.int32)
    wants_vl = np.zeros((links, lanes), dtype=np.int8)
    why = np.zeros((links, lanes), dtype=np.uint8)
    for buffer, (link, vl, reason) in waits.items():
        wants[buffer], wants_vl[buffer], why[buffer] = link, vl, reason
    return wants, wants_vl, why


def test_ring_of_full_buffers_is_found_in_order():
    ring = {(0, 0): (4, 0, 2), (4, 0): (2, 0, 2), (2, 0): (6, 0, 2), (6, 0): (0, 0, 2)}
    # Buffers that wait for the ring, and one that waits for a busy link, are not part of it.
    others = {(1, 0): (0, 0, 2), (3, 0): (1, 0, 2), (5, 0): (7, 0, 1)}
    cycle = deadlock_cycle(*state(8, 1, ring | others))
    assert cycle == [(0, 0), (4, 0), (2, 0), (6, 0)]


def test_cycle_that_moves_is_no_deadlock():
    waits = {(0, 0): (1, 0, 2), (1, 0): (2, 0, 1), (2, 0): (0, 0, 2)}
    assert deadlock_cycle(*state(3, 1, waits)) == []


@pytest.mark.parametrize("why", [0, 1, 3, 4])
def test_only_waits_for_credits_form_a_cycle(why):
    waits = {(0, 0): (1, 0, why), (1, 0): (0, 0, 2)}
    assert deadlock_cycle(*state(2, 1, waits)) == []


def test_lanes_of_a_link_are_distinguished():
    # The links form a cycle, but the lanes do not.
    waits = {(0, 0): (1, 0, 2), (1, 0): (2, 0, 2), (2, 0): (0, 1, 2), (0, 1): (1, 1, 2)}
    assert deadlock_cycle(*state(3, 2, waits)) == []
    waits[1, 1] = (2, 1, 2)
    waits[2, 1] = (0, 1, 2)
    assert deadlock_cycle(*state(3, 2, waits)) == [(0, 1), (1, 1), (2, 1)]


def test_cycle_may_change_lanes():
    waits = {(0, 1): (1, 0, 2), (1, 0): (0, 1, 2)}
    assert deadlock_cycle(*state(2, 2, waits)) == [(0, 1), (1, 0)]


def test_of_several_cycles_the_shortest_then_lowest_is_returned():
    three = {(0, 0): (1, 0, 2), (1, 0): (2, 0, 2), (2, 0): (0, 0, 2)}
    two = {(7, 0): (8, 0, 2), (8, 0): (7, 0, 2)}
    other = {(4, 0): (5, 0, 2), (5, 0): (4, 0, 2)}
    assert deadlock_cycle(*state(9, 1, three | two)) == [(7, 0), (8, 0)]
    assert deadlock_cycle(*state(9, 1, three | two | other)) == [(4, 0), (5, 0)]


def test_there_is_no_cycle_if_nothing_waits():
    assert deadlock_cycle(*state(4, 2, {})) == []


@pytest.mark.parametrize("seed", range(20))
def test_cycles_agree_with_following_every_node(seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 40))
    after = random.integers(-1, size, size).astype(np.int64)
    on_cycle = set()
    for start in range(size):
        at = start
        for _ in range(size):
            at = after[at] if at >= 0 else -1
            if at == start:
                on_cycle.add(start)
    cycles = cycles_of(after)
    assert sorted(node for cycle in cycles for node in cycle) == sorted(on_cycle)
    for cycle in cycles:
        assert cycle[0] == min(cycle)
        assert [int(after[node]) for node in cycle] == [*cycle[1:], cycle[0]]


def test_arrays_that_do_not_fit_are_refused():
    wants, wants_vl, why = state(3, 2, {(0, 0): (1, 0, 2)})
    with pytest.raises(InputError, match=r"the state of buffers"):
        deadlock_cycle(wants, wants_vl[:2], why)
    with pytest.raises(InputError, match=r"the state of buffers"):
        deadlock_cycle(wants.ravel(), wants_vl.ravel(), why.ravel())
    wants[0, 0] = 3
    with pytest.raises(InputError, match="link 0, lane 0 waits for link 3"):
        deadlock_cycle(wants, wants_vl, why)
