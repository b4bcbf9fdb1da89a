"""Policies: which candidate a packet takes where its routes leave a choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import NotApplicable
from weft.kernels import packet_route as kernel
from weft.registry import Registry
from weft.routes import CandidateRoutes, Routes

PolicyFunction = Callable[..., "Policy"]


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy, ready to run.

    Parameters
    ----------
    number
        Its number in `weft.kernels.packet_route`, 0 where there is nothing to choose.
    numbers
        int64 [4]: what it needs to know, by places of that module.
    entries
        Flowlets that each node remembers.
    queue_pairs
        Queue pairs for each pair of ranks.
    reorders
        Packets of a connection may overtake each other.
    """

    number: int = 0
    numbers: NDArray[np.int64] = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    entries: int = 0
    queue_pairs: int = 1
    reorders: bool = False


class PolicyRegistry(Registry):
    """Policies by name, each a function of options that gives a `Policy`."""


policy = PolicyRegistry("policy", "weft.sim.packet.policies", "weft.policies")


def numbers(**values: int) -> NDArray[np.int64]:
    """Numbers of a policy by the names of their places."""
    made = np.zeros(4, dtype=np.int64)
    for name, value in values.items():
        made[getattr(kernel, name)] = value
    return made


def bind(spec: str, routes: Routes) -> Policy:
    """A policy by its spec, for some routes.

    Raises
    ------
    InputError
        On an unknown policy or a wrong option.
    NotApplicable
        When the routes leave a choice and the policy makes none, or the other way round.
    """
    entry, given = policy.parse(spec)
    made: Policy = entry.function(**policy.bind(entry, given))
    choice = isinstance(routes, CandidateRoutes)
    if choice and not made.number:
        raise NotApplicable(
            f"{routes.engine} leaves a choice of ways, and policy {entry.name} makes none; there "
            f"are {', '.join(each.name for each in policy if each.name != entry.name)}"
        )
    if made.number and not choice:
        raise NotApplicable(
            f"{routes.engine} leaves no choice of ways to policy {entry.name}; engines such as "
            "ecmp do"
        )
    return made


def state_of(made: Policy, rows: int) -> tuple[Any, ...]:
    """What the kernel keeps for a policy."""
    entries = max(rows * made.entries, 1)
    return (
        made.numbers,
        np.full(entries, -1, dtype=np.int32),
        np.full(entries, -1, dtype=np.int64),
    )
