"""Length of a tick of PortXmitWait, by the generation of the switch.

PortXmitWait counts ticks in which a port had data to send and sent none. InfiniBand leaves their
length to the device. The rules are those of NVIDIA's manual of ibdiagnet ("Congestion Assessment
on InfiniBand Links"): Quantum, Quantum-2 and Quantum-3 count the time of 8 bytes of the port;
SwitchX, Switch-IB and Switch-IB 2 that of 32 bytes of each lane. Of adapters it says nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.units import RATE_NAMES
from weft.fabrics import Fabric

#: Device ids of switches.
_QUANTUM = (0xD2F0, 0xD2F2, 0xD2F4)
_SWITCH_IB = (0xC738, 0xCB20, 0xCF08)
#: Speeds that of all switches only the Quantum generations have.
_QUANTUM_SPEEDS = ("HDR", "NDR", "XDR")

#: Rules, in the order of the numbers that `tick_rules` returns.
RULES = (
    "",
    "as the reading says",
    "8 bytes of the port (Quantum)",
    "8 bytes of the port (HDR and faster: Quantum)",
    "32 bytes of each lane (SwitchX, Switch-IB)",
)
STATED = 1


def tick_rules(fabric: Fabric) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Return what each port could send in a tick, in bytes, and the rule that tells.

    Returns float64 [slots], NaN where unknown, and int8 [slots]: index in `RULES`.
    """
    nodes = fabric.slot_node
    link = fabric.port_link
    names = np.array([name.partition("x") for name in RATE_NAMES], dtype=object)[:, [0, 2]]
    code = np.where(link >= 0, fabric.cable_rate_code[link >> 1] if fabric.num_cables else 0, 0)
    lanes = np.array([int(width or 0) for width in names[:, 0]])[code]
    fast = np.isin(names[:, 1].astype(str), _QUANTUM_SPEEDS)[code]
    device = fabric.device_id[nodes]
    rule = np.zeros(len(nodes), dtype=np.int8)
    switch = nodes < fabric.num_switches
    rule[switch & fast & (device == 0)] = 3
    rule[switch & np.isin(device, _QUANTUM)] = 2
    rule[switch & np.isin(device, _SWITCH_IB) & (lanes > 0)] = 4
    return np.choose(rule, [*np.array([[np.nan], [np.nan], [8.0], [8.0]]), 32.0 * lanes]), rule
