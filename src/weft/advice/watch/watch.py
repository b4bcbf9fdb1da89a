"""What the cables of a running fabric carry, whose traffic it is, and what would relieve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.advice.watch.attribution import NO_JOB, Attribution, attribute
from weft.advice.watch.growing import growing
from weft.advice.watch.relief import Relief, ReliefCase, reliefs
from weft.advice.watch.traffic import PairTraffic, expected_traffic, injection
from weft.core.columns import Column, frame
from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.core.words import few
from weft.counters.rates import Rates
from weft.fabrics import Fabric
from weft.fabrics.formats.hostlist import host_list
from weft.routing.routes import Routes
from weft.routing.validation.validate import Validation
from weft.sim.static.loads import host_flows, inner_links, link_users

#: What makes a cable hot.
By = Literal["utilisation", "waiting"]
#: A link at this share of its rate is full: headers and gaps take the rest.
FULL = 0.9
#: Share of the time that a link waits, from which that is worth a word.
WAITS = 0.05
#: Utilisation of a link between switches from which reliefs are sought.
BUSY = 0.5
#: Jobs that can have at most this share of a link are not listed.
LEAST = 0.005
#: Longest host list in a sentence, in characters.
_LONGEST = 40
#: Part of a measured rate from which the fit is said not to explain it.
_MISFIT = 0.1
#: An interval this much shorter than the one before is the tail of a series, and not judged.
_TAIL = 0.1
#: Largest number of pairs of hosts whose paths are followed to find the link behind.
_MOST_PAIRS = 2**20
#: Number of jobs for which other machines are sought.
_MOVED = 2

LINK_COLUMNS: Mapping[str, Column] = {
    "link": Column(pl.Int64, "", "Directed link (as in `Fabric.links`)"),
    "name": Column(pl.String, "", "Output port and input port of the link"),
    "rate_gbps": Column(pl.Float64, "Gb/s", "Rate of the link"),
    "measured_gbps": Column(pl.Float64, "Gb/s", "Data that the link carried (null: not known)"),
    "utilisation": Column(pl.Float64, "share", "measured_gbps over rate_gbps"),
    "wait_share": Column(
        pl.Float64, "share", "Share of the time in which data waited and none was sent"
    ),
    "predicted_gbps": Column(pl.Float64, "Gb/s", "Data by the pattern or workload"),
    "ratio": Column(pl.Float64, "", "measured_gbps over predicted_gbps (null: none predicted)"),
    "estimated_gbps": Column(pl.Float64, "Gb/s", "Data by the rates of pairs that fit best"),
}


@dataclass(frozen=True)
class JobShare:
    """Traffic of a job on a link, in Gb/s: estimate and interval."""

    job: str
    gbps: float
    low_gbps: float
    high_gbps: float
    #: Machines of the job that can send or receive on the link, as a host list, and their number.
    machines: str
    num_machines: int

    def text(self, measured_gbps: float) -> str:
        """Return the share of what the link carried, its interval, and the machines.

        Of a long list of machines, only their number is given.
        """
        share, low, high = (
            f"{gbps / measured_gbps if measured_gbps else 0:.0%}"
            for gbps in (self.gbps, self.low_gbps, self.high_gbps)
        )
        short = len(self.machines) <= _LONGEST
        where = self.machines if short else count_text(self.num_machines, "machine")
        return f"{self.job} {share} ({low} to {high}{f'; {where}' if where else ''})"


@dataclass(frozen=True)
class HotLink:
    """A link that carries much or waits long."""

    link: int
    name: str
    rate_gbps: float
    measured_gbps: float
    wait_share: float | None
    predicted_gbps: float
    #: Jobs with traffic on it, the largest first; what no job explains is the job ``no job``.
    jobs: tuple[JobShare, ...]
    #: Whose traffic is the most, or who cannot be told apart.
    verdict: str
    #: The fullest link on the paths after this one, if that is why it waits; else empty.
    behind: str = ""

    @property
    def utilisation(self) -> float:
        """Measured share of the rate."""
        return self.measured_gbps / self.rate_gbps

    def cells(self) -> dict[str, str]:
        """Return the link as texts, by heading."""
        ratio = self.measured_gbps / self.predicted_gbps if self.predicted_gbps > 0 else None
        return {
            "cable": self.name, "Gb/s": f"{self.measured_gbps:.1f}",
            "of rate": f"{self.utilisation:.0%}",
            "waits": "–" if self.wait_share is None else f"{self.wait_share:.0%}",
            "predicted": f"{self.predicted_gbps:.1f}",
            "ratio": "–" if ratio is None else f"{ratio:.2f}", "most of it": self.verdict,
        }  # fmt: skip

    def text(self) -> str:
        """Return the answer to: this cable waits; whose traffic is it?"""
        line = f"{self.name} carries {self.measured_gbps:.1f} of {self.rate_gbps:g} Gb/s"
        if self.wait_share is not None:
            line += f" and waits {self.wait_share:.0%} of the time"
        line += f" (predicted: {self.predicted_gbps:.1f} Gb/s)"
        if self.behind:
            line += f", held up by {self.behind}"
        shares = few(self.shares()) if self.jobs else "none can be on it"
        return f"{line}. Whose traffic: {self.verdict}. By job: {shares}."

    def shares(self) -> list[str]:
        """Return each job with its share of the traffic, the interval of that, and its machines."""
        return [each.text(self.measured_gbps) for each in self.jobs]


@dataclass(frozen=True)
class HostCables:
    """Machines of a job whose own cables are full, or wait, in one direction."""

    job: str
    sends: bool
    waits: bool
    num_machines: int
    #: Host list.
    machines: str
    #: Largest share of the rate, or of the time waiting, of these cables.
    share: float
    #: As in `HotLink`.
    behind: str = ""

    @property
    def what(self) -> str:
        """What the cables do, and why no more."""
        way = "sending" if self.sends else "receiving"
        if not self.waits:
            return f"{way} at up to {self.share:.0%} of the cable, which is the limit"
        held = f", held up by {self.behind}" if self.behind else ""
        return f"{way} waits up to {self.share:.0%} of the time{held}"

    def text(self) -> str:
        """Return the machines, if the list is short, and what their cables do."""
        names = f" ({self.machines})" if len(self.machines) <= _LONGEST else ""
        return f"{count_text(self.num_machines, 'machine')} of {self.job}{names}: {self.what}"


@dataclass(frozen=True, eq=False)
class Watch:
    """Result of `watch`."""

    fabric: Fabric
    #: Rates of each interval, the last of which is judged.
    series: tuple[Rates, ...]
    #: Links between switches.
    hot: tuple[HotLink, ...]
    #: Cables of hosts that are full or wait.
    hosts: tuple[HostCables, ...]
    #: What hosts are in which running job.
    jobs: Mapping[str, NDArray[np.int64]]
    #: float64 [links]: rates by the pattern or workload, and by the rates of pairs that fit best.
    predicted_gbps: NDArray[np.float64]
    estimated_gbps: NDArray[np.float64]
    reliefs: tuple[Relief, ...]
    #: Why nothing was searched for that relieves; empty if it was.
    no_relief: str
    #: Frame of `weft.advice.watch.growing.GROWING_COLUMNS`.
    growing: pl.DataFrame
    notes: tuple[str, ...]

    @property
    def rates(self) -> Rates:
        """Rates of the last interval."""
        return self.series[-1]

    @property
    def utilisation(self) -> NDArray[np.float64]:
        """float64 [links]: measured share of the rate of each link, NaN where not known."""
        return np.asarray(self.rates.link_gbps / self.fabric.link_rate_gbps)

    def table(self) -> pl.DataFrame:
        """Return a frame of `LINK_COLUMNS`, one row for each link."""
        fabric, measured = self.fabric, self.rates.link_gbps
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = measured / self.predicted_gbps
        data: dict[str, Any] = {
            "link": np.arange(fabric.num_links), "name": fabric.link_names.tolist(),
            "rate_gbps": fabric.link_rate_gbps, "measured_gbps": measured,
            "utilisation": self.utilisation, "wait_share": self.rates.link_wait_share,
            "predicted_gbps": self.predicted_gbps,
            "ratio": np.where(np.isfinite(ratio), ratio, np.nan),
            "estimated_gbps": self.estimated_gbps,
        }  # fmt: skip
        return frame(LINK_COLUMNS, data).fill_nan(None)

    def answer(self) -> str:
        """Return the cheapest change that relieves the hottest cable, or that there is none."""
        if self.no_relief:
            return f"Relief: {self.no_relief}."
        helping = [each for each in self.reliefs if each.helps]
        if not helping:
            tried = ", ".join(sorted({each.kind for each in self.reliefs})) or "nothing"
            return (
                "Relief: nothing that was computed relieves the hottest cable between switches "
                f"(tried: {tried})."
            )
        best = helping[0]
        return (
            f"Cheapest relief: {best.change}. The largest utilisation between switches falls from "
            f"{best.before:.0%} to {best.after:.0%} ({best.low:.0%} to {best.high:.0%} over "
            f"estimates of the traffic), for the traffic that was measured; {best.cost}"
            f"{f'; but {best.but}' if best.but else ''}."
        )

    def text(self) -> str:
        """Return the hot cables in words, growing errors, the relief and the notes."""
        lines = [each.text() for each in self.hot]
        lines = lines or ["No cable between switches carries data or waits."]
        lines[1:1] = [self.answer()]
        lines += [f"{each.text()}." for each in self.hosts]
        for row in self.growing.iter_rows(named=True):
            counts = ", ".join(
                f"{row[name]:,} {what}"
                for name, what in (
                    ("errors", "errors"), ("discards", "discards"), ("link_downs", "times down"),
                )
                if row[name]
            )  # fmt: skip
            carried = "" if row["gbps"] is None else f"; carries {row['gbps']:.1f} Gb/s"
            lost = "" if row["pairs"] is None else f"{row['pairs']:,} pairs lose their path, "
            then = (
                "other cables connect its ends" if row["detour"] else "no other cables lead there"
            )
            lines.append(f"errors grow: {row['cable']}: {counts}{carried}; if pulled, {lost}{then}")
        return "\n".join([*lines, *self.notes])

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return {
            "fabric": self.fabric.name,
            "begin": interval_of(self.rates)[0],
            "end": interval_of(self.rates)[1],
            "hot": [
                vars(each) | {"utilisation": each.utilisation, "jobs": [vars(j) for j in each.jobs]}
                for each in self.hot
            ],
            "hosts": [vars(each) for each in self.hosts],
            "jobs": {
                name: host_list(dict.fromkeys(self.fabric.machine_names[host] for host in hosts))
                for name, hosts in self.jobs.items()
            },
            "relief": [each.as_json() for each in self.reliefs],
            "no_relief": self.no_relief,
            "growing": self.growing,
            "notes": list(self.notes),
        }


def watch(
    series: Sequence[Rates],
    routes: Routes,
    checked: Validation,
    jobs: Mapping[str, NDArray[np.int64]],
    *,
    pattern: str = "all-to-all",
    workload: str = "",
    top: int = 10,
    by: By | None = None,
    engine: str = "",
    relief: bool = True,
    notes: Sequence[str] = (),
) -> Watch:
    """Say of the hottest cables whose traffic they carry, and what would relieve them.

    Parameters
    ----------
    series
        Rates of successive intervals; the last is judged.
    routes, checked
        The present routes, and what the validator says of them.
    jobs
        Name of each running job, and its hosts. Without jobs, all hosts are one.
    pattern, workload
        What each job exchanges for the prediction; see `expected_traffic`.
    top, by
        Number of hot cables between switches, by ``utilisation`` or ``waiting``. Default: by the
        larger share.
    engine
        Engine of OpenSM that computed the routes; empty if not known.
    relief
        Whether reliefs are computed, which takes the most time.
    notes
        What readers left out, in words.

    Raises
    ------
    InputError
        If there are no rates, or names of jobs, the pattern or the workload are wrong.
    NotApplicable
        If the routes do not fix the paths; see `attribute`.
    """
    if not series:
        raise InputError("rates need two readings of the same ports")
    series, tail = _without_tail(series)
    rates = series[-1]
    fabric = rates.fabric
    measured, waits = rates.link_gbps, rates.link_wait_share
    hot = _hottest(rates, top, by)
    groups = jobs or {"all hosts": np.flatnonzero(fabric.host_endpoint >= 0).astype(np.int64)}
    told = attribute(rates, routes, groups, hot)
    fitted = told.pair_traffic
    expected, left = expected_traffic(
        fabric, groups, injection(fabric, measured), pattern=pattern, workload=workload
    )
    predicted = expected.loads(fabric, routes).per_link
    use = measured / fabric.link_rate_gbps
    waiting = hot[waits[hot] > WAITS]
    behind = dict(
        zip(waiting, _behind(fabric, routes, fitted, list(waiting[:, None]), use), strict=True)
    )
    found = tuple(
        HotLink(
            int(link), fabric.link_name(int(link)), float(fabric.link_rate_gbps[link]),
            float(measured[link]), None if np.isnan(waits[link]) else float(waits[link]),
            float(predicted[link]), _shares(fabric, told, at), str(told.verdicts[at]),
            behind.get(link, ""),
        )
        for at, link in enumerate(hot)
    )  # fmt: skip
    estimated = fitted.loads(fabric, routes).per_link
    said = [*notes, *tail, *(f"The prediction leaves out {each}." for each in left)]
    said += _misfits(fabric, hot, measured, estimated)
    changes: list[Relief] = []
    no_relief = ""
    if not relief:
        no_relief = "not computed"
    elif not any(each.utilisation >= BUSY or (each.wait_share or 0) > WAITS for each in found):
        no_relief = (
            f"none is needed: no cable between switches is at {BUSY:.0%} of its rate or waits more "
            f"than {WAITS:.0%} of the time"
        )
    else:
        target = int(hot[np.argmax(use[hot])])
        case = ReliefCase(fabric, routes, checked, (fitted, expected), measured, engine)
        at = int(np.flatnonzero(hot == target)[0])
        culprits = [each.job for each in found[at].jobs if each.job in jobs and each.gbps > 0]
        changes, unjudged = reliefs(case, jobs, culprits[:_MOVED])
        said += unjudged
    return Watch(
        fabric, tuple(series), found, _hosts(rates, routes, fitted, jobs), dict(jobs), predicted,
        estimated, tuple(changes), no_relief,
        growing(fabric, series, routes), tuple(said),
    )  # fmt: skip


def _without_tail(series: Sequence[Rates]) -> tuple[Sequence[Rates], list[str]]:
    """Return the series without a last interval that is much shorter than the one before."""
    if len(series) < 2:
        return series, []
    before, last = (end - begin for begin, end in map(interval_of, series[-2:]))
    if last >= _TAIL * before:
        return series, []
    return series[:-1], [
        f"The last interval lasts {last.total_seconds():g} s, the one before "
        f"{before.total_seconds():g} s, which is judged instead."
    ]


def _misfits(
    fabric: Fabric, hot: NDArray[np.int64], measured: NDArray[np.float64],
    estimated: NDArray[np.float64],
) -> list[str]:  # fmt: skip
    """Return a sentence if the rates of pairs that fit best do not give the measured rates."""
    off = np.abs(estimated - measured)[hot]
    wrong = np.flatnonzero(off > _MISFIT * measured[hot])
    if not len(wrong):
        return []
    link = int(hot[wrong[np.argmax(off[wrong])]])
    return [
        "The tables and jobs do not explain the counters of "
        f"{count_text(len(wrong), 'hot cable')}: {fabric.link_name(link)} would carry "
        f"{estimated[link]:.1f} Gb/s, not {measured[link]:.1f}. Do not trust their shares; check "
        "that tables, list of jobs and readings are of the same time."
    ]


def interval_of(rates: Rates) -> tuple[datetime, datetime]:
    """Return the times of the first and of the second reading."""
    begin, end = rates.frame["begin"].min(), rates.frame["end"].max()
    assert isinstance(begin, datetime)
    assert isinstance(end, datetime)
    return begin, end


def _hottest(rates: Rates, top: int, by: By | None) -> NDArray[np.int64]:
    """Return the links between switches with the largest known utilisation or wait."""
    use = rates.link_gbps / rates.fabric.link_rate_gbps
    waits = np.nan_to_num(rates.link_wait_share)
    larger = np.maximum(use, waits)
    heat = larger if by is None else waits if by == "waiting" else use
    known = np.flatnonzero((larger > 0) & inner_links(rates.fabric))
    return known[np.lexsort((known, -larger[known], -heat[known]))[:top]].astype(np.int64)


def _shares(fabric: Fabric, told: Attribution, at: int) -> tuple[JobShare, ...]:
    rows = []
    for job, name in enumerate(told.names):
        if told.high_gbps[at, job] < LEAST * told.measured_gbps[at]:
            continue
        hosts = told.hosts[at][job] if name != NO_JOB else ()
        machines = dict.fromkeys(fabric.machine_names[host] for host in hosts)
        gbps, low, high = (
            float(each[at, job]) for each in (told.explained_gbps, told.low_gbps, told.high_gbps)
        )
        rows.append(JobShare(name, gbps, low, high, host_list(machines), len(machines)))
    return tuple(sorted(rows, key=lambda each: (-each.gbps, -each.high_gbps)))


def _hosts(
    rates: Rates, routes: Routes, fitted: PairTraffic, jobs: Mapping[str, NDArray[np.int64]]
) -> tuple[HostCables, ...]:
    """Return the cables of hosts that are full or wait, by job and direction."""
    fabric, switches = rates.fabric, rates.fabric.num_switches
    use, waits = rates.link_gbps / fabric.link_rate_gbps, rates.link_wait_share
    machine = fabric.machine_of_host
    some = np.concatenate([*jobs.values(), np.zeros(0, dtype=np.int64)])
    groups = {**jobs, NO_JOB: np.setdiff1d(np.arange(fabric.num_hosts), some)}
    rows, links = [], []
    for sends, ends in ((True, fabric.link_from), (False, fabric.link_to)):
        for waiting, shares, least in ((False, use, FULL), (True, waits, WAITS)):
            hot = np.flatnonzero((shares >= least) & ~inner_links(fabric) & (ends >= switches))
            for job, members in groups.items():
                mine = hot[np.isin(ends[hot] - switches, members)]
                if not len(mine):
                    continue
                hosts = ends[mine] - switches
                names = host_list(dict.fromkeys(fabric.machine_names[host] for host in hosts))
                count = len(np.unique(machine[hosts]))
                share = float(shares[mine].max())
                rows.append(HostCables(job, sends, waiting, count, names, share))
                links.append(mine if waiting else mine[:0])
    behind = _behind(fabric, routes, fitted, links, use)
    return tuple(replace(row, behind=name) for row, name in zip(rows, behind, strict=True))


def _behind(
    fabric: Fabric, routes: Routes, fitted: PairTraffic, sets: Sequence[NDArray[np.int64]],
    utilisation: NDArray[np.float64],
) -> list[str]:  # fmt: skip
    """Return the fullest link after each set of links, on the paths of its traffic, if fuller."""
    named = [""] * len(sets)
    if not routes.settled or len(fitted.gbps) > _MOST_PAIRS:
        return named
    flows = host_flows(fabric, fitted.sources, fitted.destinations, lmc=routes.lmc)
    every = np.unique(np.concatenate([*sets, np.zeros(0, dtype=np.int64)]))
    users = dict(zip(every.tolist(), link_users(fabric, routes, flows, every), strict=True))
    for number, links in enumerate(sets):
        if not len(links):
            continue
        part = flows.part(np.unique(np.concatenate([users[link] for link in links.tolist()])))
        offset, path = routes.links(fabric, part)
        flow = np.repeat(np.arange(len(offset) - 1), np.diff(offset))
        place = np.full(len(offset), -1)
        here = np.isin(path, links)
        place[flow[here]] = np.flatnonzero(here)
        after = path[np.arange(len(path)) > place[flow]]
        use = np.nan_to_num(utilisation[after])
        if use.max(initial=0) >= max(FULL, np.nanmax(utilisation[links])):
            fullest = int(after[np.argmax(use)])
            named[number] = f"{fabric.link_name(fullest)}, which is at {use.max():.0%} of its rate"
    return named
