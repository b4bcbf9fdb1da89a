"""`weft store`: list, check, prune, export and move the results of studies."""

# Heavy modules are imported by the commands that need them, so that runs are listed at once.
from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import cyclopts
from cyclopts import Parameter

from weft.cli.option_types import FIRST, OUTPUT, RUNS, File, Name, Pair, Whole
from weft.cli.output import emit
from weft.core.counts import count_text, with_status
from weft.core.errors import InputError
from weft.study.runs.listing import ListedRun, list_runs, list_studies, named_run
from weft.study.runs.rows import StoredRun
from weft.study.runs.store import Store

#: Exit status if something is wrong with a store, or was not taken.
NOT_WHOLE = 1
#: Number of keys, differences or reasons that are printed.
_FEW = 10

store_app = cyclopts.App(
    name="store",
    help="List, check, prune, export and move the results of studies.",
    help_format="markdown",
)

StoreFolder = Annotated[Path, Parameter(help="Folder of the results of studies.")]
StudyName = Annotated[
    Name | None, FIRST(help="Name of the study. Default: the one that was run last.")
]
Statuses = Annotated[
    tuple[Name, ...],
    FIRST(help="Only runs with this status, such as failed. Repeatable.", negative=()),
]


@store_app.command(name="ls")
def ls_command(
    store: StoreFolder,
    /,
    *,
    study: StudyName = None,
    where: Annotated[
        tuple[Pair, ...],
        FIRST(
            help="Only runs with this value of an axis, as in engine=minhop. The value may contain "
            "*. Repeatable; several values of one axis are alternatives."
        ),
    ] = (),
    status: Statuses = (),
    sort: Annotated[
        Name | None, OUTPUT(help="Sort by this column, axis or measure. Default: run.")
    ] = None,
    descending: Annotated[bool, OUTPUT(help="Print the largest value first.")] = False,
    limit: Annotated[Whole, OUTPUT(help="Print at most this number of runs; 0 prints all.")] = 100,
    studies: Annotated[bool, OUTPUT(help="List the studies of the store instead of runs.")] = False,
) -> None:
    """List the runs of a study: what varies, status, main measures, time, memory and age.

    Example: `weft store ls engines.study --where engine=updn`
    """
    if limit < 0:
        raise InputError(f"--limit: expected 0 or more, not {limit}")
    with Store(store) as opened:
        if studies:
            _list_studies(opened)
            return
        found = list_runs(
            opened, study, where=where, status=status, sort=sort, descending=descending, limit=limit
        )
    emit(
        study=found.study, total=found.total, statuses=found.statuses,
        runs=lambda: [
            {**run._asdict(), "point": dict(run.point), "measures": dict(run.measures)}
            for run in found.runs
        ],
    )  # fmt: skip
    head = [
        "run",
        *found.axes,
        "status",
        *found.measures,
        "wall",
        "memory",
        "version",
        "age",
        "key",
    ]
    numbers = {"run", "seed", *found.measures, "wall", "memory", "age"}
    now = time.time()
    rows = [
        [
            str(run.run), *(_axis(run, axis) for axis in found.axes), run.status,
            *(number_text(run.measures.get(name)) for name in found.measures),
            *_costs(run.wall_s, run.memory_bytes), run.version or "-", _age(run.ended_s, now),
            run.key[:8],
        ]
        for run in found.runs
    ]  # fmt: skip
    print("\n".join(columns_text(head, rows, [name in numbers for name in head])))
    counts = _counts(found.statuses)
    shown = f"{len(rows):,} of " if len(rows) < found.total else ""
    print(
        f"study {found.study}: {shown}{count_text(found.total, 'run')}"
        + (f" ({counts})" if counts else "")
    )
    if len(rows) < found.total:
        print("weft: --limit 0 prints all runs", file=sys.stderr)


def _list_studies(store: Store) -> None:
    listed, alone = list_studies(store)
    emit(studies=listed, runs_of_no_study=alone)
    now = time.time()
    rows = [
        [
            each.name, each.command, f"{each.runs:,}",
            _counts(each.statuses),
            _age(each.changed_s, now), each.file,
        ]
        for each in listed
    ]  # fmt: skip
    head = ["study", "command", "runs", "status", "age", "file"]
    for line in columns_text(head, rows, [name in ("runs", "age") for name in head]):
        print(line)
    if alone:
        print(f"{count_text(alone, 'run')} of no study")


def _counts(statuses: Mapping[str, int]) -> str:
    return ", ".join(with_status(count, status) for status, count in sorted(statuses.items()))


def _axis(run: ListedRun, axis: str) -> str:
    if axis == "seed":
        return "-" if run.seed is None else str(run.seed)
    return run.point.get(axis, "-")


def _costs(wall_s: float | None, memory_bytes: int | None) -> tuple[str, str]:
    wall = "-" if wall_s is None else f"{wall_s:,.3g} s" if wall_s < 100 else f"{wall_s:,.0f} s"
    return wall, "-" if memory_bytes is None else f"{memory_bytes / 2**20:,.0f} MiB"


def _age(then: float | None, now: float) -> str:
    if then is None:
        return "-"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if now - then >= seconds:
            return f"{(now - then) / seconds:.0f} {unit}"
    return f"{max(0.0, now - then):.0f} s"


def number_text(value: Any) -> str:
    """Return a measure as short text."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() or abs(value) >= 1e4 else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def columns_text(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]
) -> Iterable[str]:
    """Yield the lines of a table with two spaces between columns; `right` aligns a column."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    form = "  ".join(
        f"{{:{'>' if numeric else '<'}{width}}}"
        for width, numeric in zip(widths, right, strict=True)
    )
    for row in (head, *rows):
        yield form.format(*row).rstrip()


@store_app.command(name="show")
def show_command(
    store: StoreFolder,
    run: Annotated[
        str, Parameter(help="Number of the run in the study, or the beginning of its key.")
    ],
    /,
    *,
    study: StudyName = None,
    table: Annotated[Name | None, OUTPUT(help="Print this table of the run.")] = None,
    output: Annotated[
        File | None,
        OUTPUT(name=["--output", "-o"], help="Write the table to this .csv or .parquet file."),
    ] = None,
) -> None:
    """Print everything about one run, or one of its tables.

    Example: `weft store show engines.study 3f9a --table jobs`
    """
    if output is not None and table is None:
        raise InputError("--output writes a table; name it with --table")
    with Store(store) as opened:
        key, found = named_run(opened, run, study)
        if table is not None:
            _show_table(opened, found, table, output)
            return
        places = opened.query(
            "SELECT study, number FROM members WHERE key = ? ORDER BY 1, 2", [key]
        )
    from weft.study.export import measures_of

    known = measures_of(found.function)
    measures = {
        name: {"value": value, "unit": each.unit, "meaning": each.meaning}
        if (each := known.get(name))
        else {"value": value, "unit": "", "meaning": ""}
        for name, value in found.measures.items()
    }
    emit(**{**found.__dict__, "measures": measures, "studies": [list(place) for place in places]})
    print(f"run {key}: {found.status}" + (f": {found.reason}" if found.reason else ""))
    wall, memory = _costs(found.wall_s, found.memory_bytes)
    ended = time.strftime("%F %T", time.localtime(found.ended_s))
    about = {
        "studies": ", ".join(f"{name} {number}" for name, number in places) or "none",
        "computed": f"{ended} on {found.host}, in {wall} with {memory}",
        "limits": ", ".join(f"{name} {value:g}" for name, value in found.limits.items()) or "none",
        "version": f"weft {found.build}; "
        + ", ".join(f"{name} {version}" for name, version in found.libraries.items()),
        "function": found.function,
        "tables": ", ".join(f"{name} ({size:,} bytes)" for name, (size, _) in found.tables.items())
        or "none",
    }
    for line in columns_text(["", ""], list(about.items()), [False, False]):
        if line:
            print(line)
    for name, digest in found.inputs.items():
        print(f"input     {name} (sha256 {digest})")
    if measures:
        print("\nmeasures:")
        rows = [
            [name, number_text(each["value"]), each["unit"], each["meaning"]]
            for name, each in measures.items()
        ]
        for line in columns_text(
            ["name", "value", "unit", "meaning"], rows, [False, True, False, False]
        ):
            print(line)
    print("\nparameters:")
    print(json.dumps(dict(found.parameters), indent=2, ensure_ascii=False))
    if found.details:
        print(f"\n{found.details.rstrip()}")


def _show_table(store: Store, run: StoredRun, name: str, output: Path | None) -> None:
    from weft.cli.common import TABLES, check_files
    from weft.core.columns import write_table
    from weft.core.registry import did_you_mean

    check_files(("--output", output, TABLES))
    found = store.table(run.key, name)
    if found is None:
        known = ", ".join(run.tables)
        raise InputError(
            f"the run has no table {name!r}{did_you_mean(name, run.tables)}; it has "
            + (known or f'none: study.tables = ["{name}"] in the file of a study keeps tables')
        )
    emit(table=found)
    if output is not None:
        write_table(found, output)
        print(f"{output}: {count_text(len(found), 'row')}")
    else:
        print(found.write_csv(), end="")


@store_app.command(name="check")
def check_command(
    store: StoreFolder,
    /,
    *,
    rerun: Annotated[
        Whole,
        RUNS(
            help="Also compute this number of randomly chosen runs again with this version of "
            "weft, and print which measures would change."
        ),
    ] = 0,
    seed: Annotated[Whole, RUNS(help="Seed of the choice of runs.")] = 0,
    workers: Annotated[
        Whole | None, RUNS(help="Processes that compute. Default: one per core.")
    ] = None,
) -> int:
    """Check the index, every table and every input file; the exit status is 1 if one is wrong.

    Example: `weft store check engines.study --rerun 2`
    """
    from weft.study.runs.upkeep import check, computed_again, sample

    if rerun < 0:
        raise InputError(f"--rerun: expected 0 or more, not {rerun}")
    if workers is not None and workers < 1:
        raise InputError(f"--workers: expected 1 or more, not {workers}")
    with Store(store) as opened:
        found = check(opened)
        print(
            f"{store}: read {count_text(found.runs, 'run')} and {count_text(found.tables, 'table')}"
        )
        for line in found.notes:
            print(f"note: {line}")
        for line in found.faults:
            print(f"wrong: {line}")
        differences = []
        runs: Mapping[str, Any] = {}
        if rerun:
            from weft.study.command_registry import run_function

            runs, unknown = sample(opened, rerun, seed, run_function)
            for line in unknown:
                print(f"note: not computed again: {line}")
        if runs:
            from weft.cli.common import announced_compile
            from weft.core.pool import cores
            from weft.study.runs.executors import Limits, LocalProcesses

            executor = LocalProcesses(min(workers or cores(), len(runs)), Limits())
            with announced_compile():
                for _, changed in computed_again(opened, runs, executor):
                    differences += changed
        emit(
            runs=found.runs, tables=found.tables, faults=found.faults, notes=found.notes,
            computed_again=len(runs), differences=differences,
        )  # fmt: skip
    if rerun:
        _show_differences(len(runs), differences)
    if not found.faults and not differences:
        print("nothing is wrong")
        return 0
    return NOT_WHOLE


def _show_differences(runs: int, differences: Sequence[Any]) -> None:
    """Print which measures would change, and by how much."""
    changed = len({each.key for each in differences})
    print(f"computed {count_text(runs, 'run')} again: {changed:,} would change")
    by_name: dict[str, list[Any]] = {}
    for each in differences:
        by_name.setdefault(each.name, []).append(each)
    for name, listed in by_name.items():
        largest = max(listed, key=lambda each: abs(each.change or 0.0))
        by = "" if largest.change is None else f", at most by {largest.change:+.3%}"
        print(
            f"wrong: {name} of {count_text(len(listed), 'run')}{by}: run {largest.key[:8]} "
            f"{_value(largest.before)} -> {_value(largest.after)}"
        )


def _value(value: Any) -> str:
    return "none" if value is None else str(value)


@store_app.command(name="prune")
def prune_command(
    store: StoreFolder,
    /,
    *,
    status: Statuses = (),
    older_versions: Annotated[
        bool, RUNS(help="Only runs that another version of weft computed.")
    ] = False,
    not_in_study: Annotated[bool, RUNS(help="Only runs that belong to no study.")] = False,
    damaged: Annotated[
        bool, RUNS(help="Only runs of which a table is missing or damaged.")
    ] = False,
    dry_run: Annotated[bool, RUNS(help="Print what would be removed, and remove nothing.")] = False,
) -> None:
    """Remove the runs to which all given options apply, and files that killed processes left.

    Without options only the files are removed. A study that lacks runs computes them again.

    Example: `weft store prune engines.study --status failed --dry-run`
    """
    from weft.study.runs.upkeep import removable

    with Store(store) if dry_run else _written(store) as opened:
        keys = removable(
            opened, status=status, older=older_versions, alone=not_in_study, damaged=damaged
        )
        files = opened.files_of_no_run()
        if not dry_run:
            opened.remove(keys)
            for path in files:
                path.unlink(missing_ok=True)
    emit(runs=keys, files=[str(path) for path in files], removed=not dry_run)
    word = "would remove" if dry_run else "removed"
    print(f"{word} {count_text(len(keys), 'run')} and {count_text(len(files), 'file')} of no run")
    _print_few(keys)
    _print_few([str(path) for path in files])


def _print_few(lines: Sequence[str]) -> None:
    for line in lines[:_FEW]:
        print(f"  {line}")
    if len(lines) > _FEW:
        print(f"  and {len(lines) - _FEW:,} more")


@store_app.command(name="export")
def export_command(
    store: StoreFolder,
    file: Annotated[Path, Parameter(help="The .csv or .parquet file to write.")],
    /,
    *,
    study: StudyName = None,
    table: Annotated[
        Name | None,
        OUTPUT(help="Write this table of all runs, one below the other, such as jobs."),
    ] = None,
) -> None:
    """Write all runs as one table, and beside it the units and meanings of its columns.

    Example: `weft store export engines.study runs.csv`
    """
    from weft.cli.common import TABLES, check_files
    from weft.core.columns import write_table
    from weft.study.export import meanings, run_table, stacked_table

    check_files(("FILE", file, TABLES))
    if table is not None:
        found = stacked_table(store, table, study)
    else:
        found, columns = run_table(store, study)
    write_table(found, file)
    print(f"{file}: {count_text(found.height, 'row')}, {count_text(found.width, 'column')}")
    emit(file=str(file), rows=found.height, columns=found.columns)
    if table is None:
        beside = file.with_name(f"{file.stem}.columns.csv")
        write_table(meanings(columns), beside)
        print(f"{beside}: units and meanings of the columns")


@store_app.command(name="pack")
def pack_command(
    store: StoreFolder,
    file: Annotated[Path, Parameter(help="The .tar file to write.")],
    /,
) -> int:
    """Write a store to one file, also while a study is computed; `weft store pull` takes it.

    Example: `weft store pack engines.study engines.tar`
    """
    from weft.cli.common import check_files
    from weft.study.runs.packing import pack

    check_files(("FILE", file, (".tar",)))
    with Store(store) as opened:
        done = pack(opened, file)
    emit(file=str(file), **done.__dict__)
    print(
        f"{file}: {count_text(done.runs, 'run')}, {count_text(done.tables, 'table')}, "
        f"{done.bytes:,} bytes of tables"
    )
    if done.left_out:
        print(
            f"wrong: {count_text(len(done.left_out), 'run')} left out, "
            "with missing or damaged tables:"
        )
        _print_few(done.left_out)
    return NOT_WHOLE if done.left_out else 0


@store_app.command(name="pull")
def pull_command(
    store: Annotated[Path, Parameter(help="Folder of the results; created if it is missing.")],
    source: Annotated[Path, Parameter(help="The other store: its folder, or a packed file.")],
    /,
    *,
    replace: Annotated[
        bool, RUNS(help="Replace runs and studies that differ instead of keeping them.")
    ] = False,
) -> int:
    """Take the runs and studies of another store; the exit status is 1 if some were not taken.

    Example: `weft store pull engines.study engines.tar`
    """
    from weft.study.runs.packing import pull

    if not source.exists():
        raise InputError("does not exist", file=source)
    with Store(store, write=True) as opened:
        done = pull(opened, source, replace=replace)
    emit(**done.__dict__)
    print(f"took {count_text(done.taken, 'run')}; {done.present:,} were there already")
    for keys, noun, text in (
        (done.replaced, "run", "replaced, with different results"),
        (
            done.kept,
            "run",
            "kept, with different results; --replace takes those of the other store",
        ),
        (done.not_whole, "run", "not taken, with missing or damaged tables"),
        (done.studies, "study", "taken"),
        (
            done.kept_studies,
            "study",
            "kept, with other runs or settings; --replace takes those of the other store",
        ),
    ):
        if keys:
            print(f"{count_text(len(keys), noun)} {text}:")
            _print_few(keys)
    return NOT_WHOLE if done.kept or done.not_whole or done.kept_studies else 0


def _written(folder: Path) -> Store:
    """Open an existing store for writing."""
    with Store(folder):
        pass  # a folder that is no store is not made one
    return Store(folder, write=True)
