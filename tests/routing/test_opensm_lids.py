"""Predicted LIDs; the oracle tests compare them with those of the real OpenSM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.load import fabric as load
from weft.routing.opensm.lids import guid2lid, predict_lids, read_guid2lid
from weft.routing.opensm.ports import port_guids


def line() -> Fabric:
    """Build h0 and h1 on s0, h2 on s1, h3 without a cable; GUIDs ascend as h2 s1 h1 s0 h0 h3."""
    build = FabricBuilder("line")
    build.switches(["s0", "s1"], ports=4)
    build.hosts(["h0", "h1", "h2", "h3"])
    build.connect([2, 3, 4], [0, 0, 1])
    build.connect([0], [1])
    parts = build.parts()
    parts.guid = np.array([0x0400, 0x0200, 0x0500, 0x0300, 0x0100, 0x0600], dtype=np.uint64)
    parts.port_guid = {(n, 1): int(parts.guid[n]) + (n << 48) for n in range(2, 6)}
    return Fabric.of(parts)


def test_lids_are_assigned_to_the_sm_first_then_in_order_of_guid_bytes() -> None:
    fabric = line()
    # Destinations are h0 h1 h2 s0 s1. The last bytes of their GUIDs are 0; other bytes decide.
    assert predict_lids(fabric).base.tolist() == [1, 4, 2, 5, 3]
    assert predict_lids(fabric, sm="h2").base.tolist() == [5, 3, 1, 4, 2]
    lids = predict_lids(fabric, lmc=2)
    assert lids.base.tolist() == [4, 16, 8, 20, 12]
    assert lids.lmc.tolist() == [2, 2, 2, 0, 0]
    assert predict_lids(fabric, lmc=2, wide_switches=[1]).base.tolist() == [4, 16, 8, 20, 12]
    assert predict_lids(fabric, sm="s1").base.tolist() == [5, 3, 2, 4, 1]


def test_lids_of_ports_and_of_the_cache_are_kept() -> None:
    fabric = replace(line(), lid=np.array([0, 9, 9, 0, 1], np.int32), lmc=np.zeros(5, np.uint8))
    lids = predict_lids(fabric)
    assert lids.base.tolist() == [2, 3, 9, 4, 1]
    assert lids.clashes == []
    assert predict_lids(fabric, reassign=True).base.tolist() == [1, 4, 2, 5, 3]
    remembered = {int(fabric.node_guid[0]): (2, 9)}
    assert predict_lids(fabric, cache=remembered).base.tolist() == [3, 4, 9, 2, 1]
    twice = remembered | {7: (2, 2)}
    with pytest.raises(InputError, match="the cache has LID 2 for both 0x0000000000000400 and 0x0"):
        predict_lids(fabric, cache=twice)


def test_remembered_lids_must_fit_the_lmc() -> None:
    fabric = line()
    h0 = int(port_guids(fabric)[0])
    fresh = predict_lids(fabric, lmc=1).base.tolist()
    assert predict_lids(fabric, lmc=1, cache={h0: (12, 13)}).base[0] == 12
    for span in ((12, 12), (13, 13), (13, 14)):  # too small or misaligned
        assert predict_lids(fabric, lmc=1, cache={h0: span}).base.tolist() == fresh


def test_a_lid_that_opensm_assigns_twice_is_reported() -> None:
    # h1 has LIDs 2 and 3, which hides that s1 also has 3. h1 keeps only 2, so that OpenSM takes 3
    # as free.
    lids = np.array([0, 2, 9, 0, 3], np.int32)
    fabric = replace(line(), lid=lids, lmc=np.array([0, 1, 0, 0, 0], np.uint8))
    prediction = predict_lids(fabric, sm="s0")
    assert prediction.base.tolist() == [3, 2, 9, 1, 3]
    assert prediction.clashes == [(3, 0, 4)]


def test_ports_out_of_reach_have_no_lid() -> None:
    split = FabricBuilder("split")
    split.switches(["s0", "s1"], ports=2)
    split.hosts(["a", "b"])
    split.connect([2, 3], [0, 1])
    lids = predict_lids(split.fabric(), lmc=1)
    assert (lids.base > 0).tolist() == [True, False, True, False]
    assert lids.lmc.tolist() == [1, 0, 0, 0]
    assert predict_lids(split.fabric(), sm="b").base.tolist() == [0, 1, 0, 2]


def test_adding_lids_does_not_change_the_digest() -> None:
    fabric = load("xgft:2;4,4;1,4")
    known = predict_lids(fabric, lmc=1).of(fabric)
    assert known.digest == fabric.digest
    assert np.array_equal(known.lid, predict_lids(fabric, lmc=1).base)
    assert known.lmc.tolist() == [1] * 16 + [0] * 8
    assert np.array_equal(predict_lids(known, lmc=1).base, known.lid)


def test_bad_arguments_and_too_many_lids_are_refused() -> None:
    fabric = line()
    with pytest.raises(InputError, match="lmc must be 0 to 7, not 8"):
        predict_lids(fabric, lmc=8)
    with pytest.raises(InputError, match="h3 has no cable, so OpenSM cannot run on it"):
        predict_lids(fabric, sm="h3")
    with pytest.raises(InputError, match="no node 'h9' in line"):
        predict_lids(fabric, sm="h9")
    with pytest.raises(InputError, match="has nodes 0 to 5, not 6"):
        predict_lids(fabric, sm=6)
    with pytest.raises(NotApplicable, match=r"line needs 14 LIDs with LMC 2, .* into 1 to 19"):
        predict_lids(fabric, lmc=2, max_lid=19)
    bare = FabricBuilder("bare")
    bare.switches(["s"])
    with pytest.raises(NotApplicable, match="bare has no host with a cable"):
        predict_lids(bare.fabric())
    assert predict_lids(bare.fabric(), sm="s").base.tolist() == [1]


def test_49151_lids_are_enough_and_one_more_is_not() -> None:
    build = FabricBuilder("wide")
    (hub,) = build.switches(["s"], ports=49151)
    build.connect(build.hosts([f"h{i}" for i in range(49150)]), [hub] * 49150)
    assert sorted(predict_lids(build.fabric()).base.tolist()) == list(range(1, 49152))
    build.connect(build.hosts(["one more"]), [hub])
    with pytest.raises(NotApplicable, match=r"needs 49152 LIDs with LMC 0, .* into 1 to 49151"):
        predict_lids(build.fabric())


def test_guid2lid_is_read_and_written(tmp_path: Path) -> None:
    lids = {0x10: (4, 7), 0xFFFFFFFFFFFFFFFF: (1, 1), 0x2C9: (0xBFFF, 0xBFFF)}
    path = tmp_path / "guid2lid"
    path.write_text(guid2lid(lids))
    assert read_guid2lid(path) == lids
    assert path.read_text().startswith("0x0000000000000010 0x0004 0x0007\n\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0x1 0x1\n", ":1: expected a port GUID and its first and last LID"),
        ("0x1 0x1 0x1\n\nspam\n", ":3: expected .*, found 'spam'"),
        ("0x1 0x1 0x1\n0x01 0x2 0x2\n", ":2: 0x0000000000000001 is already in line 1"),
        ("0x1 0x1 0x10000\n", "expected"),
        ("", "is empty"),
    ],
)
def test_a_faulty_guid2lid_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "guid2lid"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_guid2lid(path)
