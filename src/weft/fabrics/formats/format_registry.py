"""The registries of file formats.

A format is added by a file with one function per direction::

    @reader("pairs", suffixes=(".pairs",), sniff=lambda text: text.startswith("pairs"))
    def read(text: str, file: str) -> Fabric: ...

    @writer("pairs", suffixes=(".pairs",))
    def write(fabric: Fabric) -> str: ...

Further parameters of the function are the format's options. A reader raises `InputError` with the
file and line of what it cannot use; a writer raises `NotApplicable` when the fabric has something
that the format cannot state. What either leaves out on purpose is a `FormatWarning`.
"""

from __future__ import annotations

import re
import warnings

from weft.core.errors import NotApplicable
from weft.core.registry import Registry

#: Facts of a reader: `suffixes` of its files and `sniff`, which tells from a text if it is one.
reader = Registry(
    "readable format",
    "weft.fabrics.formats",
    "weft.readers",
    ("text", "file"),
    ("suffixes", "sniff"),
)
#: Fact of a writer: `suffixes` of its files.
writer = Registry(
    "writable format", "weft.fabrics.formats", "weft.writers", ("fabric",), ("suffixes",)
)

#: Also the two non-characters that no XML file may hold.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class FormatWarning(UserWarning):
    """A file was read or written, and something in it was left out or assumed."""


def warn(file: str, message: str) -> None:
    """Issue a `FormatWarning` about a file."""
    warnings.warn(f"{file}: {message}", FormatWarning, stacklevel=3)


def one_line(text: str, what: str) -> str:
    """The text, when it fits on one line of a text file.

    Raises
    ------
    NotApplicable
        With `what` as its subject, when the text has a line break, another control character, or
        half a surrogate pair.
    """
    found = _UNPRINTABLE.search(text)
    if found:
        raise NotApplicable(f"{what} {text!r} has the unprintable character {found[0]!r}")
    return text


def printable(text: str) -> str:
    """The text with unprintable characters shown as U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)
