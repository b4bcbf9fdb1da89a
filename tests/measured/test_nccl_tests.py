"""Logs of nccl-tests: tables, messages among the lines, labels, and what is wrong with a log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.measured.logs import NCCL

from weft.core.errors import InputError
from weft.measured.read import read_measurements


def _read(tmp_path: Path, text: str, name: str = "run.log"):
    path = tmp_path / name
    path.write_text(text)
    return read_measurements(path).frame


def test_a_table_has_both_columns_and_its_ranks(tmp_path):
    frame = _read(tmp_path, NCCL)
    assert frame["operation"].unique().to_list() == ["allreduce"]
    assert frame["size_bytes"].to_list() == [33554432] * 2 + [67108864] * 2
    assert frame["time_ns"].to_list() == [712_500, 710_100, 1_398_200, 1_399_000]
    assert frame["in_place"].to_list() == [False, True] * 2
    assert frame["line"].to_list() == [15, 15, 16, 16]
    assert frame.select("ranks", "nodes").unique().rows() == [(4, 2)]
    assert frame.select("from_machine", "to_machine").unique().rows() == [("gpu-01", "gpu-02")]


@pytest.mark.parametrize(
    "label",
    [
        "0: ",
        "[1,0]<stdout>:",
        "[prterun-gpu-01-7@1,0]<stdout>: ",
        "\x1b[31m\a",
        "2026-01-29T10:11:12.125Z ",
        "Thu Jan 29 10:11:12 2026[1,0]<stdout>:",
    ],
)
def test_labels_of_starters_are_removed(tmp_path, label):
    labelled = "".join(label + line for line in NCCL.splitlines(keepends=True))
    assert _read(tmp_path, labelled).drop("source").equals(_read(tmp_path, NCCL).drop("source"))


def test_messages_of_nccl_stand_in_the_lines(tmp_path):
    message = "10-0-0-1:1001:1044 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1]\n"
    torn = NCCL.replace("     sum      -1   712.50", f"     sum      -1{message}{message}   712.50")
    assert torn != NCCL
    found = _read(tmp_path, torn)
    assert found["time_ns"].to_list() == _read(tmp_path, NCCL)["time_ns"].to_list()


def test_several_tables_in_a_file(tmp_path):
    second = NCCL.replace("all_reduce", "sendrecv").replace("gpu-02", "gpu-03")
    frame = _read(tmp_path, NCCL + second.replace("    sum", "   none"))
    assert frame["operation"].to_list() == ["allreduce"] * 4 + ["sendrecv"] * 4
    assert frame["to_machine"].unique(maintain_order=True).to_list() == ["gpu-02", "gpu-03"]


def test_the_name_of_the_file_may_give_the_collective(tmp_path):
    bare = NCCL.replace("+ mpirun -np 4 ./build/all_reduce_perf -b 32M -e 64M -f 2 -g 1\n", "")
    frame = _read(tmp_path, bare, "h100_reduce_scatter_g2.log")
    assert frame["operation"].unique().to_list() == ["reduce-scatter"]
    with pytest.raises(InputError, match=r"run.log:12: does not say which collective"):
        _read(tmp_path, bare)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (r"# Out of[\s\S]*", "", r":17: the table that begins in line 13 is cut"),
        (r"  71.95       0\n[\s\S]*", "", r":16: the row has 11 values; expected 13"),
        (r"67108864      16777216[\s\S]*", "6710", r":16: the row has 1 values; expected 13"),
        ("all_reduce_perf", "hypercube_perf", r":13: unknown collective 'hypercube'"),
        ("float     sum", "quad     sum", r":15: unknown datatype 'quad'"),
        ("1002 on   gpu-01", "1002 on   gpu-02", r":13: the ranks are not in blocks of one size"),
        (r"\Z", NCCL[NCCL.index("# nThread") :], r":31: does not say which collective"),
        ("71.95       0", "71.95       3", r":16: 3 values were wrong"),
        ("0 OK", "7 FAILED", r":17: 7 values were wrong"),
        ("1398.20", "-1.0", r":16: time is '-1.0'; expected a number above 0"),
        ("Rank  1", "Rank  0", r":6: rank 0 is listed twice: nccl-tests was built without MPI"),
        ("Rank  1", "Rank  9", r":13: the lines of devices lack ranks below 9"),
        ("busbw  #wrong     time ", "busbw  #wrong     cputime ", r":13: has times of processors"),
    ],
)  # fmt: skip
def test_a_wrong_log_is_refused_with_its_line(tmp_path, old, new, error):
    wrong, changed = re.subn(old, new, NCCL, count=1)
    assert changed
    with pytest.raises(InputError, match=error):
        _read(tmp_path, wrong)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"is no log that weft reads; expected one of .*nccl-test"):
        _read(tmp_path, "something\n")
    (tmp_path / "run.log").write_text(NCCL)
    (tmp_path / "notes.txt").write_text("hello\n")
    assert len(read_measurements(tmp_path).frame) == 4
    with pytest.raises(InputError, match=r"run.log: is given twice"):
        read_measurements([tmp_path, tmp_path / "run.log"])
