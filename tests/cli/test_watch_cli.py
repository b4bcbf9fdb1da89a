"""`weft watch`: files, tables, jobs, stores, and readings of a command."""

import json
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from tests.ibdiagnet2_files import far
from tests.ibdiagnet2_files import with_lids as assigned

from weft.advice.watch.traffic import PairTraffic
from weft.cli.app import attached, run
from weft.core.columns import frame
from weft.counters.counters import COUNTER_COLUMNS, COUNTERS, Counters
from weft.counters.formats.perfquery import write
from weft.fabrics.formats import write_fabric
from weft.fabrics.load import fabric as load_fabric
from weft.routing import route

SPEC = "xgft:2;4,4;1,4"
BEGIN = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture
def readings(tmp_path):
    """Three readings, 30 s apart, of two jobs that meet on a cable."""
    fabric = load_fabric(SPEC)
    traffic = PairTraffic(np.array([0, 1]), np.array([4, 8]), np.array([90.0, 60.0]))
    link = fabric.port_link[fabric.port_link >= 0]
    words = traffic.loads(fabric, route(fabric, "dmodk")).per_link[link] * 1e9 / 32
    back = traffic.loads(fabric, route(fabric, "dmodk")).per_link[link ^ 1] * 1e9 / 32
    files = []
    for seconds in (0, 30, 60):
        data = {name: np.zeros(len(link), dtype=np.uint64) for name in COUNTERS}
        data["port_xmit_data"] = (words * seconds).astype(np.uint64)
        data["port_rcv_data"] = (back * seconds).astype(np.uint64)
        time = [BEGIN + timedelta(seconds=seconds)] * len(link)
        none = [None] * len(link)
        data |= {"reading": time, "time": time, "slot": np.flatnonzero(fabric.port_link >= 0)}
        data |= {"narrow": none, "tick_bytes": [8.0] * len(link), "state": none, "rate": none}
        ((_, text),) = write(Counters(fabric, frame(COUNTER_COLUMNS, data)))
        files.append(tmp_path / f"r{seconds}.txt")
        files[-1].write_text(text)
    return [str(file) for file in files]


@pytest.fixture
def jobs(tmp_path):
    (tmp_path / "squeue").write_text(
        "JOBID|NAME|STATE|TIME|NODELIST\n7|md|RUNNING|9:00|h[0,4]\n8|cfd|RUNNING|0:05|h[1,8]\n"
        "9|old|RUNNING|9:00|gone[1-2]\n"
    )
    return str(tmp_path / "squeue")


def test_hot_cables_in_text_table_page_and_json(readings, jobs, tmp_path, capsys):
    options = ["--engine", "dmodk", "--jobs", jobs, "--top", "2", "--json"]
    files = ["--table", str(tmp_path / "t.csv"), "--report", str(tmp_path / "w.html")]
    assert run(["watch", SPEC, *readings, *options, *files]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["job"] for each in found["hot"][0]["jobs"]] == ["7 (md)", "8 (cfd)"]
    assert found["hot"][0]["measured_gbps"] == pytest.approx(150, rel=1e-6)
    assert found["jobs"] == {"7 (md)": "h[0,4]", "8 (cfd)": "h[1,8]"}
    assert found["relief"][0]["helps"]
    assert any("gone1 of job 9 (old)" in note for note in found["notes"])
    assert any("Job 8 (cfd) began within the interval" in note for note in found["notes"])
    assert pl.read_csv(tmp_path / "t.csv")["measured_gbps"].max() == pytest.approx(150, rel=1e-6)
    page = (tmp_path / "w.html").read_text()
    assert "<polyline" in page
    assert "2026-03-04 12:00:30 to 12:01:00" in page
    assert "Hottest cables between switches" in page


def test_tables_in_place_are_those_of_the_folder_of_the_fabric(readings, tmp_path, capsys):
    folder = tmp_path / "subnet"
    assert run(["opensm", "export", SPEC, "--engine", "dmodk", "--out", str(folder)]) == 0
    assert run(["watch", str(folder), *readings, "--no-relief"]) == 0
    assert "carries 150.0 of 200 Gb/s" in capsys.readouterr().out
    assert run(["watch", SPEC, *readings, "--tables", str(folder / "weft.lfts")]) == 0


def test_adaptive_tables_in_place_spread_what_is_predicted(readings, jobs, tmp_path, capsys):
    fabric = assigned(load_fabric(SPEC))
    routes = route(fabric, "ar_updn")
    write_fabric(fabric, tmp_path / "net.ibnetdiscover")
    (tmp_path / "ibdiagnet2.far").write_text(far(fabric, routes, routes.fallback))
    files = [str(tmp_path / "net.ibnetdiscover"), *readings, "--tables", str(tmp_path)]
    assert run(["watch", *files, "--no-relief", "--top", "1", "--jobs", jobs, "--json"]) == 0
    (hot,) = json.loads(capsys.readouterr().out)["hot"]
    assert hot["predicted_gbps"] == pytest.approx(150 / 4, rel=1e-6)


def test_a_store_keeps_earlier_readings(readings, tmp_path, capsys):
    store = ["--store", str(tmp_path / "s.parquet"), "--engine", "dmodk", "--no-relief"]
    assert run(["watch", SPEC, *readings[:2], *store]) == 0
    assert run(["watch", SPEC, readings[2], *store]) == 0
    assert run(["watch", SPEC, readings[2], *store]) == 0
    assert capsys.readouterr().out.count("carries 150.0 of 200") == 3
    assert pl.read_parquet(tmp_path / "s.parquet")["reading"].n_unique() == 3


def test_a_command_gives_a_reading_each_time(readings, tmp_path, capsys):
    code = (
        "import pathlib, sys; files = sys.argv[2:]; seen = pathlib.Path(sys.argv[1]);"
        "n = len(seen.read_text()) if seen.exists() else 0; seen.write_text('x' * (n + 1));"
        "sys.exit(3) if n == 1 else print(open(files[n - (n > 1)]).read())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "seen"), *readings]
    options = ["--engine", "dmodk", "--no-relief", "--every", "10ms", "--times", "4"]
    assert run(["watch", SPEC, *options, "--", *command]) == 0
    out, err = capsys.readouterr()
    assert out.count("Hottest cables between switches") == 2
    assert "ended with status 3; its reading is left out" in err
    assert attached(["watch", "f", "--", "a", "-x"]) == [
        "watch",
        "f",
        "--command=a",
        "--command=-x",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["r0"], "two readings"),
        (["r0", "r30", "--tables", "r0"], "the tables in place are in none of"),
        (["r0", "r30", "--engine", "dmodk", "--tables", "r0"], "expected one of them"),
        (["r0", "r30"], "the tables in place are in none of"),
        (["r0", "r30", "--engine", "dmodk", "--every", "1s"], "--every needs the command"),
        (["r0", "r30", "--engine", "dmodk", "--times", "2"], "--times"),
        (["r0", "r30", "--engine", "dmodk", "--top", "0"], "--top"),
        (["r0", "r30", "--engine", "dmodk", "--jobs", "r0"], "no header with JOBID"),
        (["--engine", "dmodk", "--every", "1s", "--", "/no/program"], "cannot run /no/program"),
        (["--engine", "dmodk"], "two or more readings"),
        (["--engine", "dmodk", "--every", "30", "--", "true"], "a time with a unit"),
        (
            ["--engine", "dmodk", "--every", "1ms", "--times", "2", "--", "false"],
            "no reading in 2 tries",
        ),
    ],
)
def test_bad_input_is_one_error(readings, tmp_path, capsys, words, said):
    named = [str(tmp_path / f"{word}.txt") if word in ("r0", "r30") else word for word in words]
    if named == [readings[0]]:
        named += ["--engine", "dmodk"]
    assert run(["watch", SPEC, *named]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert not out
