"""A run is computed again if what computes it has changed, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.study.runs import versions
from weft.study.runs.task import Task
from weft.study.runs.versions import build_of, computing

SIMULATE = "weft.study.commands.simulate:simulate"
IMPORT = "import annotations"
CACHED = ("_code", "_known", "_modules", "build_of")


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file in which these tests remember modules."""
    return tmp_path_factory.mktemp("known") / "sources.json"


@pytest.fixture
def sources(remembered: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return the files of the modules, which a test may replace."""
    known = dict(versions._sources())
    monkeypatch.setattr(versions, "_sources", lambda: known)
    monkeypatch.setattr(versions, "_file", lambda: remembered)
    forget()
    yield known
    monkeypatch.undo()
    forget()


def forget() -> None:
    for name in CACHED:
        getattr(versions, name).cache_clear()


def after(known: dict[str, Path], module: str, folder: Path, old: str, new: str) -> str:
    """Return the version of simulations after an edit of a module."""
    text = known[module].read_text()
    assert old in text
    known[module] = folder / "edited.py"
    known[module].write_text(text.replace(old, new, 1))
    forget()
    return build_of(SIMULATE)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("module", "old", "new", "changes"),
    [
        ("weft.routing.engines.dnup", "\n\n@engine", "\n\n# A comment.\n@engine", False),
        ("weft.routing.engines.dnup", "up*/down* by the distance", "Another docstring", False),
        ("weft.routing.engines.dnup", "\n\n@engine", "\n\nMOST = 3\n\n\n@engine", True),
        ("weft.kernels.packet.lanes", "\n\n\n", "\n\nMOST = 3\n\n\n", True),
        ("weft.study.commands.simulate", "most_routes=12", "most_routes=13", True),
        ("weft.study.commands.cost", IMPORT, f"{IMPORT}\nMOST = 3", False),
        ("weft.cli.simulate", IMPORT, f"{IMPORT}\nMOST = 3", False),
        ("weft.subnet.audit", IMPORT, f"{IMPORT}\nMOST = 3", False),
        ("weft_papers.kns.runs", IMPORT, f"{IMPORT}\nMOST = 3", False),
    ],
)
def test_only_code_that_a_run_can_execute_counts(
    sources: dict[str, Path], tmp_path: Path, module: str, old: str, new: str, changes: bool
) -> None:
    before = build_of(SIMULATE)
    assert (after(sources, module, tmp_path, old, new) != before) is changes


def test_a_run_can_execute_what_registries_load(sources: dict[str, Path]) -> None:
    found = computing("weft.study.commands.simulate")
    assert found.issuperset((
        "weft.routing.engines.minhop", "weft.sim.packet.policies.ugal", "weft.workload.apps.hpcg",
        "weft.fabrics.topology.xgft", "weft.kernels.packet.engine",
    ))  # fmt: skip
    others = ("weft.cli", "weft.subnet", "weft_papers")
    assert not [name for name in found if name.startswith(others)]
    typed = Task(print, {"run": "weft_papers.qsnet.runs:any"})
    assert build_of("builtins:print") != typed.build == build_of("weft_papers.qsnet.runs:any")


def test_what_is_remembered_changes_nothing(
    sources: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "_file", lambda: tmp_path / "known" / "sources.json")
    forget()
    first = build_of(SIMULATE)
    assert (tmp_path / "known" / "sources.json").stat().st_size > 10_000
    forget()
    assert build_of(SIMULATE) == first
    few = "weft.core.arguments:whole_number"
    first = build_of(few)
    for text in ("no JSON", "[]", '{"a": 1}', '{"a": [1, 2]}'):
        (tmp_path / "known" / "sources.json").write_text(text)
        forget()
        assert build_of(few) == first


def test_no_module_is_imported_that_a_store_names(sources: dict[str, Path]) -> None:
    assert computing("os", "antigravity") == set()
