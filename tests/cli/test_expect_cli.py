"""`weft expect`: tables, pages, JSON, pairwise logs, and what is refused."""

import json

import polars as pl
import pytest
from tests.measured.logs import CSV, NCCL, OSU

from weft.advice.expect.expect import EXPECT_COLUMNS
from weft.cli.app import run

SPEC = "xgft:2;4,3;1,2"
HEAD = "operation,size_bytes,time_us,nodes,min,max,samples\n"


@pytest.fixture
def log(tmp_path):
    file = tmp_path / "run.csv"
    rows = [
        f"latency,{size},{1 + size / 25_000},2,{0.9},{2 + size / 25_000},9\n" for size in (8, 2**20)
    ]
    file.write_text(HEAD + "".join(rows))
    return file


def test_answer_table_page_and_json(log, tmp_path, capsys):
    page, table = tmp_path / "page.html", tmp_path / "sizes.parquet"
    words = [
        "expect", str(log), "--fabric", SPEC, "--overhead", "0.3us", "--report", str(page),
        "--output", str(table),
    ]  # fmt: skip
    assert run(words) == 0
    out = capsys.readouterr().out
    assert "adapter s1-0[1] -> h0[1]" in out
    assert out.splitlines()[-1].startswith("latency (osu), 2 machines: as expected within 20%")
    frame = pl.read_parquet(table)
    assert frame.columns == list(EXPECT_COLUMNS)
    assert frame["interval"].to_list() == ["range of 9 runs"] * 2
    text = page.read_text()
    assert text.count("<circle") == 4
    assert "latency (osu), 2 machines by size" in text
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdicts"][0]["status"] == "as expected"
    assert [row["size_bytes"] for row in found["sizes"]] == [8, 2**20]
    assert run([*words[:4], "--tolerance", "0.01"]) == 1


def test_a_log_of_nccl_tests_on_machines_of_a_model(tmp_path, capsys):
    log, table = tmp_path / "run.log", tmp_path / "sizes.csv"
    log.write_text(NCCL)
    fabric = ["--fabric", "xgft:2;2,8;1,8,rate=NDR", "--node", "dgx-h100"]
    assert run(["expect", str(log), *fabric, "--output", str(table)]) in (0, 1)
    frame = pl.read_csv(table)
    assert frame["choice"].str.starts_with("allreduce: NCCL 2").all()
    assert frame["ratio"].is_between(0.5, 2).all()
    assert frame["expected"].to_list()[:2] == frame["expected"].to_list()[2:]  # in place: the same
    out = capsys.readouterr().out
    assert "all_reduce_perf, gpu-01 to gpu-02, in place: " in out
    assert out.splitlines()[-1].startswith("Of 2 series, with 20% of tolerance: ")


def test_packets_and_a_part_of_the_rows(log, tmp_path, capsys):
    log.write_text(log.read_text() + "allreduce,8,5,11,,,\n")
    words = ["expect", str(log), "--fabric", SPEC, "--only", "operation=latency"]
    assert run([*words, "--level", "packet", "--tolerance", "2"]) == 0
    assert run(words[:4]) == 2
    assert "run.csv:4: the log is of 11 ranks on 11 machines, and" in capsys.readouterr().err
    assert run([*words[:4], "--only", "operation=bcast"]) == 2
    assert "no row has it; there are latency, allreduce" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_pairwise_logs_go_to_parts_of_the_fabric(tmp_path, capsys):
    file = tmp_path / "pairs.csv"
    pairs = [(a, b) for a in range(12) for b in range(12) if a != b]
    rows = [f"bw,1048576,h{a},h{b},{50 if 5 in (a, b) else 190}\n" for a, b in pairs]
    file.write_text("operation,size_bytes,from,to,gbps\n" + "".join(rows))
    assert run(["expect", str(file), "--fabric", SPEC]) == 1
    assert "Slow: machine h5" in capsys.readouterr().out.replace("adapter h5", "machine h5")
    assert run(["expect", str(file), "--fabric", SPEC, "--library", "mpich"]) == 2
    assert "a log of pairwise runs takes no --library" in capsys.readouterr().err
    file.write_text(file.read_text() + "bw,8,,,3\n")
    assert run(["expect", str(file), "--fabric", SPEC]) == 1
    assert "warning: left out: 1 value of no pair" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        (NCCL, [], r"the log is of 4 ranks on 2 machines, and xgft"),
        (CSV, [], r"run.csv:3: the log is of 20 ranks on 10 machines"),
        (OSU[:-6], [], r"run.csv:11: Messages/s is '64'; expected a number with two decimals"),
        (OSU, ["--tolerance", "0"], r"--tolerance: expected a share such as 0.2, not 0"),
        (OSU, ["--only", "size=3"], r"--only size=3: expected one of source, line"),
        (OSU, ["--report", "x.txt"], r"--report x.txt: expected a name that ends in .html"),
    ],
)
def test_what_is_refused(tmp_path, capsys, text, words, error):
    file = tmp_path / "run.csv"
    file.write_text(text)
    assert run(["expect", str(file), "--fabric", SPEC, *words]) == 2
    assert error.replace("\\", "") in capsys.readouterr().err
