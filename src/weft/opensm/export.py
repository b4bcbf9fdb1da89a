"""Routes of weft as a folder that OpenSM loads."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric
from weft.fabrics.formats.ibnetdiscover import write as write_network
from weft.opensm.files.lfts import lft_dump
from weft.opensm.files.lids import Lids, guid2lid, predict_lids
from weft.opensm.files.ports import MAX_LID, port_guids
from weft.opensm.files.tables_folder import (
    CONFIG,
    DUMP,
    FILES,
    GUID2LID,
    LFTS,
    POLICY,
    README,
    SUMMARY,
    TORUS,
    Tables,
)
from weft.opensm.lane_files import lane_files, torus_files
from weft.routes import Routes, TableRoutes
from weft.routing.validation.validate import Validation, validate

#: The fabric as it was exported, faults and all.
NETWORK = "fabric.ibnetdiscover"
#: What a folder may hold besides and still be an export that a new one replaces.
_OWN = {*FILES.values(), GUID2LID, CONFIG, NETWORK, README, SUMMARY}
#: Debian's place of what OpenSM remembers.
CACHE = "/var/cache/opensm"
_WARNING = "WARNING: these tables were exported although they are not valid:"


@dataclass(frozen=True)
class Export:
    """A folder that was written.

    Parameters
    ----------
    folder
        Where it is.
    routes
        What it holds.
    lids
        Which LIDs its files name.
    validation
        What the validator says of the routes.
    commands
        What an administrator runs.
    """

    folder: Path
    routes: TableRoutes
    lids: Lids
    validation: Validation
    commands: str


def tables_for(
    fabric: Fabric,
    routes: Routes,
    *,
    sm_host: str | int | None = None,
    lids: Lids | None = None,
) -> tuple[Tables, Lids]:
    """Routes as OpenSM's files, and the LIDs that these name.

    Parameters
    ----------
    fabric, routes
        What the files are of.
    sm_host
        Host that OpenSM runs on, which takes the first LIDs; the first with a cable when left
        out.
    lids
        LIDs of a running subnet; those that OpenSM would assign when left out.

    Raises
    ------
    NotApplicable
        When forwarding tables or OpenSM cannot carry the routes, or more LIDs are needed than
        InfiniBand has.
    InputError
        When the routes were made for another fabric.
    """
    table = _as_tables(routes)
    table.check(fabric)
    if lids is None:
        check_lids(fabric, table.lmc)
        lids = predict_lids(fabric, lmc=table.lmc, sm=sm_host)
    spans = {
        guid: (base, base + (1 << lmc) - 1)
        for guid, base, lmc in zip(
            port_guids(fabric).tolist(), lids.base.tolist(), lids.lmc.tolist(), strict=True
        )
        if base
    }
    memory = {GUID2LID: guid2lid(spans)}
    settings = {"routing_engine": "file", "lmc": str(table.lmc)}
    torus = torus_files(fabric, table)
    if torus is not None:
        return Tables({**memory, **torus[0]}, {**settings, **torus[1]}), lids
    files = {LFTS: lft_dump(fabric, table, lids=lids)}
    lanes, more = lane_files(fabric, table)
    return Tables({**files, **memory, **lanes}, {**settings, **more}), lids


def _as_tables(routes: Routes) -> TableRoutes:
    if isinstance(routes, TableRoutes):
        return routes
    said = {
        "CandidateRoutes": "gives sets of ports of which each packet takes one, and a forwarding "
        "table has one port for each LID",
        "PathRoutes": "gives a way to each pair of hosts, and a forwarding table one to each LID "
        "from wherever it comes; weft.lower makes tables of them, with an LMC",
    }
    reason = said.get(type(routes).__name__, "gives no forwarding tables")
    raise NotApplicable(f"{routes.engine} {reason}; OpenSM cannot load it")


def check_lids(fabric: Fabric, lmc: int) -> None:
    """Refuse an LMC with which the ports need more LIDs than there are.

    Raises
    ------
    NotApplicable
        With their numbers.
    """
    wanted = (fabric.num_endpoints << lmc) + fabric.num_switches
    if wanted > MAX_LID:
        raise NotApplicable(
            f"{fabric.name} needs {wanted:,} LIDs with LMC {lmc} "
            f"({fabric.num_endpoints:,} adapter ports, {fabric.num_switches:,} switches), and "
            f"InfiniBand has {MAX_LID:,}"
        )


def export(
    fabric: Fabric,
    routes: Routes,
    folder: str | Path,
    *,
    install: str | Path | None = None,
    sm_host: str | int | None = None,
    management: bool = False,
    force: bool = False,
    overwrite: bool = False,
) -> Export:
    """Write a folder from which OpenSM loads routes with its ``file`` engine.

    Parameters
    ----------
    fabric, routes
        What to export. LIDs that the fabric has, as read from ibnetdiscover's output, are kept.
    folder
        Where to; it appears whole or not at all.
    install
        Where the folder will be on the machine of OpenSM, for the paths in its opensm.conf; the
        same place when left out.
    sm_host
        Host that OpenSM runs on.
    management
        Take traffic of switches into the proof that nothing deadlocks.
    force
        Write tables that are not valid too, with a warning in the folder.
    overwrite
        Replace a folder that is no export and not empty.

    Raises
    ------
    NotApplicable
        When OpenSM cannot carry the routes, or they are not valid and `force` is not given.
    InputError
        When the folder cannot be written, or holds other things.
    """
    target = Path(folder)
    check_target(target, overwrite)
    tables, lids = tables_for(fabric, routes, sm_host=sm_host)
    table = _as_tables(routes)
    found = validate(fabric, table, management=management)
    if not found.ok_where_connected and not force:
        raise NotApplicable(
            f"the tables of {table.engine} are not valid, and OpenSM would load them without a "
            f"word: {'; '.join(found.findings())}"
        )
    place = Path(install) if install is not None else target.absolute()
    config = _config(tables, place, found)
    names = [line.partition(" ")[0] for line in config.splitlines() if not line.startswith("#")]
    network = {}
    with contextlib.suppress(NotApplicable):  # as with names that InfiniBand cannot hold
        network[NETWORK] = write_network(fabric)
    sources = [
        str(folder / NETWORK) if network else fabric.name for folder in (target.absolute(), place)
    ]
    commands = _commands(fabric, tables, place, target.absolute(), names, sources)
    texts = {
        **tables.files,
        CONFIG: config,
        **network,
        README: _readme(fabric, table, lids, tables, place, found, commands),
        SUMMARY: _summary(fabric, table, lids, found),
    }
    with _appearing(target) as new:
        for name, text in texts.items():
            (new / name).write_text(text, encoding="utf-8")
    return Export(target, table, lids, found, commands)


# -- the folder --------------------------------------------------------------------------------


def is_export(folder: Path) -> bool:
    """Whether a folder holds an export, and nothing else."""
    return (folder / SUMMARY).is_file() and {entry.name for entry in folder.iterdir()} <= _OWN


def check_target(target: Path, overwrite: bool) -> None:
    """Refuse a place that cannot or should not be written.

    Raises
    ------
    InputError
        When it is no folder, cannot be made, or holds other things and is not to be replaced.
    """
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError("is no folder; an export is one", file=target)
    parent = target.absolute().parent
    if not parent.is_dir():
        raise InputError(f"the folder {parent} does not exist", file=target)
    _beside(target.absolute()).rmdir()
    if not target.exists() or not any(target.iterdir()) or is_export(target) or overwrite:
        return
    other = sorted(entry.name for entry in target.iterdir() if entry.name not in _OWN)
    what = f"such as {other[0]}" if other else f"but no {SUMMARY}"
    raise InputError(
        f"holds other files than an export, {what}; choose a new folder, or replace all that is "
        "in it with --overwrite",
        file=target,
    )


def _beside(target: Path) -> Path:
    """A new folder of any name beside a place."""
    try:
        return Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=target) from None


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """A new folder beside the target that takes its place when all is written."""
    target = target.absolute()
    new = _beside(target)
    old = new / "replaced"
    try:
        os.umask(mask := os.umask(0))
        fresh = new / "new"
        fresh.mkdir()
        yield fresh
        fresh.chmod(0o777 & ~mask)
        if target.exists():
            target.rename(old)
        try:
            fresh.rename(target)
        except BaseException:
            if old.exists():
                old.rename(target)
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=target) from None
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(new)


# -- what is in it -----------------------------------------------------------------------------


def _config(tables: Tables, place: Path, found: Validation) -> str:
    lines = [
        "# Lines for OpenSM's opensm.conf, where they replace those of the same name.",
        *_warnings(found, "# "),
        *(f"{name} {value}" for name, value in tables.settings.items()),
        *(f"{name} {place / file}" for name, file in FILES.items() if file in tables.files),
        "# LIDs are taken from guid2lid even when another OpenSM was master before.",
        "honor_guid2lid_file TRUE",
        "# For the checks in README.txt: OpenSM dumps what it does at each sweep, and writes each",
        "# line of its log at once.",
        "log_flags 0x43",
        "force_log_flush TRUE",
    ]
    return "\n".join([*lines, ""])


def _warnings(found: Validation, prefix: str = "") -> list[str]:
    if found.ok_where_connected:
        return []
    return [f"{prefix}{line}" for line in (_WARNING, *(f"  {x}" for x in found.findings()))]


def _commands(
    fabric: Fabric,
    tables: Tables,
    place: Path,
    here: Path,
    names: Sequence[str],
    sources: Sequence[str],
) -> str:
    """What to run, step by step: here, where the folder was written, and at its place.

    Parameters
    ----------
    fabric, tables
        What was exported.
    place, here
        Where the folder will be on the machine of OpenSM, and where it is.
    names
        Settings of opensm.conf that the folder's lines replace.
    sources
        What `weft` takes for the fabric, here and at that place.
    """
    engine = tables.settings["routing_engine"]
    # With lanes none of the site's settings of lanes holds, such as those of adapters alone.
    replaced = "|".join(dict.fromkeys("qos\\w*" if n.startswith("qos") else n for n in names))
    columns = "awk '/^Unicast/{print $9} /^0x/{print $1,$2}'"
    dumped = f'{columns} "$DUMPS/{DUMP}"'
    same = f"""
# The tables must be those of the export; prints nothing.
{columns} "$NEW/{LFTS}" >"$OLD/wanted"
{dumped} | diff "$OLD/wanted" -"""
    policy = f' "$NEW/{POLICY}"' if POLICY in tables.files else ""
    return f"""\
# 1. Try it here, without hardware. It must end with status 0.
weft opensm live {quote(sources[0])} --tables {quote(str(here))} -- ibnetdiscover

# 2. On the machine of the master OpenSM (sminfo names it), in one shell from here on. Set these
#    to what is there; Debian's unit writes the log to /var/log/opensm.PORTGUID.log. Stop where a
#    command fails.
NEW={quote(str(place))} OLD={quote(f"{place}.before")}
CONF=/etc/opensm/opensm.conf CACHE={CACHE}
LOG=/var/log/opensm.log DUMPS=/var/log FABRIC={quote(sources[1])}

# 3. Save what is there, with the tables that the switches hold now.
mkdir "$OLD"
for file in "$CONF" "$CACHE/{GUID2LID}"; do [ ! -e "$file" ] || cp -p "$file" "$OLD/"; done
dump_fts >"$OLD/tables"
grep 'tables configured' "$LOG" | tail -1 >"$OLD/engine"
# Check: the first must print the number of switches, {fabric.num_switches}. The second prints the
# ports that get another LID, whose connections break; it should print nothing.
grep -c '^Unicast' "$OLD/tables"
if [ -e "$OLD/{GUID2LID}" ]; then grep -vxFf "$OLD/{GUID2LID}" "$NEW/{GUID2LID}" || true; fi

# 4. Load. A standby OpenSM that takes over routes by its own files: stop it, or do the same there.
systemctl stop opensm
cp "$NEW/{GUID2LID}" "$CACHE/{GUID2LID}"
if [ -e "$CONF" ]; then sed -Ei -e '/^({replaced})[[:space:]]/d' -e '$a\\' "$CONF"; fi
cat "$NEW/{CONFIG}" >>"$CONF"
mv "$LOG" "$OLD/log"
systemctl start opensm

# 5. Check, after SUBNET UP in the log. OpenSM falls back to another engine without an error: the
#    first must print a line. The second prints errors, of which there were none before the load if
#    they are due to it (see "$OLD/log").
grep '{engine} tables configured' "$LOG"
! grep 'ERR ' "$LOG"{same if LFTS in tables.files else ""}
# Nothing may be wrong (where weft is; copy the files there). Exit status 3 is no error: nothing is
# wrong, but no file says which service levels pairs use, so that deadlocks are not judged.
weft opensm audit "$DUMPS" "$LOG" "$CACHE/{GUID2LID}"{policy} --fabric "$FABRIC" || [ $? = 3 ]

# 6. To go back:
systemctl stop opensm
for file in "$CONF" "$CACHE/{GUID2LID}"; do
  rm -f "$file"
  [ ! -e "$OLD/${{file##*/}}" ] || cp -p "$OLD/${{file##*/}}" "$file"
done
mv "$LOG" "$OLD/log.loaded"
systemctl start opensm
# Check, after SUBNET UP in the log (which OpenSM may hold back, without force_log_flush TRUE):
# both lines name the same engine, and the switches hold the tables of before, so that the last
# command prints nothing.
cat "$OLD/engine"
grep 'tables configured' "$LOG" | tail -1
dump_fts >"$OLD/again"
{columns} "$OLD/tables" >"$OLD/wanted"
{columns} "$OLD/again" | diff "$OLD/wanted" -
"""


def _readme(
    fabric: Fabric,
    table: TableRoutes,
    lids: Lids,
    tables: Tables,
    place: Path,
    found: Validation,
    commands: str,
) -> str:
    about = {
        LFTS: "forwarding tables, for OpenSM's engine file (-R file -U)",
        GUID2LID: "which port has which LID; OpenSM keeps to it",
        CONFIG: "the lines of opensm.conf that belong to these files",
        TORUS: "where the dimensions lie, for OpenSM's own engine torus-2QoS, which computes "
        "these very routes",
        POLICY: "the service level of each pair of ports (-Q -Y)",
        SUMMARY: "the facts above for programs",
    }
    present = {*tables.files, CONFIG, SUMMARY}
    files = [f"  {name:<16}{text}" for name, text in about.items() if name in present]
    hold: tuple[str, ...] = (
        "The tables hold for exactly these switches, adapters and cables. A switch that is not in",
        "them gets an empty table. When a cable or switch fails, OpenSM keeps to the tables: pairs",
        "whose path went there have none, and OpenSM still reports SUBNET UP. Then export again",
        "from a new ibnetdiscover, and send OpenSM a SIGHUP, which makes it read the tables.",
    )
    if LFTS not in tables.files:
        hold = ("OpenSM computes the tables itself, and again when a cable fails.",)
    lines = [
        f"Routes of {fabric.name}, by weft's {table.engine}",
        "",
        *(f"{line}" for line in _warnings(found)),
        *([""] if _warnings(found) else []),
        *_facts(fabric, table, lids, found),
        "",
        "Files",
        *files,
        "",
        "What to run",
        *(f"  {line}".rstrip() for line in commands.splitlines()),
        "",
        *hold,
    ]
    return "\n".join([*lines, ""])


def _facts(fabric: Fabric, table: TableRoutes, lids: Lids, found: Validation) -> list[str]:
    used = int(np.where(lids.base > 0, 1 << lids.lmc.astype(np.int64), 0).sum())
    options = ", ".join(f"{name}={value}" for name, value in table.options.items())
    return [
        f"  fabric   {fabric.num_hosts} hosts, {fabric.num_switches} switches, "
        f"{fabric.num_cables} cables",
        f"  engine   {table.engine}{f' ({options})' if options else ''}",
        f"  LIDs     {used}, up to {int(lids.base.max(initial=0))}; LMC {table.lmc}",
        f"  lanes    {found.lanes}",
        f"  checked  {found.text().splitlines()[0]}",
    ]


def _summary(fabric: Fabric, table: TableRoutes, lids: Lids, found: Validation) -> str:
    from weft import __version__

    content: dict[str, Any] = {
        "weft": __version__,
        "fabric": fabric.name,
        "digest": fabric.digest,
        "hosts": fabric.num_hosts,
        "switches": fabric.num_switches,
        "cables": fabric.num_cables,
        "engine": table.engine,
        "options": {name: _plain(value) for name, value in table.options.items()},
        "lmc": table.lmc,
        "lanes": found.lanes,
        "valid": found.ok_where_connected,
        "findings": found.findings(),
        "largest_lid": int((lids.base + (1 << lids.lmc.astype(np.int64)) - 1).max(initial=0)),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
