"""Cached kernels are loaded again only if nothing compiled into them has changed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba.core import caching
from numba.extending import is_jitted
from tests.processes import not_here

import weft.kernels
from weft.cli import common
from weft.kernels import bundle, cache

#: A package of two kernels: `outer` depends on all modules, `apart` only on its own.
MINI = {
    "steps": "STEP = 1\n",
    "pair": (
        "from typing import NamedTuple\n"
        "class Pair(NamedTuple):\n    left: int\n    right: int\n"
    ),
    "inner": (
        "from mini.steps import STEP\n"
        "from weft.kernels.cache import njit\n"
        "@njit(inline='always')\ndef add(x, by=10):\n    return x + by * STEP\n"
    ),
    "outer": (
        "from mini import inner\n"
        "from weft.kernels.cache import njit\n"
        "@njit()\ndef middle(pair):\n    return inner.add(pair.left)\n"
        "@njit(cache=True)\ndef outer(pair):\n    return middle(pair)\n"
        "@njit(cache=True)\ndef apart(x):\n    return -x\n"
    ),
}  # fmt: skip
#: Prints the result of each kernel and the number of its cache hits.
USE = """
import json
from mini.outer import apart, outer
from mini.pair import Pair
found = {"outer": outer(Pair(left=100, right=200)), "apart": apart(3)}
loaded = {k.py_func.__name__: sum(k.stats.cache_hits.values()) for k in (outer, apart)}
print(json.dumps([found, loaded]))
"""


class Mini:
    """A package in a folder; every run of its kernels is in a new process."""

    def __init__(self, folder: Path):
        self.folder = folder / "mini"
        self.folder.mkdir()
        for name, text in {"__init__": "", **MINI}.items():
            (self.folder / f"{name}.py").write_text(text)

    def start(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        inherited = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        return subprocess.Popen(
            [sys.executable, *options, "-c", USE], cwd=self.folder.parent, text=True,
            stdout=subprocess.PIPE, env={**inherited, "PYTHONDONTWRITEBYTECODE": "", **environment},
        )  # fmt: skip

    def use(self, *options: str, **environment: str) -> tuple[dict[str, int], dict[str, int]]:
        """Return the result of each kernel, and how many times it was loaded from disk."""
        return result(self.start(*options, **environment))

    def edit(self, module: str, old: str, new: str) -> None:
        """Replace text in a module by other text, and keep the file's modification time."""
        path = self.folder / f"{module}.py"
        text, before = path.read_text(), path.stat()
        assert text.count(old) == 1
        assert len(old) == len(new)
        path.write_text(text.replace(old, new))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def files(self) -> list[str]:
        """Return the names of cached files."""
        return sorted(path.name for path in self.folder.glob("__pycache__/*.nbc*"))


def result(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(out)


@pytest.fixture
def mini(tmp_path: Path) -> Mini:
    return Mini(tmp_path)


def test_fingerprints_do_not_depend_on_what_was_imported_before() -> None:
    text = (
        "from weft.kernels.cache import fingerprint\nfrom weft.kernels.packet.engine import run\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", f"import {first}\n{text}"],
            capture_output=True, text=True, check=True,
        ).stdout
        for first in ("numba", "numba.types", "weft.cli.warmup")
    }  # fmt: skip
    assert len(found) == 1


#: Uses the kernels of a folder as those of a wheel, and prints why they do not fit.
AS_WHEEL = """
import pathlib, sys
from weft.kernels import bundle
bundle.FOLDER = pathlib.Path("wheel")
print(bundle.why_not(), file=sys.stderr)
"""


def test_kernels_of_a_wheel_are_loaded_where_they_fit(tmp_path: Path) -> None:
    if bundle.missing_features():
        not_here(f"needs {bundle.PROCESSOR}")
    mini = Mini(tmp_path)
    mini.use("-B", NUMBA_CPU_NAME=bundle.PROCESSOR, NUMBA_CPU_FEATURES="")
    wheel = tmp_path / "wheel"
    (mini.folder / "__pycache__").rename(wheel)

    def use(**needs: str) -> tuple[Any, str]:
        text = json.dumps(bundle.built_for() | needs)
        (wheel / bundle.TARGET).write_text(text)
        done = subprocess.run(
            [sys.executable, "-B", "-c", AS_WHEEL + USE], cwd=tmp_path, text=True, check=True,
            capture_output=True,
            env={name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"},
        )  # fmt: skip
        return json.loads(done.stdout), done.stderr.strip()

    expected = {"outer": 110, "apart": -3}
    assert use() == ([expected, {"outer": 1, "apart": 1}], "")
    assert not mini.files()
    compiled, why = use(numpy="1.0")
    assert compiled == [expected, {"outer": 0, "apart": 0}]
    assert why == f"those of the wheel are for numpy 1.0, and here is {np.__version__}"
    assert len(mini.files()) == 2


def test_an_edit_recompiles_only_kernels_that_depend_on_it(mini: Mini) -> None:
    assert mini.use("-B") == [{"outer": 110, "apart": -3}, {"outer": 0, "apart": 0}]
    before = mini.files()
    assert len(before) == 2
    assert mini.use("-B") == [{"outer": 110, "apart": -3}, {"outer": 1, "apart": 1}]
    mini.edit("inner", "x + by", "x - by")  # a function that is inlined
    mini.edit("pair", "    left: int\n    right: int\n", "    right: int\n    left: int\n")
    assert mini.use("-B") == [{"outer": 90, "apart": -3}, {"outer": 0, "apart": 1}]
    mini.edit("steps", "1", "3")  # a constant of a module that outer does not mention
    mini.edit("outer", "return -x", "return +x")
    assert mini.use("-B") == [{"outer": 70, "apart": 3}, {"outer": 0, "apart": 0}]
    after = mini.files()
    assert len(after) == 2  # stale files are removed
    assert not {*before} & {*after}


def test_reordered_tuple_fields_cause_recompilation(mini: Mini) -> None:
    mini.edit("outer", "pair.left)\n@", "pair[0])  \n@")
    assert mini.use("-B")[0]["outer"] == 110
    mini.edit("pair", "    left: int\n    right: int\n", "    right: int\n    left: int\n")
    results, loaded = mini.use("-B")
    assert (results["outer"], loaded) == (210, {"outer": 0, "apart": 1})


@pytest.mark.slow
def test_stale_bytecode_does_not_corrupt_the_cache(mini: Mini) -> None:
    mini.use()  # writes bytecode
    mini.edit("inner", "x + by", "x - by")
    results, loaded = mini.use()  # Python compares only time and size, and runs the old bytecode
    assert (results["outer"], loaded["outer"]) == (110, 1)
    results, loaded = mini.use("-B", PYTHONPYCACHEPREFIX=str(mini.folder / "none"))
    assert (results["outer"], loaded["outer"]) == (90, 0)


def test_concurrent_processes_share_a_cache_folder(mini: Mini, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    running = [mini.start(NUMBA_CACHE_DIR=str(folder)) for _ in range(2)]
    results, loaded = zip(*map(result, running), strict=True)
    assert list(results) == 2 * [{"outer": 110, "apart": -3}]
    # One process compiles each kernel; the other waits for that process.
    assert [sum(each[name] for each in loaded) for name in ("outer", "apart")] == [1, 1]
    assert mini.use(NUMBA_CACHE_DIR=str(folder))[1] == {"outer": 1, "apart": 1}
    suffixes = sorted(path.suffix for path in folder.rglob("*") if path.is_file())
    assert suffixes == [".lock", ".nbc", ".nbc"]
    assert mini.files() == []


# -- one process -----------------------------------------------------------------------------------


def module(folder: Path, text: str, name: str = "kernels") -> ModuleType:
    """Load a module of kernels that this process has not loaded before."""
    path = folder / f"{name}.py"
    path.write_text(f"from weft.kernels.cache import njit\n{text}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(loaded)
    finally:
        sys.dont_write_bytecode = before
    return loaded


TWICE = "@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("return x", "# nothing\n    return x", True),
        ("'''Say.'''\n    return x", "'''Something else.'''\n    return x", True),
        ("return x + 1", "return x + 2", False),
        ("return x + 1", "return x + 1.0", False),
        ("return x in {'a', 'b'}", "return x in {'a', 'c'}", False),
        ("return (lambda: x + 1)()", "return (lambda: x + 2)()", False),
        ("return A\nA = 5", "return A\nA = 6", False),
        ("return A\nA = 0.0", "return A\nA = -0.0", False),
        ("return A[0]\nA = (1, (2,))", "return A[0]\nA = (1, (3,))", False),
        ("return A[0]\nimport numpy\nA = numpy.arange(3)",
         "return A[0]\nimport numpy\nA = numpy.arange(4)", False),
        ("return g(x)\ndef g(x): return h(x)\ndef h(x): return 1",
         "return g(x)\ndef g(x): return h(x)\ndef h(x): return 2", False),
        ("return g(x)\ndef g(x, y=1): return y", "return g(x)\ndef g(x, y=2): return y", False),
        ("return g(x)\ndef g(x): return f(x)", "return g(x)\ndef g(x): return f(x) + 1", False),
        ("return g(x)\ndef made(n):\n    return lambda x: x + n\ng = made(1)",
         "return g(x)\ndef made(n):\n    return lambda x: x + n\ng = made(2)", False),
        ("return g(x)\n@njit(boundscheck=True)\ndef g(x): return x",
         "return g(x)\n@njit(boundscheck=False)\ndef g(x): return x", False),
    ],
)  # fmt: skip
def test_a_fingerprint_changes_with_the_compiled_code(
    tmp_path: Path, one: str, other: str, same: bool
) -> None:
    head = "@njit(cache=True)\ndef f(x):\n    "
    first, second = (
        cache.fingerprint(module(tmp_path, f"{head}{text}\n").f) for text in (one, other)
    )
    assert (first == second) is same


def test_kernels_without_a_fingerprint_are_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_warned", set())
    kernels = module(tmp_path, "real = object()\n" + TWICE.replace("2 * x", "2 * x.real"))
    with pytest.raises(TypeError, match=r"kernels\.twice reads global real of type object"):
        cache.fingerprint(kernels.twice)
    with pytest.warns(RuntimeWarning, match="compiles them again: kernels"):
        assert kernels.twice(4) == 8
    assert not list(tmp_path.glob("__pycache__/*"))


def warned(monkeypatch: pytest.MonkeyPatch, kernel: Any, match: str) -> None:
    """Assert that a kernel which cannot be cached runs, and that only the first run warns."""
    monkeypatch.setattr(cache, "_warned", set())
    with pytest.warns(RuntimeWarning, match=match) as seen:
        assert [kernel(4), kernel(4.0)] == [8, 8.0]
    assert len(seen) == 1
    assert not cache.is_kept(kernel)


def test_kernels_run_without_a_cache_and_cause_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(function: Any) -> Any:
        raise RuntimeError("cannot cache function: no locator available")

    for kind, match in (
        (nowhere, "no cache folder can be written"),
        (lambda function: SimpleNamespace(), "is not one that weft supports"),
    ):
        monkeypatch.setattr(caching.FunctionCache, "_impl_class", kind)
        warned(monkeypatch, module(tmp_path, TWICE).twice, match)
    monkeypatch.undo()
    monkeypatch.setattr(caching, "NullCache", type("Another", (), {}))
    monkeypatch.setattr(cache, "_warned", set())
    with pytest.warns(RuntimeWarning, match="offers no cache"):
        kernels = module(tmp_path, TWICE)
    monkeypatch.undo()
    assert kernels.twice(4) == 8
    assert not cache.is_kept(kernels.twice)


def test_a_full_disk_causes_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    warned(monkeypatch, module(tmp_path, TWICE).twice, "No space left on device")
    left = [path.name for path in (tmp_path / "__pycache__").iterdir()]
    assert left == [cache.LOCK_FILE]


def test_damaged_files_and_files_of_other_keys_are_not_used(tmp_path: Path) -> None:
    text = TWICE + TWICE.replace("twice", "thrice").replace("2", "3")
    kernels = module(tmp_path, text)
    assert (kernels.twice(4), kernels.thrice(4)) == (8, 12)
    paths = {path.name.split(".")[1]: path for path in (tmp_path / "__pycache__").iterdir()}
    intact = paths["twice"].read_bytes()
    changed = bytearray(intact)
    changed[-1] ^= 1
    for content in (b"", intact[:-1], bytes(changed)):
        paths["twice"].write_bytes(content)
        again = module(tmp_path, text)
        assert again.twice(4) == 8
        assert not again.twice.stats.cache_hits
        again = module(tmp_path, text)
        assert again.twice(4) == 8
        assert again.twice.stats.cache_hits
    assert again.thrice(4) == 12
    assert sum(again.thrice.stats.cache_hits.values()) == 1


class ImmediateTimer:
    """A timer that calls its function at once."""

    def __init__(self, seconds: float, function: Callable[[], None]):
        self.start = function
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def test_messages_are_printed_only_for_compilations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common.threading, "Timer", ImmediateTimer)
    text = "@njit()\ndef one(x):\n    return x\n" + TWICE.replace("2", "one(2)")
    messages = []
    for name in ("kernels", "kernels", "others"):
        kernel = module(tmp_path, text, name).twice
        with common.announced_compile(kernel if name == "others" else None):
            assert kernel(4) == 8
            assert kernel(5) == 10
        messages.append(capsys.readouterr().err)
    once = (
        "weft: compiling kernels, once for this kind of run; 'weft warmup' compiles all\n"
        "weft: compiling 1 kernel took 0 s\n"
    )
    assert [re.sub(r"\d+ s", "0 s", each) for each in messages] == [once, "", once]


@pytest.mark.parametrize(("exact", "compiled"), [("", 1), (", exact=True", 3)])
def test_one_compilation_serves_all_integer_types(
    exact: str, compiled: int, tmp_path: Path
) -> None:
    kernels = module(
        tmp_path,
        f"@njit(cache=True{exact})\ndef less(x, by):\n    return x - by\n"
        "@njit\ndef several(x, table):\n    return less(x, 1), less(x, by=x), less(x, table[0])\n",
    )
    assert kernels.several(4, np.full(1, 2, dtype=np.int32)) == (3, 0, 2)
    assert len(kernels.less.part.signatures) == compiled
    assert not kernels.less.signatures  # Python has not called it


def test_flush_and_disable_work_as_in_numbas_cache(tmp_path: Path) -> None:
    kernel = module(tmp_path, TWICE).twice
    kernel(1)
    assert cache.is_kept(kernel)
    kernel._cache.flush()
    assert not cache.is_kept(kernel)
    kernel._cache.disable()
    assert kernel(1.0) == 2
    kernel._cache.enable()
    assert not cache.is_kept(kernel)
    assert kernel(1j) == 2j
    assert cache.is_kept(kernel)


def test_stale_files_are_removed_and_others_kept(tmp_path: Path) -> None:
    folder = tmp_path / "__pycache__"
    folder.mkdir()
    stale = [
        f"kernels.twice-3.{cache.PYTHON}.nbi", f"kernels.twice-3.{cache.PYTHON}.1.nbc",
        f"kernels.lost.{cache.PYTHON}-{16 * '0'}-{16 * '1'}.nbc",
        f"kernels.twice.{cache.PYTHON}-{16 * '0'}-{16 * '1'}.nbc",
        f"kernels.twice.{cache.PYTHON}-{16 * '0'}-{16 * '1'}.nbc.tmp.{16 * '2'}",
    ]  # fmt: skip
    others = [
        f"kernels.twice.{cache.PYTHON}-{16 * '0'}-{16 * '1'}.nbc.tmp.{16 * '3'}",
        "kernels.twice-3.py27.nbi", f"kernels.njit.{cache.PYTHON}-{16 * '0'}-{16 * '1'}.nbc",
        f"kernels_more.lost.{cache.PYTHON}-{16 * '0'}-{16 * '1'}.nbc", "kernels.cpython-311.pyc",
    ]  # fmt: skip
    for name in stale + others:
        (folder / name).touch()
    # An old temporary file is stale: the process that wrote it was killed.
    os.utime(folder / stale[-1], (0, 0))
    kernel = module(tmp_path, TWICE).twice
    kernel(1)
    kernel(1.0)
    left = {path.name for path in folder.iterdir()}
    assert not left & {*stale}
    assert left >= {*others}
    assert len(left - {cache.LOCK_FILE}) == len(others) + 2


def test_every_kernel_of_weft_goes_through_the_cache() -> None:
    names = pkgutil.walk_packages(weft.kernels.__path__, "weft.kernels.")
    modules = [importlib.import_module(each.name) for each in names]
    kernels = {each for imported in modules for each in vars(imported).values() if is_jitted(each)}
    cached = {each for each in kernels if isinstance(each._cache, cache.KernelCache)}
    assert len(cached) > 150
    assert all(isinstance(each._cache, caching.NullCache) for each in kernels - cached)
    assert len({cache.fingerprint(each) for each in cached}) == len(cached)
