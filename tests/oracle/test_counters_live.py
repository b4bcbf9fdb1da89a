"""Readers of port counters, on what programs of infiniband-diags print of a simulated subnet."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tests.oracle.test_diags_formats import connected
from tests.oracle.tools import require_tools

import weft
from weft.fabrics.formats import FormatWarning, read_file
from weft.subnet.live.subnet import live

pytestmark = pytest.mark.oracle


def test_counters_that_ibsim_is_given_are_read(tmp_path: Path) -> None:
    require_tools("opensm", "ibsim", "ibnetdiscover", "perfquery", "ibqueryerrors", "iblinkinfo")
    given = {"SymbolErrorCounter": 65535, "PortXmitDiscards": 7, "LinkDownedCounter": 3}
    switches = "ibswitches | awk '{print $3, $5}' | while read guid ports; do"
    commands = {
        "extended": f"{switches} perfquery -x -l -G $guid 1-$ports; done",
        "plain": f"{switches} perfquery -l -G $guid 1-$ports; done",
        "errors": "ibqueryerrors --data -r; true",
        "data": "ibqueryerrors --counters; true",
        "links": "iblinkinfo",
    }
    with live(connected(1)) as subnet:
        (tmp_path / "net").write_text(subnet.run(["ibnetdiscover"]))
        for name, value in given.items():
            subnet._console(f"PerformanceSet {subnet._end_of(0)} PortCounters.{name}={value}")
        texts = {name: subnet.run(["sh", "-c", command]) for name, command in commands.items()}
    with warnings.catch_warnings(action="ignore", category=FormatWarning):
        fabric = read_file(tmp_path / "net")
        frames = {}
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
            frames[name] = weft.read_counters(f"{tmp_path / name}@1767225600", fabric).frame
    switch_ports = int(fabric.port_offset[fabric.num_switches])
    columns = ["symbol_error_counter", "port_xmit_discards", "link_downed_counter"]
    for name in ("plain", "errors"):
        (found,) = frames[name].filter(symbol_error_counter=65535).select("slot", *columns).rows()
        assert found[1:] == (65535, 7, 3)
        link = fabric.port_link[found[0]]
        assert fabric.node_names[fabric.link_from[link]].startswith("sw ")
    assert len(frames["extended"]) == len(frames["plain"]) == switch_ports
    assert frames["extended"]["port_xmit_data"].sum() > 0
    assert len(frames["data"]) >= switch_ports
    assert set(frames["links"].filter(rate="1xSDR")["state"]) == {"Active/LinkUp"}
