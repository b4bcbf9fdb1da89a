"""Registry of policies: rules that choose among the candidates of a packet."""

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
from weft.kernels.packet.choice import DIRECT
from weft.kernels.packet.engine import loop as loop_of
from weft.routing.routes import CandidateRoutes, Routes
from weft.sim.keys.run import KeyRules

#: Function that makes a policy's state for a fabric and routes.
Keep = Callable[[Fabric, CandidateRoutes], Any]


@dataclass(frozen=True, eq=False)
class Policy:
    """A policy with its options.

    Parameters
    ----------
    queue_pairs
        Number of queue pairs for each pair of ranks.
    reorders
        Whether packets of a connection may overtake each other.
    by_intermediates
        Whether the policy may send packets via intermediates.
    keep
        Function that makes the state of the policy's kernels for a fabric and its routes.
    keys
        How the policy uses routing keys, None if it uses none.
    number, kept
        Number of the policy in the event loop, 0 for routes without a choice, and the state that
        `keep` made; `bind` sets both.
    """

    queue_pairs: int = 1
    reorders: bool = False
    by_intermediates: bool = False
    keep: Keep | None = None
    keys: KeyRules | None = None
    number: int = 0
    kept: Any = None


class PolicyRegistry(Registry):
    """Policies by name, each a function of options that returns a `Policy`.

    The facts of an entry are its kernels, compiled by `part_njit` into one loop for all policies.
    Their argument ``kept`` is the policy's state or None.

    choose
        ``choose(net, kept, slot, row, flow, first, several, now)`` returns the candidate that the
        packet in a slot takes at a row: an index into the ``several`` entries of
        `net.tables.candidates` that begin at ``first``. ``flow`` is the number of the packet's
        connection. None for a policy that makes no choice.
    single
        Whether `choose` is also called if there is only one candidate.
    arrives
        ``arrives(net, kept, slot, row, goal, now)`` is called when a packet arrives at a row,
        before the choice; ``goal`` is the row of its destination. It returns the set of candidates
        to choose from, or `DIRECT` for the set given by the routes.
    sent
        ``sent(net, kept, slot, link, size, now)`` is called when a switch has sent a packet of
        ``size`` bytes over a link.
    kept
        Placeholder for the state in runs of other policies: a tuple of small arrays and records of
        the types that `Policy.keep` makes. Policies may share a placeholder, and kernels.
    """


policy = PolicyRegistry("policy", "weft.sim.packet.policies", "weft.policies")


def bind(spec: str, fabric: Fabric, routes: Routes) -> Policy:
    """Return a policy by its spec, for routes of a fabric.

    Raises
    ------
    NotApplicable
        If the routes leave a choice and the policy makes none, or conversely; if only one of routes
        and policy uses intermediates; or if the policy does not support the fabric.
    """
    entry, options = policy.parse(spec)
    chosen: Policy = entry.function(**policy.bind(entry, options))
    chooses = entry.facts.get("choose") is not None
    if not isinstance(routes, CandidateRoutes):
        if chooses:
            raise NotApplicable(
                f"{routes.engine} leaves no choice of paths to policy {entry.name}; engines such "
                "as ecmp do"
            )
        return chosen
    if not chooses:
        raise NotApplicable(
            f"{routes.engine} leaves a choice of paths, and policy {entry.name} makes none; "
            f"expected {', '.join(each.name for each in policy if each.name != entry.name)}"
        )
    if chosen.by_intermediates and not routes.num_intermediates:
        raise NotApplicable(
            f"policy {entry.name} sends packets via intermediates, and {routes.engine} has none; "
            "engines such as ugal and valiant do"
        )
    if routes.num_intermediates and not routes.direct and not chosen.by_intermediates:
        raise NotApplicable(
            f"{routes.engine} sends every packet via an intermediate, and policy {entry.name} does "
            "not; expected valiant or ugal"
        )
    kept = chosen.keep(fabric, routes) if chosen.keep else None
    expected = entry.facts.get("kept")
    if typeof(kept) != typeof(expected):
        raise TypeError(f"policy {entry.name} keeps {typeof(kept)} instead of {typeof(expected)}")
    return replace(chosen, number=policy.names().index(entry.name) + 1, kept=kept)


def choice_of(chosen: Policy) -> tuple[Any, ...]:
    """Return the states of all policies for the loop, placeholders for all but the chosen one."""
    own = list(policy)[chosen.number - 1].facts.get("kept") if chosen.kept is not None else None
    return tuple(chosen.kept if each is own else each for each in _all_kept())


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, which has a distinct type for the compiler."""
    return read_only(np.ascontiguousarray(array).view())


def loop() -> Any:
    """Return the event loop `weft.kernels.packet.engine.loop` for all registered policies."""
    return _loop(tuple(entry.function for entry in policy))


@cache
def _loop(_policies: tuple[Callable[..., Any], ...]) -> Any:
    return loop_of(
        _dispatcher("choose", "slot, row, flow, first, several, now", "0"),
        _dispatcher("arrives", "slot, row, goal, now", str(DIRECT)),
        _dispatcher("sent", "slot, link, size, now", "0"),
    )


def _all_kept() -> list[Any]:
    """Return the placeholder states of all policies, without repetition of shared ones."""
    kept = (entry.facts.get("kept") for entry in policy)
    return list({id(each): each for each in kept if each is not None}.values())


def _dispatcher(hook: str, arguments: str, otherwise: str) -> Any:
    """Make the kernel of a hook, which calls the kernel of the run's policy.

    Numba must see the calls of all policies, so the source is generated.
    """
    calls: dict[tuple[int, str], list[int]] = {}
    scope: dict[str, Any] = {"__name__": __name__, "int64": np.int64}
    indices = {id(each): index for index, each in enumerate(_all_kept())}
    lines = [f"def {hook}(net, {arguments}):", "    policy = net.rules.policy"]
    for number, entry in enumerate(policy, start=1):
        kernel, kept = entry.facts.get(hook), entry.facts.get("kept")
        if kernel is not None:
            state = "None" if kept is None else f"net.choice[{indices[id(kept)]}]"
            calls.setdefault((id(kernel), state), []).append(number)
            scope[f"of_{calls[id(kernel), state][0]}"] = kernel
    if hook == "choose":
        single = [
            number for number, entry in enumerate(policy, start=1) if entry.facts.get("single")
        ]
        others = "".join(f" and policy != {number}" for number in single)
        lines += [f"    if several == 1{others}:", "        return int64(0)"]
    for (_, state), numbers in calls.items():
        lines += [
            f"    if {' or '.join(f'policy == {number}' for number in numbers)}:",
            f"        return int64(of_{numbers[0]}(net, {state}, {arguments}))",
        ]
    exec("\n".join([*lines, f"    return int64({otherwise})"]), scope)
    return part_njit()(scope[hook])
