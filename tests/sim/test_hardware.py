"""Hardware of the packet level: formats of its options, and refused values."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.sim.packet import CongestionControl, Hardware, VlArbitration
from weft.sim.packet.hardware import NAMES, hardware_of, parse_hardware
from weft.study.experiment.spec import HardwarePart


def test_missing_settings_have_their_defaults() -> None:
    assert hardware_of({}) == Hardware() == HardwarePart().instance
    assert parse_hardware([]) == {}


def test_every_setting_has_a_name_on_the_command_line_and_in_files() -> None:
    assert set(HardwarePart.model_fields) == set(NAMES)
    tables = {"vl_arbitration": VlArbitration, "congestion_control": CongestionControl}
    count = sum(len(fields(kind)) for kind in tables.values())
    assert len(NAMES) == len(fields(Hardware)) - len(tables) + count + 1


def test_command_line_words_and_file_keys_give_the_same_hardware() -> None:
    words = parse_hardware(
        ["mtu=4KiB, buffer=32KiB,queues=voq", "speedup=2,credit-latency=10ns", "vlarb_high=0:4,1:8"]
    )
    assert words["vlarb_high"] == "0:4,1:8"
    expected = Hardware(
        mtu_bytes=4096, buffer_bytes=32768, queues="voq", speedup=2, credit_latency_ns=10.0,
        vl_arbitration=VlArbitration(high=((0, 4), (1, 8))),
    )  # fmt: skip
    assert hardware_of(words) == expected
    assert HardwarePart(**words).instance == expected
    keys = {"mtu": 4096, "buffer": "32 KiB", "queues": "voq", "speedup": 2}
    assert hardware_of({**keys, "credit_latency": 10, "vlarb_high": ["0:4", "1:8"]}) == expected


def test_arbitration_tables_may_have_a_limit() -> None:
    arbitration = hardware_of({"vlarb_low": "0:1", "high_limit": "255"}).vl_arbitration
    assert arbitration == VlArbitration(low=((0, 1),), limit=255)
    assert hardware_of({"vlarb_low": "0:1"}).vl_arbitration == VlArbitration(low=((0, 1),))
    assert VlArbitration(" 3:255 , 14:0").high == ((3, 255), (14, 0))


def test_congestion_control_is_on_when_it_is_set() -> None:
    assert hardware_of({}).congestion_control is None
    assert hardware_of({"congestion_control": False}).congestion_control is None
    assert hardware_of({"congestion_control": True}).congestion_control == CongestionControl()
    words = parse_hardware(["cc_threshold=3,cct=0:0,3:12,ccti_timer=7,cc_per=sl"])
    control = hardware_of(words).congestion_control
    assert control == CongestionControl(threshold=3, cct=((0, 0), (3, 12)), ccti_timer=7, per="sl")
    assert HardwarePart(**words).instance.congestion_control == control


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mtu"], "'mtu' in 'mtu': expected NAME=VALUE"),
        (["mtu="], "'mtu=' in 'mtu='"),
        (["=3"], "'=3' in '=3'"),
        (["mtu=1,,speedup=2"], "'' in 'mtu=1,,speedup=2'"),
        (["mtu=1", "mtu=2"], "mtu is given twice"),
        (["mtu_bytes=1"], "unknown name 'mtu_bytes'"),
        (["0:4,vlarb_high=0:4"], "'0:4' in"),
        (["queues=voq,0:4"], "'0:4' in"),
    ],
)
def test_malformed_words_are_refused(words, message) -> None:
    with pytest.raises(InputError, match=message):
        parse_hardware(words)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mto": 1}, r"hardware has no 'mto' \(did you mean 'mtu'\?\)"),
        (
            {"vlarb_high": "0:4:1"},
            "^vlarb_high: .* entry 0 is '0:4:1'; expected a lane and a weight",
        ),
        ({"vlarb_high": [4]}, "^vlarb_high: .* entry 0 is 4; expected"),
        ({"vlarb_high": "15:4"}, "^vlarb_high: .* 15:4: the lane must be 0 to 14"),
        ({"vlarb_low": "0:256"}, "^vlarb_low: .* 0:256: the lane"),
        ({"vlarb_low": ",".join(["0:1"] * 65)}, "the table has 65 entries; at most 64 fit"),
        ({"high_limit": 1}, "high_limit needs a table of lanes"),
        (
            {"vlarb_low": "0:1", "high_limit": "x"},
            "^high_limit: 'x' does not fit: expected a whole number",
        ),
        (
            {"vlarb_low": "0:1", "high_limit": 256},
            "^high_limit: 256 does not fit: expected 255 or less",
        ),
        ({"congestion_control": "maybe"}, "expected true or false"),
        (
            {"congestion_control": "on"},
            "congestion_control: 'on' does not fit: expected true or false",
        ),
        ({"congestion_control": False, "cc_threshold": 1}, "is false, and cc_threshold is set"),
        ({"cc_threshold": 16}, "^cc_threshold: 16 does not fit: expected 15 or less"),
        ({"credit_latency": "1e20s"}, "^credit_latency: .* expected 3602879"),
        ({"mtu": "4GiB"}, "^mtu and header must be at most 1,073,741,824"),
        ({"adapter_gbps": -1}, "^adapter_gbps: -1 does not fit: expected a number greater than 0"),
    ],
)
def test_invalid_settings_are_refused(settings, message) -> None:
    with pytest.raises(InputError, match=message):
        hardware_of(settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mtu_bytes": 0}, "mtu_bytes: 0 does not fit: expected 1 or more"),
        ({"mtu_bytes": -1}, "mtu_bytes: -1 does not fit"),
        ({"mtu_bytes": 2**40, "buffer_bytes": 2**50}, "mtu_bytes and header_bytes must be at most"),
        ({"header_bytes": 2**56}, "mtu_bytes and header_bytes must be at most 1,073,741,824"),
        ({"mtu_bytes": 2048.5}, "2048.5 is not a whole number of bytes"),
        ({"buffer_bytes": 2073}, "holds 32 credits of 64 bytes, but a packet of 2048 . 26 bytes"),
        ({"buffer_bytes": 2**50}, "holds more than 1,073,741,824 credits of 64 bytes"),
        ({"credit_bytes": 0}, "credit_bytes: 0 does not fit: expected 1 or more"),
        ({"credit_bytes": 2**20}, "holds 0 credits"),
        ({"credit_latency_ns": -1.0}, "credit_latency_ns: -1.0 does not fit"),
        ({"credit_latency_ns": float("nan")}, "credit_latency_ns: nan does not fit"),
        ({"switch_latency_ns": 1e30}, "switch_latency_ns: 1e.30 does not fit: expected 3602879"),
        ({"forward_latency_ns": float("inf")}, "forward_latency_ns: inf does not fit"),
        ({"adapter_latency_ns": 1e17}, "adapter_latency_ns: 1e.17 does not fit: expected 3602879"),
        ({"queues": "vok"}, "queues: 'vok' does not fit: expected 'input' or 'voq'"),
        ({"queue_pairs": 3}, "queue_pairs: 3 does not fit"),
        ({"speedup": 0}, "speedup: 0 does not fit: expected 1 or more"),
        ({"speedup": 10**9}, "speedup: 1000000000 does not fit: expected 1024 or less"),
        ({"adapter_gbps": 0.0}, "adapter_gbps: 0.0 does not fit: expected a number greater than 0"),
        ({"adapter_gbps": float("nan")}, "adapter_gbps: nan does not fit"),
        (
            {"control_bytes": 2**40},
            "control_bytes: 1099511627776 does not fit: expected 1073741824 or less",
        ),
        ({"vl_arbitration": "0:4"}, "vl_arbitration: '0:4' does not fit: expected a VlArbitration"),
    ],
)
def test_invalid_hardware_is_refused(changes, message) -> None:
    with pytest.raises(InputError, match=message):
        Hardware(**changes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"low": ((0, 1.5),)},
            r"^low: .* entry 0 is \(0, 1.5\); expected a lane and a wei",
        ),
        ({"low": ((0, 1), (0, 1, 2))}, r"entry 1 is \(0, 1, 2\); expected a lane"),
        ({"high": (("a", 1),)}, r"^high: .* entry 0 is \('a', 1\)"),
        ({"high": ((0, True),)}, r"entry 0 is \(0, True\)"),
        ({"high": (3,)}, "entry 0 is 3"),
        ({"high": 3}, "high: 3 does not fit: expected entries, each a lane and a weight"),
        ({"low": "0:4,x:1"}, "entry 1 is 'x:1'"),
        ({"low": ((0, 1),), "limit": 0.5}, "limit: 0.5 does not fit: expected a whole number"),
        ({"low": ((0, 1),), "limit": None}, "limit: None does not fit"),
        ({"low": ((0, -1),)}, "low: .* 0:-1: the lane"),
    ],
)
def test_arbitration_tables_hold_only_whole_numbers(settings, message) -> None:
    with pytest.raises(InputError, match=message):
        VlArbitration(**settings)


@pytest.mark.parametrize(
    ("cct", "message"),
    [
        (
            ((0.9, 1.9),),
            r"^cct: .* entry 0 is \(0.9, 1.9\); expected a shift and a multiplier, two",
        ),
        (((0, 0), (0, 1, 2)), r"entry 1 is \(0, 1, 2\)"),
        ("0:0,7", "entry 1 is '7'"),
        (5, "cct: 5 does not fit: expected entries, each a shift and a multiplier"),
        (None, "cct: None does not fit"),
    ],
)
def test_congestion_control_tables_hold_only_whole_numbers(cct, message) -> None:
    with pytest.raises(InputError, match=message):
        CongestionControl(cct=cct)


def test_tables_may_be_lists_arrays_and_text() -> None:
    expected = VlArbitration(low=((0, 4), (1, 8)))
    for low in ([[0, 4], [1, 8]], np.array([[0, 4], [1, 8]]), "0:4, 1:8"):
        assert VlArbitration(low=low) == expected
        assert hash(VlArbitration(low=low)) == hash(expected)
    assert CongestionControl(cct="0:0,3:12").cct == ((0, 0), (3, 12))


def test_a_buffer_of_one_packet_is_enough() -> None:
    assert Hardware(buffer_bytes=2112).buffer_credits == 33
    assert Hardware(mtu_bytes=1, header_bytes=0, buffer_bytes=1, credit_bytes=1).credits_of(1) == 1
