"""Generate the pages of docs/reference/ from the code: ``python docs/reference.py``.

`make docs` runs it before it builds the site. The pages are not edited by hand.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import MISSING
from pathlib import Path
from types import ModuleType
from typing import Literal

import polars as pl

import weft
import weft_calibration
import weft_papers
from weft import client, mpi, network, plugins
from weft.advice.io_nodes.settings import IoSettings
from weft.advice.machine_room.room_options import RoomLayout
from weft.cli.app import commands, program
from weft.cli.listing import KINDS, LEFT_OUT, explained_options, with_defaults
from weft.cli.options import bounds, type_of, usual_of
from weft.core.columns import Column
from weft.core.docstrings import sections
from weft.core.registry import Entry
from weft.core.settings import Setting, settings
from weft.fabrics.faults import Faults
from weft.fabrics.judged import Judged
from weft.fabrics.load import Source
from weft.sim.flit.adapter import Adapter
from weft.sim.flit.router import Router
from weft.sim.flit.traffic import Load
from weft.sim.options import LEVELS, RunSettings
from weft.sim.packet.hardware import WRITTEN
from weft.sim.sweep.settings import OWN, TrafficSettings
from weft.study.experiment.spec import Experiment, Head, JobPart, OutputPart

_OPTIONS = """# Options

Settings of fabrics, runs, hardware, routers, traffic and cost plans, with their names in Python, in
files and on the command line; [commands](commands.md) lists the options of every command. For their
use see [simulate](../simulate.md), [load sweeps](../load-sweeps.md) and
[packet level](../packet-level.md), whose numbered rules are cited in brackets.

Sizes and times are numbers (bytes, ns) or text with a unit: `"64KiB"`, `"1MB"`, `"10us"`, `"2ms"`.
A key is the name in Python without its unit. If a list is allowed, each item makes a run of its
own. An unknown key or option is an error with the file, line and key.
"""


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _usual(item: Setting) -> str:
    if item.default is MISSING and not item.option.usual:
        return "required"
    usual = usual_of(item)
    return _code(usual) if usual in (item.default, *item.choices) else usual


def _type(item: Setting) -> str:
    text = type_of(item) + bounds(item)
    return f"{text}, or a list" if item.option.compared else text


def _levels(item: Setting) -> str:
    levels = [level for level in LEVELS if item.of(level)]
    return "" if len(levels) == len(LEVELS) else f" *Levels: {', '.join(levels)}.*"


def _help(item: Setting) -> str:
    return item.help.replace("``", "`").replace("|", "\\|")


#: Names of a setting: in Python, in files and on the command line.
_Name = Literal["Python", "key", "option"]

#: Title of each table -> text above it, the names that it lists, and its settings.
TABLES: Mapping[str, tuple[str, tuple[_Name, ...], Iterable[Setting]]] = {
    "Runs": (
        "Arguments of `weft.simulate`, keys of an experiment, options of `weft simulate`. "
        "`weft.sweep` and `weft sweep` take the same settings, each with one value (policies with "
        f"several), except {', '.join(map(_code, OWN))}.",
        ("Python", "key", "option"),
        settings(RunSettings),
    ),
    "Hardware": (
        "Arguments of `weft.Hardware`, `weft.VlArbitration` and `weft.CongestionControl`, "
        "keys of `[hardware]`, and names of `--hardware NAME=VALUE,…`.",
        ("Python", "key"),
        tuple(WRITTEN.values()),
    ),
    "Routers": (
        "Arguments of `weft.Router`, keys of `[router]`, and names of `--router NAME=VALUE,…`: "
        "routers of the [flit level](../flit-level.md).",
        ("Python", "key"),
        settings(Router),
    ),
    "Adapters": (
        "Arguments of `weft.Adapter`, keys of `[adapter]`, and names of `--adapter NAME=VALUE,…`: "
        "adapters of the [flit level](../flit-level.md).",
        ("Python", "key"),
        settings(Adapter),
    ),
    "Faults": (
        "Arguments of `weft.Faults`, keys of `[faults]`, options of every command that takes a "
        "fabric.",
        ("Python", "key", "option"),
        settings(Faults),
    ),
    "Fabrics": (
        "Arguments of `weft.fabric`, keys of `[fabric]`, options of every command that takes a "
        "fabric.",
        ("key", "option"),
        settings(Source),
    ),
    "Judged hosts": (
        "Keys of `[fabric]`, options of every command that draws traffic or judges pairs of hosts "
        "(`--hosts` of `weft simulate` are the [allowed hosts](../placement.md#allowed-hosts) of "
        "its job).",
        ("key", "option"),
        settings(Judged),
    ),
    "Experiments": (
        "Other keys of an experiment and options of `weft simulate`.",
        ("key", "option"),
        [
            item
            for item in (*settings(Head), *settings(Experiment))
            if item.key in ("engine", "routing", "level", "overlap", "max_seconds")
            and item not in settings(RunSettings)
        ],
    ),
    "Jobs": (
        "Keys of `[[job]]` and options of `weft simulate`.",
        ("key", "option"),
        settings(JobPart),
    ),
    "Output": (
        "Keys of `[output]` and options of `weft simulate`.",
        ("key", "option"),
        settings(OutputPart),
    ),
    "Traffic": (
        "Arguments of `weft.sweep` and options of `weft sweep`.",
        ("Python", "option"),
        settings(TrafficSettings),
    ),
    "Traffic in cycles": (
        "Arguments of `weft.Load`, the traffic of `weft.simulate_flits`, and options of "
        "`weft flits`.",
        ("Python", "option"),
        settings(Load),
    ),
    "Machine rooms": (
        "Arguments of `weft.cost` and options of `weft cost`; see [cost](../cost.md).",
        ("Python", "option"),
        settings(RoomLayout),
    ),
    "I/O nodes": (
        "Arguments of `weft.place_io` and options of `weft place-io`; see "
        "[place I/O nodes](../guides/place-io.md).",
        ("Python", "option"),
        settings(IoSettings),
    ),
}


def options_page() -> str:
    """Return the page of settings of Python, files and the command line."""
    return _OPTIONS + "".join(
        f"\n## {title}\n\n{above}\n\n{_table(names, items)}"
        for title, (above, names, items) in TABLES.items()
    )


def _table(names: tuple[_Name, ...], items: Iterable[Setting]) -> str:
    listed = {item.key: item for item in items}
    return table(
        ["setting", "meaning", "type", "default"],
        (
            [_names(names, item), f"{_help(item)}{_levels(item)}", _type(item), _usual(item)]
            for item in listed.values()
        ),
    )


def _names(names: tuple[_Name, ...], item: Setting) -> str:
    """Return the names of a setting, one per line; a key is left out if it is the Python name."""
    lines = [_code(item.field)] if "Python" in names else []
    if "key" in names and not (lines and item.key == item.field):
        lines.append(f"key {_code(item.key)}" if lines else _code(item.key))
    if "option" in names:
        lines.append(_code(item.flag))
    return "<br>".join(line for line in lines if line)


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def commands_page() -> str:
    """Return the page of commands with their arguments and options, generated by cyclopts."""
    app = program(tuple(commands()))
    page = app.generate_docs(output_format="markdown", include_hidden=False)
    _, first, rest = page.partition("## weft ")
    return "# Commands\n\n`weft COMMAND --help` prints the same.\n\n" + first + rest


#: Where tables come from, by the module that describes them; the longest match applies.
_SOURCES = {
    "weft.advice": "weft compare",
    "weft.advice.expect": "weft expect",
    "weft.advice.io_nodes": "weft place-io",
    "weft.advice.plan_check": "weft check",
    "weft.advice.watch": "weft watch",
    "weft.cli.expect": "weft expect",
    "weft.cli.sweep": "weft sweep",
    "weft.measured": "weft expect",
    "weft.cli.topologies": "weft topologies",
    "weft.sim.flow.contention": "Contention model",
    "weft_calibration": "Contention model",
    "weft.study.commands.simulate": "weft simulate",
    "weft.study.experiment": "weft simulate",
    "weft.advice.machine_room": "weft cost",
    "weft.study.machines": "weft topologies",
    "weft.counters": "Port counters",
    "weft.routing.validation.replacement": "weft opensm export",
    "weft.subnet.audit": "weft audit",
    "weft.subnet.live.rehearsal": "weft opensm rehearse",
    "weft.report.matrix_picture": "weft simulate",
    "weft.report.study_summary": "weft report",
    "weft.sim.keys": "Routing keys",
    "weft.study.runs": "weft store",
    "weft.study": "weft study",
    "weft.sim.common": "Levels with time",
    "weft.sim.common.metrics": "Metrics",
    "weft.sim.flit": "Flit level",
    "weft.sim.flow": "Flow level",
    "weft.sim.packet": "Packet level",
    "weft.sim.static": "Static level",
    "weft.sim.static.phases": "Static level, workloads",
    "weft.sim.sweep": "weft sweep",
    "weft.sim.sweep.flits": "Flit level",
    "weft_papers": "Studies of papers",
    "weft_papers.contention": "Study contention-model",
    "weft_papers.kns": "Study kns-infiniband",
    "weft_papers.multipath": "Study multipath-ecmp",
    "weft_papers.qsnet": "Study qsnet",
    "weft_papers.routing_keys": "Study routing-keys",
}


def columns_page() -> str:
    """Return the page of tables that weft returns or writes, with units and meanings."""
    text = "# Columns of tables\n\nTables are polars frames; `--out` and `--output` write them.\n"
    seen: set[int] = set()
    for module in map(importlib.import_module, _modules(weft, weft_calibration, weft_papers)):
        for name, columns in vars(module).items():
            described = isinstance(columns, Mapping) and columns and not name.startswith("_")
            if not described or id(columns) in seen:
                continue
            if not all(isinstance(each, Column) for each in columns.values()):
                continue
            seen.add(id(columns))
            title = name.removesuffix("_COLUMNS").replace("_", " ").lower()
            text += f"\n## {_source(module.__name__)}: {title}\n\n"
            text += table(
                ["column", "type", "unit", "meaning"],
                (
                    [_code(key), _dtype(c.dtype), c.unit, _cell(c.meaning)]
                    for key, c in columns.items()
                ),
            )
    return text


def _source(module: str) -> str:
    return _SOURCES[max((each for each in _SOURCES if module.startswith(each)), key=len)]


def _modules(*packages: ModuleType) -> list[str]:
    names = (
        each.name
        for package in packages
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    )
    return sorted(name for name in names if not name.endswith("__main__"))


def _dtype(dtype: type[pl.DataType]) -> str:
    return str(dtype)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def registry_page(kind: str) -> str:
    """Return the page of a registry: description, options and errors of every entry."""
    entries = list(KINDS[kind])
    title = kind.replace("-", " ").capitalize()
    text = f"# {title}\n\n`weft list {kind}` prints the same table.\n\n"
    text += table(
        ["name", "options", "summary"],
        (
            [_link(each), _code(", ".join(with_defaults(each).values())), _cell(each.summary)]
            for each in entries
        ),
    )
    return text + "".join(_entry(each) for each in entries)


def _link(entry: Entry) -> str:
    return f"[{entry.name}](#{_anchor(entry)})"


def _anchor(entry: Entry) -> str:
    return entry.name.lower().replace(".", "")


def _entry(entry: Entry) -> str:
    text = f"\n## {entry.name}\n\n"
    if entry.aliases:
        text += f"Aliases: {', '.join(map(_code, entry.aliases))}.\n\n"
    for title, section in sections(entry.explanation):
        if title == "Parameters":
            rows = [
                [_code(head), _cell(meaning)] for head, meaning in explained_options(entry, section)
            ]
            text += table(["option", "meaning"], rows) + "\n" if rows else ""
        elif title not in LEFT_OUT and section:
            text += f"**{title}**\n\n" * bool(title) + f"```text\n{section}\n```\n\n"
    return text


def api_page() -> str:
    """Return the page of public names, in groups; autosummary writes a page for each."""
    text = (
        "# Python interface\n\n"
        "`weft`, `weft.plugins`, `weft.network`, `weft.client` and `weft.mpi` are public; the rest "
        "may change.\n"
    )
    groups = {
        "Functions": [name for name in weft.__all__ if name[0].islower()],
        "Types": [name for name in weft.__all__ if name[0].isupper()],
    }
    for title, names in groups.items():
        text += f"\n## {title}\n\n{_autosummary('weft', names)}"
    text += "\n## Decorators and types for plug-ins\n\n"
    text += _autosummary("weft.plugins", [n for n in plugins.__all__ if n[0].isupper()])
    text += "\n## Network for other simulators\n\n"
    text += _autosummary("weft.network", network.__all__)
    text += "\n## Client of weft serve\n\n" + _autosummary("weft.client", client.__all__)
    return text + "\n## MPI programs\n\n" + _autosummary("weft.mpi", mpi.__all__)


def _autosummary(module: str, names: Iterable[str]) -> str:
    listed = "".join(f"   {name}\n" for name in names)
    return (
        f"```{{eval-rst}}\n.. currentmodule:: {module}\n\n.. autosummary::\n   :toctree: api\n\n"
        f"{listed}```\n"
    )


def pages() -> dict[str, str]:
    """Return file name -> text of all pages."""
    written = {
        "options": options_page(),
        "commands": commands_page(),
        "columns": columns_page(),
        "api": api_page(),
        **{kind: registry_page(kind) for kind in KINDS},
    }
    listed = "\n".join(written)
    written["index"] = (
        "# Reference\n\nThese pages are generated from the code.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    return written


def write_pages(folder: Path) -> None:
    """Write every page that differs from its file; delete pages of names that are gone."""
    folder.mkdir(exist_ok=True)
    names = {*weft.__all__, *plugins.__all__, *network.__all__, *client.__all__, *mpi.__all__}
    for stub in (folder / "api").glob("*.rst"):
        if stub.stem.rpartition(".")[2] not in names:
            stub.unlink()
    for name, text in pages().items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write_pages(Path(__file__).parent / "reference")
