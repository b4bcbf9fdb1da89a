"""Public names of a package, each imported at its first use (SPEC 1 of Scientific Python)."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # true for type checkers; importing `typing` takes longer than this file
if TYPE_CHECKING:
    from collections.abc import Callable


def names_of(stub: str) -> dict[str, str]:
    """Return the module of each public name, which the stub file of a package imports."""
    import ast

    with open(stub, encoding="utf-8") as stream:
        tree = ast.parse(stream.read())
    return {
        alias.name: str(line.module)
        for line in tree.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def attach(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose stub file lists its public names.

    `package`, `file`: ``__name__`` and ``__file__`` of the package. ``__all__`` is one of the
    attributes, and so is every module of the package.
    """
    homes: dict[str, str] = {}

    def names() -> dict[str, str]:
        if not homes:
            homes.update(names_of(file.rpartition(".")[0] + ".pyi"))
        return homes

    def get(name: str) -> object:
        if name == "__all__":
            return sorted(names())
        if not name.startswith("_"):
            if name in names():
                value: object = getattr(import_module(homes[name]), name)
                setattr(import_module(package), name, value)
                return value
            try:
                return import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*vars(import_module(package)), *names()})
