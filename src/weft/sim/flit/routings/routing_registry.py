"""The registry of routings of the flit level, which need no table of all destinations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba.types import boolean, int64, none

from weft.core.errors import InputError
from weft.core.frozen import read_only
from weft.kernels.flit.engine import run
from weft.kernels.flit.net import FlitNet
from weft.kernels.flit.routing.common import nothing
from weft.kernels.parts import StateParts, address_of, parts
from weft.kernels.program.state import Ranks
from weft.sim.flit import routing, team
from weft.sim.flit.network import Links

Choices = Callable[[FlitNet, int, int], list[tuple[int, int]]]


@dataclass(frozen=True, eq=False)
class Routing:
    """A routing function of a fabric.

    Parameters
    ----------
    name
        Name of the routing, or of the engine of its routes.
    route
        Kernel ``route(net, now, row, lane, packet, attempt)``. For the packet at the front of an
        input lane it writes `IN_LANE.out` (a lane of the output) and `IN_LANE.allowed`, and returns
        whether there is such a choice. If the packet gets no lane, it is called again with the next
        `attempt`, from 0, until it returns False, in every cycle.
    enter
        Kernel ``enter(net, now, endpoint, packet)``, called when an endpoint begins to send a
        packet.
    adaptive
        Whether the choice may change; otherwise `route` is called once for a packet and router.
    arrays
        Arrays of the kernels, `FlitNet.routes`.
    remote
        Whether the kernels read the state of other nodes.
    choices
        Of an adaptive routing: function of a `FlitNet`, a row and a packet that has been routed
        there; it returns the outputs that the packet may take, and the lanes of each as bits. None
        if this is not known.
    escapes
        Whether packets must be able to take an escape lane while they wait, so that wormhole
        routers must give lanes as with `keep_escapes` of `Router.sized`.
    """

    name: str
    route: Any
    arrays: Any
    enter: Any = nothing
    adaptive: bool = False
    remote: bool = False
    choices: Choices | None = None
    escapes: bool = False

    def loop(self, net: FlitNet, programs: Sequence[Ranks] = ()) -> Callable[[int], int]:
        """Return the function of `weft.kernels.flit.engine.run` that simulates up to a cycle.

        `programs`: those of the ranks of each thread; empty without ranks.
        """
        known, word, enter = StateParts(net, hidden="routes").known, int64, 0
        if self.enter is not nothing:
            enter = address_of(self.enter, none, known, word, word, word)
        route = address_of(self.route, boolean, known, word, word, word, word, word)
        own = {"adaptive": int(self.adaptive), "route": route, "enter": enter}
        if len(net.members) > 1:
            return team.loop(net, own, programs)
        state = StateParts(net._replace(rules=net.rules._replace(**own)), hidden="routes")
        return partial(run, state, parts(programs[0]) if programs else None)


def fixed(arrays: Any) -> Any:
    """Return a named tuple with read-only arrays, so that equal kinds have one compiled loop."""
    return arrays._make(
        fixed(each) if isinstance(each, tuple)
        else read_only(np.ascontiguousarray(each).view()) if isinstance(each, np.ndarray)
        else each
        for each in arrays
    )  # fmt: skip


def bind(spec: str, links: Links, lanes: int) -> Routing:
    """Return a routing by its spec, for a fabric.

    `spec`: name of a routing, with options. `lanes`: virtual channels of each class of traffic.

    Raises `NotApplicable` if the routing does not fit the fabric.
    """
    entry, options = routing.parse(spec)
    least = entry.facts["lanes"]
    if lanes < least:
        raise InputError(
            f"routing {entry.name} needs {least} virtual channels for each class of traffic, not "
            f"{lanes}"
        )
    bound: Routing = entry.function(links, lanes, **routing.bind(entry, options))
    return bound
