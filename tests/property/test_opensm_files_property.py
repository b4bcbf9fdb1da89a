"""OpenSM's files for random fabrics and routes, and the handling of broken files."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.random_fabrics import random_fabric

from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.formats import FormatWarning
from weft.routing.opensm.guids import guid_list, read_guids
from weft.routing.opensm.lfts import lft_dump, read_lfts
from weft.routing.opensm.lids import Lids, guid2lid, predict_lids, read_guid2lid
from weft.routing.opensm.ports import port_guids
from weft.routing.opensm.qos import endpoint_sls, qos_policy, read_qos_policy
from weft.routing.routes import TableRoutes

UNCHECKED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
BOUNDED = settings(max_examples=examples(40), suppress_health_check=UNCHECKED)


def plain_fabric(seed: int) -> Fabric:
    """Return a random fabric whose hosts do not forward, with GUIDs in random order."""
    parts = random_fabric(seed, switches=5, hosts=8, others=1).shuffled(seed)
    return replace(parts, forwards=parts.node_kind == 0)


def random_routes(fabric: Fabric, lmc: int, seed: int) -> TableRoutes:
    """Return tables with random ports, and each switch's own LID at port 0."""
    random = np.random.default_rng(seed)
    table = np.empty((fabric.num_destinations << lmc, fabric.num_switches), dtype=np.uint8)
    for switch in range(fabric.num_switches):
        ports = np.append(np.arange(1, fabric.num_ports[switch] + 1), 255)
        table[:, switch] = random.choice(ports, len(table))
        table[(fabric.num_endpoints + switch) << lmc, switch] = 0
    own = table[fabric.num_endpoints << lmc :].reshape(fabric.num_switches, 1 << lmc, -1)
    own[:, 1:] = own[:, :1]
    sl = random.integers(0, 4, (fabric.num_switches, fabric.num_destinations))
    return TableRoutes(
        "random",
        fabric.digest,
        table=table,
        lmc=lmc,
        sl=np.repeat(sl, 1 << lmc, axis=1).astype(np.uint8),
    )


def everything(fabric: Fabric, lmc: int) -> Lids:
    """Return LIDs for all ports, including those that the subnet manager does not reach."""
    result = predict_lids(fabric, lmc=lmc)
    base = result.base.copy()
    free = 4096
    for destination in np.flatnonzero(base == 0):
        base[destination] = free
        free += 1 << lmc
    wide = np.where(np.arange(len(base)) < fabric.num_endpoints, lmc, 0)
    return Lids(base, wide.astype(np.uint8))


@BOUNDED
@given(seed=st.integers(0, 10_000), lmc=st.integers(0, 3))
def test_written_routes_are_read_as_the_same(seed: int, lmc: int, tmp_path: Path) -> None:
    fabric = plain_fabric(seed)
    routes = random_routes(fabric, lmc, seed)
    lids = everything(fabric, lmc)
    text = lft_dump(fabric, routes, lids=lids)
    path = tmp_path / "lfts"
    path.write_text(text)
    again = read_lfts(fabric, path, lmc=lmc)
    assert np.array_equal(again.table, routes.table)
    assert lft_dump(fabric, again, lids=lids) == text
    bare = "\n".join(line.partition(" #")[0] for line in text.split("\n"))
    path.write_text(bare)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        assert np.array_equal(read_lfts(fabric, path, lids=lids).table, routes.table)


@BOUNDED
@given(seed=st.integers(0, 10_000), lmc=st.integers(0, 2))
def test_lids_do_not_overlap_and_stay_once_assigned(seed: int, lmc: int) -> None:
    fabric = plain_fabric(seed)
    result = predict_lids(fabric, lmc=lmc)
    assert result.clashes == []
    assert not (result.base[result.lmc > 0] & ((1 << lmc) - 1)).any()
    after = predict_lids(result.of(fabric), lmc=lmc)
    assert np.array_equal(after.base, result.base)
    remembered = {
        guid: (base, base + (1 << own) - 1)
        for guid, base, own in zip(
            port_guids(fabric).tolist(), result.base.tolist(), result.lmc.tolist(), strict=True
        )
        if base
    }
    assert np.array_equal(predict_lids(fabric, lmc=lmc, cache=remembered).base, result.base)


@BOUNDED
@given(seed=st.integers(0, 10_000), lmc=st.integers(0, 1))
def test_written_service_levels_are_read_as_the_same(seed: int, lmc: int, tmp_path: Path) -> None:
    fabric = plain_fabric(seed)
    routes = random_routes(fabric, lmc, seed)
    if seed % 2:  # fewer distinct rows
        routes = replace(routes, sl=routes.sl[np.arange(fabric.num_switches) % 2])
    path = tmp_path / "policy"
    path.write_text(qos_policy(fabric, routes))
    assert np.array_equal(read_qos_policy(fabric, path), endpoint_sls(fabric, routes))


def mutated(text: str, draw: st.DataObject) -> str:
    """Return the text with a few bytes, words or lines changed, dropped or doubled."""
    for _ in range(draw.draw(st.integers(1, 3))):
        if not text:
            break
        at = draw.draw(st.integers(0, len(text) - 1))
        to = min(len(text), at + draw.draw(st.integers(0, 60)))
        what = draw.draw(st.sampled_from(["drop", "double", "cut", "insert", "line"]))
        if what == "drop":
            text = text[:at] + text[to:]
        elif what == "double":
            text = text[:to] + text[at:to] + text[to:]
        elif what == "cut":
            text = text[:at]
        elif what == "insert":
            some = st.text("0123456789abcdefx#:,-[]() '\"\n\t²\x0c", max_size=6)
            text = text[:at] + draw.draw(some) + text[at:]
        else:
            lines = text.split("\n")
            number = draw.draw(st.integers(0, len(lines) - 1))
            lines.insert(draw.draw(st.integers(0, len(lines))), lines.pop(number))
            text = "\n".join(lines)
    return text


FABRIC = plain_fabric(3)
ROUTES = random_routes(FABRIC, 1, 3)
LIDS = everything(FABRIC, 1)
FILES = {
    "lfts": (lft_dump(FABRIC, ROUTES, lids=LIDS), read_lfts),
    "bare": (
        "\n".join(
            line.partition(" #")[0] for line in lft_dump(FABRIC, ROUTES, lids=LIDS).split("\n")
        ),
        lambda fabric, path: read_lfts(fabric, path, lids=LIDS),
    ),
    "policy": (qos_policy(FABRIC, ROUTES), read_qos_policy),
    "guids": (
        guid_list(FABRIC, np.arange(FABRIC.num_destinations), kind="order"),
        lambda fabric, path: read_guids(fabric, path, kind="order"),
    ),
    "guid2lid": (
        guid2lid({guid: (n + 1, n + 1) for n, guid in enumerate(port_guids(FABRIC).tolist())}),
        lambda fabric, path: predict_lids(fabric, lmc=1, cache=read_guid2lid(path)),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=examples(150), suppress_health_check=UNCHECKED)
@given(draw=st.data())
def test_a_broken_file_is_read_or_refused_in_one_line(
    kind: str, draw: st.DataObject, tmp_path: Path
) -> None:
    text, read = FILES[kind]
    path = tmp_path / "broken"
    path.write_text(mutated(text, draw))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            read(FABRIC, path)  # type: ignore[operator]
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
