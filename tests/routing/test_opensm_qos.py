"""Service levels in OpenSM's QoS policy, and OpenSM's options for SL to VL tables."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics.formats import FormatWarning
from weft.fabrics.load import fabric as load
from weft.routing import route
from weft.routing.opensm.ports import port_guids
from weft.routing.opensm.qos import endpoint_sls, qos_options, qos_policy, read_qos_policy
from weft.routing.routes import TableRoutes, VirtualLanes


def with_sls(spec: str, sl: object) -> TableRoutes:
    routes = route(load(spec), "minhop")
    assert isinstance(routes, TableRoutes)
    return replace(routes, sl=np.asarray(sl, dtype=np.uint8))


@pytest.mark.parametrize("seed", range(6))
def test_a_policy_has_the_service_levels_of_the_routes(seed: int, tmp_path: Path) -> None:
    fabric = load("xgft:2;4,4;1,4")
    random = np.random.default_rng(seed)
    shape = [(), (24,), (8, 24)][seed % 3]
    sl = random.integers(0, 4, shape)
    if seed == 5:  # few distinct rows
        sl = sl[random.integers(0, 2, 8)]
    routes = with_sls("xgft:2;4,4;1,4", sl)
    path = tmp_path / "qos-policy.conf"
    path.write_text(qos_policy(fabric, routes))
    levels = read_qos_policy(fabric, path)
    assert np.array_equal(levels, endpoint_sls(fabric, routes))
    row = fabric.graph.destination_row[:16]
    expected = sl if seed % 3 == 0 else sl[:16] if seed % 3 == 1 else sl[row][:, :16]
    assert np.array_equal(levels, np.broadcast_to(expected, (16, 16)))


def rules(text: str) -> int:
    return text.count("end-qos-match-rule\n")


def test_a_policy_has_few_rules_if_service_levels_are_regular() -> None:
    fabric = load("xgft:2;4,4;1,4")
    one = with_sls("xgft:2;4,4;1,4", 3)
    assert rules(qos_policy(fabric, one)) == 0
    assert "sl: 3" in qos_policy(fabric, one)
    by_destination = with_sls("xgft:2;4,4;1,4", np.arange(24) % 3)
    assert rules(qos_policy(fabric, by_destination)) == 2
    by_row = with_sls("xgft:2;4,4;1,4", np.repeat(np.arange(8) % 4, 24).reshape(8, 24))
    text = qos_policy(fabric, by_row)
    assert rules(text) == 3
    assert "destination" not in text
    # If sources differ only for some destinations, rules for the other destinations are shared.
    sl = np.zeros((8, 24), dtype=int)
    sl[:, 0] = 1
    sl[1, 1] = 1
    assert rules(qos_policy(fabric, with_sls("xgft:2;4,4;1,4", sl))) == 2


def test_lids_of_a_port_must_have_equal_service_levels() -> None:
    fabric = load("xgft:2;4,4;1,4")
    routes = route(fabric, "minhop", lmc=1)
    assert isinstance(routes, TableRoutes)
    same = replace(routes, sl=np.repeat(np.arange(24) % 3, 2).astype(np.uint8))
    assert np.array_equal(endpoint_sls(fabric, same)[5], np.arange(16) % 3)
    with pytest.raises(NotApplicable, match="have different service levels"):
        qos_policy(fabric, replace(routes, sl=(np.arange(48) % 3).astype(np.uint8)))


POLICY = """\
port-groups
    port-group
        name: some   # a comment
        use: for a test
        port-guid: {0:#x}, {1:#x}-{2:#x}
        port-guid: {5:#x}
    end-port-group
    port-group
        name: all adapters
        node-type: CA
    end-port-group
end-port-groups
qos-setup
    anything
end-qos-setup
qos-levels
    qos-level
        name: DEFAULT
        sl: 2
        mtu-limit: 4
    end-qos-level
    qos-level
        name: other
        sl: 7
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        source: some
        destination: some
        qos-level-name: DEFAULT
    end-qos-match-rule
    qos-match-rule
        source: some, all adapters
        destination: some
        qos-level-name: other
    end-qos-match-rule
end-qos-match-rules
"""


def policy(folder: Path, text: str = POLICY) -> Path:
    guids = port_guids(load("xgft:2;4,4;1,4")).tolist()
    path = folder / "qos-policy.conf"
    path.write_text(re.sub(r"\{(\d+):#x\}", lambda match: hex(guids[int(match[1])]), text))
    return path


def test_the_first_matching_rule_applies(tmp_path: Path) -> None:
    levels = read_qos_policy(load("xgft:2;4,4;1,4"), policy(tmp_path))
    some = [0, 1, 2, 5]
    expected = np.full((16, 16), 2)
    expected[:, some] = 7
    expected[np.ix_(some, some)] = 2
    assert np.array_equal(levels, expected)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sl: 7", "sl: 16", ":24: a service level must be 0 to 15, not '16'"),
        ("        sl: 7\n", "", ":22: qos-level 'other' has no sl"),
        ("name: DEFAULT", "name: usual", "has no qos-level DEFAULT"),
        ("-name: other", "-name: none", ":36: there is no qos-level 'none'"),
        ("source: some\n", "source: none\n", ":29: there is no port group 'none'"),
        ("{5:#x}", "0x77", ":6: 0x0000000000000077 is not a port GUID of"),
        ("{5:#x}", "seven", ":6: expected a port GUID, found 'seven'"),
        ("node-type: CA", "node-type: HCA", ":10: there is no node type 'HCA'"),
        ("node-type: CA", "port-name: a/P1", ":10: groups by port-name are not supported"),
        ("    end-port-group\nend", "end", ":11: expected 'keyword: value' or end-port-group"),
        ("end-qos-match-rules\n", "", ":27: qos-match-rules begins here and has no end"),
        ("mtu-limit", "mtu", ":20: 'mtu' is not a keyword of a qos-level"),
        ("qos-levels\n    qos", "levels\n    qos", ":16: expected a section such as qos-levels"),
        ("port-groups\n    port-group", "port-groups\n    group", ":2: expected port-group or end"),
        ("        name: some   # a comment\n", "", ":2: a port-group has no name"),
        ("        qos-level-name: DEFAULT\n", "", ":28: a rule has no qos-level-name"),
    ],
)
def test_a_faulty_policy_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in POLICY
    with pytest.raises(InputError, match=message):
        read_qos_policy(load("xgft:2;4,4;1,4"), policy(tmp_path, POLICY.replace(old, new, 1)))


def test_rules_for_services_are_skipped_with_a_warning(tmp_path: Path) -> None:
    fabric = load("xgft:2;4,4;1,4")
    text = POLICY.replace(
        "        destination: some\n        qos-level-name: other",
        "        service-id: 0x1-0x9\n        qos-level-name: other",
    )
    with pytest.warns(FormatWarning, match="1 rules for a service, .*: line 33"):
        levels = read_qos_policy(fabric, policy(tmp_path, text))
    assert (levels == 2).all()
    text = POLICY + "qos-ulps\n    default: 0\n    ipoib: 4\nend-qos-ulps\n"
    with pytest.warns(FormatWarning, match="2 lines of qos-ulps"):
        read_qos_policy(fabric, policy(tmp_path, text))


def test_options_map_service_levels_to_lanes() -> None:
    assert qos_options(VirtualLanes.uniform([0, 1, 2])) == (
        "qos TRUE\n"
        "qos_max_vls 3\n"
        "qos_high_limit 0\n"
        "qos_vlarb_high 0:0,1:0,2:0\n"
        "qos_vlarb_low 0:4,1:4,2:4\n"
        "qos_sl2vl 0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0\n"
    )
    text = qos_options([0, 1], max_vls=4, adapters=[3] * 16, switches=[0, 2])
    assert "qos_ca_sl2vl 3,3,3" in text
    assert "qos_swe_sl2vl 0,2,0" in text
    assert text.count("max_vls 4") == 3


def test_lanes_that_options_cannot_express_are_refused() -> None:
    with pytest.raises(InputError, match="max_vls must be 3 to 15 for these tables, not 2"):
        qos_options([0, 2], max_vls=2)
    with pytest.raises(InputError, match="at most 16 service levels, not 17"):
        qos_options([0] * 17)
    with pytest.raises(InputError, match="a VL must be 0 to 14, not 15"):
        qos_options([15])
    by_port = VirtualLanes(
        np.zeros((1, 16), np.uint8), np.zeros(4, np.int32), np.zeros(1), np.full(1, 2)
    )
    with pytest.raises(NotApplicable, match="depends on its input and output port"):
        qos_options(by_port)
