"""The page of a watch: hot cables, what relieves them, and the fabric with its measured loads."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from weft.advice.comparison import fabric_facts
from weft.advice.watch.traffic import injection
from weft.advice.watch.watch import HotLink, Watch, interval_of
from weft.counters.rates import Rates
from weft.fabrics.formats.hostlist import host_list
from weft.report.comparison_data import EngineVerdict, Page, PageSection, PatternRun, Words

#: Largest number of intervals, and of changes, whose loads are on the page.
_INTERVALS, _CHANGES = 8, 3
#: Shorter intervals have fractions of seconds.
_LONG_S = 5.0
#: A longer list of machines, in characters, is folded.
_LONG = 300
_WORDS = Words(
    engine="State", pattern="Interval", amount="Traffic", unit="Gb/s", counted=False,
    load="share of the rate", load_text="A load of 1 is the rate of the link.",
)  # fmt: skip
#: Size of the drawing of a series, in pixels.
_WIDTH, _HEIGHT = 120, 24


def watch_page(found: Watch) -> Page:
    """Return the data of the page of a watch."""
    runs, states = _runs(found)
    reliefs = tuple(
        {**each.cells(), "fullest then": each.busiest, "machines": _breakable(each.machines)}
        for each in found.reliefs
    )
    sections = [
        PageSection(
            "Hottest cables between switches", tuple(_cable(found, each) for each in found.hot),
            "Shares of jobs: estimate and interval, of the traffic measured on the cable.",
        ),
        PageSection(
            "Cables of machines that are full or wait",
            tuple(
                {"job": each.job, "machines": each.num_machines, "what": each.what,
                 "names": _breakable(each.machines)}
                for each in found.hosts
            ),
        ),
        PageSection("What would relieve them", reliefs, found.answer()),
        PageSection(
            "Errors that grow", tuple(_texts(row) for row in found.growing.iter_rows(named=True)),
            "Those on the cables with the most traffic come first.",
        ),
        PageSection("Running jobs", _jobs(found)),
    ]  # fmt: skip
    unknown = int(np.isnan(found.rates.link_gbps).sum())
    notes = list(found.notes)
    if unknown:
        notes.append(f"Rates of {unknown:,} links are not known; the drawing has them as idle.")
    first = f"{found.hot[0].text()} " if found.hot else ""
    return Page(
        found.fabric, f"Traffic of {found.fabric.name}", fabric_facts(found.fabric), {},
        tuple(EngineVerdict(name, text, ok=True) for name, text in states.items()),
        {run.pattern: "" for run in runs}, runs, notes=tuple(notes),
        notes_title="What was left out", answer=first + found.answer(), best="measured",
        sections=tuple(each for each in sections if each.rows), words=_WORDS,
    )  # fmt: skip


def _runs(found: Watch) -> tuple[tuple[PatternRun, ...], dict[str, str]]:
    """Return the loads of all states, the last interval first, and the meaning of each state."""
    rate = found.fabric.link_rate_gbps
    series = found.series[::-1][:_INTERVALS]
    last = _interval(series[0])
    none = "The jobs on the hottest links are listed above."

    def run(state: str, interval: str, gbps: NDArray[np.float64]) -> PatternRun:
        gbps = np.nan_to_num(gbps)
        return PatternRun(state, interval, gbps, gbps / rate, no_users=none)

    runs = [run("measured", _interval(each), each.link_gbps) for each in series]
    runs += [
        PatternRun(
            "waiting", _interval(each), np.nan_to_num(each.link_gbps),
            np.nan_to_num(each.link_wait_share), no_users=none,
        )
        for each in series
    ]  # fmt: skip
    runs.append(run("predicted", last, found.predicted_gbps))
    runs.append(run("estimated", last, found.estimated_gbps))
    states = {
        "measured": "Measured share of the rate of each link.",
        "waiting": "Share of the time in which data waited and none was sent.",
        "predicted": "What the pattern or workload within the jobs would load.",
        "estimated": "What the rates of pairs that fit the measured ones best load.",
    }
    for each in [each for each in found.reliefs if each.loads is not None][:_CHANGES]:
        assert each.loads is not None
        state = f"after: {each.change.split(':')[0][:60]}"
        if state not in states:
            states[state] = each.change
            runs.append(run(state, last, each.loads))
    return tuple(runs), states


def _interval(rates: Rates) -> str:
    begin, end = interval_of(rates)
    # Readings of a simulation may be less than a second apart.
    clock = "%H:%M:%S" if (end - begin).total_seconds() >= _LONG_S else "%H:%M:%S.%f"
    return f"{begin:%Y-%m-%d} {begin.strftime(clock)} to {end.strftime(clock)}"


def _cable(found: Watch, each: HotLink) -> dict[str, Any]:
    row: dict[str, Any] = {
        **each.cells(), "jobs": "; ".join(each.shares()), "held up by": each.behind or None,
    }  # fmt: skip
    if len(found.series) > 1:
        rate = found.fabric.link_rate_gbps[each.link]
        row["over time"] = _drawn([float(of.link_gbps[each.link] / rate) for of in found.series])
    return row


def _drawn(shares: Sequence[float]) -> Markup:
    """Return a drawing of shares over time, without those that are not known."""
    step = _WIDTH / max(len(shares) - 1, 1)
    known = {at: min(share, 1.0) for at, share in enumerate(shares) if not isnan(share)}
    points = " ".join(f"{at * step:.1f},{_HEIGHT * (1 - y):.1f}" for at, y in known.items())
    values = ", ".join(f"{share:.0%}" for share in known.values())
    return Markup(
        '<svg width="{w}" height="{h}" viewBox="0 -2 {w} {tall}" role="img" aria-label="{values}">'
        '<title>{values}</title><polyline points="{points}" fill="none" stroke="currentColor" '
        'stroke-width="1.5"/></svg>'
    ).format(w=_WIDTH, h=_HEIGHT + 4, tall=_HEIGHT + 4, values=values, points=points)


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its values as texts."""
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool)
        else f"{value:.1f}" if isinstance(value, float) else value
        for name, value in row.items()
    }  # fmt: skip


def _breakable(hosts: str) -> Markup:
    """Return a host list that may be broken after its commas, folded if it is long."""
    text = Markup(",<wbr>").join(hosts.split(","))
    if len(hosts) <= _LONG:
        return text
    return Markup("<details><summary>names</summary>{}</details>").format(text)


def _jobs(found: Watch) -> tuple[dict[str, Any], ...]:
    sent = injection(found.fabric, found.rates.link_gbps)
    rows = []
    for name, hosts in found.jobs.items():
        machines = list(dict.fromkeys(found.fabric.machine_names[host] for host in hosts))
        known = sent[hosts][~np.isnan(sent[hosts])]
        rows.append(
            {"job": name, "machines": len(machines), "they send Gb/s": f"{known.sum():.1f}",
             "names": _breakable(host_list(machines))}
        )  # fmt: skip
    return tuple(rows)
