"""Times of first commands, each with an empty kernel cache, and of `weft warmup`.

CPU seconds are the sum over all processes of a command; other users of the cores affect them less
than they affect wall-clock seconds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
FABRIC = str(EXAMPLES / "cluster.ibnetdiscover")
TREE = ["xgft:2;4,4;1,4", "--engine", "dmodk"]
RUN = [*TREE, "--workload", "alltoall:size=64KiB"]
COMMANDS = {
    "compare (make demo)": ["compare", FABRIC, "--report", os.devnull],
    "route": ["route", *TREE],
    "predict": ["predict", str(EXAMPLES / "contention_graph.txt")],
    "simulate static": ["simulate", *RUN, "--level", "static"],
    "simulate flow": ["simulate", *RUN, "--level", "flow"],
    "simulate packet": ["simulate", *RUN, "--level", "packet"],
    "simulate flit": ["simulate", *RUN, "--level", "flit"],
    "sweep": ["sweep", *TREE],
    "warmup": ["warmup"],
    "compare after warmup": ["compare", FABRIC],
}


def main() -> None:
    with tempfile.TemporaryDirectory() as last:
        for name, command in COMMANDS.items():
            with tempfile.TemporaryDirectory() as empty:
                cache = last if "warmup" in name else empty
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                start = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "weft", *command],
                    env={**os.environ, "NUMBA_CACHE_DIR": cache},
                    check=True,
                    capture_output=True,
                )
                wall = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{name:22s} {wall:6.1f} s {cpu:6.1f} s CPU", flush=True)


if __name__ == "__main__":
    main()
