"""Compiled kernels that come in a wheel, for a stated processor and stated versions of libraries.

A kernel of the wheel is loaded if its source and the versions are those with which it was compiled,
and this processor has what the code uses; otherwise the kernel is compiled as without a wheel.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np

#: Folder of the kernels, which only wheels have, and its file with what they need.
FOLDER = Path(__file__).parent / "compiled"
TARGET = "target.json"
#: Processor for which `make wheel` compiles, by LLVM's name, and what its code may use.
PROCESSOR = "x86-64-v3"
FEATURES = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"


def built_for() -> dict[str, str]:
    """Return what the kernels need that this Python compiles for `PROCESSOR`."""
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": np.__version__,
        "system": llvm.get_process_triple(),
        "processor": PROCESSOR,
    }


@cache
def _needs() -> dict[str, str]:
    """Return what the wheel's kernels need; nothing if there are none."""
    try:
        needs = json.loads((FOLDER / TARGET).read_text())
    except (OSError, ValueError):
        return {}
    return needs if isinstance(needs, dict) else {}


def missing_features() -> list[str]:
    """Return what this processor lacks for `PROCESSOR`."""
    has = llvm.get_host_cpu_features()
    return [name for name in FEATURES.split() if not has.get(name)]


@cache
def why_not() -> str:
    """Return why the wheel's kernels cannot be used; empty if they can, or if there are none."""
    needs = _needs()
    for name, here in built_for().items():
        if needs and needs.get(name) != here:
            return f"those of the wheel are for {name} {needs.get(name)}, and here is {here}"
    if needs and (missing := missing_features()):
        return f"those of the wheel are for {PROCESSOR}, and this processor has no {missing[0]}"
    return ""


def target() -> tuple[str, str, str] | None:
    """Return Numba's description of the processor of the wheel's kernels, None without any."""
    needs = _needs()
    return (needs["system"], needs["processor"], "") if needs and not why_not() else None
