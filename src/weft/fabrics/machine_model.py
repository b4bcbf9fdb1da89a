"""`MachineModel`: what is inside one machine: processors, what connects them, and adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MachineModel:
    """Structure of the machines of a fabric, all of one model.

    A *processor* (a GPU, or a socket of CPUs) is a host of the fabric, on which ranks run. Its
    first port leads to the scale-up network, if there is one, and its last port to its near
    adapter: directly to a leaf switch, or to a PCIe switch that processors share.

    Parameters
    ----------
    name
        Name of the model, such as ``dgx-h100``.
    source
        Public source of the values.
    kind
        ``gpu`` or ``cpu``.
    processors
        Number of processors of a machine.
    adapters
        Number of adapters of a machine.
    near
        For each processor, the adapter that is near it, from 0.
    adapter_gbps
        Rate of an adapter, which must be that of its cable.
    scale_up_gbps
        Rate of a processor to the scale-up network (NVSwitch), in each direction; 0 if there is
        none.
    scale_up_latency_ns
        Latency from processor to processor over the scale-up network.
    reduces
        Whether switches of the scale-up network reduce and multicast (NVLink SHARP).
    pcie_gbps
        Rate of a processor to its PCIe switch, in each direction.
    pcie_latency_ns
        Latency from a processor to its adapter.
    between_gbps
        Rate between two PCIe switches of a machine without a scale-up network, such as that of the
        links between sockets.
    """

    name: str
    source: str
    kind: Literal["gpu", "cpu"]
    processors: int
    adapters: int
    near: tuple[int, ...]
    adapter_gbps: float
    scale_up_gbps: float = 0.0
    scale_up_latency_ns: float = 0.0
    reduces: bool = False
    pcie_gbps: float = 0.0
    pcie_latency_ns: float = 0.0
    between_gbps: float = 0.0
