"""What section 4.3.1 of the KNS paper says of ping-pong and rings, and what tests it."""

from __future__ import annotations

from weft.papers.kns_evidence import (
    BETTER,
    SAME,
    SIMILAR,
    Claim,
    Condition,
    Evidence,
    Finding,
    Verdict,
    above,
    against_linear,
    alike,
    below,
    each_routing,
    spread_of,
)
from weft.papers.kns_machine import KNS, PAPER_ENGINES, TREE
from weft.papers.kns_runs import PLACEMENTS

#: 32 Gb/s of data, of which 2048 of 2074 bytes are payload.
_LOW, _HIGH = 3.8, 4.0
#: What the figures show, as the text has it.
_PAPER_PTRANS, _PAPER_GUPS = 12.0, 0.05

_ALL_PAIRS = (
    "HPCC's ping-pong runs one pair at a time, so flows cannot meet; with a rank on each host it "
    "also goes through every ordered pair of hosts under any placement, so that minimum, mean and "
    "maximum are the same numbers by construction. Whatever moved them in the paper was not "
    "contention and not the placement (an outlier, a cable with errors, a noisy node)"
)
_SOME_PAIRS = (
    "One pair runs at a time, so flows cannot meet; which pairs run depends on the placement, as "
    "pairs within a node count here, and the benchmark leaves out pairs when there are too many"
)


def _pairs(evidence: Evidence) -> str:
    return _ALL_PAIRS if evidence.ranks_per_node == 1 else _SOME_PAIRS


def _says_pairs(evidence: Evidence, finding: Finding) -> str:
    return _pairs(evidence) + "."


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
        "ranks placed at random is as random as one of ranks in order, so a placement changes "
        "nothing but the draw, on any network."
        if evidence.ranks_per_node == 1
        else "Random orders of the ranks make the placement matter little: ranks of one node are "
        "neighbours in the ring about as rarely with either."
    )


def _lash_rings(evidence: Evidence) -> list[Condition]:
    return [
        below(evidence.ratio(metric, (KNS, "lash", placement), (KNS, other, placement)))
        for metric in ("natural-ring-latency", "random-ring-latency")
        for placement in PLACEMENTS
        for other in PAPER_ENGINES[KNS]
        if other != "lash"
    ]


def _linear_rings(evidence: Evidence) -> list[Condition]:
    return [
        Condition(
            f"{metric}, linear: KNS {one} less tree {other}, us",
            evidence.get(metric, KNS, one, "linear") - evidence.get(metric, TREE, other, "linear"),
            0.0,
            0.5,
        )
        for metric in ("natural-ring-latency", "random-ring-latency")
        for one, other in (("lash", "lash"), ("dfsssp", "dfsssp"), ("hdor", "ftree"))
    ]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "pingpong-bandwidth-max",
        "4.3.1, fig. 9a 9b",
        "The maximum ping-pong bandwidth is almost 4 GB/s on both networks with all routings",
        f"every maximum is {_LOW} to {_HIGH} GB/s",
        lambda evidence: [
            Condition(f"most bandwidth, {network} {engine} {placement}, GB/s", value, _LOW, _HIGH)
            for network in (KNS, TREE)
            for engine in PAPER_ENGINES[network]
            for placement in PLACEMENTS
            for value in [evidence.get("pingpong-bandwidth-max", network, engine, placement)]
        ],
        lambda evidence: evidence.both("pingpong-bandwidth-max"),
        _max_comment,
    ),
    Claim(
        "pingpong-bandwidth-min-kns",
        "4.3.1, fig. 9c",
        "The KNS's minimum bandwidth is similar for all routings and placements",
        f"its largest minimum is within {SAME:.0%} of its least",
        spread_of("pingpong-bandwidth-min", KNS, SAME),
        lambda evidence: evidence.show("pingpong-bandwidth-min", KNS),
        _says_pairs,
    ),
    Claim(
        "pingpong-bandwidth-min-tree",
        "4.3.1, fig. 9d",
        "The tree's minimum bandwidth falls when ranks are placed at random",
        f"random over linear at least {SAME:.0%} below 1 with every routing",
        each_routing(
            lambda evidence, network, engine: below(
                against_linear(evidence, "pingpong-bandwidth-min", network, engine), SAME
            ),
            (TREE,),
        ),
        lambda evidence: evidence.show("pingpong-bandwidth-min", TREE),
        _says_pairs,
    ),
    Claim(
        "pingpong-bandwidth-avg",
        "4.3.1, fig. 9e",
        "The KNS's average bandwidth is close to its maximum",
        f"average over maximum within {SAME:.0%} of 1",
        each_routing(
            lambda evidence, network, engine: Condition(
                f"average over maximum, {network} {engine}",
                min(
                    evidence.get("pingpong-bandwidth-avg", network, engine, placement)
                    / evidence.get("pingpong-bandwidth-max", network, engine, placement)
                    for placement in PLACEMENTS
                ),
                1 - SAME,
                1.0,
            ),
            (KNS,),
        ),
        lambda evidence: evidence.show("pingpong-bandwidth-avg", KNS),
        lambda evidence, finding: (
            "2 MB take 0.5 ms; one or two more switches on the way take 0.1 us each."
        ),
    ),
    Claim(
        "pingpong-latency-min",
        "4.3.1, fig. 10c 10d",
        "The minimum latency is lower on the tree: two hops there, four on the KNS",
        f"tree over KNS at least {BETTER:.0%} below 1, with the same or the topology's own routing",
        lambda evidence: [
            below(
                evidence.ratio(
                    "pingpong-latency-min", (TREE, one, placement), (KNS, other, placement)
                )
            )
            for one, other in zip(PAPER_ENGINES[TREE], PAPER_ENGINES[KNS], strict=True)
            for placement in PLACEMENTS
        ],
        lambda evidence: evidence.both("pingpong-latency-min"),
        lambda evidence, finding: (
            "One switch against three on the nearest pair's way: 0.2 us of switches and two cables."
            if evidence.ranks_per_node == 1
            else "The nearest ranks share a node wherever such a pair is measured, and the network "
            "has no part in that."
        ),
    ),
    Claim(
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
        _says_pairs,
    ),
    Claim(
        "pingpong-latency-tree-random",
        "4.3.1, fig. 10b 10f",
        "The tree's maximum and average latency get worse when ranks are placed at random",
        f"random over linear at least {BETTER:.0%} above 1 with lash, dfsssp and ftree",
        lambda evidence: [
            above(against_linear(evidence, f"pingpong-latency-{which}", TREE, engine))
            for which in ("max", "avg")
            for engine in ("lash", "dfsssp", "ftree")
        ],
        lambda evidence: "; ".join(
            f"{which}: {evidence.show(f'pingpong-latency-{which}', TREE)}"
            for which in ("avg", "max")
        ),
        _says_pairs,
    ),
    Claim(
        "pingpong-latency-updn",
        "4.3.1, fig. 10b",
        "On the tree updn's maximum latency in order is far above the others' (14 us)",
        f"updn over every other at least {SIMILAR:.0%} above 1 on the tree, linear",
        lambda evidence: [
            above(
                evidence.ratio(
                    "pingpong-latency-max", (TREE, "updn", "linear"), (TREE, other, "linear")
                ),
                SIMILAR,
            )
            for other in ("lash", "dfsssp", "ftree")
        ],
        lambda evidence: evidence.show("pingpong-latency-max", TREE),
        lambda evidence, finding: (
            "updn's ways on the tree are no longer than the others' (up to six links), and nothing "
            "else is under way; one slow exchange, such as an interrupt, would do."
        ),
    ),
    Claim(
        "ring-linear",
        "4.3.1, fig. 12 13",
        "In order both networks have similar ring latencies, the tree's less than 0.5 us lower",
        "KNS less tree is 0 to 0.5 us with lash, dfsssp and the topology's own, both rings",
        _linear_rings,
        lambda evidence: "; ".join(
            f"{name}: {evidence.both(f'{name}-ring-latency')}" for name in ("natural", "random")
        ),
        lambda evidence, finding: (
            "The slowest rank decides, and both networks have pairs that are six links apart; the "
            "naturally ordered ring in order has few of them on either, fewer on the tree."
        ),
    ),
    Claim(
        "ring-natural-random",
        "4.3.1, fig. 12",
        "The naturally ordered ring's latency grows significantly on the tree at random",
        f"random over linear at least {SIMILAR:.0%} above 1 with every routing of the tree",
        each_routing(
            lambda evidence, network, engine: above(
                against_linear(evidence, "natural-ring-latency", network, engine), SIMILAR
            ),
            (TREE,),
        ),
        lambda evidence: evidence.both("natural-ring-latency"),
        lambda evidence, finding: (
            "In order most neighbours hang from one switch. On the KNS most share a line in order "
            "and need three switches instead of five, so its ring grows as well: hdor "
            f"{against_linear(evidence, 'natural-ring-latency', KNS, 'hdor')[1] - 1:+.0%}, ftree "
            f"{against_linear(evidence, 'natural-ring-latency', TREE, 'ftree')[1] - 1:+.0%}."
        ),
    ),
    Claim(
        "ring-random-random",
        "4.3.1, fig. 13",
        "The randomly ordered ring's latency grows significantly on the tree at random",
        f"random over linear at least {SIMILAR:.0%} above 1 with every routing of the tree",
        each_routing(
            lambda evidence, network, engine: above(
                against_linear(evidence, "random-ring-latency", network, engine), SIMILAR
            ),
            (TREE,),
        ),
        lambda evidence: evidence.both("random-ring-latency"),
        _ring_random,
    ),
    Claim(
        "ring-lash",
        "4.3.1, fig. 12 13",
        "On the KNS lash always has the lowest ring latency, thanks to its lanes",
        f"lash over each other at least {BETTER:.0%} below 1, both rings and placements",
        _lash_rings,
        lambda evidence: "; ".join(
            f"{name}: {evidence.show(f'{name}-ring-latency', KNS)}"
            for name in ("natural", "random")
        ),
        lambda evidence, finding: (
            "lash, dfsssp and hdor take equally long ways, and messages of 8 bytes hold each other "
            "up by 9 ns where they meet: lanes have nothing to part, and a lead of a lane's worth "
            "would not show. updn's detours do cost."
        ),
    ),
)  # fmt: skip
