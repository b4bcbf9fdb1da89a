"""Output of the OSU micro-benchmarks and of perftest, and CSV; logs that are cut anywhere."""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path

import pytest
from tests.measured.logs import CSV, NCCL, OSU, PERFTEST

from weft.core.errors import InputError
from weft.measured.read import read_measurements

MEASURED = Path(__file__).parents[3] / "shared" / "measured"


def _read(tmp_path: Path, text: str):
    path = tmp_path / "run.log"
    path.write_text(text)
    return read_measurements(path).frame


def test_osu(tmp_path):
    frame = _read(tmp_path, OSU)
    assert frame["program"].to_list() == ["osu_allreduce"] * 2 + ["osu_mbw_mr"] * 2
    assert frame["time_ns"].to_list()[:2] == [3_100, 104_300]
    assert frame["least"].to_list()[:2] == [2_900, 104_260]
    assert frame["gbps"].to_list()[2:] == pytest.approx([0.01888, 215.22632])
    assert frame["ranks"].to_list() == [None, None, 4, 4]
    assert frame.select("pairs", "window").rows()[2:] == [(2, 32)] * 2


def test_perftest(tmp_path):
    frame = _read(tmp_path, PERFTEST)
    assert frame["program"].to_list() == ["ib_write_bw", "ib_read_lat"]
    assert frame["operation"].to_list() == ["bandwidth", "latency"]
    assert frame["gbps"][0] == pytest.approx(11030.45 * 2**20 * 8e-9)
    assert frame.select("time_ns", "least", "most").row(1) == (1_790, 1_760, 1_880)
    giga = _read(tmp_path, PERFTEST.replace("MB/sec", "Gb/sec").replace("11030.45", "92.10"))
    assert giga["gbps"][0] == 92.10


def test_csv(tmp_path):
    frame = _read(tmp_path, CSV)
    assert frame["operation"].to_list() == ["allreduce", "sendrecv"]
    assert frame.select("benchmark", "ranks", "nodes").unique().rows() == [("nccl-tests", 20, 10)]
    assert frame["time_ns"].to_list() == [1_405_250, 705_000]
    pairs = "test,size,from,to,mb_s,note\nbw,1048576,n1,n2,24700,x\n"
    with pytest.warns(UserWarning, match="1 column that weft does not know, left out"):
        row = _read(tmp_path, pairs).row(0, named=True)
    assert (row["from_machine"], row["to_machine"], row["operation"]) == ("n1", "n2", "bandwidth")
    assert row["gbps"] == pytest.approx(197.6)


@pytest.mark.skipif(not MEASURED.exists(), reason="needs the shared measurements")
def test_published_tables_are_read():
    frame = read_measurements(MEASURED).frame
    assert len(frame) > 400
    assert set(frame["benchmark"]) == {"nccl-tests", "osu"}
    latency = frame.filter(operation="latency", size_bytes=0, nodes=32).row(0, named=True)
    assert (latency["time_ns"], latency["least"], latency["samples"]) == (1575, 1540, 84)


@pytest.mark.parametrize(
    ("text", "old", "new", "error"),
    [
        (OSU, "Allreduce Latency", "Neighbor Latency", r":1: unknown test .*Neighbor"),
        (OSU, "Min Latency", "Mean Latency", r":3: unknown columns: Mean"),
        (OSU, r"3\.30        1000", "3.3", r":4: the row has 4 values; expected 5"),
        (OSU, "6414.24", "6414.", r":11: Messages/s is '6414.'; expected a number with two"),
        (OSU, r"1      +2\.36[\s\S]*", "", r":9: osu_mbw_mr has no row of results"),
        (PERFTEST, "RDMA_Write BW", "Atomic BW", r":2: unknown test 'Atomic BW Test'"),
        (PERFTEST, r"MsgRate\[Mpps\]", "Jitter[us]", r":6: unknown columns: Jitter\[us\]"),
        (PERFTEST, r"0\.176487", "", r":8: the row has 4 values; expected 5"),
        (PERFTEST, r"6\.12\n-+\n$", "6.12\n", r":14: the table that begins in line 12 is cut"),
        (CSV, "all_reduce", "allreduc", r":3: unknown operation 'allreduc' \(did you mean 'allred"),
        (CSV, ",1405.25", "", r":3: the row has 5 values; expected 6"),
        (CSV, "1405.25", "fast", r":3: time_us is 'fast'; expected a number above 0"),
        (CSV, "time_us", "busbw_gb_s", r":2: expected one column of time_ns, "),
    ],
)
def test_a_wrong_log_is_refused_with_its_line(tmp_path, text, old, new, error):
    wrong, changed = re.subn(old, new, text, count=1)
    assert changed
    with pytest.raises(InputError, match=error):
        _read(tmp_path, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("text", [NCCL, OSU, PERFTEST, CSV], ids=["nccl", "osu", "perf", "csv"])
def test_mutated_logs_are_read_or_refused_with_a_line(tmp_path, text):
    draw = random.Random(1)
    path = tmp_path / "all_reduce.log"
    refused = placed = 0
    for _ in range(2_000):
        lines = list(text)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(lines))
            kind = draw.randrange(4)
            if kind == 0:
                del lines[at:]
            elif kind == 1:
                del lines[at : at + draw.randint(1, 40)]
            elif kind == 2:
                lines[at:at] = lines[draw.randrange(len(lines)) :][: draw.randint(1, 200)]
            else:
                lines[at] = draw.choice('0129.-eE#:|,"\n\t xµ²∞\0[')
            lines = lines or list(" ")
        path.write_text("".join(lines))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                frame = read_measurements(path).frame
            except InputError as error:
                refused += 1
                placed += error.file is not None
            else:
                value = frame["time_ns"].fill_null(frame["gbps"])
                assert value.is_finite().all()
                assert value.min() > 0
    assert refused == placed
    assert 200 < refused < 2_000
