"""The registry of routings of the flit level, which need no table of all destinations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.core.frozen import read_only
from weft.kernels.flit.engine import loop
from weft.kernels.flit.net import FlitNet
from weft.kernels.flit.routing.common import nothing
from weft.sim.flit import routing
from weft.sim.flit.network import Links

Choices = Callable[[FlitNet, int, int], list[tuple[int, int]]]


@dataclass(frozen=True, eq=False)
class Routing:
    """A routing function of a fabric.

    Parameters
    ----------
    name
        Name of the routing, or of the engine of its routes.
    route, enter, adaptive
        Kernels, as in `weft.kernels.flit.engine.loop`.
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

    @property
    def loop(self) -> Any:
        """The loop of the flit level with these kernels."""
        return _loop(self.route, self.enter, self.adaptive)


@cache
def _loop(route: Any, enter: Any, adaptive: bool) -> Any:
    return loop(route, enter, adaptive)  # type: ignore[no-untyped-call]


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

    Parameters
    ----------
    spec
        Name of a routing, with options.
    lanes
        Virtual channels of each class of traffic.

    Raises
    ------
    NotApplicable
        If the routing does not fit the fabric.
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
