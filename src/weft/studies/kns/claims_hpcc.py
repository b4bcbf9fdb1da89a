"""What section 4.3.1 of the KNS paper says of RandomAccess and PTRANS, and what tests it."""

from __future__ import annotations

from weft.studies.claims import Comparison, Finding
from weft.studies.kns.benchmarks import PTRANS_ORDER
from weft.studies.kns.evidence import (
    SAME,
    Evidence,
    above,
    against_linear,
    below,
    claim,
    each_routing,
    kept,
    level,
    spread_of,
)
from weft.studies.kns.machine import KNS, PAPER_ENGINES, TREE
from weft.studies.kns.runs import PLACEMENTS

#: What the figures show, as the text has it.
_PAPER_PTRANS, _PAPER_GUPS = 12.0, 0.05
_CEILING = "processors take no time here: the network allows more, and they set the level"


def _gups_level(evidence: Evidence) -> list[Comparison]:
    return [
        level(
            f"random-access, {network} {engine} linear, GUPS",
            evidence.get("random-access", network, engine, "linear"),
            _PAPER_GUPS * (1 - SAME),
            because=_CEILING,
        )
        for network in (KNS, TREE)
        for engine in PAPER_ENGINES[network]
    ]


def _gups_share(evidence: Evidence) -> float:
    """Share of the paper's time that the network needs at most."""
    return _PAPER_GUPS / float(evidence.all("random-access", KNS, ("linear",)).min())


def _gups_comment(evidence: Evidence, finding: Finding) -> str:
    return (
        "Messages alone, with 0.3 us of processor at either end, take "
        f"{_gups_share(evidence):.1%} of the time that 0.05 GUPS stand for (0.72 us for an update "
        "of each of 36 nodes), so processors set the level: 0.4 GB/s in all cross a network that "
        "carries some 50 at random."
    )


def _gups_drop(evidence: Evidence, finding: Finding) -> str:
    paced = [
        abs(against_linear(evidence, "random-access-paced", TREE, engine).mean - 1)
        for engine in PAPER_ENGINES[TREE]
    ]
    return (
        "Each update goes to a random rank, so all pairs of ranks exchange alike under any "
        "placement; on all hosts of a machine that is the same traffic. At the paper's pace the "
        f"network takes {evidence.shares['random-access-paced']:.1%} of the time at most, and "
        f"placement changes the tree by {max(paced):.3%} at most."
    )


def _ptrans_level(evidence: Evidence) -> list[Comparison]:
    return [
        level(
            f"ptrans, KNS {engine} {placement}, GB/s",
            evidence.get("ptrans", KNS, engine, placement),
            _PAPER_PTRANS * (1 - SAME),
            because=_CEILING,
        )
        for engine in PAPER_ENGINES[KNS]
        for placement in PLACEMENTS
    ]


def _ptrans_diluted(evidence: Evidence) -> tuple[float, float]:
    """Least and most GB/s on the KNS if processors take what is left of 12 GB/s, one after another.

    Their part is what the fastest run leaves of the paper's time.
    """
    size = PTRANS_ORDER**2 * 8
    network = size / evidence.all("ptrans", KNS).mean(axis=1)
    processors = size / _PAPER_PTRANS - network.min()
    return size / (processors + network.max()), size / (processors + network.min())


def _ptrans_comment(evidence: Evidence, finding: Finding) -> str:
    least, most = _ptrans_diluted(evidence)
    return (
        "The exchange alone is faster than the whole benchmark, whose ranks also copy and add "
        f"blocks. If that takes what is left of the paper's time in the fastest case, the eight "
        f"bars of the KNS lie between {least:.3g} and {most:.3g} GB/s."
    )


def _ptrans_best(evidence: Evidence) -> list[Comparison]:
    return [
        above(
            evidence.ratio("ptrans", (TREE, "dfsssp", placement), (TREE, other, placement)),
            evidence.better,
        )
        for placement in PLACEMENTS
        for other in PAPER_ENGINES[TREE]
        if other != "dfsssp"
    ]


def _ptrans_why(evidence: Evidence, finding: Finding) -> str:
    return (
        "On the 6 x 6 grid each rank has one partner, so that PTRANS is one permutation, whose "
        "time is that of the cable where most of its flows meet; on 4 x 9 and 3 x 12 a rank has 36 "
        "and 4 partners in turn. Grid, placement and the order of cables weigh more than the "
        "routing."
        if evidence.ranks_per_node == 1
        else "288 ranks stand on a grid of 16 x 18 and exchange with 72 partners in turn, so that "
        "many pairs meet over time and routings differ by how evenly they load cables."
    )


def _ptrans_lanes(evidence: Evidence) -> list[Comparison]:
    return [
        above(
            evidence.ratio("ptrans", (KNS, engine, placement), (KNS, "hdor", placement)),
            evidence.better,
        )
        for engine in ("lash", "dfsssp")
        for placement in PLACEMENTS
    ]


def _lanes_ptrans(evidence: Evidence, finding: Finding) -> str:
    return (
        "OpenSM's lash and dfsssp choose among shortest paths by the order of ports and addresses "
        "and load some cables more than hdor, which goes by coordinates; lanes have that to make "
        "up for. Where the KNS is cabled in order lash takes hdor's paths, on four lanes."
    )


CLAIMS = (
    claim(
        "gups-level",
        "4.3.1, fig. 11",
        "In order both networks reach about 0.05 GUPS",
        "the network alone allows at least so much",
        _gups_level,
        lambda evidence: evidence.both("random-access"),
        _gups_comment,
    ),
    claim(
        "gups-tree-random",
        "4.3.1, fig. 11",
        "RandomAccess falls on the tree when ranks are placed at random",
        "at the paper's pace, random over linear below 1 with every routing of the tree",
        each_routing(
            lambda evidence, network, engine: below(
                against_linear(evidence, "random-access-paced", network, engine), evidence.better
            ),
            (TREE,),
        ),
        lambda evidence: (
            f"network alone {evidence.show('random-access', TREE)}; at the paper's pace "
            f"{evidence.show('random-access-paced', TREE, 4)}"
        ),
        _gups_drop,
    ),
    claim(
        "gups-kns-hdor",
        "4.3.1, fig. 11",
        "RandomAccess keeps or improves its rate on the KNS with hdor at random",
        f"at the paper's pace, random over linear not below 1 by more than {SAME:.0%}",
        lambda evidence: [kept(against_linear(evidence, "random-access-paced", KNS, "hdor"))],
        lambda evidence: evidence.show("random-access-paced", KNS, 4),
        lambda evidence, finding: (
            "Random words belong to random ranks: the traffic is the same under any placement, and "
            "hdor loads all cables of the KNS alike with it."
        ),
    ),
    claim(
        "ptrans-level",
        "4.3.1, fig. 14",
        "PTRANS reaches about 12 GB/s on the KNS",
        "the network alone allows at least so much, with every routing and placement",
        _ptrans_level,
        lambda evidence: evidence.show("ptrans", KNS),
        _ptrans_comment,
    ),
    claim(
        "ptrans-kns-same",
        "4.3.1, fig. 14",
        "PTRANS is the same on the KNS with all routings and placements",
        f"its largest rate is within {SAME:.0%} of its least",
        spread_of("ptrans", KNS, SAME),
        lambda evidence: evidence.show("ptrans", KNS),
        _ptrans_comment,
    ),
    claim(
        "ptrans-dfsssp-tree",
        "4.3.1, fig. 14",
        "On the tree dfsssp has the best PTRANS for both placements, ftree not",
        "dfsssp over each other above 1",
        _ptrans_best,
        lambda evidence: evidence.show("ptrans", TREE),
        _ptrans_why,
    ),
    claim(
        "ptrans-hdor-ftree",
        "4.3.1, fig. 14",
        "hdor on the KNS has a better PTRANS than ftree on the tree",
        "hdor over ftree above 1 for both placements",
        lambda evidence: [
            above(
                evidence.ratio("ptrans", (KNS, "hdor", placement), (TREE, "ftree", placement)),
                evidence.better,
            )
            for placement in PLACEMENTS
        ],
        lambda evidence: evidence.both("ptrans"),
        _ptrans_why,
    ),
    claim(
        "ptrans-lanes",
        "4.3.1, fig. 14",
        "On the KNS lash and dfsssp, which use lanes, have a better PTRANS than hdor",
        "each over hdor above 1 for both placements",
        _ptrans_lanes,
        lambda evidence: evidence.show("ptrans", KNS),
        _lanes_ptrans,
    ),
)  # fmt: skip
