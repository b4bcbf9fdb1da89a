"""The Cartesian permutation workload of Routing Keys: shifts +x -x +y -y +z -z and barriers."""

from __future__ import annotations

from weft.core.errors import NotApplicable
from weft.core.units import Bytes
from weft.workload.apps.application_registry import (
    all_ranks,
    application,
    at_least,
    barrier_here,
    check_messages,
    check_sizes,
    generator,
    need,
    numbered,
)
from weft.workload.apps.grids import beside, process_grid
from weft.workload.builder import WorkloadBuilder
from weft.workload.workload import Workload

MIXED = tuple(2**power for power in range(12, 19))


@application(
    "cartesian",
    source="Routing Keys (2017), section IV-C",
    draws=lambda options: (
        options["shuffled"]
        or len(options["sizes"]) > 1
        or (options["calc_spread"] > 0 and options["utilization"] < 1)
    ),
)
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
    keys: bool = False,
    seed: int = 0,
) -> Workload:
    """Shift by one along each axis of a periodic grid in both directions, with barriers.

    In a phase every rank sends to its neighbour on one side, receives from its neighbour on the
    other side and enters a barrier; so a phase is one permutation and ends before the next begins.
    An axis with only one rank has no phases. The calculation before each phase is a phase of its
    own.

    The paper's utilization is the communication time divided by the sum of communication and
    calculation time on a network without contention, where a message takes its size divided by the
    rate. The calculation before a phase whose messages take t is therefore t (1 - u) / u.

    Parameters
    ----------
    num_ranks
        Number of ranks, all in the grid; the paper's applications have 36 and more.
    sizes
        Message sizes; each phase of each iteration draws one with equal probability. The paper
        mixes sizes from 4 KB to 256 KB with a measured distribution that it does not print; the
        default is the powers of two in that range.
    iterations
        Repetitions of all phases; phase names include the iteration.
    shuffled
        Draw the order of the phases, because each application of the paper has its own order;
        otherwise the order is +x -x +y -y +z -z.
    dims
        Grid of ranks, the first dimension varying fastest; if left out, as near to a cube as
        possible.
    utilization
        Utilization, above 0 and up to 1; 1 means no calculations.
    rate_gbps
        Rate of a link, used with the utilization; the paper's links have 40 Gb/s.
    calc_spread
        Spread of calculations, 0 to 1: the time of each rank is drawn uniformly from 1 - spread
        to 1 + spread times the mean.
    keys
        Request a routing key before each phase, one key per direction, and return it after the
        barrier.
    seed
        Seed of all draws; concurrent jobs should have different seeds.
    """
    check_sizes(sizes)
    at_least(1, iterations=iterations)
    need(0 < utilization <= 1, f"utilization must be above 0 and at most 1, not {utilization}")
    need(0 < rate_gbps < float("inf"), f"rate_gbps must be above 0, not {rate_gbps}")
    need(0 <= calc_spread <= 1, f"calc_spread must be 0 to 1, not {calc_spread}")
    grid = process_grid(num_ranks, dims, 3)
    directions = [
        (f"{sign}{axis}", tuple(move if index == axis_index else 0 for index in range(3)))
        for axis_index, axis in enumerate("xyz")
        for sign, move in (("+", 1), ("-", -1))
        if grid[axis_index] > 1
    ]
    if not directions:
        raise NotApplicable(f"a grid of {num_ranks} ranks has no neighbours")
    order, draws, spreads = (generator(seed, stream) for stream in range(3))
    phases = list(enumerate(directions))
    if shuffled:
        phases = [phases[index] for index in order.permutation(len(phases))]
    check_messages(num_ranks, iterations * len(phases) * num_ranks * (1 + num_ranks.bit_length()))
    builder = WorkloadBuilder(num_ranks)
    ranks = all_ranks(builder)
    for iteration in range(iterations):
        for number, (name, step) in phases:
            size = int(draws.choice(sizes))
            calc = size * 8 / rate_gbps * (1 - utilization) / utilization
            if calc:
                builder.phase(f"{numbered('compute', iteration, iterations)}, before {name}")
                low, high = calc * (1 - calc_spread), calc * (1 + calc_spread)
                builder.calc(ranks, spreads.uniform(low, high, num_ranks) if calc_spread else calc)
            builder.phase(name if iterations == 1 else f"iteration {iteration + 1}, {name}")
            if keys:
                builder.key_request(ranks, number)
            to = beside(grid, step, (True,) * 3)
            source = beside(grid, tuple(-move for move in step), (True,) * 3)
            builder.sendrecv(ranks, to, size, source, size)
            barrier_here(builder)
            if keys:
                builder.key_done(ranks, number)
    return builder.build()
