"""`weft expect` of pairwise runs, `--fit`, and commands with `--host-parameters`."""

import json
import re

import polars as pl
import pytest

from weft.cli.app import run
from weft.sim.common.host_parameters import HostParameters, Overhead, read_host_parameters

SPEC = "xgft:2;4,3;1,2"


def test_pairwise_page_table_and_json(tmp_path, capsys):
    file, page, table = (
        tmp_path / name for name in ("pairs.csv", "page.html", "pairs.csv.parquet")
    )
    rows = [
        # Pairs of a round share the cables between switches, so that half of the rate is expected.
        f"bw,1048576,h{a},h{a + 4},round 1,{30 if a == 2 else 100}\n"
        for a in range(4)
    ]
    rows += [
        f"bw,1048576,h{a},h{b},,{60 if 2 in (a, b) else 200}\n" for a in range(12) for b in range(a)
    ]
    file.write_text("operation,size_bytes,from,to,round,gbps\n" + "".join(rows))
    words = ["expect", str(file), "--fabric", SPEC, "--report", str(page), "--output", str(table)]
    assert run([*words, "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["pairwise"]
    assert "machine h2" in found["suspects"][0]["names"]
    assert found["suspects"][0]["value"] == pytest.approx(0.3, abs=0.01)
    assert len(found["pairs"]) == 70
    frame = pl.read_parquet(table)
    assert frame["runs"].unique().to_list() == ["bandwidth at 1,048,576 B"]
    assert frame["expected"][0] == pytest.approx(100)
    assert frame["expected"][-1] == pytest.approx(200)
    text = page.read_text()
    matrix = re.search(r"<svg.*?</svg>", text, re.DOTALL)[0]
    framed = re.search(r'<path d="([^"]*)" fill="none" stroke', matrix)[1]
    assert framed.count("M") == 12
    assert "Rings mark cables of suspects." in text


def test_fit_writes_what_other_commands_take(tmp_path, capsys):
    log, out = tmp_path / "run.csv", tmp_path / "hosts.toml"
    rows = [f"latency,time_us,{2**p},{1.5 + 2**p / 10_000}" for p in range(20)]
    rows += [f"bw,gbps,{2**p},{8 * 2**p / max(300, 2**p / 12.5)}" for p in range(20)]
    log.write_text("\n".join(["operation,measure,size_bytes,value", *rows]) + "\n")
    assert run(["expect", str(log), "--fabric", SPEC, "--fit", str(out)]) == 0
    text = capsys.readouterr().out
    assert "latency: 20 figures; the model is within" in text
    assert "Not determined: the injection gap" in text
    found = read_host_parameters(out)
    assert found.adapter_gbps == pytest.approx(101, rel=0.03)
    assert found.overhead[0].ns == pytest.approx(260, rel=0.15)
    words = ["--host-parameters", str(out), "--json"]
    assert run(["expect", str(log), "--fabric", SPEC, *words[:2], "--tolerance", "0.25"]) == 0


def test_commands_and_files_take_host_parameters(tmp_path, capsys):
    out = tmp_path / "hosts.toml"
    HostParameters(overhead=(Overhead(from_bytes=0, ns=1000),)).write(out, [])
    ping = "pingpong:sizes=8B"
    words = ["simulate", SPEC, "--workload", ping, "--ranks", "2", "--json"]

    def makespan(*more):
        assert run([*words, *more]) == 0
        return json.loads(capsys.readouterr().out)["runs"][0]["makespan_ns"]

    plain, slow = makespan(), makespan("--host-parameters", str(out))
    assert slow == makespan("--overhead", "1us") > plain + 4000
    assert makespan("--host-parameters", str(out), "--overhead", "0") == plain
    packet = makespan("--level", "packet", "--host-parameters", str(out))
    assert packet == makespan("--level", "packet", "--overhead", "1us")
    file = tmp_path / "run.toml"
    file.write_text(
        f'fabric = "{SPEC}"\nhost_parameters = "hosts.toml"\n[[job]]\n'
        f'workload = "{ping}"\nranks = 2\n'
    )
    assert run(["simulate", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["makespan_ns"] == slow
    out.write_text("overhead = 3\n")
    assert run([*words, "--host-parameters", str(out)]) == 2
    assert "hosts.toml:1: overhead" in capsys.readouterr().err
