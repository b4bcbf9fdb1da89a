"""The version of weft that computes a run, down to its sources, and the versions beneath it.

A run depends on the modules that its function can import: those that they name, at any place, and
the members of the registries among them. Of a module counts what is executed, without line numbers,
comments and docstrings, as Python's bytecode: another minor version of Python is another version.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import ItemsView, Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, distributions, version
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from types import CodeType
from typing import Any

from weft.core.errors import InputError
from weft.core.files import make_folder, write_text
from weft.kernels.described import described

_NONE = ModuleSpec("", None)
#: Largest number of modules, of any version, about which the file of `_known` knows something.
_MOST = 5_000
#: The registry of commands: a run calls its own command only.
_COMMANDS = "weft.study.command_registry"


@cache
def build() -> str:
    """Return the version of weft and a hash of all sources and plug-ins: ``0.1.0+1f2e3d4c``."""
    digest = hashlib.sha256()
    for name, path in sorted(_sources().items()):
        digest.update(name.encode())
        digest.update(path.read_bytes())
    digest.update("\n".join(_plugins()).encode())
    return f"{version('weft')}+{digest.hexdigest()[:8]}"


@cache
def build_of(*functions: str) -> str:
    """Return the version of weft and a hash of what computes a run.

    `functions`: functions that the run calls, as ``module:name``. They may come from a store: no
    module is imported.
    """
    digest = hashlib.sha256()
    for name in sorted(computing(*(each.partition(":")[0] for each in functions))):
        digest.update(f"{name} {_code(name)[0]}\n".encode())
    return f"{version('weft')}+{digest.hexdigest()[:8]}"


def computing(*names: str) -> set[str]:
    """Return the modules that these modules can import, of weft and its plug-ins."""
    found: set[str] = set()
    todo, before = [name for name in names if name in _sources()], len(_known())
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _code(name)[1] - found
    if len(_known()) > before:
        if before > _MOST:
            _known().clear()
        with suppress(InputError):  # a folder that cannot be written to
            make_folder(_file().parent)
            write_text(_file(), json.dumps(_known()))
    return found


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    points = (point for each in distributions() for point in each.entry_points)
    return tuple(point for point in points if point.group.startswith("weft."))


@cache
def _plugins() -> tuple[str, ...]:
    """Return the names and versions of the distributions that announce entries to weft."""
    sources = (point.dist for point in _entry_points() if point.dist is not None)
    return tuple(sorted({f"{each.name} {each.version}" for each in sources}))


@cache
def _sources() -> dict[str, Path]:
    """Return module -> file, of weft and of all packages that announce entries to it."""
    found = {}
    packages = {"weft", *(point.module.partition(".")[0] for point in _entry_points())}
    for package in sorted(packages):
        spec = find_spec(package) or _NONE
        for root in map(Path, spec.submodule_search_locations or ()):
            for path in root.rglob("*.py"):
                parts = [package, *path.relative_to(root).with_suffix("").parts]
                found[".".join(parts).removesuffix(".__init__")] = path
        if not spec.submodule_search_locations and spec.origin:
            found[package] = Path(spec.origin)
    return found


@cache
def _code(name: str) -> tuple[str, frozenset[str]]:
    """Return a hash of what a module executes, and the modules that it can import."""
    source = _sources()[name].read_bytes()
    known, at = _known(), hashlib.sha256(_modules() + source).hexdigest()
    if at not in known:
        # Without docstrings and assertions.
        code = compile(source, "", "exec", dont_inherit=True, optimize=2)
        imported = {each for part in _parts(code) for each in _imported(part) if each in _sources()}
        text = described(code, None, set())
        known[at] = hashlib.sha256(text.encode()).hexdigest(), sorted(imported)
    digest, listed = known[at]
    imported = set(listed)
    if name == _COMMANDS:
        imported -= {each for each in imported if each.startswith("weft.study.commands.")}
        imported -= {point.module for point in _entry_points()}
    for each in (name, *imported):
        heads = each.split(".")
        # The package itself is imported with any part of it, and its names only when used.
        imported |= {".".join(heads[:count]) for count in range(2, len(heads))}
    return digest, frozenset(imported & _sources().keys())


@cache
def _modules() -> bytes:
    """Return a hash of the names of all modules, on which depends what counts as an import."""
    return hashlib.sha256("\n".join(sorted(_sources())).encode()).digest()


@cache
def _known() -> dict[str, tuple[str, list[str]]]:
    """Return what `_code` has found before: hash of a module -> hash of its code, and imports."""
    try:
        found = {at: (str(digest), [*map(str, listed)]) for at, (digest, listed) in _stored()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return found


def _stored() -> ItemsView[str, Any]:
    return json.loads(_file().read_text()).items()  # type: ignore[no-any-return]


def _file() -> Path:
    return Path(cache_from_source(__file__)).with_name("sources.json")


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _parts(each)


def _imported(code: CodeType) -> Iterator[str]:
    """Yield modules, and names that may be modules, which code imports."""
    texts = {each for each in code.co_consts if isinstance(each, str)}
    lists = [each for each in code.co_consts if isinstance(each, tuple)]
    for name in set(code.co_names) & _sources().keys():
        listed = [f"{name}.{each}" for names in lists for each in names if isinstance(each, str)]
        yield from listed
        if "." in name or not any(each in _sources() for each in listed):
            yield name
    if "Registry" in code.co_names:
        for text in texts & _sources().keys():
            yield from (each for each in _sources() if each.rpartition(".")[0] == text)
        yield from (point.module for point in _entry_points() if point.group in texts)


@cache
def libraries() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute."""
    names = ("numpy", "numba", "scipy", "polars")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
