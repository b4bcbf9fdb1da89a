"""The version of weft that computes a run, down to its sources, and the versions beneath it."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import distributions, version
from importlib.util import find_spec
from pathlib import Path

_NONE = ModuleSpec("", None)


@cache
def build() -> str:
    """Return the version of weft and a hash of its sources and plug-ins: ``0.1.0+1f2e3d4c``."""
    digest = hashlib.sha256()
    packages = {"weft"}
    plugins = set()
    for each in distributions():
        points = [point for point in each.entry_points if point.group.startswith("weft.")]
        packages |= {point.module.partition(".")[0] for point in points}
        plugins |= {f"{each.name} {each.version}" for _ in points}
    for name in sorted(packages):
        for root in map(Path, (find_spec(name) or _NONE).submodule_search_locations or ()):
            for path in sorted(root.rglob("*.py")):
                digest.update(str(path.relative_to(root)).encode())
                digest.update(path.read_bytes())
    digest.update("\n".join(sorted(plugins)).encode())
    return f"{version('weft')}+{digest.hexdigest()[:8]}"


@cache
def libraries() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute."""
    names = ("numpy", "numba", "scipy", "polars")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
