"""Lists of the runs of a study, filtered and sorted by the index itself, and lists of studies."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from weft.core.errors import InputError
from weft.study.runs.rows import StoredRun
from weft.study.runs.store import Store
from weft.study.runs.task import Status

#: Status of a run of a study that the store does not have.
NOT_RUN = "not run"
STATUSES = (*get_args(Status), NOT_RUN)
#: Status of a row of members and, perhaps, runs.
_STATUS = f"ifnull(r.status, '{NOT_RUN}')"
#: Fields of a listed run -> the expression of SQL.
_FIELDS = {
    "run": "m.number", "key": "m.key", "seed": "m.seed", "status": _STATUS, "wall_s": "r.wall_s",
    "memory_bytes": "r.memory_bytes", "version": "r.build", "ended_s": "r.ended_s",
    "point": "m.point", "reason": "r.reason", "measures": "r.measures",
}  # fmt: skip
_STATUS_AT = list(_FIELDS).index("status")
#: Columns besides axes and measures by which runs are sorted -> the expression of SQL.
_COLUMNS = {
    "run": "m.number", "seed": "m.seed", "status": _STATUS, "wall": "r.wall_s",
    "memory": "r.memory_bytes", "version": "r.build", "age": "-r.ended_s", "key": "m.key",
}  # fmt: skip
#: Number of measures that are shown if none are asked for.
_MAIN = 3
#: Shortest beginning of a key; a shorter text of digits is the number of a run.
_SHORTEST_KEY = 4
_NUMBER = re.compile(r"[0-9]{1,7}")


class ListedRun(NamedTuple):
    """A run in a list."""

    #: As in `weft.study.runs.store.Member`; the number is called ``run``.
    run: int
    key: str
    seed: int | None
    #: Status, or ``not run``.
    status: str
    #: As in `weft.study.runs.store.StoredRun`, with the build as version; None or empty if the run
    #: is not stored.
    wall_s: float | None
    memory_bytes: int | None
    version: str | None
    ended_s: float | None
    point: Mapping[str, str]
    reason: str
    measures: Mapping[str, Any]


@dataclass(frozen=True)
class RunList:
    """Runs of a study that match, and what to show of them."""

    #: Name of the study.
    study: str
    #: The first of the runs that match.
    runs: Sequence[ListedRun]
    #: Status -> number of all runs that match.
    statuses: Mapping[str, int]
    #: Axes with more than one value; ``seed`` if there are several.
    axes: Sequence[str]
    #: Measures to show.
    measures: Sequence[str]

    @property
    def total(self) -> int:
        """Number of all runs that match."""
        return sum(self.statuses.values())


def list_runs(
    store: Store,
    study: str | None = None,
    *,
    where: Iterable[str] = (),
    status: Iterable[str] = (),
    sort: str | None = None,
    descending: bool = False,
    limit: int = 0,
) -> RunList:
    """Return the runs of a study that match.

    - `study`: name of the study; by default the one that was run last.
    - `where`: texts ``AXIS=VALUE``; values may contain ``*``. Runs match if they have one of the
      values of each axis that is named.
    - `status`: statuses; all if empty.
    - `sort`: column, axis or measure by which the runs are sorted; by default their number. Runs
      without a value are last.
    - `descending`: whether the largest value is first.
    - `limit`: largest number of runs; 0 for all.
    """
    name = chosen_study(store, study)
    about = store.studies()[name]
    axes: dict[str, list[str]] = about["axes"]
    conditions, values = _conditions(store, {**axes, "seed": about["seeds"]}, where, status)
    order, by = _order(store, name, axes, sort)
    tables = "members m LEFT JOIN runs r ON r.key = m.key"
    test = " AND ".join(["m.study = ?", *conditions])
    way = " DESC" if descending else ""
    fields = ", ".join(_FIELDS.values())
    if not limit:
        rows = store.query(
            f"SELECT {fields} FROM {tables} WHERE {test} ORDER BY "
            + (f"{order} IS NULL, {order}{way}, " if sort else "")
            + f"m.number{way}",
            [name, *values, *by, *by],
        )
        counted = Counter(row[_STATUS_AT] for row in rows)
    else:
        # Runs are joined once, for the counts and the order; the rows shown are read after this.
        store.query("DROP TABLE IF EXISTS temp.found")
        store.query(
            f"CREATE TEMP TABLE found AS SELECT m.number, {_STATUS} AS status, {order} AS place "
            f"FROM {tables} WHERE {test}",
            [*by, name, *values],
        )
        counted = Counter(dict(store.query("SELECT status, count(*) FROM found GROUP BY 1")))
        rows = store.query(
            f"WITH page AS (SELECT * FROM found ORDER BY place IS NULL, place{way}, number{way} "
            f"LIMIT {limit:d}) SELECT {fields} FROM page CROSS JOIN {tables} "
            "WHERE m.study = ? AND m.number = page.number "
            f"ORDER BY page.place IS NULL, page.place{way}, page.number{way}",
            [name],
        )
    points: dict[str, dict[str, str]] = {}
    runs = [_listed(store, row, points) for row in rows]
    shown = about["measures"] or _first_measures(runs)
    if sort is not None and sort not in (*_COLUMNS, *axes, *shown):
        shown = [*shown, sort]
    varied = [axis for axis, listed in axes.items() if len(listed) > 1]
    if len(about["seeds"]) > 1:
        varied.append("seed")
    return RunList(name, runs, dict(counted), varied, shown)


def chosen_study(store: Store, study: str | None) -> str:
    """Return the name of a study of a store; by default the one that was run last."""
    known = list(store.studies())
    if not known:
        raise InputError("has no study yet", file=store.folder)
    if study is None:
        return known[-1]
    if study not in known:
        raise _unknown(store, "study", study, known)
    return study


def check_statuses(store: Store, status: Iterable[str]) -> None:
    """Refuse unknown statuses."""
    for each in status:
        if each not in STATUSES:
            raise _unknown(store, "status", each, STATUSES)


def named_run(store: Store, name: str, study: str | None = None) -> tuple[str, StoredRun]:
    """Return the key of a run, and the run.

    `name`: the number of the run in the study, or the beginning of its key. `study`: name of the
    study; by default the one that was run last.
    """
    if _NUMBER.fullmatch(name):
        chosen = chosen_study(store, study)
        rows = store.query(
            "SELECT key FROM members WHERE study = ? AND number = ?", [chosen, int(name)]
        )
        if not rows:
            ((count,),) = store.query("SELECT count(*) FROM members WHERE study = ?", [chosen])
            raise InputError(
                f"the study {chosen!r} has no run {name}; expected 1 to {count:,}",
                file=store.folder,
            )
        key: str = store.checked("key", rows[0][0])
    else:
        key = _whole_key(store, name)
    run = store.run(key)
    if run is None:
        raise InputError(f"the run {name} has not been computed yet", file=store.folder)
    return key, run


def _whole_key(store: Store, prefix: str) -> str:
    if not re.fullmatch(f"[0-9a-f]{{{_SHORTEST_KEY},32}}", prefix):
        raise InputError(
            f"{prefix!r} is no run: expected its number in the study, or the first "
            f"{_SHORTEST_KEY} or more of the hexadecimal digits of its key"
        )
    query = "SELECT key FROM {} WHERE key >= ? AND key < ? LIMIT 3"
    span = [prefix, prefix + "g"]
    found = sorted(
        {key for table in ("runs", "members") for (key,) in store.query(query.format(table), span)}
    )
    if not found:
        keys = [key for (key,) in store.query("SELECT key FROM runs LIMIT 100000")]
        near = [key[: len(prefix)] for key in keys]
        raise _unknown(store, "run", prefix, near, listed=False)
    if len(found) > 1:
        raise InputError(
            f"several runs begin with {prefix}: {', '.join(found[:3])}; give more digits",
            file=store.folder,
        )
    return str(found[0])


@dataclass(frozen=True)
class ListedStudy:
    """A study in a list."""

    #: As in the description of the study; the file is the one that was run.
    name: str
    title: str
    command: str
    file: str
    #: Number of its runs.
    runs: int
    #: Status -> number of runs.
    statuses: Mapping[str, int]
    #: Time of the last change in seconds since 1970.
    changed_s: float


def list_studies(store: Store) -> tuple[list[ListedStudy], int]:
    """Return the studies of a store, the last one last, and the number of runs in no study."""
    counts: dict[str, dict[str, int]] = {}
    for study, status, count in store.query(
        f"SELECT m.study, {_STATUS}, count(*) FROM members m "
        "LEFT JOIN runs r ON r.key = m.key GROUP BY 1, 2"
    ):
        known = status if status == NOT_RUN else store.checked("status", status)
        counts.setdefault(study, {})[known] = count
    rows = store.query("SELECT name, about, changed_s FROM studies ORDER BY changed_s")
    ((alone,),) = store.query(
        "SELECT count(*) FROM runs WHERE NOT EXISTS "
        "(SELECT 1 FROM members WHERE members.key = runs.key)"
    )
    listed = []
    for name, text, changed_s in rows:
        about, statuses = store.checked("about", text), counts.get(name, {})
        listed.append(
            ListedStudy(
                store.checked("study", name), about["title"], about["command"], about["file"],
                sum(statuses.values()), statuses, store.checked("changed_s", changed_s),
            )
        )  # fmt: skip
    return listed, alone


# -- queries ---------------------------------------------------------------------------------------


def _conditions(
    store: Store, axes: Mapping[str, Sequence[Any]], where: Iterable[str], status: Iterable[str]
) -> tuple[list[str], list[Any]]:
    """Return conditions of SQL, and their values."""
    wanted: dict[str, list[str]] = {}
    for text in where:
        axis, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--where {text}: expected AXIS=VALUE, as in engine=minhop")
        if axis not in axes:
            raise _unknown(store, "axis", axis, list(axes))
        wanted.setdefault(axis, []).append(value)
    conditions, values = [], []
    for axis, patterns in wanted.items():
        known = [str(value) for value in axes[axis]]
        found: dict[str, None] = {}
        for pattern in patterns:
            test = re.compile(fnmatch.translate(pattern.replace("[", "[[]").replace("?", "[?]")))
            matching = [value for value in known if test.match(value)]
            if not matching:
                raise _unknown(store, f"value of {axis}", pattern, known)
            found |= dict.fromkeys(matching)
        # One list of JSON, since the number of values of a query is limited.
        if axis == "seed":
            conditions.append("m.seed IN (SELECT value + 0 FROM json_each(?))")
        else:
            conditions.append("json_extract(m.point, ?) IN (SELECT value FROM json_each(?))")
            values.append(_path(axis))
        values.append(json.dumps(list(found)))
    chosen = list(status)
    check_statuses(store, chosen)
    if chosen:
        conditions.append(f"{_STATUS} IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(chosen))
    return conditions, values


def _path(name: str) -> str:
    """Return the path of a key in JSON, as SQLite's functions expect it."""
    return f'$."{name}"'


def _order(
    store: Store, study: str, axes: Mapping[str, Sequence[str]], sort: str | None
) -> tuple[str, list[str]]:
    """Return the expression by which runs are sorted, and its values."""
    if sort is None:
        return "m.number", []
    if sort in _COLUMNS:
        return _COLUMNS[sort], []
    if sort in axes:
        # In the order of the file: 2 is before 10.
        store.define("place", dict(zip(axes[sort], range(len(axes[sort])), strict=True)).get)
        return "place(json_extract(m.point, ?))", [_path(sort)]
    of_study = "FROM members m JOIN runs r ON r.key = m.key WHERE m.study = ?"
    if not store.query(
        f"SELECT 1 {of_study} AND json_type(r.measures, ?) IS NOT NULL LIMIT 1",
        [study, _path(sort)],
    ):
        some = store.query(f"SELECT r.measures {of_study} LIMIT 1000", [study])
        names = dict.fromkeys(
            name for (text,) in some for name in store.checked("measures", text)
        )  # fmt: skip
        raise _unknown(store, "column", sort, [*_COLUMNS, *axes, *names])
    return "json_extract(r.measures, ?)", [_path(sort)]


def _first_measures(runs: Iterable[ListedRun]) -> list[str]:
    """Return the main measures of the runs: commands name the main one first."""
    found: dict[str, None] = {}
    for run in runs:
        found |= dict.fromkeys(run.measures)
        if len(found) >= _MAIN:
            break
    return list(found)[:_MAIN]


#: Name of a field of a listed run -> that of its column, if another.
_COLUMN_OF = {"run": "number", "version": "build"}


def _listed(store: Store, row: Sequence[Any], points: dict[str, dict[str, str]]) -> ListedRun:
    values: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    text = values["point"]
    if text not in points:  # repetitions have the same
        points[text] = store.checked("point", text)
    values["point"] = points[text]
    of = str(values["key"])[:8]
    if values["status"] != NOT_RUN:
        names = values.keys() - {"point"}
    else:
        names = {"run", "key", "seed"}
        values |= {"reason": "", "measures": {}}
    for name in names:
        values[name] = store.checked(_COLUMN_OF.get(name, name), values[name], of)
    return ListedRun(**values)


def _unknown(
    store: Store, kind: str, name: str, known: Sequence[str], *, listed: bool = True
) -> InputError:
    from weft.core.registry import did_you_mean  # imported late: slow to import

    some = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
    return InputError(
        f"has no {kind} {name!r}{did_you_mean(name, known)}"
        + (f"; expected one of {some}" if listed else ""),
        file=store.folder,
    )
