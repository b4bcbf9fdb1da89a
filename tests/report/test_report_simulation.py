"""The page of a simulation, and the hops of a message as text."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.report.test_report_html import HOSTILE, Document, unpacked, with_hostile_names

from weft.core.errors import InputError
from weft.fabrics.topology import build
from weft.report import simulation_data
from weft.report.hops import hops_text
from weft.report.simulation_page import (
    facts,
    render_simulation,
    size_text,
    time_text,
    write_simulation_page,
)
from weft.routing import route
from weft.sim.packet.hot_spots import trees_at
from weft.sim.simulate import simulate
from weft.workload import WorkloadBuilder

TREE = build("xgft:2;4,4;1,2")


def incast(ranks=16, size=40_000):
    builder = WorkloadBuilder(ranks, name="incast")
    for rank in range(1, ranks):
        builder.calc(rank, 500.0)
        builder.put(rank, 0, size)
    return builder.build()


def simulated(fabric=TREE, work=None, **options):
    options = {"snapshot_ns": 500} | options
    return simulate(fabric, route(fabric, "minhop"), work or incast(), **options, level="packet")


@pytest.fixture(scope="module")
def result():
    return simulated(trace=[5, 9])


@pytest.fixture(scope="module")
def text(result):
    return render_simulation(result)


def blob(text, name):
    return unpacked(Document(text).script(name))


def test_equal_runs_give_equal_pages(result, text):
    assert render_simulation(result) == text
    assert render_simulation(simulated()) == text


def test_page_makes_no_network_requests(text):
    document = Document(text)
    for tag, attrs in document.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attrs
        assert "style" not in attrs
        assert not any(name.startswith("on") for name in attrs)
        assert attrs.get("href", "#").startswith("#")
    assert set(re.findall(r"[a-z]+://[^\s\"'`)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(", text)
    assert "@import" not in text
    assert "url(" not in text


def test_policy_allows_the_pages_own_script_and_style_only(text):
    document = Document(text)
    policy = next(
        attrs["content"]
        for tag, attrs in document.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for rule, content in (
        ("script-src", document.texts["script"][-1]),
        ("style-src", document.texts["style"][0]),
    ):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_frames_are_the_snapshots(result, text):
    frames_data = blob(text, "weft-frames")
    shots = result.snapshots
    later = shots.time_ps > 0
    assert np.allclose(frames_data["endNs"], shots.time_ps[later] / 1e3)
    active, frames = frames_data["active"], int(later.sum())
    use = frames_data["use"].reshape(frames, len(active)) / simulation_data.PARTS
    span = np.diff(shots.time_ps)[:, None]
    true = np.diff(shots.busy_ps, axis=0)[:, active] / span
    assert np.abs(use - true).max() < 0.003 + 1 / simulation_data.PARTS
    held = frames_data["held"].reshape(frames, -1) / simulation_data.PARTS
    shares = shots.held[later][:, active].max(axis=2) / result.hardware.buffer_credits
    assert np.abs(held - shares).max() <= 0.5 / simulation_data.PARTS + 1e-9
    idle = np.setdiff1d(np.arange(TREE.num_links), active)
    assert not shots.busy_ps[-1][idle].any()
    delivered = frames_data["deliveredGbps"] * np.diff(shots.time_ps) / 8e3
    into_hosts = TREE.link_to >= TREE.num_switches
    assert delivered.sum() == pytest.approx(shots.wire_bytes[-1][into_hosts].sum(), rel=1e-5)


def test_congestion_trees_are_those_of_each_snapshot(result, text):
    trees_data = blob(text, "weft-trees")
    start = trees_data["treeStart"]
    later = np.flatnonzero(result.snapshots.time_ps > 0)
    hosts_seen = 0
    for frame, number in enumerate(later):
        trees = trees_at(result, int(number))
        assert start[frame + 1] - start[frame] == len(trees)
        for place, tree in enumerate(trees, start=start[frame]):
            first, last = trees_data["nodeStart"][place : place + 2]
            assert trees_data["root"][place] == tree.root
            assert trees_data["nodes"][place] == len(tree) == last - first
            assert np.array_equal(trees_data["nodeLink"][first:last], tree.link)
            assert np.array_equal(trees_data["nodeParent"][first:last], tree.parent)
            assert trees_data["causes"][trees_data["cause"][place]] == tree.cause
            assert 0 <= trees_data["hosts"][place] <= trees_data["messages"][place] <= 15
            assert trees_data["elsewhere"][place] == 0
            hosts_seen += trees_data["hosts"][place]
    assert hosts_seen > 50
    page = json.loads(Document(text).script("weft-page"))
    sizes = [trees_data["nodes"][start[f] : start[f + 1]].sum() for f in range(len(later))]
    assert sizes[page["firstFrame"]] == max(sizes)


def test_ranks_and_messages_are_there(result, text):
    ranks_data = blob(text, "weft-ranks")
    assert ranks_data["rank"].tolist() == list(range(16))
    assert len(ranks_data["from"]) == 15
    assert ranks_data["to"].tolist() == [0] * 15
    ops = result.workload.messages
    assert np.allclose(ranks_data["arrived"], result.arrived_ps[ops] / 1e3)
    assert {ranks_data["states"][at] for at in ranks_data["spanState"]} == {"computing", "sending"}
    assert (np.diff(ranks_data["spanRow"]) >= 0).all()


def test_the_congestion_matrix_is_that_of_the_run(result, text):
    drawn, matrix = blob(text, "weft-matrix"), result.congestion_matrix()
    assert drawn["link"].tolist() == matrix["link"].to_list()
    assert np.allclose(drawn["wait"], matrix["wait_ns"])
    assert np.allclose(drawn["share"], matrix["share"])
    assert np.array_equal(drawn["node"][drawn["block"]], matrix["node"])
    assert np.allclose(drawn["switchWait"][drawn["block"]], matrix["switch_wait_ns"])
    assert np.allclose(drawn["switchShare"][drawn["block"]], matrix["switch_share"])
    assert [label for label, _, _ in drawn["labels"]] == [
        "Level 2: 2 switches", "Level 1: 4 switches",
    ]  # fmt: skip
    (lead,) = (each for each in Document(text).texts["p"] if each.startswith("Longest total wait"))
    most = matrix.row(matrix["switch_wait_ns"].arg_max(), named=True)
    assert time_text(most["switch_wait_ns"]) in lead


def test_a_page_without_waits_says_so():
    builder = WorkloadBuilder(16)
    builder.put(0, 5, 10_000)
    page = render_simulation(simulated(work=builder.build(), snapshot_ns=100))
    assert "No packet waits in a switch." in Document(page).texts["p"]


def test_page_without_scripts_has_the_figures(result, text):
    document = Document(text)
    visible = " ".join(
        each for tag in ("dd", "td", "button", "pre", "li") for each in document.texts[tag]
    )
    assert result.link_name(int(result.busy_ps.argmax())) in visible
    assert "Hot spot 1: s1-0[1] -> h0[1]" in visible
    assert "buffer_bytes 16384" in visible
    names = dict(facts(result))
    assert names["messages"] == "15"
    assert names["time"] == time_text(result.makespan_ns)
    assert names["payload"] == size_text(15 * 40_000)
    for value in names.values():
        assert value in document.texts["dd"]


def test_the_page_of_a_partial_run_says_so():
    part = simulated(max_time_ns=4_000)
    assert not part.complete
    document = Document(render_simulation(part))
    notice = f"This run ended early, at {time_text(part.end_ps / 1e3)}"
    assert any(notice in each for each in document.texts["p"])
    assert dict(facts(part))["messages"].startswith("15, ")


def test_unknown_times_of_a_partial_run_are_dashes():
    builder = WorkloadBuilder(16, name="two phases")
    for phase in ("first", "second"):
        builder.phase(phase)
        for rank in range(1, 16):
            builder.put(rank, 0, 4_000_000)
    page = render_simulation(simulated(work=builder.build(), max_time_ns=4_000))
    cells = Document(page).texts["td"]
    for phase in ("first", "second"):
        assert cells[cells.index(phase) + 2] == "–"


def test_hostile_names_stay_text():
    fabric = with_hostile_names(build("xgft:2;2,2;1,2"))
    page = render_simulation(simulated(fabric, incast(4)), title=HOSTILE[0])
    document = Document(page)
    assert document.texts["h1"] == [HOSTILE[0]]
    assert sum(tag == "script" for tag, _ in document.tags) == 7
    assert unpacked(document.script("weft-fabric"))["names"][0] == HOSTILE[0]


def test_links_inside_hosts_that_forward_are_named():
    fabric = build("bcube:n=3,k=1")
    run = simulated(fabric, incast(fabric.num_hosts))
    page = json.loads(Document(render_simulation(run)).script("weft-page"))
    inside = {int(link): name for link, name in page["insideNames"].items()}
    assert sorted(inside) == list(range(fabric.num_links, fabric.num_links + 18))
    assert inside[fabric.num_links] == run.link_name(fabric.num_links)


def test_long_runs_are_thinned_and_say_so(monkeypatch):
    monkeypatch.setattr(simulation_data, "MAX_FRAMES", 6)
    monkeypatch.setattr(simulation_data, "MAX_RANKS", 5)
    monkeypatch.setattr(simulation_data, "MAX_NODES_OF_TREE", 4)
    monkeypatch.setattr(simulation_data, "MAX_SPANS", 7)
    monkeypatch.setattr(simulation_data, "MAX_MESSAGES", 2)
    run = simulated(snapshot_ns=200)
    page = render_simulation(run)
    frames, trees, ranks = (blob(page, f"weft-{name}") for name in ("frames", "trees", "ranks"))
    assert 3 <= len(frames["endNs"]) <= 6
    assert frames["endNs"][-1] == run.snapshots.time_ps[-1] / 1e3
    # The intervals between the frames are covered without gaps.
    spans = np.diff(frames["endNs"], prepend=0.0)[:, None]
    use = frames["use"].reshape(len(spans), -1) / simulation_data.PARTS
    busy = run.snapshots.busy_ps[-1][frames["active"]] / 1e3
    assert np.abs((use * spans).sum(axis=0) - busy).max() < 0.01 * spans.sum()
    assert np.diff(trees["nodeStart"]).max() == 4
    assert trees["nodes"].max() == 19
    assert ranks["rank"].tolist() == [0, 4, 8, 11, 15]
    assert len(ranks["spanRow"]) == 7
    assert len(ranks["from"]) == 2
    notes = " ".join(Document(page).texts["li"])
    for note in (
        "closer together at times with more traffic", "nearest to the root", "5 of 16 ranks",
        "The 7 longest of", "The 2 slowest of",
    ):  # fmt: skip
        assert note in notes


@pytest.mark.parametrize("seed", range(5))
def test_chosen_frames_divide_the_course_of_a_run_evenly(seed):
    random = np.random.default_rng(seed)
    weight = 1e-6 + np.where(random.random(900) < 0.1, random.random(900), 0.0)
    course = np.cumsum(weight)
    chosen = simulation_data._evenly(course, 60)
    assert 40 <= len(chosen) <= 60
    assert chosen[-1] == 899
    assert (np.diff(chosen) > 0).all()
    steps = np.diff(course[chosen], prepend=0.0)
    assert steps.max() <= weight.max() + 2 * course[-1] / 60
    assert simulation_data._evenly(np.arange(1.0, 901.0), 60).tolist() == list(range(14, 900, 15))


def test_pages_stay_small(text):
    assert len(text.encode()) < 160_000
    fabric = build("xgft:2;8,8;1,4")
    run = simulated(fabric, incast(64, 60_000), snapshot_ns=200)
    assert len(render_simulation(run).encode()) < 400_000


def test_the_page_says_if_there_is_no_congestion():
    builder = WorkloadBuilder(16)
    builder.put(0, 5, 100_000)
    page = render_simulation(simulated(work=builder.build()))
    assert "No congestion: no packet waits because of a full buffer." in page
    assert len(blob(page, "weft-trees")["root"]) == 0


def test_runs_without_snapshots_are_refused(result, tmp_path):
    with pytest.raises(InputError, match="snapshot_ns"):
        write_simulation_page(replace(result, snapshots=None), tmp_path / "a.html")
    with pytest.raises(InputError, match="smaller snapshot_ns"):
        render_simulation(simulated(snapshot_ns=1e9))
    with pytest.raises(InputError):
        write_simulation_page(result, tmp_path / "missing" / "a.html")
    assert list(tmp_path.iterdir()) == []


def test_write_returns_the_size_of_the_page(result, text, tmp_path):
    path = tmp_path / "run.html"
    assert write_simulation_page(result, path) == len(path.read_bytes())
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("time", "text"),
    [(0, "0 ns"), (999.5, "999.5 ns"), (1500, "1.5 µs"), (2.5e6, "2.5 ms"), (3e9, "3 s")],
)
def test_times_have_units(time, text):
    assert time_text(time) == text


# -- hops ------------------------------------------------------------------------------------------


def test_hops_of_a_message_as_a_table(result):
    table = hops_text(result, 5)
    lines = table.splitlines()
    assert lines[0].startswith("Operation 5, put to rank 0, tag 0: 40,000 bytes from h3 to h0")
    assert "20 packets" in lines[1]
    hops = result.hops().filter(result.hops()["message"] == 5)
    assert f"total wait {hops['wait_ns'].sum():,.3f} ns" in lines[2]
    assert lines[3].split() == [
        "packet", "link", "lane", "ready", "left", "waited", "behind", "gone",
    ]  # fmt: skip
    assert len(lines) == 4 + len(hops)
    packets = [int(line.split()[0]) for line in lines[4:]]
    assert packets == sorted(packets)
    first = lines[4].split()
    assert first[1:4] == ["h3[1]", "->", "s1-0[4]"]
    assert {len(line) for line in lines[4:]} == {len(lines[3])}


def test_long_tables_of_hops_are_cut_but_name_every_message(result):
    table = hops_text(result, most=3)
    assert table.count("more hops") == 2
    assert "Operation 5," in table
    assert "Operation 9," in table


def test_hops_that_were_not_traced_are_refused(result):
    with pytest.raises(InputError, match="no hops of operation 7"):
        hops_text(result, 7)
    with pytest.raises(InputError, match="no hops of any message"):
        hops_text(simulated())
