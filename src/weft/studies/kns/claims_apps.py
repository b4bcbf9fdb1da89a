"""What sections 4.3.2 to 4.4 of the KNS paper say, and the conditions that test it."""

from __future__ import annotations

import math

import numpy as np

from weft.studies.claims import NOTHING, Comparison, Finding
from weft.studies.kns.benchmarks import CORE_GFLOPS, EDGE_FACTOR, GRAPH_SCALE
from weft.studies.kns.evidence import (
    EITHER,
    SAME,
    SIMILAR,
    Evidence,
    above,
    against_linear,
    below,
    claim,
    kept,
    level,
    shown,
)
from weft.studies.kns.machine import ADAPTERS, HOSTS, KNS, PAPER_ENGINES, TREE
from weft.studies.kns.runs import PLACEMENTS

_PAPER_GFLOPS, _PAPER_GTEPS = 30.0, 2.5
#: What flows that meet can slow down.
BANDWIDTHS = ("random-ring-bandwidth", "natural-ring-bandwidth", "ptrans", "graph500", "ebb")


def _hpcg_waits(evidence: Evidence) -> str:
    shares = np.concatenate([evidence.all("hpcg-waiting", net).ravel() for net in (KNS, TREE)])
    return f"{shares.min():.2f} to {shares.max():.2f} %"


def _hpcg_level(evidence: Evidence, finding: Finding) -> str:
    total = HOSTS * evidence.ranks_per_node * CORE_GFLOPS
    return (
        f"Ranks are given {CORE_GFLOPS} GFLOPS each, so {total:.3g} in all before any "
        "communication. The paper's 30 are 0.83 for each of 36 nodes, what one core of such a "
        "processor does; eight to a node would make over 200. So it ran one rank on a node."
    )


def _hpcg_random(evidence: Evidence, finding: Finding) -> str:
    return (
        f"HPCG's busiest rank waits {_hpcg_waits(evidence)} of its time for others, the network "
        "included: no routing or placement can bring or cost more. A difference that shows in the "
        "paper's bars has other reasons (which node is slow, what else it does)."
    )


def _graph_comment(evidence: Evidence, finding: Finding) -> str:
    edges = EDGE_FACTOR * 2**GRAPH_SCALE
    took = {
        f"{network} {engine}": edges
        / float(evidence.get("graph500", network, engine, "linear").mean())
        / 1e6
        for network in (KNS, TREE)
        for engine in PAPER_ENGINES[network]
    }
    paper = edges / _PAPER_GTEPS / 1e6
    slow = [f"{name} {time:.2g}" for name, time in took.items() if time > paper]
    text = (
        f"At this size 2.5 GTEPS are {paper:.2g} ms a search, of which messages alone take "
        f"{min(took.values()):.2g} at least."
    )
    return text + f" More than that: {', '.join(slow)} ms." * bool(slow)


def _graph_random(evidence: Evidence, finding: Finding) -> str:
    text = (
        "Vertices belong to ranks at random (v mod P), so every pair of ranks exchanges about as "
        "many edges, all to all; a placement only changes which messages meet at which moment."
    )
    if evidence.ranks_per_node > 1:
        text += (
            " In order, the eight ranks of a node send to the eight of another at once, and all "
            "nodes step on alike; at random these bursts are spread."
        )
    return text


def _ebb_comment(evidence: Evidence, finding: Finding) -> str:
    return (
        "The tree has 27 cables for 36 hosts above its leaves and 18 at the top; the KNS has 72 "
        "between routers and line switches, which hdor loads alike."
    )


def _ebb_same(evidence: Evidence, finding: Finding) -> str:
    ratios = {
        engine: evidence.ratio("ebb", (KNS, engine, EITHER), (TREE, engine, EITHER))
        for engine in ("updn", "lash", "dfsssp")
    }
    return (
        "With the same routing: "
        + ", ".join(f"{engine} {ratio.mean - 1:+.0%}" for engine, ratio in ratios.items())
        + ". updn with one root sends all that leaves a group of the tree over 6 of its 18 top "
        "cables, and with the three that OpenSM's search finds over all of them; on the KNS its "
        "paths meet near one root."
    )


def _ebb_hdor(evidence: Evidence, finding: Finding) -> str:
    over = [
        f"{other} {ratio.mean - 1:+.1%}"
        for other in ("lash", "dfsssp")
        for ratio in [evidence.ratio("ebb", (KNS, "hdor", EITHER), (KNS, other, EITHER))]
    ]
    return (
        f"hdor over {', '.join(over)}. hdor loads each cable with 30 of 1,260 pairs in whatever "
        "order the KNS is cabled; OpenSM's lash and dfsssp choose among shortest paths by the "
        "order of ports and addresses, and load some much more. Where the KNS is cabled in order "
        "lash takes hdor's paths, so that the two differ by lanes alone."
    )


def _ebb_tree(evidence: Evidence, finding: Finding) -> str:
    return (
        "ftree counts a shift of all ranks, with five hosts to a leaf of which four are there, and "
        "its busiest cable has more pairs than dfsssp's (table 2). Lanes add to that."
    )


def lane_gains(evidence: Evidence) -> dict[str, float]:
    """What lanes bring on the same paths: geometric mean over bandwidths and placements, less 1."""
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


def _gained(evidence: Evidence, hdor: bool) -> list[Comparison]:
    return [
        Comparison.of(f"{label}: gain", np.array([gain]), (evidence.better, math.inf))
        for label, gain in lane_gains(evidence).items()
        if ("hdor" in label) == hdor
    ]


def _gains(evidence: Evidence) -> str:
    return ", ".join(f"{label} {gain:+.1%}" for label, gain in lane_gains(evidence).items())


def _lanes_why(evidence: Evidence, finding: Finding) -> str:
    return (
        "The same tables with more lanes, over ring bandwidths, PTRANS, Graph500 and ebb: a packet "
        "no longer waits behind one that leaves by another port. Lanes divide what flows of one "
        "cable lose by others, not the cable itself."
    )


CLAIMS = (
    claim(
        "hpcg-level",
        "4.3.2, fig. 15",
        "HPCG reaches nearly 30 GFLOPS on both networks",
        "what our ranks reach lies within 10 % of it",
        lambda evidence: [
            level(
                f"hpcg, {network} {engine} {placement}, GFLOPS",
                evidence.get("hpcg", network, engine, placement),
                _PAPER_GFLOPS * (1 - SIMILAR),
                _PAPER_GFLOPS * (1 + SIMILAR),
                because="ranks are given the speed that makes this level",
            )
            for network in (KNS, TREE)
            for engine in PAPER_ENGINES[network]
            for placement in PLACEMENTS
        ],
        lambda evidence: evidence.both("hpcg", 4),
        _hpcg_level,
    ),
    claim(
        "hpcg-kns-random",
        "4.3.2, fig. 15a",
        "On the KNS HPCG is faster with ranks at random than in order",
        "random over linear above 1 with every routing",
        lambda evidence: [
            above(against_linear(evidence, "hpcg", KNS, engine), evidence.better)
            for engine in PAPER_ENGINES[KNS]
        ],
        lambda evidence: evidence.show("hpcg", KNS, 5),
        _hpcg_random,
    ),
    claim(
        "hpcg-hdor",
        "4.3.2, fig. 15a",
        "On the KNS hdor has the best HPCG at random",
        "hdor over each other above 1",
        lambda evidence: [
            above(
                evidence.ratio("hpcg", (KNS, "hdor", "random"), (KNS, other, "random")),
                evidence.better,
            )
            for other in PAPER_ENGINES[KNS]
            if other != "hdor"
        ],
        lambda evidence: evidence.show("hpcg", KNS, 5),
        _hpcg_random,
    ),
    claim(
        "graph500-level",
        "4.3.3, fig. 16",
        "In order Graph500 is close to 2.5 GTEPS on both networks",
        f"the network alone allows at least so much, less {SAME:.0%}",
        lambda evidence: [
            level(
                f"graph500, {network} {engine} linear, GTEPS",
                evidence.get("graph500", network, engine, "linear"),
                _PAPER_GTEPS * (1 - SAME),
                because="processors take no time here: the network allows more, and they set the "
                "level",
            )
            for network in (KNS, TREE)
            for engine in PAPER_ENGINES[network]
        ],
        lambda evidence: evidence.both("graph500"),
        _graph_comment,
    ),
    claim(
        "graph500-hdor",
        "4.3.3, fig. 16a",
        "Graph500 keeps its rate on the KNS with hdor at random",
        f"random over linear not below 1 by more than {SAME:.0%}",
        lambda evidence: [kept(against_linear(evidence, "graph500-paced", KNS, "hdor"))],
        lambda evidence: evidence.show("graph500-paced", KNS),
        _graph_random,
    ),
    claim(
        "graph500-random",
        "4.3.3, fig. 16",
        "Graph500 is a little slower at random everywhere else",
        "random over linear below 1, by however little, with all but hdor",
        lambda evidence: [
            below(against_linear(evidence, "graph500-paced", network, engine), NOTHING)
            for network in (KNS, TREE)
            for engine in PAPER_ENGINES[network]
            if engine != "hdor"
        ],
        lambda evidence: evidence.both("graph500-paced"),
        _graph_random,
    ),
    claim(
        "ebb-kns-tree",
        "4.3.4, fig. 17",
        "Effective bisection bandwidth is significantly higher on the KNS (with hdor)",
        f"hdor on the KNS over every routing of the tree at least {SAME:.0%} above 1",
        lambda evidence: [
            above(evidence.ratio("ebb", (KNS, "hdor", EITHER), (TREE, other, EITHER)), SAME)
            for other in PAPER_ENGINES[TREE]
        ],
        lambda evidence: evidence.both("ebb"),
        _ebb_comment,
    ),
    claim(
        "ebb-kns-tree-each",
        "4.3.4, fig. 17",
        "Effective bisection bandwidth is significantly higher on the KNS (with the same routing)",
        f"updn, lash and dfsssp on the KNS over themselves on the tree at least {SAME:.0%} "
        "above 1",
        lambda evidence: [
            above(evidence.ratio("ebb", (KNS, each, EITHER), (TREE, each, EITHER)), SAME)
            for each in ("updn", "lash", "dfsssp")
        ],
        lambda evidence: evidence.both("ebb"),
        _ebb_same,
    ),
    claim(
        "ebb-hdor",
        "4.3.4, fig. 17",
        "On the KNS hdor has the highest bisection bandwidth for both placements, notably above "
        "those with lanes",
        "hdor over each other above 1",
        lambda evidence: [
            above(
                evidence.ratio("ebb", (KNS, "hdor", EITHER), (KNS, other, EITHER)),
                evidence.better,
            )
            for other in PAPER_ENGINES[KNS]
            if other != "hdor"
        ],
        lambda evidence: evidence.show("ebb", KNS),
        _ebb_hdor,
    ),
    claim(
        "ebb-dfsssp-ftree",
        "4.3.4, fig. 17",
        "On the tree dfsssp has a better bisection bandwidth than ftree",
        "dfsssp over ftree above 1",
        lambda evidence: [
            above(
                evidence.ratio("ebb", (TREE, "dfsssp", EITHER), (TREE, "ftree", EITHER)),
                evidence.better,
            )
        ],
        lambda evidence: evidence.show("ebb", TREE),
        _ebb_tree,
    ),
    claim(
        "lanes",
        "4.3.1 4.3.2 4.4",
        "Virtual lanes help where flows interfere",
        "dfsssp on eight lanes faster than on those it needs, mean over five bandwidths",
        lambda evidence: _gained(evidence, hdor=False),
        _gains,
        _lanes_why,
    ),
    claim(
        "hdor-lanes",
        "4.4",
        "Lanes could improve hdor (left to future work)",
        "hdor on 2, 4 and 8 lanes faster than on one, mean over five bandwidths",
        lambda evidence: _gained(evidence, hdor=True),
        _gains,
        _lanes_why,
    ),
    claim(
        "adapters-latency",
        "4.3.1 4.4",
        "Adapters that route would lower the KNS's latency (there were none)",
        "every ping-pong latency and ring latency below that with switches",
        lambda evidence: [
            below(
                evidence.ratio(metric, (ADAPTERS, "hdor", placement), (KNS, "hdor", placement)),
                evidence.better,
            )
            for metric in (
                "pingpong-latency-min", "pingpong-latency-avg", "pingpong-latency-max",
                "natural-ring-latency", "random-ring-latency",
            )
            for placement in PLACEMENTS
        ],
        lambda evidence: "; ".join(
            f"{which}: switches "
            f"{shown(evidence.get(f'pingpong-latency-{which}', KNS, 'hdor', 'linear'))}, adapters "
            f"{shown(evidence.get(f'pingpong-latency-{which}', ADAPTERS, 'hdor', 'linear'))} us"
            for which in ("min", "avg", "max")
        ),
        lambda evidence, finding: (
            "Two switches and two cables less between hosts of a line, three and two less across; "
            "routing within the adapter is taken to cost no time."
        ),
    ),
)  # fmt: skip
