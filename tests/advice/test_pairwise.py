"""Slow parts from pairwise runs: planted faults, healthy fabrics, and what cannot be told apart."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.machine_fabrics import rail_fabric
from tests.pairwise_cases import case

import weft
from weft.advice.expect.pairwise import Pairwise, pairwise
from weft.advice.expect.slow_parts import PathParts, slow_parts
from weft.core.errors import InputError


def _found(number: int, *, healthy: bool = False) -> bool:
    """Return whether a planted culprit comes first, or on a healthy fabric, nothing is named."""
    made = case(number, healthy=healthy)
    result = pairwise(made.fabric, made.routes, made.runs, **made.options)
    if healthy:
        return not result.suspects
    return bool(result.suspects) and bool(made.culprit & set(result.suspects[0].names))


def test_most_planted_faults_come_first():
    assert sum(_found(number) for number in range(30)) >= 28


def test_healthy_fabrics_are_healthy():
    assert sum(_found(number, healthy=True) for number in range(30)) >= 29


@pytest.mark.slow
def test_planted_faults_come_first_in_95_of_100_cases():
    assert sum(_found(number) for number in range(100, 300)) >= 190
    assert sum(_found(number, healthy=True) for number in range(300, 500)) >= 190


def _runs(fabric, speed, *, operation="bandwidth", name=lambda host: host, sigma=0.02):
    """Return a figure for each pair of machines: `speed` of two names times 100 Gb/s or 10 us."""
    names = list(fabric.machines)
    pairs = [(a, b) for at, a in enumerate(names) for b in names[:at]]
    random = np.random.default_rng(1)
    value = [speed(*pair) for pair in pairs] * np.exp(random.normal(0, sigma, len(pairs)))
    none = np.full(len(pairs), np.nan)
    return pl.DataFrame(
        {
            "source": "pairs.csv",
            "line": np.arange(len(pairs)) + 2,
            "from_machine": [name(a) for a, _ in pairs],
            "to_machine": [name(b) for _, b in pairs],
            "operation": operation,
            "size_bytes": 2**20,
            "gbps": none if operation == "latency" else 100.0 * value,
            "time_ns": 10_000.0 * value if operation == "latency" else none,
            "round": "",
        }
    )


def _on_clos(speed, **options) -> Pairwise:
    fabric = weft.fabric("leaf-spine:leaves=4,spines=4,hosts=4")
    return pairwise(fabric, weft.route(fabric, "dmodk"), _runs(fabric, speed, **options))


def test_a_machine_with_one_adapter_cannot_be_told_from_its_cable():
    result = _on_clos(lambda a, b: 0.6 if "h1.2" in (a, b) else 1.0)
    (suspect,) = result.suspects
    assert suspect.names == ("machine h1.2", "cable leaf1[3] - h1.2[1]")
    assert suspect.figures == 15
    assert suspect.low < 0.6 < suspect.high
    assert suspect.high - suspect.low < 0.05
    assert "The same pairs use them" in str(result)
    speed = result.pairs.filter(pl.col("from_machine") == "h1.2")["explained"].to_numpy()
    assert np.allclose(speed, suspect.value)


def test_several_slow_machines_are_all_found():
    slow = {"h0.1": 0.5, "h2.3": 0.7, "h3.0": 0.85}
    result = _on_clos(lambda a, b: min(slow.get(a, 1.0), slow.get(b, 1.0)))
    found = {each.names[0].removeprefix("machine "): each.value for each in result.suspects}
    assert found.keys() == slow.keys()
    assert all(abs(found[name] - slow[name]) < 0.02 for name in slow)


def test_a_latency_that_a_machine_adds_has_an_interval():
    result = _on_clos(lambda a, b: 1.5 if "h1.2" in (a, b) else 1.0, operation="latency")
    (suspect,) = result.suspects
    assert suspect.names[0] == "machine h1.2"
    assert suspect.figures == 15
    # Half of the figures' 10 us: each is expected to be 5 us with it, and weighed by that.
    assert suspect.low < 5000 < suspect.high < suspect.low + 300


def test_losses_that_are_not_worth_a_name_have_none():
    """Without noise, any loss is certain."""
    for loss, names in ((0.02, 0), (0.05, 1)):
        result = _on_clos(lambda a, b, s=1 - loss: s if "h1.2" in (a, b) else 1.0, sigma=1e-4)
        assert len(result.suspects) == names


def test_inside_machines_processors_and_machines_are_told_apart():
    fabric = weft.fabric("xgft:2;6,8;1,4,rate=NDR", node="dgx-h100")
    routes = weft.route(fabric, "minhop")
    whole = pairwise(fabric, routes, _runs(fabric, lambda a, b: 0.6 if "m2" in (a, b) else 1.0))
    assert whole.suspects[0].names[0] == "machine m2"
    tables = [
        _runs(
            fabric, lambda a, b, gpu=gpu: 0.6 if gpu == 3 and "m1" in (a, b) else 1.0,
            name=lambda machine, gpu=gpu: f"{machine} gpu{gpu}",
        )
        for gpu in range(8)
    ]  # fmt: skip
    (alone,) = pairwise(fabric, routes, pl.concat(tables)).suspects
    assert alone.names[0] == "processor m1 gpu3"


def test_one_wrong_figure_accuses_no_part_of_many_figures():
    result = _on_clos(lambda a, b: 0.2 if (a, b) == ("h3.1", "h0.2") else 1.0)
    assert all(each.figures == 1 for each in result.suspects)


def test_one_wrong_figure_hides_no_slow_machine():
    speeds = {("h3.1", "h1.2"): 6.0}
    result = _on_clos(lambda a, b: speeds.get((a, b), 0.8 if "h1.2" in (a, b) else 1.0))
    assert "machine h1.2" in result.suspects[0].names


def test_figures_that_are_all_low_accuse_the_expectation():
    result = _on_clos(lambda a, b: 0.5)
    assert not result.suspects
    assert abs(result.typical - 50 / 200) < 0.01
    assert "Check the expectation" in str(result)


def test_a_rail_and_a_machine_are_told_apart_by_adapters():
    fabric = rail_fabric(machines=8, adapters=2, per_group=4, spines=4)
    routes = weft.route(fabric, "minhop")
    tables = [
        _runs(
            fabric, lambda a, b, rail=rail: 0.7 if rail or "gpu03" in (a, b) else 1.0,
            name=lambda machine, rail=rail: f"{machine} mlx5_{rail}",
        )
        for rail in (0, 1)
    ]  # fmt: skip
    result = pairwise(fabric, routes, pl.concat(tables))
    assert "rail 1" in result.suspects[0].names
    # The other adapter of gpu03 is hidden by its rail, so machine and adapter look alike.
    (second,) = result.suspects[1:]
    assert "adapter gpu03 mlx5_0" in " ".join((*second.names, *second.perhaps))
    whole = pairwise(fabric, routes, _runs(fabric, lambda a, b: 0.6 if "gpu05" in (a, b) else 1.0))
    assert {"machine gpu05", "adapter gpu05 mlx5_0", "adapter gpu05 mlx5_1"} <= set(
        whole.suspects[0].names
    )


def test_cables_that_no_pair_uses_are_counted():
    fabric = weft.fabric("leaf-spine:leaves=4,spines=4,hosts=4")
    runs = _runs(fabric, lambda a, b: 1.0).filter(
        pl.col("from_machine").str.starts_with("h0") & pl.col("to_machine").str.starts_with("h0")
    )
    result = pairwise(fabric, weft.route(fabric, "dmodk"), runs)
    assert len(result.untested) == 16
    assert "No pair uses 16 cables" in str(result)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"from_machine": "h9.9"}, "pairs.csv:2: leaf-spine.* has no machine 'h9.9'"),
        ({"from_machine": "h0.0", "to_machine": "h0.0"}, "h0.0 and h0.0 are one machine"),
        ({"gbps": -1.0}, "pairs.csv:2: expected a figure above 0, not -1.0"),
    ],
)
def test_wrong_figures_are_refused(change, message):
    fabric = weft.fabric("leaf-spine:leaves=4,spines=4,hosts=4")
    runs = _runs(fabric, lambda a, b: 1.0).with_columns(**{k: pl.lit(v) for k, v in change.items()})
    with pytest.raises(InputError, match=message):
        pairwise(fabric, weft.route(fabric, "dmodk"), runs)
    with pytest.raises(InputError, match="at least three figures, not 2"):
        pairwise(fabric, weft.route(fabric, "dmodk"), runs.head(2))


def test_a_part_with_spare_rate_slows_by_what_is_missing_only():
    one, both = np.zeros(2, dtype=np.int64), np.arange(2)
    parts = PathParts(both, one, np.array([0.2, 0.7]), 2, 1, "slowest")
    assert parts.explained([0], np.array([0.5])) == pytest.approx([0.3, 0.0])


@pytest.mark.parametrize("act", ["slowest", "sum"])
def test_the_first_part_is_the_best_of_all_by_search(act):
    """Compare with a search over all parts and effects."""
    random = np.random.default_rng(5)
    for _ in range(10):
        inside = random.random((8, 40)) < 0.3
        part, figure = np.nonzero(inside)
        weight = np.ones(len(part)) if act == "sum" else np.zeros(len(part))
        culprit, effect = int(random.integers(8)), float(random.uniform(0.1, 0.8))
        shortfall = random.normal(0, 0.02, 40) + effect * inside[culprit]
        parts = PathParts(figure, part, weight, 40, 8, act)
        found, explained, noise = slow_parts(parts, shortfall)
        steps = np.linspace(0, 1, 400)
        errors = [
            [np.minimum(np.abs(shortfall - step * row), 0.1).sum() for step in steps]
            for row in inside
        ]
        best, at = np.unravel_index(np.argmin(errors), (8, 400))
        assert found[0].part == best == culprit
        assert found[0].effect == pytest.approx(steps[at], abs=0.02)
        assert np.abs(shortfall - explained).std() < 0.03
        assert 0.01 < noise < 0.035
