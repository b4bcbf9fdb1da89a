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
from weft.kernels.packet.records import one
from weft.routes import CandidateRoutes, Routes

#: What a policy keeps for a fabric and routes: fields of `weft.kernels.packet.choice.Choice`, and
#: more of its rules.
Lay = Callable[[Fabric, CandidateRoutes], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy, ready to run.

    Parameters
    ----------
    number
        Its number in `weft.kernels.packet.choice`, 0 where there is nothing to choose.
    rules
        `CHOICE_RULES` by name.
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
        Makes what it keeps for a fabric and its routes.
    laid
        What `lay` made.
    goes_round
        The routes have intermediates and the policy uses them.
    """

    number: int = 0
    rules: Mapping[str, int] = field(default_factory=dict)
    entries: int = 0
    queue_pairs: int = 1
    reorders: bool = False
    by_intermediates: bool = False
    watches: bool = False
    lay: Lay | None = None
    laid: Mapping[str, Any] = field(default_factory=dict)
    goes_round: bool = False


class PolicyRegistry(Registry):
    """Policies by name, each a function of options that gives a `Policy`."""


policy = PolicyRegistry("policy", "weft.sim.packet.policies", "weft.policies")


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
    return replace(made, laid=made.lay(fabric, routes), goes_round=made.by_intermediates)


def choice_of(made: Policy, rows: int, links: int) -> kernel.Choice:
    """What the kernel keeps for a policy."""
    laid = dict(made.laid)
    rules = one(kernel.CHOICE_RULES)
    for name, value in {**made.rules, "entries": made.entries, **laid.pop("rules", {})}.items():
        rules[name] = value
    flowlets = np.full(max(rows * made.entries, 1), -1, dtype=kernel.FLOWLET_ENTRY)
    estimates = np.zeros(links if made.watches else 1, dtype=kernel.ESTIMATE)
    conga = laid.pop("conga", None) or kernel.Conga(
        rules=one(kernel.CONGA_RULES),
        rows=np.zeros(1, dtype=kernel.TREE_ROW),
        cells=np.zeros(1, dtype=kernel.CELL),
        estimates=estimates,
        uplink=np.zeros(1, dtype=np.int16),
    )
    detours = laid.pop("detours", None) or kernel.Detours(
        via=np.zeros(1, dtype=np.int32),
        to_via=np.zeros((1, 1), dtype=kernel.TO_VIA),
        links_to=np.zeros((1, 1), dtype=np.uint8),
    )
    # Arrays that can be written and those that cannot are types of their own to the compiler.
    conga = conga._replace(
        rows=_fixed(conga.rows), uplink=_fixed(conga.uplink), estimates=estimates
    )
    return kernel.Choice(rules, flowlets, conga, kernel.Detours(*map(_fixed, detours)))


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    """The same, which can no longer be written."""
    return read_only(np.ascontiguousarray(array).view())
