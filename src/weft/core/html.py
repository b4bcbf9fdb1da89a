"""Small HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def facts_table(title: str, facts: Mapping[str, Any]) -> str:
    """Return a table of names and values, without values that are None or empty."""
    rows = [(name.replace("_", " "), value) for name, value in facts.items()]
    return html_table(title, (), [row for row in rows if row[1] not in (None, "", ())])


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return an HTML table with a title, a row of headings if there are any, and the rows."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_text(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    heading = f"<thead><tr>{head}</tr></thead>" if head else ""
    caption = f"<caption>{escape(title)}</caption>"
    return f"<table>{caption}{heading}<tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(_text, value)) if isinstance(value, tuple | list) else str(value)
