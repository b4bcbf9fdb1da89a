"""Routing keys as policies: messages of a key's flows take the paths of the key."""

from __future__ import annotations

from weft.core.arguments import whole_number
from weft.core.units import Nanoseconds
from weft.sim.keys.choice import Choice, Criterion
from weft.sim.keys.make import Colours, First, Method
from weft.sim.keys.run import Before, KeyRules
from weft.sim.packet.policies.policy_registry import Policy, policy


@policy("ark")
def ark(
    *,
    method: Method = "exact",
    colours: Colours = "fewest",
    first: First = "random",
    lmc: int = 0,
) -> Policy:
    """Messages take the paths of their application's routing key; others take the base routes.

    Each application, or each of its phases, has one key, whose paths are free of contention if that
    is possible and do not depend on other applications.

    Parameters
    ----------
    method, colours
        As for `weft.keys`.
    first
        As for `weft.keys`. With ``lowest``, the keys of all applications use the same switches
        first; ``random`` avoids this.
    lmc
        LMC of the subnet. A flow for whose path no LID is left takes the base routes. 0 for no
        limit.

    Notes
    -----
    Source: Routing Keys, section II-A.
    """
    return Policy(keys=KeyRules(False, method=method, colours=colours, first=first, lmc=lmc))


@policy("nrk")
def nrk(
    *,
    choice: Choice = "shift",
    criterion: Criterion = "max",
    method: Method = "exact",
    colours: Colours = "fewest",
    latency: Nanoseconds = 0.0,
    service: Nanoseconds = 0.0,
    before: Before = "wait",
    alternatives: int = 4,
) -> Policy:
    """A scheduler grants a key at the start of each phase, on the switches with the least load.

    The workload must request its keys (``RODREQUEST`` in a trace, ``keys=true`` of `cartesian`).

    Parameters
    ----------
    choice, criterion
        How the scheduler gives switches to a key: ``shift`` or ``optimum``, by the largest load
        (``max``) or the ``variance`` of the loads; ``first-fit``, after Hedera's global first fit,
        which places single flows on the first path with room for their demand; or ``fixed``, which
        keeps the switches that the key got when it was made; or ``installed``, the best of the
        alternatives that the forwarding tables hold, as `weft serve` does.
    method, colours
        As for `weft.keys`.
    latency, service
        Latency of a message to or from the scheduler, and time that it takes for one request;
        requests wait in order of arrival.
    before
        What the messages of a phase do before its key is granted: ``wait``, or take the ``base``
        routes.
    alternatives
        Number of alternatives of each key, for the choice ``installed``.

    Notes
    -----
    Source: Routing Keys, sections II-B and III; Hedera (Al-Fares et al., NSDI 2010).
    """
    whole_number(alternatives, "alternatives", 1, 127)
    rules = KeyRules(
        True, method=method, colours=colours, choice=choice, criterion=criterion,
        latency_ns=latency, service_ns=service, before=before, alternatives=alternatives,
    )  # fmt: skip
    return Policy(keys=rules)
