"""Rates between readings of port counters, and what makes them unknown."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import weft
from weft import InputError
from weft.core.columns import frame
from weft.counters.counters import COUNTER_COLUMNS, COUNTERS, Counters
from weft.counters.rates import Rates, rates
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import FormatWarning

TREE = weft.fabric("xgft:2;4,4;1,4")
GIGA = 10**9
#: Words of 4 bytes that 4xHDR carries in a second.
FULL = 200 * GIGA // 32


def reading(at_s: float, fabric: Fabric = TREE, **values: Mapping[int, int] | int) -> Counters:
    """Return a reading of the ports 0 to 9, all of whose counters are 0 but those given."""
    slots = range(10)
    data = {name: [None] * 10 for name in COUNTER_COLUMNS} | {
        "reading": [round(at_s * GIGA)] * 10, "time": [round(at_s * GIGA)] * 10, "slot": slots,
    }  # fmt: skip
    data |= {name: [0] * 10 for name in COUNTERS}
    for name, given in values.items():
        each = given if isinstance(given, Mapping) else dict.fromkeys(slots, given)
        data[name] = [each.get(slot, data[name][slot]) for slot in slots]
    return Counters(fabric, frame(COUNTER_COLUMNS, data))


def between(*readings: Counters) -> tuple[list[Rates], dict[str, tuple[str, ...]]]:
    """Return rates, and the kinds and items of all that was found."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FormatWarning)
        found = rates(Counters.joined(readings))
    said = [each.message for each in caught if isinstance(each.message, FormatWarning)]
    return found, {each.kind: each.items for each in said if each.kind != "unknown ticks"}


def test_rates_are_differences_over_time() -> None:
    first = reading(10, port_xmit_data={2: 7}, port_rcv_pkts=5, symbol_error_counter={4: 3})
    second = reading(
        12.5, port_xmit_data={2: 7 + FULL}, port_rcv_pkts=55, symbol_error_counter={4: 10},
        port_rcv_errors={4: 2}, link_downed_counter={3: 1}, port_xmit_discards={1: 6},
    )  # fmt: skip
    (one,), found = between(first, second)
    assert not found
    table = one.frame
    assert table["seconds"].to_list() == [2.5] * 10
    assert table["xmit_gbps"].to_list() == [0, 0, 80.0, *[0] * 7]
    assert table["rcv_pps"].to_list() == [20.0] * 10
    assert table["errors"].to_list() == [0, 0, 0, 0, 9, *[0] * 5]
    assert (table["link_downs"][3], table["discards"][1]) == (1, 6)
    link = TREE.port_link[2]
    assert one.link_gbps[link] == 80.0
    # The far end was not read: what it sends is known from this end.
    assert one.link_gbps[link ^ 1] == 0


def test_a_reset_leaves_nothing_known_but_what_cannot_have_been_reset() -> None:
    high = 1 << 50
    first = reading(0, port_xmit_data=high, port_rcv_data=high, symbol_error_counter=5)
    second = reading(
        1, port_xmit_data={slot: 100 if slot == 0 else high + 32 for slot in range(10)},
        port_rcv_data=high, symbol_error_counter={slot: 5 - (slot == 1) for slot in range(10)},
    )  # fmt: skip
    (one,), found = between(first, second)
    assert len(found["reset counters"]) == 2
    assert one.frame["xmit_gbps"].to_list()[:3] == [None, 1024e-9, 1024e-9]
    assert one.frame["errors"].to_list()[:3] == [None, None, 0]


@pytest.mark.parametrize(
    ("narrow", "seconds", "end", "gbps"),
    [
        (True, 1, 1000, (1 << 32) * 32e-9 / 1),  # as much as can be
        (True, 0.1, 1000, None),  # too fast: a reset
        (True, 10, 1000, None),  # it may have wrapped more than once
        (False, 1, 1000, None),  # 64 bits do not wrap
        (None, 1, 1000, None),
    ],
)
def test_only_a_wrap_that_is_possible_is_one(
    narrow: bool | None, seconds: float, end: int, gbps: float | None
) -> None:
    first = reading(0, port_xmit_data={0: 1000}, narrow={0: narrow})
    second = reading(seconds, port_xmit_data={0: end - 1}, narrow={0: narrow})
    (one,), found = between(first, second)
    assert one.frame["xmit_gbps"][0] == (gbps and pytest.approx(gbps - 32e-9))
    assert list(found) == ["wrapped counters" if gbps else "reset counters"]


def test_what_cannot_be_is_named_and_null() -> None:
    first = reading(0, symbol_error_counter={1: 65530, 2: 65535})
    second = reading(
        1, port_xmit_data={0: 2 * FULL, 3: round(1.05 * FULL)}, port_xmit_wait={5: 30 * GIGA},
        rate={5: "4xHDR", 6: "4xEDR"}, state={5: "Active/LinkUp", 7: "Down/Polling"},
        symbol_error_counter={1: 65535, 2: 65535}, port_rcv_data={4: (1 << 32) - 1},
    )  # fmt: skip
    second = Counters(TREE, second.frame.filter(pl.col("slot") != 9))
    (one,), found = between(first, second)
    names = {slot: TREE.slot_name(slot) for slot in range(10)}
    assert found["impossible rates"] == (names[0], names[3])
    assert found["changed ports"] == (names[9],)
    assert found["stuck counters"] == (names[1], names[2])
    assert one.frame["xmit_gbps"].to_list()[:4] == [None, 0, 0, pytest.approx(210, rel=0.01)]
    assert one.frame["errors"].to_list()[:3] == [0, 5, 0]
    assert found["changed rates"] == (names[6],)
    assert found["inactive links"] == (names[7],)
    assert set(found) - {"changed rates", "inactive links"} == {
        "impossible rates",
        "impossible waits",
        "changed ports",
        "stuck counters",
    }


def test_ports_read_twice_at_one_time_have_no_rates() -> None:
    first, second = reading(0), reading(1, port_xmit_data=5)
    second = replace(second, frame=second.frame.with_columns(time=first.frame["time"]))
    (one,), found = between(first, second)
    assert len(found["times of readings"]) == 10
    assert one.frame["xmit_gbps"].null_count() == 10
    with pytest.raises(InputError, match="need two readings"):
        rates(first)
    with pytest.raises(InputError, match="two of the counters have the same reading"):
        Counters.joined([first, first])


@pytest.mark.parametrize(
    ("rate", "device", "stated", "tick_bytes", "rule"),
    [
        ("4xEDR", 0xD2F0, None, 8, "8 bytes of the port (Quantum)"),
        ("4xEDR", 0xCB20, None, 128, "32 bytes of each lane (SwitchX, Switch-IB)"),
        ("4xHDR", 0, None, 8, "8 bytes of the port (HDR and faster: Quantum)"),
        ("4xEDR", 0, None, None, ""),
        ("4xEDR", 0, 64.0, 64, "as the reading says"),
    ],
)
def test_ticks_follow_the_generation_of_the_switch(
    rate: str, device: int, stated: float | None, tick_bytes: float | None, rule: str
) -> None:
    build = weft.FabricBuilder("one switch", rate=rate)
    build.connect(
        [build.switches(["s"], ports=10)[0]] * 10, build.hosts([f"h{n}" for n in range(10)])
    )
    fabric = build.fabric()
    ids = np.full(fabric.num_nodes, device, dtype=np.uint32)
    fabric = replace(fabric, device_id=ids)
    ticks = 1_000_000
    given = {"tick_bytes": dict.fromkeys(range(10), stated)} if stated else {}
    first, second = (reading(at, fabric, port_xmit_wait=at * ticks, **given) for at in (0, 1))
    (one,), _ = between(first, second)
    assert set(one.frame["wait_rule"]) == {rule}
    share = (
        None if tick_bytes is None else ticks * tick_bytes * 8 / (fabric.cable_rate_gbps[0] * GIGA)
    )
    assert one.frame["wait_share"][0] == (share if share is None else pytest.approx(share))
