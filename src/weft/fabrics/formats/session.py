"""Lines of a terminal session around the output of a program that was captured in a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from weft.core.counts import count_text
from weft.core.words import few
from weft.fabrics.formats.format_registry import warn

#: Colours, titles and modes, which programs such as ``script`` record.
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][AB0]|[=>])\r?"
)
#: Usual widths of terminals, of which a line may lack the last blank.
_WIDTHS = (80, 132)
#: Longest line that is joined, and most columns of blanks that are lost at the end of a line.
_LONGEST, _BLANKS = 1000, 40
#: What a pager writes at the end of a screen, and how it removes it.
_PAGER = re.compile(
    r"^(?:-- ?More ?--(?:\(\d+%\))?|\(END\)|lines \d+-\d+(?: \(END\))?)[\x08\r ]*+",
    re.IGNORECASE | re.MULTILINE,
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
    text, breaks = _PAGER.subn("", text)
    lines = text.split("\n")
    count = len(lines)
    before = _session(lines, range(count))
    found = before + _session(lines, range(count - 1, len(before), -1))[::-1]
    shown = few([f"{lines[at].strip()[:60]!r} in line {at + 1}" for at in found])
    what = [f"{count_text(len(found), 'line')} of a terminal session ({shown})"] if found else []
    what += [f"{count_text(controls, 'control sequence')} of a terminal"] if controls else []
    what += [f"{count_text(breaks, 'page break')}"] if breaks else []
    if what:
        items = tuple(f"line {at + 1}" for at in found)
        warn(file, f"left out: {' and '.join(what)}", kind="repaired", items=items)
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


def rejoined(
    lines: list[str], start: re.Pattern[str], complete: Callable[[str], object], file: str
) -> list[str]:
    """Return lines in which those that a terminal wrapped are whole; their rests are empty.

    A line of the full width of the terminal is joined with the next ones if these do not begin as
    lines do (`start`), and the result is complete. The width is that of the longest line. Blanks at
    the end of a line may be lost, but not more than one within a name.
    """
    if all(not line or start.match(line) for line in lines):
        return lines
    width = [len(line.expandtabs()) for line in lines]
    full = max(width) + (max(width) + 1 in _WIDTHS)
    lines, joined = list(lines), []
    at = 0
    while at < len(lines):
        end, text = at, lines[at]
        while text and end + 1 < len(lines) and lines[end + 1] and len(text) < _LONGEST:
            gap = full - width[end]
            within = gap > 1 and any(text.count(quote) % 2 for quote in "'\"")
            if start.match(lines[end + 1]) or gap > _BLANKS or within:
                break
            end += 1
            text += " " * gap + lines[end]
        if end > at and complete(text):
            # A name has ended in a line that is complete by itself.
            rest = text[len(lines[at]) :] if complete(lines[at]) else ""
            if not {'"', "'"} & set(rest):
                lines[at : end + 1] = [text] + [""] * (end - at)
                joined.append(f"line {at + 1}")
        at = end + 1
    if joined:
        warn(
            file,
            f"joined again: {count_text(len(joined), 'line')} that a terminal wrapped at {full} "
            f"columns ({few(joined)})",
            kind="repaired", items=tuple(joined),
        )  # fmt: skip
    return lines
