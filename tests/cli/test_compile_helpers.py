"""Helper processes that compile in parallel with a command, and end with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import PATIENCE_S

from weft.cli import compile_helpers as helpers


def test_every_core_but_one_has_a_helper_and_all_helpers_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):
        def __init__(self, words: list[str], **options: int):
            super().__init__(words, **options)
            started.append(self)

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(helpers.subprocess, "Popen", Noted)
    monkeypatch.setattr(helpers, "cores", lambda: 3)
    with pytest.raises(KeyboardInterrupt), helpers.compile_helpers("compare") as begin:  # noqa: PT012
        assert not started
        begin()
        begin()
        raise KeyboardInterrupt
    assert [each.args[-3:] for each in started] == [["compare", "0", "2"], ["compare", "1", "2"]]
    assert all(each.returncode is not None for each in started)
    monkeypatch.setattr(helpers, "cores", lambda: 1)
    with helpers.compile_helpers("compare") as begin:
        begin()
    assert len(started) == 2


def test_a_helper_ends_when_the_process_that_started_it_is_gone(tmp_path: Path) -> None:
    """A killed process closes its end of the pipe."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    helper = subprocess.Popen(
        [sys.executable, "-m", "weft.cli.warmup", "all", "0", "1"],
        env=environment, stdin=subprocess.PIPE,
    )  # fmt: skip
    with pytest.raises(subprocess.TimeoutExpired):
        helper.wait(2)
    assert helper.stdin is not None
    helper.stdin.close()
    assert helper.wait(PATIENCE_S) == 0


def test_a_helper_with_nothing_left_to_compile_exits_with_status_0() -> None:
    """The helper's other thread still waits for the pipe to close."""
    code = "from weft.cli import warmup; warmup.PARTS['all'] = lambda: iter(()); "
    code += "warmup.help_compile('all', 0, 1)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as helper:
        assert helper.wait(PATIENCE_S) == 0
