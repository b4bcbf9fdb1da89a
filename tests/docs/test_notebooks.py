"""The example notebooks run from top to bottom, and the last value of each cell can be shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run_cell(source: str, scope: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; return its value if it ends with an expression, else None."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), scope)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), scope)
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    cells = [each for each in json.loads(path.read_text())["cells"] if each["cell_type"] == "code"]
    assert not any(each["outputs"] for each in cells)
    scope: dict[str, Any] = {}
    shown = [run_cell("".join(each["source"]), scope) for each in cells]
    values = [value for value in shown if value is not None]
    assert len(values) >= 3
    assert all("<" in value._repr_html_() for value in values)


def test_there_are_three_notebooks() -> None:
    assert len(NOTEBOOKS) == 3
