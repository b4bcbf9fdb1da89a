"""`weft doctor`: installed versions, missing programs by feature, and the kernel cache."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import warnings
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

import weft
from weft.cli.common import console
from weft.cli.listing import KINDS
from weft.cli.output import emit
from weft.core.errors import PluginWarning
from weft.core.extensions import extensions
from weft.core.pool import cores
from weft.core.registry import Registry
from weft.kernels.hashing import splitmix64

#: Program of another package -> the feature that needs it, and Debian's package.
PROGRAMS = {
    "opensm": ("weft opensm live", "opensm"),
    "ibsim": ("weft opensm live", "ibsim-utils"),
    "ibnetdiscover": ("weft opensm live", "infiniband-diags"),
    "mpirun": ("weft_calibration.measure", "openmpi-bin"),
}
#: Optional Python package -> the feature that needs it, and the extra that installs it.
OPTIONAL = {
    "mpi4py": ("weft_calibration.measure", "weft[mpi]"),
    "PyYAML": ("reading of a topology.yaml", "weft[yaml]"),
}


def doctor_command() -> int:
    """Print versions, missing programs and the state of the kernel cache, for bug reports.

    Example: `weft doctor`
    """
    versions = {"weft": weft.__version__, "Python": platform.python_version(), **_requirements()}
    programs = {name: shutil.which(name) for name in PROGRAMS}
    optional = {name: _version(name) for name in OPTIONAL}
    cache = _cache()
    plugins = _broken_plugins()
    machine = {
        "platform": platform.platform(), "executable": sys.executable, "cores": cores(),
        # With --json, sys.stdout is replaced while the command runs.
        "encoding": (sys.__stdout__ or sys.stdout).encoding,
        "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR"),
    }  # fmt: skip
    emit(
        versions=versions, machine=machine, programs=programs, optional=optional,
        kernel_cache=cache, broken_plugins=plugins,
    )  # fmt: skip
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")

    def section(rows: dict[str, Any]) -> None:
        for name, value in rows.items():
            table.add_row(escape(name), escape(str(value)))
        table.add_section()

    section({name: "missing" if value is None else value for name, value in versions.items()})
    section({name: "not set" if value is None else value for name, value in machine.items()})
    for found, needed, how in (
        (programs, PROGRAMS, "Debian package {}"), (optional, OPTIONAL, "pip install '{}'")
    ):  # fmt: skip
        lacks = {
            name: f"not installed: {feature} needs it ({how.format(source)})"
            for name, (feature, source) in needed.items()
        }
        section({name: there or lacks[name] for name, there in found.items()})
    section({"kernel cache": _cache_text(cache)})
    section({f"plug-in {i}": text for i, text in enumerate(plugins, start=1)})
    console().print(table)
    return 0


def _requirements() -> dict[str, str | None]:
    """Return the version of each package that weft requires; None for a missing package."""
    try:
        listed = requires("weft") or []
    except PackageNotFoundError:
        listed = []  # not installed: sources on PYTHONPATH
    always = (re.match(r"[\w-]+", each) for each in listed if "extra ==" not in each)
    names = [name[0] for name in always if name is not None]
    return {name: _version(name) for name in (*names, "llvmlite")}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cache() -> dict[str, Any]:
    """Return the folder of the kernel cache, its number of kernels, and whether it is writable."""
    cache = Path(splitmix64._cache.cache_path or ".")
    # If the cache is next to the sources, each source folder has its own cache folder.
    folder = Path(weft.__file__).parent if cache.name == "__pycache__" else cache.parent
    files = list(folder.rglob("*.nb[ic]")) if folder.is_dir() else []
    return {
        "folder": str(folder),
        "kernels": sum(each.suffix == ".nbc" for each in files),
        "size_bytes": sum(each.stat().st_size for each in files),
        "writable": os.access(folder if folder.exists() else folder.parent, os.W_OK),
    }


def _cache_text(cache: dict[str, Any]) -> str:
    state = "" if cache["writable"] else ", not writable"
    size = f"{cache['kernels']} kernels, {cache['size_bytes'] / 2**20:.1f} MiB"
    advice = "" if cache["kernels"] else "; 'weft warmup' compiles all kernels"
    return f"{cache['folder']}: {size}{state}{advice}"


def _broken_plugins() -> list[str]:
    """Return the warnings of plug-ins that cannot be loaded."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PluginWarning)
        for registry in KINDS.values():
            registry.names()
        for group, kind in (("weft.commands", tuple), ("weft.lists", Registry)):
            list(extensions(group, kind))
    return [str(each.message) for each in caught if issubclass(each.category, PluginWarning)]
