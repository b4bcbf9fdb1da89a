"""Scenarios: what fails, is slower, is drained or is added, and the fabric after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.advice.what_if.figures import Remains
from weft.core.errors import InputError
from weft.core.settings import Called, Group, Option, Settings
from weft.fabrics import Fabric
from weft.fabrics.additions import Addition
from weft.fabrics.faults import Rates
from weft.fabrics.named import Named, named

#: What `fail` accepts besides names: each part of a kind in turn.
EACH = ("each-switch", "each-cable", "each-pair")

Part = Annotated[str, Called("part")]


@dataclass(frozen=True)
class Scenario(Settings):
    """What changes in a fabric; all changes are made together.

    Parameters
    ----------
    fail
        Fail these parts together: switches, machines, cables as ``node[port]``, lists such as
        ``spine[1-2]`` or patterns such as ``spine*``. ``each-switch`` fails every switch in turn,
        after all other changes, ``each-cable`` every cable between switches, and ``each-pair``
        both, and the pairs of these that are likely to be the worst.
    slow
        Set the rates of the cables in these ports, ``node[port]=RATE``.
    drain
        Empty these switches and machines for service: no path crosses them.
    add
        Add a switch modelled on its peers, as in ``leaf9: 32 hosts, 4 uplinks to each spine``.
    """

    GROUP: ClassVar[Group] = "first"

    fail: Annotated[tuple[Part, ...], Option()] = ()
    slow: Annotated[Mapping[str, str], Rates, Option()] = field(default_factory=dict)
    drain: Annotated[tuple[Part, ...], Option()] = ()
    add: Annotated[tuple[Annotated[str, Called("switch")], ...], Option()] = ()

    def check(self) -> None:
        """Refuse a scenario without a change."""
        if not (self.fail or self.slow or self.drain or self.add):
            raise InputError("nothing changes: expected fail, slow, drain or add")

    @property
    def each(self) -> tuple[str, ...]:
        """Kinds of parts that fail in turn, of `EACH`."""
        return tuple(kind for kind in EACH if kind in self.fail)

    @property
    def changes(self) -> bool:
        """Whether anything changes besides `each`."""
        return bool(set(self.fail) - set(EACH) or self.slow or self.drain or self.add)

    def of(self, fabric: Fabric) -> Changed:
        """Return the fabric after the changes.

        Raises
        ------
        InputError
            If a part is not in the fabric, or cannot be added.
        """
        grown = fabric
        for text in self.add:
            grown = Addition.parse(text).of(grown)
        for port, rate in self.slow.items():
            grown = grown.degraded([port], rate)
        failed = named(grown, [text for text in self.fail if text not in EACH])
        drained = named(grown, self.drain)
        if cables := [grown.link_name(2 * c) for c in drained.cables if not _of_adapter(grown, c)]:
            raise InputError(f"{cables[0]}: a cable cannot be drained; expected switch or machine")
        after = grown.without(
            cables=np.union1d(failed.cables, drained.cables).tolist(),
            switches=np.union1d(failed.switches, drained.switches).tolist(),
        )
        return Changed(self, fabric, grown, after, failed, drained)


def _of_adapter(fabric: Fabric, cable: int) -> bool:
    return not fabric.forwards[fabric.link_from[2 * cable : 2 * cable + 2]].all()


@dataclass(frozen=True, eq=False)
class Changed:
    """A fabric before and after a scenario."""

    scenario: Scenario
    before: Fabric
    #: The fabric before anything fails, but with what is added or slower; it has all parts.
    grown: Fabric
    after: Fabric
    #: Parts of `grown` that fail or are drained.
    failed: Named
    drained: Named

    @property
    def title(self) -> str:
        """The scenario in a few words."""
        parts = [
            (self.failed.labels, "fails", "fail"),
            (self.drained.labels, "is drained", "are drained"),
            (tuple(self.scenario.slow), "is slower", "are slower"),
            (tuple(text.partition(":")[0].strip() for text in self.scenario.add),
             "is added", "are added"),
        ]  # fmt: skip
        texts = [
            f"{_listed(names)} {one if len(names) == 1 else many}"
            for names, one, many in parts if names
        ]  # fmt: skip
        return " and ".join(texts) or "nothing changes"

    @cached_property
    def lost_hosts(self) -> NDArray[np.bool_]:
        """Hosts that were connected and are so no longer, bool [hosts of `after`]."""
        before = np.full(self.after.num_hosts, -1, dtype=np.int64)
        before[: self.before.num_hosts] = Remains(self.before).part
        return Remains(self.after).cut(before) & (before >= 0)

    @cached_property
    def lost_machines(self) -> tuple[str, ...]:
        """Names of the machines that were connected and have no connected adapter any more."""
        after = self.after
        kept = set(after.machine_of_host[(Remains(after).part >= 0) & ~self.lost_hosts].tolist())
        hosts = np.flatnonzero(self.lost_hosts).tolist()
        gone = [host for host in hosts if int(after.machine_of_host[host]) not in kept]
        return tuple(dict.fromkeys(after.machine_names[host] for host in gone))


def _listed(names: tuple[str, ...]) -> str:
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3:,} more"
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
