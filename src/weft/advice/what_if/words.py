"""What a scenario does, in sentences."""

from __future__ import annotations

from weft.advice.alternatives import IN_PLACE
from weft.advice.comparison import EngineOutcome, change_to
from weft.advice.what_if.evaluate import SWEEP, WhatIf
from weft.core.counts import count_text
from weft.core.words import few
from weft.fabrics.formats.hostlist import host_list
from weft.routing import engine


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
    if engine.parse(result.place.engine)[0].name == "file":
        lost, left = _figures(result, IN_PLACE)
        return f"If {title}: {lost}, {left}. OpenSM's engine file does not route anew."
    lost, left = _figures(result, IN_PLACE)
    if sweep is None or sweep.routes is None:
        why = sweep.refusal if sweep else "it was not computed"
        return f"If {title}: {lost}, {left}; OpenSM's next sweep is not known: {why}."
    text = f"If {title}: until OpenSM's next sweep {lost}"
    lost, left = _figures(result, SWEEP)
    return f"{text}; after it ({sweep.routes.engine}) {lost}, {left}."


def _figures(result: WhatIf, name: str) -> tuple[str, str]:
    """Return the pairs that tables lose, and their credit loops and bandwidth, in words."""
    rows = {(row["routes"], row["state"] == "now"): row for row in result.table.rows(named=True)}
    row, now = rows[name, False], rows[IN_PLACE, True]
    hosts = result.changed.after.num_hosts
    pairs, before = row["pairs_lost"], now["pairs_lost"]
    share = f"{pairs:,} of {hosts * (hosts - 1):,} host pairs ({pairs / (hosts * (hosts - 1)):.1%})"
    lost = f"{share} {'has' if pairs == 1 else 'have'} no path" if pairs else (
        "every pair that cables connect has a path"
    )  # fmt: skip
    if pairs and before:
        lost += f" ({before:,} have none now)"
    loops = count_text(row["deadlock"], "credit loop")
    if not row["deadlock"]:
        loops = "no credit loop" if not now["deadlock"] else "no credit loop any more"
    elif now["deadlock"]:
        loops += f" ({now['deadlock']:,} now)"
    else:
        loops += " APPEARS" if row["deadlock"] == 1 else " APPEAR"
    left = row["bandwidth_left"]
    if left is None:
        return lost, f"{loops}, and no bandwidth is known"
    return lost, f"{loops}, and {left:.0%} of the bisection bandwidth is left"


def _cut(result: WhatIf) -> list[str]:
    changed = result.changed
    names, adapters = changed.lost_machines, int(changed.lost_hosts.sum())
    if not adapters:
        return []
    if not names:
        text = f"{count_text(adapters, 'adapter')} lose their connection, but no machine does"
        return [f"{text}."]
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
    figures = result.table.filter(result.table["state"] != "now")
    safe = [
        row for row in figures.rows(named=True)
        if row["state"] == "other" and row["valid"] and row["entries_changed"] is not None
    ]  # fmt: skip
    if not safe:
        return ["No compared engine gives valid tables that avoid what is to be drained."]
    best = max(safe, key=lambda row: row["ebb"])
    options = " ".join(f"--fail-switch {name}" for name in switches)
    return [
        "No engine of OpenSM avoids a switch that is up. Tables computed without it do: weft "
        f"opensm export FABRIC {options} --engine {best['routes']} --out DIR. They change "
        f"{count_text(best['entries_changed'], 'entry')} and move "
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
    what = f"{gain.bandwidth:+.1%} bisection bandwidth and {gain.peak:,.4g} instead of " + (
        f"{gain.other_peak:,.4g} flows on the most loaded link under all-to-all"
    )
    change = change_to(result.changed.after, best)
    return [f"Clearly better after it: {best.name}, with {what}; {change}."]
