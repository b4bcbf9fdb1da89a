"""Code as text, which is equal if the code does the same."""

from __future__ import annotations

from types import CodeType
from typing import Any


def described(code: CodeType, doc: str | None, names: set[str]) -> str:
    """Describe code without line numbers and docstring; add the names that it reads to `names`."""
    names.update(code.co_names)
    constants = [
        described(each, None, names) if isinstance(each, CodeType)
        else "None" if number == 0 and doc is not None and each == doc
        else constant_text(each)
        for number, each in enumerate(code.co_consts)
    ]  # fmt: skip
    return repr((
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_argcount, code.co_kwonlyargcount, code.co_flags, constants,
    ))  # fmt: skip


def constant_text(value: Any) -> str:
    """Describe a constant; sets are sorted."""
    if isinstance(value, tuple):
        return f"({', '.join(map(constant_text, value))},)"
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(constant_text, value))})"
    return f"{type(value).__name__} {value!r}"
