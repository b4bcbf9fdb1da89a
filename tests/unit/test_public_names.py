"""`import weft` is light, and gives every public name once it is asked for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import weft

HEAVY = ("numpy", "numba", "polars", "scipy", "pydantic")


def declared() -> dict[str, str]:
    """Name -> module, of the imports that type checkers see."""
    tree = ast.parse(Path(weft.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and len(node.body) > 2)
    return {
        alias.name: str(statement.module)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_type_checkers_and_programs_see_the_same_names() -> None:
    assert declared() == weft._HOME
    assert sorted(declared()) == weft.__all__
    for name, module in declared().items():
        assert getattr(weft, name) is getattr(importlib.import_module(module), name)
    assert set(weft.__all__) | {"__version__"} <= set(dir(weft))


def test_modules_are_attributes_and_what_is_not_there_is_said() -> None:
    assert weft.machine_room is importlib.import_module("weft.machine_room")
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'nothing'"):
        _ = weft.nothing  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from weft import nothing  # type: ignore[attr-defined]  # noqa: F401


def test_import_loads_nothing_heavy_until_a_name_is_used() -> None:
    program = (
        "import sys, weft; print([n for n in {} if n in sys.modules]);"
        "from weft import *; print(fabric('ring:4').num_hosts, 'numpy' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program.format(HEAVY)], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["[]", "4 True"]
