"""`Places`: the machines and processors on which ranks run, for workloads that depend on them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import Fabric
from weft.fabrics.machine_model import MachineModel


@dataclass(frozen=True, eq=False)
class Places:
    """Machine and processor of each rank of a job.

    Parameters
    ----------
    machine
        int64 [ranks]: number of each rank's machine; machines are numbered from 0 in the order of
        their first ranks.
    processor
        int64 [ranks]: index of the rank's host in its machine, in the order of devices.
    model
        Model of the machines; None if their inside is not known.
    """

    machine: NDArray[np.int64]
    processor: NDArray[np.int64]
    model: MachineModel | None = None

    @classmethod
    def of(cls, fabric: Fabric, hosts: NDArray[np.int32]) -> Places:
        """Return the places of ranks on hosts of a fabric, `hosts` [ranks]."""
        _, first, number = np.unique(
            fabric.machine_of_host[hosts], return_index=True, return_inverse=True
        )
        order = np.argsort(np.argsort(first))
        return cls(
            order[number].astype(np.int64), fabric.ordinal_of_host[hosts], fabric.machine_model
        )

    @property
    def digest(self) -> str:
        """Hash of machines, processors and model."""
        data = self.machine.tobytes() + self.processor.tobytes() + repr(self.model).encode()
        return hashlib.sha256(data).hexdigest()

    @classmethod
    def one_each(cls, num_ranks: int) -> Places:
        """Return places of ranks of which each has a machine of its own."""
        return cls(np.arange(num_ranks), np.zeros(num_ranks, dtype=np.int64))
