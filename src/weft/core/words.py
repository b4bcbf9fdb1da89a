"""Names in the text of options and messages: quotes around them, and short lists of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from weft.core.errors import InputError

#: Names of a list that a message prints before it gives their number.
FEW = 3
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
#: What no option, spec or host list takes apart.
_BARE = re.compile(r"(?!0[xX])[\w./+-]+")


def few(items: Sequence[object], most: int = FEW) -> str:
    """The first items, comma-separated, and how many more there are."""
    more = len(items) - most
    return ", ".join(map(str, items[:most])) + (f" and {more:,} more" if more > 0 else "")


def quoted(text: str) -> str:
    """A text as options and host lists take it, in double quotes where it needs them.

    Inside the quotes a double quote is written twice, and nothing else is special.
    """
    return text if _BARE.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def unquoted(text: str) -> str:
    """The text that `quoted` wrote; one that does not begin with a quote is itself.

    Raises
    ------
    InputError
        When something follows the closing quote.
    """
    if not text.startswith('"'):
        return text
    match = _QUOTED.fullmatch(text)
    if match is None:
        raise InputError(f"{text}: expected nothing after the closing quote")
    return match[1].replace('""', '"')


def split_quoted(text: str, separators: str, *, opening: str = ",;=") -> Iterator[str]:
    """Split a text at separators that stand outside quotes, and leave the quotes in.

    Parameters
    ----------
    text
        What to split.
    separators
        The characters that separate.
    opening
        A quote opens at the start of the text and after one of these characters or of
        `separators`, with or without spaces between; elsewhere it stands for itself.

    Raises
    ------
    InputError
        When a quote is not closed.
    """
    start = at = 0
    opens = True
    while at < len(text):
        if text[at] == '"' and opens:
            at = quote_end(text, at)
            opens = False
            continue
        if text[at] in separators:
            yield text[start:at]
            start = at + 1
        opens = text[at] in opening or text[at] in separators or (opens and text[at].isspace())
        at += 1
    yield text[start:]


def quote_end(text: str, start: int) -> int:
    """Index behind the closing quote of the quote that opens at `start`.

    Raises
    ------
    InputError
        When it is not closed.
    """
    match = _QUOTED.match(text, start)
    if match is None:
        raise InputError(f"{text}: the quote before {text[start + 1 : start + 21]!r} is not closed")
    return match.end()
