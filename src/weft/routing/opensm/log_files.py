"""OpenSM's log with what was rotated away, compressed or not, in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from weft.core.errors import InputError
from weft.routing.opensm.osm_log import CONFIGURED, is_log

#: What logrotate appends: a number, a date, or the program that compressed the file.
_ROTATED = re.compile(
    r"opensm\.log(?:\.(?P<number>\d{1,6}|old)|[-.](?P<date>\d{8}(?:[-.]?\d{1,10})?))?"
    r"(?P<packed>\.gz|\.xz|\.bz2|\.zst)?"
)
#: Beginnings of compressed files, and the functions that open them.
_PACKED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ": lzma.open,
    b"BZh": bz2.open,
}
#: Beginning of a compressed file that Python cannot open before version 3.14.
_ZSTD = b"\x28\xb5\x2f\xfd"
#: Bytes at the beginning of a log that are read, for OpenSM's version, and at its end.
HEAD_BYTES, TAIL_BYTES = 2**16, 2**26
#: Largest size of a log after decompression.
MOST_BYTES = 2**33
_AT_ONCE = 2**20


def is_log_name(path: Path) -> bool:
    """Return whether a file has the name of OpenSM's log, rotated or not."""
    return _ROTATED.fullmatch(path.name) is not None


def logs_of(files: Iterable[Path]) -> tuple[Path, ...]:
    """Return the logs among files, oldest first."""

    def age(path: Path) -> tuple[int, str, int]:
        match = _ROTATED.fullmatch(path.name)
        assert match
        if match["number"]:
            return (1, "", -int(match["number"].replace("old", "1")))
        if match["date"]:
            return (0, re.sub(r"\D", "", match["date"]), 0)
        return (2, "", 0 if match["packed"] is None else -1)

    kept: dict[tuple[int, str, int], Path] = {}
    for path in sorted(path for path in files if is_log_name(path)):
        if path.is_file() and path.stat().st_size:
            # A plain file comes before its compressed copy, which may not be complete.
            kept.setdefault(age(path), path)
    return tuple(kept[key] for key in sorted(kept))


def is_packed_log(path: Path) -> bool:
    """Return whether a file is a log that is compressed; others are only read in part."""
    try:
        with path.open("rb") as stream:
            head = stream.read(8)
        way = next((way for magic, way in _PACKED.items() if head.startswith(magic)), None)
        if way is None:
            return False
        with way(path) as stream:
            return is_log(stream.read(HEAD_BYTES).decode(errors="replace"))
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return False


def read_logs(logs: Sequence[Path]) -> tuple[str, str]:
    """Return the text of logs, oldest first, from the last file on that has a whole sweep.

    A sweep may have begun in the file before, so that the text has two sweeps if the logs do. An
    older log that cannot be read ends the text, as does one behind more than `TAIL_BYTES` of newer
    logs; the second result says why, and is empty otherwise.
    """
    text = ""
    for path in reversed(logs):
        if len(text) > TAIL_BYTES:
            return text, f"{path.name}: newer logs have more than {TAIL_BYTES // 2**20} MiB already"
        try:
            text = read_log(path) + text
        except InputError as error:
            if path == logs[-1]:
                raise
            return text, f"{path.name} {error.message}"
        if text.count(CONFIGURED) > 1:
            break
    return text, ""


def read_log(path: Path) -> str:
    """Return the text of a log, of a long one only the beginning and the end."""
    try:
        with path.open("rb") as raw:
            head = raw.read(8)
        if head.startswith(_ZSTD):
            raise InputError("is compressed with zstd: decompress it first", file=path)
        opened = next((way for magic, way in _PACKED.items() if head.startswith(magic)), None)
        with path.open("rb") if opened is None else opened(path) as stream:
            data = _ends(path, stream)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        text = getattr(error, "strerror", None) or "its end is missing or it is damaged"
        raise InputError(f"cannot be read: {text}", file=path) from None
    return data.decode(errors="replace")


def _ends(path: Path, stream: IO[bytes]) -> bytes:
    """Return the first `HEAD_BYTES` and the last `TAIL_BYTES` of a stream."""
    head = stream.read(HEAD_BYTES)
    tail = bytearray()
    size = len(head)
    while part := stream.read(_AT_ONCE):
        size += len(part)
        if size > MOST_BYTES:
            raise InputError(
                f"has more than {MOST_BYTES // 2**30} GiB after decompression", file=path
            )
        tail += part
        if len(tail) > 2 * TAIL_BYTES:
            del tail[:-TAIL_BYTES]
    return head + (b"\n" if size > HEAD_BYTES + len(tail) else b"") + bytes(tail)
