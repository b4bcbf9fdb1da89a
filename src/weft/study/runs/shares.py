"""Runs that are shared among jobs with nothing but a file system in common, and their collection.

No job but the collecting one opens the index of the store. The plan is a file with a line for each
run; share i of n has the lines i, i + n, i + 2n and so on. A result is one file in the folder
``incoming`` of the store, written to a temporary name and renamed: the row of the run as a line of
JSON, then its tables.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.core.errors import InputError, in_file
from weft.core.files import make_folder, read_text, write_bytes, write_text
from weft.study.runs.execute import StudyProgress, execute
from weft.study.runs.executors import Executor, Limits
from weft.study.runs.rows import COLUMNS, Brief, StoreError, is_texts, run_of
from weft.study.runs.store import INCOMING, JOBS, Store, check_parts, record_of
from weft.study.runs.task import SETTLED, Packed, Registered, Task, computing_functions
from weft.study.runs.versions import build, build_of

#: Names in the folder of a plan.
PLAN = "plan.jsonl"
PROGRESS_OF_SHARE = "progress-{share}.json"
#: Format of plans; others are refused.
FORMAT = 1
#: Results that are collected before their files are removed.
_AT_ONCE = 100
#: Age in seconds from which an unfinished file is assumed to come from a killed process.
_UNFINISHED_S = 86_400.0


@dataclass(frozen=True)
class Share:
    """Runs that one job performs."""

    #: Name of the study.
    study: str
    #: Number of the share, from 0.
    number: int
    #: The runs.
    tasks: Sequence[Task]
    #: Limits of each.
    limits: Limits
    #: Folder of the plan.
    folder: Path

    @property
    def store(self) -> Path:
        """Folder of the store."""
        return self.folder.parents[1]


def write_plan(store: Path, study: str, tasks: Sequence[Task], limits: Limits, shares: int) -> Path:
    """Write the plan of runs in a new folder of a store that is open for writing."""
    others = [int(path.name) for path in (store / JOBS).glob("*") if path.name.isdecimal()]
    folder = make_folder(store / JOBS / str(max(others, default=0) + 1))
    head = {
        "format": FORMAT, "build": build(), "study": study, "limits": limits.table,
        "runs": len(tasks), "shares": shares,
    }  # fmt: skip
    lines = [json.dumps(head)]
    lines += [
        json.dumps([task.function, task.parameters, dict(task.inputs)], ensure_ascii=False)
        for task in tasks
    ]
    write_text(folder / PLAN, "\n".join(lines) + "\n")
    return folder


def read_share(folder: Path, number: int, registered: Registered) -> Share:
    """Return a share of the plan in a folder.

    `registered`: function that returns the registered function of a run.
    """
    path = folder.resolve() / PLAN
    head_line, *lines = read_text(path).removesuffix("\n").split("\n")
    try:
        head = json.loads(head_line)
        made_by, shares, runs = head["build"], head["shares"], head["runs"]
        known = head["format"] == FORMAT and runs == len(lines)
        limits, study = Limits(**head["limits"]), str(head["study"])
        known = known and isinstance(shares, int) and shares > 0 and isinstance(made_by, str)
        known = known and all(isinstance(each, int | float) for each in head["limits"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known = False
    if not known:
        raise InputError("is not a whole plan of runs of weft", file=path)
    if made_by != build():
        raise InputError(
            f"was made by weft {made_by}, but this is {build()}; expected one version: "
            "write the jobs again with weft study FILE --sbatch",
            file=path,
        )
    if not 0 <= number < shares:
        raise InputError(f"has the shares 0 to {shares - 1}, but not {number}", file=path)
    tasks = []
    for at in range(number, runs, shares):
        try:
            function, parameters, inputs = json.loads(lines[at])
            whole = isinstance(parameters, dict) and is_texts(inputs)
        except (ValueError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise InputError("is not a run of weft", file=path, line=at + 2)
        with in_file(path, at + 2):
            tasks.append(Task(registered(function, parameters), parameters, inputs))
    return Share(study, number, tasks, limits, path.parent)


def perform_share(
    share: Share, executor: Executor, watch: Callable[[StudyProgress], None]
) -> StudyProgress:
    """Perform the runs of a share whose results are not there yet, and write each at once.

    `watch`: as in `weft.study.runs.execute.execute`.

    Returns what was done; `stopping` if an interrupt ended it.
    """
    store = share.store
    check_parts(store)
    tasks = [task for task in share.tasks if not result_path(store, task.key).exists()]
    progress = StudyProgress(share.study, len(share.tasks), len(share.tasks) - len(tasks))
    execute(
        tasks,
        executor,
        lambda task, packed, wall_s, memory: write_result(
            store, record_of(task, packed, wall_s, memory, share.limits.table), packed
        ),
        share.limits,
        progress,
        share.folder / PROGRESS_OF_SHARE.format(share=share.number),
        watch,
    )
    return progress


def result_path(store: Path, key: str) -> Path:
    """Return the file of a result that is to be collected."""
    return store / INCOMING / key[:2] / f"{key}.run"


def write_result(store: Path, record: Mapping[str, Any], packed: Packed) -> None:
    """Write a result to be collected."""
    path = result_path(store, record["key"])
    make_folder(path.parent)
    tables = [packed.tables[name] for name in json.loads(record["tables"])]
    write_bytes(path, b"\n".join([json.dumps(record).encode(), b"".join(tables)]), follow=False)


def read_result(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the row and the tables of a result."""
    try:
        line, newline, data = path.read_bytes().partition(b"\n")
        record = json.loads(line)
        whole = bool(newline) and record["key"] == path.stem
        run_of([record[name] for name in COLUMNS], path)
        tables, at = {}, 0
        for name, (size, digest) in json.loads(record["tables"]).items() if whole else ():
            tables[name] = data[at : at + size]
            at += size
            whole = whole and hashlib.sha256(tables[name]).hexdigest() == digest
        whole = whole and at == len(data)
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror}", file=path) from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        whole = False
    except StoreError as error:
        raise InputError(f"is not a whole result of a run: {error.message}", file=path) from None
    if not whole:
        raise InputError("is not a whole result of a run", file=path)
    return record, tables


def waiting_results(store: Path) -> list[Path]:
    """Return the results that are to be collected."""
    return sorted((store / INCOMING).glob("*/*.run"))


def collect(store: Store) -> tuple[int, list[str]]:
    """Take the results of jobs into a store that is open for writing.

    A file is removed when its result is in the index and on the disk, so that the collection may
    be ended at any instant and begun again. A result does not replace one of this version of weft
    if it is of another, nor a settled one if it is not.

    Returns the number of results, and what is wrong with files that are damaged; these are removed,
    and their runs are still to be computed.
    """
    wrong: list[str] = []
    found = waiting_results(store.folder)
    for start in range(0, len(found), _AT_ONCE):
        part = found[start : start + _AT_ONCE]
        for path in part:
            try:
                record, tables = read_result(path)
            except StoreError:
                raise
            except InputError as error:
                wrong.append(str(error))
                continue
            have = store.briefs([record["key"]]).get(record["key"])
            if have is None or not (_is_better(have, record) and store.is_whole(path.stem, have)):
                store.insert(record, tables)
        store.query("PRAGMA wal_checkpoint(PASSIVE)")  # waits for the disk
        try:
            for path in part:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot be removed: {error.strerror}", file=path) from None
    _remove_unfinished(store.folder)
    return len(found) - len(wrong), wrong


def _is_better(have: Brief, record: Mapping[str, Any]) -> bool:
    """Return whether a stored run is at least as good as a result that waits, for example again."""
    if have.status not in SETTLED:
        return False
    if have.build == record["build"]:
        return record["status"] not in SETTLED or record["status"] == have.status
    functions = computing_functions(record["function"], json.loads(record["parameters"]))
    return have.build == build_of(*functions)


def _remove_unfinished(store: Path) -> None:
    """Remove the temporary files of processes that were killed long ago."""
    for path in (store / INCOMING).glob("*/.*.tmp"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _UNFINISHED_S:
                path.unlink()
