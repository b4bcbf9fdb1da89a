"""`weft list`: lists of engines, topologies and other entries, and the help of one entry."""

from __future__ import annotations

import itertools
import textwrap
from typing import Annotated, Any, get_args, get_type_hints

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weft.cli.common import console
from weft.cli.output import emit
from weft.core.docstrings import parameters, sections
from weft.core.errors import InputError
from weft.core.extensions import extensions
from weft.core.registry import Entry, Registry, did_you_mean
from weft.core.units import Bytes, Nanoseconds
from weft.counters.formats.counter_format_registry import counter_reader
from weft.fabrics.formats import reader, writer
from weft.fabrics.machine_model import node_model
from weft.fabrics.topology import topology
from weft.measured.formats.measurement_format_registry import measurement_reader
from weft.routing import engine
from weft.sim.flit import routing
from weft.sim.flit.routings.policies import policy as flit_policy
from weft.sim.packet.policies import policy
from weft.workload import pattern
from weft.workload.apps import application
from weft.workload.collectives import collective
from weft.workload.collectives.libraries import library
from weft.workload.formats import workload_reader, workload_writer
from weft.workload.placement import placement

KINDS: dict[str, Registry] = {
    "engines": engine,
    "topologies": topology,
    "patterns": pattern,
    "collectives": collective,
    "libraries": library,
    "applications": application,
    "placements": placement,
    "policies": policy,
    "flit-policies": flit_policy,
    "routings": routing,
    "nodes": node_model,
    "readers": reader,
    "writers": writer,
    "counter-readers": counter_reader,
    "measurement-readers": measurement_reader,
    "workload-readers": workload_reader,
    "workload-writers": workload_writer,
    **dict(extensions("weft.lists", Registry)),
}
#: Sections of a docstring that only concern Python.
LEFT_OUT = {"Returns", "Examples", "See Also"}
#: Units of printed times and sizes, largest first.
TIMES = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))
SIZES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("GB", 10**9), ("MB", 10**6), ("B", 1))
#: Maximum width of a line of text.
TEXT_WIDTH = 100


def list_command(
    kind: Annotated[
        str | None,
        Parameter(help=f"A list ({', '.join(KINDS)}) or the name of an entry. Default: all lists."),
    ] = None,
    name: Annotated[str | None, Parameter(help="Entry of the list to explain.")] = None,
    /,
) -> int:
    """List engines, topologies, patterns, policies, readers, writers, papers, or explain one.

    Example: `weft list engines updn`
    """
    out = console()
    if kind is None:
        for each in KINDS:
            _list(each, out)
    elif kind not in KINDS:
        if name is not None:
            raise InputError(f"{kind!r} is not a list{did_you_mean(kind, KINDS)}; {_expected()}")
        entries = [registry[kind] for registry in KINDS.values() if kind in registry]
        if not entries:
            known = [*KINDS, *(each for registry in KINDS.values() for each in registry.names())]
            raise InputError(f"unknown name {kind!r}{did_you_mean(kind, known)}; {_expected()}")
        for entry in entries:
            _explain(entry, out)
    elif name is None:
        _list(kind, out)
    else:
        _explain(KINDS[kind][name], out)
    return 0


def _expected() -> str:
    return f"expected {', '.join(KINDS)}, or a name in one of these lists"


def _list(kind: str, out: Console) -> None:
    emit(**{kind: lambda: [_facts(entry) for entry in KINDS[kind]]})
    table = Table(title=kind, title_justify="left")
    table.add_column("name")
    table.add_column("options")
    table.add_column("description")
    for entry in KINDS[kind]:
        options = ", ".join(with_defaults(entry).values())
        table.add_row(escape(_label(entry)), escape(options), escape(entry.summary))
    out.print(table)


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name, "aliases": entry.aliases, "summary": entry.summary,
        "options": list(with_defaults(entry).values()),
    }  # fmt: skip


def _label(entry: Entry) -> str:
    return " / ".join((entry.name, *entry.aliases))


def with_defaults(entry: Entry) -> dict[str, str]:
    """Return each option with its default, as typed on the command line."""
    hints = get_type_hints(entry.function, include_extras=True)
    return {
        name: name
        if option.default is option.empty
        else f"{name}={_typed(option.default, hints.get(name))}"
        for name, option in entry.options.items()
    }


def _typed(value: object, hint: object) -> str:
    """Return a value as typed: times and sizes with a unit, lists with commas."""
    if isinstance(value, tuple):
        (item, *_) = get_args(hint) or (None,)
        return ",".join(_typed(each, item) for each in value)
    if hint == Nanoseconds and isinstance(value, int | float):
        return _with_unit(value, TIMES)
    if hint == Bytes and isinstance(value, int):
        return _with_unit(value, SIZES)
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _with_unit(value: float, units: tuple[tuple[str, float], ...]) -> str:
    """Return a value in the largest unit that gives a whole number, or else in the smallest."""
    least = units[-1]
    name, factor = next(
        (unit for unit in units if value >= unit[1] and value % unit[1] == 0), least
    )
    return f"{value / factor:g}{name}" if value < 1e6 * factor else f"{value}{least[0]}"


def _explain(entry: Entry, out: Console) -> None:
    """Print the docstring of an entry: description, options with defaults, and errors."""
    emit(**{entry.name: {**_facts(entry), "explanation": entry.explanation}})
    blocks = []
    for title, section in sections(entry.explanation):
        takes = title == "Parameters"
        text = section
        if takes:
            listed = explained_options(entry, section)
            text = "".join(f"{head}\n{meaning}" for head, meaning in listed).rstrip()
        if title not in LEFT_OUT and text:
            heading = "Options" if takes else title or _label(entry)
            lines = _wrapped(text, min(out.width, TEXT_WIDTH) - 2)
            blocks.append("\n".join((heading, *(f"  {x}".rstrip() for x in lines))))
    out.print(escape("\n\n".join(blocks)), soft_wrap=True)


def explained_options(entry: Entry, text: str) -> list[tuple[str, str]]:
    """Return the options of an entry, as names with defaults and their indented text."""
    options = with_defaults(entry)
    blocks = (
        ([options[name] for name in names if name in options], meaning)
        for names, meaning in parameters(text)
    )
    return [(", ".join(heads), meaning) for heads, meaning in blocks if heads]


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap text to a width; consecutive lines of equal indentation are one paragraph."""
    lines: list[str] = []
    for indent, group in itertools.groupby(text.splitlines(), _indent):
        if indent is None:
            lines.extend(group)
            continue
        running = " ".join(line.strip() for line in group)
        lines += textwrap.wrap(
            running,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def _indent(line: str) -> str | None:
    """Return the spaces at the start of a line; None for an empty line."""
    return line[: len(line) - len(line.lstrip())] if line.strip() else None
