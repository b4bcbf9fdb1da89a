"""Synthetic studies for the tests of reports."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from weft.core.columns import Measure
from weft.fabrics.topology import build
from weft.report.study_data import StudyData
from weft.sim.common.congestion_matrix import congestion_matrix

MEASURES = (
    Measure("makespan_ns", "ns", "Completion time of the workload.", "lower"),
    Measure("accepted_load", "", "Accepted load, as a share of the injection rate.", "higher"),
    Measure("cost_usd", "USD", "Cost of switches, cables and adapters.", "lower"),
    Measure("messages", "", "Messages sent.", None),
)
FABRICS = ("xgft:2;4,4;1,4", "dragonfly:p=2,a=4,h=2", "hyperx:S=4x4,T=2", "torus:4x4,hosts=2")
ENGINES = ("minhop", "dfsssp", "nue")
LOADS = ("0.3", "0.6")
#: Effects on the logarithm of the makespan, and costs.
OF_FABRIC = dict(zip(FABRICS, (0.0, 0.18, 0.09, 0.42), strict=True))
OF_ENGINE = dict(zip(ENGINES, (0.12, 0.0, 0.03), strict=True))
COSTS = dict(zip(FABRICS, (52_000.0, 31_000.0, 38_000.0, 18_000.0), strict=True))


def study(
    axes: Mapping[str, tuple[str, ...]] | None = None,
    seeds: int = 5,
    *,
    noise: float = 0.02,
    measures: tuple[Measure, ...] = MEASURES,
    **more: Any,
) -> StudyData:
    """Return a study of a product of axes; runs of a seed share a part of their noise."""
    axes = axes or {"fabric": FABRICS, "engine": ENGINES, "load": LOADS}
    random = np.random.default_rng(7)
    common = random.normal(0, noise, max(seeds, 1))
    rows = []
    for number, (seed, *values) in enumerate(
        (seed, *point)
        for point in itertools.product(*axes.values())
        for seed in range(max(seeds, 1))
    ):
        point = dict(zip(axes, values, strict=True))
        load = float(point.get("load", "0.5"))
        effect = OF_FABRIC.get(point.get("fabric", ""), 0.0) + OF_ENGINE.get(
            point.get("engine", ""), 0.0
        )
        time = 2e5 * np.exp(effect + load + common[seed] + random.normal(0, noise / 2))
        share = min(load, 0.62 - 0.3 * effect) + random.normal(0, noise / 20)
        rows.append(
            {
                "run": number + 1, "key": f"key{number}", "seed": seed if seeds else None,
                "status": "complete", "reason": None, "wall_s": 0.1, "memory_bytes": 10_000_000,
                **point, "makespan_ns": time, "accepted_load": share,
                "cost_usd": COSTS.get(point.get("fabric", ""), 40_000.0), "messages": 4096.0,
                **{m.name: time * (1 + i) for i, m in enumerate(measures) if m not in MEASURES},
            }
        )  # fmt: skip
    runs = pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.col("seed").cast(pl.Int64), pl.col("reason").cast(pl.String)
    )
    settings = {
        "title": "Topologies & engines <under> two loads",
        "experiment": '[vary]\nfabric = ["xgft:2;4,4;1,4", "..."]\nseed = "0..4"\n',
        "command": "simulate", "axes": axes, "runs": runs, "measures": measures,
        "baseline": {"engine": "minhop"} if "engine" in axes else {},
        "versions": {"0.1.0": len(runs)},
        "conditions": tuple(name for name in ("load", "workload") if name in axes),
    }  # fmt: skip
    return StudyData(**settings | more)


def with_failures(data: StudyData) -> StudyData:
    """Return a study of which some runs have no result."""
    torus = pl.col("fabric").str.starts_with("torus")
    first = pl.col("run") % 11 == 3
    part = pl.col("run") % 17 == 5
    unfit = torus & (pl.col("engine") == "nue")
    status = (
        pl.when(unfit).then(pl.lit("does not fit"))
        .when(first).then(pl.lit("failed"))
        .when(part).then(pl.lit("partial"))
        .otherwise(pl.col("status"))
    )  # fmt: skip
    reason = (
        pl.when(unfit).then(pl.lit("nue needs 2 lanes; the fabric has 1"))
        .when(first).then(pl.lit("RuntimeError: no room <left> on the device"))
        .when(part).then(pl.lit("ended at max_time of 1 ms"))
    )  # fmt: skip
    none = [
        pl.when(unfit | first).then(None).otherwise(pl.col(m.name)).alias(m.name)
        for m in data.measures
    ]
    return replace(
        data, runs=data.runs.with_columns(status=status, reason=reason).with_columns(none)
    )


def with_tables(data: StudyData) -> StudyData:
    """Return a study with tables of links, and congestion matrices of trees."""
    fabrics = {spec: build(spec) for spec in data.axes["fabric"]}
    rows = {row["key"]: row for row in data.runs.iter_rows(named=True)}

    def utilisation(key: str) -> np.ndarray:
        row, random = rows[key], np.random.default_rng(int(key[3:]))
        fabric = fabrics[row["fabric"]]
        spread = 0.4 if row["engine"] == "minhop" else 0.2
        return np.clip(
            random.normal(float(row.get("load", "0.5")), spread, fabric.num_links), 0.0, 1.0
        )

    def table(key: str, name: str) -> pl.DataFrame | None:
        if rows[key]["status"] != "complete":
            return None
        fabric = fabrics[rows[key]["fabric"]]
        if name == "links":
            links = np.arange(fabric.num_links)
            return pl.DataFrame(
                {
                    "link": links.astype(np.int32),
                    "name": [fabric.link_name(int(link)) for link in links],
                    "kind": ["switch-switch"] * len(links), "utilisation": utilisation(key),
                }
            )  # fmt: skip
        if name == "congestion":
            return congestion_matrix(fabric, 1e5 * utilisation(key) ** 4)
        return None

    return replace(data, table=table, fabric=lambda key: fabrics[rows[key]["fabric"]])


def large() -> StudyData:
    """Return a study of 1,000 runs with ten measures."""
    extra = tuple(Measure(f"extra_{i}_ns", "ns", f"Extra time {i}.", "lower") for i in range(6))
    axes = {
        "fabric": FABRICS, "engine": tuple(f"engine{i}" for i in range(5)),
        "workload": ("allreduce", "alltoall"), "load": ("0.2", "0.4", "0.6", "0.7", "0.8"),
    }  # fmt: skip
    return study(axes, measures=MEASURES + extra, baseline={"engine": "engine0"})
