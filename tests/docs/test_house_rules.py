"""Rules for the source code that linters do not know."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import weft

SRC = Path(weft.__file__).parents[1]
ERRORS = {"InputError", "NotApplicable", "TraceError", "WeftError", "WrongKey"}
PARSING = {
    "endswith", "find", "fullmatch", "index", "match", "partition", "removeprefix", "removesuffix",
    "rpartition", "rsplit", "search", "split", "startswith",
}  # fmt: skip


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Return the name and the syntax tree of each module."""
    for path in sorted(SRC.rglob("*.py")):
        yield str(path.relative_to(SRC)), ast.parse(path.read_text())


def names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def parses(node: ast.AST, error: str) -> bool:
    """Return whether an expression takes the text of an error apart."""
    if isinstance(node, ast.Compare):
        found = any(isinstance(each, ast.In | ast.NotIn) for each in node.ops)
        return found and any(
            isinstance(each, ast.Call | ast.Attribute) and error in names(each)
            for each in node.comparators
        )
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return called and node.func.attr in PARSING and error in names(node)


def test_no_module_parses_the_text_of_an_error() -> None:
    handlers = [
        (name, node)
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.name and node.type
        if names(node.type) & ERRORS
    ]
    assert len(handlers) > 100
    assert not [
        f"{name}:{node.lineno}"
        for name, handler in handlers
        for node in ast.walk(handler)
        if parses(node, handler.name or "")
    ]
