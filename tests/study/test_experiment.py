"""Experiment files: contents, errors, and files written back."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from weft.core.errors import InputError
from weft.study.experiment import check, read_experiment, resolved
from weft.study.experiment.spec import MAX_RUNS

WHOLE = """\
fabric = "torus:4x4"
engine = ["updn", "dor"]
eager = "8KiB"

[faults]
slow = { "s0.0[1]" = "1xHDR" }

[[job]]
workload = "allreduce:size=1MiB"
start = "10us"

[[job]]
name = "b"
workload = "alltoall:size=64"
placement = ["linear", "random"]
"""


JOB = {"workload": "barrier"}


def write(folder: Path, text: str) -> Path:
    path = folder / "x.toml"
    path.write_text(text)
    return path


def test_texts_lists_and_units_are_read(tmp_path) -> None:
    experiment = read_experiment(write(tmp_path, WHOLE))
    assert experiment.fabric.source == "torus:4x4"
    assert experiment.engine == ("updn", "dor")
    assert experiment.eager == 8192
    assert experiment.faults.slow == {"s0.0[1]": "1xHDR"}
    first, second = experiment.job
    assert (first.name, first.start, first.placement) == ("job1", 10_000.0, ("linear",))
    assert (second.name, second.ranks, second.placement) == ("b", None, ("linear", "random"))


def test_every_combination_is_a_run(tmp_path) -> None:
    text = WHOLE.replace(
        'eager = "8KiB"', 'level = ["static", "flow"]\nsharing = ["none", "maxmin"]'
    )
    runs = read_experiment(write(tmp_path, text)).runs
    # The sharing model applies at the flow level only: 2 placements x 2 engines x (1 + 2).
    assert [run.number for run in runs] == list(range(1, 13))
    assert len({(r.engine, r.level, r.sharing, r.jobs) for r in runs}) == 12
    assert [(r.level, r.sharing) for r in runs[:3]] == [
        ("static", None), ("flow", "none"), ("flow", "maxmin"),
    ]  # fmt: skip
    assert runs[0].workloads == "allreduce:size=1MiB + alltoall:size=64"
    assert (runs[0].placements, runs[6].placements) == ("linear", "linear + random")


def test_values_listed_twice_run_once() -> None:
    data = {"fabric": "x", "engine": ["updn", "updn"], "job": [{"workload": ["a", "a", "b"]}]}
    assert len(check(data).runs) == 3
    data |= {"engine": "minhop", "level": "packet", "policy": ["nrk", "spray", "spray"]}
    assert [run.policy for run in check(data).runs] == 3 * ["nrk", "spray"]
    many = {
        "fabric": "x",
        "engine": [str(n) for n in range(1001)],
        "job": [{"workload": [str(n) for n in range(MAX_RUNS // 1000)], "placement": ["p"]}],
    }
    with pytest.raises(
        InputError, match=r"the lists combine to 1,001,000 runs; expected at most 1,000,000"
    ):
        _ = check(many).runs


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("engine =", "engin =", r"x\.toml:2: unknown key 'engin' \(did you mean 'engine'\?\)"),
        ("[[job]]", "[[jobs]]", r"x\.toml:8: unknown key 'jobs' \(did you mean 'job'\?\)"),
        ("slow", "random_cable = 1\nslow", r"x\.toml:6: faults: unknown key 'random_cable' \(did"),
        ('name = "b"', "plc = 1", r"x\.toml:13: job 2: unknown key 'plc'.*one of name, work"),
        ('workload = "alltoall:size=64"\n', "", r"x\.toml:12: job 2: the key 'workload' is miss"),
        ('fabric = "torus:4x4"\n', "", r"x\.toml: the key 'fabric' is missing"),
        ('"torus:4x4"', "3", r"x\.toml:1: fabric: 3 does not fit: expected a spec, a file, or a"),
        ('"torus:4x4"', '{ sorce = "x" }', r"x\.toml:1: fabric: unknown key 'sorce'"),
        ('"10us"', '"soon"', r"x\.toml:10: job 1, start: 'soon' does not fit: 'soon' is not a du"),
        ('"10us"', "-1", r"x\.toml:10: job 1, start: -1 does not fit"),
        ('"8KiB"', '"8KiX"', r"x\.toml:3: eager: '8KiX' does not fit: .* is not a size"),
        ('"8KiB"', "-1", r"x\.toml:3: eager: -1 does not fit"),
        ('eager = "8KiB"', "level = 'flo'", r"x\.toml:3: level.*'flo'.*did you mean 'flow'"),
        ('eager = "8KiB"', "sharing = ['maxmun']", r":3: sharing 1.*did you mean 'maxmin'"),
        ('eager = "8KiB"', "tolerance = 1.0", r":3: tolerance: 1\.0 does not fit: .* less than 1"),
        ('eager = "8KiB"', "tolerance = true", r":3: tolerance: True does not fit: expected a num"),
        ('eager = "8KiB"', "handshake = 1", r":3: handshake: 1 does not fit: expected true or"),
        ('eager = "8KiB"', "overlap = 'shared'", r":3: overlap.*did you mean 'share'"),
        ('eager = "8KiB"', "eager = 1979-05-27", r":3: eager: .* expected a number, or text with"),
        ('eager = "8KiB"', "latency = [1]", r":3: latency: \[1\] does not fit: expected a number,"),
        ('{ "s0.0[1]" = "1xHDR" }', '{ "s0.0[1]" = 3 }', r":6: faults, slow, s0\.0\[1\]: 3 does"),
        ('{ "s0.0[1]" = "1xHDR" }', "3", r":6: faults, slow: 3 does not fit: .* a table$"),
        (
            'name = "b"',
            "options = { ranks = 3 }",
            r":13: job 2, options: .* ranks is not an option of a",
        ),
        ('name = "b"', "options = { x = [[3]] }", r":13: job 2, options, x: "),
        ('eager = "8KiB"', "engine = 'x'", r"x\.toml:3: is not valid TOML: Cannot overwrite"),
        ('eager = "8KiB"', "eager = ", r"x\.toml:3: is not valid TOML: Invalid value"),
        (
            '["linear", "random"]',
            "[]",
            r":15: job 2, placement: \(\) .*at least 1|:15: job 2, plac",
        ),
        ('["linear", "random"]', "3", r":15: job 2, placement: 3 does not fit: .* text or a list"),
        (
            '["linear", "random"]',
            "'linear'\nranks = 0",
            r":16: job 2, ranks: 0 .* expected 1 or more",
        ),
        ('["linear", "random"]', "'linear'\nranks = true", r":16: job 2, ranks: True"),
        ('["linear", "random"]', "'linear'\nranks = 2.5", r":16: job 2, ranks: 2\.5"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path, old, new, message) -> None:
    assert WHOLE.count(old) >= 1
    path = write(tmp_path, WHOLE.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_experiment(path)


def test_mistakes_are_counted_once(tmp_path) -> None:
    for text, message in (
        ("[job]\nworkload = 'x'", r"x\.toml:2: job: .* expected \[\[job\]\], once for each job$"),
        ("job = [3]", r"x\.toml:2: job 1: 3 does not fit: expected a table$"),
        ("[[job]]\nworkload = 'barrier'\noptions = [1]", "options: .* expected NAME=VALUE"),
        ("[faults]\nslow = [1]\n[[job]]\nworkload = 'x'", r"slow: .* expected node\[port\]=RATE"),
        ("[[job]]\nworkload = 'x'\nranks = 0", r":4: job 1, ranks: 0 .* expected 1 or more$"),
        ("[[job]]\nworkload = 3\nranks = 0", r"job 1, workload: 3 .*; job 1, ranks: 0 .*$"),
    ):
        with pytest.raises(InputError, match=message):
            read_experiment(write(tmp_path, f"fabric = 'x'\n{text}\n"))


def test_files_beside_the_experiment_are_found(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    for name in ("net.topo", "names", "trace.goal", "ranks"):
        (folder / name).write_text("x")
    monkeypatch.chdir(tmp_path)
    text = """
        fabric = { source = "net.topo", names = "names" }
        [[job]]
        workload = ["trace.goal", "elsewhere.goal"]
        placement = ["file:ranks", "file:/ranks", "linear"]
    """
    experiment = read_experiment(write(folder, text))
    assert (experiment.fabric.source, experiment.fabric.names) == (
        str(folder / "net.topo"), str(folder / "names"),
    )  # fmt: skip
    assert experiment.job[0].workload == (str(folder / "trace.goal"), "elsewhere.goal")
    assert experiment.job[0].placement == (f"file:{folder / 'ranks'}", "file:/ranks", "linear")


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)


@settings(max_examples=examples(60))
@given(
    source=TEXT,
    engines=st.lists(TEXT, min_size=1, max_size=3),
    slow=st.dictionaries(TEXT, TEXT, max_size=2),
    workload=TEXT,
    name=TEXT,
    start=st.floats(0, 1e12),
    eager=st.integers(0, 2**50),
    handshake=st.booleans(),
    limit=st.none() | st.floats(1, 1e9),
)
def test_a_written_experiment_is_read_as_the_same(
    source, engines, slow, workload, name, start, eager, handshake, limit
) -> None:
    experiment = check(
        {
            "fabric": source,
            "engine": engines,
            "faults": {"slow": slow},
            "eager": eager,
            "handshake": handshake,
            "max_seconds": limit,
            "job": [{"name": name, "workload": workload, "start": start, "ranks": 3}],
        }
    )
    text = resolved(experiment)
    assert check(tomllib.loads(text)) == experiment


def test_errors_of_flags_name_the_flags() -> None:
    data = {"fabric": "x", "job": [{"workload": "y", "ranks_per_host": 0}]}
    with pytest.raises(InputError, match=r"^--ranks-per-host: 0 does not fit"):
        check(data, flags=True)


def test_defaults_are_those_of_simulate() -> None:
    import inspect

    from weft import simulate

    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(simulate).parameters.items()
    }
    levels = ["static", "flow", "packet", "flit"]
    experiment = check({"fabric": "x", "level": levels, "job": [{"workload": "y"}]})
    options_of = {run.level: experiment.options(run) for run in experiment.runs}
    for level, options in options_of.items():
        usual = {name: defaults[name] for name in options}
        if level in ("packet", "flit"):  # the default policy depends on the routes
            usual["policy"] = "deterministic"
        assert options == usual
    missing = defaults.keys() - set().union(*options_of.values())
    assert missing == {
        "fabric", "routes", "workload", "placement", "level", "coefficients", "trace", "progress",
        "expected",
    }  # fmt: skip
    assert options_of["static"] == {"ports": "first"}


def test_a_copy_with_other_keys_has_its_own_runs() -> None:
    both = check({"fabric": "torus:4x4", "level": ["flow", "static"], "job": [JOB]})
    assert [run.level for run in both.runs] == ["flow", "static"]
    assert [run.level for run in both.model_copy(update={"level": ("flow",)}).runs] == ["flow"]
