"""The worst pairs of failures, by a search that says what it left out."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np
import polars as pl

from weft.advice.what_if.failures import Failure, failure_table
from weft.fabrics import Fabric
from weft.routing.engine_registry import sending_rows
from weft.routing.routes import TableRoutes


@dataclass(frozen=True, eq=False)
class WorstPairs:
    """Pairs of failures that were judged.

    Parameters
    ----------
    table
        Columns of `FAILURE_COLUMNS`, the worst pair first; see `by_harm`.
    possible
        Number of pairs that there are.
    most_lost
        Largest number of host pairs that can be without a path after any pair that was not judged;
        None if it is not known, because tables are computed anew.
    """

    table: pl.DataFrame
    possible: int
    most_lost: int | None

    def text(self) -> str:
        """Return which pairs were judged, and what is known of the others."""
        text = (
            f"{len(self.table):,} of {self.possible:,} pairs were judged: those that together take "
            "all cables or all neighbours of a switch with hosts, then those with the largest sums "
            "of lost host pairs, and of the largest load, of both failures alone."
        )
        if len(self.table) == self.possible:
            return f"All {self.possible:,} pairs were judged."
        if self.most_lost is None:
            return f"{text} Other pairs may be worse."
        return (
            f"{text} No other pair leaves more than {self.most_lost:,} host pairs without a path."
        )


def by_harm(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table of failures, the worst first.

    First come those that cut off more machines and hosts, then those after which no routes are
    known; of equals, those that leave more pairs without a path, then those with a credit loop,
    with less bandwidth, and with a larger contention: as `weft.advice.what_if.singles.harm`.
    """
    return table.sort(
        -pl.col("machines_cut"), -pl.col("hosts_cut"), pl.col("refusal").is_null(),
        -pl.col("unrouted"), pl.col("deadlock") == 0, "ebb", -pl.col("max_load"),
        maintain_order=True,
    )  # fmt: skip


def worst_pairs(
    fabric: Fabric,
    singles: Sequence[Failure],
    alone: pl.DataFrame,
    routes: TableRoutes | str,
    *,
    most: int = 200,
    **options: Any,
) -> WorstPairs:
    """Judge the pairs of failures that are likely to be the worst.

    Parameters
    ----------
    fabric, routes
        As for `failure_table`.
    singles, alone
        Failures of one switch or cable each, and what `failure_table` says of each of them with
        the same routes and options.
    most
        Largest number of pairs to judge. Pairs that cut off a switch with hosts are first.
    **options
        Further arguments of `failure_table`.
    """
    known = set(singles)
    cuts = (_together(pair) for pair in _cuts(fabric) if known.issuperset(pair))
    chosen = dict.fromkeys(islice(dict.fromkeys(cuts), most))
    lost = alone["unrouted"].fill_null(0).to_list()
    load = alone["max_load"].fill_null(0.0).to_list()
    order = sorted(range(len(singles)), key=lambda at: (-lost[at], -load[at], at))
    bound = 0
    for first, second in _largest_sums([(lost[at], load[at]) for at in order]):
        pair = _together((singles[order[first]], singles[order[second]]))
        if pair in chosen or _within(fabric, pair):
            continue
        if len(chosen) >= most:
            bound = lost[order[first]] + lost[order[second]]
            break
        chosen[pair] = None
    stay = isinstance(routes, TableRoutes) and not options.get("reroute")
    switches = {switch for each in singles for switch in each.switches}
    within = sum(
        int(end) in switches
        for each in singles for cable in each.cables
        for end in set(fabric.link_from[2 * cable : 2 * cable + 2].tolist())
    )  # fmt: skip
    return WorstPairs(
        by_harm(failure_table(fabric, list(chosen), routes, **options)),
        len(singles) * (len(singles) - 1) // 2 - within,
        bound if stay else None,
    )


def _together(pair: Iterable[Failure]) -> Failure:
    """Return failures at the same time as one."""
    switches, cables = zip(*((each.switches, each.cables) for each in pair), strict=True)
    return Failure(tuple(sorted(sum(switches, ()))), tuple(sorted(sum(cables, ()))))


def _within(fabric: Fabric, pair: Failure) -> bool:
    """Return whether a cable of a pair belongs to its switch, so that the pair is one failure."""
    ends = [fabric.link_from[2 * cable : 2 * cable + 2] for cable in pair.cables]
    return bool(ends) and bool(np.isin(ends, pair.switches).any())


def _cuts(fabric: Fabric) -> Iterator[tuple[Failure, Failure]]:
    """Yield the pairs of failures that take all cables or all neighbours of a switch with hosts."""
    graph = fabric.graph
    for row in sending_rows(fabric).tolist():
        cables: dict[int, list[Failure]] = {}
        for edge in range(graph.edge_offset[row], graph.edge_offset[row + 1]):
            if (other := int(graph.row_node[graph.edge_row[edge]])) != graph.row_node[row]:
                cables.setdefault(other, []).append(Failure((), (int(graph.edge_link[edge]) >> 1,)))
        if len(cables) == 1:
            (few,) = cables.values()
            if len(few) == 2:
                yield few[0], few[1]
        elif len(cables) == 2:
            yield from product(
                *(
                    [Failure((switch,)), *(its if len(its) == 1 else [])]
                    for switch, its in cables.items()
                )
            )


def _largest_sums(values: Sequence[tuple[float, float]]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of indices of a descending sequence by the sums of their values."""
    waiting: list[tuple[tuple[float, float], int, int]] = []

    def add(first: int, second: int) -> None:
        if second < len(values):
            one, other = values[first], values[second]
            heapq.heappush(waiting, ((-one[0] - other[0], -one[1] - other[1]), first, second))

    add(0, 1)
    while waiting:
        _, first, second = heapq.heappop(waiting)
        yield first, second
        add(first, second + 1)
        if second == first + 1:
            add(second, second + 1)
