"""The answer of a comparison in words: the best engine and why, and what to set in OpenSM."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.core.words import few
from weft.fabrics import Fabric
from weft.opensm.files.osm_log import NEED_QOS
from weft.routes import TableRoutes
from weft.routing import engine
from weft.routing.engine_registry import never_deadlocks
from weft.routing.engines.updn import chosen_roots, roots_by_distance

if TYPE_CHECKING:
    from weft.advice.compare import Comparison, Outcome

#: Shares by which static tables must be better than what OpenSM computes itself to be worth what
#: they give up: in bisection bandwidth, or in the most loaded link under all-to-all. A leaf switch
#: with 20 uplinks loses the first with one cable, and static tables leave the pairs whose path used
#: it without any. The second is larger because it is about a single link and a single pattern.
GAIN = 0.05
PEAK_GAIN = 0.25


def best_and_why(result: Comparison) -> str:
    """Which engine is best and by what, in a few sentences."""
    best = result.best
    if best is None or best.bisection is None or best.validation is None:
        return "No engine gives valid routes on this fabric; the table of engines says why."
    share = best.bisection
    text = (
        f"Best engine: {best.name}. It routes every pair that cables connect without a credit "
        f"loop, and random bisections get {share.mean:.1%} of the injection rate "
        f"({share.mean_gbps:.1f} Gb/s a host)"
    )
    means = [(o, o.bisection.mean) for o in result.outcomes if o.serves and o.bisection]
    rivals = [(o, mean) for o, mean in means if o in result.candidates and o is not best]
    left = [o for o, mean in rivals if mean == share.mean]
    behind = [(o, mean) for o, mean in rivals if mean < share.mean]
    if left:
        text += f", as they do with {_few(left)}"
    elif behind:
        other, mean = behind[0]
        near = mean >= share.interval[0]
        text += f", more than with any other valid engine; next is {other.name} with {mean:.1%}" + (
            ", which lies within the 95 % interval" if near else ""
        )
    text += "."
    rows = {row["engine"]: row for row in result.table.rows(named=True)}
    measures: tuple[tuple[str, Callable[[Outcome], object]], ...] = (
        (
            "its busiest link under all-to-all carries less than with {}",
            lambda o: rows[o.name]["max load"],
        ),
        ("it is free of deadlock on any fabric, unlike {}", lambda o: never_deadlocks(o.name)),
        ("it needs fewer virtual lanes than {}", lambda o: rows[o.name]["lanes"]),
    )
    reasons = []
    for reason, key in measures:
        same = [o for o in left if key(o) == key(best)]
        if len(same) < len(left):
            reasons.append(reason.format(_few([o for o in left if o not in same])))
        left = same
    if reasons:
        text += f" It comes first because {'; '.join(reasons)}."
    if left:
        text += f" By these measures {_few(left)} {'are' if len(left) > 1 else 'is'} as good."
    return text + no_tables(result)


def no_tables(result: Comparison) -> str:
    """A sentence on a better engine that no subnet manager can load; nothing where none is."""
    best = result.best
    if best is None or best.bisection is None:
        return ""
    for outcome in result.outcomes:
        found = outcome.bisection
        if outcome.serves and found and found.mean > best.bisection.mean:
            lacks = "with lanes" if isinstance(outcome.routes, TableRoutes) else "by paths"
            return f" {outcome.name} gets {found.mean:.1%}, but {lacks} that OpenSM cannot load."
    return ""


def _few(outcomes: Sequence[Outcome], most: int = 3) -> str:
    """Names of a few engines, and how many more there are."""
    names = [outcome.name for outcome in outcomes]
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def recommendation(result: Comparison) -> list[str]:
    """What to set in OpenSM, and what that gives up; nothing where OpenSM cannot route."""
    fabric, best, theirs = result.fabric, result.best, result.best_of_opensm
    if best is None or fabric.graph.num_rows > fabric.num_switches:
        return []
    gain = "" if theirs is None else _gain(result, best, theirs)
    if theirs is not None and result.recommended is theirs:
        line = f"Recommended: {_own(fabric, theirs)}. It routes again when a cable or switch fails"
        if not never_deadlocks(theirs.name):
            line += "; that nothing can deadlock is proven for the fabric as it is, not for then"
        line += "."
        if best not in result.valid_of_opensm and best.carried:
            line += f" Static tables of weft's {best.name} would not, "
            line += (
                "and are no better by any figure."
                if best in result.equals(theirs, result.candidates)
                else f"for {gain}. They would be recommended from {GAIN:.0%} more bandwidth or a "
                f"{PEAK_GAIN:.0%} lower load of that link on."
            )
        return [line]
    if not best.carried:
        return []
    export = f"weft opensm export FABRIC --engine {shlex.quote(best.name)} --out DIR"
    lines = [f"Recommended: static tables of weft's {best.name}: {export}."]
    if theirs is not None:
        lines[0] += f" Over OpenSM's own {engine.parse(theirs.name)[0].name} they give {gain}."
    elif any(o.name == engine.parse(o.name)[0].facts.get("as_opensm") for o in result.outcomes):
        lines[0] += " No engine compared that OpenSM computes itself is valid."
    else:
        lines[0] += " No engine that OpenSM computes itself was compared."
    lines.append(
        "Given up: OpenSM keeps to static tables when a cable or switch fails. Pairs whose path "
        "went there have none until new tables are exported and loaded, and OpenSM still reports "
        "SUBNET UP."
    )
    if theirs is not None:
        lines.append(f"To keep that: {_own(fabric, theirs)}.")
    return lines


def _own(fabric: Fabric, outcome: Outcome) -> str:
    """How OpenSM is told to route with an engine of its own."""
    name = engine.parse(outcome.name)[0].name
    if name == "torus-2QoS":
        command = f"weft opensm export FABRIC --engine {shlex.quote(outcome.name)} --out DIR"
        return f"OpenSM's own {name}, with the configuration of {command}"
    settings, command, more = [f"routing_engine {name}"], f"opensm -R {name}", ""
    if name in NEED_QOS:
        settings.append("qos TRUE")
        command += " -Q"
    if name == "updn":
        rows = roots_taken(fabric, outcome)
        names = few([fabric.node_names[fabric.graph.row_node[row]] for row in rows])
        if np.array_equal(rows, roots_by_distance(fabric)):
            more = f", which finds the roots itself: {len(rows)}, {names}"
        else:
            settings.append("root_guid_file FILE")
            command += " -a FILE"
            more = (
                f", where FILE names {len(rows)} roots, {names}, as weft compare FABRIC --roots "
                "FILE writes them"
            )
    return f"OpenSM's own {name}: {', '.join(settings)} in opensm.conf ({command}){more}"


def roots_taken(fabric: Fabric, outcome: Outcome) -> NDArray[np.int32]:
    """Rows of the roots that an engine ``updn`` takes, ascending."""
    options = engine.bind(*engine.parse(outcome.name))
    named = {key: options[key] for key in ("roots", "root_guid_file") if key in options}
    return chosen_roots(fabric, **named)[0]


def _gain(result: Comparison, best: Outcome, over: Outcome) -> str:
    found = result.gain(best, over)
    text = f"{found.bandwidth:+.1%} bisection bandwidth"
    if not math.isnan(found.low):
        text += f" (95 % interval {found.low:+.1%} to {found.high:+.1%})"
    if found.peak == found.other_peak:
        return f"{text} and the same load of the most loaded link under all-to-all"
    return (
        f"{text} and {found.peak:,.4g} instead of {found.other_peak:,.4g} flows on the most loaded "
        "link under all-to-all"
    )
