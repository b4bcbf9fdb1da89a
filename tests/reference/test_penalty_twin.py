from __future__ import annotations

import numpy as np
import pytest

from tests.reference import penalty as plain
from weft.kernels.flow.penalty import penalty_add, penalty_remove, penalty_solve
from weft.sim.flow.contention import INFINIBAND, PenaltyModel
from weft.sim.flow.contention.model import penalties
from weft.sim.flow.contention.penalty_state import penalty_state

MODELS = [
    INFINIBAND,
    PenaltyModel(out_offset=-0.25, out_weight=0.75, in_weight=0.5, balanced_weight=0.5),
    PenaltyModel(back_pressure=0.375, full_rate_weight=2.0, in_exponent=0.5),
    PenaltyModel(back_pressure=0.0, in_exponent=0.0, balanced_weight=1.0),
]


def leaf_spine(random: np.random.Generator, leaves: int, per_leaf: int, spines: int, split: bool):
    """Return routes of all host pairs in a two-level tree, link rates and the number of hosts."""
    hosts = leaves * per_leaf
    up = 2 * hosts + np.arange(leaves * spines).reshape(leaves, spines)
    down = up + leaves * spines
    offset, link, share, pair = [0], [], [], {}
    for s in range(hosts):
        for d in range(hosts):
            if s == d:
                continue
            a, b = s // per_leaf, d // per_leaf
            middle, part = [], []
            if a != b:
                weight = random.integers(1, 4, size=spines) if split else np.zeros(spines)
                if not split:
                    weight[random.integers(spines)] = 1
                for v in np.flatnonzero(weight):
                    middle += [up[a, v], down[b, v]]
                    part += [weight[v] / weight.sum()] * 2
            pair[s, d] = len(offset) - 1
            link += [s, *middle, hosts + d]
            share += [1.0, *part, 1.0]
            offset.append(len(link))
    capacity = random.choice([2.0, 3.125, 12.5], size=2 * hosts + 2 * leaves * spines)
    shares = np.array(share) if split else np.zeros(0)
    return np.array(offset), np.array(link, dtype=np.int32), shares, capacity, pair, hosts


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
@pytest.mark.parametrize("split", [False, True], ids=["one-way", "split"])
def test_rates_agree_as_flows_start_and_end(model: PenaltyModel, split: bool) -> None:
    random = np.random.default_rng(7)
    cut = 0
    for _ in range(3):
        offset, link, share, capacity, pair, hosts = leaf_spine(random, 3, 3, 2, split)
        slots = 14
        state = penalty_state(capacity, offset, link, share, slots, hosts, model=model)
        inner = np.arange(len(capacity)) >= 2 * hosts
        rate, changed = np.zeros(slots), np.zeros(slots, dtype=np.int32)
        running: dict[int, tuple[int, int]] = {}
        for _ in range(40):
            fresh = []
            for _ in range(int(random.integers(1, 4))):
                if running and random.random() < 0.42:
                    slot = int(random.choice(list(running)))
                    penalty_remove(state, slot, *running.pop(slot))
                elif len(running) < slots:
                    s, d = random.choice(hosts, size=2, replace=False).tolist()
                    d = d if random.random() < 0.6 or s < 2 else int(random.integers(2))
                    slot = min(set(range(slots)) - set(running))
                    running[slot] = (s, d)
                    penalty_add(state, slot, pair[s, d], s, d)
                    fresh.append(slot)
            before = rate.copy()
            count = penalty_solve(state, rate, changed)
            listed = changed[:count].tolist()
            assert len(set(listed)) == count
            assert {slot for slot in fresh if slot in running} <= set(listed) <= set(running)
            flows = []
            for s, d in running.values():
                at = slice(offset[pair[s, d]], offset[pair[s, d] + 1])
                parts = share[at] if split else np.ones(at.stop - at.start)
                flows.append(
                    plain.Flow(s, d, dict(zip(link[at].tolist(), parts.tolist(), strict=True)))
                )
            expected = plain.rates(flows, capacity.tolist(), inner.tolist(), model)
            result = rate[list(running)]
            np.testing.assert_allclose(result, expected, rtol=1e-11)
            silent = [slot for slot in running if slot not in listed]
            np.testing.assert_array_equal(rate[silent], before[silent])
            free = plain.rates(flows, capacity.tolist(), [False] * len(inner), model)
            cut += int(np.sum(np.array(expected) < np.array(free) * 0.999))
    assert cut > 40


@pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
def test_rates_on_one_switch_with_equal_links_are_those_of_the_model(model: PenaltyModel) -> None:
    random = np.random.default_rng(8)
    hosts, slots = 7, 20
    pairs = [(s, d) for s in range(hosts) for d in range(hosts) if s != d]
    link = np.array([[s, hosts + d] for s, d in pairs], dtype=np.int32).ravel()
    offset = np.arange(len(pairs) + 1) * 2
    for _ in range(30):
        state = penalty_state(
            np.full(2 * hosts, 12.5), offset, link, np.zeros(0), slots, hosts, model=model
        )
        chosen = random.integers(len(pairs), size=int(random.integers(1, slots + 1)))
        for slot, route in enumerate(chosen.tolist()):
            penalty_add(state, slot, route, *pairs[route])
        rate, changed = np.zeros(slots), np.zeros(slots, dtype=np.int32)
        assert penalty_solve(state, rate, changed) == len(chosen)
        ends = np.array([pairs[route] for route in chosen]).T
        expected = 12.5 / penalties(*ends, model=model)
        np.testing.assert_allclose(rate[: len(chosen)], expected, rtol=1e-12)


def test_another_flow_of_a_shared_source_changes_the_rate_of_full_rate_senders() -> None:
    # Node 0 is the receiver; 1 is the full-rate sender; 2, 3 and 4 have more flows. If demand does
    # not depend on the out-degree, one more flow from 2 changes no sum at the receiver.
    model = PenaltyModel(in_exponent=0.0)
    pairs = [
        (1, 0),
        (2, 0),
        (2, 5),
        (2, 6),
        (3, 0),
        (3, 7),
        (4, 0),
        *((4, d) for d in (7, 8, 9, 1)),
    ]
    pairs += [(5, 6), (6, 5), (7, 5), (8, 6), (2, 9)]
    offset, link = np.arange(len(pairs) + 1) * 2, []
    for s, d in pairs:
        link += [s, 10 + d]
    state = penalty_state(
        np.ones(20), offset, np.array(link, dtype=np.int32), np.zeros(0), 20, 10, model=model
    )
    rate, changed = np.zeros(20), np.zeros(20, dtype=np.int32)
    for count in (len(pairs) - 1, len(pairs)):
        for slot in range(count)[-1:] if count == len(pairs) else range(count):
            penalty_add(state, slot, slot, *pairs[slot])
        first = rate[0]
        penalty_solve(state, rate, changed)
        expected = 1 / penalties(*zip(*pairs[:count], strict=True), model=model)
        np.testing.assert_allclose(rate[:count], expected, rtol=1e-12)
    assert rate[0] != first


@pytest.mark.parametrize("split", [False, True], ids=["one-way", "split"])
@pytest.mark.parametrize("model", MODELS[::2], ids=["IB", "other"])
def test_links_are_filled_and_rates_do_not_depend_on_past_flows(model, split: bool) -> None:
    """After thousands of flows, rates equal those of the same flows added to a new state."""
    random = np.random.default_rng(9)
    offset, link, share, capacity, pair, hosts = leaf_spine(random, 4, 4, 2, split)
    slots = 40
    state = penalty_state(capacity, offset, link, share, slots, hosts, model=model)
    rate, changed = np.zeros(slots), np.zeros(slots, dtype=np.int32)
    running: dict[int, tuple[int, int]] = {}
    full = 0
    for event in range(4000):
        slot = int(random.integers(slots))
        if slot in running:
            penalty_remove(state, slot, *running.pop(slot))
        else:
            s, d = random.choice(hosts, size=2, replace=False).tolist()
            running[slot] = (s, d)
            penalty_add(state, slot, pair[s, d], s, d)
        penalty_solve(state, rate, changed)
        if event % 200 != 199:
            continue
        load = np.zeros(len(capacity))
        once = penalty_state(capacity, offset, link, share, slots, hosts, model=model)
        for slot in random.permutation(list(running)).tolist():
            at = slice(offset[pair[running[slot]]], offset[pair[running[slot]] + 1])
            load[link[at]] += rate[slot] * (share[at] if split else 1.0)
            assert rate[slot] <= min(capacity[link[at][[0, -1]]]) * (1 + 1e-12)
            penalty_add(once, slot, pair[running[slot]], *running[slot])
        fresh = np.zeros(slots)
        penalty_solve(once, fresh, changed)
        np.testing.assert_allclose(rate[list(running)], fresh[list(running)], rtol=1e-12)
        inner = slice(2 * hosts, None)
        assert (load[inner] <= capacity[inner] * (1 + 1e-12)).all()
        full += int(np.sum(load[inner] > capacity[inner] * 0.999))
    assert full > 20
