from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from weft.core.errors import InputError, PluginWarning
from weft.core.registry import Registry, did_you_mean


def registry(monkeypatch: pytest.MonkeyPatch, *points: object) -> Registry:
    """A registry over a package that registers nothing in it, and these entry points."""
    monkeypatch.setattr("weft.core.registry.entry_points", lambda group: points)
    return Registry("thing", "weft.workload", "weft.things", ("fabric",), ("form",))


def test_other_distributions_announce_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        @made("theirs", aliases=("t",), positional=("size",), form="")
        def theirs(fabric: object, size: int, names: tuple[str, ...] = ()) -> object:
            """Their thing, in one line.

            More of it.
            """
            return fabric, size, names

    made = registry(monkeypatch, SimpleNamespace(load=load))
    assert made.names() == ["theirs"]
    entry, given = made.parse("t:3;names=ax1,b")
    assert entry.summary == "Their thing, in one line."
    assert list(entry.options) == ["size", "names"]
    assert made.bind(entry, given) == {"size": 3, "names": ("ax1", "b")}
    with pytest.raises(InputError, match="needs size"):
        made.bind(entry, {})
    with pytest.raises(InputError, match="does not fit"):
        made.bind(entry, {"size": "many"})
    with pytest.raises(InputError, match=r"no option 'name' \(did you mean 'names'\?\)"):
        made.bind(entry, {"size": 1, "name": "x"})


def no_library(made: Registry) -> None:
    raise ImportError("a library\nis missing")


def half_a_module(made: Registry) -> None:
    made("half", form="")(lambda: None)
    raise SystemExit(3)


def no_such_type(made: Registry) -> None:
    def odd(fabric: object, size: int) -> None:
        """What is there of a type is nowhere."""

    odd.__annotations__["size"] = "Missing"
    made("odd", form="")(odd)


def no_fact(made: Registry) -> None:
    made("bare", why="")(lambda: None)


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
        made("works", form="")(lambda: None)

    theirs = SimpleNamespace(name="other", version="1.2")
    broken = SimpleNamespace(
        load=lambda: load(made), name="theirs", value="their.module", dist=theirs
    )
    made = registry(monkeypatch, broken, SimpleNamespace(load=works))
    said = f"plug-in 'theirs' of other 1.2 (their.module) cannot be loaded: {reason}"
    with pytest.warns(PluginWarning, match=re.escape(f"{said}; everything else works")) as told:
        assert made.names() == ["works"]
    assert len(told) == 1
    assert made.parse("works")[0].name == "works"
    for called in (name, "theirs"):
        with pytest.raises(InputError, match=re.escape(f"thing {called!r}: {said}")):
            made[called]


def test_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    began, seen = threading.Event(), threading.Event()

    def load() -> None:
        began.set()
        seen.wait(0.2)
        made("slow", form="")(lambda: None)

    made = registry(monkeypatch, SimpleNamespace(load=load))
    first = threading.Thread(target=made.names)
    first.start()
    began.wait()
    names = made.names()
    seen.set()
    first.join()
    assert names == ["slow"]


def test_a_name_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = registry(monkeypatch)
    made("one")(lambda: None)
    with pytest.raises(ValueError, match="registered twice"):
        made("other", aliases=("one",))(lambda: None)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("NODE-00017_HCA-1", "node00017 HCA-1"),  # not node00000 HCA-1, which looks alike
        ("node49999 HAC-1", "node49999 HCA-1"),
        ("nod49998", "node49998 HCA-1"),
        ("node", "node00000 HCA-1"),
        ("other", ""),
        ("", ""),
        (".", ""),
    ],
)
def test_a_name_that_was_meant_is_found_among_many(wrong: str, meant: str) -> None:
    names = [f"node{number:05d} HCA-1" for number in range(50_000)]
    assert did_you_mean(wrong, names) == (f" (did you mean {meant!r}?)" if meant else "")
