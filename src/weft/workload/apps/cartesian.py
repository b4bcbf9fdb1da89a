"""The Cartesian permutation workload of Routing Keys: +x -x +y -y +z -z, a barrier after each."""

from __future__ import annotations

from weft.core.errors import NotApplicable
from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    application,
    at_least,
    barrier_here,
    check_messages,
    check_sizes,
    everyone,
    generator,
    need,
    numbered,
)
from weft.workload.apps.grids import beside, process_grid
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload

MIXED = tuple(2**power for power in range(12, 19))


@application("cartesian", source="Routing Keys (2017), section IV-C")
def cartesian(
    num_ranks: int,
    *,
    sizes: tuple[Bytes, ...] = MIXED,
    iterations: int = 1,
    shuffled: bool = True,
    dims: tuple[int, ...] | None = None,
    utilization: float = 1.0,
    rate_gbps: float = 40.0,
    calc_spread: float = 0.0,
    seed: int = 0,
) -> Workload:
    """Shifts by one along each axis of a periodic grid, both ways, each followed by a barrier.

    In a phase every rank sends to its neighbour on one side and receives from the other, then all
    wait for each other; so a phase is one permutation, and ends before the next begins. An axis
    along which there is one rank only has no phases. The calculation before each phase is a phase
    of its own.

    The paper's utilization is the time of communication over that of communication and calculation
    on a network without contention, where a message takes its size over the rate and nothing else.
    The calculation before a phase whose messages take t is therefore t (1 - u) / u.

    Parameters
    ----------
    num_ranks
        Ranks, all of them in the grid; the paper's applications have 36 and more.
    sizes
        Message sizes: one, or several of which each phase of each iteration draws one with equal
        chances. The paper mixes 4 KB to 256 KB after a measured distribution that it does not
        print; the default is the powers of two in that range.
    iterations
        How often all phases come; each phase has the iteration in its name.
    shuffled
        Draw one order of the phases, as each application of the paper has its own; else as named
        above.
    dims
        Grid of ranks, the first dimension varying fastest; near to a cube where left out.
    utilization
        Above 0 and up to 1, which leaves calculations out.
    rate_gbps
        Of a link, for the utilization; the paper's links have 40 Gb/s.
    calc_spread
        0 to 1: each rank's calculation is drawn uniformly from mean (1 - spread) to
        mean (1 + spread).
    seed
        Of all draws; jobs beside each other take different ones.
    """
    check_sizes(sizes)
    at_least(1, iterations=iterations)
    need(0 < utilization <= 1, f"utilization must be above 0 and at most 1, not {utilization}")
    need(0 < rate_gbps < float("inf"), f"rate_gbps must be above 0, not {rate_gbps}")
    need(0 <= calc_spread <= 1, f"calc_spread must be 0 to 1, not {calc_spread}")
    grid = process_grid(num_ranks, dims, 3)
    phases = [
        (f"{sign}{axis}", tuple(move if at == place else 0 for at in range(3)))
        for place, axis in enumerate("xyz")
        for sign, move in (("+", 1), ("-", -1))
        if grid[place] > 1
    ]
    if not phases:
        raise NotApplicable(f"a grid of {num_ranks} ranks has no neighbours")
    order, draws, spreads = (generator(seed, stream) for stream in range(3))
    if shuffled:
        phases = [phases[at] for at in order.permutation(len(phases))]
    check_messages(num_ranks, iterations * len(phases) * num_ranks * (1 + num_ranks.bit_length()))
    builder = WorkloadBuilder(num_ranks)
    who = everyone(builder)
    for turn in range(iterations):
        for name, step in phases:
            size = int(draws.choice(sizes))
            calc = size * 8 / rate_gbps * (1 - utilization) / utilization
            if calc:
                builder.phase(f"{numbered('compute', turn, iterations)}, before {name}")
                low, high = calc * (1 - calc_spread), calc * (1 + calc_spread)
                builder.calc(who, spreads.uniform(low, high, num_ranks) if calc_spread else calc)
            builder.phase(name if iterations == 1 else f"iteration {turn + 1}, {name}")
            to = beside(grid, step, (True,) * 3)
            source = beside(grid, tuple(-move for move in step), (True,) * 3)
            builder.sendrecv(who, to, size, source, size)
            barrier_here(builder)
    return builder.build()
