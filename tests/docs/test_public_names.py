"""`import weft` loads little, and gives every public name on its first use."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
import weft_calibration
import weft_papers
from weft.core.lazy import names_of

PACKAGES = ("weft", "weft_calibration", "weft_papers")
HEAVY = ("numpy", "numba", "polars", "scipy", "pydantic")


def test_type_checkers_and_programs_see_the_same_names() -> None:
    for package in (weft, weft_calibration, weft_papers):
        stub = Path(package.__file__).with_suffix(".pyi")
        (listed,) = (
            ast.literal_eval(node.value)
            for node in ast.parse(stub.read_text()).body
            if isinstance(node, ast.Assign)
        )
        declared = names_of(str(stub))
        assert sorted(declared) == listed == package.__all__
        for name, module in declared.items():
            assert getattr(package, name) is getattr(importlib.import_module(module), name)
        assert set(listed) | {"__file__"} <= set(dir(package))
    assert "__version__" in dir(weft)


def test_modules_are_attributes_and_unknown_names_raise_errors() -> None:
    module = importlib.import_module("weft.advice.machine_room")
    assert weft.advice.machine_room is module
    with pytest.raises(AttributeError, match="module 'weft' has no attribute 'nothing'"):
        _ = weft.nothing  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from weft import nothing  # type: ignore[attr-defined]  # noqa: F401


def python_blocks() -> list[tuple[str, str]]:
    """Return the page and the code of each Python block in the README and the docs."""
    root = Path(weft.__file__).parents[2]
    blocks = []
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        for block in re.findall(
            r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            examples = doctest.DocTestParser().get_examples(block)
            code = "".join(example.source for example in examples) if examples else block
            blocks.append((page.name, code))
    return blocks


def used_names(code: str) -> Iterator[tuple[str, str]]:
    """Return the module and the name of everything that a block uses from weft."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in PACKAGES:
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            parts = [alias.name for alias in node.names if alias.name.startswith("weft.")]
            yield from ((part, "") for part in parts)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "weft":
            yield "weft", node.attr


def test_pages_use_public_names_only() -> None:
    modules = (
        weft,
        weft.plugins,
        weft.network,
        weft.client,
        weft.mpi,
        weft_calibration,
        weft_papers,
    )
    public = {module.__name__: set(module.__all__) for module in modules}
    shown = [(page, *used) for page, code in python_blocks() for used in used_names(code)]
    assert len(shown) > 60
    assert not [each for each in shown if each[2] not in public.get(each[1], ())]


def test_every_public_name_has_a_docstring() -> None:
    for package in (weft, weft_calibration, weft_papers):
        for name in package.__all__:
            text = inspect.getdoc(getattr(package, name)) or ""
            assert len(text.split()) >= 3, name
    named = ("simulate", "sweep", "compare", "cost", "write_comparison_page", "route", "place_io")
    for name in named:
        text = inspect.getdoc(getattr(weft, name)) or ""
        assert "Parameters\n----------" in text, name
        for parameter in inspect.signature(getattr(weft, name)).parameters.values():
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                assert re.search(rf"^(\w+, )*{parameter.name}\b", text, re.MULTILINE), parameter


def test_import_loads_nothing_heavy_until_a_name_is_used() -> None:
    program = (
        "import sys, weft; print([n for n in {} if n in sys.modules]);"
        "from weft import fabric; print(fabric('ring:4').num_hosts, 'numpy' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program.format(HEAVY)], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines() == ["[]", "4 True"]
