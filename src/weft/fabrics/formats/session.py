"""Lines of a terminal session around the output of a program that was captured in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable

from weft.core.counts import count_text
from weft.core.words import few
from weft.fabrics.formats.format_registry import warn

#: Colours, titles and modes, which programs such as ``script`` record.
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][AB0]|[=>])\r?"
)
#: A prompt of bash, sh, csh, zsh or PowerShell, with or without a command; other lines of a
#: session; and blank lines and comments between them. Matching takes linear time.
_SESSION = re.compile(
    r"(?:\([^()\"]+\) )?"  # a virtual environment
    r"(?:\[(?!\d+\])[^\]\"]+\] ?[#$%>]|[\w.-]++@[\w.-][^\"<>#$%]*[#$%>]"
    r"|[\w.-]+:[~/][^\s\"<>#$%]* ?[#$%>]|\w*sh(?:-[\d.]+)?[#$%]|[\w.-]*[%>]|PS [A-Z]:[^\"<>]*>"
    r"|[$❯➜])(?: .*)?"
    r"|=~=.*PuTTY log .*|Script (?:started|done)\b.*|Last login: .*|login as: .*"
    r"|.*\b[Pp]assword: ?|(?>.*?\b[Pp]assword for ).*: ?"
    r"|Connection to .* closed\.?|exit|logout|\s*(?:#.*)?"
)


def without_session(text: str, file: str) -> str:
    """Return a text in which lines of a terminal session are empty, so that lines keep numbers.

    Only lines before the first and after the last line of another kind are taken for such lines. A
    `FormatWarning` gives their number.
    """
    text, controls = _CONTROL.subn("", text)
    lines = text.split("\n")
    count = len(lines)
    before = _session(lines, range(count))
    found = before + _session(lines, range(count - 1, len(before), -1))[::-1]
    shown = few([f"{lines[at].strip()[:60]!r} in line {at + 1}" for at in found])
    what = [f"{count_text(len(found), 'line')} of a terminal session ({shown})"] if found else []
    what += [f"{count_text(controls, 'control sequence')} of a terminal"] if controls else []
    if what:
        warn(file, f"left out: {' and '.join(what)}")
    for at in found:
        lines[at] = ""
    return "\n".join(lines) if what else text


def _session(lines: list[str], order: Iterable[int]) -> list[int]:
    """Return the lines of a session in front of the first other line, in an order of lines."""
    found = []
    for at in order:
        line = lines[at].rstrip()
        if not _SESSION.fullmatch(line):
            break
        if line and not line.lstrip().startswith("#"):
            found.append(at)
    return found
