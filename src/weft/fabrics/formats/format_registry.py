"""The registries of file formats.

A format is added by a file with one function per direction::

    @reader("pairs", suffixes=(".pairs",), sniff=lambda text: text.startswith("pairs"))
    def read(text: str, file: str) -> Fabric: ...

    @writer("pairs", suffixes=(".pairs",))
    def write(fabric: Fabric) -> str: ...

Further parameters of the function are the format's options. A reader raises `InputError` with the
file and line of an error; a writer raises `NotApplicable` if the format cannot hold the fabric.
Both issue a `FormatWarning` for content that they leave out or assume.
"""

from __future__ import annotations

import re
import warnings

from weft.core.errors import NotApplicable
from weft.core.registry import Registry

#: Readers. Each has the facts `suffixes` (of its files) and `sniff`, which tells whether a text is
#: in the format.
reader = Registry(
    "readable format",
    "weft.fabrics.formats",
    "weft.readers",
    ("text", "file"),
    ("suffixes", "sniff"),
)
#: Writers. Each has the fact `suffixes` (of its files).
writer = Registry(
    "writable format", "weft.fabrics.formats", "weft.writers", ("fabric",), ("suffixes",)
)

#: Control characters, surrogates, and the two non-characters that XML does not allow.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class FormatWarning(UserWarning):
    """Warning that content of a file was left out or assumed."""


def warn(file: str, message: str) -> None:
    """Issue a `FormatWarning` about a file."""
    warnings.warn(f"{file}: {message}", FormatWarning, stacklevel=3)


def one_line(text: str, what: str) -> str:
    """Return the text after checking that it fits on one line of a text file."""
    match = _UNPRINTABLE.search(text)
    if match:
        raise NotApplicable(f"{what} {text!r} has the unprintable character {match[0]!r}")
    return text


def printable(text: str) -> str:
    """Return the text with unprintable characters replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)
