"""Lines of a terminal session around the output of a program that was captured in a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from weft.core.counts import count_text
from weft.core.words import few
from weft.fabrics.formats.format_registry import warn

#: Colours, titles and modes, which programs such as ``script`` record.
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][AB0]|[=>])\r?"
)
#: Usual widths of terminals.
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
_NAMED = (
    r"(?:\([^()\"]+\) )?"  # a virtual environment
    r"(?:\[(?!\d+\])[^\]\"]+\] ?[#$%>]|[\w.-]++@[\w.-][^\"<>#$%]*[#$%>]"
    r"|[\w.-]+:[~/][^\s\"<>#$%]* ?[#$%>]|\w*sh(?:-[\d.]+)?[#$%]"
)
_SESSION = re.compile(
    _NAMED + r"|[\w.-]*[%>]|PS [A-Z]:[^\"<>]*>"
    r"|[$❯➜])(?: .*)?"
    r"|=~=.*PuTTY log .*|Script (?:started|done)\b.*|Last login: .*|login as: .*"
    r"|.*\b[Pp]assword: ?|(?>.*?\b[Pp]assword for ).*: ?"
    r"|Connection to .* closed\.?|exit|logout|\s*(?:#.*)?"
)
#: A program of infiniband-diags after a prompt: what stands before the first one is the greeting of
#: a host, unless it has GUIDs.
_COMMAND = re.compile(_NAMED + r") ?(?:sudo )?(?:/\S*/)?(?:ib\w+|saquery)\b.*")
_GUID = re.compile(r"[0-9a-fA-F]{12}")
#: Most lines of a greeting.
_MOST_LINES = 500


def without_session(text: str, file: str) -> str:
    """Return a text in which lines of a terminal session are empty, so that lines keep numbers.

    Only lines before the first and after the last line of another kind are taken for such lines,
    and the greeting of a host before the first command. A `FormatWarning` gives their number.
    """
    text, controls = _CONTROL.subn("", text)
    text, breaks = _PAGER.subn("", text)
    lines = text.split("\n")
    count = len(lines)
    first = (at for at in range(min(count, _MOST_LINES)) if _COMMAND.fullmatch(lines[at].rstrip()))
    greeting = range(next(first, 0))
    if any(_GUID.search(lines[at]) for at in greeting):
        greeting = range(0)
    before = [at for at in greeting if lines[at].strip()]
    before += _session(lines, range(len(greeting), count))
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
    lines do (`start`), and the result is complete. The width is that of the longest line, or one
    more if a blank at the end of each is lost; if it could be either, names are not joined.
    """
    if all(not line or start.match(line) for line in lines):
        return lines
    full = max(len(line.expandtabs()) for line in lines)
    found = [_joined(lines, start, complete, width) for width in (full, full + 1)]
    unknown = len(found[0]) == len(found[1]) and not {full, full + 1} & {*_WIDTHS}
    wider = full not in _WIDTHS and (full + 1 in _WIDTHS or len(found[1]) > len(found[0]))
    joined = [each for each in found[wider] if not (unknown and each.within_name)]
    lines = list(lines)
    for each in joined:
        lines[each.at : each.end + 1] = [each.text] + [""] * (each.end - each.at)
    if joined:
        items = tuple(f"line {each.at + 1}" for each in joined)
        warn(
            file,
            f"joined again: {count_text(len(joined), 'line')} that a terminal wrapped at "
            f"{full + wider} columns ({few(items)})",
            kind="repaired", items=items,
        )  # fmt: skip
    return lines


class _Joined(NamedTuple):
    """The lines `at` to `end` as one."""

    at: int
    end: int
    text: str
    within_name: bool


def _joined(
    lines: list[str], start: re.Pattern[str], complete: Callable[[str], object], full: int
) -> list[_Joined]:
    """Return the complete lines that a terminal of this width wrapped."""
    found = []
    at = 0
    while at < len(lines):
        end, text, within = at, lines[at], False
        while text and end + 1 < len(lines) and lines[end + 1] and len(text) < _LONGEST:
            gap = full - len(lines[end].expandtabs())
            name = any(text.count(quote) % 2 for quote in "'\"")
            if start.match(lines[end + 1]) or gap > (1 if name else _BLANKS):
                break
            end, text, within = end + 1, text + " " * gap + lines[end + 1], within or name
        # A name has ended in a line that is complete by itself.
        rest = text[len(lines[at]) :] if end > at and complete(lines[at]) else ""
        if end > at and complete(text) and not {'"', "'"} & set(rest):
            found.append(_Joined(at, end, text, within))
        at = end + 1
    return found
