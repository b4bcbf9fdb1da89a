"""Synthetic traffic of the flit level, which its endpoints generate themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from weft.core.errors import InputError
from weft.core.settings import Group, Number, Option, Seed, Settings, Whole
from weft.workload.patterns import pattern as patterns
from weft.workload.patterns import traffic

#: Largest packet in flits, and largest number of sizes of a mix.
MOST_FLITS, MOST_SIZES = 2**20, 16
#: A cycle after the end of any run.
NEVER = 2**60
_PART = re.compile(r"(\d{1,18})(?::([0-9.]+))?")


def _mix(given: object) -> object:
    """Return sizes and shares of text such as ``1`` or ``1:0.8,5:0.2``."""
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str):
        return given
    parts = [_PART.fullmatch(part.strip()) for part in given.split(",")]
    if not all(parts):
        raise ValueError("expected a size in flits, or sizes with shares as in 1:0.8,5:0.2")
    return tuple((int(part[1]), float(part[2] or 1)) for part in parts if part)


Sizes = Annotated[tuple[tuple[int, float], ...], BeforeValidator(_mix)]


@dataclass(frozen=True)
class Load(Settings):
    """Synthetic traffic of all endpoints; times are cycles.

    Parameters
    ----------
    rate
        Flits that an endpoint generates in a cycle on average, requests only.
    pattern
        Traffic pattern, with options. Endpoints without a flow send nothing. `uniform` draws
        another endpoint for each packet; otherwise an endpoint draws among its flows.
    size
        Flits of a packet, or several sizes with the shares of packets that have them.
    reply
        Flits of the reply to each packet, which uses virtual channels of its own; 0 for no replies.
    warmup
        Cycles before the measurement.
    measure
        Cycles of the measurement.
    seed
        Seed of births, sizes and destinations.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    GROUP: ClassVar[Group] = "workload"

    rate: Annotated[Annotated[Number, Field(gt=0, le=1)], Option(flag="load")] = 0.1
    pattern: Annotated[str, Option(group="first")] = "uniform"
    size: Annotated[Sizes, Option(written=str, usual="1")] = ((1, 1.0),)
    reply: Annotated[Whole, Field(ge=0, le=MOST_FLITS)] = 0
    warmup: Annotated[Whole, Field(ge=0)] = 1000
    measure: Annotated[Whole, Field(ge=1)] = 2000
    seed: Annotated[Seed, Option(group="runs")] = 0

    def check(self) -> None:
        """Refuse sizes that are out of range."""
        sizes = [size for size, _ in self.size]
        if not 1 <= len(sizes) <= MOST_SIZES or not 1 <= min(sizes) <= max(sizes) <= MOST_FLITS:
            raise InputError(
                f"size: expected 1 to {MOST_SIZES} sizes of 1 to {MOST_FLITS:,} flits, not {sizes}",
                key="size",
            )
        if not all(0 < share < np.inf for _, share in self.size):
            raise InputError("size: expected shares above 0", key="size")

    @property
    def size_text(self) -> str:
        """The sizes as text, such as ``1`` or ``1:0.75,5:0.25``."""
        if len(self.size) == 1:
            return str(self.size[0][0])
        return ",".join(f"{size}:{share:g}" for size, share in self.size)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Share of packets of each size."""
        shares = np.array([share for _, share in self.size])
        return np.asarray(shares / shares.sum())

    @property
    def mean_size(self) -> float:
        """Mean size of packets, flits."""
        return float(self.shares @ [size for size, _ in self.size])

    @property
    def smallest(self) -> int:
        """Smallest size of a packet, flits, without replies."""
        return min(size for size, _ in self.size)

    @property
    def largest(self) -> int:
        """Largest size of a packet or reply, flits."""
        return max(self.reply, *(size for size, _ in self.size))

    def targets(self, endpoints: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the destinations among which each endpoint draws; -1 is any other endpoint.

        Returns
        -------
        tuple
            int64 [endpoints + 1]: first entry of each endpoint; int32: destinations.

        Raises
        ------
        InputError, NotApplicable
            If the pattern is unknown or does not exist for this number of endpoints.
        """
        entry, given = patterns.parse(self.pattern)
        if endpoints < 2:
            raise InputError("traffic needs at least two endpoints")
        if entry.name == "uniform" and not given:
            return np.arange(endpoints + 1), np.full(endpoints, -1, dtype=np.int32)
        flows = traffic(endpoints, self.pattern)
        order = np.argsort(flows.sources, kind="stable")
        count = np.bincount(flows.sources, minlength=endpoints)
        offset = np.concatenate([[0], np.cumsum(count)])
        return offset, flows.destinations[order].astype(np.int32)

    def births(self, endpoints: int, sends: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the cycle of the first packet of each endpoint; far away for the silent ones."""
        rate = self.rate / self.mean_size
        first = np.zeros(endpoints, dtype=np.int64)
        if rate < 1:
            draws = np.random.default_rng(self.seed).random(endpoints)
            first[:] = np.minimum(np.floor(np.log1p(-draws) / np.log1p(-rate)), NEVER)
        return np.where(sends, first, NEVER)

    def arrays(self) -> dict[str, Any]:
        """Return the sizes as arrays of `weft.kernels.flit.net.Traffic`."""
        below = np.cumsum(self.shares)
        below[-1] = 1.0
        return {
            "size": np.array([size for size, _ in self.size], dtype=np.int32),
            "size_below": below,
        }
