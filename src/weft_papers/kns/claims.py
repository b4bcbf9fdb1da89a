"""Claims of sections 4.3.1 to 4.4 of the KNS paper, and the conditions that test them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weft_papers.claims import ANYTHING, NOTHING, ClaimComparison, ClaimFinding, Verdict
from weft_papers.kns.benchmarks import CORE_GFLOPS, EDGE_FACTOR, GRAPH_SCALE, PTRANS_ORDER
from weft_papers.kns.evidence import (
    EITHER,
    SAME,
    SIMILAR,
    Conditions,
    KnsEvidence,
    against_linear,
    claim,
    levels,
    random_over_linear,
    ratios,
    rivals,
    routings,
    shown,
    spread_of,
)
from weft_papers.kns.machine import ADAPTERS, HOSTS, KNS, PAPER_ENGINES, TREE, longest_latency_us
from weft_papers.kns.runs import PLACEMENTS

#: Range of the maximum bandwidth in GB/s: 32 Gb/s of data, with 2048 of 2074 bytes as payload.
_LOW, _HIGH = 3.8, 4.0
_PAPER_UPDN_US = 14.0
#: Largest lead of the tree in ring latency that the paper states (section 4.3.1, fig. 12 and 13).
_RING_LEAD_US = 0.5


def _pairs(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    return (
        "HPCC's ping-pong runs one pair at a time, so there is no contention. With one rank on "
        "each host it runs all ordered pairs of hosts under any placement: minimum, mean and "
        "maximum are equal by construction. The differences in the paper are due neither to "
        "contention nor to the placement."
        if evidence.ranks_per_node == 1
        else "One pair runs at a time, so there is no contention. The pairs depend on the "
        "placement: pairs within a node are included, and the benchmark limits the number of pairs."
    )


def _max_comment(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    text = "32 Gb/s of data times 2048 of 2074 bytes is 3.95 GB/s, minus the cost of the rendezvous"
    if finding.verdict is not Verdict.HOLDS:
        text += (
            ". With several ranks on a node the fastest pair is within a node and copies through "
            "memory. The paper's maximum is that of a cable, so its runs had one rank per node"
        )
    return text + "."


def _of_rivals(network: str, engine: str, claimed: str, *metrics: str) -> Conditions:
    """Return conditions on an engine against its rivals: each metric, placement and rival."""
    pairs = rivals(network, engine)
    every = [
        ratios(pairs, claimed, metric, placements=(placement,))
        for metric in metrics
        for placement in PLACEMENTS
    ]
    return lambda evidence: [each for conditions in every for each in conditions(evidence)]


def _each(network: str, metric: str, *names: str) -> Callable[[KnsEvidence], str]:
    """Return the format of several metrics; `metric` has braces for the names."""
    return lambda evidence: "; ".join(
        f"{name}: {evidence.show(metric.format(name), network)}" for name in names
    )


def _linear_rings(evidence: KnsEvidence) -> list[ClaimComparison]:
    comparisons = []
    for metric in ("natural-ring-latency", "random-ring-latency"):
        for one, other in (("lash", "lash"), ("dfsssp", "dfsssp"), ("hdor", "ftree")):
            tree = evidence.get(metric, TREE, other, "linear")
            lead = evidence.get(metric, KNS, one, "linear") - tree
            within = -SAME * float(tree.mean()), _RING_LEAD_US
            label = f"{metric}, linear: KNS {one} minus tree {other}, us"
            comparisons.append(ClaimComparison.of(label, lead, within))
    return comparisons


def _updn_latency(evidence: KnsEvidence) -> list[ClaimComparison]:
    metric = "pingpong-latency-max"
    possible, because = ANYTHING, ""
    if metric in evidence.alone:
        possible = 0.0, longest_latency_us(TREE)
        because = (
            "only one message is in flight at a time, and its latency is at most "
            f"{possible[1]:.2g} us even via all switches of the tree"
        )
    latency = evidence.get(metric, TREE, "updn", "linear")
    wanted = _PAPER_UPDN_US * (1 - SIMILAR), math.inf
    label = f"{metric}, tree updn linear, us"
    return [ClaimComparison.of(label, latency, wanted, possible=possible, because=because)]


OF_MESSAGES = (
    claim(
        "pingpong-bandwidth-max", "4.3.1, fig. 9a 9b",
        "The maximum ping-pong bandwidth is almost 4 GB/s on both networks with all routings",
        f"every maximum is {_LOW} to {_HIGH} GB/s",
        lambda evidence: [
            ClaimComparison.of(
                f"maximum bandwidth, {' '.join(routing)} {placement}, GB/s",
                evidence.get("pingpong-bandwidth-max", *routing, placement), (_LOW, _HIGH),
            )
            for routing in routings(KNS, TREE)
            for placement in PLACEMENTS
        ],
        lambda evidence: evidence.both("pingpong-bandwidth-max"), _max_comment,
    ),
    claim(
        "pingpong-bandwidth-min-kns", "4.3.1, fig. 9c",
        "The KNS's minimum bandwidth is similar for all routings and placements",
        f"the largest minimum is within {SAME:.0%} of the smallest",
        spread_of("pingpong-bandwidth-min", KNS, SAME),
        lambda evidence: evidence.show("pingpong-bandwidth-min", KNS), _pairs,
    ),
    claim(
        "pingpong-bandwidth-min-tree", "4.3.1, fig. 9d",
        "The tree's minimum bandwidth is lower with random placement",
        "random / linear is below 1 with every routing",
        random_over_linear(routings(TREE), "below", "pingpong-bandwidth-min"),
        lambda evidence: evidence.show("pingpong-bandwidth-min", TREE), _pairs,
    ),
    claim(
        "pingpong-bandwidth-avg", "4.3.1, fig. 9e",
        "The KNS's average bandwidth is close to its maximum",
        f"average / maximum is within {SAME:.0%} of 1",
        lambda evidence: [
            ClaimComparison.of(
                f"average over maximum, {KNS} {engine} {placement}",
                evidence.get("pingpong-bandwidth-avg", KNS, engine, placement)
                / evidence.get("pingpong-bandwidth-max", KNS, engine, placement),
                (1 - SAME, 1.0),
            )
            for engine in PAPER_ENGINES[KNS]
            for placement in PLACEMENTS
        ],
        lambda evidence: evidence.show("pingpong-bandwidth-avg", KNS),
        "2 MB take 0.5 ms; an additional switch takes 0.1 us.",
    ),
    claim(
        "pingpong-latency-min", "4.3.1, fig. 10c 10d",
        "The minimum latency is lower on the tree (two hops) than on the KNS (four)",
        "tree / KNS is below 1 with updn, lash and dfsssp, and with ftree over hdor",
        ratios(
            zip(routings(TREE), routings(KNS), strict=True), "below", "pingpong-latency-min"
        ),
        lambda evidence: evidence.both("pingpong-latency-min"),
        lambda evidence, finding: (
            "The nearest pair has one switch on the tree and three on the KNS: the difference is "
            "0.2 us of switches, and two cables."
            if evidence.ranks_per_node == 1
            else "The nearest ranks are on the same node if such a pair is measured, so that their "
            "latency does not depend on the network."
        ),
    ),
    claim(
        "pingpong-latency-kns-placement", "4.3.1, fig. 10a 10c",
        "The KNS's latencies are the same for both placements",
        f"random / linear of minimum, average and maximum is within {SAME:.0%} of 1",
        random_over_linear(
            routings(KNS), "alike",
            "pingpong-latency-min", "pingpong-latency-avg", "pingpong-latency-max", by=SAME,
        ),
        _each(KNS, "pingpong-latency-{}", "min", "max"), _pairs,
    ),
    claim(
        "pingpong-latency-tree-random", "4.3.1, fig. 10b 10f",
        "The tree's maximum and average latency are higher with random placement",
        "random / linear is above 1 with lash, dfsssp and ftree",
        random_over_linear(
            routings(TREE, without="updn"), "above", "pingpong-latency-max", "pingpong-latency-avg"
        ),
        _each(TREE, "pingpong-latency-{}", "avg", "max"), _pairs,
    ),
    claim(
        "pingpong-latency-updn", "4.3.1, fig. 10b",
        "On the tree updn's maximum latency reaches 14 us with linear placement",
        f"updn's maximum with linear placement is at least {_PAPER_UPDN_US * (1 - SIMILAR):.3g} us",
        _updn_latency, lambda evidence: evidence.show("pingpong-latency-max", TREE),
        "updn's paths on the tree are as long as those of the other routings (up to six "
        "links), and no other message is in flight. One exchange delayed by an interrupt "
        "would explain 14 us.",
    ),
    claim(
        "ring-linear", "4.3.1, fig. 12 13",
        "With linear placement ring latencies are similar, the tree's less than 0.5 us lower",
        f"for both rings, KNS minus tree is at most {_RING_LEAD_US} us and at least -{SAME:.0%} of "
        "the tree's latency, with lash, with dfsssp, and with hdor against ftree",
        _linear_rings,
        lambda evidence: "; ".join(
            f"{name}: {evidence.both(f'{name}-ring-latency')}" for name in ("natural", "random")
        ),
        "The slowest rank determines the latency, and both networks have pairs with paths of "
        "six links. The naturally ordered ring with linear placement has few such pairs on "
        "either network, and fewer on the tree.",
    ),
    claim(
        "ring-natural-random", "4.3.1, fig. 12",
        "The naturally ordered ring's latency is much higher on the tree with random placement",
        f"random / linear is at least {SAME:.0%} above 1 with every routing of the tree",
        random_over_linear(routings(TREE), "above", "natural-ring-latency", by=SAME),
        lambda evidence: evidence.both("natural-ring-latency"),
        lambda evidence, finding: (
            "With linear placement most neighbours on the tree are attached to one switch. On the "
            "KNS most are on one line, with three switches on their path instead of five, so the "
            "latency of its ring grows as well: hdor "
            f"{against_linear(evidence, 'natural-ring-latency', KNS, 'hdor').mean - 1:+.0%}, ftree "
            f"{against_linear(evidence, 'natural-ring-latency', TREE, 'ftree').mean - 1:+.0%}."
        ),
    ),
    claim(
        "ring-random-random", "4.3.1, fig. 13",
        "The randomly ordered ring's latency is much higher on the tree with random placement",
        f"random / linear is at least {SAME:.0%} above 1 with every routing of the tree",
        random_over_linear(routings(TREE), "above", "random-ring-latency", by=SAME),
        lambda evidence: evidence.both("random-ring-latency"),
        "HPCC draws random orders of the ranks and averages over 30 of them. On any network a "
        "random order has the same distribution under random and under linear placement.",
    ),
    claim(
        "ring-lash", "4.3.1, fig. 12 13",
        "On the KNS lash always has the lowest ring latency, thanks to its lanes",
        "lash / other is below 1 for every other routing, both rings and both placements",
        _of_rivals(KNS, "lash", "below", "natural-ring-latency", "random-ring-latency"),
        _each(KNS, "{}-ring-latency", "natural", "random"),
        "lash, dfsssp and hdor have paths of equal length, and messages of 8 bytes delay each "
        "other by only 9 ns on a common link, so lanes have no effect. updn's paths are longer.",
    ),
)  # fmt: skip


#: Rates in GB/s and GUPS that the text of the paper gives for the figures.
_PAPER_PTRANS, _PAPER_GUPS = 12.0, 0.05
_CEILING = "no processor time is simulated: the network allows more, and processors limit the rate"


def _gups_drop(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    paced = [
        abs(against_linear(evidence, "random-access-paced", TREE, engine).mean - 1)
        for engine in PAPER_ENGINES[TREE]
    ]
    return (
        "Each update is for a random rank, so the traffic of all hosts is uniform under any "
        "placement. At the paper's pace the network takes at most "
        f"{evidence.shares['random-access-paced']:.1%} of the time, and placement changes the rate "
        f"on the tree by at most {max(paced):.3%}."
    )


def _ptrans_comment(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    size = PTRANS_ORDER**2 * 8
    network = size / evidence.all("ptrans", KNS).mean(axis=1)
    # The processor time is the time at 12 GB/s minus the time of the fastest exchange.
    processors = size / _PAPER_PTRANS - network.min()
    least, most = (size / (processors + each) for each in (network.max(), network.min()))
    return (
        "The exchange alone is faster than the whole benchmark, whose ranks also copy and add "
        f"blocks. If copying and adding take the rest of the paper's time in the fastest case, the "
        f"eight bars of the KNS are between {least:.3g} and {most:.3g} GB/s."
    )


def _ptrans_why(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    return (
        "On the 6 x 6 grid each rank has one partner, so that PTRANS is one permutation, whose "
        "time is determined by the cable with the most flows; on 4 x 9 and 3 x 12 a rank has 36 "
        "and 4 partners, one after another. Grid, placement and the order of cables have more "
        "effect than the routing."
        if evidence.ranks_per_node == 1
        else "288 ranks on a grid of 16 x 18 exchange with 72 partners, one after another, so that "
        "flows of many pairs share cables over time, and the balance of the routing matters."
    )


OF_HPCC = (
    claim(
        "gups-level", "4.3.1, fig. 11", "With linear placement both networks reach about 0.05 GUPS",
        "the network alone allows at least this rate",
        levels(
            "random-access", routings(KNS, TREE), ("linear",), _PAPER_GUPS * (1 - SAME),
            because=_CEILING,
        ),
        lambda evidence: evidence.both("random-access"),
        lambda evidence, finding: (
            "Messages alone, with 0.3 us of processor time at either end, take "
            f"{_PAPER_GUPS / float(evidence.all('random-access', KNS, ('linear',)).min()):.1%} of "
            "the time at 0.05 GUPS (0.72 us per update on each of 36 nodes), so processors limit "
            "the rate: the traffic is 0.4 GB/s in total, on a network that carries about 50 GB/s "
            "of uniform random traffic."
        ),
    ),
    claim(
        "gups-tree-random", "4.3.1, fig. 11",
        "RandomAccess is lower on the tree with random placement",
        "at the paper's pace, random / linear is below 1 with every routing of the tree",
        random_over_linear(routings(TREE), "below", "random-access-paced"),
        lambda evidence: (
            f"network alone {evidence.show('random-access', TREE)}; at the paper's pace "
            f"{evidence.show('random-access-paced', TREE, 4)}"
        ),
        _gups_drop,
    ),
    claim(
        "gups-kns-hdor", "4.3.1, fig. 11",
        "RandomAccess keeps or improves its rate on the KNS with hdor and random placement",
        f"at the paper's pace, random / linear is at least 1 / {1 + SAME}",
        random_over_linear([(KNS, "hdor")], "kept", "random-access-paced", by=SAME),
        lambda evidence: evidence.show("random-access-paced", KNS, 4),
        "Each update is for a random rank, so the traffic is uniform under any placement, and "
        "hdor balances it over all cables of the KNS.",
    ),
    claim(
        "ptrans-level", "4.3.1, fig. 14", "PTRANS reaches about 12 GB/s on the KNS",
        "the network alone allows at least this rate, with every routing and placement",
        levels(
            "ptrans", routings(KNS), PLACEMENTS, _PAPER_PTRANS * (1 - SAME), because=_CEILING
        ),
        lambda evidence: evidence.show("ptrans", KNS), _ptrans_comment,
    ),
    claim(
        "ptrans-kns-same", "4.3.1, fig. 14",
        "PTRANS is the same on the KNS with all routings and placements",
        f"the largest rate is within {SAME:.0%} of the smallest", spread_of("ptrans", KNS, SAME),
        lambda evidence: evidence.show("ptrans", KNS), _ptrans_comment,
    ),
    claim(
        "ptrans-dfsssp-tree", "4.3.1, fig. 14",
        "On the tree dfsssp, not ftree, has the best PTRANS for both placements",
        "dfsssp / other is above 1 for every other routing",
        _of_rivals(TREE, "dfsssp", "above", "ptrans"),
        lambda evidence: evidence.show("ptrans", TREE), _ptrans_why,
    ),
    claim(
        "ptrans-hdor-ftree", "4.3.1, fig. 14",
        "hdor on the KNS has a better PTRANS than ftree on the tree",
        "hdor / ftree is above 1 for both placements",
        ratios([((KNS, "hdor"), (TREE, "ftree"))], "above", "ptrans"),
        lambda evidence: evidence.both("ptrans"), _ptrans_why,
    ),
    claim(
        "ptrans-lanes", "4.3.1, fig. 14",
        "On the KNS lash and dfsssp, which use lanes, have a better PTRANS than hdor",
        "lash / hdor and dfsssp / hdor are above 1 for both placements",
        ratios(
            [((KNS, engine), (KNS, "hdor")) for engine in ("lash", "dfsssp")], "above", "ptrans"
        ),
        lambda evidence: evidence.show("ptrans", KNS),
        "OpenSM's lash and dfsssp choose among shortest paths by the order of ports and addresses "
        "and load some cables more than hdor, which routes by coordinates; their lanes have to "
        "compensate for this. If the KNS is cabled in order lash has hdor's paths, on four lanes.",
    ),
)  # fmt: skip


_PAPER_GFLOPS, _PAPER_GTEPS = 30.0, 2.5
#: Metrics that contention can reduce.
BANDWIDTHS = ("random-ring-bandwidth", "natural-ring-bandwidth", "ptrans", "graph500", "ebb")


def _hpcg_random(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    waits = np.concatenate([evidence.all("hpcg-waiting", net).ravel() for net in (KNS, TREE)])
    return (
        f"HPCG's busiest rank waits {waits.min():.2f} to {waits.max():.2f} % of its time for "
        "others, the network included: no routing or placement can change the rate by more. A "
        "difference visible in the paper's bars has other causes (such as slow nodes or other "
        "processes)."
    )


def _graph_comment(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    edges = EDGE_FACTOR * 2**GRAPH_SCALE
    search_ms = {
        f"{network} {engine}": edges
        / float(evidence.get("graph500", network, engine, "linear").mean())
        / 1e6
        for network in (KNS, TREE)
        for engine in PAPER_ENGINES[network]
    }
    paper = edges / _PAPER_GTEPS / 1e6
    slow = [f"{name} {time:.2g}" for name, time in search_ms.items() if time > paper]
    text = (
        f"At this size 2.5 GTEPS are {paper:.2g} ms per search; messages alone take at "
        f"least {min(search_ms.values()):.2g} ms."
    )
    return text + f" Messages alone take longer with {', '.join(slow)} ms." * bool(slow)


def _graph_random(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    text = (
        "Vertices are distributed over ranks at random (v mod P), so all pairs of ranks exchange "
        "about the same number of edges (all to all); the placement only changes which messages "
        "share links at a time."
    )
    if evidence.ranks_per_node > 1:
        text += (
            " With linear placement the eight ranks of a node send to the eight of another node at "
            "the same time, on all nodes; random placement spreads these bursts."
        )
    return text


def _ebb_same(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    ratios = {
        engine: evidence.ratio("ebb", (KNS, engine, EITHER), (TREE, engine, EITHER))
        for engine in ("updn", "lash", "dfsssp")
    }
    return (
        "With the same routing: "
        + ", ".join(f"{engine} {ratio.mean - 1:+.0%}" for engine, ratio in ratios.items())
        + ". On the tree updn with one root uses only 6 of the 18 top cables for traffic between "
        "groups; with the three roots that OpenSM selects, it uses all of them. On the KNS updn's "
        "paths concentrate near one root."
    )


def _ebb_hdor(evidence: KnsEvidence, finding: ClaimFinding) -> str:
    over = [
        f"{other} {ratio.mean - 1:+.1%}"
        for other in ("lash", "dfsssp")
        for ratio in [evidence.ratio("ebb", (KNS, "hdor", EITHER), (KNS, other, EITHER))]
    ]
    return (
        f"hdor over {', '.join(over)}. hdor loads each cable with 30 of 1,260 pairs for any order "
        "of the KNS's cables; OpenSM's lash and dfsssp choose among shortest paths by the order of "
        "ports and addresses, and load some cables much more. If the KNS is cabled in order lash "
        "has hdor's paths, so that the two differ only in their lanes."
    )


def lane_gains(evidence: KnsEvidence) -> dict[str, float]:
    """Return the gain of more lanes on the same paths, geometric means over `BANDWIDTHS`."""
    pairs = {
        "KNS hdor, 2 lanes": ((KNS, "hdor-2"), (KNS, "hdor")),
        "KNS hdor, 4 lanes": ((KNS, "hdor-4"), (KNS, "hdor")),
        "KNS hdor, 8 lanes": ((KNS, "hdor-8"), (KNS, "hdor")),
        "KNS dfsssp, 8 lanes": ((KNS, "dfsssp"), (KNS, "dfsssp-few")),
        "tree dfsssp, 8 lanes": ((TREE, "dfsssp"), (TREE, "dfsssp-few")),
    }
    gains = {}
    for label, (one, other) in pairs.items():
        logs = [
            math.log(evidence.ratio(metric, (*one, placement), (*other, placement)).mean)
            for metric in BANDWIDTHS
            for placement in PLACEMENTS
        ]
        gains[label] = math.exp(sum(logs) / len(logs)) - 1
    return gains


def _gained(evidence: KnsEvidence, hdor: bool) -> list[ClaimComparison]:
    return [
        ClaimComparison.of(f"{label}: gain", np.array([gain]), (evidence.better, math.inf))
        for label, gain in lane_gains(evidence).items()
        if ("hdor" in label) == hdor
    ]


def _gains(evidence: KnsEvidence) -> str:
    return ", ".join(f"{label} {gain:+.1%}" for label, gain in lane_gains(evidence).items())


_LANES_WHY = (
    "The same tables are compared on more lanes, by ring bandwidths, PTRANS, Graph500 and ebb. "
    "More lanes reduce head-of-line blocking between flows that leave by different ports, but "
    "not contention for a cable."
)


OF_APPLICATIONS = (
    claim(
        "hpcg-level", "4.3.2, fig. 15", "HPCG reaches nearly 30 GFLOPS on both networks",
        "the simulated rate is within 10 % of this rate",
        levels(
            "hpcg", routings(KNS, TREE), PLACEMENTS,
            _PAPER_GFLOPS * (1 - SIMILAR), _PAPER_GFLOPS * (1 + SIMILAR),
            because="the assumed speed of the ranks determines the rate",
        ),
        lambda evidence: evidence.both("hpcg", 4),
        lambda evidence, finding: (
            f"Each rank is assumed to have {CORE_GFLOPS} GFLOPS, "
            f"{HOSTS * evidence.ranks_per_node * CORE_GFLOPS:.3g} in total without communication. "
            "The paper's 30 are 0.83 for each of 36 nodes, the rate of one core of such a "
            "processor; eight cores per node would give over 200. So the paper's runs had one rank "
            "per node."
        ),
    ),
    claim(
        "hpcg-kns-random", "4.3.2, fig. 15a",
        "On the KNS HPCG is faster with random than with linear placement",
        "random / linear is above 1 with every routing",
        random_over_linear(routings(KNS), "above", "hpcg"),
        lambda evidence: evidence.show("hpcg", KNS, 5), _hpcg_random,
    ),
    claim(
        "hpcg-hdor", "4.3.2, fig. 15a", "On the KNS hdor has the best HPCG with random placement",
        "hdor / other is above 1 for every other routing",
        ratios(rivals(KNS, "hdor"), "above", "hpcg", placements=("random",)),
        lambda evidence: evidence.show("hpcg", KNS, 5), _hpcg_random,
    ),
    claim(
        "graph500-level", "4.3.3, fig. 16",
        "With linear placement Graph500 is close to 2.5 GTEPS on both networks",
        f"the network alone allows at least this rate minus {SAME:.0%}",
        levels(
            "graph500", routings(KNS, TREE), ("linear",), _PAPER_GTEPS * (1 - SAME),
            because=_CEILING,
        ),
        lambda evidence: evidence.both("graph500"), _graph_comment,
    ),
    claim(
        "graph500-hdor", "4.3.3, fig. 16a",
        "Graph500 keeps its rate on the KNS with hdor and random placement",
        f"random / linear is at least 1 / {1 + SAME}",
        random_over_linear([(KNS, "hdor")], "kept", "graph500-paced", by=SAME),
        lambda evidence: evidence.show("graph500-paced", KNS), _graph_random,
    ),
    claim(
        "graph500-random", "4.3.3, fig. 16",
        "Graph500 is a little slower with random placement in all other cases",
        "random / linear is below 1, by any amount, with every routing but hdor",
        random_over_linear(
            routings(KNS, TREE, without="hdor"), "below", "graph500-paced", by=NOTHING
        ),
        lambda evidence: evidence.both("graph500-paced"), _graph_random,
    ),
    claim(
        "ebb-kns-tree", "4.3.4, fig. 17",
        "Effective bisection bandwidth is significantly higher on the KNS (with hdor)",
        f"KNS hdor / tree is at least {SAME:.0%} above 1 with every routing of the tree",
        ratios(
            [((KNS, "hdor"), other) for other in routings(TREE)], "above", "ebb",
            placements=(EITHER,), by=SAME,
        ),
        lambda evidence: evidence.both("ebb"),
        "For 36 hosts the tree has 27 cables above its leaf switches and 18 at the top; the KNS "
        "has 72 between routers and line switches, which hdor loads equally.",
    ),
    claim(
        "ebb-kns-tree-each", "4.3.4, fig. 17",
        "Effective bisection bandwidth is significantly higher on the KNS (with the same routing)",
        f"KNS / tree is at least {SAME:.0%} above 1 with updn on both, lash on both and dfsssp "
        "on both",
        ratios(
            [((KNS, each), (TREE, each)) for each in ("updn", "lash", "dfsssp")], "above", "ebb",
            placements=(EITHER,), by=SAME,
        ),
        lambda evidence: evidence.both("ebb"), _ebb_same,
    ),
    claim(
        "ebb-hdor", "4.3.4, fig. 17",
        "On the KNS hdor has the highest bisection bandwidth for both placements, notably above "
        "those with lanes",
        "hdor / other is above 1 for every other routing",
        ratios(rivals(KNS, "hdor"), "above", "ebb", placements=(EITHER,)),
        lambda evidence: evidence.show("ebb", KNS), _ebb_hdor,
    ),
    claim(
        "ebb-dfsssp-ftree", "4.3.4, fig. 17",
        "On the tree dfsssp has a better bisection bandwidth than ftree",
        "dfsssp / ftree is above 1",
        ratios([((TREE, "dfsssp"), (TREE, "ftree"))], "above", "ebb", placements=(EITHER,)),
        lambda evidence: evidence.show("ebb", TREE),
        "ftree balances shift patterns for five hosts per leaf switch, of which four exist, and "
        "its busiest cable has more pairs than dfsssp's (table 2). dfsssp also has more lanes.",
    ),
    claim(
        "lanes", "4.3.1 4.3.2 4.4", "Virtual lanes help where flows interfere",
        "dfsssp on eight lanes is faster than on the lanes that it needs (mean of five bandwidths)",
        lambda evidence: _gained(evidence, hdor=False), _gains, _LANES_WHY,
    ),
    claim(
        "hdor-lanes", "4.4", "Lanes could improve hdor (left to future work)",
        "hdor on 2, 4 and 8 lanes is faster than on one (mean of five bandwidths)",
        lambda evidence: _gained(evidence, hdor=True), _gains, _LANES_WHY,
    ),
    claim(
        "adapters-latency", "4.3.1 4.4",
        "Routing adapters would lower the KNS's latency (not available)",
        "every ping-pong and ring latency of routing adapters is below that of switches",
        ratios(
            [((ADAPTERS, "hdor"), (KNS, "hdor"))], "below",
            "pingpong-latency-min", "pingpong-latency-avg", "pingpong-latency-max",
            "natural-ring-latency", "random-ring-latency",
        ),
        lambda evidence: "; ".join(
            f"{which}: switches "
            f"{shown(evidence.get(f'pingpong-latency-{which}', KNS, 'hdor', 'linear'))}, adapters "
            f"{shown(evidence.get(f'pingpong-latency-{which}', ADAPTERS, 'hdor', 'linear'))} us"
            for which in ("min", "avg", "max")
        ),
        "Paths between hosts of one line have two switches and two cables fewer, other paths "
        "three switches and two cables; forwarding in the adapter is assumed to take no time.",
    ),
)  # fmt: skip
