"""`plot`: the drawing of a fabric, of routes, of a routing key, or of where packets waited."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from numpy.typing import ArrayLike

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.report.figure import NotebookFigure
from weft.report.key_picture import plot_key
from weft.report.matrix_picture import plot_congestion_matrix
from weft.report.picture import plot_fabric
from weft.routing.routes import Routes
from weft.sim.common.congestion_matrix import WithCongestionMatrix, congestion_matrix
from weft.sim.flit.run import FlitTraffic
from weft.sim.keys import RoutingKey


@singledispatch
def plot(thing: Any, *arguments: Any, **options: Any) -> NotebookFigure:
    """Draw a fabric, routes, a routing key, or the congestion matrix of a run.

    Parameters
    ----------
    thing
        What to draw. A `Fabric`: switches, hosts and cables. `Routes`: the same, with the engine in
        the title. A `RoutingKey`: each flow's path in a colour for its class, or the loads of links
        if there are many flows. A result of the packet or flit level, or `FlitTraffic`: where
        packets waited.
    *arguments
        Of a fabric: `load`, float [links], as `weft.link_loads` returns it: each cable gets the
        colour of its link of higher load. Of routes: the fabric that was routed, then `load`.
    **options
        ``title`` and ``size_inches`` (width and height). Of fabrics and routes also ``quantity``
        (name and unit of `load`), ``label_busiest`` (number of links to label) and ``most`` (load
        of the last colour).

    Returns
    -------
    NotebookFigure
        A matplotlib figure, which notebooks show; its `write` makes a file.

    Raises
    ------
    InputError
        If there is no drawing of such a thing, if `load` does not have one finite, non-negative
        number per link, or if the routes were made for another fabric.
    """
    raise InputError(f"expected a fabric, routes, a key or a result, not a {type(thing).__name__}")


plot.register(Fabric, plot_fabric)
plot.register(RoutingKey, plot_key)


@plot.register
def _(routes: Routes, fabric: Fabric, load: ArrayLike | None = None, **options: Any) -> Any:
    routes.check(fabric)
    return plot_fabric(fabric, load, **{"title": f"{fabric.name}, {routes.engine}", **options})


@plot.register
def _(result: WithCongestionMatrix, **options: Any) -> Any:
    return plot_congestion_matrix(result.congestion_matrix(), **options)


@plot.register
def _(result: FlitTraffic, **options: Any) -> Any:
    return plot_congestion_matrix(congestion_matrix(result.fabric, result.wait_cycles), **options)
