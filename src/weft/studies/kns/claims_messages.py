"""What section 4.3.1 of the KNS paper says of ping-pong and rings, and what tests it."""

from __future__ import annotations

import math

from weft.studies.claims import Comparison, Finding, Verdict
from weft.studies.kns.evidence import (
    SAME,
    SIMILAR,
    Evidence,
    above,
    against_linear,
    alike,
    below,
    claim,
    each_routing,
    spread_of,
)
from weft.studies.kns.machine import KNS, PAPER_ENGINES, TREE, longest_latency_us
from weft.studies.kns.runs import PLACEMENTS

#: 32 Gb/s of data, of which 2048 of 2074 bytes are payload.
_LOW, _HIGH = 3.8, 4.0
_PAPER_UPDN_US = 14.0
#: How much lower the paper calls "less than" (section 4.3.1, fig. 12 13).
_RING_LEAD_US = 0.5


def _pairs(evidence: Evidence, finding: Finding) -> str:
    return (
        "HPCC's ping-pong runs one pair at a time, so flows cannot meet. With a rank on each host "
        "it goes through every ordered pair of hosts under any placement: minimum, mean and "
        "maximum are the same numbers by construction. What moved them in the paper was neither "
        "contention nor the placement."
        if evidence.ranks_per_node == 1
        else "One pair runs at a time, so flows cannot meet. Which pairs run depends on the "
        "placement: pairs within a node count, and the benchmark leaves out pairs when there are "
        "too many."
    )


def _max_comment(evidence: Evidence, finding: Finding) -> str:
    text = "32 Gb/s of data times 2048 of 2074 bytes is 3.95 GB/s, less what a rendez-vous takes"
    if finding.verdict is not Verdict.HOLDS:
        text += (
            ". With several ranks on a node the fastest pair is one within it, which copies "
            "through memory. The paper's maximum is a cable's, so it ran one rank on each node"
        )
    return text + "."


def _ring_random(evidence: Evidence, finding: Finding) -> str:
    return (
        "HPCC draws random orders of the ranks and averages over 30 of them. A random order of "
        "ranks placed at random is as random as one of ranks in order, on any network."
    )


def _lash_rings(evidence: Evidence) -> list[Comparison]:
    return [
        below(
            evidence.ratio(metric, (KNS, "lash", placement), (KNS, other, placement)),
            evidence.better,
        )
        for metric in ("natural-ring-latency", "random-ring-latency")
        for placement in PLACEMENTS
        for other in PAPER_ENGINES[KNS]
        if other != "lash"
    ]


def _linear_rings(evidence: Evidence) -> list[Comparison]:
    found = []
    for metric in ("natural-ring-latency", "random-ring-latency"):
        for one, other in (("lash", "lash"), ("dfsssp", "dfsssp"), ("hdor", "ftree")):
            tree = evidence.get(metric, TREE, other, "linear")
            lead = evidence.get(metric, KNS, one, "linear") - tree
            within = -SAME * float(tree.mean()), _RING_LEAD_US
            label = f"{metric}, linear: KNS {one} less tree {other}, us"
            found.append(Comparison.of(label, lead, within))
    return found


def _updn_latency(evidence: Evidence) -> list[Comparison]:
    metric = "pingpong-latency-max"
    possible, because = (-math.inf, math.inf), ""
    if metric in evidence.alone:
        longest = longest_latency_us(TREE)
        possible = 0.0, longest
        because = (
            "one message is under way at a time, and takes no more than "
            f"{longest:.2g} us even through every switch of the tree"
        )
    return [
        Comparison.of(
            f"{metric}, tree updn linear, us",
            evidence.get(metric, TREE, "updn", "linear"),
            (_PAPER_UPDN_US * (1 - SIMILAR), math.inf),
            possible=possible,
            because=because,
        )
    ]


CLAIMS = (
    claim(
        "pingpong-bandwidth-max",
        "4.3.1, fig. 9a 9b",
        "The maximum ping-pong bandwidth is almost 4 GB/s on both networks with all routings",
        f"every maximum is {_LOW} to {_HIGH} GB/s",
        lambda evidence: [
            Comparison.of(
                f"most bandwidth, {network} {engine} {placement}, GB/s", values, (_LOW, _HIGH)
            )
            for network in (KNS, TREE)
            for engine in PAPER_ENGINES[network]
            for placement in PLACEMENTS
            for values in [evidence.get("pingpong-bandwidth-max", network, engine, placement)]
        ],
        lambda evidence: evidence.both("pingpong-bandwidth-max"),
        _max_comment,
    ),
    claim(
        "pingpong-bandwidth-min-kns",
        "4.3.1, fig. 9c",
        "The KNS's minimum bandwidth is similar for all routings and placements",
        f"its largest minimum is within {SAME:.0%} of its least",
        spread_of("pingpong-bandwidth-min", KNS, SAME),
        lambda evidence: evidence.show("pingpong-bandwidth-min", KNS),
        _pairs,
    ),
    claim(
        "pingpong-bandwidth-min-tree",
        "4.3.1, fig. 9d",
        "The tree's minimum bandwidth falls when ranks are placed at random",
        "random over linear below 1 with every routing",
        each_routing(
            lambda evidence, network, engine: below(
                against_linear(evidence, "pingpong-bandwidth-min", network, engine),
                evidence.better,
            ),
            (TREE,),
        ),
        lambda evidence: evidence.show("pingpong-bandwidth-min", TREE),
        _pairs,
    ),
    claim(
        "pingpong-bandwidth-avg",
        "4.3.1, fig. 9e",
        "The KNS's average bandwidth is close to its maximum",
        f"average over maximum within {SAME:.0%} of 1",
        lambda evidence: [
            Comparison.of(
                f"average over maximum, {KNS} {engine} {placement}",
                evidence.get("pingpong-bandwidth-avg", KNS, engine, placement)
                / evidence.get("pingpong-bandwidth-max", KNS, engine, placement),
                (1 - SAME, 1.0),
            )
            for engine in PAPER_ENGINES[KNS]
            for placement in PLACEMENTS
        ],
        lambda evidence: evidence.show("pingpong-bandwidth-avg", KNS),
        lambda evidence, finding: (
            "2 MB take 0.5 ms; one or two more switches take 0.1 us each."
        ),
    ),
    claim(
        "pingpong-latency-min",
        "4.3.1, fig. 10c 10d",
        "The minimum latency is lower on the tree: two hops there, four on the KNS",
        "tree over KNS below 1, with the same or the topology's own routing",
        lambda evidence: [
            below(
                evidence.ratio(
                    "pingpong-latency-min", (TREE, one, placement), (KNS, other, placement)
                ),
                evidence.better,
            )
            for one, other in zip(PAPER_ENGINES[TREE], PAPER_ENGINES[KNS], strict=True)
            for placement in PLACEMENTS
        ],
        lambda evidence: evidence.both("pingpong-latency-min"),
        lambda evidence, finding: (
            "One switch against three for the nearest pair: 0.2 us of switches and two cables."
            if evidence.ranks_per_node == 1
            else "The nearest ranks share a node wherever such a pair is measured, and the network "
            "has no part in that."
        ),
    ),
    claim(
        "pingpong-latency-kns-placement",
        "4.3.1, fig. 10a 10c",
        "The KNS's latencies are the same for both placements",
        f"random over linear within {SAME:.0%} of 1: minimum, average and maximum",
        lambda evidence: [
            alike(against_linear(evidence, f"pingpong-latency-{which}", KNS, engine))
            for which in ("min", "avg", "max")
            for engine in PAPER_ENGINES[KNS]
        ],
        lambda evidence: "; ".join(
            f"{which}: {evidence.show(f'pingpong-latency-{which}', KNS)}"
            for which in ("min", "max")
        ),
        _pairs,
    ),
    claim(
        "pingpong-latency-tree-random",
        "4.3.1, fig. 10b 10f",
        "The tree's maximum and average latency get worse when ranks are placed at random",
        "random over linear above 1 with lash, dfsssp and ftree",
        lambda evidence: [
            above(
                against_linear(evidence, f"pingpong-latency-{which}", TREE, engine),
                evidence.better,
            )
            for which in ("max", "avg")
            for engine in ("lash", "dfsssp", "ftree")
        ],
        lambda evidence: "; ".join(
            f"{which}: {evidence.show(f'pingpong-latency-{which}', TREE)}"
            for which in ("avg", "max")
        ),
        _pairs,
    ),
    claim(
        "pingpong-latency-updn",
        "4.3.1, fig. 10b",
        "On the tree updn's maximum latency reaches 14 us in order",
        f"updn's maximum in order at least {_PAPER_UPDN_US * (1 - SIMILAR):.3g} us",
        _updn_latency,
        lambda evidence: evidence.show("pingpong-latency-max", TREE),
        lambda evidence, finding: (
            "updn's paths on the tree are as long as the others' (up to six links), and nothing "
            "else is under way; one slow exchange, such as an interrupt, would do."
        ),
    ),
    claim(
        "ring-linear",
        "4.3.1, fig. 12 13",
        "In order both networks have similar ring latencies, the tree's less than 0.5 us lower",
        f"KNS less tree is at most {_RING_LEAD_US} us with lash, dfsssp and the topology's own, "
        f"and not below 0 by more than {SAME:.0%} of the tree's; both rings",
        _linear_rings,
        lambda evidence: "; ".join(
            f"{name}: {evidence.both(f'{name}-ring-latency')}" for name in ("natural", "random")
        ),
        lambda evidence, finding: (
            "The slowest rank decides, and both networks have pairs that are six links apart; the "
            "naturally ordered ring in order has few of them on either, fewer on the tree."
        ),
    ),
    claim(
        "ring-natural-random",
        "4.3.1, fig. 12",
        "The naturally ordered ring's latency grows significantly on the tree at random",
        f"random over linear at least {SAME:.0%} above 1 with every routing of the tree",
        each_routing(
            lambda evidence, network, engine: above(
                against_linear(evidence, "natural-ring-latency", network, engine), SAME
            ),
            (TREE,),
        ),
        lambda evidence: evidence.both("natural-ring-latency"),
        lambda evidence, finding: (
            "In order most neighbours hang from one switch. On the KNS most share a line in order "
            "and need three switches instead of five, so its ring grows as well: hdor "
            f"{against_linear(evidence, 'natural-ring-latency', KNS, 'hdor').mean - 1:+.0%}, ftree "
            f"{against_linear(evidence, 'natural-ring-latency', TREE, 'ftree').mean - 1:+.0%}."
        ),
    ),
    claim(
        "ring-random-random",
        "4.3.1, fig. 13",
        "The randomly ordered ring's latency grows significantly on the tree at random",
        f"random over linear at least {SAME:.0%} above 1 with every routing of the tree",
        each_routing(
            lambda evidence, network, engine: above(
                against_linear(evidence, "random-ring-latency", network, engine), SAME
            ),
            (TREE,),
        ),
        lambda evidence: evidence.both("random-ring-latency"),
        _ring_random,
    ),
    claim(
        "ring-lash",
        "4.3.1, fig. 12 13",
        "On the KNS lash always has the lowest ring latency, thanks to its lanes",
        "lash over each other below 1, both rings and placements",
        _lash_rings,
        lambda evidence: "; ".join(
            f"{name}: {evidence.show(f'{name}-ring-latency', KNS)}"
            for name in ("natural", "random")
        ),
        lambda evidence, finding: (
            "lash, dfsssp and hdor take equally long paths, and messages of 8 bytes delay each "
            "other by 9 ns where they meet: lanes have nothing to part. updn's detours do cost."
        ),
    ),
)  # fmt: skip
