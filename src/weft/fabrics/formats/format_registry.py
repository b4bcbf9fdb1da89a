"""The registries of file formats.

A format is added by a file with one function per direction::

    @reader("pairs", suffixes=(".pairs",), sniff=lambda text: text.startswith("pairs"))
    def read(text: str, file: str) -> Netlist: ...

    @writer("pairs", suffixes=(".pairs",))
    def write(fabric: Fabric) -> str: ...

A reader returns a `Fabric`, or a `weft.fabrics.formats.netlist.Netlist`, which can be merged with
what other files say of the same fabric. Further parameters of the function are the format's
options. A reader raises `InputError` with the file and line of an error; a writer raises
`NotApplicable` if the format cannot hold the fabric. Both issue a `FormatWarning` for content that
they leave out or assume.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from weft.core.counts import counted
from weft.core.errors import NotApplicable
from weft.core.registry import Registry
from weft.core.severity import Severity

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


#: Kind of the warning that cables got the default rate for want of one in the file.
ASSUMED_RATE = "assumed rate"


class FormatWarning(UserWarning):
    """Warning that content of a file was left out, assumed, repaired, or contradicts another.

    Parameters
    ----------
    message
        File and what happened, in words.
    kind
        One or two words that are the same for all warnings of this kind, such as ``repaired``.
    items
        Lines, ports or names of everything that the message counts.
    severity
        Whether the fabric itself has a fault (``error`` or ``warning``), or only what is known of
        it (``note``).
    lost
        Number of cables that the file has and the fabric lacks.
    """

    def __init__(
        self,
        message: str,
        kind: str = "reading",
        items: tuple[str, ...] = (),
        severity: Severity = "note",
        lost: int = 0,
    ) -> None:
        self.kind, self.items, self.severity, self.lost = kind, items, severity, lost
        super().__init__(message)


def warn(file: str, message: str, **facts: Any) -> None:
    """Issue a `FormatWarning` about a file; `facts` are further arguments of the warning."""
    warnings.warn(FormatWarning(f"{file}: {message}", **facts), stacklevel=3)


def warn_of(file: str, items: Sequence[str], noun: str, what: str, **facts: Any) -> None:
    """Issue a `FormatWarning` that counts items and names a few of them, if there are any."""
    if items:
        message = f"{file}: {counted(items, noun, what)}"
        warnings.warn(FormatWarning(message, items=tuple(items), **facts), stacklevel=3)


def one_line(text: str, what: str) -> str:
    """Return the text after checking that it fits on one line of a text file."""
    match = _UNPRINTABLE.search(text)
    if match:
        raise NotApplicable(f"{what} {text!r} has the unprintable character {match[0]!r}")
    return text


def printable(text: str) -> str:
    """Return the text with unprintable characters replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)
