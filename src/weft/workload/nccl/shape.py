"""`Shape`: the members of a communicator by machine and adapter, as NCCL's topology has them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.workload.places import Places

Ints = NDArray[np.int64]

#: Rate of the adapters of machines of which nothing is known.
UNKNOWN_GBPS = 400.0


@dataclass(frozen=True, eq=False)
class Shape:
    """Members of a communicator by machine and adapter.

    Parameters
    ----------
    machine
        int64 [members]: machine of each member, from 0 in the order of their first members.
    processor, adapter
        int64 [members]: processor of each member in its machine, and the adapter near it.
    adapter_rate, inside_rate
        Rate of an adapter, and of a member to the others of its machine, in GB/s.
    nvlink, reduces
        Whether a scale-up network connects members, and whether its switches reduce and multicast.
    """

    machine: Ints
    processor: Ints
    adapter: Ints
    adapter_rate: float
    inside_rate: float
    nvlink: bool
    reduces: bool

    @classmethod
    def of(cls, places: Places, members: Ints) -> Shape:
        """Return the shape of the communicator of some ranks, int64 [members].

        Raises
        ------
        InputError
            If two members are on one processor, which NCCL refuses.
        """
        machine, processor = places.machine[members], places.processor[members]
        if np.unique([machine, processor], axis=1).shape[1] < len(members):
            raise InputError(
                "several ranks are on one processor, which NCCL refuses; expected a placement of "
                "one rank on each"
            )
        _, first, number = np.unique(machine, return_index=True, return_inverse=True)
        machine = np.argsort(np.argsort(first))[number]
        model = places.model
        if model is None:
            return cls(machine, processor, 0 * machine, UNKNOWN_GBPS / 8, 0.0, False, False)
        near = np.asarray(model.near, dtype=np.int64)[processor % model.processors]
        inside = model.scale_up_gbps or model.pcie_gbps
        nvlink = bool(model.scale_up_gbps)
        return cls(
            machine, processor, near, model.adapter_gbps / 8, inside / 8, nvlink, model.reduces
        )

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.machine)

    @cached_property
    def local(self) -> list[Ints]:
        """Members of each machine, in the order of processors."""
        order = np.lexsort((self.processor, self.machine))
        return np.split(order, np.cumsum(np.bincount(self.machine))[:-1])

    @property
    def machines(self) -> int:
        """Number of machines."""
        return len(self.local)

    @property
    def fewest(self) -> int:
        """Fewest members of a machine."""
        return min(map(len, self.local))

    @cached_property
    def rails(self) -> int:
        """Fewest adapters near the members of a machine."""
        return min(len(np.unique(self.adapter[local])) for local in self.local)

    def chain(self, machine: int, channel: int) -> Ints:
        """Return the members of a machine in the order of a channel.

        The channel enters at the first member, which is near the channel's adapter. A further
        member near this adapter is the last, so that the channel can leave there.
        """
        local = self.local[machine]
        near = self.adapter[local]
        adapters = np.unique(near)
        order = np.roll(local, -int(np.argmax(near == adapters[channel % len(adapters)])))
        at = int(np.flatnonzero(self.adapter[order] == self.adapter[order[0]])[-1])
        return order if at == 0 else np.append(np.delete(order, at), order[at])

    def relay(self, source: int, adapter: int) -> int:
        """Return the member in the machine of `source` that is near an adapter; -1 if none is."""
        local = self.local[self.machine[source]]
        near = local[self.adapter[local] == adapter]
        return int(near[0]) if len(near) else -1
