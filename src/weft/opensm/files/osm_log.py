"""What OpenSM's log says about routing: which engine was asked, which one gave the tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

#: OpenSM 3.3.23's engines.
ENGINES = (
    "minhop", "updn", "dnup", "file", "ftree", "lash", "dor", "torus-2QoS", "nue", "dfsssp", "sssp",
)  # fmt: skip
#: Those that give no tables unless OpenSM programs lanes.
NEED_QOS = ("lash", "dfsssp", "torus-2QoS")

_LINE = re.compile(
    r"(?P<date>\w{3} +\d+ [\d:]{8}) \d+ \[[0-9A-Fa-f]+\] 0x(?P<level>[0-9A-Fa-f]+) -> (?P<text>.*)"
)
_CONFIGURED = re.compile(r"osm_ucast_mgr_process: (\S+) tables configured")
_FAILED = re.compile(r"ucast_mgr_route: ([\w-]+): (cannot build .*)")
_UNKNOWN = re.compile(r"setup_routing_engines?: .*routing engine '([^']*)'")
_REASON = re.compile(r"\w+: (?:ERR \w+: )?(.*)")
#: Lines that say why an engine gave up, though they are no errors.
_EXPLAINS = re.compile(r"disabling|fall ?back|cannot|can't|not enough|fail|unable|invalid", re.I)
_ERROR = 0x01
_SYSTEM = 0x80
#: Errors after which ports have no LID of their own or are left out: no free LID, a guid2lid that
#: is not used or not as it stands, GUIDs that two nodes or ports have.
_GRAVE = re.compile(r"ERR (?:030[67]|031[2-7]|0D01|0D1[25C]|0D13):")
#: Different errors that a message quotes.
_SHOWN = 3


@dataclass(frozen=True)
class Sweep:
    """One heavy sweep.

    Parameters
    ----------
    engine
        The engine whose tables were configured; empty when none were.
    failed
        Engines that were tried before and gave up, each with the reason.
    up
        Whether the subnet came up after it.
    errors
        Lines of level ERROR.
    """

    engine: str
    failed: tuple[tuple[str, str], ...]
    up: bool
    errors: tuple[str, ...]

    @property
    def fell_back(self) -> bool:
        """Another engine's tables are in force than those asked for first."""
        return bool(self.failed)

    @property
    def grave(self) -> tuple[str, ...]:
        """Errors after which ports have no LID of their own, though the sweep went on."""
        return tuple(line for line in self.errors if _GRAVE.search(line))


def is_log(text: str) -> bool:
    """Whether a text looks like opensm.log."""
    lines = [line for line in text[:20000].splitlines() if line.strip()]
    return any(_LINE.match(line) for line in lines[:50])


def is_foreign(text: str) -> bool:
    """Whether a text has lines and none of them is in the format that `sweeps` reads."""
    lines = [line for line in text.splitlines() if line.strip()]
    return bool(lines) and not any(_LINE.match(line) for line in lines)


def sweeps(text: str) -> list[Sweep]:
    """Heavy sweeps of a log, in order; the last one may not have ended yet.

    Parameters
    ----------
    text
        Contents of opensm.log, at least of level INFO (``-D 0x03``, which is the default).
    """
    found: list[Sweep] = []
    engine, failed, errors, reason = "", dict[str, str](), list[str](), ""
    started = False

    def end(up: bool) -> None:
        nonlocal engine, failed, errors, started, reason
        if started:
            found.append(Sweep(engine, tuple(failed.items()), up, tuple(errors)))
        engine, failed, errors, started, reason = "", {}, [], False, ""

    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        said, level = match["text"], int(match["level"], 16)
        if unknown := _UNKNOWN.search(said):
            failed.setdefault(unknown[1], "OpenSM has no engine of that name")
            continue
        if gave_up := _FAILED.search(said):
            failed.setdefault(gave_up[1], reason or gave_up[2])
            started, reason = True, ""
        elif configured := _CONFIGURED.search(said):
            if engine:
                end(up=False)  # the sweep before was overtaken
            engine, started = configured[1], True
        elif "SUBNET UP" in said:
            end(up=True)
        elif "Exiting SM" in said:
            end(up=False)
        elif level & _ERROR and not said.startswith("OpenSM "):
            errors.append(said)
            reason = _reason(said)
        elif not level & _SYSTEM and _EXPLAINS.search(said):
            reason = _reason(said)
    end(up=False)
    return found


def last_sweep(text: str) -> Sweep | None:
    """The last of `sweeps`, for logs of any length; None when there is none."""
    start, steps = len(text), 1
    found: list[Sweep] = []
    while start > 0 and not found:
        for _ in range(steps):
            start = max(text.rfind("SUBNET UP", 0, start), 0)
        found = sweeps(text[start:])
        steps *= 2  # sweeps that change nothing say it, too
    return found[-1] if found else None


def last_error(text: str) -> str:
    """The last line of level ERROR, without its time; empty when there is none."""
    for line in reversed(text.splitlines()):
        match = _LINE.match(line)
        if match and int(match["level"], 16) & _ERROR:
            return match["text"]
    return ""


def complaints(errors: Iterable[str]) -> str:
    """Errors of a log as the end of a message, the most frequent first; empty when there is none.

    Parameters
    ----------
    errors
        Lines of level ERROR, such as those of a `Sweep`.
    """
    counts = Counter(map(_reason, errors))
    if not counts:
        return ""
    said = [f"{text}{f' ({n} times)' if n > 1 else ''}" for text, n in counts.most_common(_SHOWN)]
    more = len(counts) - len(said)
    return f"; OpenSM logged: {' / '.join(said)}{f' and {more} other errors' if more else ''}"


def version(text: str) -> str:
    """``3.3.23`` of "OpenSM 3.3.23"; empty when the log does not say."""
    match = re.search(r"-> OpenSM (\S+)", text)
    return match[1] if match else ""


def _reason(said: str) -> str:
    match = _REASON.match(said)
    return match[1].rstrip(".") if match else said
