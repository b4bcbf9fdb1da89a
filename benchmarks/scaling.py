"""Time and memory against size: of each level, of each engine and of commands, for docs/scaling.md.

Each point is measured in a process of its own, from 64 hosts up to what `--budget-s` allows, on the
fat trees XGFT(3; k,k,k; 1,k,k) with k^3 hosts. `--only forecast` fits the costs of
`weft.sim.forecast` and tests them on other runs.

    python -m benchmarks.scaling --only levels,engines,forecast --budget-s 20
    python -m benchmarks.scaling --only commands --budget-s 30
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import weft
from benchmarks import _forecast
from weft.core.arguments import bytes_text
from weft.core.pool import measured
from weft.core.words import clock_text
from weft.routing import engine as engines
from weft.sim.forecast import costs, seconds_of, wait_ns
from weft.study.experiment.toml_file import toml_tables
from weft.workload import load_rolled, load_workload
from weft_papers.figure_frame import legend_below, with_panels

ROOT = Path(__file__).parents[1]
OUT, COSTS = ROOT / "docs" / "scaling", ROOT / "src" / "weft" / "sim" / "costs.toml"
#: Hosts of the trees are cubes of these.
SIDES = (4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 36, 46, 58, 74, 100)
#: Limits of memory and of time, to which the tables extrapolate.
LIMIT_GB, LIMIT_S = 24, 3600
#: Name -> level, workload and options.
LEVELS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "static, all-to-all": ("static", "alltoall-pairwise:size=4KiB", {}),
    "flow, all-to-all": ("flow", "alltoall-pairwise:size=64KiB", {}),
    "flow, ring all-reduce": ("flow", "allreduce-ring:size=64MiB", {}),
    "flow, ring of n KiB, rounds once": ("flow", "allreduce-ring:size={n}KiB,rolled", {}),
    "packet, all-to-all": ("packet", "alltoall-pairwise:size=4KiB", {"threads": 1}),
    "packet, all-to-all, 2 threads": ("packet", "alltoall-pairwise:size=4KiB", {"threads": 2}),
    "packet, ring all-reduce": ("packet", "allreduce-ring:size=16MiB", {"threads": 1}),
    "packet, ring of n KiB, rounds once": (
        "packet", "allreduce-ring:size={n}KiB,rolled", {"threads": 1},
    ),
    "packet, ring, fast-forward": ("packet", "allreduce-ring:size=16MiB", {"fast_forward": 0.01}),
    "flit, permutation of 64 KiB": ("flit", "pattern:pattern=permutation,size=64KiB", {}),
}  # fmt: skip
#: Name -> words of a command; {n} are hosts, {tree} is the fabric.
COMMANDS = {
    "info": ["info", "{tree}"],
    "route and validate": ["route", "{tree}", "--engine", "dmodk"],
    "compare, 2 engines": ["compare", "{tree}", "--engines", "dmodk,minhop"],
    "compare, with a page": [
        "compare", "{tree}", "--engines", "dmodk,minhop", "--report", os.devnull,
    ],
    "topologies": ["topologies", "--hosts", "{n}"],
    "keys": ["keys", "{tree}", "--workload", "permutation"],
    "what-if, cables": ["what-if", "{tree}", "--engine", "dmodk", "--fail", "each-cable"],
    "cost": ["cost", "{tree}"],
}  # fmt: skip

Point = dict[str, Any]


def tree(side: int) -> str:
    """Return the fat tree with side^3 hosts."""
    return f"xgft:3;{side},{side},{side};1,{side},{side}"


# -- points, each in a process of its own ----------------------------------------------------------


def level_point(name: str, side: int) -> Point:
    """Run a workload on all hosts; a small run before it loads the kernels."""
    level, text, options = LEVELS[name]
    for each in (2, side):
        fabric = weft.fabric(tree(each))
        routes = weft.route(fabric, "dmodk")
        load = load_rolled if text.endswith(",rolled") else load_workload
        written = text.removesuffix(",rolled").format(n=fabric.num_hosts)
        workload = load(written, fabric.num_hosts)
        began, used = time.perf_counter(), time.process_time()
        weft.simulate(fabric, routes, workload, level=level, **options)  # type: ignore[call-overload]
        cpu_s = (time.process_time() - used) / options.get("threads", 1)
        seconds = min(time.perf_counter() - began, cpu_s)
    return {"seconds": seconds}


def engine_point(name: str, side: int) -> Point:
    """Route a tree."""
    weft.route(weft.fabric(tree(3)), name)
    fabric = weft.fabric(tree(side))
    fabric.graph, fabric.digest  # noqa: B018  part of the fabric
    began, used = time.perf_counter(), time.process_time()
    weft.route(fabric, name)
    return {"seconds": min(time.perf_counter() - began, time.process_time() - used)}


def command_point(name: str, side: int) -> Point:
    """Run a command, whose kernels `weft warmup` has compiled."""
    words = [each.format(n=side**3, tree=tree(side)) for each in COMMANDS[name]]
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "weft", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(1)
    seconds = min(time.perf_counter() - began, used.ru_utime + used.ru_stime)
    return {"seconds": seconds, "peak": used.ru_maxrss * 1024}


KINDS: Mapping[str, Callable[[str, int], Point]] = {
    "levels": level_point, "engines": engine_point, "commands": command_point,
}  # fmt: skip


def series(kind: str, name: str, budget_s: float) -> Iterator[Point]:
    """Yield the points of a series by size until the next one would exceed the budget."""
    found: list[Point] = []
    for side in SIDES:
        if len(found) > 1:
            last, before = found[-1], found[-2]
            slope = np.log(last["seconds"] / before["seconds"]) / np.log(last["n"] / before["n"])
            if last["seconds"] * (side**3 / last["n"]) ** max(slope, 1) > budget_s:
                return
        command = [sys.executable, "-m", "benchmarks.scaling", "--point", kind, name, str(side)]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            out, _ = child.communicate(timeout=5 * budget_s + 60)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            return
        if child.returncode:
            return
        found.append({"kind": kind, "name": name, "n": side**3, **json.loads(out)})
        print(f"{kind:9s} {name:32s} {side**3:7d} {found[-1]['seconds']:9.3f} s", flush=True)
        yield found[-1]


def names_of(kind: str) -> list[str]:
    """Return the series of a kind."""
    routed = [each.name for each in engines if "needs" not in each.facts]
    return {"levels": [*LEVELS], "engines": routed, "commands": [*COMMANDS]}[kind]


# -- tables and figures ----------------------------------------------------------------------------


def _slope(points: list[Point], key: str) -> tuple[float, float, float]:
    """Return base, factor and exponent of base + factor n^exponent, from the largest sizes.

    The base is the memory of the smallest point, which is mostly that of weft itself.
    """
    base = points[0][key] if key == "peak" else 0.0
    last = [each for each in points if each[key] > max(1.2 * base, 0)][-3:]
    if len(last) < 2:
        return base, float("nan"), float("nan")
    sizes = np.log([each["n"] for each in last])
    slope, factor = np.polyfit(sizes, np.log([each[key] - base for each in last]), 1)
    return base, float(np.exp(factor)), float(slope)


def table(points: list[Point], what: str) -> str:
    """Return the Markdown table of series: their largest point, exponents and limits."""
    lines = [
        f"| {what} | largest | time | memory | time grows as | memory grows as "
        f"| {LIMIT_GB} GB at | 1 h at |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(each["name"] for each in points):
        its = [each for each in points if each["name"] == name]
        last, cells = its[-1], []
        for key, limit in (("peak", LIMIT_GB * 1e9), ("seconds", float(LIMIT_S))):
            base, factor, slope = _slope(its, key)
            grows = f"n^{slope:.1f}" if slope > 0.1 else "-"
            at = ((limit - base) / factor) ** (1 / slope) if slope > 0.1 else float("nan")
            cells.append((grows, "-" if not at < 1e9 else f"*{_round(at):,}*"))
        (memory, full), (spent, late) = cells
        lines.append(
            f"| {name} | {last['n']:,} | {_time(last['seconds'])} | {bytes_text(last['peak'])} | "
            f"{spent} | {memory} | {full} | {late} |"
        )
    return "\n".join(lines) + "\n"


def _round(value: float) -> int:
    digits = 10 ** int(np.log10(max(value, 10)) - 1)
    return int(round(value / digits) * digits)


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else clock_text(seconds)


def figure(points: list[Point], title: str) -> Any:
    """Draw time and memory by size, both logarithmic."""
    names = list(dict.fromkeys(each["name"] for each in points))
    drawn, panels = with_panels(
        title,
        f"XGFT(3; k,k,k; 1,k,k); red: {LIMIT_GB} GB",
        ["time, s", "peak memory, GB"],
        (9.5, 4.8),
        0.2,
    )
    for number, name in enumerate(names):
        its = [each for each in points if each["name"] == name]
        # Ten colours take turns.
        style = {"label": name, "linestyle": ("-", "--", ":")[number // 10], "linewidth": 1.2}
        size = [each["n"] for each in its]
        for panel, key, unit in zip(panels, ("seconds", "peak"), (1, 1e9), strict=True):
            panel.plot(
                size, [each[key] / unit for each in its], marker="o", markersize=3.5, **style
            )
    panels[1].axhline(LIMIT_GB, color="#AA0000", linewidth=0.8)
    for axes in panels:
        axes.set(xscale="log", yscale="log", xlabel="hosts")
    legend_below(drawn, panels[0], 4, 7.5)
    return drawn


def machine() -> str:
    """Return the machine in words."""
    model = platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        model = next(line for line in text.splitlines() if line.startswith("model name"))
        model = model.partition(":")[2].strip()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    waits = ", ".join(
        f"{wait_ns(size):.0f} ns of {bytes_text(size)}" for size in (2**15, 2**22, 2**27)
    )
    return (
        f"{os.cpu_count()} cores ({model}), {bytes_text(memory)} of memory, Python "
        f"{platform.python_version()}; a wait for memory: {waits}"
    )


# -- the forecast ----------------------------------------------------------------------------------


def forecast() -> str:
    """Fit the costs, write them, and return the table of deviations on other runs."""
    known: dict[str, Any] = json.loads(json.dumps(dict(costs())))
    known["machine"] = {"name": machine(), "wait_ns": round(wait_ns(2**22), 1)}
    tested: dict[str, list[Point]] = {}
    for level in ("static", "flow", "packet", "flit"):
        rows = list(_forecast.in_process(level, 0, len(_forecast.CALIBRATION)))
        known[level]["spread"], known[level]["time"] = _forecast.fit(level, rows)
        first = _forecast.TEST[0]
        tested[level] = list(_forecast.in_process(level, first, first + len(_forecast.TEST)))
    head = COSTS.read_text(encoding="utf-8").partition("[machine]")[0]
    tables = [(f"[{name}]", part) for name, part in known.items()]
    COSTS.write_text(head + toml_tables(tables), encoding="utf-8")
    costs.cache_clear()
    large = [
        row
        for number in range(len(_forecast.LARGE))
        for row in _forecast.in_process("large", number)
    ]
    return _accuracy(tested, large)


def _accuracy(tested: Mapping[str, list[Point]], large: list[Point]) -> str:
    """Return how far forecasts were from what was measured, as a Markdown table."""
    lines = [
        "| level | runs | time: median factor | 90th percentile | within a factor of 2 "
        "| runs with much memory | memory: median error | largest | within 25 % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for level, rows in tested.items():
        ratio = np.array(
            [seconds_of(level, row["counts"], row["wait_ns"]) / row["seconds"] for row in rows]  # type: ignore[arg-type]
        )
        off = np.exp(np.abs(np.log(ratio)))
        heavy = [row for row in large if row["level"] == level]
        error = np.array([row["memory"] / row["peak"] - 1 for row in heavy])
        lines.append(
            f"| {level} | {len(rows)} | {np.median(off):.2f} | {np.quantile(off, 0.9):.1f} | "
            f"{(off <= 2).mean():.0%} | {len(heavy)} | {np.median(np.abs(error)):.0%} | "
            f"{np.abs(error).max():.0%} | {(np.abs(error) <= 0.25).mean():.0%} |"
        )
    return "\n".join(lines) + "\n"


def main(words: list[str] | None = None) -> None:
    """Measure the chosen parts, and write their tables and figures into docs/scaling."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="levels,engines,commands,forecast")
    parser.add_argument(
        "--budget-s", type=float, default=20.0, help="longest expected time of a point"
    )
    parser.add_argument("--point", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(words or [])
    if given.point:
        kind, name, side = given.point
        point, _, peak = measured(lambda: KINDS[kind](name, int(side)))
        print(json.dumps({"peak": peak, **point}))
        return
    OUT.mkdir(exist_ok=True)
    titles = {"levels": "Levels of detail", "engines": "Routing engines", "commands": "Commands"}
    for kind in given.only.split(","):
        if kind == "forecast":
            (OUT / "forecast.md").write_text(forecast(), encoding="utf-8")
            continue
        if kind == "commands":
            subprocess.run([sys.executable, "-m", "weft", "warmup"], check=True)
        points = [p for name in names_of(kind) for p in series(kind, name, given.budget_s)]
        text = f"Measured on {machine()}.\n\n{table(points, kind[:-1])}"
        (OUT / f"{kind}.md").write_text(text, encoding="utf-8")
        figure(points, f"{titles[kind]}: time and memory by hosts").savefig(OUT / f"{kind}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
