from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from weft.core.errors import InputError, PluginWarning
from weft.core.registry import Registry, did_you_mean


def registry(monkeypatch: pytest.MonkeyPatch, *points: object) -> Registry:
    """Return a registry with these entry points, of a package that itself registers nothing."""
    monkeypatch.setattr("weft.core.registry.entry_points", lambda group: points)
    return Registry("thing", "weft.workload", "weft.things", ("fabric",), ("form",))


def test_entry_points_of_other_distributions_register_plugins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load() -> None:
        @things("theirs", aliases=("t",), positional=("size",), form="")
        def theirs(fabric: object, size: int, names: tuple[str, ...] = ()) -> object:
            """Their thing, in one line.

            More of it.
            """
            return fabric, size, names

    things = registry(monkeypatch, SimpleNamespace(load=load))
    assert things.names() == ["theirs"]
    entry, options = things.parse("t:3;names=ax1,b")
    assert entry.summary == "Their thing, in one line."
    assert list(entry.options) == ["size", "names"]
    assert things.bind(entry, options) == {"size": 3, "names": ("ax1", "b")}
    with pytest.raises(InputError, match="needs size"):
        things.bind(entry, {})
    with pytest.raises(InputError, match="does not fit"):
        things.bind(entry, {"size": "many"})
    with pytest.raises(InputError, match=r"no option 'name' \(did you mean 'names'\?\)"):
        things.bind(entry, {"size": 1, "name": "x"})


def no_library(things: Registry) -> None:
    raise ImportError("a library\nis missing")


def half_a_module(things: Registry) -> None:
    things("half", form="")(lambda: None)
    raise SystemExit(3)


def no_such_type(things: Registry) -> None:
    def odd(fabric: object, size: int) -> None:
        """A function whose annotation names an unknown type."""

    odd.__annotations__["size"] = "Missing"
    things("odd", form="")(odd)


def no_fact(things: Registry) -> None:
    things("bare", why="")(lambda: None)


@pytest.mark.parametrize(
    ("load", "name", "reason"),
    [
        (no_library, "theirs", "ImportError: a library is missing"),
        (half_a_module, "half", "SystemExit: 3"),
        (no_such_type, "odd", "NameError: name 'Missing' is not defined"),
        (no_fact, "bare", "TypeError: thing 'bare' lacks the fact 'form'"),
    ],
)
def test_a_broken_plugin_is_named_and_breaks_nothing_else(
    monkeypatch: pytest.MonkeyPatch, load: Callable[[Registry], None], name: str, reason: str
) -> None:
    def works() -> None:
        things("works", form="")(lambda: None)

    theirs = SimpleNamespace(name="other", version="1.2")
    broken = SimpleNamespace(
        load=lambda: load(things), name="theirs", value="their.module", dist=theirs
    )
    things = registry(monkeypatch, broken, SimpleNamespace(load=works))
    problem = f"plug-in 'theirs' of other 1.2 (their.module) cannot be loaded: {reason}"
    with pytest.warns(
        PluginWarning, match=re.escape(f"{problem}; everything else works")
    ) as warned:
        assert things.names() == ["works"]
    assert len(warned) == 1
    assert things.parse("works")[0].name == "works"
    for called in (name, "theirs"):
        with pytest.raises(InputError, match=re.escape(f"thing {called!r}: {problem}")):
            things[called]


def test_threads_wait_until_entry_points_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    began, released = threading.Event(), threading.Event()

    def load() -> None:
        began.set()
        released.wait(0.2)
        things("slow", form="")(lambda: None)

    things = registry(monkeypatch, SimpleNamespace(load=load))
    first = threading.Thread(target=things.names)
    first.start()
    began.wait()
    names = things.names()
    released.set()
    first.join()
    assert names == ["slow"]


def test_a_name_registered_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    things = registry(monkeypatch)
    things("one")(lambda: None)
    with pytest.raises(ValueError, match="registered twice"):
        things("other", aliases=("one",))(lambda: None)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("NODE-00017_HCA-1", "node00017 HCA-1"),  # not node00000 HCA-1, which is as similar
        ("node49999 HAC-1", "node49999 HCA-1"),
        ("nod49998", "node49998 HCA-1"),
        ("node", "node00000 HCA-1"),
        ("other", ""),
        ("", ""),
        (".", ""),
    ],
)
def test_the_most_similar_of_many_names_is_suggested(wrong: str, meant: str) -> None:
    names = [f"node{number:05d} HCA-1" for number in range(50_000)]
    assert did_you_mean(wrong, names) == (f" (did you mean {meant!r}?)" if meant else "")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "whole"),
    [("hdor", False), ("torus-2QoS", False), ("TORUS", True), ("os", True), ("a.b", True)],
)
def test_an_entry_needs_only_the_module_of_its_name(name: str, whole: bool) -> None:
    program = (
        "import sys; from weft.routing import engine;"
        f"print({name!r} in engine, 'weft.routing.engines.minhop' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == [str(not whole), str(whole)]


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("route kns:k=3,n=2 hdor", 110),
        ("simulate kns:k=3,n=2 --workload alltoall:size=1KiB --level packet", 254),
        ("study four.toml --workers 0 --store store", 329),
    ],
)
def test_a_command_imports_what_it_runs(tmp_path: Path, words: str, most: int) -> None:
    (tmp_path / "four.toml").write_text(
        'command = "simulate"\nfabric = "xgft:2;4,4;1,2"\nengine = ["minhop", "updn"]\n'
        'level = ["flow", "packet"]\n[[job]]\nworkload = "alltoall:size=1KiB"\n'
    )
    program = (
        f"import sys; from weft.cli import main; assert main({words.split()}) == 0;"
        "print(sum(name.startswith('weft') for name in sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert int(process.stdout.split()[-1]) <= most


def test_a_broken_extension_is_left_out_with_a_warning(tmp_path: Path) -> None:
    about = tmp_path / "theirs-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text("[weft.commands]\nlost = their_module:COMMAND\n")
    for words, stream in (("--help", "stderr"), ("doctor", "stdout")):
        process = subprocess.run(
            [sys.executable, "-m", "weft", words], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "300"},
        )  # fmt: skip
        problem = "plug-in 'lost' of theirs 1.2 (their_module:COMMAND) cannot be loaded"
        assert problem in getattr(process, stream)
