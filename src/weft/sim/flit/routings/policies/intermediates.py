"""Paths via intermediates: for all packets (Valiant), or by comparison of loads (UGAL, PAR)."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from pydantic import Field

from weft.core.settings import Whole
from weft.kernels.flit.routing.candidates import (
    decide,
    drawn,
    enter_by_paths,
    enter_by_via,
    least_loaded,
)
from weft.sim.flit import policy
from weft.sim.flit.routings.policies.policy_registry import FlitPolicy

Threshold = Annotated[Whole, Field(ge=0, le=2**31)]

_by_load = partial(FlitPolicy, least_loaded, adaptive=True, via="some")


@policy("valiant")
def valiant() -> FlitPolicy:
    """Each packet takes a path via a random intermediate, over random candidates.

    Notes
    -----
    Source: Valiant and Brebner 1981.
    """
    return FlitPolicy(drawn, enter=enter_by_via, via="all")


@policy("ugal")
def ugal(*, threshold: Threshold = 4) -> FlitPolicy:
    """Each packet takes the minimal path or one via a random intermediate, by local loads.

    The first router multiplies the load of the first link of each path by the links of the path.
    The packet goes minimally if the minimal product is at most the other one plus the threshold.

    Parameters
    ----------
    threshold
        Flits times links.

    Notes
    -----
    Source: Singh 2005; Kim, Dally, Scott and Abts 2008 (UGAL-L).
    """
    return _by_load(send=decide, threshold=threshold)


@policy("ugal-g")
def ugal_g(*, threshold: Threshold = 4) -> FlitPolicy:
    """Each packet takes the minimal path or one via a random intermediate, by loads of all links.

    The source compares the sum of the loads of the links of each path. The packet goes minimally if
    the minimal sum is at most the other one plus the threshold.

    Parameters
    ----------
    threshold
        Flits.

    Notes
    -----
    Source: Singh 2005; Kim, Dally, Scott and Abts 2008 (UGAL-G).
    """
    return _by_load(enter=enter_by_paths, remote=True, threshold=threshold)


@policy("par")
def par(*, threshold: Threshold = 4) -> FlitPolicy:
    """As ``ugal``, but minimal packets decide anew at each router of their source's group.

    Parameters
    ----------
    threshold
        Flits times links.

    Notes
    -----
    Source: Jiang, Kim and Dally 2009 (progressive adaptive routing).
    """
    return _by_load(send=decide, turns=True, threshold=threshold)
