"""What section 4.3.1 of the KNS paper says of RandomAccess and PTRANS, and what tests it."""

from __future__ import annotations

from weft.papers.kns_benchmarks import PTRANS_ORDER
from weft.papers.kns_evidence import (
    BETTER,
    SAME,
    Claim,
    Condition,
    Evidence,
    Finding,
    above,
    against_linear,
    below,
    each_routing,
    spread_of,
)
from weft.papers.kns_machine import KNS, PAPER_ENGINES, TREE
from weft.papers.kns_runs import PLACEMENTS

#: What the figures show, as the text has it.
_PAPER_PTRANS, _PAPER_GUPS = 12.0, 0.05


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
        "placement; on all hosts of a machine that is the same traffic. At the paper's pace "
        f"placement changes the tree by {min(paced):+.2%} to {max(paced):+.2%}: neither ways nor "
        "contention can make the drop that the paper shows."
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


def _lanes_ptrans(evidence: Evidence, finding: Finding) -> str:
    if evidence.basis.shuffled:
        return (
            "Cabled in no order, OpenSM's lash and dfsssp take ways that share cables less evenly "
            "than hdor's, which go by coordinates; lanes have that to make up for."
        )
    text = (
        "OpenSM's lash takes dimension-order ways as hdor does where the KNS is cabled in order, "
        "on four lanes: the two differ by lanes alone. dfsssp's ways load the busiest cable with "
        "39 pairs instead of 30."
    )
    if evidence.ranks_per_node == 1:
        text += (
            " A rank has one partner at a time, so a flow seldom waits behind one that leaves by "
            "another port, which is what lanes cure; two on one cable share it in any lanes."
        )
    return text


CLAIMS: tuple[Claim, ...] = (
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
        each_routing(
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
        spread_of("ptrans", KNS, SAME),
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
        _lanes_ptrans,
    ),
)  # fmt: skip
