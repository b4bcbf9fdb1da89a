"""Each traffic pattern against its definition, written by hand or calculated independently."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.workload.patterns import Pairs, pattern, traffic
from weft.workload.patterns.pattern_registry import MAX_FLOWS


def as_map(flows: Pairs) -> dict[int, int]:
    result = dict(zip(flows.sources.tolist(), flows.destinations.tolist(), strict=True))
    assert len(result) == len(flows)
    return result


def as_bag(flows: Pairs) -> Counter[tuple[int, int]]:
    return Counter(zip(flows.sources.tolist(), flows.destinations.tolist(), strict=True))


def test_all_to_all_lists_every_ordered_pair_once() -> None:
    assert as_bag(traffic(5, "all-to-all")) == Counter(
        (s, d) for s, d in product(range(5), range(5)) if s != d
    )


def test_all_to_all_refuses_more_flows_than_fit_in_memory() -> None:
    with pytest.raises(NotApplicable, match=r"46656 hosts has 2,176,735,680 flows"):
        traffic(46656, "all-to-all")
    assert MAX_FLOWS >= 8192 * 8191


def test_shift() -> None:
    assert as_map(traffic(4, "shift")) == {0: 1, 1: 2, 2: 3, 3: 0}
    assert as_map(traffic(4, "shift:offset=-1")) == {0: 3, 1: 0, 2: 1, 3: 2}
    assert as_map(traffic(4, "shift", offset=6)) == {0: 2, 1: 3, 2: 0, 3: 1}
    with pytest.raises(NotApplicable, match=r"shift by 8 .*4 hosts"):
        traffic(4, "shift:offset=8")


def test_ring_natural() -> None:
    assert as_bag(traffic(4, "ring-natural")) == Counter(
        [(0, 1), (1, 2), (2, 3), (3, 0), (1, 0), (2, 1), (3, 2), (0, 3)]
    )
    assert as_map(traffic(3, "ring:two_way=false")) == {0: 1, 1: 2, 2: 0}
    assert as_bag(traffic(2, "ring-natural")) == Counter({(0, 1): 2, (1, 0): 2})


@pytest.mark.parametrize("seed", range(5))
def test_ring_random_is_one_ring_in_both_directions(seed: int) -> None:
    flows = traffic(9, "ring-random", seed=seed)
    bag = as_bag(flows)
    assert bag == Counter({(d, s): n for (s, d), n in bag.items()})
    right = as_map(traffic(9, "ring-random", seed=seed, two_way=False))
    assert len(flows) == 18
    assert all(bag[pair] == 1 for pair in right.items())
    at, visited = 0, []
    for _ in range(9):
        visited.append(at)
        at = right[at]
    assert at == 0
    assert sorted(visited) == list(range(9))
    assert visited != list(range(9))


def bits(number: int, width: int) -> str:
    return f"{number:0{width}b}"


BIT_STRINGS = {
    "bit-reversal": lambda text: text[::-1],
    "bit-rotation": lambda text: text[-1] + text[:-1],
    "butterfly": lambda text: text[-1] + text[1:-1] + text[0],
    "complement": lambda text: text.translate(str.maketrans("01", "10")),
    "shuffle": lambda text: text[1:] + text[0],
    "transpose": lambda text: text[len(text) // 2 :] + text[: len(text) // 2],
}


#: Destinations of the hosts 0 to 15, by hand: the permutations of Petrini et al. 2003, section 4.4.
OF_SIXTEEN = {
    "bit-reversal": [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15],
    "butterfly": [0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15],
    "complement": [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
    "transpose": [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15],
    "shuffle": [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15],
    "adjacent-pairs": [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14],
}


@pytest.mark.parametrize("name", OF_SIXTEEN)
def test_permutations_of_sixteen_hosts(name: str) -> None:
    expected = {s: d for s, d in enumerate(OF_SIXTEEN[name]) if s != d}
    assert as_map(traffic(16, name)) == expected


def test_a_host_without_a_partner_is_idle() -> None:
    assert as_map(traffic(5, "adjacent-pairs")) == {0: 1, 1: 0, 2: 3, 3: 2}


def test_every_binary_pattern_has_a_definition_here() -> None:
    assert set(BIT_STRINGS) == {entry.name for entry in pattern if entry.facts.get("binary")}


@pytest.mark.parametrize("name", BIT_STRINGS)
@pytest.mark.parametrize("width", [2, 3, 4, 6, 9])
def test_binary_patterns_permute_bits(name: str, width: int) -> None:
    if name == "transpose" and width % 2:
        with pytest.raises(NotApplicable, match=rf"even number of bits; {2**width} hosts"):
            traffic(2**width, name)
        return
    expected = {n: int(BIT_STRINGS[name](bits(n, width)), 2) for n in range(2**width)}
    moving = {s: d for s, d in expected.items() if s != d}
    assert as_map(traffic(2**width, name)) == moving


@pytest.mark.parametrize("name", ["bit-reversal", "bit-rotation", "butterfly", "shuffle"])
def test_patterns_that_permute_bits_refuse_two_hosts(name: str) -> None:
    with pytest.raises(NotApplicable, match=f"{name} of 2 hosts"):
        traffic(2, name)
    assert as_map(traffic(2, "complement")) == {0: 1, 1: 0}


def test_transpose_of_a_square() -> None:
    # Row y, column x of 3x3 is host 3y + x; hosts on the diagonal send nothing.
    assert as_map(traffic(9, "transpose:square=true")) == {1: 3, 2: 6, 3: 1, 5: 7, 6: 2, 7: 5}
    assert as_map(traffic(64, "transpose", square=True)) == as_map(traffic(64, "transpose"))
    with pytest.raises(NotApplicable, match="square number of hosts, not 8"):
        traffic(8, "transpose", square=True)


def test_neighbour_and_tornado() -> None:
    assert as_map(traffic(4, "neighbour")) == as_map(traffic(4, "shift"))
    # 3 columns by 2 rows, x fastest: (x, y) is host x + 3y and sends to (x + 1, y + 1).
    assert as_map(traffic(6, "neighbour:dims=3x2")) == {0: 4, 1: 5, 2: 3, 3: 1, 4: 2, 5: 0}
    assert as_map(traffic(8, "tornado")) == {s: (s + 3) % 8 for s in range(8)}
    assert as_map(traffic(7, "tornado")) == {s: (s + 3) % 7 for s in range(7)}
    # The step is 2 along the 5 hosts in x, and 0 along the 2 hosts in y.
    two = as_map(traffic(10, "tornado:dims=5,2"))
    assert two == {x + 5 * y: (x + 2) % 5 + 5 * y for x in range(5) for y in range(2)}
    with pytest.raises(NotApplicable, match="2x2x2"):
        traffic(8, "tornado:dims=2x2x2")


def test_stencil() -> None:
    assert as_bag(traffic(4, "stencil")) == as_bag(traffic(4, "ring-natural"))
    assert as_bag(traffic(4, "stencil:wrap=false")) == Counter(
        [(0, 1), (1, 2), (2, 3), (1, 0), (2, 1), (3, 2)]
    )
    # In a 3x2 grid both steps in y lead to the same neighbour, which receives two flows.
    expected = Counter()
    for x, y in product(range(3), range(2)):
        for step in (1, -1):
            expected[x + 3 * y, (x + step) % 3 + 3 * y] += 1
            expected[x + 3 * y, x + 3 * ((y + step) % 2)] += 1
    assert as_bag(traffic(6, "stencil:dims=3x2")) == expected


@pytest.mark.parametrize("name", ["neighbour", "tornado", "stencil"])
def test_grids_of_another_size_are_refused(name: str) -> None:
    with pytest.raises(NotApplicable, match=r"4x4 needs 16 hosts, and there are 12"):
        traffic(12, name, dims=(4, 4))
    with pytest.raises(InputError, match=f"{name}: every one of dims must be at least 1"):
        traffic(12, name, dims=(12, 0))


def test_random_permutation() -> None:
    flows = traffic(50, "random-permutation", seed=3)
    assert sorted(flows.sources) == sorted(flows.destinations) == list(range(50))
    sizes = {len(traffic(5, "permutation:fixed_points=true", seed=s)) for s in range(40)}
    assert min(sizes) < 5
    assert max(sizes) == 5


def test_derangements_are_equally_likely() -> None:
    # There are 9 derangements of 4 hosts; 1800 draws give 200 of each, standard deviation 14.
    drawn = Counter(
        tuple(traffic(4, "random-permutation", seed=seed).destinations.tolist())
        for seed in range(1800)
    )
    assert len(drawn) == 9
    assert all(140 < count < 260 for count in drawn.values())


def test_uniform_reaches_all_others_equally() -> None:
    flows = traffic(5, "uniform:flows=4000", seed=1)
    bag = as_bag(flows)
    assert len(bag) == 20
    assert all(850 < count < 1150 for count in bag.values())
    assert Counter(flows.sources.tolist()) == Counter(dict.fromkeys(range(5), 4000))


@pytest.mark.parametrize("num_hosts", [2, 7, 12])
def test_bisect(num_hosts: int) -> None:
    half = num_hosts // 2
    one = traffic(num_hosts, "bisect", seed=4)
    assert len(one) == half
    assert len({*one.sources.tolist(), *one.destinations.tolist()}) == 2 * half
    both = traffic(num_hosts, "bisect", seed=4, two_way=True)
    back = Counter({(d, s): n for (s, d), n in as_bag(one).items()})
    assert as_bag(both) == as_bag(one) + back


def test_hot_spot_sends_the_given_fraction_to_hot_hosts() -> None:
    base = traffic(100, "hot-spot:fraction=0,hosts=7,flows=10", seed=5)
    hot = traffic(100, "hot-spot:fraction=0.3,hosts=7,flows=10", seed=5)
    changed = np.flatnonzero(base.destinations != hot.destinations)
    assert np.all(hot.destinations[changed] == 7)
    forced = 300
    by_chance = int(np.count_nonzero(base.destinations == 7))
    assert forced <= np.count_nonzero(hot.destinations == 7) <= forced + by_chance

    everyone = traffic(6, "hot-spot:fraction=1,hosts=2", seed=0)
    assert Counter(everyone.destinations.tolist())[2] == 5
    several = traffic(50, "hot-spot:fraction=1,targets=3", seed=0)
    assert len(set(several.destinations.tolist())) == 3
    assert len(several) == 50


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("hot-spot:fraction=1.5", "fraction must be 0 to 1, not 1.5"),
        ("hot-spot:fraction=nan", "fraction"),
        ("hot-spot:targets=0", "targets must be at least 1, not 0"),
        ("hot-spot:hosts=1,1", "hosts names one host twice"),
        ("hot-spot:hosts=-1", "hosts must be 0 or more, not -1"),
        ("hot-spot:hosts=3,targets=2", "not both"),
        ("hot-spot:flows=0", "flows must be at least 1, not 0"),
        ("uniform:flows=0", "flows must be at least 1, not 0"),
        ("shift:offset=1.5", "shift: option offset: '1.5' does not fit"),
        ("shift:offset=1,2", "offset takes one value, not the 2 of '1,2'"),
        ("shift:offset=1,offset=2", "offset is given twice"),
        ("shift:3", "unexpected positional argument '3'; shift takes none"),
        ("shift:offset=", "is not a key=value pair"),
        ("shift:offset=1,", "empty argument"),
        ("shft", r"unknown traffic pattern 'shft' \(did you mean 'shift'\?\)"),
        ("shift:offst=1", r"no option 'offst' \(did you mean 'offset'\?\)"),
        ("transpose:square=perhaps", "option square"),
        ("stencil:dims=", "is not a key=value pair"),
    ],
)
def test_bad_options_give_one_error(spec: str, text: str) -> None:
    with pytest.raises(InputError, match=text):
        traffic(16, spec)


def test_options_given_twice_are_refused() -> None:
    with pytest.raises(InputError, match="offset is also given as an option"):
        traffic(16, "shift:offset=1", offset=2)
    with pytest.raises(InputError, match=r"the number of hosts must be 0 to .*, not -4"):
        traffic(-4, "shift")


def test_hot_hosts_that_do_not_exist_are_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="host 20 needs 21 hosts, and there are 16"):
        traffic(16, "hot-spot:hosts=20")
    with pytest.raises(NotApplicable, match="needs 17 hot hosts, and there are 16"):
        traffic(16, "hot-spot:targets=17")


def test_pairs() -> None:
    flows = traffic(4, "shift")
    sources, destinations = flows
    assert sources is flows.sources
    assert destinations is flows.destinations
    assert repr(flows) == "Pairs('shift:offset=1': 4 flows)"
    assert traffic(16, "stencil:dims=4x4").spec == "stencil:dims=4,4,wrap=true"
    with pytest.raises(ValueError, match="as many destinations as sources"):
        Pairs(np.arange(3), np.arange(2))
