"""Rules for the source code that linters do not know."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import weft

Function = ast.FunctionDef | ast.AsyncFunctionDef
SRC = Path(weft.__file__).parents[1]
ERRORS = {"InputError", "NotApplicable", "TraceError", "WeftError", "WrongKey"}
PARSING = {
    "endswith", "find", "fullmatch", "index", "match", "partition", "removeprefix", "removesuffix",
    "rpartition", "rsplit", "search", "split", "startswith",
}  # fmt: skip


class Nodes:
    """Parts of the syntax trees of all modules, each with the name of its module."""

    def __init__(self) -> None:
        self.handlers: list[tuple[str, ast.ExceptHandler]] = []
        self.functions: list[tuple[str, Function]] = []
        self.classes: list[tuple[str, ast.ClassDef]] = []
        self.dicts: list[tuple[str, ast.Dict]] = []
        for path in sorted(SRC.rglob("*.py")):
            name = str(path.relative_to(SRC))
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.ExceptHandler():
                        self.handlers.append((name, node))
                    case ast.FunctionDef() | ast.AsyncFunctionDef():
                        self.functions.append((name, node))
                    case ast.ClassDef():
                        self.classes.append((name, node))
                    case ast.Dict():
                        self.dicts.append((name, node))


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    return Nodes()


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


def test_no_module_parses_the_text_of_an_error(nodes: Nodes) -> None:
    handlers = [
        (name, node)
        for name, node in nodes.handlers
        if node.name and node.type and names(node.type) & ERRORS
    ]
    assert len(handlers) > 100
    assert not [
        f"{name}:{node.lineno}"
        for name, handler in handlers
        for node in ast.walk(handler)
        if parses(node, handler.name or "")
    ]


MOST_PARAMETERS, DEEPEST = 12, 5
#: Function with more parameters -> why.
REASONS = {
    "lay_routes": "settings of a level",
    "serve_command": "options of a command",
    "expect_command": "options of a command",
    "keys_command": "options of a command",
    "live_command": "options of a command",
    "rehearse_command": "options of a command",
    "study_command": "options of a command",
    "watch_command": "options of a command",
    "what_if_command": "options of a command",
    "io_and_compute": "options of an application",
    "moe": "options of an application",
    "nccl": "options of an application",
    "open_loop": "options of an application",
    "train": "options of an application",
}
BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.Match)


def depth(node: ast.AST) -> int:
    """Return how deep blocks are nested in a node; ``elif`` is no deeper than its ``if``."""
    deepest = 0
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else ():
            if isinstance(child, BLOCKS):
                chained = isinstance(node, ast.If) and name == "orelse" and len(value) == 1
                same = chained and isinstance(child, ast.If)
                deepest = max(deepest, depth(child) + (not same))
            elif isinstance(child, ast.ExceptHandler | ast.match_case):
                deepest = max(deepest, depth(child))
    return deepest


def parameters(node: Function) -> int:
    given = node.args
    listed = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len(listed) + bool(given.vararg) + bool(given.kwarg)


def test_functions_have_few_parameters_or_a_reason_and_are_not_nested_deeply(
    nodes: Nodes,
) -> None:
    many = [node.name for _, node in nodes.functions if parameters(node) > MOST_PARAMETERS]
    assert sorted(many) == sorted(REASONS)
    assert not [(name, node.name) for name, node in nodes.functions if depth(node) > DEEPEST]


def test_no_two_public_classes_share_a_name(nodes: Nodes) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, node in nodes.classes:
        if not node.name.startswith("_"):
            places[node.name].append(f"{name}:{node.lineno}")
    assert len(places) > 400
    assert not {name: where for name, where in places.items() if len(where) > 1}


def test_names_of_columns_are_words_joined_by_underscores(nodes: Nodes) -> None:
    names = [
        key.value
        for _, node in nodes.dicts
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Call)
        if isinstance(value.func, ast.Name) and value.func.id == "Column"
    ]
    assert len(names) > 300
    assert not [name for name in names if not re.fullmatch("[a-z0-9]+(_[a-z0-9]+)*", name)]
