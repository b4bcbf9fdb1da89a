"""Explanations of the results on the claims of the multipath paper, with the measured numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft_papers.claims import ClaimComparison, ClaimFinding, Verdict, show
from weft_papers.multipath.evidence import (
    BOTH,
    E_ECMP,
    ECMP,
    EQUAL,
    FLOWLET,
    NAMES,
    PAPER,
    TIERS,
    MultipathEvidence,
    ends,
    fall_shares,
    side_by_side,
    spread,
)

#: (evidence, findings by basis) -> explanation of the result on a claim.
Comment = Callable[[MultipathEvidence, Mapping[str, ClaimFinding]], str]


def falls(findings: Mapping[str, ClaimFinding]) -> str:
    """Return a sentence on the tiers where a claim does not hold; empty if it holds on all."""
    parts = []
    for verdict, phrase in ((Verdict.FAILS, "does not hold"), (Verdict.UNDECIDED, "is undecided")):
        tiers = [basis for basis in TIERS if findings[basis].verdict is verdict]
        if tiers:
            where = "any tier" if len(tiers) == len(TIERS) else ", ".join(tiers)
            parts.append(f"{phrase} on {where}")
    return f" Per direction the claim {' and '.join(parts)}." if parts else ""


def some(comparisons: Sequence[ClaimComparison]) -> str:
    """Return the first three comparisons, and the number of the others."""
    shown = "; ".join(str(each) for each in comparisons[:3])
    return shown + (f"; and {len(comparisons) - 3} more" if len(comparisons) > 3 else "")


def floor(ev: MultipathEvidence, sweep: str, x: int, basis: str, metric: str) -> str:
    """Return the value of a metric under the equal split over all paths."""
    return show(ev.at(sweep, x, EQUAL, basis, metric))


def parts(ev: MultipathEvidence) -> str:
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


def constant(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Explain why ECMP is constant over QPs."""
    return (
        "By construction: ECMP has one part per flow for any number of QPs, and the same flows "
        "have the same hashes at every point, here and in the published program."
    )


def lowest(metric: str, sweep: str, x: int) -> Comment:
    """Return the comment on the claim that the scheme with the most parts has the lowest metric."""

    def comment(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
        best = ev.at(sweep, x, BOTH, PAPER, metric)
        gain = ev.at(sweep, x, E_ECMP, PAPER, metric) - best
        excess = best - ev.at(sweep, x, EQUAL, PAPER, metric)
        return (
            f"{parts(ev)} At 8 QPs and 20 epochs its {NAMES[metric]} is {show(gain)} below "
            f"e-ECMP's and {show(excess)} above the equal split's." + falls(findings)
        )

    return comment


def rapid(metric: str) -> Comment:
    """Return the comment on the smallest value of a metric that more parts can reach."""

    def comment(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
        return (
            f"The equal split over all paths has a {NAMES[metric]} of "
            f"{floor(ev, 'qps', 30, PAPER, metric)} on the paper's basis: this part is due to "
            "the traffic and to the cables to hosts, which all paths of a flow share."
            + falls(findings)
        )

    return comment


def saturation(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Explain the saturation of the improvement."""
    return (
        "Independent choices add a variance proportional to 1 / (number of parts), so each "
        "doubling improves less than the one before, and the point of saturation depends on the "
        "threshold. "
        "Share of the fall reached, paper's basis: "
        f"Flowlet-only {fall_shares(ev, PAPER, 'epochs', FLOWLET)}; "
        f"Flowlet-based e-ECMP {fall_shares(ev, PAPER, 'epochs', BOTH)}." + falls(findings)
    )


def size(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Explain the growth of the imbalance with k."""
    hosts = ends(ev, "k", ECMP, "host-cable", "cv")
    equal = ends(ev, "k", EQUAL, PAPER, "cv")
    mean = ends(ev, "k", ECMP, "agg-core-up", "mean")
    return (
        "The number of flows is constant, the number of links grows as k^3: the mean load of an "
        f"agg-core link is {mean}. So the CV grows under every scheme. On the paper's basis it is "
        f"{equal} for the equal split, and {hosts} for cables to hosts alone." + falls(findings)
    )


def gain(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Compare the schemes at the largest size."""
    largest = ev.xs["k"][-1]
    return (
        f"At k = {largest}: {side_by_side(ev, 'k', largest, PAPER, 'cv')}, equal split "
        f"{floor(ev, 'k', largest, PAPER, 'cv')}." + falls(findings)
    )


def used(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Explain ECMP's idle links."""
    smallest = ev.xs["k"][0]
    idle = 1 - float(ev.at("k", smallest, BOTH, "agg-core-up", "used").mean())
    polarised = (
        f" The hash leaves {idle:.0%} of the agg-core links idle at k = {smallest} even under "
        f"{BOTH.label}: polarisation."
        if idle > 0.01
        else ""
    )
    return (
        "The number of flows is constant, the number of links grows as k^3. Used share of the "
        f"cables to hosts, equal for every scheme: {ends(ev, 'k', ECMP, 'host-cable', 'used')}; "
        f"of agg-core links under ECMP: {ends(ev, 'k', ECMP, 'agg-core-up', 'used')}."
        + polarised
        + falls(findings)
    )


def high(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Compare the shares of links that are used."""
    return (
        "Used share of cables to hosts, which no scheme chooses: "
        f"{ends(ev, 'k', BOTH, 'host-cable', 'used')}; of links between switches under "
        f"Flowlet-based e-ECMP: {ends(ev, 'k', BOTH, 'directed', 'used')}; under e-ECMP: "
        f"{ends(ev, 'k', E_ECMP, 'directed', 'used')}." + falls(findings)
    )


def tail(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Explain the weight of the tail."""
    return (
        "The ratio is 1 for an exponential tail and less for a normal one, and a load is a sum of "
        "many small contributions. ECMP's distribution is wider than the equal split's, but not "
        "heavy-tailed." + falls(findings)
    )


def shift(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Explain why the distribution cannot shift while its mean is constant."""
    mean = ev.at("cdf", 8, FLOWLET, PAPER, "mean") - ev.at("cdf", 8, ECMP, PAPER, "mean")
    return (
        "All schemes carry the same load over paths of the same length, so the mean cannot "
        f"change (difference {show(mean)}): the distribution narrows around it, its upper part "
        "moves left and its lower part right."
    )


def further(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Explain the comparison of e-ECMP with Flowlet-only."""
    return (
        "In the paper this follows the sentence on Flowlet-only. Only the number of parts matters, "
        "and here Flowlet-only has 20 and e-ECMP 8; with equal numbers of independent parts the "
        "static level would not distinguish them." + falls(findings)
    )


def steep(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Give the spread of the equal split, a bound on the steepness of the CDF."""
    return (
        "Spread (p90 - p10) of the equal split on the paper's basis: "
        f"{show(spread(ev.shape(EQUAL, PAPER)))}." + falls(findings)
    )


def hotspot(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """Give the share of the imbalance that the choice of paths causes."""

    def choices(basis: str) -> str:
        ecmp, equal = (
            float((ev.at("cdf", 8, scheme, basis, "cv") ** 2).mean()) for scheme in (ECMP, EQUAL)
        )
        return f"{(ecmp - equal) / ecmp:.0%}" if ecmp else "nothing"

    against = findings[PAPER].against
    doubt = (
        f" This is not so on the paper's basis: {some(against)}; there the loads of cables to "
        "hosts dominate."
        if against
        else ""
    )
    return (
        f"At k = 8 the choice of paths causes {choices(PAPER)} of ECMP's variance on the paper's "
        f"basis and {choices('directed')} of its variance between switches; the traffic causes the "
        "rest. The static level has no time, so it cannot show how long hot spots last."
        + doubt
        + falls(findings)
    )


def everywhere(ev: MultipathEvidence, findings: Mapping[str, ClaimFinding]) -> str:
    """List the comparisons that do not hold."""
    finding = findings[PAPER]
    if not finding.against:
        return f"All {finding.comparisons} comparisons hold on the paper's basis." + falls(findings)
    why = ""
    if any(each.label.startswith("p90") for each in finding.against):
        why += (
            " The p90 of all cables may be the load of a cable to a host, which is the same under "
            "every scheme."
        )
    if ev.hash == "linear":
        why += " " + parts(ev)
    return (
        f"{len(finding.against)} of {finding.comparisons} comparisons fail or are undecided on the "
        f"paper's basis: {some(finding.against)}.{why}" + falls(findings)
    )
