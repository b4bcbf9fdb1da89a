"""Options that several commands share: the fabric, its faults, and output files."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, Self

from cyclopts import Parameter
from rich.console import Console

from weft.cli.compile_helpers import compile_helpers
from weft.cli.option_types import OUTPUT
from weft.cli.options import options_of
from weft.cli.output import given, plain
from weft.core.counts import count_text
from weft.core.errors import STANDARD_INPUT, InputError
from weft.core.files import read_text
from weft.core.settings import settings
from weft.core.severity import FailOn
from weft.fabrics import Fabric
from weft.fabrics.faults import Faults
from weft.fabrics.formats import reader
from weft.fabrics.formats.signatures import BOOKSIM, signature
from weft.fabrics.judged import EVERYBODY, Judged
from weft.fabrics.load import Source
from weft.fabrics.load import fabric as load_fabric

#: Suffixes of files of tables.
TABLES = (".csv", ".parquet")
#: Seconds of compilation after which a message is printed.
PATIENCE_S = 3.0


_Options: Any = options_of("FabricOptions", [*settings(Source), *settings(Faults)])


class FabricOptions(_Options):  # type: ignore[misc]
    """Options of the fabric's source and of its faults."""

    def load(self, spec_or_path: str) -> Fabric:
        """Return the fabric with its faults."""
        source, faults = self.build(Source, source=spec_or_path), self.build(Faults)
        return load_fabric(
            spec_or_path, format=source.format, names=source.names, also=source.also or (),
            machines=source.machines, node=source.node, cabling=source.cabling, faults=faults,
        )  # fmt: skip


def is_booksim(source: str) -> bool:
    """Return whether a text names a configuration file of BookSim."""
    if not os.path.isfile(source):
        return False
    text = read_text(source)
    fabric = any(entry.facts["sniff"](text) for entry in reader)
    return not fabric and signature(text) is BOOKSIM


NO_OPTIONS = FabricOptions()

HostOptions: Any = options_of("HostOptions", settings(Judged))
EVERY_HOST = HostOptions()
_Judged: Any = options_of(
    "JudgedOptions", [*settings(Source), *settings(Faults), *settings(Judged)]
)


class JudgedOptions(_Judged):  # type: ignore[misc]
    """Options of the fabric's source, of its faults, and of the hosts that are judged."""

    def load(self, spec_or_path: str) -> Fabric:
        """Return the fabric with its faults and with traffic of the judged hosts only."""
        judged: Judged = self.build(Judged)
        fabric = FabricOptions.load(self, spec_or_path)
        return fabric if judged == EVERYBODY else judged.of(fabric)


ALL_HOSTS = JudgedOptions()

FailOnOption = Annotated[
    FailOn | None,
    OUTPUT(
        help="Least severity that gives exit status 1: error, warning, note, or never. Default: "
        "error."
    ),
]

FabricArgument = Annotated[
    str,
    Parameter(help="A file, a folder, or a spec such as 'xgft:3;6,6,6;1,6,6' or 'kns:k=6,n=2'."),
]


def console() -> Console:
    """Return the console that prints tables, as wide as the terminal, COLUMNS, or 140 columns."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    columns = os.environ.get("COLUMNS", "")
    known = terminal or (columns.isdecimal() and int(columns) > 0)
    return Console(width=None if known else 140, highlight=False)


def table_width(columns: Iterable[int]) -> int:
    """Return the width of a table: each column has a space on both sides and a vertical rule."""
    return 1 + sum(column + 3 for column in columns)


def as_number(value: float | None, digits: int = 0) -> str:
    """Return a number as text: ``12,345``; a dash for none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def as_share(value: float) -> str:
    """Return a share as text: ``12.3%``, ``<0.1%``."""
    return f"{value:.1%}" if value >= 0.001 or not value else "<0.1%"


class ProgressDisplay:
    """Display of a progress: a bar on a terminal, else a line every `line_s` seconds."""

    def __init__(self, first_s: float, line_s: float) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._quiet = given("--quiet")
        self._next, self._line_s = time.monotonic() + first_s, line_s
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, text: str, done: float, runs: float | None) -> None:
        """Show a progress now, or if one was shown a moment ago, not at all."""
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._terminal else self._line_s)
        if not self._terminal:
            print(f"weft: {text}", file=sys.stderr, flush=True)
            return
        if self._bar is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._bar.add_task("", total=runs)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], description=plain(text), completed=done, total=runs)


@contextmanager
def announced_compile(of_workers: Any = None, kind: str = "") -> Iterator[None]:
    """Print a message when kernels take long to compile, and at the end the compilation time.

    `of_workers`: the largest kernel that worker processes run. If it is not in the kernel cache,
    the message is printed before they start. `kind`: key of `weft.cli.warmup.PARTS`: kernels that
    helper processes compile if the cache is empty.
    """
    from numba.core import event

    from weft.kernels.cache import is_kept

    event.Listener.register(_CompileWatch)
    helpers: AbstractContextManager[Callable[[], None] | None] = (
        compile_helpers(kind) if kind else nullcontext()
    )
    with helpers as begin:
        watch = _CompileWatch(begin)
        if of_workers is not None and not is_kept(of_workers):
            watch.announce()
        with event.install_listener("numba:compile", watch):
            try:
                yield
            finally:
                watch.close()
    if watch.announced and watch.spent_s:
        compiled = count_text(watch.kernels, "kernel")
        print(f"weft: compiling {compiled} took {watch.spent_s:.0f} s", file=sys.stderr)


class _CompileWatch:
    """Listener to Numba's events that announces long compilations and adds up their time."""

    def __init__(self, begin: Callable[[], None] | None) -> None:
        self.announced = False
        self._begin = begin
        self.spent_s = 0.0
        self.kernels = 0
        self._depth = 0  # nesting: compiling a kernel compiles the kernels that it calls
        self._since = 0.0
        self._timer: threading.Timer | None = None

    def announce(self) -> None:
        """Print once that kernels are being compiled."""
        if not self.announced:
            self.announced = True
            from weft.kernels.bundle import why_not

            reason = f" ({why_not()})" if why_not() else ""
            print(
                f"weft: compiling kernels{reason}, once for this kind of run; 'weft warmup' "
                "compiles all",
                file=sys.stderr,
            )

    def notify(self, event: Any) -> None:
        """Record that the compilation of a kernel starts or ends."""
        before = self._depth
        self._depth += 1 if event.is_start else -1
        if event.is_start and given("--verbose"):
            print(f"weft: compiling {event.data['dispatcher'].py_func.__name__}", file=sys.stderr)
        if not before:
            if self._begin is not None:
                self._begin()
            self._since = time.perf_counter()
            self._timer = threading.Timer(PATIENCE_S, self.announce)
            self._timer.daemon = True
            self._timer.start()
        if not self._depth:
            self.spent_s += time.perf_counter() - self._since
            self.kernels += 1
            self.close()

    def close(self) -> None:
        """Cancel the pending message."""
        if self._timer is not None:
            self._timer.cancel()


# -- output files and folders ----------------------------------------------------------------------


def check_files(*given: tuple[str, str | Path | None, Sequence[str]]) -> None:
    """Refuse output files that cannot be written, before any work is done.

    `given`: name of each option, its file or None, and the allowed suffixes (none if all are
    allowed).
    """
    taken: dict[Path, str] = {}
    for option, name, suffixes in given:
        if name is None:
            continue
        path, named = Path(name), f"{option} {name}"
        if str(name) in STANDARD_INPUT:
            raise InputError(
                f"{option} {STANDARD_INPUT[0]}: standard input cannot be written; expected a file"
            )
        if os.path.isdir(path):
            raise InputError(f"{named}: is a folder; expected a file to write")
        if suffixes and path.suffix.lower() not in suffixes:
            raise InputError(f"{named}: expected a name that ends in {' or '.join(suffixes)}")
        target = Path(os.path.realpath(path))
        if os.path.exists(target) and not target.is_file():  # a pipe or a device
            if not os.access(target, os.W_OK):
                raise InputError(f"{named}: no permission to write")
            continue
        _check_writable(named, target.parent)
        try:
            target.exists()
        except OSError as error:  # the name is too long
            raise InputError(f"{named}: {error.strerror}") from None
        if target in taken:
            raise InputError(f"{named}: is also the file of {taken[target]}; expected another file")
        taken[target] = option


def check_folder(option: str, name: str | Path | None) -> None:
    """Refuse an output folder that cannot be created or written to.

    `name`: the folder or None; a missing folder is created later.
    """
    if name is None:
        return
    if not str(name):
        raise InputError(f"{option}: expected a folder, not an empty text")
    target = Path(os.path.realpath(name))
    existing = next(each for each in (target, *target.parents) if os.path.exists(each))
    _check_writable(f"{option} {name}", existing)


def _check_writable(named: str, folder: Path) -> None:
    if not os.path.exists(folder):
        raise InputError(f"{named}: the folder {folder} does not exist")
    if not folder.is_dir():
        raise InputError(f"{named}: {folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{named}: no permission to write to the folder {folder}")


def opensm_settings(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse settings of opensm.conf given as ``name=value``; make paths of files absolute."""
    parsed = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(
                f"--option {text}: expected name=value, such as root_guid_file=roots.guids"
            )
        if os.path.exists(value):
            value = os.path.abspath(value)
        parsed[name.strip()] = value
    return parsed
