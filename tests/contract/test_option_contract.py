"""Every setting is declared once: Python, files, the command line and the reference agree."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import pytest

import weft
from weft.cli.app import commands, program
from weft.cli.common import FabricOptions
from weft.cli.listing import KINDS
from weft.cli.options import options_of
from weft.cli.simulate_options import RunOptions
from weft.core.errors import InputError
from weft.core.settings import Option, Settings, Truth, settings
from weft.core.units import Bytes
from weft.fabrics.faults import Faults
from weft.fabrics.load import Source
from weft.sim.flit.adapter import parse_adapter
from weft.sim.flit.router import parse_router
from weft.sim.flit.traffic import Load
from weft.sim.options import RunSettings
from weft.sim.packet.hardware import hardware_of, parse_hardware
from weft.sim.sweep.settings import OWN, TrafficSettings
from weft.study.experiment import check
from weft.study.experiment.spec import (
    AdapterPart,
    Experiment,
    HardwarePart,
    RouterPart,
    table_model,
)

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
from reference import TABLES, pages  # noqa: E402  (docs/reference.py)

JOB = {"job": [{"workload": "barrier"}]}
#: Tables whose settings are not options of `weft simulate`, or are part of `--hardware`.
NOT_OF_SIMULATE = (
    "Hardware",
    "Routers",
    "Adapters",
    "Traffic",
    "Traffic in cycles",
    "Machine rooms",
    "I/O nodes",
)
#: Commands that read a fabric and accept faults.
OF_FABRICS = (
    "check",
    "compare",
    "convert",
    "cost",
    "flits",
    "info",
    "place-io",
    "route",
    "simulate",
    "sweep",
)


def words_of(command: str) -> set[str]:
    """Return the names of a command's options."""
    arguments = program([command])[command].assemble_argument_collection()
    taken = [each for each in arguments if each.parse]
    names = {name for each in taken for name in each.names if name[:2] == "--"}
    return names - {name for each in taken for name in each.negatives}


def flags(*kinds: type) -> set[str]:
    return {item.flag for kind in kinds for item in settings(kind) if item.flag}


def test_the_reference_has_everything_registered_and_every_command() -> None:
    written = pages()
    for kind, registry in KINDS.items():
        for entry in registry:
            assert f"\n## {entry.name}\n" in written[kind]
            section = written[kind].partition(f"\n## {entry.name}\n")[2].partition("\n## ")[0]
            rows = [line for line in section.splitlines() if line.startswith("| `")]
            for option in entry.options:
                assert any(re.search(rf"[`, ]{option}[`=,]", row) for row in rows), (entry, option)
    assert all(f"## weft {command}\n" in written["commands"] for command in commands())
    assert all(f"   {name}\n" in written["api"] for name in weft.__all__)
    assert "`makespan_ns`" in written["columns"]


def test_every_setting_has_a_description() -> None:
    for _, (_, _, items) in TABLES.items():
        assert not [item.key for item in items if not item.help]


def test_simulate_accepts_its_settings_everywhere() -> None:
    fields_of = {item.field for item in settings(RunSettings)}
    takes = set(inspect.signature(weft.simulate).parameters)
    assert takes - fields_of == {
        "fabric", "routes", "workload", "placement", "level", "progress",
        "expected",
    }  # fmt: skip
    assert fields_of <= takes
    assert {item.key for item in settings(RunSettings)} <= set(Experiment.model_fields)
    # The command has no further options, and the page leaves none out.
    tables = (items for title, (_, _, items) in TABLES.items() if title not in NOT_OF_SIMULATE)
    listed = {item.flag for items in tables for item in items if item.flag}
    assert words_of("simulate") == listed | {
        "--progress", "--engines", "--policies", "--routings", "--dry-run",
    }  # fmt: skip


def test_sweeps_accept_the_settings_of_runs() -> None:
    runs = {item.flag for item in settings(RunSettings) if item.field not in OWN}
    assert runs | flags(TrafficSettings) <= words_of("sweep")
    for name in (item.field for item in settings(RunSettings) if item.field not in OWN):
        with pytest.raises(InputError, match=f"^{name}|has no {name}; the"):
            weft.sweep(weft.fabric("ring:4"), loads=(0.1,), level="flow", **{name: object()})


def test_synthetic_traffic_is_the_same_in_python_and_on_the_command_line() -> None:
    assert flags(Load) | {"--router"} <= words_of("flits")
    for name in ("drain", "latency", "policy", "routing", "processes", "loads"):
        assert name in inspect.signature(weft.sweep_flits).parameters
        assert f"--{name}" in words_of("flits")


@pytest.mark.parametrize("command", OF_FABRICS)
def test_commands_that_read_fabrics_accept_all_faults(command: str) -> None:
    own = {"--format", "--names"} if command == "convert" else set()
    assert flags(Faults) | flags(Source) - own <= words_of(command)


def test_faults_are_the_same_however_they_are_specified() -> None:
    expected = Faults(
        cables=("s1-0[5]",), switches=("s1-1",), slow={"s1-2[5]": "1xHDR"}, random_cables=1, seed=3
    )
    options = FabricOptions(
        fail_cable=("s1-0[5]",), fail_switch=("s1-1",), slow_cable=("s1-2[5]=1xHDR",),
        random_cables="1", fault_seed="3",
    )  # fmt: skip
    table = {
        "cables": ["s1-0[5]"], "switches": ["s1-1"], "slow": {"s1-2[5]": "1xHDR"},
        "random_cables": 1, "seed": 3,
    }  # fmt: skip
    assert options.build(Faults) == expected
    assert check({"fabric": "x", "faults": table, **JOB}).faults.instance == expected
    tree = weft.fabric("xgft:2;4,4;1,4", faults=expected)
    assert tree.num_cables == options.load("xgft:2;4,4;1,4").num_cables < 32


def test_hardware_is_the_same_however_it_is_specified() -> None:
    text = "quantum=64KiB,vlarb_low=0:4,1:8,high_limit=3,cc_threshold=9"
    keys = {"quantum": "64KiB", "vlarb_low": ["0:4", "1:8"], "high_limit": 3, "cc_threshold": 9}
    expected = weft.Hardware(
        quantum_bytes="64KiB",  # type: ignore[arg-type]
        vl_arbitration=weft.VlArbitration(low=((0, 4), (1, 8)), limit=3),
        congestion_control=weft.CongestionControl(threshold=9),
    )
    assert hardware_of(parse_hardware([text])) == expected == HardwarePart(**keys).instance
    assert {item.key for item in TABLES["Hardware"][2]} == set(HardwarePart.model_fields)
    kinds = (weft.Hardware, weft.VlArbitration, weft.CongestionControl)
    assert {item.field for item in TABLES["Hardware"][2]} == {
        field.name for kind in kinds for field in fields(kind)
    } - {"vl_arbitration"}


def test_routers_are_the_same_however_they_are_specified() -> None:
    expected = weft.Router(lanes=2, buffer=16, switching="cut-through", atomic=True)
    keys = {"lanes": 2, "buffer": 16, "switching": "cut-through", "atomic": True}
    words = parse_router(["lanes=2, buffer=16", "switching=cut-through,atomic=true"])
    assert weft.Router(**words) == expected == RouterPart(**keys).instance  # type: ignore[arg-type]
    _, run, _ = RunOptions(router=("lanes=2,buffer=16,switching=cut-through,atomic=true",)).keys()
    assert check({"fabric": "x", **run, **JOB}).router.instance == expected
    assert {item.key for item in TABLES["Routers"][2]} == set(RouterPart.model_fields)


def test_adapters_are_the_same_however_they_are_specified() -> None:
    expected = weft.Adapter(window=2, circuits=True, service=5)
    words = parse_adapter(["window=2, circuits=true", "service=5"])
    assert weft.Adapter(**words) == expected  # type: ignore[arg-type]
    _, run, _ = RunOptions(adapter=("window=2,circuits=true,service=5",)).keys()
    assert check({"fabric": "x", **run, **JOB}).adapter.instance == expected
    assert {item.key for item in TABLES["Adapters"][2]} == set(AdapterPart.model_fields)


@dataclass(frozen=True)
class More(Settings):
    """A class with two settings.

    Parameters
    ----------
    extra_bytes
        How many more.
    whole
        Whether all.
    """

    extra_bytes: Bytes = 3
    whole: Annotated[Truth, Option(flag="no_whole", means=False)] = True


def test_a_setting_needs_only_a_field() -> None:
    extra, _ = settings(More)
    assert (extra.key, extra.flag, extra.help) == ("extra", "--extra", "How many more.")
    options = options_of("MoreOptions", settings(More))(extra="4KiB", no_whole=True)
    given = {item.key: options.value(name) for name, item in options.items.items()}
    assert given == {"extra": "4KiB", "whole": False}
    part = table_model("MorePart", settings(More), lambda keys: keys)(**given)
    assert part.instance == {"extra": 4096, "whole": False}
    assert More(extra_bytes="4KiB", whole=False) == More(4096, False)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^extra_bytes: 'x' does not fit: 'x' is not a size"):
        More(extra_bytes="x")  # type: ignore[arg-type]


def test_errors_name_their_location() -> None:
    with pytest.raises(InputError, match=r"^--fault-seed requires --random-cables or --random-sw"):
        FabricOptions(fault_seed="1").build(Faults)
    with pytest.raises(InputError, match=r"^faults: .*seed requires random_cables"):
        check({"fabric": "x", "faults": {"seed": 1}, **JOB})
    with pytest.raises(InputError, match=r"^seed requires random_cables or random_switches"):
        Faults(seed=1)
    assert RunOptions(no_handshake=True).flags() == ["--no-handshake"]
