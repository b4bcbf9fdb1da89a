"""What a scenario does, in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from weft.advice.alternatives import IN_PLACE
from weft.advice.comparison import EngineOutcome, cell_text, change_to
from weft.advice.what_if.evaluate import SWEEP, WhatIf
from weft.advice.what_if.singles import PAIRS, WORST, Singles
from weft.core.counts import count_text
from weft.core.words import few
from weft.fabrics.formats.hostlist import host_list
from weft.routing import engine

_WHOLE = "every pair that cables connect has a path"


def sentences(result: WhatIf) -> list[str]:
    """Return what a scenario does: the answer, who is cut off, and what would be better."""
    return [answer(result), *_cut(result), *_drain(result), *_sweep_notes(result), *_better(result)]


def answer(result: WhatIf) -> str:
    """Return what happens until OpenSM's next sweep, and after it."""
    changed, sweep = result.changed, result.outcome(SWEEP)
    title = changed.title
    if changed.drained.labels and not (changed.failed.labels or changed.scenario.add):
        title = title.replace(" is drained", " is pulled without draining").replace(
            " are drained", " are pulled without draining"
        )
    lost, left = _figures(result, IN_PLACE)
    if engine.parse(result.place.engine)[0].name == "file":
        return f"If {title}: {lost}, {left}. OpenSM's engine file does not route anew."
    if sweep is None or sweep.routes is None:
        why = sweep.refusal if sweep else "it was not computed"
        return f"If {title}: {lost}, {left}; OpenSM's next sweep is not known: {why}."
    after, left = _figures(result, SWEEP)
    name = sweep.routes.engine
    if lost == after == _WHOLE:
        return f"If {title}: {_WHOLE}; after OpenSM's next sweep ({name}) {left}."
    return f"If {title}: until OpenSM's next sweep {lost}; after it ({name}) {after}, {left}."


def _figures(result: WhatIf, name: str) -> tuple[str, str]:
    """Return the pairs that tables lose, and their credit loops and bandwidth, in words."""
    rows = {(row["routes"], row["state"] == "now"): row for row in result.table.rows(named=True)}
    row, now = rows[name, False], rows[IN_PLACE, True]
    hosts = result.changed.after.num_hosts
    pairs, before = row["pairs_lost"], now["pairs_lost"]
    share = f"{pairs:,} of {hosts * (hosts - 1):,} host pairs ({pairs / (hosts * (hosts - 1)):.1%})"
    lost = f"{share} {'has' if pairs == 1 else 'have'} no path" if pairs else _WHOLE
    if pairs and before:
        lost += f" ({before:,} have none now)"
    loops = count_text(row["deadlock"], "credit loop")
    if not row["deadlock"]:
        loops = "no credit loop" if not now["deadlock"] else "no credit loop any more"
    elif now["deadlock"]:
        loops += f" ({now['deadlock']:,} now)"
    else:
        loops += " APPEARS" if row["deadlock"] == 1 else " APPEAR"
    if row["deadlock"] and name == IN_PLACE and not result.place.checked.levels_known:
        loops += " if all packets share one lane (their service levels are not known)"
    return lost, f"{loops}{_left(row['bandwidth_left'])}"


def _left(share: float | None) -> str:
    """Return what is left of the bisection bandwidth, to follow a list."""
    if share is None:
        return ", and no bisection bandwidth is known"
    if share > 1:
        return f", and the bisection bandwidth becomes {share:.0%} of that before"
    return f", and {share:.0%} of the bisection bandwidth is left"


def _cut(result: WhatIf) -> list[str]:
    changed = result.changed
    names, adapters = changed.lost_machines, int(changed.lost_hosts.sum())
    if not adapters:
        return []
    if not names:
        verb = "loses its" if adapters == 1 else "lose their"
        return [f"{count_text(adapters, 'adapter')} {verb} connection, but no machine does."]
    listed = host_list(names) if len(names) <= 40 else few(names)
    verb = "is" if len(names) == 1 else "are"
    return [
        f"{count_text(len(names), 'machine')} {verb} cut off, whatever the routes: {listed}. Their "
        "pairs are not counted as lost paths; in the bisections their rate is 0."
    ]


def _drain(result: WhatIf) -> list[str]:
    """Return how to empty a switch before it is pulled."""
    changed = result.changed
    switches = [changed.grown.option_name(int(node)) for node in changed.drained.switches]
    if not switches:
        return []
    rows = result.table.rows(named=True)
    if not any(row["pairs_lost"] for row in rows if row["state"] == "unchanged"):
        return ["No path between other hosts crosses what is to be drained: pull it as it is."]
    safe = [
        row for row in rows
        if row["state"] == "other" and row["valid"] and row["entries_changed"] is not None
    ]  # fmt: skip
    if not safe:
        return ["No compared engine gives valid tables that avoid what is to be drained."]
    best = max(safe, key=lambda row: row["ebb"])
    options = " ".join(f"--fail-switch {shlex.quote(name)}" for name in switches)
    return [
        "No engine of OpenSM avoids a switch that is up. Tables computed without it do: weft "
        f"opensm export FABRIC {options} --engine {shlex.quote(best['routes'])} --out DIR. They "
        f"change {count_text(best['entries_changed'], 'entry')} and move "
        f"{count_text(best['pairs_moved'], 'host pair')}; then pulling it loses no path. Without "
        "such tables, disable its ports (ibportstate), which OpenSM answers as a failure."
    ]


def _sweep_notes(result: WhatIf) -> list[str]:
    """Return what is to be known of OpenSM's tables, a fallback above all."""
    sweep = result.outcome(SWEEP)
    tables = [result.place.routes, *([sweep.routes] if sweep and sweep.routes else [])]
    fallbacks = dict.fromkeys(reason for each in tables for _, reason in each.refusals)
    notes = sweep.routes.notes if sweep and sweep.routes else ()
    return [*(f"ATTENTION: {reason}." for reason in fallbacks), *(f"Note: {n}." for n in notes)]


def _better(result: WhatIf) -> list[str]:
    """Return the engine that would be clearly better than OpenSM's sweep, if there is one."""
    sweep = result.outcome(SWEEP)
    if sweep is None or sweep.bisection is None:
        return []
    better = [
        each for each in result.after.outcomes
        if each.name not in (SWEEP, IN_PLACE) and each.serves and each.opensm_use
        and (not sweep.serves or result.after.gain(each, sweep).significant)
        and not result.after.gain(sweep, each).significant
    ]  # fmt: skip
    if not better:
        return []
    best: EngineOutcome = better[0]
    gain = result.after.gain(best, sweep)
    peaks = (cell_text("max_load", peak) for peak in (gain.peak, gain.other_peak))
    what = f"{gain.bandwidth:+.1%} bisection bandwidth and {' instead of '.join(peaks)} flows on "
    what += "the most loaded link between switches under all-to-all"
    if not sweep.serves:
        what += ", and valid where OpenSM's next sweep is not"
    change = change_to(result.changed.after, best)
    return [f"Clearly better after it: {best.name}, with {what}; {change}."]


def kinds_text(result: Singles) -> str:
    """Return what fails in turn: ``switch``, ``cable``, or ``switch or cable``."""
    both = PAIRS in result.kinds
    kinds = [kind for kind in ("switch", "cable") if both or f"each-{kind}" in result.kinds]
    return " or ".join(kinds)


def singles_sentences(result: Singles) -> list[str]:
    """Return which failures are worst, how many do harm of each kind, and what was left out."""
    rows = result.table.rows(named=True)
    cut = [row for row in rows if row["hosts_cut"]]
    lines = [f"Of {count_text(len(rows), 'failure')} of a single {kinds_text(result)}, "]
    if cut:
        worst = cut[0]
        lines[0] += f"{len(cut):,} cut hosts off, at worst {worst['failed']}: "
        machines, hosts = worst["machines_cut"], worst["hosts_cut"]
        lines[0] += count_text(machines, "machine") if machines else count_text(hosts, "adapter")
        lines[0] += "."
    else:
        lines[0] += "none cuts a host off."
    whole = [row for row in rows if not row["hosts_cut"]]
    if whole:
        lines.append(f"Of those that cut off none, {_worst(whole[0], len(whole))}")
    lines += [
        text
        for name, what in (
            ("pairs_lost", "leave pairs without a path after OpenSM's next sweep"),
            ("deadlock", "have a credit loop after OpenSM's next sweep"),
            ("pairs_lost_until", "leave pairs without a path until OpenSM's next sweep"),
            ("deadlock_until", "have a credit loop until OpenSM's next sweep"),
        )
        for text in _counted(rows, name, what)
    ]
    if unknown := [row for row in rows if row["refusal"]]:
        lines.append(
            f"Not known: what OpenSM does after {_failures(unknown)}: {unknown[0]['refusal']}."
        )
    fallen = [row for row in rows if row["routed_by"] not in (None, result.engine)]
    if fallen and result.engine != "file":
        lines.append(
            f"OpenSM's {result.engine} fails after {_failures(fallen)}; OpenSM falls back to "
            f"{fallen[0]['routed_by']}."
        )
    now = result.now["demand_load"]
    loaded = [row for row in whole if row["demand_load"] is not None]
    if now is not None and loaded:
        row = max(loaded, key=lambda row: row["demand_load"])
        lines.append(
            "If each host of the running jobs sent at its full rate, the most loaded link between "
            f"switches would have to carry {now:.2f} times its own rate now, and after OpenSM's "
            f"next sweep at most {row['demand_load']:.2f} (if {row['failed']} fails)."
        )
    if helped := _helped(result):
        lines.append(helped)
    pairs = result.pairs
    if pairs is not None and len(pairs.table):
        row = pairs.table.row(0, named=True)
        lines.append(
            f"The worst pair found is {row['failed']}: it cuts off "
            f"{count_text(row['machines_cut'], 'machine')}, and "
            + (
                f"what OpenSM does is not known ({row['refusal']})."
                if row["refusal"]
                else f"{count_text(row['unrouted'], 'host pair')} have no path, those of machines "
                f"cut off included. {pairs.text()}"
            )
        )
    tried = f" after failures beyond the {min(WORST, len(whole)):,} worst that cut off none"
    lines.append(
        f"Not computed: other engines{tried if whole else ''}"
        f"{', and two failures at a time' if pairs is None else ''}."
    )
    return lines


def _worst(row: Mapping[str, Any], among: int) -> str:
    loop = "a credit loop" if row["deadlock"] else "no credit loop"
    text = f"the worst is {row['failed']}: " if among > 1 else f"there is {row['failed']}: "
    if row["refusal"]:
        return f"{text}what OpenSM does is not known ({row['refusal']})."
    if row["pairs_lost_until"]:
        text += f"until OpenSM's next sweep {_pairs(row['pairs_lost_until'])}; after it "
    text += _pairs(row["pairs_lost"]) if row["pairs_lost"] else "every pair has a path"
    return f"{text}, {loop}{_left(row['bandwidth_left'])}."


def _pairs(number: int) -> str:
    return f"{count_text(number, 'host pair')} {'has' if number == 1 else 'have'} no path"


def _failures(rows: Sequence[Mapping[str, Any]]) -> str:
    names = few([row["failed"] for row in rows])
    return f"{count_text(len(rows), 'failure')} ({names})"


def _counted(rows: Sequence[Mapping[str, Any]], name: str, what: str) -> list[str]:
    found = [row for row in rows if row[name]]
    if not found:
        return []
    which = f"all {len(rows):,} failures" if len(found) == len(rows) > 1 else _failures(found)
    return [f"{which[0].upper()}{which[1:]} {what}."]


def _helped(result: Singles) -> str:
    """Return the engines that cure what OpenSM's sweep leaves of the worst failures."""
    sweeps = {row["failed"]: row for row in result.table.rows(named=True)}
    cured = []
    for row in result.engines.rows(named=True):
        theirs = sweeps[row["failed"]]
        bad = theirs["pairs_lost"] or theirs["deadlock"]
        if bad and row["refusal"] is None and not row["pairs_lost"] and not row["deadlock"]:
            cured.append(f"{row['engine']} after {row['failed']}")
    return f"Valid where OpenSM's sweep is not: {few(cured)}." if cured else ""
