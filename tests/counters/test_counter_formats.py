"""Readings of port counters in each format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.counter_files import (
    FORMATS,
    exporter,
    ibqueryerrors,
    ibqueryerrors_summary,
    perfquery,
    values_of,
)
from tests.ibdiagnet2_files import with_lids

import weft
from weft import InputError, WorkloadBuilder
from weft.cli.entry import main
from weft.counters.counters import COUNTERS, Counters
from weft.counters.rates import rates
from weft.counters.read import read_counters
from weft.counters.times import moment_in, moment_of
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import FormatWarning
from weft.sim.packet.port_counters import write_readings

TREE = with_lids(weft.fabric("xgft:2;4,4;1,4"))
TIME = "2026-01-01T00:00:00Z"


def write(folder: Path, text: str, name: str = "reading.out") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def quietly(*paths: Path | str, fabric: Fabric = TREE, **options: bool) -> Counters:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return read_counters(list(paths), fabric, **options)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_each_port_its_counters(form: str, tmp_path: Path) -> None:
    writer, names = FORMATS[form]
    values = values_of(TREE)
    path = write(tmp_path, writer(TREE, values))
    read = quietly(f"{path}@{TIME}").frame
    assert read["slot"].to_list() == list(values)
    for name in COUNTERS:
        known = [each[name] for each in values.values()] if name in names else [None] * len(values)
        assert read[name].to_list() == known, name
    assert set(map(str, read["time"])) == {"2026-01-01 00:00:00+00:00"}
    assert len(read.filter(pl.col("reading") != pl.col("time"))) == 0


def findings(
    *paths: Path | str, fabric: Fabric = TREE, **options: bool
) -> tuple[Counters, dict[str, tuple[str, ...]]]:
    """Return what is read, and the kinds and items of all that was found."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FormatWarning)
        read = read_counters(list(paths), fabric, **options)
    said = [each.message for each in caught if isinstance(each.message, FormatWarning)]
    return read, {each.kind: each.items for each in said}


# -- units -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "kind"), [("0.9.1", ""), ("", "assumed unit")])
def test_bytes_of_an_exporter_are_words_before_version_0_10(
    version: str, kind: str, tmp_path: Path
) -> None:
    values = values_of(TREE)
    path = write(tmp_path, exporter(TREE, values, version))
    read, found = findings(f"{path}@{TIME}")
    assert read.frame["port_xmit_data"].to_list() == [x["port_xmit_data"] for x in values.values()]
    assert (kind in found) == bool(kind)


def test_node_exporter_names_ports_by_machine_and_device(tmp_path: Path) -> None:
    build = weft.FabricBuilder("two rails")
    (switch,) = build.switches(["s"], ports=4)
    for name in ("n1 HCA-1", "n1 HCA-2", "n2 HCA-1"):
        build.connect([switch], build.hosts([name]))
    fabric = build.fabric()
    text = "".join(
        f'node_infiniband_port_data_transmitted_bytes_total{{device="{device}",port="1"'
        f'{instance}}} {value}\n'
        for device, instance, value in (
            ("mlx5_0", ',instance="n1.site:9100"', "4e3"), ("mlx5_1", ',instance="n1:9100"', 8000),
            ("mlx5_0", "", 12000), ("mlx5_9", "", 5), ("mlx5_0", ',instance="n7"', 5),
        )
    )  # fmt: skip
    text = 'node_uname_info{nodename="n2"} 1\n' + text
    read, found = findings(f"{write(tmp_path, text)}@{TIME}", fabric=fabric)
    hosts = {fabric.node_names[node]: node for node in fabric.host_nodes.tolist()}
    first = {name: int(fabric.port_offset[node]) for name, node in hosts.items()}
    known = dict(read.frame.select("slot", "port_xmit_data").iter_rows())
    assert known == {
        first["n1 HCA-1"]: 1000, first["n1 HCA-2"]: 2000, first["n2 HCA-1"]: 3000,
    }  # fmt: skip
    assert [each.split(" in ")[0] for each in found["stale"]] == [
        "port 1 of n2 mlx5_9", "port 1 of n7 mlx5_0",
    ]  # fmt: skip


# -- what ibqueryerrors does not list --------------------------------------------------------------


@pytest.mark.parametrize(
    ("summary", "discards", "all_ports"),
    [
        ({}, 0, True),
        ({"thresholds": "[PortXmitDiscards = 10]"}, None, True),
        ({"suppressed": " PortXmitDiscards VL15Dropped"}, None, True),
        ({"nodes": 9}, 0, False),  # part of the fabric
        ({"bad": 2}, None, False),  # a line is lost
    ],
)
def test_errors_that_first_appear_have_grown(
    summary: dict[str, Any], discards: int | None, all_ports: bool, tmp_path: Path
) -> None:
    guid = f"{int(TREE.node_guid[0]):#x}"
    listed = f'Errors for {guid} "{TREE.descriptions[0]}"\n'
    listed += f"   GUID {guid} port 2: [SymbolErrorCounter == 25]\n"
    given = {"nodes": TREE.num_nodes, "bad": 1, **summary}
    clean = ibqueryerrors_summary(TREE.num_nodes, 0)
    for name, text in (("00", clean), ("10", listed + ibqueryerrors_summary(**given))):
        write(tmp_path, text, f"20260101T0000{name}Z.out")
    read, found = findings(tmp_path)
    with warnings.catch_warnings(action="ignore"):
        (one,) = rates(read)
    row = one.frame.row(by_predicate=pl.col("slot") == 1, named=True)
    assert (row["errors"], row["discards"]) == (25, discards)
    cabled = np.flatnonzero(TREE.port_link >= 0).tolist()
    assert one.frame["slot"].to_list() == (cabled if all_ports else [1])
    assert set(one.frame["errors"]) <= {0, 25}
    assert ("half a reading" in found) == ("bad" in summary)
    # A port that the fabric lacks: nothing is known of the others.
    other = write(tmp_path, text.replace(guid, "0x99"), "other.out")
    with pytest.raises(InputError, match="none of 1 ports is in"):
        quietly(f"{other}@{TIME}")


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-01T00:00:10Z", 10), ("20260101T000010Z", 10), ("2026-01-01_00-00-10", 10),
        ("2026-01-01 01:00:10.5+01:00", 10.5), ("1767225610", 10), ("1767225610500", 10.5),
        ("Thu Jan  1 00:00:10 UTC 2026", 10), ("Thu Jan  1 12:00:10 AM UTC 2026", 10),
        ("Thu 01 Jan 2026 12:00:10 AM UTC", 10), ("Thu, 01 Jan 2026 00:00:10 +0000", 10),
        ("9999999999", None), ("2026-13-01T00:00:10Z", None),
        ("2026-01-01", None), ("Thu Foo  1 00:00:10 UTC 2026", None), ("42", None), ("", None),
    ],
)  # fmt: skip
def test_times_are_read_in_all_usual_forms(text: str, seconds: float | None) -> None:
    moment = moment_of(text)
    origin = 1767225600 * 10**9
    assert (moment and moment.ns) == (None if seconds is None else origin + int(seconds * 1e9))


def test_names_with_two_times_or_none_have_none() -> None:
    assert moment_in("leaf1-20260101T000010Z.out") == moment_of("2026-01-01T00:00:10Z")
    assert moment_in("0x7cfe9003009ce5b0.out") is None
    assert moment_in("1767225610-1767225611") is None


def test_the_time_of_a_reading_is_the_nearest(tmp_path: Path) -> None:
    text = perfquery(TREE, values_of(TREE))
    inner = f"# time {TIME}\n{text}"
    named = write(tmp_path, text, "20260101T000010Z.out")
    assert str(quietly(named).frame["time"][0]).endswith("00:00:10+00:00")
    assert str(quietly(write(tmp_path, inner, named.name)).frame["time"][0]).endswith("00:00+00:00")
    given = quietly(f"{write(tmp_path, text)}@1767225620")
    assert str(given.frame["time"][0]).endswith("00:00:20+00:00")
    with pytest.raises(InputError, match=r"reading.out: has no time at which it was read; name"):
        quietly(tmp_path / "reading.out")
    with pytest.raises(InputError, match="'yesterday' is not a time; expected such as 2026"):
        quietly(f"{tmp_path / 'reading.out'}@yesterday")


def test_files_of_a_folder_with_a_time_are_one_reading(tmp_path: Path) -> None:
    values = values_of(TREE)
    halves = [dict(list(values.items())[part::2]) for part in (0, 1)]
    for folder in ("20260101T000000Z", "20260101T000100Z"):
        for number, half in enumerate(halves):
            write(tmp_path, perfquery(TREE, half), f"{folder}/{number}.out")
        write(tmp_path, ibqueryerrors(TREE, values), f"{folder}/errors")
    write(tmp_path, "notes\n", "20260101T000000Z/notes.txt")
    read, found = findings(tmp_path)
    assert [len(each.frame) for each in read.readings] == [len(values)] * 2
    assert found["other files"] == (str(tmp_path / "20260101T000000Z/notes.txt"),)
    assert "contradiction of counters" not in found
    path = tmp_path / "20260101T000100Z/errors"
    path.write_text(path.read_text().replace("VL15Dropped == 2", "VL15Dropped == 3", 1))
    assert len(findings(tmp_path)[1].get("contradiction of counters", "")) <= 1


def test_a_file_holds_readings_until_a_port_is_read_again(tmp_path: Path) -> None:
    first, second = (perfquery(TREE, values_of(TREE, step=step)) for step in (0, 1))
    half = second.index("# Port", len(second) // 2)
    text = f"# time {TIME}\n{first}# time 2026-01-01T00:01:00Z\n{second[:half]}"
    read, _ = findings(write(tmp_path, f"{text}Thu Jan  1 00:01:05 UTC 2026\n{second[half:]}"))
    assert [len(each.frame) for each in read.readings] == [len(TREE.port_link)] * 2
    with warnings.catch_warnings(action="ignore"):
        (one,) = rates(read)
    assert sorted(set(one.frame["seconds"])) == [60, 65]
    late = write(tmp_path, first, "20260101T000200Z")
    _, found = findings(late, f"{write(tmp_path, second)}@{TIME}")
    assert "order of readings" in found


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("port 2 (", "port 1 (", "PortSelect is 2 below a header of port 1"),
        ("PortSelect:......................1\n", "", "expected PortSelect as first line of port 1"),
        ("PortRcvData", "PortXmitData", "PortXmitData of port 1 of LID . occurs twice"),
        ("VL15Dropped:", "VL15Dropped ", "expected a counter of perfquery or a time, found"),
        ("Lid 2 ", "Lid 3 ", "occurs twice; the first time in line"),
        ("# Port", "# guid 12\n# Port", "# guid is '12'; expected a GUID"),
    ],
)
def test_faults_of_perfquery_are_errors_with_the_line(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    text = perfquery(TREE, values_of(TREE, most=10**12))
    assert old in text
    with pytest.raises(InputError, match=message) as caught:
        quietly(f"{write(tmp_path, text.replace(old, new, 1))}@{TIME}")
    assert caught.value.line


def test_half_a_reading_and_strangers_are_found(tmp_path: Path) -> None:
    text = perfquery(TREE, values_of(TREE))
    cut = text[: text.rindex("PortXmitWait") + 40]
    read, found = findings(f"{write(tmp_path, cut)}@{TIME}")
    assert len(read.frame) == len(TREE.port_link) - 1
    assert len(found["half a reading"]) == 1
    other = text.replace("# Port", "# guid 0x99\n# Port", 1)
    with pytest.raises(InputError, match="none of 64 ports is in xgft"):
        quietly(f"{write(tmp_path, other)}@{TIME}")
    strange = text.replace("Lid 2 port 1 ", "Lid 999 port 1 ", 1)
    read, found = findings(f"{write(tmp_path, strange)}@{TIME}")
    assert [each.split(" in line")[0] for each in found["stale"]] == ["port 1 of LID 999"]
    errors = "# PortRcvErrorDetails counters: Lid 2 port 1\nPortSelect:......................1\n"
    with pytest.raises(InputError, match="has no port counters"):
        quietly(f"{write(tmp_path, errors)}@{TIME}")
    with pytest.raises(InputError, match="in no format of port counters that weft reads"):
        quietly(f"{write(tmp_path, 'nothing')}@{TIME}")


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (
            '{guid="0x1",port="1"} 5 9999999999999',
            ":1: the time of .* is 9999999999999; expected ms",
        ),
        ('{guid="x",port="1"} 5', ":1: .* has no label of its node or port"),
        ('{guid="0x1",port="1" 5', ":1: expected a sample of Prometheus"),
        ('{guid="0x1";port="1"} 5', ":1: expected labels of Prometheus"),
        ('{guid="0x1",port="1"} 5.5', ":1: .* is '5.5'; expected a count"),
    ],
)
def test_faults_of_samples_are_errors_with_the_line(
    sample: str, message: str, tmp_path: Path
) -> None:
    text = f"infiniband_hca_port_receive_packets_total{sample}\n"
    with pytest.raises(InputError, match=message):
        quietly(f"{write(tmp_path, text)}@{TIME}")


def test_a_file_named_by_a_guid_has_the_ports_of_this_node(tmp_path: Path) -> None:
    values = values_of(TREE)
    text = perfquery(TREE, {slot: values[slot] for slot in range(4)})
    own, other = (f"{int(TREE.node_guid[node]):#018x}.out" for node in (0, 1))
    assert len(quietly(f"{write(tmp_path, text, own)}@{TIME}").frame) == 4
    with pytest.raises(InputError, match="none of 4 ports"):
        quietly(f"{write(tmp_path, text, other)}@{TIME}")


# -- a simulated day -------------------------------------------------------------------------------


@pytest.mark.parametrize("fabric", [TREE, weft.fabric("xgft:2;4,4;1,4")])
def test_what_a_run_writes_is_what_is_read(fabric: Fabric, tmp_path: Path) -> None:
    build = WorkloadBuilder(16)
    for rank in range(1, 8):
        build.put(rank, 0, 1 << 16)
    run = weft.simulate(
        fabric, weft.route(fabric, "dmodk"), build.build(), level="packet", snapshot_ns=7_000.5
    )
    written = weft.port_counters(run)
    assert write_readings(written, tmp_path / "day") == len(written.readings)
    read = quietly(tmp_path / "day", fabric=fabric)
    assert read.frame.equals(written.frame)
    found = rates(read)
    seconds = np.array([each.frame["seconds"][0] for each in found])
    packets, words, blocked = (np.zeros(fabric.num_links) for _ in range(3))
    for each, length in zip(found, seconds, strict=True):
        words += np.rint(each.link_gbps * length / 32e-9)
        blocked += each.link_wait_share * length * 1e12
        packets += length * each.frame.sort("slot")["xmit_pps"].to_numpy()[
            np.argsort(np.argsort(np.flatnonzero(fabric.port_link >= 0)))
        ].sum() / fabric.num_links  # fmt: skip
    cables = slice(0, fabric.num_links)
    data = run.wire_bytes.sum(axis=1) - 2 * run.packets.sum(axis=1)
    assert words.tolist() == (data[cables] // 4).tolist()
    assert round(packets.sum()) == run.packets.sum()
    # Seven hosts send to one: all but its cable's rate is spent waiting.
    assert run.blocked_ps.max() > run.end_ps / 2
    tick_ps = 8 * 8000 / fabric.link_rate_gbps
    assert (np.abs(blocked - run.blocked_ps[cables]) <= 2 * tick_ps).all()
    Counters.joined(read.readings).write(tmp_path / "day.parquet")
    assert Counters.read(tmp_path / "day.parquet", fabric).frame.equals(read.frame)


def test_without_snapshots_there_are_two_readings_at_different_times() -> None:
    routes = weft.route(TREE, "dmodk")
    for sends in ((), (1, 2)):
        build = WorkloadBuilder(16)
        for rank in sends:
            build.put(rank, 0, 4096)
        run = weft.simulate(TREE, routes, build.build(), level="packet")
        first, last = weft.port_counters(run).readings
        assert last.frame["port_xmit_pkts"].sum() == run.packets.sum()
        assert (last.frame["time"] > first.frame["time"]).all()
        # Closer than the resolution of times.
        fine = weft.simulate(TREE, routes, build.build(), level="packet", snapshot_ns=0.3)
        each = weft.port_counters(fine)
        assert not each.frame.select("reading", "slot").is_duplicated().any()
        assert each.readings[-1].frame.equals(last.frame)


def test_the_command_writes_counters_to_an_empty_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "xgft:2;4,4;1,4", "--workload", "alltoall:size=4KB", "--engine", "dmodk"]
    command += ["--counters", str(tmp_path / "day")]
    begin = ["--counters-begin", "2026-06-01T08:00:00Z", "--snapshot", "1us"]
    assert main([*command, "--level", "packet", *begin]) == 0
    names = sorted(each.name for each in (tmp_path / "day").iterdir())
    assert names[:2] == [
        "2026-06-01T08-00-00.000000000Z.perfquery", "2026-06-01T08-00-00.000001000Z.perfquery",
    ]  # fmt: skip
    for more, message in (
        (["--level", "packet"], "is not empty"),
        (["--level", "packet", "--counters-begin", "dawn"], "'dawn' is not a time"),
    ):
        assert main([*command, *more]) == 2
        assert message in capsys.readouterr().err
