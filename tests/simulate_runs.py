"""Runs of `weft simulate` for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.cli import main

TREE = "xgft:2;4,4;1,4"
MAIN = "from weft.cli import main; raise SystemExit(main())"
#: The command with progress lines far more frequent than by default.
TOLD = f"import weft.cli.simulate as command; command.LINE_S = 0.1; {MAIN}"
RING = "allreduce:size=64KiB,algorithm=ring"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main(["simulate", *map(str, words)])
    out, err = capsys.readouterr()
    # Messages about compilation, which only the first run on a machine prints, are removed.
    lines = err.splitlines(keepends=True)
    compiling = ("weft: compiling ",)
    return status, out, "".join(line for line in lines if not line.startswith(compiling))


def experiment(folder: Path, text: str) -> Path:
    path = folder / "x.toml"
    path.write_text(text)
    return path


TWO_JOBS = f"""
fabric = "{TREE}"
engine = "dmodk"
[[job]]
name = "train"
workload = "{RING}"
ranks = 6
start = "50us"
[[job]]
name = "shuffle"
workload = "alltoall:size=4KiB"
ranks = 8
placement = "random:seed=1"
"""
