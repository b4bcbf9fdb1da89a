"""The max-min kernel against its reference implementation, while flows start and end."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.reference.maxmin import is_max_min_fair, max_min_rates
from weft.core.errors import InputError
from weft.kernels.flow.maxmin import (
    MOST_PATIENCE,
    maxmin_add,
    maxmin_remove,
    maxmin_solve,
)
from weft.sim.flow.sharing import maxmin_state

SLOTS = 48


class Shared:
    """State of the kernel, and the same flows and capacities for the reference."""

    def __init__(
        self,
        capacity: list[Fraction],
        routes: list[dict[int, Fraction]],
        *,
        slots: int = SLOTS,
        weighted: bool = False,
    ) -> None:
        self.capacity = dict(enumerate(capacity))
        self.routes = routes
        self.flows: dict[Any, dict[int, Fraction]] = {}
        links = [link for uses in routes for link in uses]
        shares = [float(share) for uses in routes for share in uses.values()]
        self.state = maxmin_state(
            np.array([float(value) for value in capacity]),
            np.cumsum([0, *map(len, routes)]).astype(np.int64),
            np.array(links, dtype=np.int32),
            np.array(shares if weighted else [], dtype=np.float64),
            slots,
        )
        self.slack = 0.0
        self.rate = np.zeros(slots)
        self.changed = np.zeros(slots, dtype=np.int32)

    def add(self, slot: int, route: int) -> None:
        maxmin_add(self.state, slot, route)
        self.flows[slot] = self.routes[route]

    def remove(self, slot: int) -> None:
        maxmin_remove(self.state, slot)
        del self.flows[slot]

    def solve(self) -> list[int]:
        count = maxmin_solve(self.state, self.rate, self.changed, self.slack)
        return self.changed[:count].tolist()

    def agrees(self) -> None:
        rates = max_min_rates(self.capacity, self.flows)
        for slot, rate in rates.items():
            assert self.rate[slot] == pytest.approx(float(rate), rel=1e-9)
        result = {slot: float(self.rate[slot]) for slot in self.flows}
        assert is_max_min_fair(self.capacity, self.flows, result)


def random_case(seed: int, *, weighted: bool) -> tuple[Shared, np.random.Generator]:
    random = np.random.default_rng(seed)
    links = int(random.integers(2, 24))
    # With few distinct capacities rates are often equal, with many they seldom are.
    spread = 3 if seed % 2 else 1000
    capacity = [Fraction(int(value), 7) for value in random.integers(1, 1 + spread, links)]
    routes = []
    for _ in range(30):
        length = int(random.integers(1, min(links, 6) + 1))
        members = random.choice(links, length, replace=False).tolist()
        parts = random.integers(1, 9, length).tolist() if weighted else [8] * length
        routes.append({link: Fraction(part, 8) for link, part in zip(members, parts, strict=True)})
    return Shared(capacity, routes, weighted=weighted), random


@pytest.mark.sampled(12)
@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(18))
def test_rates_and_changes_agree_while_flows_start_and_end(
    seed: int, weighted: bool, filled: bool
) -> None:
    case, random = random_case(seed, weighted=weighted)
    most = (4, 12, SLOTS)[seed % 3]
    for _ in range(25):
        before = {slot: (case.rate[slot], id(case.flows[slot])) for slot in case.flows}
        added = set()
        for _ in range(int(random.integers(1, (2, 8)[seed % 2] + 1))):
            free = [slot for slot in range(SLOTS) if slot not in case.flows]
            if case.flows and (random.random() < len(case.flows) / most or not free):
                slot = int(random.choice(list(case.flows)))
                case.remove(slot)
                added.discard(slot)
            else:
                slot = int(random.choice(free))
                case.add(slot, int(random.integers(30)))
                added.add(slot)
        if filled and random.random() < 0.5:
            # Pretend that revision takes too long: later revisions start from this full solution.
            case.state.count.patience = -MOST_PATIENCE * 1000
        listed = case.solve()
        if filled:
            case.state.count.patience = MOST_PATIENCE
        case.agrees()
        assert len(set(listed)) == len(listed)
        kept = case.flows.keys() - added
        assert set(listed) >= added
        # Exactly the slots whose rate changed are listed.
        assert set(listed) - added == {slot for slot in kept if case.rate[slot] != before[slot][0]}


@pytest.mark.parametrize("weighted", [False, True])
def test_with_slack_rates_are_fair_within_twice_the_slack(weighted: bool) -> None:
    inexact = 0
    for seed in range(12):
        case, random = random_case(2 * seed, weighted=weighted)
        case.slack = 0.05
        for _ in range(60):
            free = [slot for slot in range(SLOTS) if slot not in case.flows]
            if case.flows and (random.random() < 0.4 or not free):
                case.remove(int(random.choice(list(case.flows))))
            else:
                case.add(int(random.choice(free)), int(random.integers(30)))
            case.solve()
            result = {slot: float(case.rate[slot]) for slot in case.flows}
            assert is_max_min_fair(case.capacity, case.flows, result, slack=2 * case.slack)
            inexact += not is_max_min_fair(case.capacity, case.flows, result)
    assert inexact > 100  # the slack is used


def test_solving_again_changes_nothing() -> None:
    case, _ = random_case(0, weighted=False)
    case.add(3, 0)
    case.add(4, 1)
    assert set(case.solve()) == {3, 4}
    rates = case.rate.copy()
    assert case.solve() == []
    assert np.array_equal(case.rate, rates)


def test_rounding_errors_of_sums_do_not_hide_free_capacity() -> None:
    """Two fast flows cross a link beside five slow ones; one of the fast flows ends."""
    one = Fraction(1)
    case = Shared([5 * one, one], [{0: one}, {0: one, 1: one}])
    for slot in range(7):
        case.add(slot, 0 if slot < 2 else 1)
    case.solve()
    assert case.rate[:7] == pytest.approx([2, 2, *[0.2] * 5])
    case.remove(0)
    # As after very many changes: the sums leave less capacity than the other fast flow's rate.
    case.state.links["rest"][0] = 1.9
    filled = int(case.state.count.filled)
    assert case.solve() == [1]
    case.agrees()
    assert case.state.count.filled == filled  # corrected by a revision


def test_flows_without_a_link_in_common_are_not_revised() -> None:
    # Two components without a common link; a wrong rate stays if it is not recomputed.
    case = Shared([Fraction(1)] * 4, [{0: Fraction(1), 1: Fraction(1)}, {2: Fraction(1)}])
    case.add(0, 0)
    case.add(1, 1)
    case.solve()
    case.rate[1] = 99.0
    case.add(2, 0)
    assert set(case.solve()) == {0, 2}
    assert case.rate.tolist()[:3] == [0.5, 99.0, 0.5]


def test_a_flow_removed_before_solving_is_not_listed() -> None:
    case, _ = random_case(0, weighted=False)
    case.add(0, 0)
    case.remove(0)
    assert case.solve() == []


def test_a_slot_used_again_at_the_same_rate_is_listed() -> None:
    case = Shared([Fraction(1)] * 2, [{0: Fraction(1)}, {1: Fraction(1)}])
    case.add(0, 0)
    case.solve()
    case.remove(0)
    case.add(0, 1)
    assert case.solve() == [0]


def test_lists_of_flows_grow_and_are_laid_out_anew() -> None:
    # All slots cross one link after another, so the lists of links outgrow their space often.
    slots, links = 64, 24
    routes = [{link: Fraction(1), (link + 1) % links: Fraction(1)} for link in range(links)]
    case = Shared([Fraction(3)] * links, routes, slots=slots)
    for iteration in range(3 * links):
        for slot in range(slots):
            case.add(slot, iteration % links)
        case.solve()
        assert case.rate == pytest.approx(3 / slots)
        for slot in range(slots):
            case.remove(slot)


@pytest.mark.parametrize(
    ("capacity", "share", "slots", "message"),
    [
        ([1.0, 0.0], [], 4, "capacities of links must be above 0"),
        ([1.0, np.nan], [], 4, "capacities of links must be above 0"),
        ([1.0, 1.0], [0.5, 0.0], 4, "above 0"),
        ([1.0, 1.0], [], 2**31, "too many"),
    ],
)
def test_bad_sharing_states_are_rejected(
    capacity: list[float], share: list[float], slots: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        maxmin_state(
            np.array(capacity),
            np.array([0, 2]),
            np.array([0, 1], dtype=np.int32),
            np.array(share),
            slots,
        )
