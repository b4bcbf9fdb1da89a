"""Claims of sections 7 and 8 of the multipath paper, and the quantities that test them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.sim.static.multipath import Scheme
from weft_papers.claims import Claim, ClaimComparison, ClaimFinding, Verdict, every, show

PAPER = "cable"
TIERS = ("edge-agg-up", "agg-core-up", "core-agg-down", "agg-edge-down")
#: Definitions of load on which every claim is tested, the paper's first.
CLAIM_BASES = (PAPER, *TIERS)

#: Shares of the whole improvement: at least RAPID at 4 QPs counts as "rapid", and at least
#: SATURATED counts as "saturated".
RAPID, SATURATED = 0.5, 0.9
#: "High utilisation": at least this share of the links carries load.
HIGH = 0.9

ECMP, FLOWLET, E_ECMP, BOTH = Scheme
EQUAL = "equal-split"
#: Metric -> its name in sentences.
NAMES = {"cv": "CV", "p90": "p90", "max": "largest load", "used": "used share", "mean": "mean load"}

Values = NDArray[np.float64]
Labelled = list[tuple[str, Values]]


@dataclass(frozen=True, eq=False)
class MultipathEvidence:
    """Measurements of the study, indexed for the claims."""

    #: (sweep, x, scheme, basis) -> metric -> float64 [seeds].
    values: Mapping[tuple[str, int, str, str], Mapping[str, Values]]
    #: (sweep, x, scheme) -> (QPs, epochs) that the scheme uses at this point.
    parts: Mapping[tuple[str, int, str], tuple[int, int]]
    #: Sweep -> its values of x, ascending.
    xs: Mapping[str, tuple[int, ...]]
    #: Basis -> float64 [schemes, seeds, links] at figure 7's point.
    loads: Mapping[str, Values]
    #: Schemes in the order of `loads`.
    schemes: tuple[str, ...]
    #: Hash that chose the paths.
    hash: str

    @classmethod
    def of(
        cls, runs: pl.DataFrame, schemes: Sequence[str], loads: Mapping[str, Values], hash: str
    ) -> MultipathEvidence:
        """Convert the frame of runs."""
        values = {}
        parts = {}
        xs: dict[str, set[int]] = {}
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
            xs.setdefault(sweep, set()).add(x)
        ordered_xs = {sweep: tuple(sorted(each)) for sweep, each in xs.items()}
        return cls(values, parts, ordered_xs, loads, tuple(schemes), hash)

    def at(self, sweep: str, x: int, scheme: str, basis: str, metric: str) -> Values:
        """Return one value per seed."""
        return self.values[sweep, x, scheme, basis][metric]

    def shape(self, scheme: str, basis: str) -> Values:
        """Return the loads at figure 7's point, [seeds, links]."""
        loads: Values = self.loads[basis][self.schemes.index(scheme)]
        return loads

    def show(self, sweep: str, x: int, scheme: str, basis: str, metric: str) -> str:
        """Format one value."""
        return show(self.at(sweep, x, scheme, basis, metric))

    def ends(self, sweep: str, scheme: str, basis: str, metric: str) -> str:
        """Format a metric at both ends of a sweep."""
        return ", ".join(
            f"{self.show(sweep, x, scheme, basis, metric)} at {x}"
            for x in (self.xs[sweep][0], self.xs[sweep][-1])
        )


Quantities = Callable[[MultipathEvidence, str], Labelled]
Shown = Callable[[MultipathEvidence, str], str]
#: (evidence, findings by basis) -> explanation of the result on a claim.
Comment = Callable[[MultipathEvidence, Mapping[str, ClaimFinding]], str]

# -- numbers to show -----------------------------------------------------------------------------


def _trail(sweep: str, scheme: str, metric: str) -> Shown:
    """Return the format of a metric along a sweep."""
    return lambda ev, basis: (
        f"{NAMES[metric]} "
        + ", ".join(f"{x}: {ev.show(sweep, x, scheme, basis, metric)}" for x in ev.xs[sweep])
    )


def _change(a: str, b: str, metric: str) -> Shown:
    """Return the format of a metric of two schemes along the sweep over k."""
    return lambda ev, basis: (
        f"{NAMES[metric]} by k "
        + ", ".join(
            f"{x}: {ev.show('k', x, a, basis, metric)} -> {ev.show('k', x, b, basis, metric)}"
            for x in ev.xs["k"]
        )
    )


def _several(*parts: str | Shown) -> Shown:
    """Return several formats in one line."""
    return lambda ev, basis: "".join(
        part if isinstance(part, str) else part(ev, basis) for part in parts
    )


def _fall_shares(sweep: str, scheme: Scheme) -> Shown:
    """Return the format of the share of a sweep's fall in mean CV that is reached at each point."""

    def shown(ev: MultipathEvidence, basis: str) -> str:
        mean = [float(ev.at(sweep, x, scheme, basis, "cv").mean()) for x in ev.xs[sweep]]
        fall = mean[0] - mean[-1]
        if abs(fall) < 1e-12:
            return "no change"
        shares = ((mean[0] - value) / fall for value in mean)
        return ", ".join(f"{x}: {share:.0%}" for x, share in zip(ev.xs[sweep], shares, strict=True))

    return shown


def _spreads(ev: MultipathEvidence, basis: str) -> str:
    return "p90 - p10: " + ", ".join(
        f"{scheme.label} {show(_spread(ev.shape(scheme, basis)))}" for scheme in Scheme
    )


# -- quantities ----------------------------------------------------------------------------------


def _over(
    metric: str,
    sweeps: Sequence[str],
    scheme: Scheme = BOTH,
    others: Sequence[Scheme] = (ECMP, FLOWLET, E_ECMP),
) -> Quantities:
    """Return a scheme minus others wherever its numbers of QPs and epochs differ from theirs."""
    return lambda ev, basis: [
        (f"{NAMES[metric]} of {scheme.label} minus {other.label}, {sweep} {x}",
         ev.at(sweep, x, scheme, basis, metric) - ev.at(sweep, x, other, basis, metric))
        for sweep in sweeps
        for x in ev.xs[sweep]
        for other in others
        if ev.parts[sweep, x, scheme] != ev.parts[sweep, x, other]
    ]  # fmt: skip


def _constant(metric: str) -> Quantities:
    """Return ECMP at every number of QPs minus ECMP at 1 QP."""
    return lambda ev, basis: [
        (f"{NAMES[metric]} of ECMP at {x} QPs minus at 1, {sweep}",
         ev.at(sweep, x, ECMP, basis, metric) - ev.at(sweep, 1, ECMP, basis, metric))
        for sweep in _QP_SWEEPS
        for x in ev.xs[sweep][1:]
    ]  # fmt: skip


def _steps(
    metric: str, sweeps: Sequence[str], scheme: Scheme, *, from_first: bool = False
) -> Quantities:
    """Return every point of sweeps minus the one before, or minus the first one."""
    return lambda ev, basis: [
        (f"{NAMES[metric]} of {scheme.label} at {x} minus at {before}, {sweep}",
         ev.at(sweep, x, scheme, basis, metric) - ev.at(sweep, before, scheme, basis, metric))
        for sweep in sweeps
        for last, x in pairwise(ev.xs[sweep])
        for before in (ev.xs[sweep][0] if from_first else last,)
    ]  # fmt: skip


def _reached(sweep: str, scheme: Scheme, x: int, share: float, side: str) -> Quantities:
    """Return a share of the CV's fall along a whole sweep minus its fall up to x.

    The value is negative if the CV falls by more than this share up to x.
    """

    def reached(ev: MultipathEvidence, basis: str) -> Labelled:
        first, here, last = (
            ev.at(sweep, each, scheme, basis, "cv")
            for each in (ev.xs[sweep][0], x, ev.xs[sweep][-1])
        )
        label = f"CV of {scheme.label} at {x}, {sweep}: {side} {share:.0%} of the fall"
        return [(label, share * (first - last) - (first - here))]

    return reached


def _used_falls(ev: MultipathEvidence, basis: str) -> Labelled:
    """Return ECMP's used share at each k minus that at the k before, unless it is 1 at both."""
    falls = []
    for before, x in pairwise(ev.xs["k"]):
        start, end = (ev.at("k", size, ECMP, basis, "used") for size in (before, x))
        if min(start.min(), end.min()) < 1:
            falls.append((f"used share of ECMP at {x} minus at {before}, k", end - start))
    largest = ev.xs["k"][-1]
    everywhere = ev.at("k", largest, ECMP, basis, "used") - 1
    return falls or [(f"used share of ECMP minus 1, k {largest}", everywhere)]


def excess_variation(loads: Values) -> Values:
    """Return the coefficient of variation of the excess of loads above the p90, for each seed.

    The coefficient is 1 for an exponential tail and larger for a heavier one.
    """
    variations = []
    for seed in loads:
        threshold = np.percentile(seed, 90)
        excess = seed[seed > threshold] - threshold
        variations.append(excess.std() / excess.mean() if len(excess) else 0.0)
    return np.array(variations)


def _spread(loads: Values) -> Values:
    """Return p90 minus p10 of the loads of each seed, the width of the middle of the CDF."""
    low, high = np.percentile(loads, [10, 90], axis=1)
    return np.asarray(high - low)


def _narrower(scheme: Scheme, others: Sequence[Scheme]) -> Quantities:
    return lambda ev, basis: [
        (f"p90 - p10 of {scheme.label} minus {other.label}",
         _spread(ev.shape(scheme, basis)) - _spread(ev.shape(other, basis)))
        for other in others
    ]  # fmt: skip


# -- explanations --------------------------------------------------------------------------------


def _falls(findings: Mapping[str, ClaimFinding]) -> str:
    """Return a sentence on the tiers where a claim does not hold; empty if it holds on all."""
    parts = []
    for verdict, phrase in ((Verdict.FAILS, "does not hold"), (Verdict.UNDECIDED, "is undecided")):
        tiers = [basis for basis in TIERS if findings[basis].verdict is verdict]
        if tiers:
            where = "any tier" if len(tiers) == len(TIERS) else ", ".join(tiers)
            parts.append(f"{phrase} on {where}")
    return f" Per direction the claim {' and '.join(parts)}." if parts else ""


def _why(text: str | Callable[[MultipathEvidence], str]) -> Comment:
    """Return the comment of a text, and the tiers where the claim does not hold."""
    return lambda ev, findings: (text if isinstance(text, str) else text(ev)) + _falls(findings)


def _some(comparisons: Sequence[ClaimComparison]) -> str:
    """Return the first three comparisons, and the number of the others."""
    shown = "; ".join(str(each) for each in comparisons[:3])
    return shown + (f"; and {len(comparisons) - 3} more" if len(comparisons) > 3 else "")


def _parts(ev: MultipathEvidence) -> str:
    """Describe the effect of splitting a flow into more parts under the hash of the run."""
    if ev.hash == "linear":
        return (
            "Under the linear form the parts of a flow take its paths almost cyclically. If the "
            "number of QPs is a multiple of the number of paths, the flow is split equally: the "
            "optimum."
        )
    only = "The scheme has the most parts, QPs times epochs; the static level tells schemes apart "
    if ev.hash == "md5":
        return only + (
            "almost only by this number. Under the MD5 form each QP and each epoch shifts the path "
            "numbers of all flows by the same step, so that of 16 paths the first 4 QPs use 4 and "
            "the first 8 use 5."
        )
    return only + "only by this number."


def _most_parts(metric: str, sweep: str, x: int) -> Comment:
    """Return the comment on the claim that the scheme with the most parts has the lowest metric."""

    def why(ev: MultipathEvidence) -> str:
        best, e_ecmp, equal = (
            ev.at(sweep, x, scheme, PAPER, metric) for scheme in (BOTH, E_ECMP, EQUAL)
        )
        return (
            f"{_parts(ev)} At 8 QPs and 20 epochs its {NAMES[metric]} is {show(e_ecmp - best)} "
            f"below e-ECMP's and {show(best - equal)} above the equal split's."
        )

    return _why(why)


def _bounded(metric: str) -> Comment:
    """Return the comment on the smallest value of a metric that more parts can reach."""
    return _why(
        lambda ev: (
            f"The equal split over all paths has a {NAMES[metric]} of "
            f"{ev.show('qps', 30, EQUAL, PAPER, metric)} on the paper's basis: this part is due to "
            "the traffic and to the cables to hosts, which all paths of a flow share."
        )
    )


def _gain(ev: MultipathEvidence) -> str:
    largest = ev.xs["k"][-1]
    schemes = (f"{each.label} {ev.show('k', largest, each, PAPER, 'cv')}" for each in Scheme)
    equal = ev.show("k", largest, EQUAL, PAPER, "cv")
    return f"At k = {largest}: {', '.join(schemes)}, equal split {equal}."


def _idle(ev: MultipathEvidence) -> str:
    smallest = ev.xs["k"][0]
    idle = 1 - float(ev.at("k", smallest, BOTH, "agg-core-up", "used").mean())
    text = (
        "The number of flows is constant, the number of links grows as k^3. Used share of the "
        f"cables to hosts, equal for every scheme: {ev.ends('k', ECMP, 'host-cable', 'used')}; "
        f"of agg-core links under ECMP: {ev.ends('k', ECMP, 'agg-core-up', 'used')}."
    )
    if idle > 0.01:
        text += (
            f" The hash leaves {idle:.0%} of the agg-core links idle at k = {smallest} even under "
            f"{BOTH.label}: polarisation."
        )
    return text


def _same_mean(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    mean = ev.at("cdf", 8, FLOWLET, PAPER, "mean") - ev.at("cdf", 8, ECMP, PAPER, "mean")
    return (
        "All schemes carry the same load over paths of the same length, so the mean cannot "
        f"change (difference {show(mean)}): the distribution narrows around it, its upper part "
        "moves left and its lower part right."
    )


def _hotspot(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Give the share of the imbalance that the choice of paths causes."""

    def choices(basis: str) -> str:
        ecmp, equal = (
            float((ev.at("cdf", 8, scheme, basis, "cv") ** 2).mean()) for scheme in (ECMP, EQUAL)
        )
        return f"{(ecmp - equal) / ecmp:.0%}" if ecmp else "nothing"

    against = findings[PAPER].against
    doubt = (
        f" This is not so on the paper's basis: {_some(against)}; there the loads of cables to "
        "hosts dominate."
        if against
        else ""
    )
    return (
        f"At k = 8 the choice of paths causes {choices(PAPER)} of ECMP's variance on the paper's "
        f"basis and {choices('directed')} of its variance between switches; the traffic causes the "
        f"rest. The static level has no time, so it cannot show how long hot spots last.{doubt}"
        + _falls(findings)
    )


def _everywhere(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """List the comparisons that do not hold."""
    finding = findings[PAPER]
    if not finding.against:
        return f"All {finding.comparisons} comparisons hold on the paper's basis." + _falls(
            findings
        )
    why = ""
    if any(each.label.startswith("p90") for each in finding.against):
        why += (
            " The p90 of all cables may be the load of a cable to a host, which is the same under "
            "every scheme."
        )
    if ev.hash == "linear":
        why += " " + _parts(ev)
    return (
        f"{len(finding.against)} of {finding.comparisons} comparisons fail or are undecided on the "
        f"paper's basis: {_some(finding.against)}.{why}" + _falls(findings)
    )


# -- claims --------------------------------------------------------------------------------------

_QP_SWEEPS = ("qps", "qps-30")
_ALL_SWEEPS = (*_QP_SWEEPS, "epochs", "k")
_LOWEST = (
    "the paired difference to every other scheme is below 0 at every point where the two are not "
    "the same scheme by definition"
)
_BY_CONSTRUCTION = (
    "By construction: ECMP has one part per flow for any number of QPs, and the same flows "
    "have the same hashes at every point, here and in the published program."
)

CLAIMS: tuple[Claim[MultipathEvidence], ...] = (
    Claim(
        "ecmp-cv-constant", "7.1, fig. 1", "ECMP's CV is constant across QPs",
        "the largest change of the CV from that at 1 QP, over all seeds, is 0",
        every((_constant("cv"), "zero")),
        lambda ev, basis: f"{ev.show('qps', 1, ECMP, basis, 'cv')} at all numbers of QPs",
        _BY_CONSTRUCTION,
    ),
    Claim(
        "e-ecmp-cv-rapid", "7.1, fig. 1", "e-ECMP's CV falls rapidly as QPs increase",
        "in both QP sweeps, the CV at every number of QPs is below that at 1, and at least half of "
        "its fall to the largest number of QPs is reached at 4",
        every(*(
            (quantities, "below")
            for sweep in _QP_SWEEPS
            for quantities in (
                _steps("cv", (sweep,), E_ECMP, from_first=True),
                _reached(sweep, E_ECMP, 4, RAPID, "beyond"),
            )
        )),
        _trail("qps", E_ECMP, "cv"), _bounded("cv"),
    ),
    Claim(
        "both-lowest-cv-qps", "7.1, fig. 1",
        "Flowlet-based e-ECMP consistently has the lowest CV across QPs",
        f"CV: {_LOWEST}, in both QP sweeps", every((_over("cv", _QP_SWEEPS), "below")),
        _trail("qps", BOTH, "cv"), _most_parts("cv", "qps", 8),
    ),
    Claim(
        "ecmp-p90-constant", "7.1, fig. 2", "ECMP's p90 is constant across QPs",
        "the largest change of the p90 from that at 1 QP, over all seeds, is 0",
        every((_constant("p90"), "zero")),
        lambda ev, basis: f"{ev.show('qps', 1, ECMP, basis, 'p90')} at all numbers of QPs",
        _BY_CONSTRUCTION,
    ),
    Claim(
        "e-ecmp-p90-falls", "7.1, fig. 2", "e-ECMP significantly reduces p90 as QPs increase",
        "the p90 at every number of QPs is below that at 1, in both QP sweeps",
        every((_steps("p90", _QP_SWEEPS, E_ECMP, from_first=True), "below")),
        _trail("qps", E_ECMP, "p90"), _bounded("p90"),
    ),
    Claim(
        "both-lowest-p90-qps", "7.1, fig. 2",
        "Flowlet-based e-ECMP has the lowest p90 across QPs",
        f"p90: {_LOWEST}, in both QP sweeps", every((_over("p90", _QP_SWEEPS), "below")),
        _trail("qps", BOTH, "p90"), _most_parts("p90", "qps", 8),
    ),
    Claim(
        "flowlet-cv-falls", "7.2, fig. 3", "Flowlet-only's CV falls as epochs increase",
        "the CV at each number of epochs is below that at the number before",
        every((_steps("cv", ("epochs",), FLOWLET), "below")),
        _trail("epochs", FLOWLET, "cv"), _bounded("cv"),
    ),
    Claim(
        "both-lowest-cv-epochs", "7.2, fig. 3",
        "Flowlet-based e-ECMP's CV is consistently lower across epochs",
        f"CV: {_LOWEST}", every((_over("cv", ("epochs",)), "below")),
        _trail("epochs", BOTH, "cv"), _most_parts("cv", "epochs", 20),
    ),
    Claim(
        "saturation", "7.2, fig. 3", "Improvements saturate after about 10 to 20 epochs",
        "90 % of the CV's fall from 1 to 40 epochs is reached at 20 epochs but not at 5, for "
        "Flowlet-only and Flowlet-based e-ECMP",
        every(
            (_reached("epochs", FLOWLET, 5, SATURATED, "short of"), "above"),
            (_reached("epochs", FLOWLET, 20, SATURATED, "beyond"), "below"),
            (_reached("epochs", BOTH, 5, SATURATED, "short of"), "above"),
            (_reached("epochs", BOTH, 20, SATURATED, "beyond"), "below"),
        ),
        _several(
            "share of the fall in CV: Flowlet-only ", _fall_shares("epochs", FLOWLET),
            f"; {BOTH.label} ", _fall_shares("epochs", BOTH),
        ),
        _why(
            lambda ev: (
                "Independent choices add a variance proportional to 1 / (number of parts), so each "
                "doubling improves less than the one before, and the point of saturation depends "
                "on the threshold. Share of the fall reached, paper's basis: Flowlet-only "
                f"{_fall_shares('epochs', FLOWLET)(ev, PAPER)}; Flowlet-based e-ECMP "
                f"{_fall_shares('epochs', BOTH)(ev, PAPER)}."
            )
        ),
    ),
    Claim(
        "flowlet-p90-falls", "7.2, fig. 4", "Temporal reshuffling lowers the p90",
        "the p90 of Flowlet-only at every number of epochs is below that at 1",
        every((_steps("p90", ("epochs",), FLOWLET, from_first=True), "below")),
        _trail("epochs", FLOWLET, "p90"), _bounded("p90"),
    ),
    Claim(
        "both-lowest-p90-epochs", "7.2, fig. 4",
        "Flowlet-based e-ECMP consistently has the lowest p90 across epochs",
        f"p90: {_LOWEST}", every((_over("p90", ("epochs",)), "below")),
        _trail("epochs", BOTH, "p90"), _most_parts("p90", "epochs", 20),
    ),
    Claim(
        "ecmp-cv-grows", "7.3, fig. 5", "ECMP's imbalance grows with k",
        "the CV at each k is above that at the k before",
        every((_steps("cv", ("k",), ECMP), "above")), _trail("k", ECMP, "cv"),
        _why(
            lambda ev: (
                "The number of flows is constant, the number of links grows as k^3: the mean load "
                f"of an agg-core link is {ev.ends('k', ECMP, 'agg-core-up', 'mean')}. So the CV "
                "grows under every scheme. On the paper's basis it is "
                f"{ev.ends('k', EQUAL, PAPER, 'cv')} for the equal split, and "
                f"{ev.ends('k', ECMP, 'host-cable', 'cv')} for cables to hosts alone."
            )
        ),
    ),
    Claim(
        "multipath-fairer-k", "7.3, fig. 5",
        "e-ECMP and Flowlet-based e-ECMP consistently improve fairness",
        "the CV of both schemes is below that of ECMP at every k",
        every(*((_over("cv", ("k",), scheme, (ECMP,)), "below") for scheme in (E_ECMP, BOTH))),
        _several(f"ECMP -> {BOTH.label}: ", _change(ECMP, BOTH, "cv")), _why(_gain),
    ),
    Claim(
        "ecmp-underuses", "7.3, fig. 6", "ECMP increasingly underuses links as k grows",
        "the used share at each k is below that at the k before, unless every link is used at both",
        every((_used_falls, "below")), _trail("k", ECMP, "used"), _why(_idle),
    ),
    Claim(
        "multipath-uses-all", "7.3, fig. 6", "Multipath extensions maintain high utilisation",
        "the used share of e-ECMP and of Flowlet-based e-ECMP is above 0.9 at every k",
        every((
            lambda ev, basis: [
                (f"used share of {scheme.label} minus {HIGH}, k {x}",
                 ev.at("k", x, scheme, basis, "used") - HIGH)
                for scheme in (E_ECMP, BOTH)
                for x in ev.xs["k"]
            ], "above",
        )),
        _several(
            f"{E_ECMP.label} ", _trail("k", E_ECMP, "used"),
            f"; {BOTH.label} ", _trail("k", BOTH, "used"),
        ),
        _why(
            lambda ev: (
                "Used share of cables to hosts, which no scheme chooses: "
                f"{ev.ends('k', BOTH, 'host-cable', 'used')}; of links between switches under "
                f"Flowlet-based e-ECMP: {ev.ends('k', BOTH, 'directed', 'used')}; under e-ECMP: "
                f"{ev.ends('k', E_ECMP, 'directed', 'used')}."
            )
        ),
    ),
    Claim(
        "ecmp-heavy-tail", "7.4, fig. 7", "ECMP's distribution of load is heavy-tailed",
        "heavier than exponential: the excess over the p90 has a standard deviation above its mean",
        every((
            lambda ev, basis: [
                ("std/mean of ECMP's excess over p90, minus 1",
                 excess_variation(ev.shape(ECMP, basis)) - 1)
            ], "above",
        )),
        lambda ev, basis: (
            f"std/mean of the excess {show(excess_variation(ev.shape(ECMP, basis)))}; "
            f"max {ev.show('cdf', 8, ECMP, basis, 'max')}, mean "
            f"{ev.show('cdf', 8, ECMP, basis, 'mean')}"
        ),
        _why(
            "The ratio is 1 for an exponential tail and less for a normal one, and a load is a sum "
            "of many small contributions. ECMP's distribution is wider than the equal split's, but "
            "not heavy-tailed."
        ),
    ),
    Claim(
        "flowlet-shifts-left", "7.4, fig. 7", "Flowlet-only shifts the distribution left",
        "every decile, p10 to p90, of Flowlet-only is below ECMP's",
        every((
            lambda ev, basis: [
                (f"p{decile} of Flowlet-only minus ECMP",
                 np.percentile(ev.shape(FLOWLET, basis), decile, axis=1)
                 - np.percentile(ev.shape(ECMP, basis), decile, axis=1))
                for decile in range(10, 100, 10)
            ], "below",
        )),
        lambda ev, basis: ", ".join(
            f"p{decile} {show(np.percentile(ev.shape(ECMP, basis), decile, axis=1))} -> "
            f"{show(np.percentile(ev.shape(FLOWLET, basis), decile, axis=1))}"
            for decile in (10, 50, 90)
        ),
        _same_mean,
    ),
    Claim(
        "e-ecmp-compresses-further", "7.4, fig. 7",
        "e-ECMP compresses the distribution further (than Flowlet-only)",
        "p90 - p10 of e-ECMP is below that of ECMP and of Flowlet-only",
        every((_narrower(E_ECMP, (ECMP, FLOWLET)), "below")), _spreads,
        _why(
            "In the paper this follows the sentence on Flowlet-only. Only the number of parts "
            "matters, and here Flowlet-only has 20 and e-ECMP 8; with equal numbers of independent "
            "parts the static level would not distinguish them."
        ),
    ),
    Claim(
        "both-steepest", "7.4, fig. 7", "Flowlet-based e-ECMP has the steepest CDF",
        "p90 - p10 of Flowlet-based e-ECMP is below that of every other scheme",
        every((_narrower(BOTH, (ECMP, FLOWLET, E_ECMP)), "below")), _spreads,
        _why(
            lambda ev: (
                "Spread (p90 - p10) of the equal split on the paper's basis: "
                f"{show(_spread(ev.shape(EQUAL, PAPER)))}."
            )
        ),
    ),
    Claim(
        "ecmp-hotspots", "8", "Static ECMP suffers hot spots caused by hash collisions",
        "p90 and maximum of ECMP are above those of the equal split of the same flows, at every k",
        every((
            lambda ev, basis: [
                (f"{NAMES[metric]} of ECMP minus equal split, k {x}",
                 ev.at("k", x, ECMP, basis, metric) - ev.at("k", x, EQUAL, basis, metric))
                for metric in ("p90", "max")
                for x in ev.xs["k"]
            ], "above",
        )),
        _several(
            "equal split -> ECMP: ", _change(EQUAL, ECMP, "p90"), "; ", _change(EQUAL, ECMP, "max")
        ),
        _hotspot,
    ),
    Claim(
        "spatial-improves", "8", "Spatial multipath significantly improves load distribution",
        "the CV of e-ECMP is below that of ECMP at every point of every sweep",
        every((_over("cv", _ALL_SWEEPS, E_ECMP, (ECMP,)), "below")),
        _several("ECMP -> e-ECMP: ", _change(ECMP, E_ECMP, "cv")), _everywhere,
    ),
    Claim(
        "temporal-improves", "8", "Temporal multipath further mitigates residual imbalance",
        "the CV of Flowlet-based e-ECMP is below that of e-ECMP at every point of every sweep",
        every((_over("cv", _ALL_SWEEPS, BOTH, (E_ECMP,)), "below")),
        _several(f"e-ECMP -> {BOTH.label}: ", _change(E_ECMP, BOTH, "cv")), _everywhere,
    ),
    Claim(
        "both-best-everywhere", "8",
        "Combining both is most uniform and least congested in all scenarios",
        f"CV and p90: {_LOWEST}, in every sweep",
        every((_over("cv", _ALL_SWEEPS), "below"), (_over("p90", _ALL_SWEEPS), "below")),
        _several(_trail("k", BOTH, "cv"), "; ", _trail("k", BOTH, "p90")), _everywhere,
    ),
)  # fmt: skip
