from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from weft.errors import InputError
from weft.registry import Registry, did_you_mean


def registry(monkeypatch: pytest.MonkeyPatch, *points: object) -> Registry:
    """A registry over a package that registers nothing in it, and these entry points."""
    monkeypatch.setattr("weft.registry.entry_points", lambda group: points)
    return Registry("thing", "weft.workload", "weft.things", pipeline=("fabric",))


def test_other_distributions_announce_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        @made("theirs", aliases=("t",), positional=("size",))
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


def test_what_cannot_be_loaded_fails_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise ImportError("a library is missing")

    made = registry(monkeypatch, SimpleNamespace(load=load))
    for _ in range(2):
        with pytest.raises(ImportError, match="a library is missing"):
            made.names()


def test_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    began, seen = threading.Event(), threading.Event()

    def load() -> None:
        began.set()
        seen.wait(0.2)
        made("slow")(lambda: None)

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
