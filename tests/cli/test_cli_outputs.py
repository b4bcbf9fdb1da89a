"""Outputs that cannot be written are refused before any work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import weft
from weft.cli import main
from weft.cli.common import check_files, check_folder

TREE = "xgft:2;4,4;1,4"
GRAPHS = "graph,edge,source,destination,size_bytes,time_s\n1,a,0,1,1000,1e-6\n"
PACKETS = ("simulate", TREE, "--workload", "barrier", "--level", "packet")
FLITS = ("flits", TREE, "--routing", "nca-random")
SWEEP = ("sweep", TREE, "--loads", "0.1")

#: Commands with an option for a file, and the required suffix of its name.
FILES = [
    (("compare", TREE), "--report", ".html"),
    (("compare", TREE), "--table", ".csv"),
    (("convert", TREE), "--output", ".dot"),
    (("convert", TREE), "-o", ".dot"),
    (("convert", "barrier", "--ranks", "4"), "-o", ".goal"),
    (("check", TREE, TREE), "--out", ".csv"),
    (("cost", TREE), "--cables", ".csv"),
    (("place-io", TREE, "--io-nodes", "2"), "--table", ".csv"),
    (("keys", TREE, "--workload", "barrier"), "--out", ".keys"),
    (("keys", TREE, "--workload", "barrier"), "--report", ".html"),
    (("calibrate", "times.csv"), "--out", ".toml"),
    (("calibrate", "times.csv"), "--penalties", ".csv"),
    (PACKETS, "--html", ".html"),
    (FLITS, "--plot", ".svg"),
    (FLITS, "--output", ".parquet"),
    (FLITS, "--congestion-matrix", ".png"),
    (SWEEP, "--plot", ".svg"),
    (SWEEP, "--output", ".parquet"),
    (("trace", "format", "x.trace"), "-o", ".trace"),
    (("trace", "dense", "x.trace"), "-o", ".trace"),
]
#: Commands with an option for a folder.
FOLDERS = [
    (PACKETS, "--out"),
    (("opensm", "live", TREE), "--keep"),
    (("opensm", "export", TREE, "--engine", "dmodk"), "--out"),
    (("paper", "contention-model"), "--out"),
    (("keys", TREE, "--workload", "barrier"), "--export"),
]


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with input files of commands, and fail when a command begins its work."""

    def never(*given: object, **options: object) -> None:
        raise AssertionError("work has begun")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text(GRAPHS)
    (tmp_path / "x.trace").write_text("RANKS 1\nCALC 1ms\n")
    for name in (
        "weft.cli.common.load_fabric", "weft.cli.convert.load_workload",
        "weft_calibration.command.read_measurements", "weft.cli.simulate.perform",
        "weft.cli.trace.read_text", "weft.cli.trace.read_workload", "weft.cli.audit.audit",
        "weft_papers.contention.study._random_times",
    ):  # fmt: skip
        monkeypatch.setattr(name, never)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    there = sorted(Path().rglob("*"))
    status = main(words)
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert sorted(Path().rglob("*")) == there
    return line.removeprefix("weft: error: ")


@pytest.mark.parametrize(("words", "option", "end"), FILES)
def test_a_file_that_cannot_be_written_is_refused_before_any_work(
    capsys, idle: Path, words: tuple[str, ...], option: str, end: str
) -> None:
    (idle / f"folder{end}").mkdir()
    (idle / "file").write_text("")
    long = {"-o": "--output"}.get(option, option)
    for name, reason in (
        (f"none/x{end}", f"the folder {idle}/none does not exist"),
        (f"file/x{end}", f"{idle}/file is not a folder"),
        (f"folder{end}", "is a folder; expected a file to write"),
        (300 * "x" + end, "File name too long"),
    ):
        assert refused(capsys, *words, option, name) == f"{long} {name}: {reason}"


@pytest.mark.parametrize(("words", "option"), FOLDERS)
def test_a_folder_that_cannot_be_written_is_refused_before_any_work(
    capsys, idle: Path, words: tuple[str, ...], option: str
) -> None:
    (idle / "file").write_text("")
    assert "file" in (message := refused(capsys, *words, option, "file"))
    assert "folder" in message
    if option != "--export" and words[1] != "export":  # export does not create parent folders
        assert refused(capsys, *words, option, "file/in/it").endswith("/file is not a folder")


@pytest.mark.parametrize(
    ("words", "option", "name", "ends"),
    [
        (("compare", TREE), "--table", "x.xls", ".csv or .parquet"),
        (SWEEP, "--plot", "x.gif", ".png or .svg or .pdf"),
        (SWEEP, "--output", "x", ".csv or .parquet"),
    ],
)
def test_a_name_with_another_suffix_is_refused(
    capsys, idle: Path, words: tuple[str, ...], option: str, name: str, ends: str
) -> None:
    assert refused(capsys, *words, option, name) == (
        f"{option} {name}: expected a name that ends in {ends}"
    )


def test_a_name_with_an_unknown_suffix_is_refused_before_any_work(capsys, idle: Path) -> None:
    message = refused(capsys, "convert", TREE, "-o", "x.pdf")
    assert message.startswith("x.pdf: unknown file suffix; expected one of the formats dot (")


def test_two_outputs_cannot_be_one_file(capsys, idle: Path) -> None:
    words = ("calibrate", "times.csv", "--out", "x", "--penalties", "./x")
    assert (
        refused(capsys, *words) == "--penalties x: is also the file of --out; expected another file"
    )


def test_folders_that_may_not_be_written_to_are_refused(tmp_path: Path, monkeypatch) -> None:
    """The operating system is asked for the permission, as root may write anywhere."""
    checked = []

    def access(path: Path, mode: int) -> bool:
        checked.append(Path(path))
        return mode != os.W_OK | os.X_OK

    monkeypatch.setattr(os, "access", access)
    with pytest.raises(weft.InputError, match=f"^--a .*/x: no permission .* folder {tmp_path}"):
        check_files(("--a", tmp_path / "x", ()))
    with pytest.raises(
        weft.InputError, match=f"^--b .*: no permission to write to the folder {tmp_path}"
    ):
        check_folder("--b", tmp_path / "x" / "y")
    assert checked == [tmp_path, tmp_path]


def test_writable_outputs_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("")
    (tmp_path / "link.csv").symlink_to(tmp_path / "none" / "x.csv")
    check_files(
        ("--a", tmp_path / "old.csv", (".csv",)), ("--b", tmp_path / "NEW.CSV", (".csv",)),
        ("--c", "/dev/stdout", ()), ("--d", "/dev/null", ()), ("--e", None, (".csv",)),
    )  # fmt: skip
    check_folder("--f", tmp_path)
    check_folder("--f", tmp_path / "new" / "one")
    check_folder("--f", None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "old.csv"]
    with pytest.raises(weft.InputError, match="none does not exist"):
        check_files(("--g", tmp_path / "link.csv", ()))
