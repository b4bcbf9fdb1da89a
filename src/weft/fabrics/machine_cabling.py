"""Which adapters of a fabric are in one machine of a model."""

from __future__ import annotations

from collections import Counter
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from weft.core.arguments import one_of
from weft.core.errors import InputError
from weft.core.units import LANE_RATE_GBPS
from weft.core.words import few
from weft.fabrics.builder import rate_text
from weft.fabrics.fabric import Fabric
from weft.fabrics.machine_model import MachineModel
from weft.fabrics.machine_parts import equipped

Cabling = Literal["rails", "leaf"]


def with_model(fabric: Fabric, model: MachineModel, cabling: Cabling = "rails") -> Fabric:
    """Return the fabric with the inside of its machines.

    If the fabric has machines with several adapters, those with the number of the model are of the
    model. Otherwise its hosts are grouped: ``rails`` takes as many consecutive leaf switches as
    there are rails, and for each machine the same hosts of each; ``leaf`` takes consecutive hosts
    of a leaf switch.

    Raises
    ------
    InputError
        If adapters have another rate than their cables, the hosts do not divide into machines, or
        hosts forward or have several cables.
    """
    one_of(cabling, get_args(Cabling), "cabling")
    if fabric.machine_model is not None:
        raise InputError(f"{fabric.name} has the inside of its machines already")
    if fabric.whole is not fabric:
        raise InputError(f"some hosts of {fabric.name} are not judged; give the model first")
    if fabric.num_host_endpoints != int((fabric.host_endpoint >= 0).sum()) or (
        fabric.forwards[fabric.host_nodes].any()
    ):
        raise InputError(
            f"hosts of {fabric.name} forward or have several cables; a model of machines needs "
            "adapters with one cable"
        )
    _check_rate(fabric, model)
    if len(fabric.machines) == fabric.num_hosts and model.adapters > 1:
        hosts = _grouped(fabric, model, cabling)
        named = {f"m{at}": its for at, its in enumerate(hosts.tolist())}
        return Fabric.of(equipped(fabric, model, named))
    groups = {name: its for name, its in fabric.machines.items() if len(its) == model.adapters}
    if not groups:
        counts = few(sorted({len(its) for its in fabric.machines.values()}))
        raise InputError(
            f"no machine of {fabric.name} has {model.adapters} adapters, as {model.name} has; "
            f"there are machines of {counts}"
        )
    return Fabric.of(equipped(fabric, model, groups))


def _check_rate(fabric: Fabric, model: MachineModel) -> None:
    cable = fabric.graph.destination_link[: fabric.num_host_endpoints] >> 1
    cable = cable[cable >= 0]
    pairs = zip(
        fabric.cable_rate_gbps[cable].tolist(), fabric.cable_rate_code[cable].tolist(), strict=True
    )
    for (rate, code), _ in Counter(pairs).most_common(1):
        if abs(rate - model.adapter_gbps) > 0.02 * rate:
            names = {4 * lane: name for name, lane in LANE_RATE_GBPS.items()}
            wanted = names.get(model.adapter_gbps, f"{model.adapter_gbps:g}")
            spec, file = (
                f"the spec rate={wanted}",
                f"a file of a model with adapter_gbps = {rate:g}",
            )
            raise InputError(
                f"adapters of {model.name} have {model.adapter_gbps:g} Gb/s, but the cables of "
                f"hosts of {fabric.name} have {rate_text(rate, code)}, {rate:g} Gb/s; give "
                f"{spec if fabric.family else file}"
            )


def _grouped(fabric: Fabric, model: MachineModel, cabling: Cabling) -> NDArray[np.int64]:
    """Return the hosts of each machine, [machines, adapters]."""
    rails = model.num_rails if cabling == "rails" else 1
    each = model.adapters // rails
    row = fabric.graph.destination_row[fabric.host_endpoint]
    row = np.where(fabric.host_endpoint >= 0, row, -1)
    leaves, count = np.unique(row, return_counts=True)
    what = f"{model.name} has {model.adapters} adapters"
    if len(leaves) % rails or (leaves < 0).any():
        raise InputError(
            f"{what} on {rails} rails, but the hosts of {fabric.name} are at {len(leaves)} leaf "
            f"switches, which is not a multiple of {rails}; cabling=leaf takes hosts of one switch"
        )
    group = count.reshape(-1, rails)
    wrong = np.flatnonzero((group != group[:, :1]).any(axis=1) | (group[:, 0] % each > 0))
    if len(wrong):
        names = [fabric.node_names[fabric.graph.row_node[leaf]] for leaf in leaves]
        its = slice(int(wrong[0]) * rails, (int(wrong[0]) + 1) * rails)
        raise InputError(
            f"{what}, {each} at each of {rails} leaf switches, but {few(names[its])} have "
            f"{few(count[its].tolist())} hosts"
        )
    by_leaf = np.argsort(row, kind="stable")
    start = np.cumsum(count) - count
    machines = [
        by_leaf[first[:, None] + at * each + np.arange(each)].T.ravel()
        for first, size in zip(start.reshape(-1, rails), group[:, 0] // each, strict=True)
        for at in range(size)
    ]
    return np.array(machines, dtype=np.int64)
