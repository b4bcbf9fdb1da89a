"""The claims and printed figures of the QsNET paper, and their tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.sim.common.congestion_matrix import congestion_matrix
from weft_papers.claims import (
    Claim,
    ClaimComparison,
    ClaimFinding,
    NotMeasured,
    OutOfScope,
    Range,
    Verdict,
    show,
)
from weft_papers.qsnet.runs import (
    IO_LOADS,
    KIB,
    MAPPINGS,
    OPTIMAL,
    OTHERS,
    PAPER,
    QsNetRun,
    QsNetRunResult,
    fabric_of,
)

#: Relative difference of bandwidths that are "the same", of those that are "optimal", and of a
#: printed bandwidth and a measured one that are equal.
SAME, NEAR, EQUAL = 0.05, 0.10, 0.03
#: Peak bandwidth of a node that sends and receives, MB/s: the bound of most patterns.
EACH_WAY = 280.0
Values = NDArray[np.float64]
_ANY = np.inf


@dataclass(frozen=True, eq=False)
class QsNetEvidence:
    """Measurements of the study, indexed for the claims."""

    #: Run with seed 0 -> bandwidth, float64 [seeds], and `QsNetRunResult.parts`, float64
    #: [seeds, ...]; complete points only.
    mb_s: Mapping[QsNetRun, Values]
    parts: Mapping[QsNetRun, Values]
    #: All points that the options of the study include, as runs with seed 0.
    planned: tuple[QsNetRun, ...]

    @classmethod
    def of(cls, measured: Sequence[QsNetRunResult], runs: Sequence[QsNetRun]) -> QsNetEvidence:
        """Index the measurements; `runs` are all planned runs."""
        every = {each.run: each for each in measured}
        planned: dict[QsNetRun, list[QsNetRunResult | None]] = {}
        for run in runs:
            planned.setdefault(replace(run, seed=0), []).append(every.get(run))
        complete = {
            point: [each for each in here if each is not None]
            for point, here in planned.items()
            if None not in here
        }
        return cls(
            {point: np.array([m.mb_s for m in here]) for point, here in complete.items()},
            {point: np.array([m.parts for m in here]) for point, here in complete.items()},
            tuple(planned),
        )

    def point(self, figure: str, choice: str, traffic: str, **fields: Any) -> QsNetRun:
        """Return the point of a figure with some fields, the others by default.

        Raises
        ------
        OutOfScope
            If the study has no such point.
        NotMeasured
            If an interrupt prevented some of its runs.
        """
        for short in (False, True):
            run = QsNetRun(figure, traffic, choice=choice, short=short, **fields)
            if run in self.planned:
                if run not in self.mb_s:
                    raise NotMeasured(f"not all seeds of {traffic} in figure {figure}")
                return run
        raise OutOfScope

    def get(self, figure: str, choice: str, traffic: str, **fields: Any) -> Values:
        """Return the bandwidth at a point, MB/s, float64 [seeds]; errors as in `point`."""
        return self.mb_s[self.point(figure, choice, traffic, **fields)]

    def time_us(self, choice: str, **fields: Any) -> Values:
        """Return the time of a message of the ping in one direction, us; errors as in `point`."""
        return self.parts[self.point("9", choice, "ping", **fields)][:, 0]

    def groups(self, choice: str, **fields: Any) -> Values:
        """Return the mean bandwidth of nodes 1 to 3, 4 to 15 and 16 to 63, [seeds, groups]."""
        each = self.parts[self.point("16", choice, "hot", size=KIB * KIB, **fields)]
        ends = ((1, 4), (4, 16), (16, 64))
        return np.stack([each[:, low:high].mean(axis=1) for low, high in ends], axis=1)

    def matrices(self, traffic: str) -> list[pl.DataFrame]:
        """Return the congestion matrix of a permutation for each seed; errors as in `point`."""
        waits = self.parts[self.point("15", PAPER, traffic)]
        return [congestion_matrix(fabric_of(64), each) for each in waits]

    def io(self, choice: str, server: str, mapping: str, **fields: Any) -> Values:
        """Return the bandwidth of an I/O node, MB/s; errors as in `point`."""
        own = {"dedicated": True, "size": KIB * KIB, "server": server, "mapping": mapping, **fields}
        return self.get("17" if server == "random" else "18", choice, "io", **own)

    def beside(self, choice: str, mapping: str, dedicated: bool, load: float) -> Values:
        """Return the compute job's bandwidth beside an I/O job over that without I/O."""
        both, alone = (
            self.get("19", choice, "combined", mapping=mapping, dedicated=dedicated, io_load=each)
            for each in (load, 0.0)
        )
        return both / alone

    def loads(self) -> list[float]:
        """Return the loads of the I/O job."""
        return sorted({run.io_load for run in self.planned if run.figure == "19"} & {*IO_LOADS})


@dataclass(frozen=True)
class QsNetNumber:
    """A number that the paper prints."""

    #: Section or figure, and the quantity with its unit.
    section: str
    what: str
    #: The number, or the range.
    low: float
    high: float
    #: Function of the evidence and a choice that returns float64 [seeds]; errors as in
    #: `QsNetEvidence.point`.
    values: Callable[[QsNetEvidence, str], Values]
    #: Whether the model takes the number from the paper.
    given: bool = False


def _io(server: str, mapping: str) -> Callable[[QsNetEvidence, str], Values]:
    return lambda ev, choice: ev.io(choice, server, mapping)


def _pattern(name: str) -> Callable[[QsNetEvidence, str], Values]:
    return lambda ev, choice: ev.get("13", choice, name)


def _group(number: int) -> Callable[[QsNetEvidence, str], Values]:
    return lambda ev, choice: ev.groups(choice)[:, number]


def _ping(**fields: Any) -> Callable[[QsNetEvidence, str], Values]:
    return lambda ev, choice: ev.get("9", choice, "ping", **fields)


def _time(**fields: Any) -> Callable[[QsNetEvidence, str], Values]:
    return lambda ev, choice: ev.time_us(choice, **fields)


def _hot(nodes: int) -> Callable[[QsNetEvidence, str], Values]:
    return lambda ev, choice: ev.get("16", choice, "hot", nodes=nodes, size=KIB * KIB)


def _both(memory: str) -> Callable[[QsNetEvidence, str], Values]:
    return lambda ev, choice: ev.get("10", choice, "both", memory=memory)


PRINTED = (
    QsNetNumber("5.1, fig. 9a", "ping, Elan memory, MB/s", 335, 335, _ping()),
    QsNetNumber("5.1, fig. 9a", "ping, main memory, MB/s", 200, 200, _ping(memory="main"), True),
    QsNetNumber("5.1, fig. 9b", "latency of 0 bytes, us", 2.2, 2.2, _time(size=0), True),
    QsNetNumber("5.1, fig. 9b", "latency of 64 bytes, us", 2.4, 2.4, _time(size=64)),
    QsNetNumber(
        "5.1, fig. 9b", "latency of 0 bytes with MPI, us", 5.5, 5.5, _time(size=0, library="mpi"),
        True,
    ),
    QsNetNumber(
        "5.2, fig. 10a", "ping both ways, Elan memory, MB/s", 280, 280, _both("elan"), True
    ),
    QsNetNumber("5.2, fig. 10a", "ping both ways, main memory, MB/s", 80, 80, _both("main"), True),
    QsNetNumber(
        "5.3, fig. 11d", "uniform, 64 nodes, MB/s", 117.6, 120,
        lambda ev, choice: ev.get("11", choice, "uniform"),
    ),
    *(QsNetNumber("5.4, fig. 13", f"{name}, MB/s", 280, 280, _pattern(name)) for name in OPTIMAL),
    *(QsNetNumber("5.4, fig. 13", f"{name}, MB/s", 165, 200, _pattern(name)) for name in OTHERS),
    QsNetNumber("5.5, fig. 16a", "hot spot, 32 nodes, MB/s", 337, 337, _hot(32)),
    QsNetNumber("5.5, fig. 16a", "hot spot, 64 nodes, MB/s", 310, 310, _hot(64)),
    QsNetNumber("5.5, fig. 16b", "hot spot, nodes 1 to 3, MB/s each", 8, 8, _group(0)),
    QsNetNumber("5.5, fig. 16b", "hot spot, nodes 4 to 15, MB/s each", 4.8, 4.8, _group(1)),
    QsNetNumber("5.5, fig. 16b", "hot spot, nodes 16 to 63, MB/s each", 4.3, 4.3, _group(2)),
    QsNetNumber("table 1", "random I/O, clustered, MB/s", 196, 196, _io("random", "clustered")),
    QsNetNumber("table 1", "random I/O, distributed, MB/s", 234, 234, _io("random", "distributed")),
    QsNetNumber(
        "table 1", "deterministic I/O, clustered, MB/s", 320, 320, _io("block", "clustered")
    ),
    QsNetNumber(
        "table 1", "deterministic I/O, distributed, MB/s", 338, 338, _io("block", "distributed")
    ),
    QsNetNumber(
        "5.7", "compute job without I/O, MB/s", 130, 130,
        lambda ev, choice: ev.get("19", choice, "combined", mapping="1c"),
    ),
)  # fmt: skip


Compare = Callable[[QsNetEvidence, str], Sequence[ClaimComparison]]
Labelled = Callable[[QsNetEvidence, str], Sequence[tuple[str, Values]]]


def _all(values: Labelled, wanted: Any) -> dict[str, Callable[[QsNetEvidence, Any], Any]]:
    """Return the test of whether all of some labelled quantities are as wanted."""
    return {
        "compare": lambda ev, choice: [
            ClaimComparison.of(label, each, wanted) for label, each in values(ev, choice)
        ],
        "measured": lambda ev, choice: "; ".join(
            f"{label} {show(each)}" for label, each in values(ev, choice)
        ),
    }


def _only(values: Callable[[QsNetEvidence, str], Values], label: str) -> Labelled:
    return lambda ev, choice: [(label, values(ev, choice))]


def _around(value: float, relative: float) -> Range:
    return (value * (1 - relative), value * (1 + relative))


def _kinds(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    """Return the bandwidth of uniform traffic on 64 nodes for all distributions."""
    result = []
    for sizes in ("uniform", "exponential"):
        for times in ("uniform", "exponential"):
            with suppress(OutOfScope):
                values = ev.get("11", choice, "uniform", sizes=sizes, times=times)
                result.append((f"{sizes} sizes and {times} times", values))
    if not result:
        raise OutOfScope
    return result


def _falls(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    nodes = [ev.get("11", choice, "uniform", nodes=each) for each in (16, 32, 64)]
    return [("16 minus 32 nodes", nodes[0] - nodes[1]), ("32 minus 64 nodes", nodes[1] - nodes[2])]


def _sensitive(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    def gap(nodes: int) -> Values:
        uniform, exponential = (
            ev.get("11", choice, "uniform", nodes=nodes, sizes=kind, times=kind)
            for kind in ("uniform", "exponential")
        )
        return uniform / exponential - 1

    return [("16 nodes", gap(16)), ("16 minus 64 nodes", gap(16) - np.abs(gap(64)))]


def _penalty(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    large, small = (ev.get("12", choice, "uniform", size=each * KIB) for each in (256, 16))
    return [("256 KiB over 16 KiB minus 1", large / small - 1)]


def _patterns(names: Sequence[str]) -> Labelled:
    return lambda ev, choice: [(name, ev.get("13", choice, name)) for name in names]


def _levels(ev: QsNetEvidence, traffic: str, choice: str) -> dict[tuple[int, str], Values]:
    """Return (level, side) -> waits of its links, along a path, float64 [seeds, links]."""
    if choice != PAPER:
        raise OutOfScope
    frames = ev.matrices(traffic)
    keys = [(1, "lower"), (2, "lower"), (3, "lower"), (2, "upper"), (1, "upper")]
    return {
        (level, side): np.array(
            [each.filter(level=level, side=side)["wait_ns"].to_numpy() for each in frames]
        )
        for level, side in keys
    }


def _even(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    if choice != PAPER:
        raise OutOfScope
    frames = [each.unique("node") for each in ev.matrices("complement")]
    result = []
    for level in (1, 2, 3):
        waits = [each.filter(level=level)["switch_wait_ns"].to_numpy() for each in frames]
        result.append((f"level {level}", np.array([each.max() / each.mean() for each in waits])))
    return result


def _ascending(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    levels = _levels(ev, "complement", choice)
    largest = np.max([each.max(axis=1) for each in levels.values()], axis=0)
    return [
        (
            f"level {after[0]} {after[1]} minus level {before[0]} {before[1]}",
            (two.mean(axis=1) - one.mean(axis=1)) / largest,
        )
        for (before, one), (after, two) in pairwise(levels.items())
    ]


def _uneven(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    levels = _levels(ev, "bit-reversal", choice)
    every = np.concatenate(list(levels.values()), axis=1)
    sums = {key: each.sum(axis=1) for key, each in levels.items()}
    others = np.max([each for key, each in sums.items() if key != (2, "upper")], axis=0)
    return [
        ("largest over mean wait of a link, minus 2", every.max(axis=1) / every.mean(axis=1) - 2),
        ("waits for links down to level 1 over those of any other stage, minus 1",
         sums[2, "upper"] / others - 1),
    ]  # fmt: skip


def _flat(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    result = []
    for nodes in (4, 16, 32):
        with suppress(OutOfScope):
            result.append((f"{nodes} nodes", _hot(nodes)(ev, choice)))
    if not result:
        raise OutOfScope
    return result


def _order(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    near, middle, far = ev.groups(choice).T
    return [
        ("nodes 1 to 3 over 4 to 15, minus 1", near / middle - 1),
        ("nodes 4 to 15 over 16 to 63, minus 1", middle / far - 1),
    ]


_CELLS = tuple(
    (server, mapping) for server in ("random", "block") for mapping in ("clustered", "distributed")
)


def _better(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    return [
        (f"{mapping}", ev.io(choice, "block", mapping) - ev.io(choice, "random", mapping))
        for mapping in ("clustered", "distributed")
    ]


def _spread(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    return [
        (
            "random" if server == "random" else "deterministic",
            ev.io(choice, server, "distributed") - ev.io(choice, server, "clustered"),
        )
        for server in ("random", "block")
    ]


def _shared(mapping: str) -> Labelled:
    def values(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
        return [
            (
                "random" if server == "random" else "deterministic",
                ev.io(choice, server, mapping, dedicated=False) - ev.io(choice, server, mapping),
            )
            for server in ("random", "block")
        ]

    return values


def _reads(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    return [
        (f"{'random' if server == 'random' else 'deterministic'}, {mapping}",
         ev.io(choice, server, mapping, write_share=0.5) / ev.io(choice, server, mapping) - 1)
        for server, mapping in _CELLS
    ]  # fmt: skip


def _beside(mappings: Sequence[str], dedicated: bool) -> Labelled:
    def values(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
        result = []
        for mapping in mappings:
            for load in ev.loads():
                with suppress(OutOfScope):
                    ratio = ev.beside(choice, mapping, dedicated, load)
                    result.append((f"{mapping} at {load:g}", ratio))
        if not result:
            raise OutOfScope
        return result

    return values


def _loads(ev: QsNetEvidence, choice: str) -> list[tuple[str, Values]]:
    loads = ev.loads()
    if len(loads) < 2:
        raise OutOfScope
    ends = [ev.beside(choice, "distributed", False, each) for each in (loads[0], loads[-1])]
    return [(f"at {loads[0]:g} minus at {loads[-1]:g}", ends[0] - ends[1])]


def _comment(
    fails: str = "", always: str = ""
) -> Callable[[QsNetEvidence, Mapping[Any, ClaimFinding]], str]:
    """Return a function that explains a result and lists the choices with another verdict.

    Parameters
    ----------
    fails
        Explanation unless the claim holds as described.
    """

    def comment(_: QsNetEvidence, findings: Mapping[Any, ClaimFinding]) -> str:
        first = next(iter(findings.values())).verdict
        others: dict[Verdict, list[str]] = {}
        for choice, each in findings.items():
            if each.verdict is not first:
                others.setdefault(each.verdict, []).append(choice)
        text = "; ".join(f"{verdict} with {', '.join(names)}" for verdict, names in others.items())
        parts = [fails] if fails and first is not Verdict.HOLDS else []
        parts += [always] if always else []
        parts += [f"Other choices: {text}."] if text else []
        return " ".join(parts)

    return comment


_GIVEN = "The model takes this number from the paper; the test shows that it comes out again."
_UNIFORM = (
    "The model is 10 to 15 % faster. What it leaves out would slow it down: acknowledgements "
    "and control tokens on the opposite links, and packets that are refused and retried. Held "
    "circuits alone are not the cause of the low bandwidth (mechanism no circuits)."
)
_DISTRIBUTIONS = "The differences are within the noise of runs of some ms."
_PENALTY = (
    "In the model only the order of messages depends on their size, and time slices hide most "
    "of it. A penalty of large messages needs a cost in the adapter or host, such as address "
    "translation or descriptors of sliced DMAs."
)
_GROWING = (
    "Adaptive ascent makes packets wait at the first switch until some link upwards has a free "
    "lane; above it they hardly wait. The waits of this pattern are some percent of those of "
    "bit-reversal."
)
_HOT_64 = (
    "With circuits held in all stages, some packet is always ready at the hot link, and two "
    "lanes hide the acknowledgements. A loss needs time to release a circuit that grows with "
    "the number of partners, which the paper supposes."
)
_GROUPS = (
    "The oldest packet first is fair to all nodes; switches that serve inputs in turn give "
    "nearly all to near nodes (choice round robin). The printed shares are between, close to "
    "the oldest first, as ages of limited range would give."
)
_TABLE = (
    "The lowest and the highest are as printed. Random traffic is faster here, whatever the turns "
    "of messages and with one packet in flight, too. With one virtual channel it is slower than "
    "printed when clustered, and as printed when distributed (mechanism one channel)."
)
_SHARED = "Clients on the I/O nodes load the adapters there, which costs some percent here."
_DISJOINT = "The minimal paths of the two halves of the tree have no link in common."
_READS = (
    "In the model reads use the opposite direction of the link of an I/O node, and its adapter "
    "carries up to 560 MB/s in both. The paper's measure of accepted load may count one "
    "direction."
)

CLAIMS: tuple[Claim[QsNetEvidence], ...] = (
    Claim(
        "ping", "5.1, fig. 9a", "Between Elan memories a ping reaches 335 MB/s",
        f"256 KiB between the most distant nodes within {EQUAL:.0%} of it",
        **_all(_only(_ping(), "MB/s"), _around(335, EQUAL)), comment=_comment(),
    ),
    Claim(
        "latency", "5.1, fig. 9b", "An empty message takes 2.2 us, one of 64 bytes 2.4 us",
        "within 0.2 us for 64 bytes",
        **_all(_only(_time(size=64), "us"), (2.2, 2.6)),
        comment=_comment(always="The time of an empty message is taken from the paper."),
    ),
    Claim(
        "both-ways", "5.2, fig. 10a",
        "Between Elan memories pings in both directions reach 280 MB/s",
        f"within {NEAR:.0%}", **_all(_only(_both("elan"), "MB/s"), _around(280, NEAR)),
        comment=_comment(always=_GIVEN),
    ),
    Claim(
        "bus", "5.1, 5.2", "Between main memories pings reach 200 MB/s, and 80 in both directions",
        f"within {EQUAL:.0%}",
        lambda ev, choice: [
            ClaimComparison.of("one way", _ping(memory="main")(ev, choice), _around(200, EQUAL)),
            ClaimComparison.of("both ways", _both("main")(ev, choice), _around(80, EQUAL)),
        ],
        lambda ev, choice: f"{show(_ping(memory='main')(ev, choice))} one way, "
        f"{show(_both('main')(ev, choice))} both ways",
        _comment(always=_GIVEN),
    ),
    Claim(
        "uniform", "5.3, fig. 11d",
        "With uniform traffic 64 nodes get less than 120 MB/s each, 42 % of the bound",
        "at most 120 MB/s with all distributions", **_all(_kinds, (-_ANY, 120.0)),
        comment=_comment(fails=_UNIFORM),
    ),
    Claim(
        "uniform-half", "5.3, fig. 11d",
        "With uniform traffic 64 nodes get far less than their bound of 280 MB/s",
        "at most half of it with all distributions", **_all(_kinds, (-_ANY, EACH_WAY / 2)),
        comment=_comment(),
    ),
    Claim(
        "scaling", "5.3, fig. 11d", "Uniform traffic does not scale with the number of nodes",
        "bandwidth with 16 nodes above 32, and above 64", **_all(_falls, "above"),
        comment=_comment(),
    ),
    Claim(
        "distributions", "5.3, fig. 11",
        "Small networks are slightly better with uniform sizes and times; with 64 nodes the "
        "difference almost disappears",
        "uniform over exponential minus 1 above 0 with 16 nodes, and above its magnitude with 64",
        **_all(_sensitive, "above"), comment=_comment(fails=_DISTRIBUTIONS),
    ),
    Claim(
        "size-penalty", "5.3, fig. 12", "Uniform traffic loses with messages above 16 KiB",
        "bandwidth with 256 KiB below that with 16 KiB", **_all(_penalty, "below"),
        comment=_comment(fails=_PENALTY),
    ),
    Claim(
        "optimal", "5.4, fig. 13", "Neighbour, butterfly and complement are optimal",
        f"at least {1 - NEAR:.0%} of 280 MB/s",
        **_all(_patterns(OPTIMAL), (EACH_WAY * (1 - NEAR), _ANY)), comment=_comment(),
    ),
    Claim(
        "other-patterns", "5.4, fig. 13, 14",
        "Shuffle, transpose and bit-reversal reach 165 to 200 MB/s",
        f"from 165 to 200 MB/s, ends {SAME:.0%} wider",
        **_all(_patterns(OTHERS), (165 * (1 - SAME), 200 * (1 + SAME))), comment=_comment(),
    ),
    Claim(
        "even-waits", "5.4, fig. 15a",
        "With complement the waits are even among the switches of a level",
        "largest over mean wait of the switches of a level at most 1.5",
        **_all(_even, (-_ANY, 1.5)), comment=_comment(),
    ),
    Claim(
        "growing-waits", "5.4, fig. 15a",
        "With complement packets wait longer the farther they are",
        "mean wait of links above that of the links before, along the path, over the largest",
        **_all(_ascending, "above"), comment=_comment(fails=_GROWING),
    ),
    Claim(
        "hot-links", "5.4, fig. 15b",
        "With bit-reversal there are hot links to the first level of switches",
        "largest wait of a link at least twice the mean; waits for links down to level 1 above "
        "those of all other stages",
        **_all(_uneven, "above"), comment=_comment(),
    ),
    Claim(
        "hot-flat", "5.5, fig. 16a", "A hot spot gets 337 MB/s from up to 32 nodes",
        f"within {EQUAL:.0%}", **_all(_flat, _around(337, EQUAL)), comment=_comment(),
    ),
    Claim(
        "hot-64", "5.5, fig. 16a", "With 64 nodes a hot spot gets 8 % less",
        "64 over 32 nodes at most 0.95",
        **_all(
            _only(lambda ev, choice: _hot(64)(ev, choice) / _hot(32)(ev, choice), "64 over 32"),
            (-_ANY, 0.95),
        ),
        comment=_comment(fails=_HOT_64),
    ),
    Claim(
        "hot-groups", "5.5, fig. 16b",
        "Nodes get more the fewer points of contention are on their path (8, 4.8, 4.3 MB/s)",
        "bandwidth of nodes 1 to 3 above 4 to 15, above 16 to 63", **_all(_order, "above"),
        comment=_comment(fails=_GROUPS),
    ),
    Claim(
        "deterministic", "5.6, table 1", "Fixed I/O nodes are better than random ones",
        "deterministic minus random above 0 for both mappings", **_all(_better, "above"),
        comment=_comment(),
    ),
    Claim(
        "distributed", "5.6, table 1", "Distributed I/O nodes are better than clustered ones",
        "distributed minus clustered above 0 for both kinds of traffic", **_all(_spread, "above"),
        comment=_comment(),
    ),
    Claim(
        "table-1", "table 1", "I/O nodes get 196, 234, 320 and 338 MB/s",
        f"each within {NEAR:.0%}",
        lambda ev, choice: [
            ClaimComparison.of(each.what, each.values(ev, choice), _around(each.low, NEAR))
            for each in PRINTED
            if each.section == "table 1"
        ],
        lambda ev, choice: ", ".join(
            show(each.values(ev, choice)) for each in PRINTED if each.section == "table 1"
        ),
        _comment(fails=_TABLE),
    ),
    Claim(
        "shared-distributed", "5.6",
        "Whether the application runs on distributed I/O nodes has no effect",
        f"shared minus dedicated within {SAME:.0%} of 338 MB/s",
        **_all(_shared("distributed"), (-SAME * 338, SAME * 338)), comment=_comment(),
    ),
    Claim(
        "shared-clustered", "5.6",
        "Clustered I/O nodes get slightly more (15 to 20 MB/s) if the application runs on them",
        "shared minus dedicated above 0", **_all(_shared("clustered"), "above"),
        comment=_comment(fails=_SHARED),
    ),
    Claim(
        "reads", "5.6", "The share of reads and writes has very little effect",
        f"half of each over writes only minus 1 within {NEAR:.0%}",
        **_all(_reads, (-NEAR, NEAR)), comment=_comment(fails=_READS),
    ),
    Claim(
        "dedicated", "5.7, fig. 19, 20",
        "An I/O job does not disturb a compute job if no job runs on the I/O nodes",
        f"bandwidth beside I/O at least {1 - SAME:.0%} of that without",
        **_all(_beside(tuple(MAPPINGS), True), (1 - SAME, _ANY)), comment=_comment(),
    ),
    Claim(
        "1c", "5.7, fig. 19, 20",
        "Nor if the I/O job runs on the clustered I/O nodes (1c)",
        f"bandwidth beside I/O at least {1 - SAME:.0%} of that without",
        **_all(_beside(("1c",), False), (1 - SAME, _ANY)), comment=_comment(always=_DISJOINT),
    ),
    Claim(
        "1i", "5.7, fig. 19, 20",
        "A compute job on the clustered I/O nodes (1i) loses much, up to 40 %, at any I/O load",
        f"bandwidth beside I/O at most {1 - NEAR:.0%} of that without at every load",
        **_all(_beside(("1i",), False), (-_ANY, 1 - NEAR)), comment=_comment(),
    ),
    Claim(
        "load", "5.7, fig. 19, 20",
        "With distributed I/O nodes a compute job on them loses more at higher I/O loads",
        "relative bandwidth at the lowest load above that at the highest",
        **_all(_loads, "above"), comment=_comment(),
    ),
)  # fmt: skip
