"""Policies: which candidate a packet takes where its routes leave a choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numba import typeof
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.frozen import read_only
from weft.core.registry import Registry
from weft.fabrics import Fabric
from weft.kernels.lean import part_njit
from weft.kernels.packet.choice import STRAIGHT
from weft.kernels.packet.engine import loop as loop_of
from weft.routes import CandidateRoutes, Routes

#: What a policy keeps for a fabric and routes.
Keep = Callable[[Fabric, CandidateRoutes], Any]


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy, ready to run.

    Parameters
    ----------
    queue_pairs
        Queue pairs for each pair of ranks.
    reorders
        Packets of a connection may overtake each other.
    by_intermediates
        It may send packets by intermediates.
    keep
        Makes what its kernels keep for a fabric and its routes.
    number, kept
        Its number for the loop, 0 where there is nothing to choose, and what `keep` made; `bind`
        fills them in.
    """

    queue_pairs: int = 1
    reorders: bool = False
    by_intermediates: bool = False
    keep: Keep | None = None
    number: int = 0
    kept: Any = None


class PolicyRegistry(Registry):
    """Policies by name, each a function of options that gives a `Policy`.

    Facts of an entry are its kernels, compiled by `part_njit` into the one loop of all policies.
    `kept` is what the policy keeps, as below, or None.

    choose
        ``choose(net, kept, slot, row, flow, first, several, now)`` gives which of the ``several``
        of `net.tables.candidates` from ``first`` on the packet in a slot takes at a row; ``flow``
        is the number of its connection. None for a policy that makes no choice.
    single
        Whether it is asked where there is only one candidate too.
    comes
        ``comes(net, kept, slot, row, goal, now)`` is told of a packet that comes to a row before
        anything is chosen, ``goal`` being the row of its destination, and gives the set of
        candidates that there is a choice of, or `STRAIGHT` for that of the routes.
    sent
        ``sent(net, kept, slot, link, size, now)`` is told of a packet of some bytes that a switch
        has sent over a link.
    kept
        A tuple of arrays and records such as `Policy.keep` makes, as small as can be: runs of other
        policies have it. Policies may share one, and one kernel.
    """


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
    chooses = entry.facts.get("choose") is not None
    if not isinstance(routes, CandidateRoutes):
        if chooses:
            raise NotApplicable(
                f"{routes.engine} leaves no choice of ways to policy {entry.name}; engines such "
                "as ecmp do"
            )
        return made
    if not chooses:
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
    kept = made.keep(fabric, routes) if made.keep else None
    expected = entry.facts.get("kept")
    if typeof(kept) != typeof(expected):
        raise TypeError(f"policy {entry.name} keeps {typeof(kept)} instead of {typeof(expected)}")
    return replace(made, number=policy.names().index(entry.name) + 1, kept=kept)


def choice_of(made: Policy) -> tuple[Any, ...]:
    """What the loop is given: what each policy keeps, with that of this one."""
    own = list(policy)[made.number - 1].facts.get("kept") if made.kept is not None else None
    return tuple(made.kept if each is own else each for each in _all_kept())


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """The same, which can no longer be written: to the compiler that is a type of its own."""
    return read_only(np.ascontiguousarray(array).view())


def loop() -> Any:
    """The event loop, `weft.kernels.packet.engine.loop`, for all policies that are registered."""
    return _loop(tuple(entry.function for entry in policy))


@cache
def _loop(_policies: tuple[Callable[..., Any], ...]) -> Any:
    return loop_of(
        _dispatcher("choose", "slot, row, flow, first, several, now", "0"),
        _dispatcher("comes", "slot, row, goal, now", str(STRAIGHT)),
        _dispatcher("sent", "slot, link, size, now", "0"),
    )


def _all_kept() -> list[Any]:
    """What policies keep; shared ones once."""
    kept = (entry.facts.get("kept") for entry in policy)
    return list({id(each): each for each in kept if each is not None}.values())


def _dispatcher(hook: str, arguments: str, otherwise: str) -> Any:
    """A kernel that calls the policy's kernel of a name: the compiler has to see all of them."""
    calls: dict[tuple[int, str], list[int]] = {}
    scope: dict[str, Any] = {"__name__": __name__, "int64": np.int64}
    places = {id(each): place for place, each in enumerate(_all_kept())}
    lines = [f"def {hook}(net, {arguments}):", "    policy = net.rules.policy"]
    for number, entry in enumerate(policy, start=1):
        kernel, kept = entry.facts.get(hook), entry.facts.get("kept")
        if kernel is not None:
            mine = "None" if kept is None else f"net.choice[{places[id(kept)]}]"
            calls.setdefault((id(kernel), mine), []).append(number)
            scope[f"of_{calls[id(kernel), mine][0]}"] = kernel
    if hook == "choose":
        single = [
            number for number, entry in enumerate(policy, start=1) if entry.facts.get("single")
        ]
        others = "".join(f" and policy != {number}" for number in single)
        lines += [f"    if several == 1{others}:", "        return int64(0)"]
    for (_, mine), numbers in calls.items():
        lines += [
            f"    if {' or '.join(f'policy == {number}' for number in numbers)}:",
            f"        return int64(of_{numbers[0]}(net, {mine}, {arguments}))",
        ]
    exec("\n".join([*lines, f"    return int64({otherwise})"]), scope)
    return part_njit()(scope[hook])
