"""Checks of a store, what this version of weft would change in it, and removal of old runs."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.core.counts import count_text
from weft.core.errors import InputError
from weft.study.runs.executors import Executor, Limits, packed
from weft.study.runs.listing import check_statuses, list_studies
from weft.study.runs.rows import StoredRun, StoreError
from weft.study.runs.store import Store
from weft.study.runs.task import (
    SETTLED,
    Inputs,
    Packed,
    Registered,
    Task,
    changed_inputs,
    computing_functions,
)
from weft.study.runs.versions import build_of

#: The function that a typed run names.
_INNER = "CASE WHEN json_valid(parameters) THEN json_extract(parameters, '$.run') END"


@dataclass
class Findings:
    """What a check found, in sentences."""

    #: What is wrong.
    faults: list[str] = field(default_factory=list)
    #: What is worth knowing and not wrong.
    notes: list[str] = field(default_factory=list)
    #: Number of runs, and of tables that were read.
    runs: int = 0
    tables: int = 0


def check(store: Store) -> Findings:
    """Check the index, every table against its hash, and the input files of all runs.

    Runs that a study still lacks, results of other versions of weft, and files that a killed
    process left are not faults.
    """
    found = Findings(faults=list(store.damages()))
    for run in store.briefs().values():
        found.runs += 1
        found.tables += len(run.tables)
    for study in list_studies(store)[0]:
        store.members(study.name)  # each value is checked
    _check_inputs(store, found)
    for study, missing, runs in store.query(
        "SELECT m.study, sum(r.key IS NULL), count(*) FROM members m "
        "LEFT JOIN runs r ON r.key = m.key GROUP BY 1 HAVING sum(r.key IS NULL) > 0"
    ):
        found.notes.append(f"study {study}: {missing:,} of {runs:,} runs are not computed yet")
    older: Counter[tuple[str, str]] = Counter()
    for version, function, inner, count in _versions(store):
        if version != (now := _present(function, inner)):
            older[version, now] += count
    for (version, now), count in sorted(older.items()):
        found.notes.append(f"{count_text(count, 'run')} of weft {version}; this is {now}")
    if alone := len(removable(store, alone=True)):
        found.notes.append(f"{count_text(alone, 'run')} of no study")
    if left := store.files_of_no_run():
        found.notes.append(
            f"{count_text(len(left), 'file')} of no run; 'weft store prune' removes them"
        )
    return found


def _versions(store: Store) -> list[tuple[Any, ...]]:
    """Return the versions of the stored runs, the functions that they call, and their number."""
    return store.query(
        f"SELECT build, function, {_INNER}, count(*) FROM runs GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )


def _present(function: Any, inner: Any) -> str:
    """Return the present version of what computes runs."""
    return build_of(*computing_functions(str(function), {"run": inner}))


def _check_inputs(store: Store, found: Findings) -> None:
    """Compare the input files with what was read."""
    counts: dict[tuple[str, str], tuple[int, int, str]] = {}
    for text, runs, needed, first in store.query(
        "SELECT inputs, count(*), sum(key IN (SELECT key FROM members)), min(key) FROM runs "
        "WHERE inputs <> '{}' GROUP BY inputs"
    ):
        for each in store.checked("inputs", text).items():
            others = counts.get(each, (0, 0, first))
            counts[each] = (others[0] + runs, others[1] + needed, min(others[2], first))
    for (name, digest), (runs, needed, first) in sorted(counts.items()):
        reason = changed_inputs({name: digest}).get(name)
        if reason is None:
            continue
        of = "" if needed else " of no study"
        used = f"{count_text(needed or runs, 'run')}{of}, such as {first[:8]}"
        if reason == "has changed" and needed:
            found.faults.append(f"{name}: has changed since it was read by {used}")
        else:
            found.notes.append(f"{name}: {reason}; it was read by {used}")


# -- another version -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A measure, a table or the status of a run that this version of weft computes differently."""

    key: str
    #: Name of the measure, or ``status`` or ``table NAME``.
    name: str
    #: Stored and new value; None if there is none.
    before: Any
    after: Any

    @property
    def change(self) -> float | None:
        """The change relative to the stored number; None if one is no number, or zero."""
        for value in (self.before, self.after):
            if not isinstance(value, int | float) or isinstance(value, bool):
                return None
        return (self.after - self.before) / abs(self.before) if self.before else None


def sample(
    store: Store, count: int, seed: int, registered: Registered
) -> tuple[dict[str, tuple[StoredRun, Task]], list[str]]:
    """Choose runs at random that any machine would repeat, and whose inputs are unchanged.

    `count`, `seed`: largest number of runs, and seed of the choice. `registered`: function that
    returns the registered function of a run.

    Returns runs and their tasks by key, and why other runs were not chosen whose functions are not
    registered.
    """
    marks = ", ".join("?" * len(SETTLED))
    keys = [
        key
        for (key,) in store.query(
            f"SELECT key FROM runs WHERE status IN ({marks}) ORDER BY key", sorted(SETTLED)
        )
    ]
    random.Random(seed).shuffle(keys)
    chosen: dict[str, tuple[StoredRun, Task]] = {}
    unknown = []
    for key in keys:
        if len(chosen) == count:
            break
        run = store.run(key)
        if run is None:
            continue
        try:
            # Its files are those that the parameters name, whatever its row says.
            if not Inputs().are(run.parameters, run.inputs):
                continue
            function = registered(run.function, run.parameters)
        except InputError as error:
            if not error.file:
                unknown.append(f"run {key[:8]}: {error.message}")
            continue
        chosen[key] = run, Task(function, run.parameters, run.inputs)
    return chosen, unknown


def computed_again(
    store: Store, chosen: Mapping[str, tuple[StoredRun, Task]], executor: Executor
) -> Iterator[tuple[StoredRun, list[Difference]]]:
    """Compute runs again, store nothing, and yield how each differs, as soon as it is known.

    `store`, `chosen`: the store, and runs of it as `sample` returns them.
    """
    runs = [run for run, _ in chosen.values()]
    tasks = [task for _, task in chosen.values()]
    with executor:
        for ended in executor.run(iter(enumerate(tasks)), lambda: None):
            run = runs[ended.number]
            yield run, list(_differences(store, run, packed(ended, Limits())))


def _differences(store: Store, run: StoredRun, now: Packed) -> Iterator[Difference]:
    if run.status != now.status:
        yield Difference(run.key, "status", run.status, f"{now.status} {now.reason}".rstrip())
        return
    measures = json.loads(now.measures)
    for name in dict.fromkeys([*run.measures, *measures]):
        before, after = run.measures.get(name), measures.get(name)
        if before != after:
            yield Difference(run.key, name, before, after)
    for name in dict.fromkeys([*run.tables, *now.tables]):
        if not _equal_tables(store, run, name, now.tables):
            yield Difference(
                run.key, f"table {name}", _about(name, run.tables), _about(name, now.tables)
            )


def _about(name: str, tables: Mapping[str, Any]) -> str | None:
    return "stored" if name in tables else None


def _equal_tables(store: Store, run: StoredRun, name: str, now: Mapping[str, bytes]) -> bool:
    import polars as pl  # imported late: slow to import

    if name not in run.tables or name not in now:
        return False
    try:
        before = store.table(run.key, name)
    except StoreError:
        return False
    # Equal tables may be different files, of another version of Polars.
    return before is not None and before.equals(pl.read_parquet(io.BytesIO(now[name])))


# -- removal ---------------------------------------------------------------------------------------


def removable(
    store: Store,
    *,
    status: Sequence[str] = (),
    older: bool = False,
    alone: bool = False,
    damaged: bool = False,
) -> list[str]:
    """Return the keys of the runs to which all given conditions apply; none if none is given.

    `status`: whether the run has one of these statuses. `older`: whether another version of weft
    computed it. `alone`: whether it belongs to no study. `damaged`: whether a table is missing or
    damaged.
    """
    check_statuses(store, status)
    tests, values = [], []
    if status:
        tests.append("status IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(status)))
    if older:
        found = [key[:3] for key in _versions(store) if key[0] != _present(*key[1:3])]
        tests.append(f"json_array(build, function, {_INNER}) IN (SELECT value FROM json_each(?))")
        values.append(json.dumps([json.dumps(each, separators=(",", ":")) for each in found]))
    if alone:
        tests.append("NOT EXISTS (SELECT 1 FROM members WHERE members.key = runs.key)")
    if not tests and not damaged:
        return []
    rows = store.query(
        f"SELECT key FROM runs WHERE {' AND '.join(tests or ['1'])} ORDER BY key", values
    )
    keys = [key for (key,) in rows]
    if damaged:
        return [key for key, run in store.briefs(keys).items() if store.wrong_tables(key, run)]
    return keys
