"""Registry of policies: rules that choose among the candidates of a packet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.core.frozen import read_only
from weft.core.registry import Entry, F, Registry
from weft.fabrics import Fabric
from weft.kernels.packet.net import Net
from weft.kernels.parts import StateParts, address_of, parts
from weft.routing.routes import CandidateRoutes, Routes
from weft.sim.keys.run import KeyRules

#: Kernels of a policy, whether `choose` is called for a single candidate, and whether it always
#: makes the same choice for a connection.
FACTS = ("choose", "single", "arrives", "sent", "fixed")
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
    entry, kept
        The policy's entry in the registry, None for routes without a choice, and the state that
        `keep` made; `bind` sets both.
    """

    queue_pairs: int = 1
    reorders: bool = False
    by_intermediates: bool = False
    keep: Keep | None = None
    keys: KeyRules | None = None
    entry: Entry | None = None
    kept: Any = None

    @property
    def is_fixed(self) -> bool:
        """Whether all packets of a connection take one path, which depends on nothing else."""
        facts = self.entry.facts if self.entry else {}
        chooses = facts.get("choose") is not None and not facts.get("fixed")
        return not (chooses or facts.get("arrives") or facts.get("sent"))

    def attach(self, net: Net) -> Any:
        """Compile the policy's kernels and store their addresses in `net.rules`.

        Returns
        -------
        The kernels' state as they get it, which must live as long as `net` is used.
        """
        kept, rules, facts = parts(self.kept), net.rules, self.entry.facts if self.entry else {}
        rules.kept = kept.block.ctypes.data if kept else 0
        rules.single = facts.get("single", False)
        state = [StateParts(net).known, kept.known if kept else types.none]
        word = types.int64
        for hook, numbers in (("choose", 6), ("arrives", 4), ("sent", 4)):
            kernel, words = facts.get(hook), [word] * numbers
            rules[hook] = address_of(kernel, word, *state, *words) if kernel else 0
        return kept


class PolicyRegistry(Registry):
    """Policies by name, each a function of options that returns a `Policy`.

    The facts of an entry are its kernels, compiled by `part_njit`, which the event loop calls by
    their addresses. Their argument ``kept`` is the policy's state or None.

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
    fixed
        Whether `choose` depends only on ``flow``, ``row`` and the candidates, so that a connection
        has one path; only such runs are fast-forwarded, or recall rounds (docs/packet-level.md).
    """

    def __call__(
        self, name: str, *, aliases: tuple[str, ...] = (), **facts: Any
    ) -> Callable[[F], F]:
        """Register the decorated function as every registry does, with `FACTS` only."""
        for fact in facts.keys() - FACTS:
            raise TypeError(
                f"policy {name!r}: there is no fact {fact!r}, only {', '.join(FACTS)}; the state "
                "of its kernels is what `Policy.keep` returns"
            )
        return super().__call__(name, aliases=aliases, **facts)


policy = PolicyRegistry("policy", "weft.sim.packet.policies", "weft.policies")


def bind(spec: str, fabric: Fabric, routes: Routes) -> Policy:
    """Return a policy by its spec, for routes of a fabric.

    Raises `NotApplicable` if the routes leave a choice and the policy makes none, or conversely; if
    only one of routes and policy uses intermediates; or if the policy does not support the fabric.
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
    return replace(chosen, entry=entry, kept=chosen.keep(fabric, routes) if chosen.keep else None)


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, which has a distinct type for the compiler."""
    return read_only(np.ascontiguousarray(array).view())
