"""Sharing laws: how messages that are under way at once divide the links.

A law knows capacities and runs of links, nothing of fabrics. Its kernel has three functions:
a flow comes, a flow goes, and rates are shared anew where that changed something.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from weft.contention import INFINIBAND, PenaltyModel
from weft.contention.penalty_state import penalty_state
from weft.core.errors import NotApplicable
from weft.sim.flow.maxmin import maxmin_state
from weft.sim.flow.network import Network

Sharing = Literal["maxmin", "penalty", "none"]


def sharing_states(
    sharing: Sharing, network: Network, max_flows: int, model: PenaltyModel = INFINIBAND
) -> tuple[Any, Any]:
    """State of the max-min and of the penalty law; None for those not in force.

    Parameters
    ----------
    sharing
        The law.
    network
        What flows share.
    max_flows
        Most flows at once.
    model
        Coefficients of the penalty law.

    Raises
    ------
    NotApplicable
        When the penalty law is to share routes that leave a host by several ports at once.
    """
    if sharing == "maxmin":
        levels = maxmin_state(
            network.capacity_bytes_per_ns, network.route_offset, network.route_link,
            network.route_share, max_flows,
        )  # fmt: skip
        return levels, None
    if sharing == "penalty":
        share = network.route_share
        if len(share) and np.any(
            np.concatenate([share[network.route_offset[:-1]], share[network.route_offset[1:] - 1]])
            != 1.0
        ):
            raise NotApplicable(
                "the penalty law counts messages at adapters, and these routes split messages over "
                "several ports of one host; multipath=hash takes one way for each"
            )
        last = max(network.route_source.max(initial=0), network.route_destination.max(initial=0))
        state = penalty_state(
            network.capacity_bytes_per_ns, network.route_offset, network.route_link,
            network.route_share, max_flows, int(last) + 1, model=model,
        )  # fmt: skip
        return None, state
    return None, None
