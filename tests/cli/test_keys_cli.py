"""`weft keys`: tables, JSON and files, and errors for invalid input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.cli import main
from weft.report.key_page import render_keys
from weft.sim.keys.files import read_keys

TREE = "xgft:2;4,4;1,4"
FLOWS = "h0 h4\nh1 h8\n"


@pytest.fixture
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a file with the flows of the paper's example in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = Path("flows.txt")
    path.write_text(FLOWS)
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail and write nothing, and return its one line of error."""
    there = sorted(Path().rglob("*"))
    status = main(["keys", *words])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert sorted(Path().rglob("*")) == there
    (line,) = err.splitlines()
    return line.removeprefix("weft: error: ")


def test_the_example_of_the_paper(capsys, flows: Path) -> None:
    assert main(["keys", TREE, "--flows", str(flows), "--paths", "--out", "a.keys"]) == 0
    out, _ = capsys.readouterr()
    assert "A1: 0→4→1→DLID(4)\nA2: 0→5→2→DLID(8)\nWrote 1 key to a.keys." in out
    (key,) = read_keys(weft.fabric(TREE), Path("a.keys").read_text())
    assert key.lines() == ["A1: 0→4→1→DLID(4)", "A2: 0→5→2→DLID(8)"]


def test_a_page_is_written(capsys, flows: Path) -> None:
    assert main(["keys", TREE, "--flows", str(flows), "--report", "a.html"]) == 0
    assert capsys.readouterr().out.endswith("report: a.html\n")
    fabric = weft.fabric(TREE)
    assert Path("a.html").read_text() == render_keys(fabric, [weft.keys(fabric, [0, 1], [4, 8])])


def test_json_has_the_numbers_of_each_key(capsys, flows: Path) -> None:
    assert main(["keys", TREE, "--flows", str(flows), "--name", "B", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "keys": [
            {
                "name": "B", "flows": 2, "colours": 2, "worst": 1, "bound": 1, "contention": 1.0,
                "contention_bound": 1.0, "method": "exact",
            }
        ]
    }  # fmt: skip


def test_each_phase_of_a_workload_is_a_key(capsys) -> None:
    words = ("keys", TREE, "--workload", "cartesian", "--placement", "random:seed=1", "--json")
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)["keys"]
    assert len({key["name"] for key in found}) == len(found) == 6
    assert all(key["worst"] <= 1 for key in found)


def test_a_key_above_the_bound_gives_status_1(capsys, flows: Path) -> None:
    fabric = weft.fabric("xgft:2;6,6;1,6")
    for seed in range(100):
        ends = np.random.default_rng(seed).integers(0, 36, (2, 40))
        if weft.keys(fabric, *ends, method="greedy").worst > weft.keys(fabric, *ends).bound:
            break
    flows.write_text("".join(f"h{one} h{other}\n" for one, other in ends.T))
    command = ["keys", fabric.name, "--flows", str(flows), "--method"]
    assert (main([*command, "greedy"]), main([*command, "exact"])) == (1, 0)


def test_tables_for_opensm_are_written_with_the_keys(capsys, flows: Path) -> None:
    command = ["keys", TREE, "--flows", str(flows), "--export", "new"]
    assert main(command) == 0
    assert "Wrote new for OpenSM: LMC 1, 48 entries per switch" in capsys.readouterr().out
    assert "A2: 0→5→2→DLID(29) | h1 h8 | 6,3 | 1\n" in Path("new/keys.txt").read_text()
    assert main(command) == 0  # replaces what it wrote
    Path("other").mkdir()
    Path("other/thesis.tex").write_text("")
    capsys.readouterr()
    message = refused(capsys, *command[1:-1], "other")
    assert message.startswith("other: contains files that are not of an export, such as thesis.tex")
    assert main([*command[:-1], "other", "--overwrite"]) == 0
    assert not Path("other/thesis.tex").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("h0 h99", "flows.txt:3: no node 'h99' in xgft:2;4,4;1,4"),
        ("h0 s1-0", "flows.txt:3: s1-0 is not a host"),
        ("h0 h1 h2", "flows.txt:3: expected SOURCE DESTINATION, not 'h0 h1 h2'"),
    ],
)
def test_wrong_lines_of_flows_are_refused(capsys, flows: Path, line: str, message: str) -> None:
    flows.write_text(f"{FLOWS}{line}\n")
    assert refused(capsys, TREE, "--flows", str(flows)).startswith(message)


def test_tables_are_for_all_hosts_though_keys_are_for_some(capsys, flows: Path) -> None:
    flows.write_text("h8 h12\nh9 h13\n")
    words = ["keys", TREE, "--flows", str(flows), "--export"]
    assert main([*words, "all"]) == 0
    assert main([*words, "some", "--hosts", "h[8-15]"]) == 0
    for name in ("weft.lfts", "keys.txt", "guid2lid"):
        assert Path("some", name).read_text() == Path("all", name).read_text()


def test_wrong_options_are_refused(capsys, flows: Path) -> None:
    either = "expected one of --workload, --flows and --read"
    from_file = ("--flows", str(flows))
    assert refused(capsys, TREE) == either
    assert refused(capsys, TREE, *from_file, "--workload", "cartesian") == either
    assert refused(capsys, TREE, *from_file, "--ranks", "4").startswith("--ranks requires --work")
    phases = ("--workload", "cartesian")
    assert refused(capsys, TREE, *phases, "--name", "B").startswith("--name requires --flows")
    assert "0" in refused(capsys, TREE, *phases, "--ranks", "0")
    assert "--placement" in refused(capsys, TREE, *from_file, "--placement", "random")
    assert "--read has keys" in refused(capsys, TREE, "--read", "a.keys", "--seed", "1")
    assert refused(capsys, TREE, "--flows", "none.txt").startswith("none.txt: ")
    assert refused(capsys, TREE, *from_file, "--name", 'a"', "--out", "a.keys").startswith(
        "key 'a\"': expected a unique name"
    )
    flows.write_text("h0.0 h3.0\n")
    assert "connects two switches of level 1" in refused(capsys, "torus:4x4", *from_file)
    flows.write_text("# none\n")
    assert "there are no flows" in refused(capsys, TREE, *from_file)


def test_written_keys_are_read(capsys, flows: Path) -> None:
    assert main(["keys", TREE, "--flows", str(flows), "--name", "B", "--out", "a.keys"]) == 0
    capsys.readouterr()
    assert main(["keys", TREE, "--read", "a.keys", "--paths", "--export", "new"]) == 0
    assert "B1: 0→4→1→DLID(4)\nB2: 0→5→2→DLID(8)\nWrote new for" in capsys.readouterr().out
    Path("a.keys").write_text("B1: 0→4→1→DLID(4) | h0 h4 | 5,9 | 0\n")
    assert refused(capsys, TREE, "--read", "a.keys").startswith("a.keys:1: expected key")


def test_more_lids_than_an_lmc_gives_are_refused(capsys, flows: Path) -> None:
    """Each flow to the last host takes another spine, and thus needs another LID."""
    flows.write_text("".join(f"h0.{host} h1.129\n" for host in range(130)))
    words = ("leaf-spine:leaves=2,spines=130,hosts=130", "--flows", str(flows), "--export", "new")
    assert "the paths of keys to h1.129 need more than 128 LIDs" in refused(capsys, *words)
