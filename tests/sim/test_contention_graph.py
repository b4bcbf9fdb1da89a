"""Contention graphs: penalties and completion times against the closed forms of the model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from weft.cli import main
from weft.core.errors import InputError
from weft.sim.flow.contention import model as contention
from weft.sim.flow.contention.graph_file import (
    ContentionGraph,
    parse_bandwidth,
    parse_contention_graph,
    read_contention_graph,
    write_contention_graph,
)
from weft.sim.flow.contention.model import predict_steps

FIGURE_3 = """# Figure 3
size 20MiB          # of all
0 -> 1
b: 0->2  20971520
0 -> 3  # c
d: 4 -> 1 start 0
4 -> 5 20 MiB start 0 ms
6 -> 5
"""


def test_settings_names_and_units_are_read() -> None:
    graph = parse_contention_graph(
        "start 2ms\nbandwidth 2GiB/s\na: x-1 -> y[2] 1kB\nb -> x-1  4k  start 1.5\n"
        "z: b->c 0 start 3us"
    )
    assert graph == ContentionGraph(
        ("a", "b", "z"),
        ("x-1", "b", "b"),
        ("y[2]", "x-1", "c"),
        (1000, 4096, 0),
        (0.002, 1.5, 3e-6),
        2.0**-31,
    )
    assert graph.nodes() == ([0, 2, 2], [1, 0, 3])
    # Edges without a name get letters that are not names of other edges.
    graph = parse_contention_graph("size 1\n0 -> 1\na: 1 -> 0\n0 -> 2")
    assert graph.names == ("b", "a", "c")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("size 1\n0 -> 0", 2, "column 6: the edge is a loop at node 0"),
        ("0 -> 1", 1, "column 7: a size is missing after 0 -> 1"),
        ("0 -> 1 5XB", 1, "column 8: '5XB' is not a size"),
        ("0 -> 1 -5", 1, "column 8: '-5' is not a size"),
        ("0 -> 1 1e60", 1, "column 8: a size of '1e60' is out of range"),
        ("0 -> 1 5 start", 1, "column 15: a time is missing"),
        ("0 -> 1 5 start -1", 1, "column 16: '-1' is not a start"),
        ("0 -> 1 5 start nan", 1, "column 16: 'nan' is not a start"),
        ("0 -> 1 5 B more", 1, "column 12: expected 'start' or the end of the line, found 'more'"),
        ("a: 0 -> 1 5\n\na: 0 -> 2 5", 3, "column 1: the name a is already in line 1"),
        ("  sise 5\n", 1, "column 3: expected an edge such as"),
        ("0 1", 1, "column 1: expected an edge"),
        ("a b: 0 -> 1 5", 1, "column 8: expected 'name: source -> destination'"),
        ("a: 0 1 5", 1, "column 2: expected 'name: source"),
        ("0-->1 5", 1, "column 2: expected '->' between source and destination, found '-->'"),
        ("a: 0 <-> 1 5", 1, "column 6: expected '->' between source and destination, found '<->'"),
        ("0 ->> 1 5", 1, "column 3: expected '->' between source and destination, found '->>'"),
        ("0 => 1 5", 1, "column 1: expected an edge such as"),
        ("0 -> 1, 5", 1, "column 3: expected 'name: source"),
        ("size", 1, "column 5: a value is missing after size"),
        ("size 1\nsize 2", 2, "column 1: size is given twice"),
        (
            "bandwidth 1GB/s\ninverse-bandwidth 1e-9",
            2,
            "column 1: inverse-bandwidth is given twice",
        ),
        ("bandwidth 5 m/s", 1, "column 11: '5 m/s' is not a bandwidth"),
        ("bandwidth 0GB/s", 1, "column 11: bandwidth 0GB/s; expected a number above 0"),
        (
            "inverse-bandwidth -1",
            1,
            "column 19: expected a positive number of seconds per byte",
        ),
        ("size 5\n# nothing", None, "has no edge"),
    ],
)
def test_errors_name_line_and_column(text, line, message) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        parse_contention_graph(text, "graph.txt")
    assert caught.value.file == "graph.txt"
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ("a", "a")}, "two edges have the name a"),
        ({"names": ("a",)}, "must have one entry per edge"),
        ({"sources": ("x", "->")}, "'->' cannot be a name"),
        ({"sources": ("y", "y")}, "edge a is a loop at node y"),
        ({"size_bytes": (1, -1)}, "edge b: size -1 bytes"),
        ({"start_s": (float("nan"), 0.0)}, "edge a: start nan s"),
        ({"inverse_bandwidth_s_per_byte": 0.0}, "inverse bandwidth 0.0"),
    ],
)
def test_a_graph_checks_itself(change, message) -> None:
    usual = {
        "names": ("a", "b"),
        "sources": ("x", "x"),
        "destinations": ("y", "z"),
        "size_bytes": (1, 2),
        "start_s": (0.0, 1.0),
    }
    with pytest.raises(InputError, match=re.escape(message)):
        ContentionGraph(**{**usual, **change})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.82GiB/s", 1.82 * 2**30), ("12.5GB/s", 12.5e9), ("100Gb/s", 12.5e9),
        ("100 Gbps", 12.5e9),
        ("4xHDR", 25e9), ("EDR", 12.5e9), ("5B/s", 5), ("8kb/s", 1000),
    ],
)  # fmt: skip
def test_bandwidths_are_parsed(text: str, expected: float) -> None:
    assert parse_bandwidth(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("text", ["", "5", "fast", "GB/s", "1iB/s", "-1GB/s", "1e999GB/s", "0B/s"])
def test_invalid_bandwidths_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="bandwidth"):
        parse_bandwidth(text)


def run(capsys, *words: str) -> tuple[int, str, str]:
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_predict_prints_times_and_penalties(tmp_path: Path, capsys) -> None:
    file = tmp_path / "graph.txt"
    file.write_text(FIGURE_3)
    status, out, _ = run(capsys, "predict", str(file))
    assert status == 0
    rows = re.findall(r"^│ (\w) .*│ +(\S.*?) │ +(\S+) │ +\S+ │$", out, re.M)
    assert [row[0] for row in rows] == list("abcdef")
    assert [row[1] for row in rows] == ["3.5, 3"] * 3 + ["3.333, 2.333"] * 2 + ["1.5"]
    assert [row[2] for row in rows] == ["0.0363748"] * 3 + ["0.0297983"] * 2 + ["0.0160589"]
    assert "6 edges, 3 steps, 5.105e-10 s/byte" in out


def test_predict_prints_every_step(tmp_path: Path, capsys) -> None:
    file = tmp_path / "graph.txt"
    file.write_text(FIGURE_3 + "late: 1 -> 0 1MiB start 1\n")
    _, out, _ = run(capsys, "predict", str(file), "--steps", "--bandwidth", "4xHDR")
    rows = re.findall(r"^│ +(\d?) +│ (\w+) +│ +(\S+) │ +(\S+) │ +(\S[\S ]*?) │$", out, re.M)
    assert len(rows) == 4 * 7
    steps = predict_steps(*read_contention_graph(file).nodes(), [20 * 2**20] * 6 + [2**20],
                          [0.0] * 6 + [1.0], 1 / 25e9)  # fmt: skip
    for step in range(4):
        for edge in range(7):
            _, _, penalty, left, time = rows[7 * step + edge]
            if np.isnan(steps.penalty[step, edge]):
                assert penalty == "-"
            else:
                assert float(penalty) == pytest.approx(steps.penalty[step, edge], rel=1e-3)
            assert int(left.replace(",", "")) == round(steps.remaining_bytes[step, edge])
            ends = min(steps.end_s[step], steps.completion_s[edge])
            if edge == 6 and step < 3:
                assert time == "not started"
            else:
                assert float(time) == pytest.approx(ends, rel=1e-5)


def test_predict_takes_bandwidth_from_flag_then_file(tmp_path: Path, capsys) -> None:
    file = tmp_path / "graph.txt"
    file.write_text("inverse-bandwidth 1e-9\n0 -> 1 1000000\n")
    assert "completion at 0.001 s" in run(capsys, "predict", str(file))[1]
    flag = ("--inverse-bandwidth", "2e-9")
    assert "completion at 0.002 s" in run(capsys, "predict", str(file), *flag)[1]
    file.write_text("0 -> 1 1000000\n0 -> 2 1000000")
    flags = ("--coefficient", "out-weight=0.75", "--inverse-bandwidth", "1e-9")
    assert "completion at 0.0015 s" in run(capsys, "predict", str(file), *flags)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bandwidth", "1GB/s", "--inverse-bandwidth", "1e-9"), "not both"),
        (("--bandwidth", "fast"), "'fast' is not a bandwidth"),
        (
            ("--inverse-bandwidth", "0"),
            "the inverse bandwidth in s per byte must be",
        ),
        (("--coefficient", "in_weigth=1"), "did you mean 'in_weight'?"),
        (("--coefficient", "in_weight=x"), "'x' is not a number"),
        (("--coefficient", "in_weight=-1"), "in_weight must be a finite number of at least 0"),
        (("--coefficient", "in_weight=1", "--coefficient", "in_weight=1"), "given twice"),
    ],
)
def test_predict_refuses_invalid_options(tmp_path: Path, capsys, words, message) -> None:
    file = tmp_path / "graph.txt"
    file.write_text("0 -> 1 5\n")
    status, out, err = run(capsys, "predict", str(file), *words)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_predict_writes_one_edge_in_the_singular(tmp_path: Path, capsys) -> None:
    file = tmp_path / "graph.txt"
    file.write_text("0 -> 1 5\n")
    assert "1 edge, 1 step, " in run(capsys, "predict", str(file))[1]


def test_predict_shows_short_times_after_a_large_start_time(tmp_path: Path, capsys) -> None:
    file = tmp_path / "graph.txt"
    file.write_text("inverse-bandwidth 1e-9\nstart 1700000000\n0 -> 1 1000\n0 -> 2 1000000\n")
    out = run(capsys, "predict", str(file))[1]
    rows = re.findall(r"^│ \w .*│ +(\S+) │ +\S.*? │ +(\S+) │ +(\S+) │$", out, re.M)
    assert [row[2] for row in rows] == ["2.000", "1.001"]
    assert [float(row[1]) for row in rows] == [1.7e9 + 2e-6, 1.7e9 + 1.001e-3]
    assert {row[0] for row in rows} == {"1700000000"}


def test_predict_needs_no_table_of_steps_for_a_large_graph(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(contention, "_MOST_RECORDED", 1_000_000)
    file = tmp_path / "graph.txt"
    lines = [f"{e} -> {e // 3 + 20_000} {1000 + e}" for e in range(1_200)]
    file.write_text("inverse-bandwidth 1e-9\n" + "\n".join(lines))
    status, out, _ = run(capsys, "predict", str(file))
    assert status == 0
    assert "1200 edges, 1e-09 s/byte" in out
    assert "penalties" not in out
    # The last three edges share a destination: each sends 2,197 bytes at a third of the rate, two
    # send another byte at half the rate, and one sends its last byte alone.
    expected = (3 * 2_197 + 2 * 1 + 1) * 1e-9
    assert f"last completion at {expected:.6g}" in out
    status, _, err = run(capsys, "predict", str(file), "--steps")
    assert status == 2
    assert "too many to record" in err


def test_predict_names_the_place_of_an_error(tmp_path: Path, capsys) -> None:
    file = tmp_path / "graph.txt"
    file.write_text("0 -> 1 5\n1 -> 1 5\n")
    status, _, err = run(capsys, "predict", str(file))
    assert status == 2
    assert f"{file}:2: column 6: the edge is a loop at node 1" in err
    assert run(capsys, "predict", str(tmp_path / "none.txt"))[0] == 2


def test_a_written_graph_is_read_as_the_same(tmp_path: Path) -> None:
    graph = parse_contention_graph(FIGURE_3)
    write_contention_graph(graph, tmp_path / "graph.txt")
    assert read_contention_graph(tmp_path / "graph.txt") == graph


def test_the_example_is_figure_3() -> None:
    example = read_contention_graph("examples/contention_graph.txt")
    here = parse_contention_graph("inverse-bandwidth 5.105e-10\n" + FIGURE_3)
    assert example == here


#: Prints the kernels that were compiled for argument types which `weft warmup` leaves out.
AFTER_WARMUP = """
import numpy as np
from numba.core.dispatcher import Dispatcher
from weft.cli.warmup import warm_contention
from weft.kernels.flow import contention_events, contention_steps, penalty
from weft.sim.flow.contention.model import penalties, predict, predict_steps
from weft_calibration.fit import _Problem
from weft.sim.flow.contention.coefficients import INFINIBAND
from weft_calibration.measurements import Measurement
from weft_calibration.recovery import survey

def compiled():
    modules = (contention_steps, contention_events, penalty)
    return {
        (module.__name__, name, str(signature))
        for module in modules
        for name, kernel in vars(module).items()
        if isinstance(kernel, Dispatcher)
        for signature in kernel.signatures
    }

warm_contention()
before = compiled()
assert len(before) >= 4
penalties([0, 0], [1, 2])
predict_steps([0, 0], [1, 2], [5, 6])
predict(np.zeros(500, dtype=int), np.arange(1, 501), 5)
ends, one = np.array([0]), np.ones(1)
alone = Measurement("alone", ends, ends + 1, np.array([5]), one, 0 * one, {})
problem = _Problem(survey([alone], start_tolerance=0.05), [], INFINIBAND)
problem.residuals(problem.vector(INFINIBAND))
print(sorted(compiled() - before))
"""


def test_warmup_compiles_the_kernels_of_the_commands() -> None:
    result = subprocess.run(
        [sys.executable, "-c", AFTER_WARMUP], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
