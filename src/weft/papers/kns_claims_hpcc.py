"""What section 4.3.1 of the KNS paper says of HPC Challenge, and the conditions that test it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.papers.kns_benchmarks import PTRANS_ORDER
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
    spread,
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


def _each(
    make: Callable[[Evidence, str, str], Condition], networks: Sequence[str] = (KNS, TREE)
) -> Callable[[Evidence], list[Condition]]:
    """A condition for each of the paper's routings of some networks."""
    return lambda evidence: [
        make(evidence, network, engine) for network in networks for engine in PAPER_ENGINES[network]
    ]


def _spread_of(metric: str, network: str, within: float) -> Callable[[Evidence], list[Condition]]:
    return lambda evidence: [
        Condition(
            f"{metric}, {network}: most over least, less 1",
            spread(evidence.all(metric, network)),
            high=within,
        )
    ]


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
        "HPCC draws random orders of the ranks itself and averages over 30 of them. A random order "
        "of randomly placed ranks is as random as one of ranks in order, so placement cannot "
        "matter but for the draw, on any network. The paper's increase is that of the naturally "
        "ordered ring, or noise."
        if evidence.ranks_per_node == 1
        else "Random orders of the ranks make the placement matter little: ranks of one node are "
        "neighbours in the ring as rarely as before."
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


def _gups_level(evidence: Evidence) -> list[Condition]:
    return [
        Condition(f"random-access, {network} {engine} linear, GUPS", value, low=_PAPER_GUPS)
        for network in (KNS, TREE)
        for engine in PAPER_ENGINES[network]
        for value in [evidence.get("random-access", network, engine, "linear")]
    ]


def _gups_share(evidence: Evidence) -> float:
    """Share of the paper's time that the network needs at most."""
    return _PAPER_GUPS / min(evidence.all("random-access", KNS, ("linear",)))


def _gups_comment(evidence: Evidence, finding: Finding) -> str:
    return (
        "Messages alone, with 0.3 us of processor at either end, take "
        f"{_gups_share(evidence):.1%} of the time that 0.05 GUPS stand for (0.72 us for an update "
        "of each of 36 nodes), so processors set the level: 0.4 GB/s in all cross a network that "
        "carries some 50 at random."
    )


def _gups_drop(evidence: Evidence, finding: Finding) -> str:
    paced = [
        against_linear(evidence, "random-access-paced", TREE, engine)[1] - 1
        for engine in PAPER_ENGINES[TREE]
    ]
    return (
        "Each update goes to a random rank, so all pairs of ranks exchange alike under any "
        "placement; on the hosts of one machine that is the same traffic. At the paper's pace "
        f"placement changes the tree by {min(paced):+.1%} to {max(paced):+.1%}: no network effect "
        "of this model can make the drop that the paper shows."
    )


def _ptrans_level(evidence: Evidence) -> list[Condition]:
    return [
        Condition(f"ptrans, KNS {engine} {placement}, GB/s", value, low=_PAPER_PTRANS)
        for engine in PAPER_ENGINES[KNS]
        for placement in PLACEMENTS
        for value in [evidence.get("ptrans", KNS, engine, placement)]
    ]


def _ptrans_diluted(evidence: Evidence) -> tuple[float, float]:
    """Least and most GB/s on the KNS if processors take what is left of 12 GB/s, one after another.

    Their part is what the fastest run leaves of the paper's time.
    """
    size = PTRANS_ORDER**2 * 8
    network = [size / value for value in evidence.all("ptrans", KNS)]
    processors = size / _PAPER_PTRANS - min(network)
    return size / (processors + max(network)), size / (processors + min(network))


def _ptrans_comment(evidence: Evidence, finding: Finding) -> str:
    least, most = _ptrans_diluted(evidence)
    return (
        "The exchange alone is faster than the whole benchmark, whose ranks also copy and add "
        f"blocks. If that takes what is left of the paper's time in the fastest case, the eight "
        f"bars of the KNS lie between {least:.3g} and {most:.3g} GB/s."
    )


def _ptrans_best(evidence: Evidence) -> list[Condition]:
    return [
        above(evidence.ratio("ptrans", (TREE, "dfsssp", placement), (TREE, other, placement)))
        for placement in PLACEMENTS
        for other in PAPER_ENGINES[TREE]
        if other != "dfsssp"
    ]


def _ptrans_why(evidence: Evidence, finding: Finding) -> str:
    return (
        "Few large messages at once (each rank has one partner on the 6 x 6 grid) make PTRANS a "
        "permutation, whose time is that of the cable where most of its flows meet: which routing "
        "has the worst meeting depends on the grid and the placement more than on the routing."
        if evidence.ranks_per_node == 1
        else "288 ranks stand on a grid of 16 x 18 and exchange with 72 partners in turn, so that "
        "many pairs meet over time and routings differ by how evenly they load cables."
    )


def _ptrans_lanes(evidence: Evidence) -> list[Condition]:
    return [
        above(evidence.ratio("ptrans", (KNS, engine, placement), (KNS, "hdor", placement)))
        for engine in ("lash", "dfsssp")
        for placement in PLACEMENTS
    ]


def _lash_is_hdor(evidence: Evidence, finding: Finding) -> str:
    return (
        "OpenSM's lash takes on this KNS, cabled in order, dimension-order ways as hdor does, on "
        "four lanes: the two differ by lanes alone. dfsssp's ways load the busiest cable with 39 "
        "pairs instead of 30. On a KNS cabled otherwise lash takes other ways."
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "pingpong-bandwidth-max",
        "4.3.1, fig. 9a 9b",
        "The maximum ping-pong bandwidth is almost 4 GB/s on both networks with all routings",
        f"every maximum is {_LOW} to {_HIGH} GB/s",
        _each(
            lambda evidence, network, engine: Condition(
                f"most bandwidth, {network} {engine}, GB/s",
                max(
                    (evidence.get("pingpong-bandwidth-max", network, engine, placement)
                     for placement in PLACEMENTS),
                ),
                _LOW,
                _HIGH,
            )
        ),
        lambda evidence: evidence.both("pingpong-bandwidth-max"),
        _max_comment,
    ),
    Claim(
        "pingpong-bandwidth-min-kns",
        "4.3.1, fig. 9c",
        "The KNS's minimum bandwidth is similar for all routings and placements",
        f"its largest minimum is within {SAME:.0%} of its least",
        _spread_of("pingpong-bandwidth-min", KNS, SAME),
        lambda evidence: evidence.show("pingpong-bandwidth-min", KNS),
        _says_pairs,
    ),
    Claim(
        "pingpong-bandwidth-min-tree",
        "4.3.1, fig. 9d",
        "The tree's minimum bandwidth falls when ranks are placed at random",
        f"random over linear at least {SAME:.0%} below 1 with every routing",
        _each(
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
        _each(
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
            "8 bytes meet nothing worth the name; latencies are those of the longest way in the "
            "ring, up to five switches on either network."
        ),
    ),
    Claim(
        "ring-natural-random",
        "4.3.1, fig. 12",
        "The naturally ordered ring's latency grows on the tree when ranks are placed at random",
        f"random over linear at least {BETTER:.0%} above 1 with every routing of the tree",
        _each(
            lambda evidence, network, engine: above(
                against_linear(evidence, "natural-ring-latency", network, engine)
            ),
            (TREE,),
        ),
        lambda evidence: evidence.both("natural-ring-latency"),
        lambda evidence, finding: (
            "In order most neighbours hang from one switch. On the KNS, in order, most neighbours "
            "share a line and need three switches instead of five, so its ring grows as well."
        ),
    ),
    Claim(
        "ring-random-random",
        "4.3.1, fig. 13",
        "The randomly ordered ring's latency grows on the tree when ranks are placed at random",
        f"random over linear at least {BETTER:.0%} above 1 with every routing of the tree",
        _each(
            lambda evidence, network, engine: above(
                against_linear(evidence, "random-ring-latency", network, engine)
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
            "lash, dfsssp and hdor take equally long ways, and two messages of 8 bytes a rank hold "
            "each other up by 9 ns where they meet: lanes have nothing to part. updn's detours do "
            "cost, as far as its ring has any."
        ),
    ),
    Claim(
        "gups-level",
        "4.3.1, fig. 11",
        "In order both networks reach about 0.05 GUPS",
        "the network alone allows at least so much",
        _gups_level,
        lambda evidence: evidence.both("random-access"),
        _gups_comment,
        decides=False,
    ),
    Claim(
        "gups-tree-random",
        "4.3.1, fig. 11",
        "RandomAccess falls on the tree when ranks are placed at random",
        f"random over linear at least {BETTER:.0%} below 1 with every routing of the tree",
        _each(
            lambda evidence, network, engine: below(
                against_linear(evidence, "random-access", network, engine)
            ),
            (TREE,),
        ),
        lambda evidence: (
            f"network alone {evidence.show('random-access', TREE)}; at the paper's pace "
            f"{evidence.show('random-access-paced', TREE, 4)}"
        ),
        _gups_drop,
    ),
    Claim(
        "gups-kns-hdor",
        "4.3.1, fig. 11",
        "RandomAccess keeps or improves its rate on the KNS with hdor at random",
        f"random over linear not more than {BETTER:.0%} below 1",
        lambda evidence: [
            Condition(*against_linear(evidence, "random-access", KNS, "hdor"), low=1 - BETTER)
        ],
        lambda evidence: evidence.show("random-access", KNS),
        lambda evidence, finding: (
            "Random words belong to random ranks: the traffic is the same under any placement, and "
            "hdor loads all cables of the KNS alike with it."
        ),
    ),
    Claim(
        "ptrans-level",
        "4.3.1, fig. 14",
        "PTRANS reaches about 12 GB/s on the KNS",
        "the network alone allows at least so much, with every routing and placement",
        _ptrans_level,
        lambda evidence: evidence.show("ptrans", KNS),
        _ptrans_comment,
        decides=False,
    ),
    Claim(
        "ptrans-kns-same",
        "4.3.1, fig. 14",
        "PTRANS is the same on the KNS with all routings and placements",
        f"its largest rate is within {SAME:.0%} of its least",
        _spread_of("ptrans", KNS, SAME),
        lambda evidence: evidence.show("ptrans", KNS),
        _ptrans_comment,
    ),
    Claim(
        "ptrans-dfsssp-tree",
        "4.3.1, fig. 14",
        "On the tree dfsssp has the best PTRANS for both placements, ftree not",
        f"dfsssp over each other at least {BETTER:.0%} above 1",
        _ptrans_best,
        lambda evidence: evidence.show("ptrans", TREE),
        _ptrans_why,
    ),
    Claim(
        "ptrans-hdor-ftree",
        "4.3.1, fig. 14",
        "hdor on the KNS has a better PTRANS than ftree on the tree",
        f"hdor over ftree at least {BETTER:.0%} above 1 for both placements",
        lambda evidence: [
            above(evidence.ratio("ptrans", (KNS, "hdor", placement), (TREE, "ftree", placement)))
            for placement in PLACEMENTS
        ],
        lambda evidence: evidence.both("ptrans"),
        _ptrans_why,
    ),
    Claim(
        "ptrans-lanes",
        "4.3.1, fig. 14",
        "On the KNS lash and dfsssp, which use lanes, have a better PTRANS than hdor",
        f"each over hdor at least {BETTER:.0%} above 1 for both placements",
        _ptrans_lanes,
        lambda evidence: evidence.show("ptrans", KNS),
        _lash_is_hdor,
    ),
)  # fmt: skip
