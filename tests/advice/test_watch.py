"""Hot cables, their jobs, and what relieves them, from rates of known traffic."""

import numpy as np
import pytest
from tests.machine_fabrics import rail_fabric

from weft.advice.watch.page import watch_page
from weft.advice.watch.relief import ReliefCase
from weft.advice.watch.traffic import PairTraffic, expected_traffic, injection
from weft.advice.watch.watch import watch
from weft.core.errors import InputError
from weft.counters.rates import Rates
from weft.fabrics.load import fabric as load_fabric
from weft.report.comparison_page import render
from weft.routing import route
from weft.routing.validation.validate import validate
from weft.sim.static.loads import inner_links, link_loads

TREE = load_fabric("xgft:2;4,4;1,4")


def _traffic(*pairs):
    source, target, gbps = (np.array(each) for each in zip(*pairs, strict=True))
    return PairTraffic(source, target, gbps.astype(float))


def _watch(traffic, jobs, fabric=TREE, engine="dmodk", waits=None, opensm="", **options):
    routes = route(fabric, engine)
    loads = traffic.loads(fabric, routes).per_link
    rates = Rates.of_links(fabric, loads, waits, seconds=30.0)
    jobs = {name: np.array(hosts) for name, hosts in jobs.items()}
    return watch([rates], routes, validate(fabric, routes), jobs, engine=opensm, **options), loads


def test_expected_traffic_sends_what_was_measured_in_proportion_to_flows_or_bytes():
    sent = np.zeros(16)
    sent[[0, 5, 9]] = 60, 30, np.nan
    jobs = {"a": np.array([0, 5, 9]), "alone": np.array([3])}
    every, left = expected_traffic(TREE, jobs, sent)
    assert not left
    found = {(s, t): g for s, t, g in zip(*vars(every).values(), strict=True)}
    assert found == {(0, 5): 30, (0, 9): 30, (5, 0): 15, (5, 9): 15}
    ring, _ = expected_traffic(TREE, jobs, sent, pattern="shift")
    assert ring.gbps.tolist() == [60, 30]
    _, left = expected_traffic(TREE, jobs, sent, pattern="transpose")
    assert left[0].startswith("a: ")
    tree, _ = expected_traffic(TREE, jobs, sent, workload="bcast:size=8KiB,algorithm=binomial")
    assert tree.gbps.tolist() == [30, 30]
    assert tree.sources.tolist() == [0, 0]


def test_adapters_of_one_machine_exchange_nothing():
    rails = rail_fabric()
    hosts = np.array([*rails.machines["gpu00"], *rails.machines["gpu05"]])
    sent = np.ones(rails.num_hosts)
    expected, _ = expected_traffic(rails, {"a": hosts}, sent)
    assert len(expected.gbps)
    assert rails.apart(expected.sources, expected.destinations).all()


def test_injection_is_the_rate_of_the_first_port_of_each_host():
    gbps = np.full(TREE.num_links, np.nan)
    gbps[TREE.find_cable("h3[1]") * 2 + 1] = 7.0
    assert injection(TREE, gbps)[3] == 7.0
    assert np.isnan(injection(TREE, gbps)[4])


def test_the_hottest_cable_names_its_jobs_their_machines_and_what_was_predicted():
    # D-mod-k sends to hosts 4, 8 and 12, the first at their leaf switches, by one spine.
    traffic = _traffic((0, 4, 90), (1, 8, 60), (2, 9, 50))
    found, loads = _watch(traffic, {"big": [0, 4], "small": [1, 8], "other": [2, 9]}, top=3)
    first = found.hot[0]
    assert first.measured_gbps == loads.max() == 150
    assert [(each.job, round(each.gbps), each.machines) for each in first.jobs] == [
        ("big", 90, "h[0,4]"), ("small", 60, "h[1,8]"),
    ]  # fmt: skip
    assert first.verdict == "big"
    assert first.predicted_gbps == pytest.approx(150)
    assert "By job: big 60% (60% to 60%; h[0,4]), small 40% (40% to 40%; h[1,8])" in first.text()


def test_a_cable_that_waits_names_the_full_one_behind_it():
    waits = np.zeros(TREE.num_links)
    # One spine sends to host 4 all that its cable takes.
    traffic = _traffic((0, 4, 99), (8, 4, 99), (1, 2, 196))
    incast = {"incast": [0, 4, 8], "ring": [1, 2]}
    routes = route(TREE, "dmodk")
    load = traffic.loads(TREE, routes).per_link
    up = int(np.flatnonzero(inner_links(TREE) & (load > 0))[0])
    out = 2 * TREE.find_cable("h0[1]") + 1
    waits[[out, up]] = 0.5, 0.4
    found, _ = _watch(traffic, incast, waits=waits, top=1, by="waiting")
    assert (found.hot[0].link, found.hot[0].wait_share) == (up, 0.4)
    assert found.hot[0].behind == "s2-0[2] -> s1-1[5], which is at 99% of its rate"
    assert "waits 40% of the time" in found.hot[0].text()
    assert [each.text() for each in found.hosts] == [
        "1 machine of ring (h1): sending at up to 98% of the cable, which is the limit",
        f"1 machine of incast (h0): sending waits up to 50% of the time, held up by "
        f"{found.hot[0].behind}",
        "1 machine of incast (h4): receiving at up to 99% of the cable, which is the limit",
        "1 machine of ring (h2): receiving at up to 98% of the cable, which is the limit",
    ]


def test_a_full_cable_before_one_that_waits_does_not_hold_it_up():
    traffic = _traffic((0, 4, 99), (0, 9, 99))
    every, _ = _watch(traffic, {"out": [0, 4, 9]}, waits=np.full(TREE.num_links, 0.5))
    assert "1 machine of out (h0): sending at up to 99% of the cable" in every.text()
    assert {each.behind for each in (*every.hot, *every.hosts)} == {""}


def test_reliefs_have_the_loads_that_the_same_traffic_has_after_the_change():
    traffic = _traffic((0, 4, 90), (1, 8, 90))
    jobs = {"a": [0, 4], "b": [1, 8]}
    found, loads = _watch(traffic, jobs)
    assert loads.max() == 180
    moves = [each for each in found.reliefs if each.kind == "job"]
    engines = [each for each in found.reliefs if each.kind == "engine"]
    assert moves
    assert moves[0].helps
    assert moves[0].after == pytest.approx(0.45)
    assert engines
    for each in found.reliefs:
        assert each.before == pytest.approx(0.9)
        assert each.helps == (each.high <= 0.95 * each.before)
        assert each.low <= each.after <= each.high
    updn = route(TREE, "updn")
    shares = link_loads(TREE, updn, [0, 1], [4, 8], weights=[90.0, 90.0]) / 200
    (theirs,) = [each for each in engines if "weft's updn" in each.change]
    assert theirs.after == pytest.approx(shares.max())
    assert found.answer().startswith("Cheapest relief: ")
    assert [each.change[:15] for each in engines if each.but] == ["OpenSM's own do"]


def test_the_interval_of_a_relief_spans_what_jobs_may_exchange():
    # dor sends the messages of the ring apart, and half as much again by one link if all exchange.
    ring = _traffic((4, 15, 120), (7, 4, 120), (8, 7, 120), (10, 8, 120))
    found, _ = _watch(ring, {"a": [4, 7, 8, 10, 15]})
    (theirs,) = [each for each in found.reliefs if "OpenSM's own dor" in each.change]
    every = [(s, t) for s in (4, 7, 8, 10) for t in (4, 7, 8, 10, 15) if s != t]
    for pairs, weight, ratio in (([(4, 15), (7, 4), (8, 7), (10, 8)], 120, 1), (every, 30, 1.5)):
        ends = np.array(pairs).T
        after, before = (
            link_loads(TREE, route(TREE, engine), *ends, weights=np.full(len(pairs), weight))[
                inner_links(TREE)
            ].max()
            for engine in ("dor", "dmodk")
        )
        assert after / before == ratio
    assert (theirs.before, theirs.low, theirs.high) == pytest.approx((0.6, 0.6, 0.9))


def test_a_short_last_interval_is_not_judged():
    routes = route(TREE, "dmodk")
    loads = _traffic((0, 5, 100)).loads(TREE, routes).per_link
    long, short = (Rates.of_links(TREE, loads, seconds=seconds) for seconds in (30.0, 2.0))
    checked = validate(TREE, routes)
    for series, judged in (((long, short), long), ((short, long), long), ((long, long), long)):
        found = watch(series, routes, checked, {}, relief=False)
        assert found.rates is judged
        assert any("judged instead" in note for note in found.notes) == (series[-1] is short)


def test_counters_that_the_jobs_do_not_explain_are_said():
    routes = route(TREE, "dmodk")
    loads = _traffic((0, 5, 100), (1, 9, 50)).loads(TREE, routes).per_link
    hosts = {"a": np.array([0, 5]), "b": np.array([1, 9])}
    for share, wrong in ((1.0, False), (0.4, True)):
        measured = np.where(inner_links(TREE), share * loads, loads)
        rates = Rates.of_links(TREE, measured, seconds=30.0)
        found = watch([rates], routes, validate(TREE, routes), hosts, relief=False)
        assert any("do not explain the counters" in note for note in found.notes) == wrong


def test_traffic_that_only_host_cables_carry_has_no_relief_that_helps():
    routes = route(TREE, "dmodk")
    case = ReliefCase(
        TREE,
        routes,
        validate(TREE, routes),
        (_traffic((0, 1, 100)),),
        np.full(TREE.num_links, 50.0),
    )
    assert not case.relief("engine", "other", "", TREE, route(TREE, "minhop")).helps


def test_nothing_relieves_what_one_host_sends_alone():
    busy = {"a": [0, 4], "rest": [each for each in range(16) if each not in (0, 4)]}
    found, _ = _watch(_traffic((0, 4, 150)), busy, by="utilisation")
    assert found.reliefs
    assert all(not each.helps for each in found.reliefs)
    assert "nothing that was computed relieves" in found.answer()
    assert found.notes == ("Not judged: a move of job a: it does not fit on 0 free machines.",)
    only, _ = _watch(_traffic((0, 1, 150)), {"a": [0, 1]})
    assert only.reliefs == ()
    assert "no cable between switches is at 50% of its rate" in only.answer()
    skipped, _ = _watch(_traffic((0, 4, 150)), {"a": [0, 4]}, relief=False)
    assert skipped.answer() == "Relief: not computed."


def test_the_repair_of_a_degraded_cable_is_a_relief():
    slow = TREE.degraded(["s1-0[5]"], 50.0)
    traffic = _traffic((0, 4, 45), (1, 5, 45), (2, 6, 45))
    found, _ = _watch(traffic, {"a": [0, 4], "b": [1, 5], "c": [2, 6]}, fabric=slow)
    first = found.reliefs[0]
    assert (first.kind, first.helps) == ("cable", True)
    assert first.before == pytest.approx(0.9)
    assert first.after == pytest.approx(0.225)


def test_a_missing_cable_is_replugged_where_the_engine_of_the_tables_is_known():
    lost = TREE.without(cables=["s1-0[5]"])
    traffic = _traffic((0, 4, 90), (1, 8, 90), (2, 12, 90), (3, 5, 90))
    jobs = {"a": [0, 4], "b": [1, 8], "c": [2, 12], "d": [3, 5]}
    known, _ = _watch(traffic, jobs, fabric=lost, engine="minhop", opensm="minhop")
    (cable,) = [each for each in known.reliefs if each.kind == "cable"]
    assert cable.change == "s1-0 -- s2-0: 0 of 1: repair"
    ends = ([0, 1, 2, 3], [4, 8, 12, 5])
    new = link_loads(TREE, route(TREE, "minhop:balance=opensm"), *ends, weights=[90.0] * 4)
    assert cable.after == pytest.approx((new / 200).max())
    assert cable.loads is None
    unknown, _ = _watch(traffic, jobs, fabric=lost, engine="minhop")
    assert "cable" not in {each.kind for each in unknown.reliefs}
    assert unknown.notes == (
        "Not judged: s1-0 -- s2-0: 0 of 1: repair: the engine of the tables is not known.",
    )


def test_growing_errors_are_ranked_by_the_traffic_of_their_cables():
    frame = _errors({"s1-0[5]": 3, "h0[1]": 50, "h7[1]": 9})
    routes = route(TREE, "dmodk")
    rates = Rates(TREE, frame)
    found = watch([rates, rates], routes, validate(TREE, routes), {}, relief=False)
    rows = found.growing.rows(named=True)
    assert [(row["errors"], row["detour"]) for row in rows] == [
        (100, False),
        (6, True),
        (18, False),
    ]
    assert rows[0]["pairs"] == 30
    assert rows[0]["gbps"] == 40.0
    assert "errors grow: s1-0[1] -- h0[1]: 100 errors; carries 40.0 Gb/s; if pulled" in found.text()
    # Switches that route adaptively avoid a cable that is pulled.
    adaptive = route(TREE, "ecmp")
    found = watch([rates, rates], adaptive, validate(TREE, adaptive), {}, relief=False)
    assert found.growing["pairs"].null_count() == 3
    assert "lose their path" not in found.text()


def _errors(counts):
    loads = _traffic((0, 4, 40)).loads(TREE, route(TREE, "dmodk")).per_link
    frame = Rates.of_links(TREE, loads).frame
    errors = np.zeros(len(TREE.port_link), dtype=np.int64)
    for port, count in counts.items():
        name, _, rest = port.partition("[")
        errors[TREE.port_offset[TREE.find_node(name)] + int(rest[:-1]) - 1] = count
    return frame.with_columns(errors=errors[frame["slot"].to_numpy()])


def test_page_table_and_json_have_the_same_cables():
    found, loads = _watch(_traffic((0, 4, 90), (1, 8, 90)), {"a <1>": [0, 4], "b": [1, 8]})
    page = watch_page(found)
    text = render(page)
    assert "a &lt;1&gt;" in text
    assert [each.title for each in page.sections] == [
        "Hottest cables between switches", "What would relieve them", "Running jobs",
    ]  # fmt: skip
    assert page.runs[0].load.max() == 0.9
    table = found.table()
    assert np.array_equal(table["measured_gbps"].to_numpy(), loads)
    assert table["ratio"].null_count() == (loads == 0).sum()
    assert found.as_json()["hot"][0]["name"] == found.hot[0].name
    with pytest.raises(InputError, match="two readings"):
        watch([], route(TREE, "dmodk"), validate(TREE, route(TREE, "dmodk")), {})
