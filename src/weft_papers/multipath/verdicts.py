"""Claims of sections 7 and 8 of the multipath paper, and the comparisons that test them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.sim.static.multipath import Scheme
from weft_papers.claims import Claim, ClaimComparison, show
from weft_papers.multipath import comments as why
from weft_papers.multipath.evidence import (
    BOTH,
    E_ECMP,
    ECMP,
    EQUAL,
    FLOWLET,
    HIGH,
    NAMES,
    RAPID,
    SATURATED,
    MultipathEvidence,
    Side,
    below_first,
    change,
    constant,
    excess_variation,
    fall_shares,
    lowest,
    reached,
    spread,
    steps,
    trail,
    used_falls,
)

#: (epochs, side of the threshold): not yet saturated at the first, saturated at the second.
_KNEE: tuple[tuple[int, Side], ...] = ((5, "above"), (20, "below"))
_QP_SWEEPS = ("qps", "qps-30")
_ALL_SWEEPS = (*_QP_SWEEPS, "epochs", "k")


def _dominance(ev: MultipathEvidence, basis: str) -> list[ClaimComparison]:
    comparisons = []
    for decile in range(10, 100, 10):
        flowlet, ecmp = (
            np.percentile(ev.shape(scheme, basis), decile, axis=1) for scheme in (FLOWLET, ECMP)
        )
        comparisons.append(
            ClaimComparison.of(f"p{decile} of Flowlet-only minus ECMP", flowlet - ecmp, "below")
        )
    return comparisons


def _narrower(
    ev: MultipathEvidence, basis: str, scheme: Scheme, others: Sequence[Scheme]
) -> list[ClaimComparison]:
    return [
        ClaimComparison.of(
            f"p90 - p10 of {scheme.label} minus {other.label}",
            spread(ev.shape(scheme, basis)) - spread(ev.shape(other, basis)),
            "below",
        )
        for other in others
    ]


def _spreads(ev: MultipathEvidence, basis: str) -> str:
    return "p90 - p10: " + ", ".join(
        f"{scheme.label} {show(spread(ev.shape(scheme, basis)))}" for scheme in Scheme
    )


_LOWEST = (
    "the paired difference to every other scheme is below 0 at every point where the two are not "
    "the same scheme by definition"
)

CLAIMS: tuple[Claim[MultipathEvidence], ...] = (
    Claim(
        "ecmp-cv-constant",
        "7.1, fig. 1",
        "ECMP's CV is constant across QPs",
        "the largest change of the CV from that at 1 QP, over all seeds, is 0",
        lambda ev, basis: constant(ev, basis, "cv"),
        lambda ev, basis: f"{show(ev.at('qps', 1, ECMP, basis, 'cv'))} at all numbers of QPs",
        why.constant,
    ),
    Claim(
        "e-ecmp-cv-rapid",
        "7.1, fig. 1",
        "e-ECMP's CV falls rapidly as QPs increase",
        "in both QP sweeps, the CV at every number of QPs is below that at 1, and at least half of "
        "its fall to the largest number of QPs is reached at 4",
        lambda ev, basis: [
            comparison
            for sweep in _QP_SWEEPS
            for comparison in (
                *below_first(ev, basis, "cv", (sweep,), E_ECMP),
                reached(ev, basis, sweep, E_ECMP, 4, RAPID, "below"),
            )
        ],
        lambda ev, basis: trail(ev, "qps", E_ECMP, basis, "cv"),
        why.rapid("cv"),
    ),
    Claim(
        "both-lowest-cv-qps",
        "7.1, fig. 1",
        "Flowlet-based e-ECMP consistently has the lowest CV across QPs",
        f"CV: {_LOWEST}, in both QP sweeps",
        lambda ev, basis: lowest(ev, basis, "cv", _QP_SWEEPS),
        lambda ev, basis: trail(ev, "qps", BOTH, basis, "cv"),
        why.lowest("cv", "qps", 8),
    ),
    Claim(
        "ecmp-p90-constant",
        "7.1, fig. 2",
        "ECMP's p90 is constant across QPs",
        "the largest change of the p90 from that at 1 QP, over all seeds, is 0",
        lambda ev, basis: constant(ev, basis, "p90"),
        lambda ev, basis: f"{show(ev.at('qps', 1, ECMP, basis, 'p90'))} at all numbers of QPs",
        why.constant,
    ),
    Claim(
        "e-ecmp-p90-falls",
        "7.1, fig. 2",
        "e-ECMP significantly reduces p90 as QPs increase",
        "the p90 at every number of QPs is below that at 1, in both QP sweeps",
        lambda ev, basis: below_first(ev, basis, "p90", _QP_SWEEPS, E_ECMP),
        lambda ev, basis: trail(ev, "qps", E_ECMP, basis, "p90"),
        why.rapid("p90"),
    ),
    Claim(
        "both-lowest-p90-qps",
        "7.1, fig. 2",
        "Flowlet-based e-ECMP has the lowest p90 across QPs",
        f"p90: {_LOWEST}, in both QP sweeps",
        lambda ev, basis: lowest(ev, basis, "p90", _QP_SWEEPS),
        lambda ev, basis: trail(ev, "qps", BOTH, basis, "p90"),
        why.lowest("p90", "qps", 8),
    ),
    Claim(
        "flowlet-cv-falls",
        "7.2, fig. 3",
        "Flowlet-only's CV falls as epochs increase",
        "the CV at each number of epochs is below that at the number before",
        lambda ev, basis: steps(ev, basis, "cv", "epochs", FLOWLET, "below"),
        lambda ev, basis: trail(ev, "epochs", FLOWLET, basis, "cv"),
        why.rapid("cv"),
    ),
    Claim(
        "both-lowest-cv-epochs",
        "7.2, fig. 3",
        "Flowlet-based e-ECMP's CV is consistently lower across epochs",
        f"CV: {_LOWEST}",
        lambda ev, basis: lowest(ev, basis, "cv", ("epochs",)),
        lambda ev, basis: trail(ev, "epochs", BOTH, basis, "cv"),
        why.lowest("cv", "epochs", 20),
    ),
    Claim(
        "saturation",
        "7.2, fig. 3",
        "Improvements saturate after about 10 to 20 epochs",
        "90 % of the CV's fall from 1 to 40 epochs is reached at 20 epochs but not at 5, for "
        "Flowlet-only and Flowlet-based e-ECMP",
        lambda ev, basis: [
            reached(ev, basis, "epochs", scheme, x, SATURATED, wanted)
            for scheme in (FLOWLET, BOTH)
            for x, wanted in _KNEE
        ],
        lambda ev, basis: (
            f"share of the fall in CV: Flowlet-only {fall_shares(ev, basis, 'epochs', FLOWLET)}; "
            f"{BOTH.label} {fall_shares(ev, basis, 'epochs', BOTH)}"
        ),
        why.saturation,
    ),
    Claim(
        "flowlet-p90-falls",
        "7.2, fig. 4",
        "Temporal reshuffling lowers the p90",
        "the p90 of Flowlet-only at every number of epochs is below that at 1",
        lambda ev, basis: below_first(ev, basis, "p90", ("epochs",), FLOWLET),
        lambda ev, basis: trail(ev, "epochs", FLOWLET, basis, "p90"),
        why.rapid("p90"),
    ),
    Claim(
        "both-lowest-p90-epochs",
        "7.2, fig. 4",
        "Flowlet-based e-ECMP consistently has the lowest p90 across epochs",
        f"p90: {_LOWEST}",
        lambda ev, basis: lowest(ev, basis, "p90", ("epochs",)),
        lambda ev, basis: trail(ev, "epochs", BOTH, basis, "p90"),
        why.lowest("p90", "epochs", 20),
    ),
    Claim(
        "ecmp-cv-grows",
        "7.3, fig. 5",
        "ECMP's imbalance grows with k",
        "the CV at each k is above that at the k before",
        lambda ev, basis: steps(ev, basis, "cv", "k", ECMP, "above"),
        lambda ev, basis: trail(ev, "k", ECMP, basis, "cv"),
        why.size,
    ),
    Claim(
        "multipath-fairer-k",
        "7.3, fig. 5",
        "e-ECMP and Flowlet-based e-ECMP consistently improve fairness",
        "the CV of both schemes is below that of ECMP at every k",
        lambda ev, basis: [
            comparison
            for scheme in (E_ECMP, BOTH)
            for comparison in lowest(ev, basis, "cv", ("k",), scheme, (ECMP,))
        ],
        lambda ev, basis: f"ECMP -> {BOTH.label}: {change(ev, 'k', ECMP, BOTH, basis, 'cv')}",
        why.gain,
    ),
    Claim(
        "ecmp-underuses",
        "7.3, fig. 6",
        "ECMP increasingly underuses links as k grows",
        "the used share at each k is below that at the k before, unless every link is used at both",
        used_falls,
        lambda ev, basis: trail(ev, "k", ECMP, basis, "used"),
        why.used,
    ),
    Claim(
        "multipath-uses-all",
        "7.3, fig. 6",
        "Multipath extensions maintain high utilisation",
        "the used share of e-ECMP and of Flowlet-based e-ECMP is above 0.9 at every k",
        lambda ev, basis: [
            ClaimComparison.of(
                f"used share of {scheme.label} minus {HIGH}, k {x}",
                ev.at("k", x, scheme, basis, "used") - HIGH,
                "above",
            )
            for scheme in (E_ECMP, BOTH)
            for x in ev.xs["k"]
        ],
        lambda ev, basis: "; ".join(
            f"{scheme.label} {trail(ev, 'k', scheme, basis, 'used')}" for scheme in (E_ECMP, BOTH)
        ),
        why.high,
    ),
    Claim(
        "ecmp-heavy-tail",
        "7.4, fig. 7",
        "ECMP's distribution of load is heavy-tailed",
        "heavier than exponential: the excess over the p90 has a standard deviation above its mean",
        lambda ev, basis: [
            ClaimComparison.of(
                "std/mean of ECMP's excess over p90, minus 1",
                excess_variation(ev.shape(ECMP, basis)) - 1,
                "above",
            )
        ],
        lambda ev, basis: (
            f"std/mean of the excess {show(excess_variation(ev.shape(ECMP, basis)))}; "
            f"max {show(ev.at('cdf', 8, ECMP, basis, 'max'))}, mean "
            f"{show(ev.at('cdf', 8, ECMP, basis, 'mean'))}"
        ),
        why.tail,
    ),
    Claim(
        "flowlet-shifts-left",
        "7.4, fig. 7",
        "Flowlet-only shifts the distribution left",
        "every decile, p10 to p90, of Flowlet-only is below ECMP's",
        _dominance,
        lambda ev, basis: ", ".join(
            f"p{decile} {show(np.percentile(ev.shape(ECMP, basis), decile, axis=1))} -> "
            f"{show(np.percentile(ev.shape(FLOWLET, basis), decile, axis=1))}"
            for decile in (10, 50, 90)
        ),
        why.shift,
    ),
    Claim(
        "e-ecmp-compresses-further",
        "7.4, fig. 7",
        "e-ECMP compresses the distribution further (than Flowlet-only)",
        "p90 - p10 of e-ECMP is below that of ECMP and of Flowlet-only",
        lambda ev, basis: _narrower(ev, basis, E_ECMP, (ECMP, FLOWLET)),
        _spreads,
        why.further,
    ),
    Claim(
        "both-steepest",
        "7.4, fig. 7",
        "Flowlet-based e-ECMP has the steepest CDF",
        "p90 - p10 of Flowlet-based e-ECMP is below that of every other scheme",
        lambda ev, basis: _narrower(ev, basis, BOTH, (ECMP, FLOWLET, E_ECMP)),
        _spreads,
        why.steep,
    ),
    Claim(
        "ecmp-hotspots",
        "8",
        "Static ECMP suffers hot spots caused by hash collisions",
        "p90 and maximum of ECMP are above those of the equal split of the same flows, at every k",
        lambda ev, basis: [
            ClaimComparison.of(
                f"{NAMES[metric]} of ECMP minus equal split, k {x}",
                ev.at("k", x, ECMP, basis, metric) - ev.at("k", x, EQUAL, basis, metric),
                "above",
            )
            for metric in ("p90", "max")
            for x in ev.xs["k"]
        ],
        lambda ev, basis: (
            "equal split -> ECMP: "
            + "; ".join(change(ev, "k", EQUAL, ECMP, basis, metric) for metric in ("p90", "max"))
        ),
        why.hotspot,
    ),
    Claim(
        "spatial-improves",
        "8",
        "Spatial multipath significantly improves load distribution",
        "the CV of e-ECMP is below that of ECMP at every point of every sweep",
        lambda ev, basis: lowest(ev, basis, "cv", _ALL_SWEEPS, E_ECMP, (ECMP,)),
        lambda ev, basis: f"ECMP -> e-ECMP: {change(ev, 'k', ECMP, E_ECMP, basis, 'cv')}",
        why.everywhere,
    ),
    Claim(
        "temporal-improves",
        "8",
        "Temporal multipath further mitigates residual imbalance",
        "the CV of Flowlet-based e-ECMP is below that of e-ECMP at every point of every sweep",
        lambda ev, basis: lowest(ev, basis, "cv", _ALL_SWEEPS, BOTH, (E_ECMP,)),
        lambda ev, basis: f"e-ECMP -> {BOTH.label}: {change(ev, 'k', E_ECMP, BOTH, basis, 'cv')}",
        why.everywhere,
    ),
    Claim(
        "both-best-everywhere",
        "8",
        "Combining both is most uniform and least congested in all scenarios",
        f"CV and p90: {_LOWEST}, in every sweep",
        lambda ev, basis: [
            comparison
            for metric in ("cv", "p90")
            for comparison in lowest(ev, basis, metric, _ALL_SWEEPS)
        ],
        lambda ev, basis: (
            f"{trail(ev, 'k', BOTH, basis, 'cv')}; {trail(ev, 'k', BOTH, basis, 'p90')}"
        ),
        why.everywhere,
    ),
)
