"""Mistakes in files of studies: one error with file, line and what was expected, before any run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weft.cli import main
from weft.core.errors import InputError
from weft.study.experiment import read_experiment
from weft.study.spec import study_of

FILE = """\
engine = ["dmodk", "minhop"]
level = "packet"
eager = "16KiB"
ports = "first"
[fabric]
format = "ibsim"
[hardware]
mtu = "$mtu"
[[job]]
name = "a"
workload = "alltoall:size=1KiB"
[[job]]
name = "b"
ranks = 4
placement = ["random", "linear"]
workload = "$what"
[study]
seeds = 2
baseline = { engine = "dmodk" }
measures = ["makespan_ns"]
tables = "links"
run_seconds = 60
run_memory = "2GiB"
[study.product]
fabric.source = { small = "small.net", tall = "tall.net" }
faults.random_cables = [
  0,
  1,
]
job.a.placement = ["linear", "random"]
"$mtu" = ["2KiB", "4KiB"]
[[study.zip]]
"hardware.header" = [ 30, 40 ]
"$what" = ["barrier", "bcast:size=8"]
[[study.exclude]]
engine = "minhop"
faults.random_cables = 1
"""

MISTAKES = [
    # Keys.
    ("engine = [", "enginee = [", 1, "unknown key 'enginee'.*did you mean 'engine'.*expected one"),
    ("ranks = 4", "rank = 4", 14, "job 2: unknown key 'rank' .did you mean 'ranks'"),
    ("seeds = 2", "sseds = 2", 18, "study: unknown key 'sseds' .did you mean 'seeds'"),
    ("faults.random", "fault.random", 26, "unknown key 'fault' .did you mean 'faults'"),
    ("faults.random_cables = [", "faults.random_cabels = [", 26, "did you mean 'random_cables'"),
    ("job.a.placement", "job.a.placment", 30, "unknown key 'placment' .did you mean 'placement'"),
    ("job.a.placement", "job.c.placement", 30, "job.c.placement: expected job.NAME.KEY.*a, b"),
    ("job.a.placement", "job.placement", 30, "expected job.NAME.KEY with one of the names a, b"),
    ("job.a.placement", "placement", 30, r"placement is a key of \[\[job\]\]; expected job.NAME"),
    ('"hardware.header"', '"hardware.heder"', 33, "unknown key 'heder' .did you mean 'header'"),
    ("[study.zip]]", "[study.zipp]]", 32, "unknown key 'zipp' .did you mean 'zip'"),
    ('"$mtu" = [', '"$m-u" = [', 31, "no name of a variable; expected .name"),
    ("engine = [", 'command = "simulat"\nengine = [', 1, "did you mean 'simulate'"),
    ("ports = ", "output.folder = 'x'\nports = ", 4, "output is not a key of a study"),
    # Types, ranges and units.
    ('eager = "16KiB"', 'eager = "16 KiX"', 3, "eager: '16 KiX' .* is not a size; expected bytes"),
    ('eager = "16KiB"', "eager = -1", 3, "eager: -1 does not fit"),
    ('eager = "16KiB"', "eager = true", 3, "eager: True does not fit: expected a number"),
    ('ports = "first"', 'ports = "frist"', 4, "'frist' does not fit.*did you mean 'first'"),
    ("ranks = 4", "ranks = 0", 14, "job 2, ranks: 0 does not fit: expected 1 or more"),
    ("ranks = 4", "ranks = [4]", 14, "job 2, ranks.*expected a whole number"),
    ("  1,\n]", "  -1,\n]", 28, "faults, random_cables: -1 does not fit: expected 0 or more"),
    ("  1,\n]", '  "x",\n]', 28, "random_cables: 'x' does not fit: expected a whole number"),
    ('["2KiB", "4KiB"]', '["2KiB", "4ns"]', 8, "hardware, mtu: '4ns' does not fit"),
    ("[ 30, 40 ]", "[ 30,\n -40 ]", 34, "hardware, header: -40 does not fit"),
    ("seeds = 2", "seeds = 0", 18, "seeds: 0 does not fit: expected a number of seeds from 1"),
    ("seeds = 2", "seeds = [1, 1]", 18, "seeds.*expected different seeds"),
    ("seeds = 2", "seeds = [0, -1]", 18, "seeds.*-1 does not fit: expected 0 or more"),
    ("run_seconds = 60", "run_seconds = 0", 22, "run_seconds: 0 does not fit.*greater than 0"),
    ('"2GiB"', '"2GHz"', 23, "run_memory: '2GHz' does not fit"),
    ('"packet"', '"paket"', 2, "level.*'paket' does not fit.*did you mean 'packet'"),
    # Lists.
    ("[\n  0,\n  1,\n]", "[]", 26, "faults.random_cables: the list is empty"),
    ("[\n  0,\n  1,\n]", "1", 26, "faults.random_cables: expected a list of values, not 1"),
    ("[\n  0,\n  1,\n]", "[\n  0,\n  0,\n]", 28, "faults.random_cables: 0 is listed twice"),
    ("[\n  0,\n  1,\n]", "[0, inf]", 26, "expected finite numbers"),
    ('["dmodk", "minhop"]', '["dmodk", "dmodk"]', 1, "engine: 'dmodk' is listed twice"),
    ('["random", "linear"]', '["linear", "linear"]', 15, "placement: 'linear' is listed twice"),
    ('["dmodk", "minhop"]', "[]", 1, "engine: .* does not fit"),
    ('["barrier", "bcast:size=8"]', '["barrier"]', 32, "zip 1: expected lists of one length; "
     "hardware.header has 2 values, what has 1"),
    ('"hardware.header" = [ 30, 40 ]\n"$what" = ["barrier", "bcast:size=8"]',
     '"hardware.header" = [ 30, 30 ]\n"$what" = ["barrier", "barrier"]', 33,
     "hardware.header, what: 30, barrier is listed twice"),
    ('"hardware.header"', '"faults.random_cables"', 33, "faults.random_cables varies twice"),
    ('"hardware.header"', '"hardware.mtu"', 33, "hardware.mtu: is given twice"),
    # Variables.
    ('"$mtu" = [', '"$nut" = [', 8, "unknown variable .mtu in '.mtu'; expected one of .nut, .what"),
    ('"$mtu" = [', '"$n" = [', 31, ".n: the tables of results have a column n of.*another name"),
    ('"$mtu" = [', '"$messages" = [', 31, "a column messages of their own"),
    ('"$what"\n', '"barrier"\n', 34, "the variable .what is not used in any value"),
    ('["2KiB", "4KiB"]', '["$what", "4KiB"]', 8, "hardware, mtu: 'barrier' does not fit"),
    ('["barrier", "bcast:size=8"]', '["$what", "x"]', 34, "in a cycle: .what -> .what"),
    ('["2KiB", "4KiB"]', '["2KiB", ["4KiB"]]', 31, ".mtu: expected texts and numbers"),
    # Names.
    ('["dmodk", "minhop"]', '["dmodk",\n "minhopp"]', 2, "'minhopp' .did you mean 'minhop'"),
    ('"minhop"]', '"minhop:x=1"]', 1, "'minhop' has no option 'x'"),
    ('"linear", "random"]\n"', '"linear",\n"randm"]\n"', 31, "'randm' .did you mean 'random'"),
    ('"alltoall:size=1KiB"', '"altoall:size=1KiB"', 11, "did you mean 'alltoall'"),
    ('"alltoall:size=1KiB"', '"alltoall"', 11, "alltoall needs size"),
    ('"alltoall:size=1KiB"', '"alltoall:size=1GHz"', 11, "size: '1GHz' does not fit"),
    ('"bcast:size=8"]', '\n"bcast:sise=8"]', 16, "size"),
    ('"small.net"', '"smal.net"', 25, "source: there is no file 'smal.net'"),
    ('format = "ibsim"', 'format = "ibsimm"', 6, "unknown .*'ibsimm' .did you mean 'ibsim'"),
    ('"random", "linear"]', '"random", "file:nowhere.txt"]', 15, "nowhere.txt"),
    ("ports =", 'policy = "ecpm"\nports =', 4, "'ecpm' .did you mean 'ecmp'"),
    ("ports =", "tolerance = 0.1\nports =", 4, "tolerance requires level flow, which no run has"),
    # Parts of the study.
    ('engine = "dmodk" }', 'engine = "dmodc" }', 19, "engine has no value 'dmodc'.*'dmodk'"),
    ("{ engine =", "{ engin =", 19, "baseline: nothing called 'engin' varies.*'engine'"),
    ('engine = "dmodk" }', 'level = "packet" }', 19, "nothing called 'level' varies"),
    ('engine = "minhop"\nf', 'engine = "minhup"\nf', 36, "exclude 1: engine has no value 'minhup'"),
    ("cables = 1\n", "cables = 3\n", 37, "exclude 1: faults.random_cables has no value '3'"),
    ('engine = "minhop"\nfaults', 'engin = "*"\nfaults', 36, "exclude 1: nothing called 'engin'"),
    ('engine = "minhop"\nfaults.random_cables = 1', 'engine = "*"', 35, "everything is excluded"),
    ('"makespan_ns"]', '\n"makespan"]', 21, "'makespan' .did you mean 'makespan_ns'"),
    ('tables = "links"', 'tables = ["links", "link"]', 21, "unknown table 'link'"),
    # Lists in place of one value, and options of one spec.
    ('ports = "first"', 'ports = ["first", "all"]', 4, "several values of ports are listed"),
    ('["dmodk", "minhop"]', '"updn:roots=a,nue:lmc=1"', 1, "'nue:lmc=1' follows the options"),
]  # fmt: skip


def read(folder: Path, text: str) -> int:
    for name in ("small.net", "tall.net"):
        (folder / name).write_text("")
    return len(study_of(text, folder / "many.toml").runs())


def test_the_file_itself_is_right(tmp_path: Path) -> None:
    assert read(tmp_path, FILE) == 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 3 // 4


@pytest.mark.parametrize(
    ("old", "new", "line", "message"), MISTAKES, ids=[f"{each[2]}-{each[3]}" for each in MISTAKES]
)
def test_mistakes_are_named_with_their_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    assert old in FILE
    with pytest.raises(InputError) as error:
        read(tmp_path, FILE.replace(old, new, 1))
    text = str(error.value)
    assert text.startswith(f"{tmp_path / 'many.toml'}:{line}: "), text
    assert re.search(message, text), text
    assert "\n" not in text


def test_weft_simulate_names_the_command_for_a_study(tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text(FILE)
    with pytest.raises(InputError, match=r"many.toml:17: describes a study: 'weft study' runs it"):
        read_experiment(tmp_path / "many.toml")


def test_a_wrong_file_leaves_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('fabric = "xgft:2;2,2;1,2"\nengine = "minhob"\n[[job]]\nworkload = "barrier"\n')
    assert main(["study", str(path)]) == 2
    assert f"{path}:2: unknown routing engine 'minhob'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", ["hello", "1:-2", "0"])
def test_a_wrong_setting_of_a_command_is_named_with_its_line(tmp_path: Path, size: str) -> None:
    text = (
        f'command = "flits"\nfabric = "torus:4x4"\nrouting = "dor"\nload = 0.1\nsize = "{size}"\n'
    )
    with pytest.raises(InputError, match=r"many.toml:5: size: "):
        study_of(text + "[study]\n", tmp_path / "many.toml").runs()
