"""`weft simulate`: output, tables and errors."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from tests.simulate_runs import RING, TREE, TWO_JOBS, experiment, run

import weft
from weft.cli import simulate as command
from weft.study.experiment import check, read_experiment
from weft.study.experiment.result_tables import JOB_COLUMNS, LEVELS, RUN_COLUMNS, columns_of
from weft.study.experiment.run import perform
from weft.workload import load_workload
from weft.workload.placement import place

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from reference import columns_page  # (docs/reference.py)


def test_one_run_prints_settings_its_job_links_and_makespan(capsys) -> None:
    status, out, err = run(capsys, TREE, "--workload", RING, "--engine", "dmodk")
    assert (status, err) == (0, "")
    assert f"fabric: source {TREE}\n" in out
    assert "settings: engine dmodk; level flow; sharing maxmin; tolerance 0; eager 16384 B" in out
    assert f"job: workload {RING}; placement linear; start 0 ns; rolled false\n" in out
    fabric = weft.fabric(TREE)
    result = weft.simulate(fabric, weft.route(fabric, "dmodk"), load_workload(RING, 16))
    assert f"Makespan: {result.makespan_ns / 1e3:.4g} us." in out
    assert "mean slowdown" in out
    assert "s1-0[1] -> h0[1]" in out


def test_a_large_workload_without_common_rounds_says_why(capsys, monkeypatch) -> None:
    monkeypatch.setattr("weft.study.experiment.run.ROLLED_FROM", 0)
    monkeypatch.setattr("weft.workload.program_order._UNCHECKED", 1)
    monkeypatch.setattr("weft.workload.program_order._MORE_BYTES", 2**50)
    words = TREE, "--engine", "dmodk", "--level", "flow", "--workload"
    assert run(capsys, *words, "allreduce-ring:size=64KiB")[::2] == (0, "")
    status, _, err = run(capsys, *words, "allreduce-ring:size=65535")
    assert status == 2
    assert "are free; use fewer ranks or shorter programs; its rounds are not computed once" in err
    assert "ranks of one call have different sizes" in err
    assert err.endswith("choose, for a collective, a size that the number of ranks divides\n")


def test_a_workload_is_rolled_if_it_is_large_or_should_be(capsys, monkeypatch, tmp_path) -> None:
    words = TREE, "--engine", "dmodk", "--level", "packet", "--workload", RING
    tables = {}
    for name, most, more in (("full", 2**24, ()), ("large", 0, ()), ("asked", 2**24, ["--rolled"])):
        monkeypatch.setattr("weft.study.experiment.run.ROLLED_FROM", most)
        folder = tmp_path / name
        status, out, err = run(capsys, *words, "--out", str(folder), "--csv", *more)
        assert (status, err) == (0, "")
        assert ("rounds laid as they begin: at most" in out) == (name != "full")
        assert ("of rounds that began from an earlier state were" in out) == (name != "full")
        tables[name] = {file.name: file.read_bytes() for file in folder.glob("*.csv")}
    assert tables["asked"] == tables["large"]
    same = [name for name, text in tables["asked"].items() if text == tables["full"][name]]
    assert {"links.csv", "queues.csv", "ranks.csv"} <= {*same}
    assert "messages.csv" not in tables["asked"]
    monkeypatch.setattr("weft.study.experiment.run.ROLLED_FROM", 0)
    assert "operations" in run(capsys, *words, "--dry-run")[1]
    page = "--html", str(tmp_path / "a.html")
    assert "rounds laid" not in run(capsys, *words, *page)[1]  # a page shows messages


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--level", "packet", "--html", "a.html"], "rolled needs a single job, without start"),
        (["--level", "packet", "--fast-forward", "1%"], "rolled: .*fast_forward looks ahead"),
        (["--level", "flow", "--start", "1us"], "rolled needs a single job, without start"),
        (["--level", "packet", "--workload", "shift"], "rolled: shift has no operations that"),
        (["--level", "flit", "--engine", "dmodk"], "--rolled requires --level flow or packet"),
    ],
)
def test_what_cannot_be_rolled_is_an_error(capsys, monkeypatch, tmp_path, options, error) -> None:
    monkeypatch.chdir(tmp_path)
    work = [] if "--workload" in options else ["--workload", RING]
    status, _, err = run(capsys, TREE, "--engine", "dmodk", "--rolled", *work, *options)
    assert status == 2
    assert re.search(error, err)


def test_loops_that_fit_neither_way_are_refused_without_the_second(capsys, tmp_path) -> None:
    send = "SENDRECV 1 TO (rank + 1) % size FROM (rank - 1) % size\n"
    program = tmp_path / "loops.trace"
    program.write_text("RANKS 4\n" + "REPEAT 30000\n" * 3 + send + "END\n" * 3)
    words = TREE, "--engine", "dmodk", "--level", "flow", "--workload", str(program)
    status, _, err = run(capsys, *words)
    assert status == 2
    assert "operations that ranks have in common would take" in err


def test_lists_are_compared_and_runs_that_do_not_fit_are_explained(capsys) -> None:
    status, out, err = run(
        capsys, TREE, "--workload", RING, "--engine", "dmodk,hdor", "--engine", "updn",
        "--placement", "linear", "--placement", "random:seed=3",
    )  # fmt: skip
    assert (status, err) == (0, "")
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert [row[:4] for row in cells] == [
        ["1", "dmodk", "linear", "complete"],
        ["2", "hdor", "linear", "does not fit"],
        ["3", "updn", "linear", "complete"],
        ["4", "dmodk", "random:seed=3", "complete"],
        ["5", "hdor", "random:seed=3", "does not fit"],
        ["6", "updn", "random:seed=3", "complete"],
    ]
    assert "runs 2, 5 (does not fit): hdor: " in out
    assert re.search(
        r"^Shortest: run [13] \((dmodk|updn), linear\) with [\d.]+ us; longest: run", out, re.M
    )
    assert "dmodk: found XGFT" in out


def test_commas_separate_values_and_all_is_every_engine(capsys) -> None:
    listed = check(
        {"fabric": TREE, "engine": "all", "job": [{"workload": RING}]}
    ).engine  # fmt: skip
    assert {"updn", "dfsssp", "dmodk", "hdor"} <= set(listed)
    assert not {"all", "file"} & set(listed)
    status, out, _ = run(
        capsys, TREE, "--workload", "barrier", "--ranks", 4, "--engine", "all",
        "--placement", "linear,random:seed=3,over=seats", "--sharing", "none,maxmin",
        "--level", "static,flow",
    )  # fmt: skip
    assert status == 0
    assert f"settings: engine {', '.join(listed)}; level static, flow; sharing none, maxmin;" in out
    assert "placement linear, random:seed=3,over=seats; start" in out
    runs = [line for line in out.splitlines() if line.startswith("│")]
    assert len(runs) == 2 * len(listed) * 3


def test_static_and_flow_level_have_equal_link_columns(capsys, tmp_path) -> None:
    words = (TREE, "--workload", RING, "--level", "flow,static", "--out", tmp_path)
    assert run(capsys, *words)[0] == 0
    flow, static = (pl.read_parquet(tmp_path / f"links-{number}.parquet") for number in (1, 2))
    for name in ("link", "name", "kind", "rate_gbps", "messages"):
        assert flow[name].to_list() == static[name].to_list()
    assert flow["carried_bytes"].to_list() == pytest.approx(static["carried_bytes"].to_list())


def test_small_shares_are_printed_and_surplus_phases_are_counted(capsys, tmp_path) -> None:
    trace = tmp_path / "x.trace"
    for phases, more in ((25, False), (26, True)):
        trace.write_text(
            "RANKS 2\n0: SEND 100 TO 1\n1: RECV 100 FROM 0\n"
            + "".join(f'PHASE "p{number}"\nCALC 1ms\n' for number in range(phases - 1))
        )
        status, out, err = run(capsys, TREE, "--workload", trace)
        assert (status, err) == (0, "")
        assert ("… and 2 more phases" in out) == more
        assert (f"│ p{phases - 2} " in out) != more
        assert "│ <0.1% │" in out


def test_settings_that_the_static_level_ignores_are_not_shown(capsys) -> None:
    _, out, _ = run(capsys, TREE, "--workload", "barrier", "--ranks", 4, "--level", "static")
    assert "settings: engine minhop; level static; ports first; overlap refuse\n" in out


def test_times_that_print_alike_are_compared_by_percentage(capsys, tmp_path) -> None:
    work = []
    for name, duration in (("a", 10_000_000), ("b", 10_000_200)):
        work += ["--workload", tmp_path / f"{name}.goal"]
        work[-1].write_text(f"num_ranks 1\nrank 0 {{\nl1: calc {duration}\n}}\n")
    _, out, _ = run(capsys, TREE, *work)
    assert re.search(r"Shortest: run 1 .* with 10 ms; longest: run 2 .* with 10 ms, 0.002% m", out)


def test_a_wrong_placement_or_workload_is_found_before_anything_runs(
    capsys, tmp_path, monkeypatch
) -> None:
    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("a run has begun")

    monkeypatch.setattr("weft.study.experiment.run_level.simulate", never)
    words = (TREE, "--workload", RING, "--ranks", 4, "--placement", "linear", "--engine", "updn")
    for more, message in (
        (("--placement", "hosts:list=h[2-4],h99"), "no host 'h99'"),
        (("--placement", "hosts:list=h[2-4]"), "4 ranks do not fit"),
        (("--workload", tmp_path / "none.goal"), "none.goal"),
    ):
        status, out, err = run(capsys, *words, *more)
        assert (status, out) == (2, "")
        assert message in err


def test_a_workload_is_made_once_for_all_placements(monkeypatch) -> None:
    loaded = []

    def counted(text: str, *arguments: object, **options: object) -> object:
        loaded.append(text)
        return load_workload(text, *arguments, **options)

    monkeypatch.setattr("weft.study.experiment.run.load_workload", counted)
    data = {
        "fabric": TREE,
        "job": [{"workload": ["barrier", RING], "ranks": 4, "placement": ["linear", "random"]}],
    }
    times = [outcome.result.makespan_ns for outcome in perform(check(data))]
    assert loaded == ["barrier", RING]
    monkeypatch.setattr("weft.study.experiment.run._KEPT_OPS", 0)
    assert [outcome.result.makespan_ns for outcome in perform(check(data))] == times
    # If no workload is kept, each is loaded once for the check and once for each run.
    assert len(loaded) == 2 + 2 + 4


def test_tables_are_written_with_every_column_described(capsys, tmp_path) -> None:
    folder = tmp_path / "deep" / "results"
    path = experiment(tmp_path, TWO_JOBS)
    status, out, _ = run(capsys, path, "--out", folder, "--level", "flow", "--level", "static")
    assert status == 0
    assert f"results: {folder} (" in out
    names = sorted(item.name for item in folder.iterdir())
    assert names == [
        "columns.csv", "experiment.toml", "jobs.parquet", "links-1.parquet", "links-2.parquet",
        "messages-1.parquet", "messages-2.parquet", "phases-1.parquet", "phases-2.parquet",
        "ranks-1.parquet", "ranks-2.parquet", "runs.parquet",
    ]  # fmt: skip
    described = pl.read_csv(folder / "columns.csv")
    for name in names:
        if not name.endswith(".parquet"):
            continue
        table = pl.read_parquet(folder / name)
        stem, _, number = name.removesuffix(".parquet").partition("-")
        level = {"": "", "1": "flow", "2": "static"}[number]
        rows = described.filter(
            (pl.col("table") == stem) & (pl.col("level").fill_null("") == level)
        )
        assert rows["column"].to_list() == table.columns
        assert rows["type"].to_list() == [str(dtype) for dtype in table.dtypes]
        assert rows["meaning"].str.len_chars().min() > 3
    again = read_experiment(folder / "experiment.toml")
    assert again.output.folder == str(folder)
    assert again.job == read_experiment(path).job
    assert again.level == ("flow", "static")


def test_columns_of_the_tables_agree_with_each_other(capsys, tmp_path) -> None:
    """Times, bytes and hosts of two jobs follow from their messages, ranks and placements."""
    folder = tmp_path / "results"
    assert run(capsys, experiment(tmp_path, TWO_JOBS), "--out", folder)[0] == 0
    jobs = pl.read_parquet(folder / "jobs.parquet")
    messages = pl.read_parquet(folder / "messages.parquet")
    ranks = pl.read_parquet(folder / "ranks.parquet")
    phases = pl.read_parquet(folder / "phases.parquet")
    fabric = weft.fabric(TREE)
    for name, count, placement, free in (
        ("train", 6, "linear", range(16)),
        ("shuffle", 8, "random:seed=1", range(6, 16)),
    ):
        job = jobs.row(by_predicate=pl.col("job") == name, named=True)
        mine = messages.filter(job=name)
        hosts = place(fabric, count, placement, hosts=list(free))
        assert ranks.filter(job=name)["rank"].to_list() == list(range(count))
        assert ranks.filter(job=name)["host"].to_list() == hosts.tolist()
        assert ranks.filter(job=name)["host_name"].to_list() == [f"h{host}" for host in hosts]
        assert (job["ranks"], job["hosts"]) == (count, count)
        assert job["messages"] == len(mine)
        assert job["size_bytes"] == mine["size_bytes"].sum()
        took = (mine["arrived_ns"] - mine["left_ns"]).to_numpy()
        assert job["mean_message_ns"] == pytest.approx(took.mean())
        assert job["max_message_ns"] == pytest.approx(took.max())
        assert job["end_ns"] >= mine["arrived_ns"].max()
        assert mine["posted_ns"].min() >= job["start_ns"]
        assert job["time_ns"] == pytest.approx(job["end_ns"] - job["start_ns"])
        assert job["communication_ns"] <= job["time_ns"]
        source = mine["source_rank"].to_numpy()
        assert mine["source_host"].to_list() == hosts[source].tolist()
        assert set(phases.filter(job=name)["messages"].to_list()) - {0} == {len(mine)}
    # The jobs share no host; the later job ends last.
    assert jobs.filter(job="train")["start_ns"][0] == 50_000
    assert pl.read_parquet(folder / "runs.parquet")["makespan_ns"][0] == jobs["end_ns"].max()


def test_a_single_run_equals_the_same_run_from_python(capsys, tmp_path) -> None:
    folder = tmp_path / "results"
    words = (TREE, "--workload", "alltoall:size=20KiB", "--placement", "random", "--out", folder)
    assert run(capsys, *words, "--eager", "4KiB", "--switch-latency", "50ns", "--csv")[0] == 0
    fabric = weft.fabric(TREE)
    result = weft.simulate(
        fabric, weft.route(fabric, "minhop"), load_workload("alltoall:size=20KiB", 16), "random",
        eager_bytes=4096, switch_latency_ns=50,
    )  # fmt: skip
    messages = pl.read_csv(folder / "messages.csv")
    assert messages["arrived_ns"].to_list() == pytest.approx(
        result.messages()["arrived_ns"].to_list()
    )
    links = pl.read_csv(folder / "links.csv")
    assert links["carried_bytes"].to_list() == result.links()["carried_bytes"].to_list()
    assert pl.read_csv(folder / "runs.csv")["makespan_ns"][0] == pytest.approx(result.makespan_ns)
    # The copy of the settings gives the same run.
    again = list(perform(read_experiment(folder / "experiment.toml")))
    assert again[0].result.makespan_ns == result.makespan_ns


def test_communication_time_is_the_time_without_calculations(capsys, tmp_path) -> None:
    folder = tmp_path / "results"
    goal = tmp_path / "two.goal"
    goal.write_text(
        "num_ranks 2\n"
        "rank 0 {\nl1: calc 1000\nl2: send 100b to 1 tag 3\nl2 requires l1\n}\n"
        "rank 1 {\nl1: recv 100b from 0 tag 3\nl2: calc 500\nl2 requires l1\n}\n"
    )
    status, _, _ = run(capsys, TREE, "--workload", goal, "--out", folder, "--latency", "200ns")
    assert status == 0
    job = pl.read_parquet(folder / "jobs.parquet").row(0, named=True)
    # 1000 ns of calculation, 126 B with the header at 25 B/ns, 200 ns of latency, and 500 ns of
    # calculation.
    assert job["time_ns"] == pytest.approx(1705.04)
    assert job["calculation_ns"] == pytest.approx(750)
    assert job["communication_ns"] == pytest.approx(((1000 - 1000) + (1705.04 - 500)) / 2)


def test_calculations_on_several_processors_count_once_where_they_overlap(capsys, tmp_path) -> None:
    folder = tmp_path / "results"
    goal = tmp_path / "cpus.goal"
    # Rank 0 calculates from 0 to 100 and from 0 to 300, then from 300 to 350: 350 of 350 ns.
    # Rank 1 calculates from 0 to 40 on one and from 0 to 10 on another processor.
    goal.write_text(
        "num_ranks 2\n"
        "rank 0 {\nl1: calc 100\nl2: calc 300 cpu 1\nl3: calc 50 cpu 2\nl3 requires l2\n}\n"
        "rank 1 {\nl1: calc 40 cpu 2\nl2: calc 10\n}\n"
    )
    assert run(capsys, TREE, "--workload", goal, "--out", folder)[0] == 0
    job = pl.read_parquet(folder / "jobs.parquet").row(0, named=True)
    assert job["calculation_ns"] == pytest.approx((350 + 40) / 2)
    assert job["communication_ns"] == pytest.approx(0, abs=1e-9)


def test_phases_of_several_jobs_keep_their_names(capsys, tmp_path) -> None:
    folder = tmp_path / "results"
    text = TWO_JOBS.replace("alltoall:size=4KiB", "cartesian")
    path = experiment(tmp_path, text)
    assert run(capsys, path, "--level", "flow", "--level", "static", "--out", folder)[0] == 0
    named = set(load_workload("cartesian", 8).phase_names) - {""}
    for number in (1, 2):
        phases = pl.read_parquet(folder / f"phases-{number}.parquet")
        messages = pl.read_parquet(folder / f"messages-{number}.parquet")
        for table in (phases, messages):
            assert set(table.filter(job="train")["phase"]) == {""}
            assert set(table.filter(job="shuffle")["phase"]) - {""} == named


def test_the_static_level_adds_all_phases_taken_together(capsys, tmp_path) -> None:
    folder = tmp_path / "results"
    path = experiment(tmp_path, TWO_JOBS)
    status, out, _ = run(capsys, path, "--level", "static", "--out", folder)
    assert status == 0
    assert "lower bound" in out
    assert "Makespan" not in out
    phases = pl.read_parquet(folder / "phases.parquet")
    assert phases["job"].to_list()[-1] is None
    assert phases["phase"].to_list()[-1] == "all together"
    jobs = pl.read_parquet(folder / "jobs.parquet")
    assert jobs["bound_ns"].sum() == pytest.approx(phases.drop_nulls("job")["bound_ns"].sum())
    bound = pl.read_parquet(folder / "runs.parquet")["bound_ns"][0]
    assert bound == (jobs["start_ns"] + jobs["bound_ns"]).max()


def test_static_bounds_hold_at_the_flow_level(capsys, tmp_path) -> None:
    """The bound by a phase's busiest link is never above the duration of the phase."""
    folder = tmp_path / "results"
    words = (TREE, "--workload", "alltoall:size=256KiB", "--placement", "random", "--out", folder)
    assert run(capsys, *words, "--level", "static", "--level", "flow", "--engine", "updn")[0] == 0
    static, flow = pl.read_parquet(folder / "runs.parquet").iter_rows(named=True)
    assert 0.3 * flow["makespan_ns"] < static["bound_ns"] <= flow["makespan_ns"]
    assert static["makespan_ns"] is None
    assert static["messages"] == flow["messages"]


def test_more_ranks_than_hosts_and_shared_hosts(capsys, tmp_path) -> None:
    status, _, err = run(capsys, TREE, "--workload", RING, "--ranks", 20)
    assert status == 2
    assert "20 ranks do not fit on the 16 hosts" in err
    status, out, _ = run(
        capsys, TREE, "--workload", RING, "--ranks", 20, "--ranks-per-host", 2,
        "--distribution", "cyclic", "--hosts", "h[4-15]",
    )  # fmt: skip
    assert status == 0
    assert "hosts h[4-15]" in out
    text = TWO_JOBS.replace("random:seed=1", "hosts:h[5-12]")
    status, _, err = run(capsys, experiment(tmp_path, text))
    assert status == 2
    assert "job shuffle: rank 0 is on host h5, where job train runs" in err
    shared = experiment(tmp_path, 'overlap = "share"\n' + text)
    assert run(capsys, shared)[0] == 0


def test_the_default_number_of_ranks_fills_the_hosts(capsys, tmp_path) -> None:
    folder = tmp_path / "results"
    words = (TREE, "--workload", RING, "--ranks-per-host", 3, "--hosts", "h[2-6]", "--out", folder)
    assert run(capsys, *words)[0] == 0
    assert pl.read_parquet(folder / "jobs.parquet")["ranks"][0] == 15


def test_options_of_workloads_and_formats(capsys, tmp_path) -> None:
    spec = "pattern:pattern=shift,size=4KiB"
    words_given = ("--workload", "pattern", "--workload-option", "pattern=shift")
    _, alone, _ = run(capsys, TREE, "--workload", spec)
    _, out, _ = run(capsys, TREE, *words_given, "--workload-option", "size=4KiB")
    assert "options pattern=shift, size=4KiB" in out
    assert out.splitlines()[3:] == alone.splitlines()[3:]
    goal = tmp_path / "a.text"
    goal.write_text("num_ranks 1\nrank 0 {\nl1: calc 7\n}\n")
    status, out, _ = run(capsys, TREE, "--workload", goal, "--workload-format", "goal")
    assert status == 0
    assert "Makespan: 7 ns." in out
    for words, message in (
        (
            ("--workload-option", "size"),
            "--workload-option: 'size' does not fit: expected NAME=VALUE",
        ),
        (("--workload-option", "a=1", "--workload-option", "a=2"), "a is given twice"),
        (("--workload-option", "ranks=2"), "ranks is not an option of a workload"),
        (("--workload-option", "sise=2"), "no option 'sise'"),
        (("--workload-format", "gaol"), "'gaol' (did you mean 'goal'?)"),
    ):
        work = goal if "--workload-format" in words else "pattern"
        status, _, err = run(capsys, TREE, "--workload", work, *words)
        assert status == 2
        assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((TREE,), "nothing to run: expected --workload"),
        ((TREE, "--workload", "alreduce:size=1"), "alreduce"),
        ((TREE, "--workload", RING, "--engine", "updm"), "unknown routing engine 'updm' (did you"),
        ((TREE, "--workload", RING, "--engine", "hdor"), "hdor: "),
        ((TREE, "--workload", RING, "--placement", "lin"), "unknown placement 'lin'"),
        ((TREE, "--workload", RING, "--placement", "random:sed=1"), "no option 'sed' (did you me"),
        ((TREE, "--workload", RING, "--level", "pocket"), "--level: 'pocket' does not fit"),
        ((TREE, "--workload", RING, "--eager", "8Kx"), "--eager: '8Kx' does not fit"),
        (
            (TREE, "--workload", RING, "--tolerance", "2"),
            "--tolerance: '2' does not fit: expected a number less than 1",
        ),
        (
            (TREE, "--workload", RING, "--ranks", "many"),
            "--ranks: 'many' does not fit: expected a whole number",
        ),
        ((TREE, "--workload", RING, "--ranks", "-1"), "--ranks: '-1' does not fit"),
        (
            (TREE, "--workload", RING, "--ranks", "0"),
            "--ranks: '0' does not fit: expected 1 or more",
        ),
        ((TREE, "--workload", RING, "--out", ""), "--out: expected a folder, not an empty text"),
        ((TREE, "--workload", "alltoal:size=1"), "(did you mean 'alltoall'?)"),
        ((TREE, "--workload", "alltoall:siz=1"), "needs size, the bytes from one rank to one othe"),
        ((TREE, "--workload", "alltoall:siz=1"), "; it has no option 'siz'"),
        ((TREE, "--workload", RING, "--csv"), "--csv requires --out FOLDER"),
        (
            (TREE, "--workload", RING, "--slow-cable", "x"),
            "--slow-cable: 'x' does not fit: expected node[port]=R",
        ),
        ((TREE, "--workload", RING, "--fail-switch", "x"), "no node 'x'"),
        (("torus:4y4", "--workload", RING), "torus"),
        (("none.toml",), "cannot be read"),
    ],
)
def test_bad_arguments_give_one_line_and_status_2(capsys, words, message) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_options_for_jobs_and_faults_require_a_fabric(capsys, tmp_path) -> None:
    path = experiment(tmp_path, TWO_JOBS)
    for words, key in (
        (("--ranks", "4"), "job.ranks"), (("--random-cables", "1"), "faults.random_cables"),
        (("--names", "x"), "fabric.names"),
    ):  # fmt: skip
        status, _, err = run(capsys, path, *words)
        assert status == 2
        assert f"{words[0]} requires a fabric, but {path} is an experiment file: set {key}" in err
    status, out, _ = run(capsys, path, "--engine", "updn", "--sharing", "none", "--no-handshake")
    assert status == 0
    assert "engine updn; level flow; sharing none" in out
    assert "handshake false" in out


def test_a_pair_without_a_path_fails_its_run_only(capsys, tmp_path) -> None:
    """Leaf 0 has lost its uplinks: a job within it runs, a job over all leaves does not."""
    failures = [word for port in range(5, 9) for word in ("--fail-cable", f"s1-0[{port}]")]
    words = (TREE, "--workload", RING, "--ranks", 4, *failures)
    status, out, err = run(
        capsys, *words, "--placement", "linear", "--placement", "cyclic", "--out", tmp_path / "out"
    )
    assert (status, err) == (1, "")
    assert re.search(r"run 2 \(failed\): there is no path from h\d+ to h\d+ in the minhop", out)
    assert pl.read_parquet(tmp_path / "out" / "jobs.parquet")["run"].to_list() == [1]
    for level in ("flow", "static"):
        status, out, err = run(capsys, *words, "--placement", "cyclic", "--level", level)
        assert (status, out) == (2, "")
        assert "weft: error: there is no path from" in err


def test_ranks_on_hosts_without_a_cable_are_refused(capsys, tmp_path) -> None:
    (tmp_path / "ranks").write_text("\n".join(f"h{n}" for n in range(16)))
    status, _, err = run(
        capsys, TREE, "--workload", RING, "--fail-cable", "s1-0[1]",
        "--placement", f"file:{tmp_path / 'ranks'}",
    )  # fmt: skip
    assert status == 2
    assert f"{tmp_path / 'ranks'}:1: placement file: host h0 has no cable" in err


def test_ranks_that_wait_for_ever_are_named(capsys, tmp_path) -> None:
    goal = tmp_path / "stuck.goal"
    ranks = "".join(
        f"rank {me} {{\nl1: send 1000000b to {1 - me}\nl2: recv 1000000b from {1 - me}\n"
        "l2 requires l1\n}\n"
        for me in (0, 1)
    )
    goal.write_text("num_ranks 2\n" + ranks)
    status, out, err = run(capsys, TREE, "--workload", goal)
    assert (status, out) == (2, "")
    assert "rank 0" in err
    assert "rank 1" in err


def test_messages_name_the_job_of_a_rank(capsys, tmp_path) -> None:
    ranks = "".join(
        f"rank {me} {{\nl1: send 1000000b to {1 - me}\nl2: recv 1000000b from {1 - me}\n"
        "l2 requires l1\n}\n"
        for me in (0, 1)
    )
    (tmp_path / "stuck.goal").write_text("num_ranks 2\n" + ranks)
    path = experiment(tmp_path, TWO_JOBS + '[[job]]\nname = "stuck"\nworkload = "stuck.goal"\n')
    status, _, err = run(capsys, path)
    assert status == 2
    assert "rank 14" in err
    assert "(ranks 0 to 5 are train, 6 to 13 are shuffle, 14 to 15 are stuck)" in err


def test_the_copy_of_an_experiment_runs_from_anywhere(capsys, tmp_path, monkeypatch) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "ranks").write_text("h3\nh9\n")
    (inner / "x.goal").write_text(
        "num_ranks 2\nrank 0 {\nl1: send 9b to 1\n}\nrank 1 {\nl1: recv 9b from 0\n}\n"
    )
    experiment(
        inner,
        f"""
        fabric = "{TREE}"
        job = [{{ workload = "x.goal", placement = "file:ranks" }}]
    """,
    )
    monkeypatch.chdir(inner)
    assert run(capsys, "x.toml", "--out", "results")[0] == 0
    first = (inner / "results" / "ranks.parquet").read_bytes()
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "inner/results/experiment.toml")[0] == 0
    assert (inner / "results" / "ranks.parquet").read_bytes() == first
    assert pl.read_parquet(inner / "results" / "ranks.parquet")["host"].to_list() == [3, 9]
    assert not (tmp_path / "results").exists()


def test_progress_is_printed_in_lines_without_a_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setattr(command, "LINE_S", 0.0)
    status, _, err = run(capsys, TREE, "--workload", RING, "--progress")
    assert status == 0
    lines = err.splitlines()
    assert lines[0] == "weft: reading the fabric"
    assert "weft: routing" in lines
    assert lines[-1].endswith("480 of 480 messages arrived")
    _, _, err = run(capsys, TREE, "--workload", RING)
    assert err == ""


def test_narrow_terminals_get_fewer_columns(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(
        capsys, TREE, "--workload", RING, "--placement", "linear", "--placement", "random"
    )
    table = [line for line in out.splitlines() if line.startswith(("┏", "│"))]
    assert max(map(len, table)) <= 80
    assert "makespan" in out


def test_space_of_an_omitted_wide_column_is_used(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = TWO_JOBS.replace("l:size=4KiB", "l:size=4KiB,algorithm=pairwise").replace(
        'start = "50us"', ""
    )
    _, out, _ = run(capsys, experiment(tmp_path, text), "--engine", "dmodk,updn")
    (heading,) = (line for line in out.split("Jobs")[1].splitlines() if line.startswith("┃"))
    # The workload column, which is too wide, does not displace narrower columns.
    assert "workload" not in heading
    assert "communication" in heading
    assert heading.index("time") < heading.index("communication") < heading.index("messages")


def test_the_error_of_a_wrong_workload_names_its_job(capsys, tmp_path) -> None:
    status, _, err = run(capsys, experiment(tmp_path, TWO_JOBS.replace("alltoall", "alltoal")))
    assert status == 2
    assert "weft: error: job shuffle: 'alltoal:size=4KiB' is neither" in err


def test_the_example_runs_and_is_what_the_page_shows(capsys) -> None:
    root = Path(__file__).parents[2]
    path = root / "examples" / "two_jobs.toml"
    status, out, _ = run(capsys, path)
    assert status == 0
    page = (root / "docs" / "simulate.md").read_text()
    assert f"$ weft simulate {path.relative_to(root)}\n" in page
    shown = [line for line in page.splitlines() if line.startswith("│")]
    assert len(shown) == 4
    (answer,) = (line for line in out.splitlines() if line.startswith("Shortest: "))
    assert all(line in out.splitlines() for line in shown)
    assert answer in page


def test_the_pages_have_every_column_of_the_tables() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulate.md").read_text() + columns_page()
    of_levels = [each for level in LEVELS for each in columns_of(level).values()]
    for columns in (RUN_COLUMNS, JOB_COLUMNS, *of_levels):
        assert not [name for name in columns if f"`{name}`" not in text]


def test_toml_of_the_page_is_valid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulate.md").read_text()
    blocks = text.split("```toml\n")[1:]
    assert blocks
    for block in blocks:
        check(tomllib.loads(block.split("```")[0]))
