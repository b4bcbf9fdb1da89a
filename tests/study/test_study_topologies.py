"""Studies of `weft topologies`: their runs, seeds, and wrong keys."""

from pathlib import Path
from typing import Any

import pytest

from weft.fabrics.topology.sizing import machines_for
from weft.study.checks import Files, WrongKey
from weft.study.command_registry import study_command
from weft.study.commands.topologies import TopologyKeys, points
from weft.study.machines import MachineRun, describe_machine, engines_of
from weft.study.spec import study_of

HERE = Files(Path())


def keys(**more: Any) -> TopologyKeys:
    return TopologyKeys.model_validate({"hosts": 12, "radix": 8, "family": "torus", **more})


def test_every_machine_has_a_run_with_each_workload_and_a_search():
    found = points(
        keys(family=["torus", "hyperx"], workload=["shift", "barrier"], saturation="flow"), HERE
    )
    assert [tuple(each.axes.values()) for each in found] == [
        (machine, workload)
        for machine in ("hyperx", "torus")
        for workload in ("shift", "barrier", "saturation")
    ]
    assert "saturation" not in found[0].parameters
    assert found[2].parameters["saturation"] == "flow"
    assert "workload" not in found[2].parameters


def test_a_run_has_the_measures_of_the_command():
    (point,) = points(keys(workload="shift"), HERE)
    entry = study_command["topologies"]
    result = entry.function({**point.parameters, "tables": []}, lambda _: None)
    row = describe_machine(MachineRun(point.parameters["spec"], workload="shift"))
    assert result.measures["makespan_ns"] == row["makespan_ns"] > 0
    assert result.measures["switches"] == 9
    assert "cost" not in result.measures


def test_the_key_of_eager_messages_is_that_of_other_commands():
    text = 'command = "topologies"\nhosts = 12\nradix = 8\nfamily = "torus"\neager = "1MiB"\n'
    runs = study_of(text, "eager.toml").runs()
    assert [run.parameters["eager_bytes"] for run in runs] == [2**20] * 2


def test_a_repetition_has_another_random_topology():
    (point,) = points(keys(family="jellyfish", hosts=40, workload="shift"), HERE)
    seeded = study_command["topologies"].facts["seeded"]
    changed = seeded(point.parameters, {}, 7)
    assert changed["spec"].startswith("jellyfish:")
    assert "seed=7" in changed["spec"]
    assert "rate=4xNDR" in changed["spec"]
    assert changed["seed"] == 7


def test_a_repetition_has_another_random_workload_and_placement():
    text = 'command = "topologies"\nhosts = 12\nradix = 8\nfamily = "torus"\n'
    text += 'workload = ["random-permutation", "shift"]\nplacement = "random"\n'
    runs = study_of(text + "[study]\nseeds = [3, 5]\n", "many.toml").runs()
    assert [run.parameters["workload"] for run in runs] == [
        "random-permutation:seed=3", "shift", "random-permutation:seed=5", "shift",
    ]  # fmt: skip
    assert [run.parameters["placement"] for run in runs[::2]] == ["random:seed=3", "random:seed=5"]


def test_a_repetition_has_other_random_faults():
    text = 'command = "topologies"\nhosts = 12\nradix = 8\nfamily = "torus"\n'
    text += 'workload = "shift"\n[study]\nseeds = [3, 5]\n'
    text += '[study.product]\n"faults.random_cables" = [0, "5%"]\n'
    runs = study_of(text, "many.toml").runs()
    assert [run.parameters.get("faults") for run in runs] == [
        None, None, {"random_cables": "5%", "seed": 3}, {"random_cables": "5%", "seed": 5},
    ]  # fmt: skip
    assert {run.point["faults.random_cables"] for run in runs} == {"0", "5%"}


def test_the_rule_of_a_class_is_the_same_at_every_size():
    for routing, engines in (("static", ("dor", "dfsssp", "nue")), ("adaptive", ("ugal", "ecmp"))):
        for hosts in (500, 5000):
            (machine,) = machines_for(hosts, 64, "4xNDR", ["hyperx"])[0]
            assert engines_of(machine.spec, routing) == engines


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"rate": "fast"}, ("rate",)),
        ({"family": "tours"}, ("family",)),
        ({"family": "jellyfish", "hosts": 7}, ("hosts",)),
        ({"workload": ["shift", "allredcue"]}, ("workload", 1)),
        ({"workload": ["shift", "shift"]}, ("workload", 1)),
        ({"placement": "lineal"}, ("placement",)),
        ({"engine": "dmodkk"}, ("engine",)),
        ({"engine": "dor", "routing": "static"}, ("routing",)),
        ({"prices": "none.toml"}, ("prices",)),
        ({"faults": {"seed": 1}}, ("faults", "seed")),
    ],
)
def test_wrong_keys_are_named(more, path):
    with pytest.raises(WrongKey) as error:
        points(keys(**more), HERE)
    assert error.value.path == path
