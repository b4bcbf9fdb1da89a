"""Text files: read with checks, and written atomically."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import secrets
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO
from weakref import WeakSet

from weft.core.errors import STANDARD_INPUT, InputError

#: Characters around names of files in specs such as ``file:lfts_file=tables.dump,lmc=1``.
_AROUND = re.compile('[:=,;"]')
_OPTION = re.compile(r"(\w+)\s*[:=]\"?$")
#: Bytes at the beginning of a file in which the first entry of a list of files is searched.
_HEAD_BYTES = 10_000

#: First bytes of binary files, and what they are.
_MAGIC = {
    b"\x1f\x8b": "compressed by gzip; unpack it first",
    b"BZh": "compressed by bzip2; unpack it first",
    b"\xfd7zXZ": "compressed by xz; unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; unpack it first",
    b"PK\3\4": "a zip archive; unpack it first",
    b"\x7f\x10\0\0\0\0\0\0": "a binary GOAL schedule, which is a workload",
}
#: Standard input streams that have been read.
_read: WeakSet[TextIO] = WeakSet()


def read_text(path: str | Path, *, utf16: bool = False) -> str:
    """Return the contents of a text file or pipe, or of standard input if the path is ``-``.

    `utf16`: accept UTF-16 with a byte order mark, which spreadsheets export, as well as UTF-8.
    """
    return decoded(read_bytes(path), path, utf16=utf16)


def read_bytes(path: str | Path) -> bytes:
    """Return the contents of a file or pipe, or of standard input if the path is ``-``."""
    try:
        if str(path) in STANDARD_INPUT:
            data = _standard_input()
        else:
            mode = os.stat(path).st_mode
            if stat.S_ISDIR(mode):
                raise InputError("is a folder, not a file", file=path)
            if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
                raise InputError("is a device, not a file", file=path)
            data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    except ValueError:
        raise InputError(f"{str(path)!r} is not a file name") from None
    return data


def decoded(data: bytes, path: str | Path, *, utf16: bool = False) -> str:
    """Return the text of a file with these contents; `path`, `utf16`: as in `read_text`."""
    if not data or data.isspace():
        raise InputError("is empty", file=path)
    if what := next((what for magic, what in _MAGIC.items() if data.startswith(magic)), ""):
        raise InputError(f"is {what}", file=path)
    if utf16 and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        with contextlib.suppress(UnicodeDecodeError):
            data = data.decode("utf-16").encode()
    if b"\0" in data:
        raise InputError("is a binary file; expected text in UTF-8", file=path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"byte {data[error.start]:#04x} is not UTF-8; expected text in UTF-8",
            file=path,
            line=line,
        ) from None


def parse_toml(text: str, path: str | Path) -> dict[str, Any]:
    """Parse the text of a TOML file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at ")
        at = re.fullmatch(r"line (\d+), column (\d+)\)", where)
        line = int(at[1]) if at else len(text.rstrip().split("\n"))
        column = f", column {at[2]}" if at else ""
        raise InputError(f"is not valid TOML: {what}{column}", file=path, line=line) from None
    except RecursionError:
        raise InputError("is nested too deeply", file=path) from None
    except ValueError:
        raise InputError("has a number of thousands of digits", file=path) from None


def each_text(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """Return tables and lists with other texts; `change` takes a text and the key that has it."""
    kind = type(value)
    if kind is str:
        return change(value, key)
    if kind is dict:
        return {name: each_text(each, change, name) for name, each in value.items()}
    if kind is list or kind is tuple:
        return kind(each_text(each, change, key) for each in value)
    return value


def is_source(text: str | Path) -> bool:
    """Return whether a text names an existing file or folder, or standard input."""
    return str(text) in STANDARD_INPUT or os.path.exists(text)


def files_in_spec(spec: str, is_file: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield beginning and end of each name of a file among the arguments of a spec.

    A name has a full stop or a slash, or an option in front that takes a file, so that no other
    value is taken for one. Of several possible names, as in ``paths=a,b.txt``, it is the longest.

    `spec`: text such as ``file:lfts_file=tables.dump,lmc=1``. `is_file`: function that returns
    whether a name is that of a file.
    """
    ends = [match.start() for match in _AROUND.finditer(spec)]
    done = 0
    for start in (place + 1 for place in ends):
        option = _OPTION.search(spec, 0, start)
        named = option is not None and names_file(option[1])
        for end in (len(spec), *reversed(ends)):
            name = spec[start:end]
            if start >= done and name and (named or "." in name or "/" in name) and is_file(name):
                done = end
                yield start, end
                break


def names_file(option: str, needs: str = "") -> bool:
    """Return whether an option of a spec is the name of a file; `needs` is another one that is."""
    return option in ("file", "path", "flows", "paths", needs) or option.endswith("_file")


def renamed_spec(spec: str, find: Callable[[str], str | None]) -> str:
    """Return a spec with other names of its files.

    `spec`: text such as ``file:lfts_file=tables.dump,lmc=1``. `find`: function that returns the new
    name of a file, or None if a text is no name of a file.
    """
    from weft.core.words import quoted  # imported late: `weft store ls` needs no NumPy

    parts, done = [], 0
    for start, end in files_in_spec(spec, lambda name: find(name) is not None):
        name = find(spec[start:end]) or ""
        parts += [spec[done:start], name if spec[start - 1] == '"' else quoted(name)]
        done = end
    return "".join([*parts, spec[done:]])


def named_by(name: str, path: Path) -> Path:
    """Return the path of a file that a list of files names.

    `path`: the list, or a folder: relative names are searched beside it or in it, then in the
    working folder.
    """
    beside = (path if path.is_dir() else path.parent) / name
    return beside if file_exists(beside) else Path(name)


def file_exists(path: Path) -> bool:
    """Return whether a file exists; no file has a name that is not valid, such as a long one."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def listed_files(path: Path) -> list[Path]:
    """Return the existing files that a list of files names, one per line.

    A file is a list if its first line, apart from empty lines and comments, names a file.
    """
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
        first = next(_entries(head), "")
        if not first or b"\0" in head or not named_by(first, path).is_file():
            return []
        found = (named_by(name, path) for name in _entries(head + stream.read()))
        return [each for each in found if file_exists(each) and each.is_file()]


def _entries(data: bytes) -> Iterator[str]:
    for line in data.decode("utf-8", "replace").split("\n"):
        entry = line.strip()
        if entry and not entry.startswith("#"):
            yield entry


def _standard_input() -> bytes:
    """Read all of standard input; refuse to read it twice."""
    stream = sys.stdin
    if stream is None or stream.closed:
        raise InputError("is closed", file=STANDARD_INPUT[0])
    if stream.isatty():
        raise InputError("is a terminal; pipe a file into it", file=STANDARD_INPUT[0])
    if stream in _read:
        raise InputError("can be read only once", file=STANDARD_INPUT[0])
    _read.add(stream)
    return stream.buffer.read()


def write_text(path: str | Path, text: str, *, follow: bool = True) -> None:
    """Write a text file as UTF-8; see `write_bytes`."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("cannot be written: unpaired surrogate in a name", file=path) from None
    write_bytes(path, data, follow=follow)


def make_folder(path: str | Path) -> Path:
    """Create a folder if it does not exist, and return its path."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the output folder: {error.strerror}", file=path) from None
    return folder


def write_with(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file with a function that takes a stream of bytes; see `write_bytes`."""
    data = io.BytesIO()
    try:
        write(data)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=path) from None
    write_bytes(path, data.getvalue())


def write_bytes(path: str | Path, data: bytes, *, follow: bool = True) -> None:
    """Write a file under a temporary name, then rename it over an existing file.

    A link is followed, or replaced itself if `follow` is false.
    """
    with written_aside(path, follow=follow) as stream:
        stream.write(data)


@contextlib.contextmanager
def written_aside(path: str | Path, *, follow: bool = True) -> Iterator[BinaryIO]:
    """Open a file under a temporary name; at the end, rename it over an existing file.

    Pipes and devices such as ``/dev/stdout`` are written to directly. With `follow` false, links,
    pipes and devices are replaced.
    """
    try:
        if str(path) in STANDARD_INPUT:
            raise InputError("cannot be written; expected a file", file=path)
        try:
            target = Path(path).resolve() if follow else Path(path)
        except ValueError:
            raise InputError(f"{str(path)!r} is not a file name") from None
        if follow and target.exists() and not target.is_file():
            if target.is_dir():
                raise InputError("is a folder, not a file", file=path)
            with target.open("wb") as stream:
                yield stream
            return
        # A killed process may have left a file, and another may have its number now.
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            with temporary.open("xb") as stream:
                yield stream
            if target.is_file():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=path) from None
