"""The store: an SQLite database that holds the ledger's state and its log.

All changes of a batch of events are one transaction. Nothing is answered before it is committed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from weft.core.errors import InputError, WeftError
from weft.service.ledger import (
    Announced,
    Answer,
    Event,
    Failed,
    Granted,
    KeyState,
    Ledger,
    Left,
    Made,
    Withdrawn,
)
from weft.service.log import answer_json, event_json, line, pack_key, read_event

#: Version of the tables below.
VERSION = 1
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE token (name TEXT PRIMARY KEY, hash BLOB NOT NULL) STRICT;
CREATE TABLE event (
    number INTEGER PRIMARY KEY, event TEXT NOT NULL, answer TEXT NOT NULL, key BLOB, base BLOB
) STRICT;
CREATE TABLE application (name TEXT PRIMARY KEY, announced INTEGER NOT NULL) STRICT;
CREATE TABLE key (
    application TEXT NOT NULL, phase TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
    generation INTEGER NOT NULL, made INTEGER, PRIMARY KEY (application, phase)
) STRICT;
CREATE TABLE granted (
    application TEXT NOT NULL, phase TEXT NOT NULL, alternative INTEGER NOT NULL,
    generation INTEGER NOT NULL, since_ns INTEGER NOT NULL, lease_ns INTEGER NOT NULL,
    until_ns INTEGER NOT NULL, PRIMARY KEY (application, phase)
) STRICT;
"""


class StoreFailed(WeftError):
    """A change that could not be stored, so that it has not happened."""


class Store:
    """The store of one service.

    Parameters
    ----------
    path
        The database; it is created if it does not exist.
    digest
        Digest of the fabric (`Fabric.digest`).
    settings
        Settings that the log depends on, by name; they cannot change for an existing store.

    Raises
    ------
    InputError
        If another service uses the store, the file is not a store, is of a later version, or is for
        another fabric or other settings, or it cannot be written.
    """

    def __init__(self, path: str | Path, digest: str, settings: dict[str, str]) -> None:
        self.path = Path(path)
        self._lock = _locked(self.path)
        try:
            self._open(digest, settings)
        except BaseException:
            self._lock.close()
            raise

    def _open(self, digest: str, settings: dict[str, str]) -> None:
        try:
            self._database = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=5.0
            )
            self._database.execute("PRAGMA journal_mode=WAL")
            # A commit is on the disk before it returns.
            self._database.execute("PRAGMA synchronous=FULL")
            known = self._database.execute("SELECT name FROM sqlite_master").fetchall()
            if not known:
                self._create(digest, settings)
            elif ("meta",) not in known:
                raise InputError("is a database of another program", file=self.path)
            self._check(digest, settings)
            (last,) = self._database.execute("SELECT max(number) FROM event").fetchone()
        except sqlite3.Error as error:
            raise InputError(f"cannot be used as a store: {error}", file=self.path) from None
        self._number = (last or 0) + 1

    def _create(self, digest: str, settings: dict[str, str]) -> None:
        values = {"version": str(VERSION), "fabric": digest, **settings}
        self._database.executescript(
            f"BEGIN IMMEDIATE;{_TABLES}"
            + "".join(
                f"INSERT INTO meta VALUES ({_quoted(name)}, {_quoted(value)});"
                for name, value in values.items()
            )
            + "COMMIT;"
        )

    def _check(self, digest: str, settings: dict[str, str]) -> None:
        meta = dict(self._database.execute("SELECT name, value FROM meta"))
        if int(meta["version"]) > VERSION:
            raise InputError(
                f"is a store of version {meta['version']}; this weft knows version {VERSION}",
                file=self.path,
            )
        if meta["fabric"] != digest:
            raise InputError(
                "is the store of another fabric; use another store, or the fabric that it was "
                "made for",
                file=self.path,
            )
        for name, value in settings.items():
            if meta.get(name) != value:
                raise InputError(
                    f"was made with {name} {meta.get(name)}, not {value}", file=self.path
                )
        (state,) = self._database.execute("PRAGMA quick_check").fetchone()
        if state != "ok":
            raise InputError(f"is damaged: {state}", file=self.path)

    def close(self) -> None:
        """Close the database and release the lock."""
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        self._lock.close()

    # -- writing -----------------------------------------------------------------------------

    def record(
        self, batch: Sequence[tuple[Event, Answer]], tokens: Mapping[str, str] | None = None
    ) -> None:
        """Store events and what they changed, all or none.

        Parameters
        ----------
        batch
            The events and their answers.
        tokens
            New tokens by the name of their owner.

        Raises
        ------
        StoreFailed
            If the database cannot store them, for example because the disk is full.
        """
        number = self._number
        try:
            self._database.execute("BEGIN IMMEDIATE")
            for event, answer in batch:
                self._write(number, event, answer)
                number += 1
            for name, token in (tokens or {}).items():
                self._database.execute(
                    "INSERT OR REPLACE INTO token VALUES (?, ?)", (name, hashed(token))
                )
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise StoreFailed(f"{self.path} cannot store a change: {error}") from None
        self._number = number

    def _write(self, number: int, event: Event, answer: Answer) -> None:
        run = self._database.execute
        key = base = None
        if isinstance(event, Made):
            key, base = pack_key(event.key), pack_key(event.base)
        run(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?)",
            (number, event_json(event), answer_json(answer), key, base),
        )
        match event:
            case Announced():
                run("INSERT INTO application VALUES (?, ?)", (event.application, number))
                for phase in event.phases:
                    row = (event.application, phase, KeyState.MAKING, "", 0, None)
                    run("INSERT INTO key VALUES (?, ?, ?, ?, ?, ?)", row)
            case Made():
                run(
                    "UPDATE key SET state = ?, reason = '', generation = generation + 1, made = ? "
                    "WHERE application = ? AND phase = ?",
                    (KeyState.READY, number, event.application, event.phase),
                )
            case Failed():
                run(
                    "UPDATE key SET state = ?, reason = ? WHERE application = ? AND phase = ?",
                    (KeyState.FAILED, event.reason, event.application, event.phase),
                )
            case Withdrawn():
                for application, phase in event.keys:
                    run(
                        "UPDATE key SET state = ?, reason = ?, made = NULL "
                        "WHERE application = ? AND phase = ?",
                        (KeyState.MAKING, event.reason, application, phase),
                    )
            case Left():
                run("DELETE FROM key WHERE application = ?", (event.application,))
                run("DELETE FROM application WHERE name = ?", (event.application,))
                run("DELETE FROM token WHERE name = ?", (event.application,))
        for grant in answer.ended:
            run(
                "DELETE FROM granted WHERE application = ? AND phase = ?",
                (grant.application, grant.phase),
            )
        for grant in answer.granted:
            run(
                "INSERT OR REPLACE INTO granted VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    grant.application, grant.phase, grant.alternative, grant.generation,
                    grant.since_ns, grant.lease_ns, grant.until_ns,
                ),
            )  # fmt: skip

    # -- reading -----------------------------------------------------------------------------

    def load(self, ledger: Ledger) -> None:
        """Bring a new ledger into the stored state.

        Raises
        ------
        WeftError
            If the contents contradict one another.
        """
        run = self._database.execute
        try:
            rows = run(
                "SELECT event, key, base FROM event WHERE number IN "
                "(SELECT announced FROM application UNION SELECT made FROM key) ORDER BY number"
            )
            for text, key, base in rows:
                ledger.handle(read_event(json.loads(text), key, base))
            rows = run("SELECT application, phase, state, reason, generation FROM key")
            for application, name, state, reason, generation in rows:
                phase = ledger.applications[application].phases[name]
                phase.state, phase.reason = KeyState(state), reason
                phase.generation = generation
            for row in run("SELECT * FROM granted ORDER BY since_ns, application, phase"):
                ledger.restore(Granted(*row))
            last = run("SELECT event FROM event ORDER BY number DESC LIMIT 1").fetchone()
            if last is not None:
                ledger.now_ns = json.loads(last[0])["time_ns"]
        except (sqlite3.Error, KeyError, ValueError) as error:
            raise WeftError(f"{self.path} is damaged: {error}") from None

    def log(self, after: int = 0, limit: int = -1) -> Iterator[tuple[int, str]]:
        """Return the numbers and lines of the log after an event."""
        return log_lines(self._database, after, limit)

    # -- tokens ------------------------------------------------------------------------------

    def tokens(self) -> dict[str, bytes]:
        """Return the hash of each token by the name of its owner; the administrator's is empty."""
        return dict(self._database.execute("SELECT name, hash FROM token"))


def log_lines(
    database: sqlite3.Connection, after: int = 0, limit: int = -1
) -> Iterator[tuple[int, str]]:
    """Return the numbers and lines of the log of a database after an event."""
    rows = database.execute(
        "SELECT number, event, answer, key, base FROM event WHERE number > ? ORDER BY number "
        "LIMIT ?",
        (after, limit),
    )
    for number, event, answer, key, base in rows:
        yield number, line(event, answer, key, base)


def hashed(token: str) -> bytes:
    """Return the hash of a token. Tokens are long random texts, which need no slow hash."""
    return hashlib.sha256(token.encode()).digest()


def _locked(path: Path) -> IO[Any]:
    """Lock a store, or refuse it."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        stream = lock.open("a+")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path) from None
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        stream.seek(0)
        owner = stream.read().strip()
        stream.close()
        who = f" (process {owner})" if owner else ""
        raise InputError(f"is in use by another weft serve{who}", file=path) from None
    stream.truncate(0)
    stream.write(f"{os.getpid()}\n")
    stream.flush()
    return stream


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
