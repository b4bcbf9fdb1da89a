"""Deviation of max-min fairness from the packet level, for random long flows on ten fabrics.

Flows are drawn by six patterns. For the first two tables flows are removed until, on every link,
the inputs that feed it contribute equal numbers of flows. The first table has the cases in which
all flows of a link also have the same max-min rate, so that the levels should agree; the second has
the other cases. The third table has all flows. The last table has up to 15 flows, each on its own
lane.
"""

from __future__ import annotations

import numpy as np

from benchmarks._levels import FABRICS, PATTERNS, Flows, deviations, draw_flows, on_own_lanes
from weft import Hardware

SEEDS = 3
HARDWARE = {
    "default": Hardware(),
    "speed-up 1": Hardware(speedup=1),
    "virtual output queues": Hardware(queues="voq"),
    "VOQ, speed-up 8": Hardware(queues="voq", speedup=8),
    "VOQ, speed-up 8, 256 KiB": Hardware(queues="voq", speedup=8, buffer_bytes=1 << 18),
}
LANES = {name: HARDWARE[name] for name in ("default", "speed-up 1")}


def main() -> None:
    groups: dict[str, list[Flows]] = {
        "equal inputs, equal rates": [],
        "equal inputs, unequal rates": [],
        "all flows": [],
        "a lane for each flow": [],
    }
    for spec in FABRICS:
        for pattern in PATTERNS:
            for seed in range(SEEDS):
                flows = draw_flows(spec, pattern, seed)
                groups["all flows"].append(flows)
                groups["a lane for each flow"].append(on_own_lanes(flows))
                even = flows.with_equal_inputs(np.random.default_rng(seed))
                kind = "equal" if even.has_equal_rates() else "unequal"
                groups[f"equal inputs, {kind} rates"].append(even)
    for name, cases in groups.items():
        total = sum(len(each.source) for each in cases)
        print(f"\n{name}: {len(cases)} cases, {total} flows")
        print(
            f"{'hardware':30} {'mean |d|':>9} {'95 %':>7} {'longest':>8} {'shortest':>9} "
            f"{'cases over 5 %':>15} {'last flow':>10}"
        )
        for title, hardware in (LANES if "lane" in name else HARDWARE).items():
            by_case = [deviations(flows, hardware) for flows in cases]
            every = np.concatenate(by_case)
            over = sum(np.abs(each).max() > 0.05 for each in by_case)
            last = np.mean([each.max() for each in by_case])
            print(
                f"{title:30} {np.abs(every).mean():9.2%} {np.percentile(np.abs(every), 95):7.1%} "
                f"{every.max():8.1%} {every.min():9.1%} {over:15} {last:10.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
