"""Which engines, routings, policies and sharing models are combined at which level of detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from weft.core.errors import InputError
from weft.routing import engine as known_engines
from weft.sim.common.policies import NO_CHOICE
from weft.sim.flow import Sharing
from weft.sim.options import Level, chooses, has_policy, usual_choice

#: Levels whose packets may have a choice of paths, which a policy makes.
CHOOSING = ("packet", "flit")
#: Engine if neither an engine nor a routing is given.
USUAL_ENGINE = "minhop"


class Method(NamedTuple):
    """An engine's routes or, at the flit level, a routing by coordinates; and how they are run."""

    #: An engine by name, or its routes; None for a routing.
    engine: Any
    level: Level
    sharing: Sharing | None = None
    policy: str | None = None
    routing: str | None = None

    def named(self) -> dict[str, Any]:
        """Return what the method has, by name."""
        order = ("engine", "routing", "level", "sharing", "policy")
        return {name: each for name in order if (each := getattr(self, name)) is not None}


def methods(
    levels: Sequence[Level],
    engines: Sequence[Any] | None,
    routings: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    sharing: Sequence[Sharing | None] = (None,),
) -> list[Method]:
    """Return every combination, by level.

    The flow level has sharing models, the packet and the flit level have policies. Routings, which
    take no policy, are those of the flit level; it has no usual engine if there are any.

    `engines`, `policies`: None for the usual one.
    """
    found: list[Method] = []
    for level in levels:
        named = (routings or ()) if level == "flit" else ()
        used = (() if named else (USUAL_ENGINE,)) if engines is None else engines
        for engine in used:
            if level == "flow":
                found += [Method(engine, level, each) for each in sharing]
            else:
                found += [Method(engine, level, None, each) for each in policies or (None,)]
        found += [Method(None, level, routing=each) for each in named]
    if policies and not any(each.policy for each in found):
        raise InputError("a routing by coordinates takes no policy; routes of an engine do")
    return found


def fitting_methods(
    levels: Sequence[Level],
    engines: Sequence[str] | None,
    routings: Sequence[str] | None,
    policies: Sequence[str] | None,
    sharing: Sequence[Sharing | None],
) -> list[Method]:
    """Return the combinations of `methods` that fit, by engine, each with its policy.

    The flow level has the policies without a choice, too, and the static level has neither
    policies nor sharing models. A policy that fits no engine is combined with each, so that the
    outcome says why.
    """
    used = list(dict.fromkeys(engines or (USUAL_ENGINE,)))
    by_routing = "flit" in levels and routings

    def found(engine: str, level: Level) -> Iterator[Method]:
        if level == "static":
            yield Method(engine, level)
            return
        listed = [each for each in policies or () if has_policy(level, each)]
        if level == "flow":
            settled = [each for each in listed if not chooses(each)]
            yield from (
                Method(engine, level, one, each) for one in sharing for each in settled or (None,)
            )
        elif level != "flit" or engines is not None or not by_routing:
            several = _has_candidates(engine)
            fit = [each for each in listed if _is_choice(level, each) == several]
            if not listed:
                name = known_engines.parse(engine)[0].name
                fit = [usual_choice(name, level) if several else NO_CHOICE]
            elif not fit:  # policies for candidates may be meant for other engines
                fit = [NO_CHOICE] if not several and any(map(_has_candidates, used)) else listed
            yield from (Method(engine, level, None, each) for each in fit)

    chosen = [each for engine in used for level in levels for each in found(engine, level)]
    known = {each.policy for each in chosen}
    first = [level for level in levels if level in CHOOSING][:1]
    alone = [each for each in policies or () if each not in known]
    chosen += [
        Method(engine, level, None, each) for each in alone for engine in used for level in first
    ]
    if by_routing:
        chosen += [Method(None, "flit", routing=each) for each in dict.fromkeys(routings or ())]
    return list(dict.fromkeys(chosen))


def _has_candidates(engine: str) -> bool:
    """Return whether the routes of an engine leave a choice."""
    return bool(known_engines.parse(engine)[0].facts.get("candidates"))


def _is_choice(level: Level, policy: str) -> bool:
    """Return whether a policy chooses among the candidates of a packet."""
    return policy.partition(":")[0] != NO_CHOICE if level == "flit" else chooses(policy)
