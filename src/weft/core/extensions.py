"""What other distributions add to weft: objects that they declare under an entry-point group."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from weft.core.errors import PluginWarning

T = TypeVar("T")


def extensions(group: str, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Yield names and objects of an entry-point group; leave out with a warning what is broken."""
    for point in entry_points(group=group):
        try:
            found = point.load()
            if not isinstance(found, kind):
                raise TypeError(f"expected a {kind.__name__}, not a {type(found).__name__}")
        except (Exception, SystemExit) as error:
            warn_of(point, error)
        else:
            yield point.name, found


def warn_of(point: EntryPoint, error: BaseException) -> str:
    """Warn that a plug-in cannot be loaded, and return the reason."""
    source = f"{point.dist.name} {point.dist.version}" if point.dist else "an installation"
    text = " ".join(f"{type(error).__name__}: {error}".split())
    reason = f"plug-in {point.name!r} of {source} ({point.value}) cannot be loaded: {text}"
    warnings.warn(f"{reason}; everything else works", PluginWarning, stacklevel=3)
    return reason
