"""`weft topologies`: its table and answers, files, and wrong input."""

import json
from pathlib import Path

import polars as pl
import pytest

from weft.cli import main
from weft.cli.topologies import RUN_COLUMNS, answers
from weft.study.machines import uneven
from weft.study.runs.executors import InProcess
from weft.study.runs.store import Store

FEW = ["--hosts", "12", "--radix", "8", "--workload", "allreduce:size=64KiB", "--processes", "1"]


@pytest.fixture
def here(monkeypatch):
    """Perform runs in this process, as worker processes take long to start."""
    monkeypatch.setattr("weft.cli.topologies.LocalProcesses", lambda number, limits: InProcess())


def test_the_answer_precedes_the_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["topologies", *FEW, "--family", "fat-tree-1:1", "hyperx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "12 hosts at 4xNDR, switches of 8 ports; static routing; level flow"
    assert lines[1].startswith("Fewest switches: fat-tree-1:1 (5), then ")
    (row,) = (line for line in lines if line.startswith("│ fat-tree-1:1"))
    cells = [cell.strip() for cell in row.split("│")[2:-1]]
    assert cells[:3] == ["5", "8", "24"]
    assert cells[-1] == "static: dmodk"


@pytest.mark.usefixtures("here")
def test_a_narrow_terminal_has_fewer_columns_and_whole_routes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "125")
    words = ["--family", "torus", "--workload", "barrier"]
    assert main(["topologies", *FEW, *words]) == 0
    out = capsys.readouterr().out
    assert "static: torus-2QoS │" in out
    (head,) = (line for line in out.splitlines() if line.startswith("┃ machine"))
    names = [cell.strip() for cell in head.split("┃")[1:-1]]
    assert names == [
        "machine", "switches", "cables", "bisection", "uniform", "allreduce", "alone", "barrier",
        "alone", "routes",
    ]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("routing", ["static", "adaptive"])
def test_all_machines_have_the_class_of_routing(routing, capsys):
    words = ["--hosts", "40", "--radix", "16", "--workload", "shift", "--processes", "1"]
    assert main(["topologies", *words, "--routing", routing, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert len(rows) > 5
    assert {row["routing"] for row in rows} == {routing}
    assert {row["engine"] in ("ugal", "ecmp") for row in rows} == {routing == "adaptive"}
    assert all(row["status"] == "complete" for row in rows)


@pytest.mark.slow
def test_a_time_without_contention_is_beside_every_time(capsys):
    rows = []
    for more in ([], ["--eager", "1MiB"]):
        words = ["topologies", *FEW, "--family", "torus", "--json", *more]
        assert main(words) == 0
        rows += json.loads(capsys.readouterr().out)["runs"]
    for row in rows:
        assert row["makespan_ns"] >= row["contention_free_ns"] > 0
    assert rows[1]["contention_free_ns"] < rows[0]["contention_free_ns"]


@pytest.mark.slow
def test_machines_of_every_size_lack_the_same_share_of_cables(capsys, tmp_path: Path):
    rows = {}
    for faults in ([], ["--random-cables", "20%", "--fault-seed", "3"]):
        words = ["topologies", *FEW, "--family", "torus", "fat-tree", "--json", *faults]
        assert main([*words, "--prices", str(prices_of(tmp_path))]) == 0
        rows[len(faults)] = json.loads(capsys.readouterr().out)["runs"]
    machines = []
    for whole, broken in zip(rows[0], rows[4], strict=True):
        missing, of = broken["faults"].removesuffix(" cables (20%)").split(" of ")
        machines.append(int(of))
        assert int(missing) == max(1, int(int(of) / 5 + 0.5))
        assert int(of) == whole["cables"] - 12
        # What is bought is the whole machine.
        assert whole["faults"] is None
        for name in ("cables", "cable_m", "cost", "copper_cables"):
            assert broken[name] == whole[name]
        assert broken["bisection"] <= whole["bisection"]
    assert len(set(machines)) > 2
    words = ["topologies", *FEW, "--family", "torus", "--random-cables", "2"]
    assert main(words) == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert head.endswith("; 2 cables between switches missing at random, seed 0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--random-cables", "0%"), "--random-cables: '0%' does not fit: expected a share over 0%"),
        (("--random-cables", "2 %"), "--random-cables: '2 %' does not fit: expected a whole"),
        (("--fault-seed", "1"), "--fault-seed requires --random-cables"),
    ],
)
def test_wrong_faults_are_refused(words, message, capsys):
    assert main(["topologies", *FEW, "--family", "torus", *words]) == 2
    assert message in capsys.readouterr().err


def prices_of(folder: Path) -> Path:
    prices = folder / "prices.toml"
    prices.write_text('currency = "CHF"\n[[switch]]\nports = 8\nprice = 100\n')
    return prices


def test_ranks_that_cost_an_algorithm_more_are_named():
    assert list(uneven(("allreduce:size=64KiB", "shift"), 16)) == []
    (text,) = uneven(("allreduce:size=64KiB", "alltoall:size=1KiB,algorithm=bruck"), 12)
    assert text == (
        "12 ranks are not a power of two: in allreduce:size=64KiB a rank sends up to 176 KiB, "
        "with 16 ranks 120 KiB."
    )


@pytest.mark.usefixtures("here")
def test_exports_and_pages_have_spec_routing_engine_and_currency(tmp_path: Path):
    folder, file = (tmp_path / name for name in ("store", "runs.csv"))
    prices = prices_of(tmp_path)
    words = ["--family", "torus,hyperx", "--prices", str(prices), "--store", str(folder)]
    page = tmp_path / "page.html"
    assert main(["topologies", *FEW, *words, "--report", str(page)]) == 0
    assert main(["store", "export", str(folder), str(file)]) == 0
    row = pl.read_csv(file).row(by_predicate=pl.col("machine") == "torus", named=True)
    assert row["spec"].startswith("torus:")
    assert (row["routing"], row["engine"]) == ("static", "torus-2QoS")
    units = dict(pl.read_csv(tmp_path / "runs.columns.csv").select("column", "unit").iter_rows())
    assert (units["cost"], units["cost_per_host"], units["spec"]) == ("CHF", "CHF", "")
    text = page.read_text()
    assert "cost (CHF)" in text
    assert f"<td>{row['spec']}</td><td>static</td><td>torus-2QoS</td>" in text


@pytest.mark.slow
def test_calls_with_other_options_are_studies_of_their_own_in_a_store(tmp_path: Path):
    folder = tmp_path / "store"
    words = ["topologies", *FEW, "--family", "torus", "--store", str(folder)]
    members = []
    for more in ([], ["--level", "packet"], [], ["--seed", "4"]):
        assert main([*words, *more]) == 0
        with Store(folder) as store:
            found = {name: [m.key for m in store.members(name)] for name in store.studies()}
        members.append(found)
    assert [len(each) for each in members] == [1, 2, 2, 3]
    assert all(name.startswith("topologies-12-4xNDR-") for name in members[3])
    # The same call goes on with its own, which is the last one then.
    assert members[2] == members[1]
    assert list(members[2])[-1] == next(iter(members[0]))
    with Store(folder) as store:
        assert len(store.briefs()) == len({key for each in members[3].values() for key in each})


@pytest.mark.slow
def test_the_page_of_a_single_machine_begins_with_its_table(tmp_path: Path):
    page = tmp_path / "page.html"
    words = ["topologies", *FEW, "--family", "torus", "--report", str(page)]
    assert main(words) == 0
    text = page.read_text()
    table = text[text.index('id="choices"') :]
    assert text.index('id="choices"') < text.index('id="best"')
    row = table[table.index("<tbody>") : table.index("</tbody>")]
    assert row.count("<tr>") == 1
    assert '<th scope="row">the only one</th>' in row
    assert "<td>static</td><td>torus-2QoS</td>" in row


@pytest.mark.slow
def test_the_table_is_the_same_for_several_processes(tmp_path: Path):
    tables = []
    for number in ("1", "2"):
        file = tmp_path / f"{number}.csv"
        words = ["topologies", *FEW[:-1], number, "--family", "torus,hyperx", "-o", str(file)]
        assert main(words) == 0
        tables.append(file.read_text())
    assert tables[0] == tables[1]
    table = pl.read_csv(tmp_path / "1.csv")
    assert table.columns == list(RUN_COLUMNS)
    assert table["status"].to_list() == ["complete"] * 2


@pytest.mark.usefixtures("here")
def test_a_run_that_fails_has_its_reason_and_does_not_stop_the_others(capsys):
    words = ["topologies", *FEW, "--family", "torus,fat-tree-1:1", "--engine", "dmodk", "--json"]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert [row["status"] for row in rows] == ["complete", "does not fit"]
    assert rows[1]["reason"].startswith("dmodk: this is not a fat tree")
    assert rows[1]["makespan_ns"] is None


def test_a_run_that_takes_too_long_has_the_figures_without_routes(capsys):
    words = ["topologies", *FEW, "--family", "torus", "--run-seconds", "0.001"]
    assert main(words) == 1
    assert "torus: routes, and figures that need them: took longer" in capsys.readouterr().out
    assert main([*words, "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["status"], row["engine"], row["makespan_ns"]) == ("out of time", None, None)
    assert (row["hosts"], row["diameter"] > 2, row["cable_m"] > 0) == (12, True, True)


@pytest.mark.usefixtures("here")
def test_the_status_is_one_if_no_run_has_a_result(capsys):
    assert main(["topologies", *FEW, "--family", "torus", "--engine", "dmodk"]) == 1
    assert "torus: dmodk: this is not a fat tree" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("here")
def test_machines_that_do_not_fit_are_listed_with_the_reason(capsys):
    words = ["topologies", "--hosts", "7", *FEW[2:], "--family", "jellyfish", "fat-tree"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "jellyfish: the fat tree for 7 hosts has 1 switch" in out
    assert "fat-tree-2:1: the same machine as fat-tree-1:1" in out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--hosts", "1"], "the number of hosts must be"),
        (["--hosts", "12", "--radix", "1"], "the number of ports of a switch must be"),
        (["--hosts", "12", "--rate", "fast"], "unknown rate 'fast'"),
        (["--hosts", "12", "--family", "tours"], "did you mean 'torus'"),
        (["--hosts", "12", "--output", "t.txt"], "expected a name that ends in .csv"),
        (["--hosts", "12", "--prices", "none.toml"], "none.toml"),
        (["--hosts", "12", "--engine", "dmodkk"], "dmodkk"),
        (["--hosts", "12", "--engine", "dmodk", "--routing", "static"], "give one of the two"),
        (["--hosts", "12", "--eager", "much"], "--eager"),
        (["--hosts", "12", "--workload", "allredcue"], "allredcue"),
        (["--hosts", "12", "--workload", "allreduce:sise=1"], "sise"),
        (["--hosts", "12", "--workload", "transpose"], "transpose"),
        (["--hosts", "12", "--placement", "lineal"], "lineal"),
        (["--hosts", "12", "--processes", "0"], "processes must be at least 1"),
        ([], "--hosts"),
    ],
)
def test_wrong_input_is_one_line(words, reason, capsys):
    assert main(["topologies", *words]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def row(machine: str, makespan_ns: float, switches: int) -> dict[str, object]:
    return {
        "machine": machine, "workload": "w", "makespan_ns": makespan_ns, "switches": switches,
        "throughput_gbps": 1000 / makespan_ns, "hosts": 10, "cost": None, "saturation": None,
    }  # fmt: skip


def test_answers_name_the_best_and_the_next():
    rows = [row("a", 200, 10), row("b", 100, 30), row("c", 400, 10)]
    assert list(answers(rows, "")) == [
        "Fewest switches: a and c (10), then b (30).",
        "Fastest w: b (100 ns), then a (200 ns).",
        "Most throughput of w per switch: a (5 Gb/s), then b (3.333 Gb/s).",
    ]


def test_answers_name_the_machines_of_which_a_figure_is_not_known():
    lacking = {**row("b", 100, 30), "makespan_ns": None, "throughput_gbps": None}
    assert list(answers([row("a", 200, 10), lacking, {**lacking, "machine": "c"}], "")) == [
        "Fewest switches: a (10), then b and c (30).",
        "Fastest w: a (200 ns); not known of b, c.",
        "Most throughput of w per switch: a (5 Gb/s); not known of b, c.",
    ]
    searched = [{**lacking, "workload": None}, {**row("d", 1, 9), "workload": None}]
    searched[1]["saturation"] = 0.5
    assert list(answers(searched, ""))[1:] == ["Highest saturation: d (0.50); not known of b."]
