"""Routing events in OpenSM's log: engines that failed, and the engine that computed the tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

#: Engines of OpenSM 3.3.23.
ENGINES = (
    "minhop", "updn", "dnup", "file", "ftree", "lash", "dor", "torus-2QoS", "nue", "dfsssp", "sssp",
)  # fmt: skip
#: Engines that compute tables only if OpenSM's option ``qos`` is set.
NEED_QOS = ("lash", "dfsssp", "torus-2QoS")

_LINE = re.compile(
    r"(?P<date>\w{3} +\d+ [\d:]{8}) \d+ \[[0-9A-Fa-f]+\] 0x(?P<level>[0-9A-Fa-f]+) -> (?P<text>.*)"
)
#: Part of the line with which a heavy sweep names its engine.
CONFIGURED = "tables configured"
_CONFIGURED = re.compile(rf"osm_ucast_mgr_process: (\S+) {CONFIGURED}")
_FAILED = re.compile(r"ucast_mgr_route: ([\w-]+): (cannot build .*)")
_UNKNOWN = re.compile(r"setup_routing_engines?: .*routing engine '([^']*)'")
_REASON = re.compile(r"\w+: (?:ERR \w+: )?(.*)")
#: Log lines that are not of level ERROR but give the reason why an engine failed.
_EXPLAINS = re.compile(r"disabling|fall ?back|cannot|can't|not enough|fail|unable|invalid", re.I)
_ERROR = 0x01
_SYSTEM = 0x80
#: Errors after which ports share a LID or have none: no free LID, an ignored or changed guid2lid,
#: or a GUID of two nodes or ports.
_GRAVE = re.compile(r"ERR (?:030[67]|031[2-7]|0D01|0D1[25C]|0D13):")
#: Maximum number of different errors in a message.
_SHOWN = 3


@dataclass(frozen=True)
class Sweep:
    """One heavy sweep."""

    #: The engine whose tables were configured; empty if there is none.
    engine: str
    #: Engines that were tried before and failed, each with the reason.
    failed: tuple[tuple[str, str], ...]
    #: Whether the sweep ended with SUBNET UP.
    up: bool
    #: Lines of level ERROR.
    errors: tuple[str, ...]

    @property
    def grave(self) -> tuple[str, ...]:
        """Errors after which ports share a LID or are omitted, though the sweep continued."""
        return tuple(line for line in self.errors if _GRAVE.search(line))


def is_log(text: str) -> bool:
    """Return whether a text looks like opensm.log."""
    lines = [line for line in text[:20000].splitlines() if line.strip()]
    return any(_LINE.match(line) for line in lines[:50])


def is_foreign(text: str) -> bool:
    """Return whether a text has lines, but no line in the format that `sweeps` reads."""
    lines = [line for line in text.splitlines() if line.strip()]
    return bool(lines) and not any(_LINE.match(line) for line in lines)


def sweeps(text: str) -> list[Sweep]:
    """Return the heavy sweeps of a log, in order; the last one may not have ended yet.

    `text`: contents of an opensm.log that includes level INFO (``-D 0x03``, which is the default).
    """
    result: list[Sweep] = []
    engine, failed, errors, reason = "", dict[str, str](), list[str](), ""
    started = False

    def end(up: bool) -> None:
        nonlocal engine, failed, errors, started, reason
        if started:
            result.append(Sweep(engine, tuple(failed.items()), up, tuple(errors)))
        engine, failed, errors, started, reason = "", {}, [], False, ""

    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        event, level = match["text"], int(match["level"], 16)
        if unknown := _UNKNOWN.match(event):
            failed.setdefault(unknown[1], "OpenSM has no engine of that name")
            continue
        if gave_up := _FAILED.search(event):
            failed.setdefault(gave_up[1], reason or gave_up[2])
            started, reason = True, ""
        elif configured := _CONFIGURED.search(event):
            if engine:
                end(up=False)  # a new sweep began before the previous one ended
            engine, started = configured[1], True
        elif "SUBNET UP" in event:
            end(up=True)
        elif "Exiting SM" in event:
            end(up=False)
        elif level & _ERROR and not event.startswith("OpenSM "):
            errors.append(event)
            reason = _reason(event)
        elif not level & _SYSTEM and _EXPLAINS.search(event):
            reason = _reason(event)
    end(up=False)
    return result


def last_sweep(text: str) -> Sweep | None:
    """Return the last heavy sweep of a log, or None; only the end of the log is parsed."""
    start, steps = len(text), 1
    last: list[Sweep] = []
    while start > 0 and not last:
        for _ in range(steps):
            start = max(text.rfind("SUBNET UP", 0, start), 0)
        last = sweeps(text[start:])
        steps *= 2  # many sweeps without changes may have logged SUBNET UP
    return last[-1] if last else None


def last_error(text: str) -> str:
    """Return the last line of level ERROR without its time; empty if there is none."""
    for line in reversed(text.splitlines()):
        match = _LINE.match(line)
        if match and int(match["level"], 16) & _ERROR:
            return match["text"]
    return ""


def complaints(errors: Iterable[str]) -> str:
    """Return errors of a log as text to append to a message, most frequent first.

    `errors`: lines of level ERROR, such as those of a `Sweep`; without errors, the text is empty.
    """
    counts = Counter(map(_reason, errors))
    if not counts:
        return ""
    texts = [f"{text}{f' ({n} times)' if n > 1 else ''}" for text, n in counts.most_common(_SHOWN)]
    more = len(counts) - len(texts)
    return f"; OpenSM logged: {' / '.join(texts)}{f' and {more} other errors' if more else ''}"


def version(text: str) -> str:
    """Return the version of OpenSM in a log, such as ``3.3.23``; empty if the log has none."""
    match = re.search(r"-> OpenSM (\S+)", text)
    return match[1] if match else ""


def _reason(event: str) -> str:
    match = _REASON.match(event)
    return match[1].rstrip(".") if match else event
