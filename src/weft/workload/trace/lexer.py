"""Tokens of a trace file."""

from __future__ import annotations

import re
from typing import NamedTuple

from weft.workload.trace.errors import FilePosition, TraceError

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\f]+)
    | (?P<newline>\n)
    | (?P<comment>\#[^\n]*)
    | (?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?[A-Za-zµ]*)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<string>"[^"\n]*")
    | (?P<operator>\.\.|//|\*\*|==|!=|<=|>=|[-+*/%<>=(),:\[\]])
    """,
    re.VERBOSE | re.ASCII,
)
#: Characters of other languages and their equivalents.
_OTHER = {"!": "not", "&": "and", "|": "or", "^": "xor(a, b)", "'": '"', ";": "a new line"}


class Token(NamedTuple):
    """One token: its kind (number, name, string, operator, newline, end) and its text."""

    kind: str
    text: str
    line: int
    column: int
    #: For a newline or the end of the file, the comment before it.
    comment: str = ""
    #: Offset in the text after the token; an adjacent token begins there.
    end: int = 0

    @property
    def place(self) -> FilePosition:
        """Line and column of the token."""
        return FilePosition(self.line, self.column)

    def __str__(self) -> str:
        if self.kind == "newline":
            return "the end of the line"
        return "the end of the file" if self.kind == "end" else repr(self.text)


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text; the last is of the kind ``end``.

    A line continues while a parenthesis or bracket is open; its comments are joined at its end.
    """
    result: list[Token] = []
    position, line, start = 0, 1, 0
    open_brackets: list[Token] = []
    comments: list[str] = []
    match = _TOKEN.match
    while position < len(text):
        token_match = match(text, position)
        place = FilePosition(line, position - start + 1)
        if token_match is None:
            raise TraceError(_unknown(text[position]), place)
        kind, word = token_match.lastgroup or "", token_match.group()
        position = token_match.end()
        if kind == "space":
            continue
        if kind == "comment":
            comments.append(word[1:].strip())
            continue
        if kind == "newline":
            line, start = line + 1, position
            if open_brackets:
                continue
            result.append(Token(kind, word, *place, " ".join(filter(None, comments)), position))
            comments.clear()
            continue
        token = Token(kind, word, *place, "", position)
        if word in ("(", "["):
            open_brackets.append(token)
        elif word in (")", "]"):
            _close(open_brackets, token)
        result.append(token)
    if open_brackets:
        raise TraceError(f"{open_brackets[-1].text!r} is never closed", open_brackets[-1].place)
    place = FilePosition(line, position - start + 1)
    result.append(Token("end", "", *place, " ".join(filter(None, comments)), position))
    return result


def _close(open_brackets: list[Token], token: Token) -> None:
    partner = {")": "(", "]": "["}[token.text]
    if not open_brackets:
        raise TraceError(f"{token.text!r} has no opening bracket", token.place)
    if open_brackets[-1].text != partner:
        raise TraceError(f"{token.text!r} does not close {open_brackets[-1].text!r}", token.place)
    open_brackets.pop()


def _unknown(character: str) -> str:
    if character == '"':
        return 'a text that begins with " must end on the same line'
    hint = f"; use {_OTHER[character]} instead" if character in _OTHER else ""
    return f"unexpected character {character!r}{hint}"
