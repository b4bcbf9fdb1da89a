"""Why the claims of the multipath paper come out as they do, with the numbers of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.studies.claims import Comparison, Finding, Verdict
from weft.studies.multipath.evidence import (
    BOTH,
    E_ECMP,
    ECMP,
    EQUAL,
    FLOWLET,
    NAMES,
    PAPER,
    TIERS,
    Evidence,
    ends,
    show,
    side_by_side,
    spread,
    way,
)

#: (evidence, findings by basis) -> why a claim comes out so.
Comment = Callable[[Evidence, Mapping[str, Finding]], str]


def falls(findings: Mapping[str, Finding]) -> str:
    """The tiers on which a claim does not hold, as a sentence or nothing."""
    parts = []
    for verdict, phrase in ((Verdict.FAILS, "does not hold"), (Verdict.UNDECIDED, "is undecided")):
        tiers = [basis for basis in TIERS if findings[basis].verdict is verdict]
        if tiers:
            where = "any tier" if len(tiers) == len(TIERS) else ", ".join(tiers)
            parts.append(f"{phrase} on {where}")
    return f" Per direction it {' and '.join(parts)}." if parts else ""


def some(comparisons: Sequence[Comparison]) -> str:
    """The first few of them, and how many more there are."""
    shown = "; ".join(str(each) for each in comparisons[:3])
    return shown + (f"; and {len(comparisons) - 3} more" if len(comparisons) > 3 else "")


def floor(ev: Evidence, sweep: str, x: int, basis: str, metric: str) -> str:
    """What splitting over all paths equally leaves."""
    return show(ev.at(sweep, x, EQUAL, basis, metric))


def parts(ev: Evidence) -> str:
    """What it means under this hash to cut a flow into more parts."""
    if ev.hash == "linear":
        return (
            "Under the linear form the parts of a flow take its paths almost in turn: a number of "
            "QPs that is a multiple of the paths splits the flow equally, which nothing betters."
        )
    known = "It has the most parts, QPs times epochs, and their number is "
    if ev.hash == "md5":
        return known + (
            "nearly all that this level knows of a scheme. Under the MD5 form each QP and each "
            "epoch shifts the path numbers of all flows by the same step, so that of 16 paths the "
            "first 4 QPs reach 4 and the first 8 reach 5."
        )
    return known + "all that this level knows of a scheme."


def constant(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """What ECMP's constancy rests on."""
    return (
        "By construction: ECMP has one part per flow whatever the QPs, and the same flows meet "
        "the same hashes at every point, here and in the published program."
    )


def lowest(metric: str, sweep: str, x: int) -> Comment:
    """Why the scheme with the most parts comes out lowest, for one metric."""

    def comment(ev: Evidence, findings: Mapping[str, Finding]) -> str:
        best = ev.at(sweep, x, BOTH, PAPER, metric)
        gain = ev.at(sweep, x, E_ECMP, PAPER, metric) - best
        left = best - ev.at(sweep, x, EQUAL, PAPER, metric)
        return (
            f"{parts(ev)} At 8 QPs and 20 epochs its {NAMES[metric]} is {show(gain)} below "
            f"e-ECMP's and {show(left)} above the equal split's." + falls(findings)
        )

    return comment


def rapid(metric: str) -> Comment:
    """How far more parts can get, for one metric."""

    def comment(ev: Evidence, findings: Mapping[str, Finding]) -> str:
        return (
            f"The equal split over all paths has a {NAMES[metric]} of "
            f"{floor(ev, 'qps', 30, PAPER, metric)} on the paper's basis: that part is the "
            "traffic's and the cables' to hosts, which every path of a flow shares."
            + falls(findings)
        )

    return comment


def saturation(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """Where the knee lies and why."""
    return (
        "Independent choices add a variance that falls as 1 over the number of parts, so returns "
        "diminish from the first doubling on, and where they count as saturated is a matter of "
        "the threshold. "
        "Share of the fall reached, paper's basis: "
        f"Flowlet-only {way(ev, PAPER, 'epochs', FLOWLET)}; "
        f"Flowlet-based e-ECMP {way(ev, PAPER, 'epochs', BOTH)}." + falls(findings)
    )


def size(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """What grows with k besides ECMP's imbalance."""
    hosts = ends(ev, "k", ECMP, "host-cable", "cv")
    equal = ends(ev, "k", EQUAL, PAPER, "cv")
    mean = ends(ev, "k", ECMP, "agg-core-up", "mean")
    return (
        "The number of flows stays while the links grow as k^3: the mean load of an agg-core link "
        f"is {mean}. So the CV grows whatever the scheme: on the paper's basis the equal split has "
        f"{equal}, cables to hosts alone {hosts}." + falls(findings)
    )


def gain(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """The schemes side by side at the largest size."""
    largest = ev.xs["k"][-1]
    return (
        f"At k = {largest}: {side_by_side(ev, 'k', largest, PAPER, 'cv')}, equal split "
        f"{floor(ev, 'k', largest, PAPER, 'cv')}." + falls(findings)
    )


def used(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """What ECMP's idle links come from."""
    smallest = ev.xs["k"][0]
    idle = 1 - float(ev.at("k", smallest, BOTH, "agg-core-up", "used").mean())
    polarised = (
        f" The hash leaves {idle:.0%} of the agg-core links idle at k = {smallest} even under "
        f"{BOTH.label}: polarisation."
        if idle > 0.01
        else ""
    )
    return (
        "The flows stay as many while the links grow as k^3. Used share of the cables to hosts, "
        f"the same for every scheme: {ends(ev, 'k', ECMP, 'host-cable', 'used')}; of agg-core "
        f"links under ECMP: {ends(ev, 'k', ECMP, 'agg-core-up', 'used')}."
        + polarised
        + falls(findings)
    )


def high(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """Which links stay idle."""
    return (
        "Cables to hosts, which no scheme chooses, are used to "
        f"{ends(ev, 'k', BOTH, 'host-cable', 'used')}; links between switches under Flowlet-based "
        f"e-ECMP to {ends(ev, 'k', BOTH, 'directed', 'used')}, under e-ECMP to "
        f"{ends(ev, 'k', E_ECMP, 'directed', 'used')}." + falls(findings)
    )


def tail(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """What a heavy tail would look like."""
    return (
        "An exponential tail would give 1, a normal one less, and a load is a sum of many small "
        "choices. ECMP's distribution is wider than the equal split's; wide is not heavy-tailed."
        + falls(findings)
    )


def shift(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """Why a distribution cannot shift with its mean in place."""
    mean = ev.at("cdf", 8, FLOWLET, PAPER, "mean") - ev.at("cdf", 8, ECMP, PAPER, "mean")
    return (
        "All schemes carry the same load over paths of the same length, so the mean cannot move "
        f"(difference {show(mean)}): the distribution narrows about it, its upper part moves left "
        "and its lower part right."
    )


def further(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """What e-ECMP is compared with."""
    return (
        "In the paper this follows Flowlet-only. What counts is the number of parts, and here "
        "Flowlet-only has 20 to e-ECMP's 8; with as many independent parts they would be the "
        "same thing to this level." + falls(findings)
    )


def steep(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """How steep the CDF can get."""
    return (
        "Spread (p90 - p10) of the equal split on the paper's basis: "
        f"{show(spread(ev.shape(EQUAL, PAPER)))}." + falls(findings)
    )


def hotspot(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """How much of the imbalance is the choice of paths."""

    def choices(basis: str) -> str:
        ecmp, equal = (
            float((ev.at("cdf", 8, scheme, basis, "cv") ** 2).mean()) for scheme in (ECMP, EQUAL)
        )
        return f"{(ecmp - equal) / ecmp:.0%}" if ecmp else "nothing"

    against = findings[PAPER].against
    doubt = (
        f" Not so on the paper's basis: {some(against)}; there the loads that count are those "
        "of cables to hosts."
        if against
        else ""
    )
    return (
        f"At k = 8 the choice of paths makes {choices(PAPER)} of ECMP's variance on the paper's "
        f"basis and {choices('directed')} of that between switches; the rest is the traffic's. "
        "That it persists is a premise of the model, which has no time." + doubt + falls(findings)
    )


def everywhere(ev: Evidence, findings: Mapping[str, Finding]) -> str:
    """Which comparisons do not hold."""
    found = findings[PAPER]
    if not found.against:
        return f"All {found.comparisons} comparisons hold on the paper's basis." + falls(findings)
    why = ""
    if any(each.label.startswith("p90") for each in found.against):
        why += (
            " The p90 of all cables may lie among those to hosts, where no scheme has a say, and "
            "then is the same for all."
        )
    if ev.hash == "linear":
        why += " " + parts(ev)
    return (
        f"{len(found.against)} of {found.comparisons} comparisons fail or are undecided on the "
        f"paper's basis: {some(found.against)}.{why}" + falls(findings)
    )
