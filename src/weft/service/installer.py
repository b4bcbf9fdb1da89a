"""Installation of tables in OpenSM, in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.routing_keys.alternatives import InstalledKey


@dataclass(frozen=True)
class Loaded:
    """Tables that OpenSM has loaded."""

    seconds: float


class Installer:
    """A subnet manager; see the module."""

    async def look(self) -> tuple[int, ...] | None:
        """Return the cables that OpenSM no longer sees; None if nothing has changed."""
        raise NotImplementedError

    async def install(self, keys: Sequence[InstalledKey], missing: tuple[int, ...]) -> Loaded:
        """Load tables with the paths of keys."""
        raise NotImplementedError

    def close(self) -> None:
        """End the process."""
