"""docs/options.md, made from the settings themselves: ``python -m weft.cli.reference``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING
from typing import Any

from weft.cli.options import bounds, type_of, usual_of
from weft.core.settings import Setting, settings
from weft.experiment.spec import Experiment, Head, JobPart, OutputPart
from weft.fabrics.faults import Faults
from weft.fabrics.load import Source
from weft.machine_room.room_options import Layout
from weft.sim.options import LEVELS, RunSettings
from weft.sim.packet.hardware import WRITTEN
from weft.sim.sweep.settings import OWN, TrafficSettings

_HEAD = """# Options

Settings of fabrics, runs, hardware, traffic and cost plans, as Python, files and the command line
name them; other commands list theirs with `--help`. This page is made from the code that
checks them (`python -m weft.cli.reference > docs/options.md`). How to use them:
[simulate](simulate.md), [load sweeps](load-sweeps.md), [packet level](packet-level.md), whose rules
stand in brackets.

Sizes and times are numbers (bytes, ns) or text with a unit: `"64KiB"`, `"1MB"`, `"10us"`, `"2ms"`.
A key is the name in Python without its unit. A list is compared: each item makes runs of its own.
What an experiment, a level or a command does not know is refused with its place: file, line and
key, or the option.
"""
_Cell = Callable[[Setting], str]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _usual(item: Setting) -> str:
    if item.default is MISSING and not item.option.usual:
        return "must be given"
    usual = usual_of(item)
    return _code(usual) if usual in (item.default, *item.choices) else usual


def _type(item: Setting) -> str:
    said = type_of(item) + bounds(item)
    return f"{said}, or a list" if item.option.compared else said


def _levels(item: Setting) -> str:
    return ", ".join(level for level in LEVELS if item.of(level))


def _help(item: Setting) -> str:
    return item.help.replace("``", "`").replace("|", "\\|")


_PYTHON: tuple[str, _Cell] = "Python", lambda item: _code(item.field)
_KEY: tuple[str, _Cell] = "key", lambda item: _code(item.key)
_FLAG: tuple[str, _Cell] = "option", lambda item: _code(item.flag)
_LEVEL: tuple[str, _Cell] = "levels", _levels
_REST: tuple[tuple[str, _Cell], ...] = (("type", _type), ("default", _usual), ("", _help))

#: Title of each table, what stands above it, its columns, and its settings.
TABLES: Mapping[str, tuple[str, tuple[tuple[str, _Cell], ...], Iterable[Setting]]] = {
    "Runs": (
        "Arguments of `weft.simulate`, keys of an experiment, options of `weft simulate`. "
        f"`weft.sweep` and `weft sweep` take them too, but for {', '.join(map(_code, OWN))}, "
        "and one value each but for policies.",
        (_PYTHON, _KEY, _FLAG, _LEVEL, *_REST),
        settings(RunSettings),
    ),
    "Hardware": (
        "Arguments of `weft.Hardware` (those of `weft.VlArbitration` and `weft.CongestionControl` "
        "in their place), keys of `[hardware]`, and names of `--hardware NAME=VALUE,…`.",
        (_PYTHON, _KEY, *_REST),
        tuple(WRITTEN.values()),
    ),
    "Faults": (
        "Arguments of `weft.Faults`, keys of `[faults]`, options of every command that takes a "
        "fabric.",
        (_PYTHON, _KEY, _FLAG, *_REST),
        settings(Faults),
    ),
    "Fabrics": (
        "Arguments of `weft.fabric`, keys of `[fabric]`, options of every command that takes a "
        "fabric.",
        (_KEY, _FLAG, *_REST),
        settings(Source),
    ),
    "Experiments": (
        "Further keys of an experiment and options of `weft simulate`.",
        (_KEY, _FLAG, *_REST),
        [
            item
            for item in (*settings(Head), *settings(Experiment))
            if item.key in ("engine", "level", "overlap", "max_seconds")
            and item not in settings(RunSettings)
        ],
    ),
    "Jobs": (
        "Keys of `[[job]]` and options of `weft simulate`.",
        (_KEY, _FLAG, *_REST),
        settings(JobPart),
    ),
    "Output": (
        "Keys of `[output]` and options of `weft simulate`.",
        (_KEY, _FLAG, *_REST),
        settings(OutputPart),
    ),
    "Traffic": (
        "Arguments of `weft.sweep` and options of `weft sweep`.",
        (_PYTHON, _FLAG, *_REST),
        settings(TrafficSettings),
    ),
    "Machine rooms": (
        "Arguments of `weft.cost` and options of `weft cost`; see [cost](cost.md).",
        (_PYTHON, _FLAG, *_REST),
        settings(Layout),
    ),
}


def page() -> str:
    """The page as text."""
    return _HEAD + "".join(
        f"\n## {title}\n\n{above}\n\n{_table(columns, items)}"
        for title, (above, columns, items) in TABLES.items()
    )


def _table(columns: tuple[tuple[str, _Cell], ...], items: Iterable[Setting]) -> str:
    rows: list[Any] = [[name for name, _ in columns], ["---"] * len(columns)]
    listed = {item.key: item for item in items}
    rows += [[cell(item) for _, cell in columns] for item in listed.values()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    print(page(), end="")
