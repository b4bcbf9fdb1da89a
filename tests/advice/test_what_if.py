"""What changes of a fabric do: figures, their order, and the sentences about them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.fabrics.test_additions import clos

import weft
from weft.advice.alternatives import IN_PLACE
from weft.advice.what_if.evaluate import SWEEP, InPlace, WhatIf, harm, what_if
from weft.advice.what_if.jobs import JOBS, JobTraffic
from weft.advice.what_if.page import what_if_page
from weft.advice.what_if.scenario import EACH, Scenario
from weft.advice.what_if.singles import PAIRS, singles
from weft.advice.what_if.singles import harm as worst
from weft.advice.what_if.words import sentences, singles_sentences
from weft.core.errors import InputError
from weft.report.comparison_page import render
from weft.routing.reroute import opensm_reroute
from weft.routing.routes import TableRoutes
from weft.sim.static.loads import inner_links


def answer_of(fabric: weft.Fabric, engine: str = "minhop", **changes: object) -> WhatIf:
    place = InPlace.of(fabric, engine)
    return what_if(fabric, place, Scenario(**changes), ["updn"], ["shift"], samples=50)  # type: ignore[arg-type]


def test_each_row_is_that_of_a_comparison_on_the_failed_fabric() -> None:
    fabric = clos()
    result = answer_of(fabric, fail=("spine2", "leaf3[1]"), slow={"leaf1[5]": "1xHDR"})
    failed = fabric.degraded(["leaf1[5]"], "1xHDR").without(
        cables=["leaf3[1]"], switches=["spine2"]
    )
    expected = weft.compare(failed, ["updn"], ["shift"], samples=50)
    mine = result.table.filter(result.table["state"] == "other")
    theirs = {row["engine"]: row for row in expected.table.iter_rows(named=True)}
    for row in mine.iter_rows(named=True):
        shared = theirs[row["routes"]].keys() & row.keys()
        assert len(shared) > 10
        assert {key: row[key] for key in shared} == {
            key: theirs[row["routes"]][key] for key in shared
        }
    runs = result.after.runs_table
    assert runs.filter(runs["engine"] == "updn").equals(expected.runs_table)
    # The present tables, and OpenSM's sweep, by themselves.
    for name, routes in (
        (IN_PLACE, result.place.routes.on(fabric, failed)),
        (SWEEP, opensm_reroute(fabric, result.place.routes, failed, "minhop")),
    ):
        row = result.table.row(
            by_predicate=(pl.col("routes") == name) & (pl.col("state") != "now"), named=True
        )
        checked = weft.validate(failed, routes)
        assert row["unrouted"] == checked.num_unrouted_pairs
        assert row["deadlock"] == len(checked.credit_loops)
        assert row["ebb"] == weft.bisection(failed, routes, 50).mean


def test_hosts_that_are_gone_are_apart_from_pairs_that_lost_their_path() -> None:
    fabric = clos()
    result = answer_of(fabric, fail=("spine2", "leaf3"))
    now, *after = result.table.iter_rows(named=True)
    assert (now["state"], now["machines_cut"], now["bandwidth_left"]) == ("now", 0, 1.0)
    assert {(row["machines_cut"], row["hosts_cut"]) for row in after} == {(4, 4)}
    assert result.changed.lost_machines == ("node09", "node10", "node11", "node12")
    by_state = {row["state"]: row for row in after}
    # Lost pairs by hand: those of the 12 other hosts whose path crossed spine2.
    routes = result.place.routes
    assert isinstance(routes, TableRoutes)
    graph, lost = fabric.graph, 0
    leaf = {host: int(graph.destination_row[host]) for host in range(16)}
    for a in range(16):
        for b in range(16):
            if leaf[a] == leaf[b] or {leaf[a], leaf[b]} & {fabric.find_node("leaf3")}:
                continue
            port = int(routes.table[b, leaf[a]])
            lost += int(graph.row_link[graph.row_base[leaf[a]] + port]) in np.flatnonzero(
                fabric.link_to == fabric.find_node("spine2")
            )
    assert by_state["unchanged"]["pairs_lost"] == lost > 0
    assert by_state["sweep"]["pairs_lost"] == 0
    assert by_state["sweep"]["pairs_moved"] >= lost
    said = "\n".join(sentences(result))
    assert f"until OpenSM's next sweep {lost} of 240 host pairs" in said
    assert "after it (minhop) every pair that cables connect has a path, no credit loop" in said
    assert "4 machines are cut off, whatever the routes: node[09-12]" in said


def test_hosts_that_were_cut_off_before_are_not_counted() -> None:
    fabric = clos().without(cables=["leaf3[2]"])
    result = answer_of(fabric, fail=("leaf3",))
    assert result.changed.lost_machines == ("node09", "node11", "node12")
    assert result.table["hosts_cut"].to_list() == [0, 3, 3, 3]


def test_the_worst_is_first() -> None:
    def row(machines: int, pairs: int, loops: int, ebb: float) -> dict[str, object]:
        return {"machines_cut": machines, "pairs_lost": pairs, "deadlock": loops, "ebb": ebb}

    rows = [row(1, 0, 0, 1), row(0, 2, 0, 1), row(0, 1, 1, 0.1), row(0, 0, 3, 0.9),
            row(0, 0, 1, 0.5), row(0, 0, 0, 0.1), row(0, 0, 0, 0.2)]  # fmt: skip
    order = sorted(rows, key=harm, reverse=True)
    # Several credit loops are no worse than one.
    assert order == [*rows[:3], rows[4], rows[3], *rows[5:]]
    result = answer_of(clos(), fail=("spine1",))
    after = list(result.table.iter_rows(named=True))[1:]
    assert after == sorted(after, key=harm, reverse=True)
    assert after[0]["state"] == "unchanged"


def test_a_credit_loop_that_appears_is_said() -> None:
    # Minimal paths around a hole in a mesh turn in all directions.
    fabric = weft.fabric("mesh:4x4")
    result = answer_of(fabric, "dor", fail=(fabric.node_names[5], fabric.node_names[6]))
    rows = {row["state"]: row for row in result.table.iter_rows(named=True)}
    assert (rows["now"]["deadlock"], rows["sweep"]["deadlock"]) == (0, 2)
    assert "2 credit loops APPEAR, and " in sentences(result)[0]


def test_tables_of_the_engine_file_stay_and_unknown_levels_are_said() -> None:
    fabric = weft.fabric("torus:4x4")
    routes = weft.route(fabric, "dor")
    assert isinstance(routes, TableRoutes)
    place = InPlace(routes, weft.validate(fabric, routes, levels_known=False), "file")
    result = what_if(fabric, place, Scenario(fail=("s1.1",)), ["updn"], ["shift"], samples=9)
    said = sentences(result)[0]
    assert "credit loops (8 now) if all packets share one lane" in said
    assert said.endswith("OpenSM's engine file does not route anew.")
    rows = {row["state"]: row for row in result.table.iter_rows(named=True)}
    assert rows["sweep"]["pairs_lost"] == rows["unchanged"]["pairs_lost"] > 0


def test_a_drained_switch_is_avoided_before_it_is_pulled() -> None:
    said = sentences(answer_of(clos(), drain=("spine1",)))
    assert said[0].startswith("If spine1 is pulled without draining: until OpenSM's next sweep ")
    assert "weft opensm export FABRIC --fail-switch spine1 --engine" in said[1]


def test_a_new_switch_has_no_path_before_a_sweep() -> None:
    result = answer_of(clos(), add=("leaf5: 2 hosts, 2 uplinks to each spine",))
    rows = {row["state"]: row for row in result.table.iter_rows(named=True)}
    assert rows["unchanged"]["pairs_lost"] == 2 * 2 * 16 + 2
    assert (rows["sweep"]["pairs_lost"], rows["sweep"]["machines_cut"]) == (0, 0)
    assert sentences(result)[0].startswith("If leaf5 is added: until OpenSM's next sweep 66 of 306")


def test_a_fallback_of_opensm_is_said() -> None:
    fabric = weft.fabric("torus:3x3")
    said = "\n".join(sentences(answer_of(fabric, "updn", fail=(fabric.node_names[0],))))
    assert "ATTENTION: " in said
    assert "falls back to minhop" in said
    found = singles(fabric, InPlace.of(fabric, "updn"), EACH[:1], [], samples=2)
    (line,) = [line for line in singles_sentences(found) if "falls back" in line]
    assert line.startswith("OpenSM's updn fails after 9 failures (")
    assert line.endswith("OpenSM falls back to minhop.")


def test_hosts_of_each_part_of_a_fabric_can_be_cut_off() -> None:
    """A fabric of two parts: hosts of the smaller one are not cut off unless it loses something."""
    build = weft.FabricBuilder("two parts")
    leaves, spine = build.switches(["a", "b", "c", "d"]), build.switches(["spine"])
    build.connect(leaves[:2], spine.repeat(2))
    build.connect(leaves[2:3], leaves[3:])
    for leaf, count in zip(leaves, (3, 2, 2, 1), strict=True):
        names = [f"{'abcd'[leaf]}{index}" for index in range(count)]
        build.connect(leaf.repeat(count), build.hosts(names))
    fabric = build.fabric()
    found = singles(fabric, InPlace.of(fabric, "minhop"), EACH[:1], [], samples=2)
    cut = dict(found.table.select("failed", "hosts_cut").iter_rows())
    # Without the spine, the larger leaf stays, although the other part has as many hosts.
    assert cut == {"a": 3, "b": 2, "c": 2, "d": 1, "spine": 2}
    assert found.table["pairs_lost_until"].to_list() == [0] * 5
    for switch, hosts in cut.items():
        table = answer_of(fabric, fail=(switch,)).table
        assert table["hosts_cut"].to_list()[1:] == [hosts] * (len(table) - 1)
        assert table["machines_cut"].to_list()[1:] == [hosts] * (len(table) - 1)
        assert table["pairs_lost"].to_list() == [0] * len(table)


def test_what_leaves_no_hosts_is_an_error() -> None:
    with pytest.raises(InputError, match="fewer than two hosts"):
        answer_of(clos(), fail=("spine*", "leaf*"))
    with pytest.raises(InputError, match="nothing changes"):
        answer_of(clos())
    with pytest.raises(InputError, match="a cable cannot be drained"):
        answer_of(clos(), drain=("leaf1[5]",))


def test_each_part_fails_by_itself_worst_first() -> None:
    fabric = clos()
    place = InPlace.of(fabric, "minhop")
    found = singles(fabric, place, EACH[:2], ["updn"], samples=9, seed=2)
    rows = found.table.rows(named=True)
    assert len(rows) == 6 + 16 == len(found.failures)
    assert rows == sorted(rows, key=worst, reverse=True)
    assert [row["machines_cut"] for row in rows] == [4] * 4 + [0] * 18
    assert {row["failed"] for row in rows[4:6]} == {"spine1", "spine2"}
    for at in (0, 4, 21):
        row, failed = rows[at], found.failures[at].of(fabric)
        stale = place.routes.on(fabric, failed)
        swept = opensm_reroute(fabric, place.routes, failed, "minhop")
        for routes, suffix in ((stale, "_until"), (swept, "")):
            checked = weft.validate(failed, routes)
            apart = checked.num_unrouted_pairs - checked.num_disconnected_pairs
            assert row[f"pairs_lost{suffix}"] == apart
            assert row[f"deadlock{suffix}"] == len(checked.credit_loops)
            assert row[f"ebb{suffix}"] == weft.bisection(failed, routes, 9, 2).mean
        now = weft.bisection(fabric, place.routes, 9, 2).mean
        assert row["bandwidth_left"] == row["ebb"] / now
    # Other engines are tried only where they can help, and only for the worst.
    assert found.engines["failed"].to_list() == [row["failed"] for row in rows[4:9]]
    told = singles_sentences(found)
    assert told[0].startswith("Of 22 failures of a single switch or cable, 4 cut hosts off, at ")
    assert told[1].startswith(
        f"Of those that cut off none, the worst is {rows[4]['failed']}: until"
    )
    lost = sum(row["pairs_lost_until"] > 0 for row in rows)
    assert any(line.startswith(f"{lost} failures (") for line in told)
    assert told[-1].startswith("Not computed: other engines after failures beyond the 5 worst")


def test_parts_fail_after_the_other_changes() -> None:
    fabric = clos()
    result = answer_of(fabric, fail=("spine1", "each-switch"))
    base, place = result.settled
    found = singles(base, place, result.changed.scenario.each, ["updn"], samples=2)
    assert "spine1" not in found.table["failed"].to_list()
    # Each leaf has lost its only other way up: 12 of 16 machines remain in a part each.
    row = found.table.row(by_predicate=pl.col("failed") == "spine2", named=True)
    assert (row["machines_cut"], row["pairs_lost"]) == (12, 0)


def test_the_page_draws_loads_on_the_fabric_with_all_parts() -> None:
    fabric = clos()
    result = answer_of(
        fabric, fail=("spine1", "node03"), slow={"leaf2[7]": "1xHDR"},
        add=("leaf5: 2 hosts, 1 uplink to each spine",),
    )  # fmt: skip
    found = singles(*result.settled, ["each-switch"], ["updn"], samples=2)
    page = what_if_page(result, found, ["Said."], ["Noted."])
    drawn = page.fabric
    assert (drawn.num_switches, drawn.num_hosts) == (7, 18)
    by_name = {run.engine: run for run in page.runs}
    assert [*by_name] == ["now", "updn", IN_PLACE, SWEEP]
    # Each cable has the load that it has on the fabric of the run, and a missing one has none.
    for name, on, runs in (
        ("now", result.changed.before, result.before.runs),
        (SWEEP, result.changed.after, result.after.runs),
    ):
        (run,) = [each for each in runs if each.engine in (name, IN_PLACE if name == "now" else "")]
        loads = dict(zip(on.link_names.tolist(), run.load.tolist(), strict=True))
        assert {
            link: load
            for link, load in zip(drawn.link_names.tolist(), by_name[name].load, strict=True)
            if load
        } == {link: load for link, load in loads.items() if load}
        for link, users in by_name[name].users.items():
            old = on.link_names.tolist().index(drawn.link_name(link))
            names = [on.node_names[node] for node in run.users[old].sources.nodes[:, 0]]
            assert [drawn.node_names[node] for node in users.sources.nodes[:, 0]] == names
    marked = {
        (drawn.node_names[mark.node] if mark.node >= 0 else drawn.cable_name(mark.cable)):
        (mark.fails, mark.text)
        for mark in page.marks
    }  # fmt: skip
    assert marked["spine1"] == (True, "")
    assert marked["leaf1[3] -- node03[1]"] == (True, "")
    assert marked["spine2[3] -- leaf2[7]"] == (False, "slow")
    assert {text for fails, text in marked.values() if not fails} >= {"1", "5"}
    (section,) = page.sections
    assert [row["fails"] for row in section.rows] == found.table["failed"].to_list()
    assert page.engines[0].name == "now"
    assert "What if spine1 and node03 fail" in render(page)


def test_running_jobs_are_judged_by_what_their_links_would_carry() -> None:
    fabric = clos()
    hosts = {"1 (a)": np.arange(8), "2 (b)": np.array([8, 12]), "3 (c)": np.array([15])}
    jobs = JobTraffic.of(fabric, hosts)
    result = answer_of(fabric, fail=("leaf3",))
    more = result.with_runs(jobs.runs(result.before), jobs.runs(result.after), "Jobs.")
    runs = {run.engine: run for run in more.after.runs if run.pattern == JOBS}
    assert [*runs] == ["updn", IN_PLACE, SWEEP]
    # Both pairs of job 2 have lost a host; of 56 pairs of job 1, those between leaves cross cables.
    assert runs[SWEEP].unrouted_share == 2 / 58
    between = inner_links(more.changed.after)
    # Each of its 8 hosts sends 4 of 7 parts of its rate to the other leaf.
    sent = runs[SWEEP].flows[between & (more.changed.after.link_from < 2)].sum()
    assert sent == pytest.approx(8 * 4 / 7)
    said = jobs.sentences(more)
    assert said[0] == "1 running job loses machines: 2 (b)."
    peak = max(runs[SWEEP].load[between])
    now = more.before.runs[-1].load[inner_links(fabric)].max()
    assert f"{now:.2f} times its own rate now, " in said[1]
    assert f"next sweep, {peak:.2f} after it, " in said[1]
    assert more.after.runs_table["pattern"].to_list().count(JOBS) == 3
    # In each single failure, the load and what has no path are those of the scenario by itself.
    found = singles(
        fabric, result.place, EACH[:1], [], samples=0, demand=jobs.traffic
    )  # fmt: skip
    row = found.table.row(by_predicate=pl.col("failed") == "leaf3", named=True)
    assert row["demand_load"] == pytest.approx(peak)
    assert row["demand_lost_gbps_until"] == pytest.approx(2 * fabric.host_rate_gbps)
    spine = answer_of(fabric, fail=("spine1",))
    spine = spine.with_runs(jobs.runs(spine.before), jobs.runs(spine.after), "Jobs.")
    row = found.table.row(by_predicate=pl.col("failed") == "spine1", named=True)
    (run,) = (r for r in spine.after.runs if (r.engine, r.pattern) == (SWEEP, JOBS))
    assert row["demand_load"] == max(run.load[inner_links(spine.changed.after)])
    assert jobs.sentences(spine)[0] == (
        "2 running jobs lose paths until OpenSM's next sweep: 1 (a), 2 (b)."
    )
    text = next(line for line in singles_sentences(found) if "running jobs" in line)
    assert f"at most {found.table['demand_load'].max():.2f} (if " in text
    with pytest.raises(InputError, match="no running job has traffic"):
        JobTraffic.of(fabric, {"3 (c)": np.array([15])})


def test_pairs_of_failures_are_searched() -> None:
    fabric = clos()
    found = singles(fabric, InPlace.of(fabric, "minhop"), [PAIRS], ["updn"], samples=2)
    assert len(found.table) == 22
    assert found.pairs is not None
    assert found.pairs.table["machines_cut"][0] == 12
    told = singles_sentences(found)
    assert told[-2].startswith("The worst pair found is ")
    assert found.pairs.text() in told[-2]
    assert told[-1].endswith("worst that cut off none.")
