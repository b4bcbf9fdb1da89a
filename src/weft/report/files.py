"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import InputError


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Give a temporary name beside the file, which takes the file's name at the end.

    Raises
    ------
    InputError
        When the folder does not exist or cannot be written to.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; expected the name of a file to write")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from None
    os.close(handle)
    part = Path(name)
    try:
        yield part
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)  # mkstemp makes it private
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
