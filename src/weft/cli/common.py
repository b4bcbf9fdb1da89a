"""Options that several commands share: which fabric, with which faults, and where output goes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from weft.errors import InputError
from weft.fabrics import Fabric
from weft.kernels.walk import table_loads
from weft.load import fabric as load_fabric


@Parameter(name="*")
@dataclass(frozen=True)
class FabricOptions:
    """How to read the fabric and what to break in it."""

    format: Annotated[
        str | None, Parameter(help="Format of the file; its contents tell when left out.")
    ] = None
    names: Annotated[Path | None, Parameter(help="A node-name-map with labels.")] = None
    fail_cable: Annotated[
        tuple[str, ...], Parameter(help="Pull the cable in this port, node[port]; repeatable.")
    ] = ()
    fail_switch: Annotated[
        tuple[str, ...], Parameter(help="Take out this switch, name or GUID; repeatable.")
    ] = ()
    slow_cable: Annotated[
        tuple[str, ...],
        Parameter(help="Run the cable in this port at another rate, node[port]=RATE; repeatable."),
    ] = ()
    random_cables: Annotated[
        int, Parameter(help="Pull this many random cables between switches.")
    ] = 0
    random_switches: Annotated[int, Parameter(help="Take out this many random switches.")] = 0
    fault_seed: Annotated[int, Parameter(help="Seed of the random faults.")] = 0

    def load(self, spec_or_path: str) -> Fabric:
        """The fabric with its faults."""
        made = load_fabric(spec_or_path, format=self.format, names=self.names)
        if self.fail_cable or self.fail_switch:
            made = made.without(cables=self.fail_cable, switches=self.fail_switch)
        for text in self.slow_cable:
            port, equals, rate = text.rpartition("=")
            if not equals:
                raise InputError(
                    f"--slow-cable {text}: expected node[port]=RATE, such as leaf2[21]=1xHDR"
                )
            made = made.degraded([port], rate)
        if self.random_cables or self.random_switches:
            made = made.with_faults(
                cables=self.random_cables, switches=self.random_switches, seed=self.fault_seed
            )
        return made


NO_FAULTS = FabricOptions()

FabricArgument = Annotated[
    str, Parameter(help="A file, or a spec such as 'xgft:3;6,6,6;1,6,6' or 'kns:k=6,n=2'.")
]


def console() -> Console:
    """Where tables go: as wide as the terminal or COLUMNS says, or 140 columns when none does."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    said = terminal or os.environ.get("COLUMNS", "").isdigit()
    return Console(width=None if said else 140, highlight=False)


def kernels_are_cached(kernel: str = "") -> bool:
    """Whether an earlier run left compiled kernels for this Python, or this ``file.function``."""
    folder = Path(table_loads.stats.cache_path)
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return any(folder.glob(f"{kernel}*.{python}*.nbi"))


@contextmanager
def announced_compile(kernel: str = "") -> Iterator[None]:
    """Say that the first run compiles, and afterwards how long it took.

    Parameters
    ----------
    kernel
        The one that takes longest, as ``file.function``; any when left out.
    """
    if kernels_are_cached(kernel):
        yield
        return
    print("weft: compiling kernels; later runs start at once", file=sys.stderr)
    start = time.perf_counter()
    yield
    print(f"weft: first run took {time.perf_counter() - start:.0f} s", file=sys.stderr)
