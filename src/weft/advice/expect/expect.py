"""What measurements should give on a fabric, what bounds them, and what is slow if they do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from weft.advice.expect.bounds import RATES, RESOURCES, Bound, Bounds
from weft.advice.expect.programs import program_of
from weft.core.arguments import bytes_text
from weft.core.columns import Column, frame_of_rows
from weft.core.counts import count_text
from weft.core.errors import InputError, in_file
from weft.core.words import few
from weft.fabrics import Fabric
from weft.measured.measurements import Measurements
from weft.report.simulation_page import time_text
from weft.report.statistics import average
from weft.routing.routes import Routes
from weft.sim.simulate import simulate

#: Usual deviation that is as expected: what the 90th percentile of errors of the model may be.
TOLERANCE = 0.2
#: Sizes of nccl-tests below the first one whose expected rate is this share of the best one depend
#: on times of single steps. NCCL's own tables gave them up to half too short on measured machines
#: (docs/accuracy.md), so that they may deviate by this much.
_STEPS_SHARE, _STEPS_ERROR = 0.95, 1.0
#: Bytes on the bus by those of the operation, as nccl-tests count them: a factor of (n - 1) / n.
_BUS = {"allreduce": 2.0, "allgather": 1.0, "reduce-scatter": 1.0, "alltoall": 1.0}
#: Share of the time from which on a bound is nearly alone.
_PURE = 0.8

EXPECT_COLUMNS: Mapping[str, Column] = {
    "series": Column(pl.String, "", "Benchmark, operation, ranks and machines"),
    "size_bytes": Column(pl.Int64, "B", "Size, as the benchmark counts it"),
    "unit": Column(pl.String, "", "Unit of the measured and the expected value: ns or Gb/s"),
    "measured": Column(pl.Float64, "", "Measured value; of repeated logs the geometric mean"),
    "expected": Column(pl.Float64, "", "What the model gives"),
    "ratio": Column(pl.Float64, "", "Measured by expected time (bandwidths: expected by measured)"),
    "low": Column(pl.Float64, "", "Lower end of the ratio's interval (null: one sample)"),
    "high": Column(pl.Float64, "", "Upper end of the ratio's interval (null: one sample)"),
    "interval": Column(pl.String, "", "What the interval is; empty: one sample, or equal ones"),
    "tolerance": Column(pl.Float64, "", "Deviation of the ratio that is as expected"),
    "choice": Column(pl.String, "", "What the library chose: algorithm, protocol, channels"),
    "bound": Column(pl.String, "", f"What bounds the run: {', '.join(RESOURCES)}"),
    "which": Column(pl.String, "", "The busiest link, or the number of messages of a latency"),
    "bound_share": Column(pl.Float64, "", "Time that the bound alone takes, by that of the run"),
}  # fmt: skip
_SERIES = (
    "benchmark", "program", "operation", "ranks", "nodes", "pairs", "window", "in_place", "system",
    "from_machine", "to_machine",
)  # fmt: skip
_NO_OVERHEAD = (
    "expected values have no time of processors, which small messages take most: give --overhead, "
    "or --host-parameters of --fit"
)
Status = Literal["as expected", "slow", "fast", "mixed", "unclear"]


class Figure(NamedTuple):
    """A measured size of a series; see `EXPECT_COLUMNS`."""

    size_bytes: int
    measured: float
    expected: float
    ratio: float
    low: float | None
    high: float | None
    interval: str
    tolerance: float
    choice: str
    bound: Bound


@dataclass(frozen=True)
class SizeSeries:
    """Figures of one operation by size, and what they say."""

    name: str
    is_time: bool
    #: Bytes on the bus by size, for the bus bandwidth of nccl-tests; 0 of other benchmarks.
    bus: float
    figures: tuple[Figure, ...]
    status: Status
    #: The verdict in words, and the suspect; the latter is empty if all is as expected.
    verdict: str
    suspect: str

    def text(self) -> str:
        """Return verdict and suspect."""
        return f"{self.verdict} {self.suspect}".rstrip()

    def shown(self, value: float, size_bytes: float = 0) -> str:
        """Return a measured or expected value with its unit, and the bus bandwidth if any."""
        text = time_text(value) if self.is_time else f"{value:.4g} Gb/s"
        bus = self.bus * size_bytes / value
        return f"{text}, {bus:.4g} GB/s" if bus else text


@dataclass(frozen=True, eq=False)
class Expectation:
    """Measured values beside what a model of the fabric gives."""

    fabric: Fabric
    level: str
    tolerance: float
    series: tuple[SizeSeries, ...]
    #: Utilisation of each link in the run of the largest size of each series, float64 [links].
    loads: tuple[Any, ...]
    notes: tuple[str, ...]

    def table(self) -> pl.DataFrame:
        """Return one row for each series and size; see `EXPECT_COLUMNS`."""
        rows = [
            (each.name, at.size_bytes, "ns" if each.is_time else "Gb/s", *at[1:-1], *at.bound)
            for each in self.series
            for at in each.figures
        ]
        return frame_of_rows(EXPECT_COLUMNS, rows)

    def answer(self) -> str:
        """Return the verdict on all series in a sentence."""
        if len(self.series) == 1:
            return f"{self.series[0].name}: {self.series[0].text()}"
        count = Counter(each.status for each in self.series)
        said = ", ".join(f"{number} {status}" for status, number in count.most_common())
        return f"Of {len(self.series)} series, with {self.tolerance:.0%} of tolerance: {said}."

    def text(self) -> str:
        """Return the verdicts in words, and the notes."""
        said = [f"{each.name}: {each.text()}" for each in self.series if len(self.series) > 1]
        return "\n".join([*said, *(f"note: {each}" for each in self.notes), self.answer()])

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        verdicts = [
            {"series": each.name, "status": each.status, "verdict": each.verdict,
             "suspect": each.suspect} for each in self.series
        ]  # fmt: skip
        return {
            "fabric": self.fabric.name, "level": self.level, "tolerance": self.tolerance,
            "verdicts": verdicts, "sizes": self.table(), "notes": list(self.notes),
        }  # fmt: skip


def expect(
    fabric: Fabric,
    routes: Routes,
    measured: Measurements,
    *,
    level: Literal["flow", "packet"] = "flow",
    library: str = "",
    per_machine: int | None = None,
    tolerance: float = TOLERANCE,
    **options: Any,
) -> Expectation:
    """Compare measurements with what the model gives for the runs that were measured.

    Parameters
    ----------
    fabric, routes
        The fabric and its routes.
    measured
        The measurements.
    level
        Level of detail of the expected values. What bounds them is found at the flow level.
    library, per_machine
        MPI library, and ranks on each machine where logs do not say it; see `program_of`.
    tolerance
        Deviation that counts as expected.
    options
        Settings of runs, as for `weft.simulate`.

    Raises
    ------
    InputError
        If a log has other ranks or machines than the fabric, or a setting is wrong.
    """
    series, loads, one_sample = [], [], 0
    notes: dict[str, None] = {}
    flow_options = dict(options)
    if level != "flow":
        flow_options.pop("policy", None)
    bounds = Bounds(fabric, routes, flow_options)
    seen: dict[tuple[Any, ...], tuple[float, str, Bound, Any]] = {}
    for key, part in measured.frame.group_by(*_SERIES, maintain_order=True):
        figures = []
        for (size,), rows in part.sort("size_bytes").group_by("size_bytes", maintain_order=True):
            row = rows.row(0, named=True)
            which = (size, *(row[name] for name in _SERIES if name not in ("in_place", "system")))
            if which not in seen:
                with in_file(row["source"], row["line"]):
                    program = program_of(fabric, row, library, per_machine)
                if program.note:
                    notes[program.note] = None
                runs: Any = fabric, routes, program.workload, program.hosts
                flow = simulate(*runs, level="flow", **flow_options)
                result = flow if level == "flow" else simulate(*runs, level=level, **options)
                bound = bounds.of(program, flow)
                use = flow.links()["utilisation"].fill_null(0.0).to_numpy()
                choice = "; ".join(program.workload.notes)
                expected = program.figure(result) if result.makespan_ns else 0.0
                if not expected > 0:
                    where = {"file": row["source"], "line": row["line"]}
                    raise InputError("nothing is sent in this run; expected data of ranks", **where)
                seen[which] = expected, choice, bound, use
            expected, choice, bound, use = seen[which]
            figures.append(_figure(rows, expected, tolerance, choice, bound))
            one_sample += not figures[-1].interval
        is_time = part["time_ns"].null_count() == 0
        of, bus = dict(zip(_SERIES, key, strict=True)), 0.0
        if of["benchmark"] == "nccl-tests":
            figures = _with_error_of_steps(figures)
            bus = _BUS.get(of["operation"], 0.0) * (1 - 1 / (of["ranks"] or 1)) or 1.0
        elif not options.get("host_parameters") and not options.get("overhead_ns"):
            notes[_NO_OVERHEAD] = None
        series.append(
            SizeSeries(_name(of), is_time, bus, tuple(figures), *judged(figures, tolerance))
        )
        loads.append(use)
    if one_sample:
        sizes = count_text(one_sample, "size")
        notes[f"no interval of {sizes} with one sample, or equal ones; give more logs"] = None
    return Expectation(fabric, level, tolerance, tuple(series), tuple(loads), tuple(notes))


def _name(of: dict[str, Any]) -> str:
    words = [of["program"] or f"{of['operation']} ({of['benchmark']})"]
    if of["from_machine"]:
        words.append(f"{of['from_machine']} to {of['to_machine']}")
    elif of["ranks"]:
        words.append(count_text(of["ranks"], "rank"))
    if of["nodes"] and not of["from_machine"]:
        words.append(count_text(of["nodes"], "machine"))
    words += ["in place"] * bool(of["in_place"]) + [of["system"]] * bool(of["system"])
    return ", ".join(words)


def _with_error_of_steps(figures: Sequence[Figure]) -> list[Figure]:
    """Return sizes of nccl-tests, with the tolerance of those that depend on times of steps."""
    rates = [at.size_bytes / at.expected for at in figures]
    small = next(n for n, rate in enumerate(rates) if rate >= _STEPS_SHARE * max(rates))
    if len(rates) > 1 and rates[-2] < _STEPS_SHARE * rates[-1]:
        small = len(rates)  # the rate still rises at the largest size
    rough = [at._replace(tolerance=max(at.tolerance, _STEPS_ERROR)) for at in figures[:small]]
    return [*rough, *figures[small:]]


def _figure(
    rows: pl.DataFrame, expected: float, tolerance: float, choice: str, bound: Bound
) -> Figure:
    """Return the figure of a size from its rows, one for each run."""
    is_time = rows["time_ns"][0] is not None
    values = rows["time_ns" if is_time else "gbps"].to_numpy()
    measured, ends, text = float(values[0]), [rows["least"][0], rows["most"][0]], ""
    if len(values) > 1:
        mean = average(values[None, :])
        measured, ends = float(mean.mean[0]), [float(mean.low[0]), float(mean.high[0])]
        # Equal values, such as rounded ones, have no variation that an interval could be of.
        text = f"95 % of {len(values)} runs" if ends[0] > 0 else ""
    elif None not in ends:
        samples = rows["samples"][0]
        text = f"range of {samples} runs" if samples else "range within the run"
    known = [measured, *ends] if text else [measured]
    ratio, *interval = (value / expected if is_time else expected / value for value in known)
    low, high = sorted(interval) if interval else (None, None)
    size = int(rows["size_bytes"][0])
    return Figure(size, measured, expected, ratio, low, high, text, tolerance, choice, bound)


def judged(figures: Sequence[Figure], tolerance: float) -> tuple[Status, str, str]:
    """Return what a series says: its status, the verdict, and the suspect."""
    slow = [(at.low or at.ratio) > 1 + at.tolerance for at in figures]
    fast = [(at.high or at.ratio) < 1 / (1 + at.tolerance) for at in figures]
    count, middle = len(figures), float(np.median([at.ratio for at in figures]))
    as_it_is = f"median ratio {middle:.2f} of {count_text(count, 'size')}"
    if rough := [at for at in figures if at.tolerance > tolerance]:
        as_it_is += (
            f"; up to {bytes_text(rough[-1].size_bytes)} within a factor of "
            f"{1 + rough[-1].tolerance:g} only, the model's error where single steps count"
        )

    def sizes(chosen: Iterable[bool]) -> str:
        return few([bytes_text(at.size_bytes) for at in compress(figures, chosen)])

    if not any(slow) and not any(fast):
        if outside := sizes(
            not 1 / (1 + at.tolerance) <= at.ratio <= 1 + at.tolerance for at in figures
        ):
            verdict = f"cannot be told: outside {tolerance:.0%} at {outside}, intervals are not"
            return "unclear", f"{verdict}; {as_it_is}.", "Give logs of more runs."
        return "as expected", f"as expected within {tolerance:.0%}, {as_it_is}.", ""
    found: list[tuple[Status, str, str]] = []
    cases: tuple[tuple[list[bool], Status, str], ...]
    cases = (slow, "slow", "slower"), (fast, "fast", "faster")
    for bad, status, word in cases:
        good = [at for at, is_bad in enumerate(bad) if not is_bad]
        begin, end = (good[-1] + 1, good[0]) if good else (0, 0)
        for low, high in ((begin, count), (0, end)):
            if high - low < min(2, max(1, count - 2)):
                continue
            part = figures[low:high]
            where = f"from {bytes_text(part[0].size_bytes)} on" if low else "at all sizes"
            where = f"up to {bytes_text(part[-1].size_bytes)}" if high < count else where
            ratios = [at.ratio for at in part]
            verdict = f"{word} than expected {where}: ratio {min(ratios):.2f} to {max(ratios):.2f}"
            larger = [figures[at] for at in range(high, count) if not (slow[at] or fast[at])]
            found.append((status, verdict, _suspect(part, larger, tolerance)))
    if found:
        statuses, verdicts, suspects = zip(*found, strict=True)
        return statuses[0], f"{'; '.join(verdicts)}; {as_it_is}.", " ".join(suspects)
    verdict = f"outside {tolerance:.0%} only at {sizes(map(any, zip(slow, fast, strict=True)))}"
    suspect = "Suspect algorithm or protocol there, or disturbance by other jobs."
    return "mixed", f"{verdict}; {as_it_is}.", suspect


def _suspect(part: Sequence[Figure], larger: Sequence[Figure], tolerance: float) -> str:
    """Return a sentence about what deviates at some sizes, below larger ones that do not."""
    of = part[0] if larger else part[-1]
    bound, named = of.bound, of.bound.text()

    def bounded(figures: Sequence[Figure]) -> list[Figure]:
        """Return the sizes at which hardly anything but this resource takes time."""
        same = (at for at in figures if at.bound.resource == bound.resource)
        return [at for at in same if at.bound.share >= _PURE]

    pure = bounded(part)
    ratios = np.array([at.ratio for at in pure or part])
    # Of bandwidths, which are too small here, it is below 0.
    offset = np.array([at.measured - at.expected for at in pure or part])
    factor = float(np.exp(np.log(ratios).mean()))
    if factor < 1:
        return (
            f"Suspect parameters of the model, not the machine: what bounds these sizes ({named}) "
            f"is given as {1 / factor:.2f} times what it takes in fact."
        )
    constant, cleared = ratios.max() / ratios.min() <= 1 + tolerance, bool(bounded(larger))
    by = "by a constant factor" if len(ratios) > 1 else "if by a factor, which one size cannot show"
    if constant and pure and bound.resource in RATES and not cleared:
        return f"Suspect {named}: it gives {1 / factor:.0%} of its rate, {by}."
    if np.ptp(offset) <= tolerance * offset.min():
        more = time_text(float(np.median(offset)))
        return f"Suspect latency or overhead: sizes take {more} more than expected."
    if constant and not cleared:
        part_only = "" if pure else f", which is only {bound.share:.0%} of the time"
        return f"Suspect {named}{part_only}: sizes take {factor:.2f} times as long, {by}."
    why = "larger sizes, which it bounds too, are as expected" if cleared else "the ratio changes"
    return (
        f"It is not the speed of what bounds these sizes ({named}), as {why}: suspect another "
        "algorithm, protocol or number of channels, or disturbance by other jobs."
    )
