"""On-disk cache of compiled kernels, keyed by exactly the code that was compiled into a kernel.

Numba's own cache compares a hash of the file that holds the outermost function. A kernel also
contains every kernel that it calls, with the constants that they read, so Numba goes on running
old machine code after an edit of another file. Here the name of a cache file holds a fingerprint
of all this code and all these constants, taken from the functions as Python loaded them. Times and
sizes of files have no effect, nor have comments.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import hashlib
import os
import pickle
import re
import sys
import time
import types
import uuid
import warnings
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import caching, config, event, serialize
from numba.extending import is_jitted

from weft.kernels import bundle
from weft.kernels.described import constant_text, described
from weft.kernels.indices import from_start
from weft.kernels.libraries import KernelCompiler, PartCompiler

try:
    import fcntl
except ImportError:  # Windows: processes may then compile the same kernel at the same time
    fcntl = None  # type: ignore[assignment]

#: Libraries of which a fingerprint contains the version and names of functions, but no code.
LIBRARIES = frozenset({"builtins", "llvmlite", "math", "numba", "numpy", "operator"})
#: Age in seconds from which an unfinished file is assumed to come from a killed process.
UNFINISHED_S = 3600.0
#: File in each cache folder whose locked bytes mark the kernels that processes are compiling.
LOCK_FILE = "kernels.lock"
#: Time to wait for another process that compiles a kernel, and between two tries, in seconds.
CLAIM_S, POLL_S = 300.0, 0.02
#: Version and ABI of Python; each version and ABI has its own cache files.
PYTHON = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
#: Types whose repr determines the value.
_PLAIN = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType)


def njit(function: Any = None, *, cache: bool = False, exact: bool = False, **options: Any) -> Any:
    """Compile with `numba.njit`; with `cache=True`, never load code compiled from other sources.

    `function`: the kernel, if the decorator is used without parentheses. `cache`: whether to keep
    compiled code on disk. `exact`: whether calls by other kernels compile a version for each
    constant and each width of integers, instead of one version for int64.
    """

    def compiled(kernel: Any) -> Any:
        # The C wrapper serves kernels passed as function arguments, which weft does not do.
        bare = {"no_cfunc_wrapper": True, "pipeline_class": KernelCompiler, **options}
        dispatcher = numba.njit(**bare)(kernel)
        if is_jitted(dispatcher):
            # What other kernels call is a part of them; most kernels are never called from Python.
            bare |= {"no_cpython_wrapper": True, "pipeline_class": PartCompiler}
            part = dispatcher.part = numba.njit(**bare)(kernel)
            template = part.get_call_template
            dispatcher.get_call_template = template if exact else partial(_widened, template)
            dispatcher.get_overload = part.get_overload
        if cache and is_jitted(dispatcher):  # False where NUMBA_DISABLE_JIT is set
            if isinstance(getattr(dispatcher, "_cache", None), caching.NullCache):
                dispatcher._cache = KernelCache(dispatcher)
            else:
                _warn_once(f"Numba {numba.__version__} offers no cache")
        return dispatcher

    return compiled if function is None else compiled(function)


class _Collector(event.Listener):  # type: ignore[misc]
    """Suspends garbage collection, up to a tenth of the time, while Numba compiles."""

    depth = 0
    resume = False

    def on_start(self, event: Any) -> None:
        """Suspend it."""
        if not self.depth:
            self.resume = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """Resume it at the end of the outermost kernel."""
        self.depth -= 1
        if self.resume and not self.depth:
            gc.enable()


event.register("numba:compile", _Collector())


def _widened(template: Any, arguments: Iterable[Any], named: dict[str, Any]) -> Any:
    """Return the call template with int64 in place of all signed integers and constants.

    Numba would compile a version for each type, even for types that its inference only tries.
    Results are the same, because Numba's arithmetic on integers has 64 bits.
    """

    def wide(kind: Any) -> Any:
        kind = numba.types.unliteral(kind)
        small = kind in numba.types.signed_domain
        return numba.types.int64 if small else kind

    return template(tuple(map(wide, arguments)), {name: wide(kind) for name, kind in named.items()})


def is_kept(kernel: Any) -> bool:
    """Return whether the disk holds compiled code of a kernel, for any types of arguments."""
    kernel_cache = getattr(kernel, "_cache", None)
    return isinstance(kernel_cache, KernelCache) and kernel_cache.holds_any()


class KernelCache:
    """Cache of one kernel with the interface that Numba expects: one file per argument types.

    Numba chooses the folder: `NUMBA_CACHE_DIR` if set, else a folder beside the sources or, if that
    is read-only, the user's cache folder. Files are replaced atomically and never shared by two
    versions of a kernel, so any number of processes, also of different versions of the sources, may
    read and write.

    `kernel`: Numba's dispatcher.
    """

    def __init__(self, kernel: Any):
        self._kernel = kernel
        self._enabled = True

    @cached_property
    def _numba(self) -> Any:
        """Numba's object for the cache folder and for serialising code, None if unavailable."""
        try:
            implementation = caching.FunctionCache._impl_class(self._kernel.py_func)
            for part in ("locator", "reduce", "rebuild", "check_cachable"):
                getattr(implementation, part)
            implementation.locator.get_cache_path()
        except RuntimeError:
            _warn_once("no cache folder can be written; set NUMBA_CACHE_DIR to a folder that can")
        except (AttributeError, TypeError):
            _warn_once(f"the cache of Numba {numba.__version__} is not one that weft supports")
        else:
            return implementation
        return None

    @cached_property
    def _print(self) -> str | None:
        try:
            return fingerprint(self._kernel)
        except TypeError as error:
            _warn_once(str(error))
        return None

    @property
    def cache_path(self) -> str | None:
        """Folder of the cache files, None if there is no cache."""
        return None if self._numba is None else str(self._numba.locator.get_cache_path())

    @property
    def _name(self) -> str:
        function = self._kernel.py_func
        module = Path(function.__code__.co_filename).stem
        return f"{module}.{re.sub('[<>]', '', function.__qualname__)}"

    def enable(self) -> None:
        """Use the files."""
        self._enabled = True

    def disable(self) -> None:
        """Stop reading and writing files."""
        self._enabled = False

    def flush(self) -> None:
        """Remove the kernel's files."""
        if self.cache_path is not None:
            _remove(Path(self.cache_path).glob(f"{self._name}.{PYTHON}-*"))

    def holds_any(self) -> bool:
        """Return whether the folder has a file for the present sources."""
        if not self._enabled or self._numba is None or self._print is None:
            return False
        pattern = f"{self._name}.{PYTHON}-{self._print}-*.nbc"
        folders = [Path(str(self.cache_path)), *([bundle.FOLDER] if bundle.target() else [])]
        return any(True for folder in folders for _ in folder.glob(pattern))

    def _file(self, key: str) -> Path:
        short = hashlib.sha256(key.encode()).hexdigest()[:16]
        return Path(str(self.cache_path)) / f"{self._name}.{PYTHON}-{self._print}-{short}.nbc"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return compiled code for arguments of these types, or None if it must be compiled.

        If another process is compiling it, wait for that process.
        """
        target_context.refresh()
        if not self._enabled or self._numba is None or self._print is None:
            return None
        key = _key(sig, target_context.codegen().magic_tuple())
        overload = self._read(self._file(key), key, target_context)
        if overload is None and (target := bundle.target()) is not None:
            theirs = _key(sig, target)
            path = bundle.FOLDER / self._file(theirs).name
            overload = self._read(path, theirs, target_context)
        if overload is None and self._claim(self._file(key)):
            overload = self._read(self._file(key), key, target_context)
            if overload is not None:
                self._release(self._file(key))
        return overload

    def _read(self, path: Path, key: str, target_context: Any) -> Any:
        with contextlib.suppress(OSError):
            data = path.read_bytes()
            digest, data = data[:32], data[32:]
            if hashlib.sha256(data).digest() == digest:  # otherwise the file is incomplete
                stored_key, reduced = pickle.loads(data)
                if stored_key == key:
                    return self._numba.rebuild(target_context, reduced)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write compiled code to its file, and remove files of older sources."""
        if not self._enabled or self._numba is None or self._print is None:
            return
        key = _key(sig, data.codegen.magic_tuple())
        try:
            if self._numba.check_cachable(data):
                content = serialize.dumps((key, self._numba.reduce(data)))
                self._numba.locator.ensure_cache_path()
                _replace(self._file(key), hashlib.sha256(content).digest() + content)
                self._remove_stale()
        except OSError as error:
            _warn_once(f"{self.cache_path}: {error.strerror or error}")
        finally:
            self._release(self._file(key))

    def _claim(self, path: Path) -> bool:
        """Lock a file for compilation; return whether another process may have written it already.

        The system releases a lock when its process ends in any way. Compilation goes on without
        a lock where none is available, because files are replaced atomically.
        """
        if fcntl is None:
            return False
        with contextlib.suppress(OSError):
            self._numba.locator.ensure_cache_path()
            if _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                return True
            end = time.monotonic() + CLAIM_S
            with event.trigger_event("numba:compile", data={"dispatcher": self._kernel}):
                while not _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB) and time.monotonic() < end:
                    time.sleep(POLL_S)
            return True
        return False

    def _release(self, path: Path) -> None:
        if fcntl is not None:
            with contextlib.suppress(OSError):
                _locked(path, fcntl.LOCK_UN)

    def _remove_stale(self) -> None:
        """Remove files of other versions of this kernel, and of kernels no longer in its module."""
        function = self._kernel.py_func
        module, _, name = self._name.partition(".")
        ours = re.compile(
            rf"{re.escape(module)}\.(?P<name>.+)"
            rf"(?:\.{PYTHON}-(?P<print>[0-9a-f]{{16}})-[0-9a-f]{{16}}\.nbc"
            rf"(?P<unfinished>\.tmp\.[0-9a-f]+)?"
            rf"|-\d+\.{PYTHON}\.(?:nbi|\d+\.nbc))"  # Numba's own cache, which weft does not read
        )
        stale = []
        for path in Path(str(self.cache_path)).glob(f"{module}.*"):
            match = ours.fullmatch(path.name)
            if match is None:
                continue
            if match["unfinished"] is not None:
                # Another process may still be writing a young file.
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime < time.time() - UNFINISHED_S:
                        stale.append(path)
                continue
            other = match["print"] != self._print
            gone = "." not in match["name"] and match["name"] not in function.__globals__
            if match["print"] is None or gone or (match["name"] == name and other):
                stale.append(path)
        _remove(stale)


def fingerprint(kernel: Any) -> str:
    """Return a digest of everything that Numba may compile into a kernel.

    That is the code of the kernel and of every function that it calls, directly or not, with their
    options, defaults and closures, the constants that they read, and the versions of the libraries.

    `kernel`: Numba's dispatcher. Returns 16 hexadecimal digits.

    Raises `TypeError` if a kernel reads a value whose changes cannot be detected.
    """
    reached = {id(kernel)}
    waiting, lines = [kernel], []
    while waiting:
        called: list[Any] = []
        lines.append(_described(waiting.pop(), called))
        for each in called:
            if id(each) not in reached:
                reached.add(id(each))
                waiting.append(each)
    versions = f"numba {numba.__version__} llvmlite {llvmlite.__version__} numpy {np.__version__}"
    indices = described(from_start.__code__, from_start.__doc__, set())
    text = "\n".join([versions, indices, _named(_function(kernel)), *sorted(lines)])
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _function(value: Any) -> types.FunctionType:
    """Return the Python function of a kernel, an intrinsic or a function."""
    function = getattr(value, "py_func", None) or getattr(value, "__wrapped__", value)
    assert isinstance(function, types.FunctionType)
    return function


def _named(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _described(kernel: Any, called: list[Any]) -> str:
    """Describe one kernel; append the functions that it calls to `called`."""
    function = _function(kernel)
    names: set[str] = set()
    code = described(function.__code__, function.__doc__, names)
    values: dict[str, Any] = {
        "options": dict(getattr(kernel, "targetoptions", {})),
        "defaults": function.__defaults__,
        "keyword defaults": function.__kwdefaults__,
    }
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        values[f"closure {name}"] = cell.cell_contents
    for name in names & function.__globals__.keys():
        value = values[f"global {name}"] = function.__globals__[name]
        if isinstance(value, types.ModuleType) and not _of_library(value.__name__):
            for part in names & vars(value).keys():
                values[f"global {name}.{part}"] = vars(value)[part]
    spelled = [
        f"{name} = {_spelled(values[name], name, function, called)}" for name in sorted(values)
    ]
    return f"{_named(function)} {code} {spelled}"


def _of_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def _spelled(value: Any, name: str, where: types.FunctionType, called: list[Any]) -> str:
    """Return text that differs when the value does; name functions and append them to `called`."""

    def again(part: Any) -> str:
        return _spelled(part, name, where, called)

    kind = type(value)
    if is_jitted(value) or (
        isinstance(value, types.FunctionType) and not _of_library(value.__module__)
    ):
        called.append(value)
        return _named(_function(value))
    if isinstance(getattr(value, "__wrapped__", None), types.FunctionType) and _of_library(
        kind.__module__
    ):  # an intrinsic
        called.append(value)
        return f"{kind.__name__} {_named(_function(value))}"
    if kind in _PLAIN or isinstance(value, frozenset):
        return constant_text(value)
    if isinstance(value, types.ModuleType):
        # Which of the names of a module Numba gives depends on what was imported before.
        return f"module {value.__name__.rpartition('.')[2]}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, enum.Enum):
        return f"{_named(kind)}.{value.name} {again(value.value)}"
    if isinstance(value, dict):
        return f"dict {[(again(key), again(part)) for key, part in value.items()]}"
    if isinstance(value, (tuple, list)):
        return f"{_named(kind)} {getattr(value, '_fields', '')} {list(map(again, value))}"
    if isinstance(value, type):
        if issubclass(value, enum.Enum):
            return f"{_named(value)} {[again(each) for each in value]}"
        if _of_library(value.__module__) or hasattr(value, "_fields"):
            defaults = again(getattr(value, "_field_defaults", None))
            return f"{_named(value)} {getattr(value, '_fields', '')} {defaults}"
        if issubclass(value, numba.types.Type):
            return _named(value)
    elif _of_library(kind.__module__):  # types, scalars and functions of libraries
        text = getattr(value, "__qualname__", None) or repr(value)
        if " at 0x" not in text:
            return f"{kind.__qualname__} {text}"
    raise TypeError(
        f"{_named(where)} reads {name} of type {kind.__name__}, whose changes cannot be detected"
    )


def _key(sig: Any, processor: tuple[str, ...]) -> str:
    """Describe the types of arguments, the processor and the settings that change the code."""
    arguments = [_type(each) for each in getattr(sig, "args", sig)]
    settings = [getattr(config, name, None) for name in ("BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT")]
    returned = getattr(sig, "return_type", None)
    return repr((arguments, returned, processor, settings))


def _type(kind: Any) -> str:
    """Describe a type of Numba, named tuples with their fields, which code reads by position."""
    fields = getattr(kind, "fields", None)
    if fields is not None and isinstance(kind, numba.types.BaseTuple):
        parts = [f"{name}: {_type(part)}" for name, part in zip(fields, kind, strict=True)]
        return f"{_named(kind.instance_class)}({', '.join(parts)})"
    if isinstance(kind, numba.types.BaseTuple):
        return f"({', '.join(map(_type, kind))},)"
    return repr(kind)


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex[:16]}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        _remove([temporary])
        raise


def _locked(path: Path, how: int) -> bool:
    """Lock or unlock the byte that represents a file in its folder's lock file.

    Return False if another process holds the lock. A lock lasts until this process ends.
    """
    position = int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:7], "big")
    file = _lock_files.get(path.parent)
    if file is None:
        file = os.open(path.parent / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        _lock_files[path.parent] = file
    try:
        fcntl.lockf(file, how, 1, position)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):  # another process removed or owns it
            path.unlink()


#: Descriptor of each folder's lock file, never closed: closing it would release its locks.
_lock_files: dict[Path, int] = {}
#: Reasons of the warnings so far.
_warned: set[str] = set()


def _warn_once(reason: str) -> None:
    if not _warned:
        text = f"compiled kernels are not cached and each run compiles them again: {reason}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    _warned.add(reason)
