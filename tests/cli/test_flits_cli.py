"""`weft flits`: synthetic traffic in cycles, and configuration files of BookSim 2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.sim.test_booksim import TORUS

import weft
from weft import Load, Router
from weft.cli import main
from weft.sim.sweep.flits import TRAFFIC_COLUMNS

SHORT = ("--warmup", "200", "--measure", "800")


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main(["flits", *map(str, words)])
    return status, *capsys.readouterr()


def rows(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, object]]:
    status, out, _ = run(capsys, *words, "--json")
    assert status == 0
    return list(json.loads(out)["loads"])


@pytest.fixture
def torus(tmp_path: Path) -> Path:
    (tmp_path / "torus88").write_text(TORUS)
    return tmp_path / "torus88"


# -- fabrics ---------------------------------------------------------------------------------------


def test_one_load_is_a_run_of_python(capsys) -> None:
    words = ("torus:4x4", "--routing", "dor", "--load", "0.3", "--size", "1:0.5,5:0.5", *SHORT)
    words += ("--router", "lanes=4,buffer=16", "--latency", "3", "--seed", "7", "--reply", "2")
    words += ("--pattern", "transpose", "--router", "input_speedup=2", "--drain", "9000")
    (row,) = rows(capsys, *words)
    result = weft.simulate_flits(
        weft.fabric("torus:4x4"), "dor", router=Router(lanes=4, buffer=16, input_speedup=2),
        latency=3, drain=9000,
        load=Load(
            rate=0.3, size="1:0.5,5:0.5", reply=2, pattern="transpose", warmup=200, measure=800,
            seed=7,
        ),
    )  # fmt: skip
    assert row["accepted_load"] == result.accepted
    assert row["latency_mean_cycles"] == result.latency.mean
    assert row["latency_p99_cycles"] == result.percentile(99)
    assert row["offered_load"] == pytest.approx(0.3 * 12 / 16 * (1 + 2 / 3))
    assert (row["size"], row["reply"], row["settled"]) == ("1:0.5,5:0.5", 2, result.settled)


def test_threads_change_no_result_and_are_refused_where_they_cannot_be(capsys) -> None:
    words = ("torus:4x4", "--routing", "dor", "--load", "0.3", *SHORT)
    assert rows(capsys, *words, "--threads", "3") == rows(capsys, *words)
    for number in ("0", "2000"):
        status, _, err = run(capsys, *words, "--threads", number)
        assert status == 2
        assert "--threads must be 1 to 1,024" in err
    remote = ("dragonfly:p=2,a=4,h=2", "--engine", "ugal", "--policy", "ugal-g")
    status, _, err = run(capsys, *remote, "--router", "lanes=3", *SHORT, "--threads", "2")
    assert status == 2
    assert "reads the state of distant routers, so this run needs 1 thread" in err


def test_the_drain_may_be_cut_short(capsys) -> None:
    words = ("torus:4x4", "--routing", "dor", "--load", "0.5", *SHORT)
    (row,) = rows(capsys, *words, "--drain", "0")
    assert row["cycles"] == 1000
    assert row["missing"] > 0  # type: ignore[operator]
    assert not row["settled"]


def test_the_table_has_a_row_for_each_load_and_says_where_it_settles(
    capsys, tmp_path: Path
) -> None:
    table, curve = tmp_path / "loads.csv", tmp_path / "curve.svg"
    status, out, err = run(
        capsys, "torus:4x4", "--routing", "dor", "--router", "lanes=2", "--loads", "0.2:1.0:0.4",
        "--warmup", "1000", "--measure", "2000", "--output", table, "--plot", curve,
    )  # fmt: skip
    assert (status, err) == (0, "")
    first = "torus:4x4, routing dor: uniform, packets of 1 flit; warm-up 1,000, measurement 2,000 "
    assert out.startswith(first + "cycles; seed 0\nrouters: lanes=2\n")
    frame = pl.read_csv(table)
    assert frame.columns == list(TRAFFIC_COLUMNS)
    assert frame["load"].to_list() == [0.2, 0.6, 1.0]
    assert frame["settled"].to_list() == [True, True, False]
    most = max(frame["accepted_load"])
    assert "settles up to 0.600, does not settle from 1.000 on; largest accepted load " in out
    assert f"load {most:.3f}." in out
    assert f"plot: {curve}" in out
    drawn = curve.read_text()
    assert "latency (cycles)" in drawn
    assert "flits per cycle and endpoint" in drawn


def test_routings_that_need_other_routers_say_so(capsys) -> None:
    words = ("torus:4x4", "--routing", "dor,adaptive", "--load", "0.1", *SHORT)
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert out.count("routers are changed") == 1
    assert (
        "routing adaptive: routers are changed to switching=cut-through, without which this "
        "routing can deadlock"
    ) in out
    assert [row["router"] for row in rows(capsys, *words)] == ["usual", "switching=cut-through"]
    words = (*words, "--router", "switching=cut-through")
    assert "routers are changed" not in run(capsys, *words)[1]


def test_routings_and_engines_are_compared_and_one_may_not_fit(capsys) -> None:
    words = ("torus:4x4", "--routing", "dor,nca-random", "--engine", "minhop", *SHORT)
    listed = rows(capsys, *words, "--load", "0.1,0.2", "--router", "lanes=2")
    assert [(row["engine"], row["policy"], row["routing"], row["load"]) for row in listed] == [
        ("minhop", "deterministic", None, 0.1), ("minhop", "deterministic", None, 0.2),
        (None, None, "dor", 0.1), (None, None, "dor", 0.2),
        (None, None, "nca-random", 0.1), (None, None, "nca-random", 0.2),
    ]  # fmt: skip
    assert [row["status"] for row in listed] == 4 * ["complete"] + 2 * ["does not fit"]
    _, out, _ = run(capsys, *words)
    assert "routing nca-random: does not fit: this is not a fat tree" in out
    status, out, _ = run(capsys, "torus:4x4", "--engine", "dmodk,minhop", *SHORT)
    assert status == 0
    assert "dmodk: does not fit: " in out
    status, out, err = run(capsys, "torus:4x4", "--engine", "dmodk", *SHORT)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1


def test_a_deadlock_is_named_and_is_no_success(capsys) -> None:
    words = ("torus:6x6", "--engine", "dor", "--router", "lanes=1", "--load", "0.9", *SHORT)
    status, out, _ = run(capsys, *words)
    assert status == 1
    assert "dor: deadlock at 0.900: the buffer behind s" in out
    assert "packets are stuck" in " ".join(out.split())


def test_the_congestion_matrix_has_the_waits_of_the_run(capsys, tmp_path: Path) -> None:
    file = tmp_path / "matrix.svg"
    words = ("torus:4x4", "--routing", "dor", "--load", "0.5", *SHORT)
    status, out, _ = run(capsys, *words, "--congestion-matrix", file)
    assert status == 0
    assert f"congestion matrix: {file}" in out
    assert "uniform on torus:4x4, dor" in file.read_text()
    fabric = weft.fabric("torus:4x4")
    result = weft.simulate_flits(fabric, "dor", load=Load(rate=0.5, warmup=200, measure=800))
    matrix = result.congestion_matrix()
    waits = np.zeros(fabric.num_links)
    waits[matrix["link"].to_numpy()] = matrix["wait_cycles"].to_numpy()
    np.testing.assert_array_equal(
        waits, np.where(fabric.link_to < fabric.num_switches, result.wait_cycles, 0)
    )
    assert waits.sum() > 0
    per_switch = matrix.group_by("node").agg(
        pl.col("wait_cycles").sum(), pl.col("switch_wait_cycles").first()
    )
    assert per_switch["wait_cycles"].equals(per_switch["switch_wait_cycles"])


# -- configuration files of BookSim ----------------------------------------------------------------


def test_a_configuration_file_is_repeated(capsys, torus: Path) -> None:
    words = ("injection_rate=0.2", "sample_period=200", "num_vcs=4")
    status, out, err = run(capsys, torus, *words)
    assert status == 0
    assert f"{torus}: channels 2 between routers, 1 to and from endpoints, cycles\n" in out
    assert "torus:8x8, routing dor: uniform, packets of 1 flit; warm-up 600, measurement " in out
    assert "note: line 4, routing_function = dim_order: in BookSim a packet has one half" in err
    assert "warning" not in err
    result = weft.read_booksim(torus, words).simulate()
    (row,) = rows(capsys, torus, *words)
    assert row["latency_mean_cycles"] == result.latency.mean
    assert row["accepted_load"] == result.accepted


def test_options_replace_settings_of_the_file(capsys, torus: Path) -> None:
    words = ("--loads", "0.05,0.1", "--router", "lanes=4", "--pattern", "shuffle", "--seed", "3")
    listed = rows(capsys, torus, *words, *SHORT, "--latency", "2")
    run_ = weft.read_booksim(torus)
    router = Router(**{**run_.router.table(), "lanes": 4})
    for row, rate in zip(listed, (0.05, 0.1), strict=True):
        load = Load(rate=rate, pattern="shuffle", seed=3, warmup=200, measure=800)
        result = weft.simulate_flits(
            weft.fabric("torus:8x8"), "dor", router=router, load=load, latency=2
        )
        assert row["latency_mean_cycles"] == result.latency.mean


def test_what_lenient_replaces_is_a_warning(capsys, torus: Path) -> None:
    words = (torus, "classes=2", "unheard_of=1", *SHORT)
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert f"weft: error: {torus}: 2 settings have no counterpart in weft:\n" in err
    assert err.endswith("\nWith --lenient, similar values are used, and the notes name them.\n")
    status, _, err = run(capsys, *words, "--lenient")
    assert status == 0
    warned = [line for line in err.splitlines() if line.startswith("weft: warning: ")]
    assert [line.split()[2] for line in warned] == ["unheard_of", "classes"]
    assert run(capsys, *words, "--lenient", "--quiet")[2] == ""


def test_other_commands_name_the_command_for_configuration_files(capsys, torus: Path) -> None:
    for command in ("sweep", "info"):
        assert main([command, str(torus)]) == 2
        expected = "is a configuration file of BookSim; 'weft flits' runs it"
        assert capsys.readouterr().err == f"weft: error: {torus}: {expected}\n"


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--load", "1.2"), "--load: 1.2 does not fit: expected 1 or less"),
        (("--load", "0"), "--load: 0.0 does not fit: expected a number greater than 0"),
        (("--load", "0.5:0.1:0.1"), "--load 0.5:0.1:0.1: expected FIRST:LAST:STEP"),
        (("--load", "x"), "--load x: expected FIRST:LAST:STEP or numbers with commas"),
        (("--router", "lanes=1"), "routing dor needs 2 virtual channels for each class"),
        (("--router", "lanes=3", "--reply", "1"), "virtual channels"),
        (("--router", "lanse=2"), "--router: unknown name 'lanse' (did you mean 'lanes'?)"),
        (("--pattern", "bit-reversal"), "the number of hosts must be a power of two, not 25"),
        (("--pattern", "transpoze"), "unknown traffic pattern 'transpoze' (did you mean 'transp"),
        (("--size", "0"), "--size: expected 1 to 16 sizes of 1 to 1,048,576 flits, not [0]"),
        (("--size", "big"), "--size: 'big' does not fit: expected a size in flits"),
        (("--latency", "0"), "--latency must be"),
        (("--drain", "-1"), "--drain must be"),
        (("--measure", "0"), "--measure: '0' does not fit"),
        (("--policy", "ecmp"), "a routing by coordinates takes no policy; routes of an engine do"),
        (("--routing", "nca-random"), "this is not a fat tree"),
        (("--routing", "door"), "unknown routing 'door' (did you mean 'dor'?)"),
        (("k=4",), "'k=4' requires a configuration file of BookSim, not torus:5x5"),
        (("--lenient",), "--lenient requires a configuration file of BookSim, not torus:5x5"),
        (("--load", "0.1,0.2", "--congestion-matrix", "x.svg"),
         "--congestion-matrix shows one run"),
        (("--plot", "x.txt"), "--plot x.txt: expected a name that ends in .png or .svg or .pdf"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(capsys, words: tuple[str, ...], message: str) -> None:
    routing = () if "--routing" in words else ("--routing", "dor")
    status, out, err = run(capsys, "torus:5x5", *words, *routing)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("weft: error: ")
    assert err.count("\n") == 1


def test_bad_changes_of_a_configuration_file_are_one_error(capsys, torus: Path) -> None:
    for words, message in (
        (("k=x",), f"{torus}: 1 setting has no counterpart in weft:\n  k = x: expected a whole"),
        (("k",), "change 'k': ';' does not fit; expected assignments such as `num_vcs = 8;`"),
        (("num_vcs=1",), "routing dor needs 2 virtual channels for each class of traffic on rin"),
        (("injection_rate=1.5",), "expected more than 0, and at most a packet in a cycle"),
        (("k=6", "traffic=transpose"), "power of two"),
        (("--random-cables", "1"), "--random-cables requires a fabric, but"),
        (("--load", "2"), "--load: 2.0 does not fit: expected 1 or less"),
    ):
        status, out, err = run(capsys, torus, *words)
        assert (status, out) == (2, "")
        assert message in err
        assert err.count("weft: error: ") == 1
