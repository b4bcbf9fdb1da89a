"""OpenSM as a daemon that another program started: its configuration, files and process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weft.core.errors import InputError
from weft.routing.opensm.ports import MAX_LMC
from weft.routing.opensm.tables_folder import GUID2LID, read_settings

#: Bits of ``log_flags``: errors, the ends of sweeps, and dumps of tables and cables.
_LOG_FLAGS = 0x43


class Process(Protocol):
    """The process of OpenSM."""

    @property
    def pid(self) -> int:
        """Process id."""

    def ended(self) -> str:
        """Return text that says how the process ended; empty while it runs."""


@dataclass(frozen=True)
class Daemon:
    """An OpenSM that another program started."""

    #: Process id, or a file that contains it and is read again at each use.
    source: int | Path

    @property
    def pid(self) -> int:
        """Process id."""
        if isinstance(self.source, int):
            return self.source
        try:
            text = self.source.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise InputError(
                f"the process id of OpenSM cannot be read: {reason}; expected the id or a file "
                "that contains it",
                file=self.source,
            ) from None
        if not (text.isascii() and text.isdecimal()):
            raise InputError(f"expected a process id, found {text[:40]!r}", file=self.source)
        return int(text)

    def ended(self) -> str:
        """Return text that says why there is no OpenSM; empty while it runs."""
        try:
            pid = self.pid
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except InputError as error:
            return str(error)
        except OSError:
            return f"no process {pid} runs"
        name, _, rest = text.partition("(")[2].rpartition(") ")
        if rest[:1] in "ZX":
            return f"process {pid} has ended"
        return "" if name == "opensm" else f"process {pid} is {name}, not opensm"


@dataclass(frozen=True)
class DaemonFiles:
    """Files through which OpenSM is used."""

    #: Tables that OpenSM loads: ``lfts_file`` of opensm.conf.
    lfts: Path
    #: OpenSM's log.
    log: Path
    #: Folder of OpenSM's dumps.
    dumps: Path
    #: LIDs that OpenSM keeps.
    guid2lid: Path


def read_daemon(
    conf: Path, pid: int | str | Path, cache: Path, log: str | Path | None = None
) -> tuple[DaemonFiles, Daemon, int]:
    """Return the files, process and LMC of a running OpenSM that can load tables.

    `conf`, `pid`, `cache`, `log`: as for `weft.subnet.live.manager.Manager.from_conf`, which also
    lists the errors.
    """
    settings = read_settings(conf)

    def setting(name: str, default: str = "") -> str:
        text = settings.get(name, default)
        return default if text in ("", "(null)") else text

    files = DaemonFiles(
        Path(setting("lfts_file")),
        Path(log or setting("log_file", "/var/log/opensm.log")),
        Path(setting("dump_files_dir", "/var/log")),
        Path(cache, GUID2LID),
    )
    lmc, flags = (_number(setting(*both)) for both in (("lmc", "0"), ("log_flags", "0x03")))
    wrong = {
        "routing_engine file": setting("routing_engine").split(",")[0].strip() == "file",
        "lfts_file FILE": bool(setting("lfts_file")),
        "lmc with 1 to 7 (keys need LIDs of their own)": 1 <= lmc <= MAX_LMC,
        f"log_flags {max(flags, 0) | _LOG_FLAGS:#04x}": flags & _LOG_FLAGS == _LOG_FLAGS,
        "force_log_flush TRUE": setting("force_log_flush") == "TRUE",
        # The cache keeps tables as long as the cables are the same, and ignores the file.
        "use_ucast_cache FALSE": setting("use_ucast_cache") != "TRUE",
    }
    missing = ", ".join(text for text, right in wrong.items() if not right)
    if missing:
        text = f"weft cannot load tables with these settings; set {missing}, and restart OpenSM"
        raise InputError(text, file=conf)
    for name, path in (
        ("lfts_file", files.lfts.parent),
        ("dump_files_dir", files.dumps),
        ("the cache", files.guid2lid.parent),
    ):
        if not (path.is_absolute() and path.is_dir()):
            raise InputError(f"the folder of {name}, {path}, does not exist", file=conf)
    if not files.log.is_file():
        raise InputError(
            f"OpenSM's log {files.log} does not exist; specify it if OpenSM's command line "
            "names another one",
            file=conf,
        )
    process = Daemon(pid if isinstance(pid, int) else Path(pid))
    if ended := process.ended():
        raise InputError(f"OpenSM does not run: {ended}")
    try:
        os.kill(process.pid, 0)
    except OSError as error:
        raise InputError(
            f"weft cannot send signals to OpenSM, process {process.pid}: {error.strerror}"
        ) from None
    return files, process, lmc


def _number(text: str) -> int:
    """Return a decimal or hexadecimal number; -1 if it is none."""
    try:
        return int(text, 0)
    except ValueError:
        return -1
