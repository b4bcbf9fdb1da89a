"""The version of weft that computes a run, down to its sources, and the versions beneath it."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path


@cache
def build() -> str:
    """Return the version of weft and a hash of its sources and plug-ins: ``0.1.0+1f2e3d4c``."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    plugins = sorted(
        f"{each.name} {each.version}"
        for each in distributions()
        if any(point.group.startswith("weft.") for point in each.entry_points)
    )
    digest.update("\n".join(plugins).encode())
    return f"{version('weft')}+{digest.hexdigest()[:8]}"


@cache
def libraries() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute."""
    names = ("numpy", "numba", "scipy", "polars")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
