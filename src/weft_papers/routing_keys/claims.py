"""The claims of the Routing Keys paper, and their tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft_papers.claims import (
    Claim,
    NotMeasured,
    OutOfScope,
    Wanted,
    every,
    explained_choices,
    show,
)
from weft_papers.reported_study import results_by_point
from weft_papers.routing_keys.contention import Size
from weft_papers.routing_keys.runs import CHOICES, KIB, PAPER, RoutingKeysRun, RoutingKeysRunResult

#: The smallest gain that rounds to the 2.7 of the paper.
GAIN = 2.65
#: Largest relative differences of times that are "comparable", and that are "negligible".
CLOSE, NEGLIGIBLE = 0.10, 0.05

LABELS = {
    "dmodk": "D-mod-K", "conga": "CONGA", "ark": "ARK", "nrk": "NRK", "ark-lowest": "ARK lowest",
}  # fmt: skip
_HIGHER = (GAIN, np.inf)
Values = NDArray[np.float64]
Labelled = list[tuple[str, Values]]
#: Policies whose times are divided.
Pairs = Sequence[tuple[str, str]]
_OVER_KEYS = (("dmodk", "ark"), ("dmodk", "nrk"), ("conga", "ark"), ("conga", "nrk"))


@dataclass(frozen=True, eq=False)
class RoutingKeysEvidence:
    """Measurements of the study, indexed for the claims."""

    #: Run with seed 0 -> communication time, float64 [seeds]: the largest of all applications, and
    #: the mean over them; complete points only.
    times: Mapping[RoutingKeysRun, Values]
    means: Mapping[RoutingKeysRun, Values]
    #: All points that the options of the study include, as runs with seed 0.
    planned: tuple[RoutingKeysRun, ...]
    #: (hosts, method) -> largest number of flows on a link, float64 [seeds].
    contention: Mapping[tuple[int, str], Values]

    @classmethod
    def of(
        cls,
        measured: Sequence[RoutingKeysRunResult],
        runs: Sequence[RoutingKeysRun],
        sizes: Mapping[Size, Mapping[str, int]],
        seeds: Sequence[int],
    ) -> RoutingKeysEvidence:
        """Index the measurements; `runs` are all planned runs."""
        planned = results_by_point(runs, measured)
        complete = {point: here for point, here in planned.items() if None not in here}
        times = {point: np.array([m.worst_us for m in here]) for point, here in complete.items()}
        means = {point: np.array([m.mean_us for m in here]) for point, here in complete.items()}
        contention: dict[tuple[int, str], Values] = {}
        for radix in sorted({size.radix for size in sizes}):
            results = [sizes.get(Size(radix, seed)) for seed in seeds]
            known = [each for each in results if each is not None]
            if len(known) == len(results):
                for method in known[0]:
                    values = np.array([each[method] for each in known], dtype=np.float64)
                    contention[radix**2, method] = values
        return cls(times, means, tuple(planned), contention)

    def points(
        self, figure: str, choice: str, policies: Iterable[str], applications: int = 0
    ) -> list[RoutingKeysRun]:
        """Return the points at which a figure has some policies, each as its run with ``dmodk``.

        They are out of scope if the study has none, or the choice does not concern these policies.
        """
        own = CHOICES[choice].policies
        if own and not set(policies) & own.keys():
            raise OutOfScope
        points = [
            replace(run, policy="dmodk")
            for run in self.planned
            if run.figure == figure
            and run.choice == choice
            and run.policy in policies
            and run.applications == (applications or run.applications)
        ]
        if not points:
            raise OutOfScope
        return list(dict.fromkeys(points))

    def time(self, point: RoutingKeysRun, policy: str) -> Values:
        """Return the times of a policy at a point."""
        run = replace(point, policy=policy)
        if CHOICES[run.choice].policies and policy not in CHOICES[run.choice].policies:
            run = replace(run, choice=PAPER)
        if run not in self.times:
            raise NotMeasured(f"not all seeds of {policy} at {where(point)}")
        return self.times[run]

    def gain(self, point: RoutingKeysRun, other: str, ours: str) -> Values:
        """Return the time of policy `other` over that of `ours` at a point, for each seed."""
        return self.time(point, other) / self.time(point, ours)


def where(point: RoutingKeysRun) -> str:
    """Return the applications, utilization and size of a point in words."""
    size = f", {point.size // KIB} KiB" if point.size else ""
    return f"{point.applications} applications, {point.utilization:.0%}{size}"


def _trail(ev: RoutingKeysEvidence, points: Sequence[RoutingKeysRun], pairs: Pairs) -> str:
    """Format the ratios of times at points."""
    several = len({point.applications for point in points}) > 1
    names = [
        f"{point.applications}, {point.utilization:.0%}" if several else f"{point.utilization:.0%}"
        for point in points
    ]
    text = "; ".join(
        f"{LABELS[other]} / {LABELS[ours]} "
        + ", ".join(
            f"{show(ev.gain(point, other, ours))} ({name})"
            for point, name in zip(points, names, strict=True)
        )
        for other, ours in pairs
    )
    return f"{text} [{'applications, ' * several}utilization]"


def _gains(
    figure: str, pairs: Pairs, wanted: Wanted, applications: int = 0, lowest: bool = False
) -> dict[str, Any]:
    """Return the test of ratios of times at the points of a figure; sides are those of 1."""
    policies = {policy for pair in pairs for policy in pair}
    less = 0.0 if isinstance(wanted, tuple) else 1.0

    def points(ev: RoutingKeysEvidence, choice: str) -> list[RoutingKeysRun]:
        found = ev.points(figure, choice, policies, applications)
        least = min(each.utilization for each in found)
        return [each for each in found if not lowest or each.utilization == least]

    def gains(ev: RoutingKeysEvidence, choice: str) -> Labelled:
        return [
            (f"{LABELS[other]} / {LABELS[ours]}{' minus 1' if less else ''}, {where(point)}",
             ev.gain(point, other, ours) - less)
            for point in points(ev, choice)
            for other, ours in pairs
        ]  # fmt: skip

    return {
        "compare": every((gains, wanted)),
        "measured": lambda ev, choice: _trail(ev, points(ev, choice), pairs),
    }


def _largest(ev: RoutingKeysEvidence, choice: str) -> list[tuple[str, Values, RoutingKeysRun]]:
    """Return, for D-mod-K and CONGA, the largest mean ratio to ARK or NRK at any point.

    It is out of scope if the study omits figure 7, where the paper has the largest.
    """
    result = []
    for other in ("dmodk", "conga"):
        ev.points("7", choice, (other, "ark", "nrk"))
        found = []
        for figure in ("6", "7", "8", "9"):
            with suppress(OutOfScope):
                found += [
                    (f"{LABELS[other]} / {LABELS[ours]}", ev.gain(each, other, ours), each)
                    for each in ev.points(figure, choice, (other, "ark", "nrk"))
                    for ours in ("ark", "nrk")
                ]
        result.append(max(found, key=lambda each: float(each[1].mean())))
    return result


def _ends(ev: RoutingKeysEvidence, choice: str) -> tuple[RoutingKeysRun, RoutingKeysRun]:
    """Return the points of figure 6 with the lowest and with the highest utilization."""
    points = sorted(ev.points("6", choice, ("dmodk", "nrk")), key=lambda each: each.utilization)
    if len(points) < 2:
        raise OutOfScope
    return points[0], points[-1]


def _falls(ev: RoutingKeysEvidence, choice: str) -> Labelled:
    low, high = _ends(ev, choice)
    return [
        (f"{LABELS[other]} / NRK at {low.utilization:.0%} minus at {high.utilization:.0%}",
         ev.gain(low, other, "nrk") - ev.gain(high, other, "nrk"))
        for other in ("dmodk", "conga")
    ]  # fmt: skip


def _fewest_and_most(
    ev: RoutingKeysEvidence, choice: str
) -> list[tuple[RoutingKeysRun, RoutingKeysRun]]:
    """Return pairs of points of figure 7, with fewest and with most applications."""
    points = ev.points("7", choice, ("ark", "nrk"))
    low, high = (end(each.applications for each in points) for end in (min, max))
    if low == high:
        raise OutOfScope
    sizes = {(each.applications, each.utilization): each for each in points}
    utils = sorted({each.utilization for each in points})
    return [(sizes[low, util], sizes[high, util]) for util in utils]


def _ahead(ev: RoutingKeysEvidence, choice: str) -> Labelled:
    result = []
    for few, many in _fewest_and_most(ev, choice):
        gains = ev.gain(few, "ark", "nrk"), ev.gain(many, "ark", "nrk")
        result += [
            (f"ARK / NRK minus 1, {where(many)}", gains[1] - 1),
            (f"ARK / NRK with {many.applications} applications minus with {few.applications}, "
             f"{few.utilization:.0%}", gains[1] - gains[0]),
        ]  # fmt: skip
    return result


def _larger(
    ev: RoutingKeysEvidence, choice: str
) -> list[tuple[str, RoutingKeysRun, RoutingKeysRun]]:
    """Return policy, smallest and largest size for each number of applications of figure 9."""
    policies = ("dmodk", "conga", "ark", "nrk")
    points = ev.points("9", choice, policies)
    result = []
    for count in sorted({each.applications for each in points}):
        here = sorted((p for p in points if p.applications == count), key=lambda each: each.size)
        result += [(policy, here[0], here[-1]) for policy in policies]
    return result


def _faster(ev: RoutingKeysEvidence, choice: str) -> Labelled:
    return [
        (f"{LABELS[policy]} at {large.size // KIB} KiB over {small.size // KIB} KiB minus 1, "
         f"{large.applications} applications", ev.time(large, policy) / ev.time(small, policy) - 1)
        for policy, small, large in _larger(ev, choice)
    ]  # fmt: skip


def _hosts(ev: RoutingKeysEvidence, choice: str) -> list[int]:
    """Return the sizes of figure 4."""
    hosts = sorted({size for size, _ in ev.contention})
    if choice != PAPER or len(hosts) < 2:
        raise OutOfScope
    return hosts


def _grows(ev: RoutingKeysEvidence, choice: str) -> Labelled:
    hosts = _hosts(ev, choice)
    dmodk, nrk = (
        ev.contention[hosts[-1], method] - ev.contention[hosts[0], method]
        for method in ("dmodk", "nrk")
    )
    between = f"{hosts[-1]:,} hosts minus at {hosts[0]:,}"
    return [
        (f"flows with D-mod-K at {between}", dmodk),
        (f"growth of D-mod-K minus growth of NRK, {between}", dmodk - nrk),
    ]


def _fewer(ev: RoutingKeysEvidence, choice: str) -> Labelled:
    return [
        (f"flows with NRK minus D-mod-K, {size:,} hosts",
         ev.contention[size, "nrk"] - ev.contention[size, "dmodk"])
        for size in _hosts(ev, choice)
    ]  # fmt: skip


def _flows(ev: RoutingKeysEvidence, choice: str) -> str:
    return "; ".join(
        f"{LABELS[method]} "
        + ", ".join(
            f"{show(ev.contention[size, method])} at {size:,}" for size in _hosts(ev, choice)
        )
        for method in ("dmodk", "nrk")
    )


def _means(ev: RoutingKeysEvidence) -> str:
    """Compare the means over applications, which the number of phases does not bias."""
    parts = []
    for policy, small, large in _larger(ev, PAPER):
        ends = [ev.means.get(replace(point, policy=policy)) for point in (small, large)]
        if ends[0] is not None and ends[1] is not None:
            ratio = show(ends[1] / ends[0])
            parts.append(f"{LABELS[policy]} {ratio} with {large.applications}")
    return f"Ratio of the means over applications instead of the largest: {'; '.join(parts)}."


_ONE_SIZE = (
    "All messages of a phase have one size with mixed sizes, too; a single size does not change "
    "the contention within an application. D-mod-K and ARK differ little where other applications "
    "cause most of the contention, that is with many applications. They also differ little where "
    "hosts are contiguous, because D-mod-K routes shifts of contiguous hosts without contention."
)
_LARGER = (
    "Two effects oppose each other. Fewer barriers save time. But each application's time is a sum "
    "over fewer phases, whose contention with other applications varies; with many applications, "
    "the largest of these sums is therefore farther above their mean."
)

CLAIMS: tuple[Claim[RoutingKeysEvidence], ...] = (
    Claim(
        "low-contention", "IV-A, fig. 4",
        "NRK keeps the most flows on a link low, while they increase with D-mod-K",
        "D-mod-K grows from the smallest to the largest size, by more than NRK, and NRK is below "
        "it at every size",
        every((_grows, "above"), (_fewer, "below")), _flows,
    ),
    Claim(
        "conga-worse", "IV-C, fig. 6",
        "CONGA does worse than D-mod-K, because it reacts to congestion that has passed",
        "CONGA / D-mod-K above 1 at every utilization",
        **_gains("6", (("conga", "dmodk"),), "above"),
    ),
    Claim(
        "ark-better", "IV-C, fig. 6",
        "ARK does better than D-mod-K and CONGA",
        "D-mod-K / ARK and CONGA / ARK above 1 at every utilization",
        **_gains("6", (("dmodk", "ark"), ("conga", "ark")), "above"),
    ),
    Claim(
        "nrk-best", "IV-C, fig. 6",
        "NRK has the shortest communication times at all utilizations",
        "D-mod-K, CONGA and ARK / NRK above 1 at every utilization",
        **_gains("6", (("dmodk", "nrk"), ("conga", "nrk"), ("ark", "nrk")), "above"),
    ),
    Claim(
        "low-utilization", "IV-C, fig. 6",
        "The improvements are largest at low utilization",
        "D-mod-K / NRK and CONGA / NRK at the lowest utilization above those at the highest",
        every((_falls, "above")),
        lambda ev, choice: _trail(ev, _ends(ev, choice), (("dmodk", "nrk"), ("conga", "nrk"))),
    ),
    Claim(
        "gain-2.7", "IV-C, fig. 7(a)",
        "With 2 applications at 10 % utilization ARK and NRK are 2.7 times faster than D-mod-K "
        "and CONGA",
        f"D-mod-K and CONGA / ARK and NRK at least {GAIN}",
        **_gains("7", _OVER_KEYS, _HIGHER, 2, lowest=True),
    ),
    Claim(
        "gain-up-to-2.7", "abstract",
        "Communication is up to 2.7 times faster than with D-mod-K and CONGA",
        f"largest mean of D-mod-K and of CONGA / ARK or NRK in figures 6 to 9 at least {GAIN}",
        every((
            lambda ev, choice: [
                (f"{label}, figure {point.figure}, {where(point)}", values)
                for label, values, point in _largest(ev, choice)
            ], _HIGHER,
        )),
        lambda ev, choice: "; ".join(
            f"{label} {show(values)} (figure {point.figure}, {where(point)})"
            for label, values, point in _largest(ev, choice)
        ),
    ),
    Claim(
        "few-applications", "IV-C, fig. 7(a)",
        "With 2 applications the improvement of NRK over ARK is negligible",
        f"ARK / NRK at most {1 + NEGLIGIBLE} at every utilization",
        **_gains("7", (("ark", "nrk"),), (-np.inf, 1 + NEGLIGIBLE), 2),
    ),
    Claim(
        "many-applications", "IV-C, fig. 7(b, c)",
        "With more applications NRK improves more and more on ARK",
        "ARK / NRK with 32 applications above 1, and above that with 2, at every utilization",
        every((_ahead, "above")),
        lambda ev, choice: _trail(
            ev, [point for pair in _fewest_and_most(ev, choice) for point in pair],
            (("ark", "nrk"),),
        ),
    ),
    Claim(
        "single-size", "IV-C, fig. 8",
        "With messages of one size D-mod-K is comparable to ARK",
        f"D-mod-K / ARK from {1 - CLOSE} to {1 + CLOSE} at every point",
        **_gains("8", (("dmodk", "ark"),), (1 - CLOSE, 1 + CLOSE)),
        comment=explained_choices(_ONE_SIZE, undecided=False),
    ),
    Claim(
        "single-size-nrk", "IV-C, fig. 8",
        "With messages of one size NRK still has an advantage",
        "D-mod-K / NRK above 1 at every point",
        **_gains("8", (("dmodk", "nrk"),), "above"),
    ),
    Claim(
        "larger-messages", "IV-C, fig. 9",
        "The same data in larger messages is expected to take less time: there are fewer barriers",
        "time with the largest size below that with the smallest, for each policy and number of "
        "applications",
        every((_faster, "below")),
        lambda ev, choice: "; ".join(
            f"{LABELS[policy]} {show(ev.time(large, policy) / ev.time(small, policy))} with "
            f"{large.applications}"
            for policy, small, large in _larger(ev, choice)
        ),
        explained_choices(_LARGER, _means, undecided=False),
    ),
)  # fmt: skip
