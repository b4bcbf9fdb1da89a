"""A run function with a kernel of its own, which reports what its process compiled."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numba.core import event

from weft.kernels.cache import njit
from weft.study.runs.task import RunResult


@njit(cache=True)
def added(number):
    total = 0
    for each in range(number):
        total += each
    return total


def run(parameters: Mapping[str, Any], watch: Callable[[Any], None]) -> RunResult:
    """Call a kernel when as many processes have begun as there are runs."""
    folder = Path(parameters["folder"])
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < parameters["runs"]:
        time.sleep(0.005)
    with event.install_recorder("numba:run_pass") as recorder:
        total = added(parameters["number"])
    return RunResult({"total": total, "passes": len(recorder.buffer), "process": os.getpid()})
