"""Whose traffic a link carries, in cases whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.reference.attribution import Mixes

import weft
from weft.advice.watch import attribution
from weft.advice.watch.attribution import NO_JOB, Attribution, attribute
from weft.advice.watch.path_rates import Classes
from weft.core.errors import InputError, NotApplicable
from weft.counters.rates import Rates
from weft.sim.static.loads import inner_links, link_loads

#: Two leaves with two hosts each, below one spine: hosts 0 and 1, hosts 2 and 3.
SMALL = "xgft:2;2,2;1,1"


def loads_of(fabric, routes, *flows, lid_offset=0):
    """Return the loads of flows (source, destination, Gb/s)."""
    source, destination, gbps = zip(*flows, strict=True)
    return link_loads(fabric, routes, source, destination, weights=gbps, lid_offset=lid_offset)


def small(*flows, jobs=((0, 2), (1, 3)), change=None) -> tuple[Attribution, float]:
    """Return the attribution of the first uplink of the small fabric, and its rate."""
    fabric = weft.fabric(SMALL)
    routes = weft.route(fabric, "minhop")
    loads = loads_of(fabric, routes, *flows).astype(float)
    leaf = fabric.graph.destination_row[0]
    link = int(np.flatnonzero(inner_links(fabric) & (fabric.link_from == leaf))[0])
    if change:
        change(fabric, loads, link)
    groups = dict(zip("AB", jobs, strict=False))
    return attribute(Rates.of_links(fabric, loads), routes, groups, link), loads[link]


def test_a_job_alone_has_all_of_a_link() -> None:
    found, rate = small((0, 2, 5.0), (2, 0, 1.0), jobs=((0, 2),))
    assert rate == 5
    assert found.explained_gbps == pytest.approx(np.array([[5, 0]]), rel=1e-3, abs=0.01)
    assert found.low_gbps == pytest.approx(found.high_gbps, abs=0.01)
    assert found.verdicts[0].first == str(found.verdicts[0]) == "A"
    assert found.hosts[0][0].tolist() == [0, 2]


def test_jobs_that_share_only_a_link_have_what_their_hosts_send() -> None:
    found, _ = small((0, 2, 5.0), (1, 3, 3.0))
    assert found.low_gbps == pytest.approx(np.array([[5, 3, 0]]), rel=1e-3, abs=0.01)
    assert found.high_gbps == pytest.approx(np.array([[5, 3, 0]]), rel=1e-3, abs=0.01)
    assert found.verdicts[0].first == "A"
    pairs = found.pair_traffic
    assert pairs.sources.tolist() == [0, 1]
    assert pairs.destinations.tolist() == [2, 3]
    assert pairs.gbps == pytest.approx([5, 3], rel=1e-3)


def test_jobs_on_the_same_hosts_cannot_be_told_apart() -> None:
    found, _ = small((0, 2, 5.0), jobs=((0, 2), (0, 2)))
    assert found.low_gbps[:, :2] == pytest.approx(np.array([[0, 0]]), abs=0.01)
    assert found.high_gbps[:, :2] == pytest.approx(np.array([[5, 5]]), rel=1e-3)
    assert found.verdicts[0].first is None
    assert str(found.verdicts[0]) == "cannot be told apart: A, B"


def test_traffic_of_hosts_without_job_is_no_job_s() -> None:
    found, _ = small((0, 2, 1.0), (1, 3, 4.0), jobs=((0, 2),))
    # Host 0 may send to host 3, and host 1 to host 2.
    assert found.low_gbps[0, -1] == pytest.approx(3, rel=1e-2)
    assert found.high_gbps[0, -1] == pytest.approx(4, rel=1e-2)
    assert found.verdicts[0].first == NO_JOB


def test_traffic_that_no_path_explains_is_no_job_s() -> None:
    def more(fabric, loads, link):
        loads[link] += 20.0

    found, rate = small((0, 2, 5.0), (1, 3, 3.0), change=more)
    assert rate == 28
    assert found.explained_gbps[0, :-1].sum() < 12
    assert found.explained_gbps[0, -1] > 16
    assert found.verdicts[0].candidates[0] == NO_JOB


def test_a_link_without_traffic_rules_out_all_pairs_on_it() -> None:
    found, _ = small((0, 1, 3.0), (2, 3, 3.0), jobs=((0, 1, 2, 3),))
    assert found.pair_traffic.sources.tolist() == [0, 2]
    assert found.pair_traffic.destinations.tolist() == [1, 3]


def test_a_link_without_traffic_has_no_first() -> None:
    found, rate = small((2, 0, 1.0))
    assert rate == 0
    assert str(found.verdicts[0]) == "no traffic"
    assert not found.high_gbps.any()


def test_ends_of_cables_that_differ_widen_intervals() -> None:
    fabric, routes, jobs, loads, links = random_case("minhop", 0)
    groups = {str(number): job for number, job in enumerate(jobs)}
    rates = Rates.of_links(fabric, loads)
    late = replace(rates, frame=rates.frame.with_columns(pl.col("rcv_gbps") * 1.01))
    exact, wide = (attribute(each, routes, groups, links) for each in (rates, late))
    assert np.all(wide.low_gbps <= exact.low_gbps + 1e-6)
    assert np.all(wide.high_gbps >= exact.high_gbps - 1e-6)
    assert (wide.high_gbps - exact.high_gbps).max() > 0.01
    # Errors of a rate r have the standard deviation 0.01 r / sqrt(2) if all rates are the same.
    assert wide.error_gbps.mean() == pytest.approx(0.01 * loads[links].mean() / 2**0.5, rel=0.4)


def test_an_idle_fabric_has_no_traffic() -> None:
    fabric = weft.fabric(SMALL)
    rates = Rates.of_links(fabric, np.zeros(fabric.num_links))
    found = attribute(rates, weft.route(fabric, "minhop"), {"A": [0, 2]}, [0, 9])
    assert [str(each) for each in found.verdicts] == ["no traffic"] * 2
    assert not len(found.pair_traffic.gbps)


def test_what_does_not_fit_is_refused() -> None:
    fabric = weft.fabric(SMALL)
    routes = weft.route(fabric, "minhop")
    rates = Rates.of_links(fabric, np.full(fabric.num_links, np.nan))
    with pytest.raises(InputError, match="has no rate to explain"):
        attribute(rates, routes, {}, [0])
    with pytest.raises(InputError, match="must not be called 'no job'"):
        attribute(rates, routes, {NO_JOB: [0]}, [])
    with pytest.raises(InputError, match="hosts of A"):
        attribute(rates, routes, {"A": [9]}, [])
    with pytest.raises(InputError, match="another fabric"):
        attribute(rates, weft.route(weft.fabric("xgft:2;2,4;1,1"), "minhop"), {}, [0])


def test_routes_via_intermediates_are_not_applicable() -> None:
    fabric = weft.fabric("dragonfly:p=1,a=2,h=1")
    with pytest.raises(NotApplicable, match="intermediates"):
        attribute(
            Rates.of_links(fabric, np.ones(fabric.num_links)), weft.route(fabric, "ugal"), {}, [0]
        )


def test_tables_that_are_not_those_of_the_traffic_explain_less() -> None:
    fabric = weft.fabric("xgft:2;2,2;1,2")
    routes = weft.route(fabric, "dmodk")
    loads = loads_of(fabric, weft.route(fabric, "ecmp"), (0, 2, 5.0))
    jobs = {"A": [0, 2]}
    up = np.flatnonzero(inner_links(fabric) & (loads > 0) & (fabric.level[fabric.link_from] == 1))
    found = attribute(Rates.of_links(fabric, loads), routes, jobs, up)
    # The tables use one of both links, with twice what it carries.
    by_table = loads_of(fabric, routes, (0, 2, 1))[up].astype(float)
    assert found.low_gbps[:, 0] == pytest.approx(2.5 * by_table, rel=0.01)
    assert found.explained_gbps[:, -1] == pytest.approx(2.5 * (1 - by_table), abs=0.01)
    assert {str(each) for each in found.verdicts} == {"A", NO_JOB}


def check(fabric, routes, jobs, loads, links, slack=0.02) -> tuple[np.ndarray, np.ndarray]:
    """Compare with the bounds over all pairs of hosts; return how much wider intervals are."""
    groups = {str(number): job for number, job in enumerate(jobs)}
    found = attribute(Rates.of_links(fabric, loads), routes, groups, links)
    mixes = Mixes(fabric, routes, jobs, loads)
    low, high = (np.array(each) for each in zip(*map(mixes.bounds, links), strict=True))
    below = low - found.low_gbps
    above = found.high_gbps - high
    assert min(below.min(), above.min()) > -slack
    for at, link in enumerate(links):
        first = np.argmax(found.explained_gbps[at])
        lead = mixes.lead(link, first)
        if abs(lead) > 0.05 and max(below[at].max(), above[at].max()) < slack:
            assert (found.verdicts[at].first is not None) == (lead > 0)
    return below, above


def random_case(engine: str, seed: int):
    """Return fabric, routes, jobs on most hosts, their loads, and links with traffic."""
    rng = np.random.default_rng(seed)
    fabric = weft.fabric("xgft:2;4,3;1,2")
    routes = weft.route(fabric, engine)
    jobs = np.split(rng.permutation(12)[: 12 - seed], [3 + seed, 8])
    pairs = [(s, d) for job in jobs for s in job for d in job if s != d]
    flows = [
        (*pair, rng.uniform(0.5, 4)) for pair in pairs if rng.random() < (0.7, 0.15, 0.5)[seed]
    ]
    offset = rng.integers(1 << routes.lmc, size=len(flows))
    loads = loads_of(fabric, routes, *flows, lid_offset=offset)
    return fabric, routes, jobs, loads, np.flatnonzero(loads)[seed::4]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("engine", ["minhop", "dmodk", "smodk", "minhop:lmc=1", "ecmp"])
def test_intervals_are_those_of_all_pairs_of_hosts(engine: str, seed: int) -> None:
    below, above = check(*random_case(engine, seed))
    assert max(below.max(), above.max()) < 0.02


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("engine", ["minhop", "smodk", "ecmp"])
def test_rates_of_pairs_add_up_to_the_loads(engine: str, seed: int) -> None:
    fabric, routes, jobs, loads, links = random_case(engine, seed)
    found = attribute(Rates.of_links(fabric, loads), routes, dict(enumerate(jobs)), links[:1])
    pairs = found.pair_traffic
    again = pairs.loads(fabric, routes).per_link
    assert again == pytest.approx(loads, rel=0.02, abs=0.01)
    job_of = np.full(fabric.num_hosts, -1)
    for number, job in enumerate(jobs):
        job_of[job] = number
    ends = job_of[pairs.sources], job_of[pairs.destinations]
    assert np.all((ends[0] == ends[1]) | (np.minimum(*ends) < 0))


def test_endpoints_with_a_reading_are_apart_from_those_without() -> None:
    gbps = np.array([5.0, np.nan, 3.0, 0.0])
    row = np.zeros(4, dtype=np.int32)
    found = Classes.of_endpoints(row, gbps, np.ones((1, 4), dtype=bool), np.zeros(4, dtype=bool))
    assert found.of.tolist() == [1, 0, 1, -1]
    assert found.gbps == pytest.approx([np.nan, 8], nan_ok=True)
    assert found.part == pytest.approx([1, 5 / 8, 3 / 8])


def test_a_cable_without_reading_leaves_the_others() -> None:
    fabric, routes, jobs, loads, links = random_case("minhop", 0)
    row = fabric.graph.destination_row
    host = next(a for job in jobs for a in job for b in job if a != b and row[a] == row[b])
    loads[fabric.graph.destination_link[host] ^ [0, 1]] = np.nan
    below, above = check(fabric, routes, jobs, loads, links[np.isfinite(loads[links])])
    assert max(below.max(), above.max()) < 0.02


def test_no_host_sends_to_itself() -> None:
    fabric = weft.fabric("xgft:2;4,2;1,1")
    routes = weft.route(fabric, "minhop")
    flows = [(0, 4, 4), (4, 0, 2), (1, 5, 0.5), (5, 1, 0.5), (2, 3, 3), (6, 7, 3)]
    loads = loads_of(fabric, routes, *flows)
    jobs = [np.array([0, 1, 4, 5]), np.array([2, 3, 6, 7])]
    below, above = check(
        fabric, routes, jobs, loads, np.flatnonzero(inner_links(fabric) & (loads > 0))
    )
    assert max(below.max(), above.max()) < 0.02


@pytest.mark.parametrize("near", [0, 40])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("engine", ["minhop", "dmodk", "smodk", "minhop:lmc=1", "ecmp"])
def test_intervals_of_large_fabrics_hold_the_others(
    engine: str, seed: int, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "_MOST_UNKNOWN", 0)
    monkeypatch.setattr(attribution, "_MOST_NEAR", near)
    below, above = check(*random_case(engine, seed))
    if (engine, seed, near) == ("minhop", 0, 0):
        assert max(below.max(), above.max()) > 0.1
