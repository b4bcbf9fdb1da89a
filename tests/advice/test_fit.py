"""Parameters of hosts from latencies and bandwidths: recovery, prediction of other runs, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import weft
from weft.advice.expect.fit import fit
from weft.core.errors import InputError
from weft.measured.measurements import MEASUREMENT_COLUMNS
from weft.measured.read import read_measurements
from weft.sim.common.host_parameters import HostParameters, Overhead, read_host_parameters
from weft.workload import WorkloadBuilder

MEASURED = Path(__file__).parents[3] / "shared" / "measured" / "osu-mpi.csv"
SIZES = [2**power for power in range(23)]
PLANTED = HostParameters(
    eager_bytes=8192,
    adapter_latency_ns=410.0,
    adapter_gbps=150.0,
    overhead=(
        Overhead(from_bytes=0, ns=220.0, ns_per_byte=0.04),
        Overhead(from_bytes=8193, ns=900.0, ns_per_byte=0.01, latency_ns=700.0),
    ),
)


@pytest.fixture(scope="module")
def cluster():
    fabric = weft.fabric("leaf-spine:leaves=4,spines=4,hosts=4")
    return fabric, weft.route(fabric, "minhop")


def _figure(cluster, operation, size, window=64, **options):
    """Return the figure of osu_latency (ns) or osu_bw (Gb/s) between two machines."""
    builder = WorkloadBuilder(2)
    if operation == "latency":
        builder.rank(0).send(1, size).recv(1, size)
        builder.rank(1).recv(0, size).send(0, size)
    else:
        for _ in range(window):
            builder.isend(0, 1, size)
            builder.irecv(1, 0, size)
        builder.waitall([0, 1])
        builder.rank(1).send(0, 4, tag=1)
        builder.rank(0).recv(1, 4, tag=1)
    result = weft.simulate(*cluster, builder.build(), [0, 15], **options)
    if operation == "latency":
        return result.makespan_ns / 2
    return 8 * window * size / result.makespan_ns


def _rows(points):
    """Return a frame of measurements from operations, sizes and values."""
    rows = [
        {
            "operation": operation, "size_bytes": size, "program": "", "pairs": 1,
            "time_ns": value if operation == "latency" else None,
            "gbps": None if operation == "latency" else value,
        }
        for operation, size, value in points
    ]  # fmt: skip
    types = {name: MEASUREMENT_COLUMNS[name].dtype for name in ("time_ns", "gbps", "window")}
    return pl.DataFrame(rows, schema_overrides=types).with_columns(window=pl.lit(None, pl.Int64))


def _errors(result, operation):
    of = (result.rows["operation"] == operation).to_numpy()
    return np.abs(result.ratio[of] - 1)


def test_planted_parameters_are_recovered_from_runs_of_the_flow_level(cluster):
    random = np.random.default_rng(3)
    points = [
        (name, size, _figure(cluster, name, size, host_parameters=PLANTED) * random.normal(1, 0.01))
        for name in ("latency", "bandwidth")
        for size in SIZES
    ]
    result = fit(*cluster, _rows(points))
    found = result.parameters
    assert found.eager_bytes == 8192
    assert found.adapter_gbps == pytest.approx(150, rel=0.02)
    assert found.adapter_latency_ns == pytest.approx(410, rel=0.05)
    assert found.overhead[0].ns == pytest.approx(220, rel=0.05)
    assert found.overhead[0].ns_per_byte == pytest.approx(0.04, rel=0.1)
    assert found.overhead[1].from_bytes == 16384
    assert found.overhead[1].latency_ns == pytest.approx(700, rel=0.1)
    assert found.eager_bytes_interval == (8192, 16383)
    low, high = found.adapter_latency_ns_interval
    assert low < 410 < high
    assert all(np.median(_errors(result, name)) < 0.015 for name in ("latency", "bandwidth"))


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_the_model_of_the_fit_is_that_of_the_levels(cluster, level):
    """Fit exact times: what remains is the difference of model and level."""
    points = [
        (name, size, _figure(cluster, name, size, level=level, host_parameters=PLANTED))
        for name in ("latency", "bandwidth")
        for size in SIZES
    ]
    result = fit(*cluster, _rows(points))
    assert result.parameters.adapter_gbps == pytest.approx(150, rel=0.005)
    assert max(_errors(result, "latency").max(), _errors(result, "bandwidth").max()) < 0.03


@pytest.mark.parametrize(
    ("system", "fitted"), [("azure/cyclecloud", (32, 64)), ("on-premises/dane", (64,))]
)
def test_runs_on_128_machines_are_predicted_from_those_on_fewer(cluster, system, fitted):
    if not MEASURED.exists():
        pytest.skip("the measurements are not here")
    runs = read_measurements(MEASURED).frame.filter(pl.col("system") == system)
    parameters = fit(*cluster, runs.filter(pl.col("nodes").is_in(fitted))).parameters
    for level in ("flow", "packet"):
        for operation, value in (("latency", "time_ns"), ("bandwidth", "gbps")):
            rows = runs.filter((pl.col("nodes") == 128) & (pl.col("operation") == operation))
            got = [
                _figure(cluster, operation, size, level=level, host_parameters=parameters)
                for size in rows["size_bytes"]
            ]
            error = np.abs(np.array(got) / rows[value].to_numpy() - 1)
            assert np.median(error) < 0.04
            assert np.quantile(error, 0.9) < 0.15


@pytest.mark.skipif(not MEASURED.exists(), reason="needs measured figures")
def test_processors_do_not_take_the_time_of_the_wire():
    """A search from the rate of cables alone ends with twice the time of large messages."""
    fabric = weft.fabric("leaf-spine:leaves=4,spines=4,cables=4,hosts=16,rate=200")
    rows = read_measurements(MEASURED).frame.filter(system="on-premises/dane", nodes=64)
    hardware = weft.Hardware(switch_latency_ns=110)
    found = fit(fabric, weft.route(fabric, "minhop"), rows, hardware=hardware)
    assert found.parameters.adapter_gbps == pytest.approx(139, rel=0.02)
    assert np.abs(found.ratio - 1).max() < 0.5


def test_latencies_alone_do_not_tell_overhead_from_latency(cluster):
    points = [("latency", s, _figure(cluster, "latency", s, overhead_ns=150)) for s in SIZES[:12]]
    result = fit(*cluster, _rows(points))
    assert any("overhead apart from latency" in text for text in result.missing)
    assert any("eager threshold" in text for text in result.missing)
    with pytest.raises(InputError, match="latencies of four sizes"):
        fit(*cluster, _rows(points[:3]))


def test_a_file_says_the_same_as_its_parameters(cluster, tmp_path):
    path = tmp_path / "hosts.toml"
    PLANTED.write(path, ["Of a test."])
    assert read_host_parameters(path) == PLANTED
    assert path.read_text().startswith("# Of a test.\neager_bytes = 8192\n")
    run = _figure(cluster, "latency", 4096, host_parameters=str(path))
    assert run == _figure(cluster, "latency", 4096, host_parameters=PLANTED)


def test_given_settings_override_the_file(cluster):
    def latency(size, **options):
        return _figure(cluster, "latency", size, **options)

    given = {"host_parameters": PLANTED}
    plain = HostParameters(adapter_latency_ns=410.0, adapter_gbps=150.0)
    assert latency(64, **given, overhead_ns=0) == latency(64, host_parameters=plain)
    two_ways = latency(8, **given, eager_bytes=0) - latency(8, **given)
    way = latency(0, host_parameters=plain)
    assert two_ways == pytest.approx(2 * way, rel=0.02)
    hardware = weft.Hardware(adapter_latency_ns=1000.0)
    assert latency(8, **given, hardware=hardware) - latency(8, **given) == pytest.approx(1180)
    assert latency(16384, **given) - latency(8192, **given) > 2 * 680 + 700 + 2 * way


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eager_bytes = 1\nlatency = 3\n", ":2: unknown key 'latency'"),
        ("adapter_gbps = 0\n", ":1: adapter_gbps: 0 does not fit: .*greater than 0"),
        ("[[overhead]]\nfrom_bytes = 8\nns = 1\n", "from_bytes must ascend from 0"),
        (
            "[[overhead]]\nfrom_bytes = 0\nns = -1\n",
            ":3: overhead 1, ns: -1 does not fit",
        ),
        ("eager_bytes = \n", ":1: is not valid TOML"),
    ],
)
def test_wrong_files_are_refused(tmp_path, text, message):
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_host_parameters(path)


@pytest.mark.parametrize("level", ["flow", "packet"])
def test_the_rate_of_adapters_is_not_that_of_the_scale_up_network(level):
    fabric = weft.fabric("xgft:2;2,16;1,4,rate=NDR", node="dgx-h100")
    routes = weft.route(fabric, "minhop")
    near, far = fabric.machines[next(iter(fabric.machines))][1], fabric.num_hosts - 1
    known = HostParameters(adapter_gbps=80.0)

    def time_ns(other, **options):
        builder = WorkloadBuilder(2)
        builder.put(0, 1, 2**24)
        return weft.simulate(
            fabric, routes, builder.build(), [0, other], level=level, **options
        ).makespan_ns

    assert time_ns(near, host_parameters=known) == time_ns(near)
    assert time_ns(far, host_parameters=known) == pytest.approx(2**24 * 8 / 80, rel=0.02)
