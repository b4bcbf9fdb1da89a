"""Result of `place_io`: candidates with figures, a table, and the reasons in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from weft.advice.io_nodes.candidates import ALL, Candidate
from weft.advice.io_nodes.loads import Direction, host_links
from weft.advice.io_nodes.settings import CLUSTERED, IoSettings
from weft.core.columns import Column, frame
from weft.core.html import html_table
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.hostlist import host_list

#: Columns of `IoPlacement.table`, one row per candidate.
CANDIDATE_COLUMNS: Mapping[str, Column] = {
    "placement": Column(pl.String, "", "Placements that put the I/O nodes on these hosts"),
    "compute_placement": Column(
        pl.String, "", "Placements that put the compute job on its hosts (all: there is no choice)"
    ),
    "io_nodes": Column(pl.String, "", "Hosts of the I/O nodes"),
    "write_gbps": Column(
        pl.Float64, "Gb/s", "Bandwidth of each client if all write at once (static level)"
    ),
    "read_gbps": Column(
        pl.Float64, "Gb/s", "Bandwidth of each client if all read at once (static level)"
    ),
    "bound_gbps": Column(
        pl.Float64,
        "Gb/s",
        "Bandwidth of each client, in the direction that counts, if only the cables of hosts were "
        "limited (null: hosts forward)",
    ),
    "limit": Column(
        pl.String, "", "A full link when all clients transfer at once, in that direction"
    ),
    **{
        f"{prefix}_{name}": Column(pl.Float64, unit, meaning.format(level=level))
        for prefix, level in (("flow", "flow level"), ("confirmed", "confirming level"))
        for name, unit, meaning in (
            ("io_alone_gbps", "Gb/s", "Bandwidth of the I/O job alone ({level}; null: not run)"),
            ("compute_alone_gbps", "Gb/s", "Bandwidth of the compute job alone ({level})"),
            ("io_gbps", "Gb/s", "Bandwidth of the I/O job beside the compute job ({level})"),
            ("compute_gbps", "Gb/s", "Bandwidth of the compute job beside the I/O job ({level})"),
            ("interference", "share", "Bandwidth that the compute job loses to I/O ({level})"),
        )
    },
}

_OTHER: Mapping[Direction, Direction] = {"write": "read", "read": "write"}
#: Difference of interference between levels that is explained.
WORTH_SAYING = 0.1


@dataclass(frozen=True, eq=False)
class IoPlacement:
    """Placements of I/O nodes and jobs, compared.

    Parameters
    ----------
    fabric, engine, settings
        What was asked, and the engine of the routes.
    candidates
        Candidates, best first.
    margin
        Relative difference of scores below which candidates are equal.
    refused
        Placement -> why it does not fit the fabric.
    notes
        Notes on the routes.
    """

    fabric: Fabric
    engine: str
    settings: IoSettings
    candidates: tuple[Candidate, ...]
    margin: float
    refused: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate:
        """The recommended candidate."""
        return self.candidates[0]

    @property
    def io_nodes(self) -> list[str]:
        """Names of the recommended hosts of the I/O nodes."""
        return self.best.hosts("io")

    @property
    def table(self) -> pl.DataFrame:
        """One row per candidate, best first; see `CANDIDATE_COLUMNS`."""
        data: dict[str, list[object]] = {name: [] for name in CANDIDATE_COLUMNS}
        for each in self.candidates:
            loads = each.loads
            limit = loads.limit(loads.worst)
            bound = loads.limit(loads.worst, cables_of_hosts=True).gbps
            row: dict[str, object] = {
                "placement": ", ".join(each.placements),
                "compute_placement": ", ".join(each.compute_placements),
                "io_nodes": host_list(each.hosts()),
                "write_gbps": loads.limit("write").gbps,
                "read_gbps": loads.limit("read").gbps,
                "bound_gbps": bound if np.isfinite(bound) else None,
                "limit": self.fabric.link_name(int(limit.links[0])),
            }
            for prefix, figures in (("flow", each.flow), ("confirmed", each.confirmed)):
                for name in ("io_alone", "compute_alone", "io", "compute"):
                    row[f"{prefix}_{name}_gbps"] = figures and getattr(figures, name)
                row[f"{prefix}_interference"] = figures and figures.interference
            for name, value in row.items():
                data[name].append(value)
        return frame(CANDIDATE_COLUMNS, data)

    def reasons(self) -> list[str]:
        """Return why the first candidate is recommended, in sentences with figures."""
        best = self.best
        lines = [
            f"Recommended: I/O nodes on {host_list(best.hosts())} (placement "
            f"{few(best.placements)}).",
        ]
        if best.compute_placements[0] != ALL:
            lines.append(
                f"Compute job on {host_list(best.hosts('compute'))} (placement "
                f"{few(best.compute_placements)}); I/O job on {host_list(best.hosts('clients'))}."
            )
        lines += [self._limit(best), *self._measured(best)]
        if equal := self.equals:
            lines.append(
                f"Equal within the {self.margin:.1%} by which repeated runs differ: "
                f"{few([each.name for each in equal])}. Of these, placements by a rule come before "
                "random ones and those of the search."
            )
        others = self.candidates[1:]
        for each in others[:1]:
            lines.append(f"Second: {each.name}. {self._limit(each)}{self._against(each)}")
        # Clustered I/O nodes are usual on real machines.
        if not any(CLUSTERED in each.placements for each in self.candidates[:2]):
            for each in [each for each in others if CLUSTERED in each.placements][:1]:
                lines.append(f"Clustered: {each.name}. {self._limit(each)}{self._against(each)}")
        return lines

    @property
    def equals(self) -> list[Candidate]:
        """Other candidates whose score does not differ from that of the best by the margin."""
        best = self.best
        group = [each for each in self.candidates[1:] if each.stage == best.stage]
        top = max([best.score, *(each.score for each in group)])
        return [each for each in group if each.score >= (1 - self.margin) * top]

    def _limit(self, each: Candidate) -> str:
        """Return what a client gets in the worst case, and which cables limit it."""
        loads = each.loads
        direction = loads.worst
        limit = loads.limit(direction)
        clients = len(loads.site.clients)
        verb: str = direction
        if direction == "mix":
            verb = f"transfer, {self.settings.writes:.0%} of it writes,"
        text = f"If all {clients:,} clients {verb} at once, each gets {gbps(limit.gbps)} Gb/s"
        other: Direction | None = _OTHER.get(direction)
        if other is not None:
            opposite = loads.limit(other).gbps
            same = abs(opposite - limit.gbps) < 0.005 * limit.gbps
            back = f"as much if they {other}" if same else f"{gbps(opposite)} if they {other}"
            text += f" ({back})"
        own = host_links(self.fabric)[limit.links]
        if own.any():
            ends = np.concatenate((self.fabric.link_from, self.fabric.link_to))
            count = self.fabric.num_links
            link = int(limit.links[own][0])
            nodes = loads.site.io + self.fabric.num_switches
            of_io = np.isin(ends[[link, count + link]], nodes).any()
            if of_io:
                text += (
                    f": the I/O nodes' own cables are full, such as {self.fabric.link_name(link)}"
                )
                # A client on an I/O node does not use that node, so the placement matters.
                if not np.isin(loads.site.io, loads.site.clients).any():
                    text += ", so no placement on hosts with such cables gives more"
                return f"{text}.{self._fullest(each, direction, limit.gbps)}"
            return f"{text}: the cable of a client is full, {self.fabric.link_name(link)}."
        names = few([self.fabric.link_name(int(link)) for link in limit.links])
        number = len(limit.links)
        text += f": {number:,} link{'s are' if number > 1 else ' is'} full, {names}"
        users = loads.crossing(int(limit.links[0]), direction)
        if users is not None:
            some, nodes_on = users
            text += (
                f"; {'the first' if number > 1 else 'it'} carries the data of {some:,} clients and "
                f"{nodes_on:,} I/O node{'s' * (nodes_on > 1)}"
            )
        bound = loads.limit(direction, cables_of_hosts=True).gbps
        if np.isinf(bound):  # hosts forward, and their cables are as others
            return f"{text}."
        return f"{text}. The cables of hosts would allow {gbps(bound)} Gb/s."

    def _fullest(self, each: Candidate, direction: Direction, rate: float) -> str:
        """Return the fullest link between switches when each client transfers at a rate."""
        load = each.loads.io(direction) * rate / self.fabric.link_rate_gbps
        load = np.where(host_links(self.fabric), 0.0, load)
        if not load.any():
            return ""
        link = int(np.argmax(load))
        return (
            f" The fullest link between switches, {self.fabric.link_name(link)}, is at "
            f"{load[link]:.0%} of its rate."
        )

    def _measured(self, each: Candidate) -> list[str]:
        """Return what both jobs get at the most detailed level that was run."""
        figures = each.figures
        if figures is None:
            return []
        level = self.settings.confirm if each.confirmed else "flow"
        lines = [
            f"At the {level} level the I/O job gets {gbps(figures.io_alone)} Gb/s alone and "
            f"{gbps(figures.io)} Gb/s beside the compute job, which gets {gbps(figures.compute)} "
            f"instead of {gbps(figures.compute_alone)} Gb/s: {_loss(figures.interference)}."
        ]
        if each.confirmed and each.flow:
            more = each.confirmed.interference - each.flow.interference
            if more >= WORTH_SAYING:
                lines.append(
                    f"At the flow level it loses {each.flow.interference:.0%}. The {level} level "
                    "has buffers, in which its packets can wait behind packets to busy I/O nodes."
                )
        return lines

    def _against(self, each: Candidate) -> str:
        """Return the figures of a candidate relative to the best, at a level that both have."""
        for level, one, other in (
            (self.settings.confirm, each.confirmed, self.best.confirmed),
            ("flow", each.flow, self.best.flow),
        ):
            if one is not None and other is not None:
                return (
                    f" At the {level} level I/O gets {one.io / other.io - 1:+.1%} and the compute "
                    f"job {one.compute / other.compute - 1:+.1%}, compared with the recommended "
                    f"hosts; {_loss(one.interference)}."
                )
        return ""

    def _repr_html_(self) -> str:
        title = f"I/O nodes on {self.fabric.name}; best: {self.best.name}"
        return html_table(title, self.table.columns, self.table.iter_rows())


def _loss(interference: float) -> str:
    if interference < 0.005:
        return "I/O costs the compute job nothing"
    return f"I/O costs the compute job {interference:.0%} of its bandwidth"


def gbps(value: float) -> str:
    """Return a rate with at least three digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
