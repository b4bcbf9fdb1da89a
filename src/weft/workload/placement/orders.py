"""Placements by an order of the hosts that looks at no topology: as numbered, or random."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.workload.patterns.pattern_registry import generator
from weft.workload.placement.placement_registry import Room, placement


@placement("linear", explicit=False)
def linear(room: Room) -> NDArray[np.int32]:
    """Hosts in the order in which they are offered: by number, unless a list of hosts is given."""
    return room.fill(room.hosts)


@placement("random", explicit=False)
def random(
    room: Room, *, seed: int = 0, over: Literal["hosts", "seats"] = "hosts"
) -> NDArray[np.int32]:
    """Hosts in random order.

    Parameters
    ----------
    room
        The hosts and how many ranks.
    seed
        Equal seeds give equal placements.
    over
        What is drawn: ``hosts`` draws a host and gives it as many consecutive ranks as it takes;
        ``seats`` draws a seat for each rank by itself, each host having as many as ranks per host.
        They differ only where hosts take several ranks.

    Raises
    ------
    InputError
        When the seed is negative, or seats are drawn and a distribution is given.
    """
    draw = generator(seed)
    if over == "hosts":
        return room.fill(draw.permutation(room.hosts))
    room.refuse_distribution("over=seats")
    room.need(len(room.hosts))
    seats = np.repeat(room.hosts, room.seats)
    return draw.permutation(seats)[: room.num_ranks].astype(np.int32)
