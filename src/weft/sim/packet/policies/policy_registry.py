"""Policies: which candidate a packet takes where its routes leave a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.frozen import read_only
from weft.core.registry import Registry
from weft.fabrics import Fabric
from weft.kernels.packet import choice as kernel
from weft.routes import CandidateRoutes, Routes

#: What policies only read.
_FIXED = (
    "numbers", "reals", "tree_level", "tree_leaf", "tree_pod", "uplink", "table_base", "via",
    "via_set", "links_to", "links_to_via", "turns_on",
)  # fmt: skip

#: What a policy keeps for a fabric and routes, by names of `weft.kernels.packet.choice.Choice`.
Lay = Callable[[Fabric, CandidateRoutes], Mapping[str, NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy, ready to run.

    Parameters
    ----------
    number
        Its number in `weft.kernels.packet.choice`, 0 where there is nothing to choose.
    numbers, reals
        int64 and float64: what it needs to know, by places of that module.
    entries
        Flowlets that each node remembers.
    queue_pairs
        Queue pairs for each pair of ranks.
    reorders
        Packets of a connection may overtake each other.
    by_intermediates
        It may send packets by intermediates.
    watches
        It looks at what links send.
    lay
        Makes arrays of `weft.kernels.packet.choice.Choice` for a fabric and its routes.
    arrays
        What `lay` made.
    goes_round
        The routes have intermediates and the policy uses them.
    """

    number: int = 0
    numbers: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(kernel.NUMBERS, dtype=np.int64)
    )
    reals: NDArray[np.float64] = field(default_factory=lambda: np.zeros(kernel.REALS))
    entries: int = 0
    queue_pairs: int = 1
    reorders: bool = False
    by_intermediates: bool = False
    watches: bool = False
    lay: Lay | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    goes_round: bool = False


class PolicyRegistry(Registry):
    """Policies by name, each a function of options that gives a `Policy`."""


policy = PolicyRegistry("policy", "weft.sim.packet.policies", "weft.policies")


def numbered(**values: int) -> NDArray[np.int64]:
    """Numbers of a policy by the names of their places."""
    made = np.zeros(kernel.NUMBERS, dtype=np.int64)
    for name, value in values.items():
        made[getattr(kernel, name)] = value
    return made


def bind(spec: str, fabric: Fabric, routes: Routes) -> Policy:
    """A policy by its spec, for some routes of a fabric.

    Raises
    ------
    InputError
        On an unknown policy or a wrong option.
    NotApplicable
        When the routes leave a choice and the policy makes none, or the other way round; when
        routes go by intermediates and the policy does not, or the other way round; when the fabric
        is nothing for the policy.
    """
    entry, given = policy.parse(spec)
    made: Policy = entry.function(**policy.bind(entry, given))
    if not isinstance(routes, CandidateRoutes):
        if made.number:
            raise NotApplicable(
                f"{routes.engine} leaves no choice of ways to policy {entry.name}; engines such "
                "as ecmp do"
            )
        return made
    if not made.number:
        raise NotApplicable(
            f"{routes.engine} leaves a choice of ways, and policy {entry.name} makes none; there "
            f"are {', '.join(each.name for each in policy if each.name != entry.name)}"
        )
    if made.by_intermediates and not routes.num_intermediates:
        raise NotApplicable(
            f"policy {entry.name} goes by intermediates, and {routes.engine} has none; engines "
            "such as ugal and valiant do"
        )
    if routes.num_intermediates and not routes.direct and not made.by_intermediates:
        raise NotApplicable(
            f"{routes.engine} sends every packet by an intermediate, and policy {entry.name} sends "
            "them straight; there are valiant and ugal"
        )
    if made.lay is None:
        return made
    return replace(made, arrays=made.lay(fabric, routes), goes_round=made.by_intermediates)


def choice_of(made: Policy, rows: int, links: int) -> kernel.Choice:
    """What the kernel keeps for a policy."""
    entries = max(rows * made.entries, 1)
    kept = made.watches * links
    arrays: dict[str, NDArray[Any]] = {
        "numbers": made.numbers,
        "reals": made.reals,
        "entry_edge": np.full(entries, -1, dtype=np.int32),
        "entry_time": np.full(entries, -1, dtype=np.int64),
        "tree_level": np.zeros(1, dtype=np.int8),
        "tree_leaf": np.zeros(1, dtype=np.int32),
        "tree_pod": np.zeros(1, dtype=np.int32),
        "uplink": np.zeros(1, dtype=np.int16),
        "table_base": np.zeros(1, dtype=np.int64),
        "metric": np.zeros((1, 4), dtype=np.uint8),
        "heard": np.full((1, 2), -1, dtype=np.int64),
        "estimate": np.zeros(max(kept, 1)),
        "tick": np.zeros(max(kept, 1), dtype=np.int64),
        "via": np.zeros(1, dtype=np.int32),
        "via_set": np.zeros((1, 1), dtype=np.int32),
        "links_to": np.zeros((1, 1), dtype=np.uint8),
        "links_to_via": np.zeros((1, 1), dtype=np.uint8),
        "turns_on": np.zeros((1, 1), dtype=np.int32),
    }
    for name, array in made.arrays.items():
        if array.dtype != arrays[name].dtype or array.ndim != arrays[name].ndim:
            raise TypeError(f"{name} of a policy is {array.dtype} of {array.ndim} dimensions")
    arrays.update(made.arrays)
    # Arrays that can be written and those that cannot are types of their own to the compiler.
    for name in _FIXED:
        arrays[name] = read_only(np.ascontiguousarray(arrays[name]).view())
    return kernel.Choice(**arrays)
