"""Measurements of the multipath study, and the comparisons and phrases of its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.sim.static.multipath import Scheme
from weft_papers.claims import ClaimComparison, show

PAPER = "cable"
TIERS = ("edge-agg-up", "agg-core-up", "core-agg-down", "agg-edge-down")
#: Definitions of load on which every claim is tested, the paper's first.
CLAIM_BASES = (PAPER, *TIERS)

#: Shares of the whole improvement: at least RAPID at 4 QPs counts as "rapid", and at least
#: SATURATED counts as "saturated".
RAPID, SATURATED = 0.5, 0.9
#: "High utilisation": at least this share of the links carries load.
HIGH = 0.9

Side = Literal["below", "above"]

ECMP, FLOWLET, E_ECMP, BOTH = Scheme
EQUAL = "equal-split"


@dataclass(frozen=True, eq=False)
class MultipathEvidence:
    """Measurements of the study, indexed for the claims."""

    #: (sweep, x, scheme, basis) -> metric -> float64 [seeds].
    values: Mapping[tuple[str, int, str, str], Mapping[str, NDArray[np.float64]]]
    #: (sweep, x, scheme) -> (QPs, epochs) that the scheme uses at this point.
    parts: Mapping[tuple[str, int, str], tuple[int, int]]
    #: Sweep -> its values of x, ascending.
    xs: Mapping[str, tuple[int, ...]]
    #: Basis -> float64 [schemes, seeds, links] at figure 7's point.
    loads: Mapping[str, NDArray[np.float64]]
    #: Schemes in the order of `loads`.
    schemes: tuple[str, ...]
    #: Hash that chose the paths.
    hash: str

    @classmethod
    def of(
        cls,
        runs: pl.DataFrame,
        schemes: Sequence[str],
        loads: Mapping[str, NDArray[np.float64]],
        hash: str,
    ) -> MultipathEvidence:
        """Convert the frame of runs."""
        values = {}
        parts = {}
        xs: dict[str, list[int]] = {}
        keys = ["sweep", "k", "qps", "epochs", "scheme", "basis"]
        for key, group in runs.group_by(keys, maintain_order=True):
            sweep, k, qps, epochs, scheme, basis = key
            x = {"k": k, "epochs": epochs}.get(sweep, qps)
            ordered = group.sort("seed")
            values[sweep, x, scheme, basis] = {
                metric: ordered[metric].to_numpy()
                for metric in ("mean", "p50", "p90", "p99", "max", "cv", "used")
            }
            if scheme != EQUAL:
                parts[sweep, x, scheme] = Scheme(scheme).parts(qps, epochs)
            if x not in xs.setdefault(sweep, []):
                xs[sweep].append(x)
        ordered_xs = {sweep: tuple(sorted(each)) for sweep, each in xs.items()}
        return cls(values, parts, ordered_xs, loads, tuple(schemes), hash)

    def at(self, sweep: str, x: int, scheme: str, basis: str, metric: str) -> NDArray[np.float64]:
        """Return one value per seed."""
        return self.values[sweep, x, scheme, basis][metric]

    def shape(self, scheme: str, basis: str) -> NDArray[np.float64]:
        """Return the loads at figure 7's point, [seeds, links]."""
        loads: NDArray[np.float64] = self.loads[basis][self.schemes.index(scheme)]
        return loads


#: Metric -> its name in sentences.
NAMES = {"cv": "CV", "p90": "p90", "max": "largest load", "used": "used share", "mean": "mean load"}


# -- numbers to show -----------------------------------------------------------------------------


def trail(ev: MultipathEvidence, sweep: str, scheme: str, basis: str, metric: str) -> str:
    """Format a metric along a sweep."""
    steps = (f"{x}: {show(ev.at(sweep, x, scheme, basis, metric))}" for x in ev.xs[sweep])
    return f"{NAMES[metric]} " + ", ".join(steps)


def ends(ev: MultipathEvidence, sweep: str, scheme: str, basis: str, metric: str) -> str:
    """Format a metric at both ends of a sweep."""
    first, last = ev.xs[sweep][0], ev.xs[sweep][-1]
    start, end = (ev.at(sweep, x, scheme, basis, metric) for x in (first, last))
    return f"{show(start)} at {first}, {show(end)} at {last}"


def change(ev: MultipathEvidence, sweep: str, a: str, b: str, basis: str, metric: str) -> str:
    """Format a metric of two schemes along a sweep."""
    pairs = (
        f"{x}: {show(ev.at(sweep, x, a, basis, metric))} -> "
        f"{show(ev.at(sweep, x, b, basis, metric))}"
        for x in ev.xs[sweep]
    )
    return f"{NAMES[metric]} by {sweep} " + ", ".join(pairs)


def side_by_side(ev: MultipathEvidence, sweep: str, x: int, basis: str, metric: str) -> str:
    """Format a metric of all schemes at one point."""
    return ", ".join(
        f"{scheme.label} {show(ev.at(sweep, x, scheme, basis, metric))}" for scheme in Scheme
    )


# -- comparisons ---------------------------------------------------------------------------------


def lowest(
    ev: MultipathEvidence,
    basis: str,
    metric: str,
    sweeps: Sequence[str],
    scheme: Scheme = BOTH,
    others: Sequence[Scheme] = (ECMP, FLOWLET, E_ECMP),
) -> list[ClaimComparison]:
    """Compare a scheme with others wherever its numbers of QPs and epochs differ from theirs."""
    return [
        ClaimComparison.of(
            f"{NAMES[metric]} of {scheme.label} minus {other.label}, {sweep} {x}",
            ev.at(sweep, x, scheme, basis, metric) - ev.at(sweep, x, other, basis, metric),
            "below",
        )
        for sweep in sweeps
        for x in ev.xs[sweep]
        for other in others
        if ev.parts[sweep, x, scheme] != ev.parts[sweep, x, other]
    ]


def constant(ev: MultipathEvidence, basis: str, metric: str) -> list[ClaimComparison]:
    """Compare ECMP at every number of QPs with ECMP at 1 QP."""
    return [
        ClaimComparison.of(
            f"{NAMES[metric]} of ECMP at {x} QPs minus at 1, {sweep}",
            ev.at(sweep, x, ECMP, basis, metric) - ev.at(sweep, 1, ECMP, basis, metric),
            "zero",
        )
        for sweep in ("qps", "qps-30")
        for x in ev.xs[sweep][1:]
    ]


def below_first(
    ev: MultipathEvidence, basis: str, metric: str, sweeps: Sequence[str], scheme: Scheme
) -> list[ClaimComparison]:
    """Compare every point of sweeps with the first, for a decrease."""
    return [
        _change(ev, basis, metric, sweep, scheme, ev.xs[sweep][0], x, "below")
        for sweep in sweeps
        for x in ev.xs[sweep][1:]
    ]


def steps(
    ev: MultipathEvidence, basis: str, metric: str, sweep: str, scheme: Scheme, wanted: Side
) -> list[ClaimComparison]:
    """Compare every point of a sweep with the one before."""
    return [
        _change(ev, basis, metric, sweep, scheme, before, x, wanted)
        for before, x in pairwise(ev.xs[sweep])
    ]


def _change(
    ev: MultipathEvidence,
    basis: str,
    metric: str,
    sweep: str,
    scheme: Scheme,
    a: int,
    b: int,
    wanted: Side,
) -> ClaimComparison:
    return ClaimComparison.of(
        f"{NAMES[metric]} of {scheme.label} at {b} minus at {a}, {sweep}",
        ev.at(sweep, b, scheme, basis, metric) - ev.at(sweep, a, scheme, basis, metric),
        wanted,
    )


def reached(
    ev: MultipathEvidence,
    basis: str,
    sweep: str,
    scheme: Scheme,
    x: int,
    share: float,
    wanted: Side,
) -> ClaimComparison:
    """Compare the fall of the CV up to x with a share of its fall along the whole sweep.

    The compared value is negative if the CV falls by more than this share up to x.
    """
    first, last = (
        ev.at(sweep, end, scheme, basis, "cv") for end in (ev.xs[sweep][0], ev.xs[sweep][-1])
    )
    here = ev.at(sweep, x, scheme, basis, "cv")
    side = "short of" if wanted == "above" else "beyond"
    return ClaimComparison.of(
        f"CV of {scheme.label} at {x}, {sweep}: {side} {share:.0%} of the fall",
        share * (first - last) - (first - here),
        wanted,
    )


def fall_shares(ev: MultipathEvidence, basis: str, sweep: str, scheme: Scheme) -> str:
    """Format the share of a sweep's fall in mean CV that is reached at each point."""
    mean = [float(ev.at(sweep, x, scheme, basis, "cv").mean()) for x in ev.xs[sweep]]
    fall = mean[0] - mean[-1]
    if abs(fall) < 1e-12:
        return "no change"
    shares = ((mean[0] - value) / fall for value in mean)
    return ", ".join(f"{x}: {share:.0%}" for x, share in zip(ev.xs[sweep], shares, strict=True))


def used_falls(ev: MultipathEvidence, basis: str) -> list[ClaimComparison]:
    """Compare ECMP's used share at each k with the k before, unless it is 1 at both."""
    comparisons = []
    for before, x in pairwise(ev.xs["k"]):
        start, end = (ev.at("k", size, ECMP, basis, "used") for size in (before, x))
        if min(start.min(), end.min()) < 1:
            label = f"used share of ECMP at {x} minus at {before}, k"
            comparisons.append(ClaimComparison.of(label, end - start, "below"))
    largest = ev.xs["k"][-1]
    everywhere = ev.at("k", largest, ECMP, basis, "used") - 1
    return comparisons or [
        ClaimComparison.of(f"used share of ECMP minus 1, k {largest}", everywhere, "below")
    ]


def excess_variation(loads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficient of variation of the excess of loads above the p90, for each seed.

    The coefficient is 1 for an exponential tail and larger for a heavier one.
    """
    variations = []
    for seed in loads:
        threshold = np.percentile(seed, 90)
        excess = seed[seed > threshold] - threshold
        variations.append(excess.std() / excess.mean() if len(excess) else 0.0)
    return np.array(variations)


def spread(loads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p90 minus p10 of the loads of each seed, the width of the middle of the CDF."""
    low, high = np.percentile(loads, [10, 90], axis=1)
    return np.asarray(high - low)
