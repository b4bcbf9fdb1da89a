"""Export of routes as a folder that OpenSM loads."""

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
from weft.routing.lane_files import lane_files, torus_files
from weft.routing.opensm.lft_lines import DUMP_BLOCK
from weft.routing.opensm.lfts import lft_dump, read_lfts
from weft.routing.opensm.lids import Lids, guid2lid, predict_lids
from weft.routing.opensm.ports import MAX_LID, port_guids
from weft.routing.opensm.tables_folder import (
    CONFIG,
    DUMP,
    FILES,
    GUID2LID,
    LFTS,
    POLICY,
    README,
    SUMMARY,
    TORUS,
    OpensmTables,
    read_tables,
)
from weft.routing.routes import Routes, TableRoutes
from weft.routing.validation.replacement import Replacement
from weft.routing.validation.validate import Validation, validate

#: The exported fabric, including its faults.
NETWORK = "fabric.ibnetdiscover"
#: Routing keys, whose flows have LIDs of their own.
KEYS = "keys.txt"
#: Present tables and their LIDs; what changes, by switch and by host; and tables to load first.
PREVIOUS = "previous.lfts"
PREVIOUS_LIDS = "previous.guid2lid"
CHANGED_SWITCHES = "changed-switches.csv"
CHANGED_HOSTS = "changed-hosts.csv"
STEPS = ("step1.lfts", "step2.lfts")
#: Files of an export; a new export can replace a folder that contains no other files.
_OWN = {
    *FILES.values(), GUID2LID, CONFIG, NETWORK, README, SUMMARY, KEYS, PREVIOUS, PREVIOUS_LIDS,
    CHANGED_SWITCHES, CHANGED_HOSTS, *STEPS,
}  # fmt: skip
#: Debian's folder of OpenSM's persistent state.
CACHE = "/var/cache/opensm"
_WARNING = "WARNING: these tables were exported although they are not valid:"


@dataclass(frozen=True)
class Export:
    """An exported folder."""

    folder: Path
    #: Routes in the folder.
    routes: TableRoutes
    #: LIDs in the folder's files.
    lids: Lids
    #: Result of the validator for the routes.
    validation: Validation
    #: Shell commands for the administrator.
    commands: str
    #: What changes against the present tables; None if they are not known.
    change: Replacement | None = None


def read_routes(fabric: Fabric, path: str | Path) -> tuple[TableRoutes, OpensmTables]:
    """Read tables from a folder of ``weft opensm export`` or of OpenSM's dumps, or an LFT dump.

    Returns them as routes of the fabric, and as OpenSM's files.
    """
    tables = read_tables(Path(path))
    if tables.source is None:
        engine = tables.settings["routing_engine"]
        raise NotApplicable(f"{path} has no forwarding tables: OpenSM's {engine} computes them")
    return read_lfts(fabric, tables.source), tables


def tables_for(
    fabric: Fabric, routes: Routes, *, sm_host: str | int | None = None, lids: Lids | None = None
) -> tuple[OpensmTables, Lids]:
    """Return routes as OpenSM's files, and the LIDs in these files.

    `sm_host`: host on which OpenSM runs, which gets the first LIDs; by default the host that
    `predict_lids` chooses. `lids`: LIDs of the ports of a running subnet; by default those that
    OpenSM will assign.
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
        return OpensmTables({**memory, **torus[0]}, {**settings, **torus[1]}), lids
    files = {LFTS: lft_dump(fabric, table, lids=lids)}
    lanes, more = lane_files(fabric, table)
    return OpensmTables({**files, **memory, **lanes}, {**settings, **more}), lids


def _highest_lid(lids: Lids) -> int:
    """Return the highest LID of all ports."""
    return int((lids.base + (1 << lids.lmc.astype(np.int64)) - 1).max(initial=0))


def _as_tables(routes: Routes) -> TableRoutes:
    if isinstance(routes, TableRoutes):
        return routes
    reasons = {
        "CandidateRoutes": "gives sets of candidate ports, but a forwarding table has one port for "
        "each LID",
        "PathRoutes": "gives one path for each pair of hosts, but a forwarding table has one port "
        "for each LID, independent of the source; weft.lower converts them to tables with an LMC",
    }
    reason = reasons.get(type(routes).__name__, "gives no forwarding tables")
    raise NotApplicable(f"{routes.engine} {reason}; OpenSM cannot load it")


def check_lids(fabric: Fabric, lmc: int) -> None:
    """Refuse an LMC with which the ports need more LIDs than InfiniBand has."""
    wanted = (fabric.num_endpoints << lmc) + fabric.num_switches
    if wanted > MAX_LID:
        raise NotApplicable(
            f"{fabric.name} needs {wanted:,} LIDs with LMC {lmc} "
            f"({fabric.num_endpoints:,} adapter ports, {fabric.num_switches:,} switches), but "
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
    keys: str = "",
    before: str | Path | None = None,
) -> Export:
    """Write a folder from which OpenSM loads routes with its ``file`` engine.

    - `fabric`, `routes`: the fabric and the routes to export. LIDs of the fabric, such as those
      from ibnetdiscover's output, are kept.
    - `folder`: path of the folder; it is written completely or not at all.
    - `install`: path that the folder will have on OpenSM's machine, for the paths in opensm.conf;
      by default the path of `folder`.
    - `sm_host`: host on which OpenSM runs, as for `tables_for`.
    - `management`: include paths from and to switches in the deadlock proof.
    - `force`: also write invalid tables, with a warning in the folder.
    - `overwrite`: replace a folder that is neither empty nor an export.
    - `keys`: text of routing keys, to write beside the tables; empty for none.
    - `before`: the present tables, as for `read_routes`, to write beside the new ones with what
      changes; None if they are not known.
    """
    target = Path(folder)
    check_target(target, overwrite)
    tables, lids = tables_for(fabric, routes, sm_host=sm_host)
    table = _as_tables(routes)
    validation = validate(fabric, table, management=management)
    if not validation.ok_where_connected and not force:
        raise NotApplicable(
            f"the tables of {table.engine} are not valid, but OpenSM would load them without an "
            f"error: {'; '.join(validation.findings())}"
        )
    install_path = Path(install) if install is not None else target.absolute()
    config = _config(tables, install_path, validation)
    names = [line.partition(" ")[0] for line in config.splitlines() if not line.startswith("#")]
    network = {}
    with contextlib.suppress(NotApplicable):  # for example names that the format cannot hold
        network[NETWORK] = write_network(fabric)
    sources = [
        str(folder / NETWORK) if network else fabric.name
        for folder in (target.absolute(), install_path)
    ]
    change: Replacement | None = None
    beside: dict[str, str] = {}
    if before is not None:
        change, beside = _change(fabric, table, before, lids)
    steps = [name for name in STEPS if name in beside] if LFTS in tables.files else []
    commands = _commands(
        fabric, tables, install_path, target.absolute(), names, sources, steps, bool(beside),
        _highest_lid(lids),
    )  # fmt: skip
    texts = {
        **tables.files,
        CONFIG: config,
        **network,
        README: _readme(
            fabric,
            table,
            lids,
            tables,
            validation,
            commands,
            [*beside, *([KEYS] if keys else [])],
            change,
        ),
        SUMMARY: _summary(fabric, table, lids, validation, change),
        **({KEYS: keys} if keys else {}),
        **beside,
    }
    with _appearing(target) as new:
        for name, text in texts.items():
            (new / name).write_text(text, encoding="utf-8")
    return Export(target, table, lids, validation, commands, change)


def _change(
    fabric: Fabric, table: TableRoutes, before: str | Path, lids: Lids
) -> tuple[Replacement, dict[str, str]]:
    """Return what changes against the present tables, and the files about it."""
    previous, present = read_routes(fabric, before)
    change = Replacement(fabric, previous, table)
    files = {
        PREVIOUS: present.files[LFTS],
        CHANGED_SWITCHES: change.switches.write_csv(),
        CHANGED_HOSTS: change.hosts.write_csv(),
    }
    if GUID2LID in present.files:
        files[PREVIOUS_LIDS] = present.files[GUID2LID]
    for name, step in zip(STEPS, change.steps[:-1], strict=False):
        files[name] = lft_dump(fabric, step, lids=lids)
    return change, files


# -- the folder --------------------------------------------------------------------------------


def is_export(folder: Path) -> bool:
    """Return whether a folder contains an export and no other files."""
    return (folder / SUMMARY).is_file() and {entry.name for entry in folder.iterdir()} <= _OWN


def check_target(target: Path, overwrite: bool) -> None:
    """Refuse a folder that cannot or must not be written."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InputError("is not a folder; expected a folder for the export", file=target)
    parent = target.absolute().parent
    if not parent.is_dir():
        raise InputError(f"the folder {parent} does not exist", file=target)
    _beside(target.absolute()).rmdir()
    if not target.exists() or not any(target.iterdir()) or is_export(target) or overwrite:
        return
    other = sorted(entry.name for entry in target.iterdir() if entry.name not in _OWN)
    what = f"such as {other[0]}" if other else f"but no {SUMMARY}"
    raise InputError(
        f"contains files that are not of an export, {what}; choose a new folder, or use "
        "--overwrite to replace the whole folder",
        file=target,
    )


def _beside(target: Path) -> Path:
    """Create a temporary folder next to the target."""
    try:
        return Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=target) from None


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces the target once all files are written."""
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


# -- contents ----------------------------------------------------------------------------------


def _config(tables: OpensmTables, place: Path, validation: Validation) -> str:
    lines = [
        "# Lines for OpenSM's opensm.conf, where they replace those of the same name.",
        *_warnings(validation, "# "),
        *(f"{name} {value}" for name, value in tables.settings.items()),
        *(f"{name} {place / file}" for name, file in FILES.items() if file in tables.files),
        "# Use the LIDs of guid2lid even if another OpenSM was master before.",
        "honor_guid2lid_file TRUE",
        "# For the checks in README.txt: OpenSM writes its dumps at each sweep, and each line of",
        "# its log at once.",
        "log_flags 0x43",
        "force_log_flush TRUE",
    ]
    return "\n".join([*lines, ""])


def _warnings(validation: Validation, prefix: str = "") -> list[str]:
    if validation.ok_where_connected:
        return []
    return [f"{prefix}{line}" for line in (_WARNING, *(f"  {x}" for x in validation.findings()))]


def _commands(
    fabric: Fabric,
    tables: OpensmTables,
    place: Path,
    here: Path,
    names: Sequence[str],
    sources: Sequence[str],
    steps: Sequence[str],
    known: bool,
    highest: int,
) -> str:
    """Return the commands to run on this machine and on the machine of OpenSM.

    `place`, `here`: path of the folder on the machine of OpenSM, and on this machine. `names`:
    names of the settings of opensm.conf that the export replaces. `sources`: fabric argument of
    `weft` on this machine, and on the machine of OpenSM. `steps`: files of tables to load before.
    `known`: whether the folder has the present tables. `highest`: the highest LID.
    """
    engine = tables.settings["routing_engine"]
    # Lane settings of the export replace all lane settings, including those for adapters only.
    replaced = "|".join(dict.fromkeys("qos\\w*" if n.startswith("qos") else n for n in names))
    saved = f"$NEW/{PREVIOUS}" if known else "$OLD/tables"
    columns = "awk '/^Unicast/{print $9} /^0x/{print $1,$2}'"
    dumped = f'{columns} "$DUMPS/{DUMP}"'
    same = f"""
# The tables must be those of the export: this must print nothing.
{columns} "$NEW/{LFTS}" >"$OLD/wanted"
{dumped} | diff "$OLD/wanted" -"""
    start, moves, backwards = "systemctl start opensm", "", ""
    if steps:
        moves = f"""
# Load other tables by a SIGHUP, and wait for the end of the sweep.
load() {{
  cp "$1" "$NEW/{LFTS}"
  seen=$(grep -c 'SUBNET UP' "$LOG")
  pkill -HUP -x opensm
  until [ "$(grep -c 'SUBNET UP' "$LOG")" -gt "$seen" ]; do sleep 1; done
}}"""
        first, *more = [f'"$NEW/{name}"' for name in steps]
        start = "\n".join([
            "# Mixtures of the present and the new entries are not safe: load others between.",
            f'cp "$NEW/{LFTS}" "$OLD/{LFTS}"',
            f'cp {first} "$NEW/{LFTS}"',
            start,
            "until grep -qs 'SUBNET UP' \"$LOG\"; do sleep 1; done",
            *(f"load {name}" for name in (*more, f'"$OLD/{LFTS}"')),
        ])  # fmt: skip
        loads = "".join(f"\nload {name}" for name in (*reversed(more), first))
        backwards = f'{loads}\ncp "$OLD/{LFTS}" "$NEW/{LFTS}"'
    left_out = ""
    if highest % DUMP_BLOCK == 0:
        left_out = f"""
#    dump_fts leaves out the entries of LID {highest}: load a dump of OpenSM instead."""
    policy = f' "$NEW/{POLICY}"' if POLICY in tables.files else ""
    return f"""\
# 1. Test it on this machine, without hardware. It must end with status 0.
weft opensm live {quote(sources[0])} --tables {quote(str(here))} -- ibnetdiscover

# 2. On the machine of the master OpenSM (shown by sminfo), in one shell from here on; in another
#    one, repeat this step. Adapt these paths; Debian's unit writes the log to
#    /var/log/opensm.PORTGUID.log. Stop if a command fails.
NEW={quote(str(place))} OLD={quote(f"{place}.before")}
CONF=/etc/opensm/opensm.conf CACHE={CACHE}
LOG=/var/log/opensm.log DUMPS=/var/log FABRIC={quote(sources[1])}{moves}

# 3. Save the present state, including the tables of the switches.
mkdir "$OLD"
for file in "$CONF" "$CACHE/{GUID2LID}"; do [ ! -e "$file" ] || cp -p "$file" "$OLD/"; done
dump_fts >"$OLD/tables"
grep 'tables configured' "$LOG" | tail -1 >"$OLD/engine"
# Check: the first command must print {fabric.num_switches}, the number of switches. The second
# prints the ports whose LIDs will change, which breaks their connections; it should print nothing.
grep -c '^Unicast' "$OLD/tables"
if [ -e "$OLD/{GUID2LID}" ]; then grep -vxFf "$OLD/{GUID2LID}" "$NEW/{GUID2LID}" || true; fi

# 4. Load. A standby OpenSM that takes over uses its own files: stop it, or do the same there.
systemctl stop opensm
cp "$NEW/{GUID2LID}" "$CACHE/{GUID2LID}"
if [ -e "$CONF" ]; then sed -Ei -e '/^({replaced})[[:space:]]/d' -e '$a\\' "$CONF"; fi
cat "$NEW/{CONFIG}" >>"$CONF"
mv "$LOG" "$OLD/log"
{start}

# 5. Check, after SUBNET UP in the log. OpenSM falls back to another engine without an error: the
#    first command must print a line. The second prints errors; compare them with those before the
#    load in "$OLD/log".
grep '{engine} tables configured' "$LOG"
! grep 'ERR ' "$LOG"{same if LFTS in tables.files else ""}
# The audit must find no errors (on a machine with weft; copy the files there).
weft audit "$DUMPS" "$LOG" "$CACHE/{GUID2LID}"{policy} --fabric "$FABRIC"

# 6. To go back:{backwards}
systemctl stop opensm
for file in "$CONF" "$CACHE/{GUID2LID}"; do
  rm -f "$file"
  [ ! -e "$OLD/${{file##*/}}" ] || cp -p "$OLD/${{file##*/}}" "$file"
done
mv "$LOG" "$OLD/log.loaded"
systemctl start opensm
# Check, after SUBNET UP in the log (which may be delayed without force_log_flush TRUE): both lines
# must name the same engine, and the last command must print nothing, since the switches have the
# previous tables again.
cat "$OLD/engine"
grep 'tables configured' "$LOG" | tail -1
dump_fts >"$OLD/again"
{columns} "$OLD/tables" >"$OLD/wanted"
{columns} "$OLD/again" | diff "$OLD/wanted" -

# 7. Only if that engine now computes other tables: to go on to the tables of step 3 as they were.
#    The engine file loads them, but it keeps no service levels, which lash, dfsssp, torus-2QoS and
#    nue need, and does not route again after a failure.{left_out}
systemctl stop opensm
touch "$CONF"
sed -Ei -e '/^(routing_engine|lfts_file)[[:space:]]/d' -e '$a\\' "$CONF"
printf '%s\\n' 'routing_engine file' "lfts_file {saved}" >>"$CONF"
mv "$LOG" "$OLD/log.back"
systemctl start opensm
# Check, after SUBNET UP in the log: as in step 6.
grep 'file tables configured' "$LOG"
dump_fts >"$OLD/again"
{columns} "$OLD/again" | diff "$OLD/wanted" -
"""


def _readme(
    fabric: Fabric,
    table: TableRoutes,
    lids: Lids,
    tables: OpensmTables,
    validation: Validation,
    commands: str,
    beside: Sequence[str],
    change: Replacement | None,
) -> str:
    about = {
        LFTS: "forwarding tables, for OpenSM's engine file (-R file -U)",
        GUID2LID: "LIDs of all ports, which OpenSM keeps",
        CONFIG: "lines of opensm.conf for these files",
        TORUS: "dimensions of the torus, for OpenSM's own engine torus-2QoS, which computes "
        "the same routes",
        POLICY: "service level of each pair of ports (-Q -Y)",
        SUMMARY: "the facts above for programs",
        KEYS: "paths of routing keys, with the LID to which each flow must be sent",
        PREVIOUS: "the present tables",
        PREVIOUS_LIDS: "the present LIDs",
        CHANGED_SWITCHES: "entries that change, by switch",
        CHANGED_HOSTS: "pairs whose path changes, by the host that packets are sent to",
        STEPS[0]: "tables to load before the new ones",
        STEPS[1]: "tables to load then",
    }
    present = {*tables.files, CONFIG, SUMMARY, *beside}
    files = [f"  {name:<22}{text}" for name, text in about.items() if name in present]
    hold: tuple[str, ...] = (
        "The tables are valid for exactly these switches, adapters and cables. Other switches get",
        "an empty table. If a cable or switch fails, OpenSM keeps the tables and reports",
        "SUBNET UP, although pairs whose path crosses the failed part have no path. Then export",
        "again from new output of ibnetdiscover, and make OpenSM read the tables by a SIGHUP.",
    )
    if LFTS not in tables.files:
        hold = ("OpenSM computes the tables itself, and again if a cable fails.",)
    lines = [
        f"Routes of {fabric.name}, by weft's {table.engine}",
        "",
        *(f"{line}" for line in _warnings(validation)),
        *([""] if _warnings(validation) else []),
        *_facts(fabric, table, lids, validation),
        "",
        *(["What changes", *(f"  {line}" for line in change.text()), ""] if change else []),
        "Files",
        *files,
        "",
        "What to run",
        *(f"  {line}".rstrip() for line in commands.splitlines()),
        "",
        *hold,
    ]
    return "\n".join([*lines, ""])


def _facts(fabric: Fabric, table: TableRoutes, lids: Lids, validation: Validation) -> list[str]:
    used = int(np.where(lids.base > 0, 1 << lids.lmc.astype(np.int64), 0).sum())
    options = ", ".join(f"{name}={value}" for name, value in table.options.items())
    return [
        f"  fabric   {fabric.num_hosts} hosts, {fabric.num_switches} switches, "
        f"{fabric.num_cables} cables",
        f"  engine   {table.engine}{f' ({options})' if options else ''}",
        f"  LIDs     {used}, up to {int(lids.base.max(initial=0))}; LMC {table.lmc}",
        f"  lanes    {validation.lanes}",
        f"  checked  {validation.text().splitlines()[0]}",
    ]


def _summary(
    fabric: Fabric,
    table: TableRoutes,
    lids: Lids,
    validation: Validation,
    change: Replacement | None,
) -> str:
    from weft import __version__

    content: dict[str, Any] = {
        "weft": __version__,
        "fabric": fabric.name,
        "digest": fabric.digest,
        "hosts": fabric.num_hosts,
        "switches": fabric.num_switches,
        "cables": fabric.num_cables,
        "engine": table.engine,
        "options": dict(table.options),
        "lmc": table.lmc,
        "lanes": validation.lanes,
        "valid": validation.ok_where_connected,
        "findings": validation.findings(),
        "largest_lid": _highest_lid(lids),
    }
    if change is not None:
        content["change"] = change.facts()
    return json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n"
