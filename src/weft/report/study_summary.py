"""Summary of a study: statistics of its points, the best by each measure, averages over axes.

A point is a combination of values of all axes; its runs differ in their seeds only. Complete runs
have values; others are counted and listed with their reasons.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, Measure, frame, frame_of_rows
from weft.core.counts import with_status
from weft.core.errors import InputError
from weft.core.registry import wrong_name
from weft.core.student import CONFIDENCE
from weft.report.statistics import (
    Array,
    ReferenceComparison,
    are_positive,
    average,
    averaged,
    compared,
    holm,
    spread,
)
from weft.report.study_data import CONDITIONS, COUNTS, StudyData

_HALF = "Half-width of the 95 % confidence interval of the mean (null: one run, or no variation)"
_P = "p-value of no difference, adjusted by Holm's method (null: no test)"
_MEAN = "Geometric mean; arithmetic if a value of the measure is not positive"
_MISSING = "Missing or excluded runs; a seed that lacks one is left out"
_TEST = (
    "t-test: paired (by seed), one-sample (one side is deterministic) or Welch; or why there is "
    "none: deterministic, no variation, or empty (one run)"
)
_FIXED = "Whether nothing random differs between its runs, which then count as one"

#: Columns of `Summary.points` after the axes.
POINT_COLUMNS: Mapping[str, Column] = {
    "point": Column(pl.Int32, "", "Number of the point, from 1, in the order of the file"),
    "measure": Column(pl.String, "", "Measure"),
    "unit": Column(pl.String, "", "Unit of the measure"),
    "runs": Column(pl.Int32, "", "Runs of the point"),
    "n": Column(pl.Int32, "", "Complete runs with a value"),
    "deterministic": Column(pl.Boolean, "", _FIXED),
    "excluded": Column(pl.Int32, "", "Complete runs that do not count, such as saturated ones"),
    "mean": Column(pl.Float64, "", "Mean (null: no complete run)"),
    "ci95": Column(pl.Float64, "", _HALF),
    "median": Column(pl.Float64, "", "Median"),
    "min": Column(pl.Float64, "", "Least value"),
    "max": Column(pl.Float64, "", "Largest value"),
    "ratio": Column(
        pl.Float64, "", "Geometric mean of the ratios to the baseline (null: no baseline)"
    ),
    "ratio_low": Column(pl.Float64, "", "Lower end of its 95 % confidence interval"),
    "ratio_high": Column(pl.Float64, "", "Upper end"),
    "p": Column(pl.Float64, "", _P),
    "test": Column(pl.String, "", _TEST),
    "significant": Column(pl.Boolean, "", "Whether the difference to the baseline is significant"),
    "note": Column(pl.String, "", "Runs without a result or excluded, and missing seeds"),
}
#: Columns of `Summary.best`.
BEST_COLUMNS: Mapping[str, Column] = {
    "measure": Column(pl.String, "", "Measure"),
    "unit": Column(pl.String, "", "Unit of the measure"),
    "under": Column(
        pl.String, "", "Values of the conditions (empty: on average, or no conditions)"
    ),
    "conditions": Column(pl.Int32, "", "Number of combinations of conditions that are averaged"),
    "excluded": POINT_COLUMNS["excluded"],
    "choices": Column(pl.Int32, "", "Choices that are compared"),
    "left_out": Column(
        pl.Int32, "", "Choices that are not compared: they lack runs, or runs that count"
    ),
    "best": Column(pl.String, "", "Best choice (null: none has a result)"),
    "equal": Column(pl.Int32, "", "Other choices with the same mean"),
    "n": Column(pl.Int32, "", "Seeds"),
    "deterministic": POINT_COLUMNS["deterministic"],
    "missing": Column(pl.Int32, "", _MISSING),
    "mean": Column(pl.Float64, "", _MEAN),
    "low": Column(pl.Float64, "", "Lower end of its 95 % confidence interval (null: no interval)"),
    "high": Column(pl.Float64, "", "Upper end"),
    "runner_up": Column(pl.String, "", "Best choice with another mean (null: none)"),
    "runner_up_mean": Column(pl.Float64, "", "Its mean"),
    "runner_up_missing": Column(pl.Int32, "", "Its missing or excluded runs"),
    "compared": Column(pl.Int32, "", "Common seeds of a paired comparison, else all seeds"),
    "ratio": Column(pl.Float64, "", "Geometric mean of the ratios of the runner-up to the best"),
    "ratio_low": POINT_COLUMNS["ratio_low"],
    "ratio_high": POINT_COLUMNS["ratio_high"],
    "p": POINT_COLUMNS["p"],
    "test": POINT_COLUMNS["test"],
    "significant": Column(pl.Boolean, "", "Whether best and runner-up differ significantly"),
    "not_worse": Column(
        pl.Int32, "", "Choices of another mean that do not differ significantly from the best"
    ),
}
#: Columns of `Summary.effects`.
EFFECT_COLUMNS: Mapping[str, Column] = {
    "measure": Column(pl.String, "", "Measure"),
    "unit": Column(pl.String, "", "Unit of the measure"),
    "axis": Column(pl.String, "", "Axis"),
    "value": Column(pl.String, "", "Value of the axis"),
    "combinations": Column(pl.Int32, "", "Combinations of the other axes that are averaged"),
    "of": Column(pl.Int32, "", "All combinations of the other axes"),
    "missing": BEST_COLUMNS["missing"],
    "n": BEST_COLUMNS["n"],
    "deterministic": POINT_COLUMNS["deterministic"],
    "mean": BEST_COLUMNS["mean"],
    "low": BEST_COLUMNS["low"],
    "high": BEST_COLUMNS["high"],
    "best": Column(pl.Boolean, "", "Whether this is the best value of the axis"),
    "ratio": Column(pl.Float64, "", "Geometric mean of the ratios to the best value of the axis"),
    "ratio_low": POINT_COLUMNS["ratio_low"],
    "ratio_high": POINT_COLUMNS["ratio_high"],
    "p": POINT_COLUMNS["p"],
    "test": POINT_COLUMNS["test"],
    "significant": Column(pl.Boolean, "", "Whether it differs significantly from the best value"),
}
#: Columns of `Summary.unfinished`.
UNFINISHED_COLUMNS: Mapping[str, Column] = {
    "status": Column(pl.String, "", "Status"),
    "reason": Column(pl.String, "", "Reason of the first of these runs"),
    "others": Column(pl.Int32, "", "Number of other reasons, which begin alike but for numbers"),
    "runs": Column(pl.Int32, "", "Number of runs"),
    "where": Column(pl.String, "", "Values that all these runs have in common"),
    "first": Column(pl.Int32, "", "Number of the first of these runs"),
}


@dataclass(frozen=True, eq=False)
class Summary:
    """Statistics of a study."""

    data: StudyData
    #: Axes with more than one value, and their values.
    axes: Mapping[str, tuple[str, ...]]
    #: Measure -> float64 [points, seeds]: values of complete runs that count, else NaN.
    values: Mapping[str, Array]
    #: Measure -> bool [points]: whether nothing random differs; the value is then that of all
    #: seeds.
    fixed: Mapping[str, NDArray[np.bool_]]
    #: Measure -> int64 [points]: complete runs whose value does not count.
    excluded: Mapping[str, NDArray[np.int64]]
    #: Measure -> bool [points]: whether runs are excluded or ended by a limit, so that the others
    #: may be better than all would be.
    cut: Mapping[str, NDArray[np.bool_]]
    #: int64 [points, axes]: index of each point's value of each axis.
    at: NDArray[np.int64]
    #: Label of each point: its values of `axes`.
    labels: tuple[str, ...]
    #: Note on runs without a result of each point; empty if all are complete.
    notes: tuple[str, ...]
    #: Keys of the complete runs of each point.
    keys: tuple[tuple[str, ...], ...]
    #: Tables of the axes and `POINT_COLUMNS`, of `BEST_COLUMNS`, `EFFECT_COLUMNS` and
    #: `UNFINISHED_COLUMNS`.
    points: pl.DataFrame
    best: pl.DataFrame
    effects: pl.DataFrame
    unfinished: pl.DataFrame

    @property
    def seeds(self) -> int:
        """Largest number of runs of a point."""
        return int(next(iter(self.values.values())).shape[1]) if self.values else 0

    @property
    def uncompared(self) -> bool:
        """Whether no point has a complete run of the baseline to be compared with."""
        return bool((self.points["test"] == "").all() and self.points["ratio"].is_null().all())

    @property
    def lacking(self) -> int:
        """Number of points that lack complete runs."""
        return sum(len(keys) < self.seeds for keys in self.keys)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions among the axes."""
        given = self.data.conditions
        if given is None:
            given = tuple(
                name for name in self.axes if not set(name.split(".")).isdisjoint(CONDITIONS)
            )
            choices = [name for name in self.axes if name not in given]
            given = tuple(
                name
                for name in given
                if not (name.endswith(COUNTS) and any(self._follows(name, of) for of in choices))
            )
        return tuple(name for name in self.axes if name in given)

    def _follows(self, name: str, of: str) -> bool:
        """Return whether each value of an axis has one value of another, as in a zip."""
        pair = self.at[:, [list(self.axes).index(each) for each in (of, name)]]
        return len(np.unique(pair, axis=0)) == len(np.unique(pair[:, 0]))


def chosen(
    data: StudyData,
    measures: Sequence[str] = (),
    baseline: Mapping[str, str] | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
) -> StudyData:
    """Return a study with some measures, another baseline, or a part of its runs.

    `measures`: names of measures, the main one first. Default: all. `baseline`: as
    `StudyData.baseline`. Default: that of the study. `where`: axis -> values of the runs that
    remain. Default: all.
    """
    known = {measure.name: measure for measure in data.measures}
    for name in measures:
        if name not in known:
            raise InputError(wrong_name("the study has no measure", name, known, "expected"))
    for axis, values in [*(where or {}).items(), *((a, (v,)) for a, v in (baseline or {}).items())]:
        if axis not in data.axes:
            raise InputError(wrong_name("the study has no axis", axis, data.axes, "expected"))
        for value in values:
            if value not in data.axes[axis]:
                listed = ", ".join(data.axes[axis])
                raise InputError(f"axis {axis} has no value {value!r}; expected {listed}")
    runs, axes = data.runs, dict(data.axes)
    for axis, values in (where or {}).items():
        runs = runs.filter(pl.col(axis).is_in(list(values)))
        axes[axis] = tuple(value for value in axes[axis] if value in values)
    if where and runs.is_empty():
        raise InputError("no run has all the given values")
    return replace(
        data,
        runs=runs,
        axes=axes,
        measures=tuple(known[name] for name in measures) if measures else data.measures,
        baseline=dict(data.baseline if baseline is None else baseline),
    )


def summary(data: StudyData) -> Summary:
    """Return the statistics of a study."""
    if data.runs.is_empty() or not data.measures:
        what = "measures" if len(data.runs) else "runs"
        raise InputError(f"{data.title or 'the study'} has no {what}")
    found = {name: data.runs[name].unique(maintain_order=True).to_list() for name in data.axes}
    # A value that no run has is not of the study; one that is not listed is (an empty one).
    known = {
        name: (
            *(v for v in values if v in found[name]),
            *(v for v in found[name] if v not in values),
        )
        for name, values in data.axes.items()
    }
    data = replace(data, axes=known)
    axes = {name: values for name, values in known.items() if len(values) > 1}
    runs = _numbered(data)
    at = np.stack(
        [
            runs.unique("point", maintain_order=True)[name]
            .replace_strict({value: i for i, value in enumerate(values)}, return_dtype=pl.Int64)
            .to_numpy()
            for name, values in data.axes.items()
        ]
        or [np.zeros(1, dtype=np.int64)],
        axis=1,
    )
    shape = len(at), int(runs["column"].max()) + 1  # type: ignore[arg-type]
    # Runs that ended early measure only a part, so they are not compared with complete ones.
    done = runs.filter(pl.col("status") == "complete")
    alike = _alike(data, runs)
    ended = runs.filter(pl.col("status").is_in(_CUT))["point"].to_numpy()
    stopped = np.bincount(ended, minlength=shape[0]) > 0
    values, fixed, excluded, cut = {}, {}, {}, {}
    for measure in data.measures:
        out = {key for key, (_, names) in data.excluded.items() if measure.name in names}
        rows = done.with_columns(out=pl.col("key").is_in(out)) if out else done
        column = rows[measure.name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        if out:
            column = np.where(rows["out"].to_numpy(), np.nan, column)
            here = rows.filter("out").unique(("point", "key"))["point"]
            excluded[measure.name] = np.bincount(here.to_numpy(), minlength=shape[0])
        else:
            excluded[measure.name] = np.zeros(shape[0], dtype=np.int64)
        table = np.full(shape, np.nan)
        table[done["point"].to_numpy(), done["column"].to_numpy()] = column
        table = np.where(np.isfinite(table), table, np.nan)
        same = np.array([measure.name in each for each in alike])
        known = np.isfinite(table).any(axis=1) & same
        first = np.isfinite(table).argmax(axis=1)
        table[known] = table[known, first[known]][:, None]
        values[measure.name], fixed[measure.name] = table, same
        cut[measure.name] = ((excluded[measure.name] > 0) | stopped) & ~same
    names = [name for name in data.axes if name in axes]
    columns = [list(data.axes).index(name) for name in names]
    inner = at[:, columns] if names else np.zeros((len(at), 0), dtype=np.int64)
    labels = tuple(label(dict(zip(names, _texts(axes, row), strict=True))) for row in inner)
    keys: list[list[str]] = [[] for _ in labels]
    for point, key in done.select("point", "key").iter_rows():
        keys[point].append(key)
    made = Summary(
        data, axes, values, fixed, excluded, cut, inner, labels,
        _notes(data, runs, shape), tuple(map(tuple, keys)),
        pl.DataFrame(), pl.DataFrame(), pl.DataFrame(), _unfinished(data),
    )  # fmt: skip
    directed = [measure for measure in data.measures if measure.better is not None]
    return replace(
        made,
        points=_points(made, runs),
        best=frame_of_rows(BEST_COLUMNS, [row for each in directed for row in _best(made, each)]),
        effects=frame_of_rows(
            EFFECT_COLUMNS, [row for each in directed for row in _effects(made, each)]
        ),
    )


def _alike(data: StudyData, runs: pl.DataFrame) -> list[Collection[str]]:
    """Return the measures of each point that are equal in all its runs: nothing random differs."""
    every = [measure.name for measure in data.measures]
    found: list[Collection[str]] = []
    for (keys,) in runs.group_by("point", maintain_order=True).agg("key").select("key").iter_rows():
        equal = len(keys) > 1 and len(set(keys)) == 1
        found.append(every if equal else data.fixed(keys))
    return found


def label(values: Mapping[str, str]) -> str:
    """Return the values of a point as text; numbers and truth values are named by their axis."""
    return " · ".join(
        f"{axis} {value}" if _BARE.fullmatch(value) else value
        for axis, value in values.items()
        if value  # a run may lack an axis: a routing function has no engine
    )


#: Number of first characters that are equal in reasons that are listed together.
_ALIKE = 60
#: Statuses of runs that a limit ended, which are often the slowest.
_CUT = ("partial", "stopped", "out of time", "out of memory")
_BARE = re.compile(r"[-+.\d][\w.+-]*|true|false|none", re.IGNORECASE)


def numeric_axes(axes: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the axes whose values are numbers, loads first."""

    def is_number(text: str) -> bool:
        try:
            return bool(np.isfinite(float(text)))
        except ValueError:
            return False

    found = [name for name, values in axes.items() if all(map(is_number, values))]
    return sorted(found, key=lambda name: "load" not in name)


def _texts(axes: Mapping[str, tuple[str, ...]], row: NDArray[np.int64]) -> list[str]:
    return [values[index] for values, index in zip(axes.values(), row, strict=True)]


def _numbered(data: StudyData) -> pl.DataFrame:
    """Add to each run the index of its point and its column in `Summary.values`: its seed."""
    axes, runs = list(data.axes), data.runs
    point = pl.struct(axes).rank("dense") if axes else pl.lit(1)
    runs = runs.with_columns(point=point.cast(pl.Int64))
    order = runs["point"].unique(maintain_order=True)
    runs = runs.with_columns(
        point=pl.col("point").replace_strict(order, np.arange(len(order)), return_dtype=pl.Int64),
        again=pl.int_range(pl.len()).over("point", "seed"),
    )
    seeds = runs.select("seed", "again").unique().sort("again", "seed", nulls_last=True)
    seeds = seeds.with_row_index("column")
    return runs.join(
        seeds, on=["seed", "again"], how="left", nulls_equal=True, maintain_order="left"
    )


def _notes(data: StudyData, runs: pl.DataFrame, shape: tuple[int, int]) -> tuple[str, ...]:
    """Return a note for each point on its runs that lack a result or are excluded."""
    why = {key: word for key, (word, _) in data.excluded.items()}
    word = pl.col("key").replace_strict(why, default="", return_dtype=pl.String)
    words = runs.filter(pl.col("status") == "complete", word != "").with_columns(word=word)
    others: list[list[str]] = [[] for _ in range(shape[0])]
    for point, text, number in words.group_by("point", "word", maintain_order=True).len().rows():
        others[point].append(f"{number} {text}")
    absent: list[dict[str, int]] = [{} for _ in range(shape[0])]
    listed = np.zeros(shape[0], dtype=np.int64)
    for row in runs.group_by("point", "status", maintain_order=True).len().iter_rows(named=True):
        listed[row["point"]] += row["len"]
        if row["status"] != "complete":
            absent[row["point"]][row["status"]] = row["len"]
    notes = []
    for each, count, more in zip(absent, listed.tolist(), others, strict=True):
        if count < shape[1]:
            each["missing"] = shape[1] - count
        parts = ", ".join(with_status(number, status) for status, number in each.items())
        note = f"{shape[1] - sum(each.values())} of {shape[1]} runs: {parts}" if parts else ""
        notes.append("; ".join([*([note] if note else []), *more]))
    return tuple(notes)


def _unfinished(data: StudyData) -> pl.DataFrame:
    """Return the runs that are not complete, by status and reason."""
    rows = []
    other = data.runs.filter(pl.col("status") != "complete").with_columns(
        pl.col("reason").fill_null("")
    )
    alike = pl.col("reason").str.replace_all(r"\d+(\.\d+)?", "#").str.head(_ALIKE).alias("alike")
    for (status, _), part in other.group_by("status", alike, maintain_order=True):
        shared = {
            axis: part[axis][0]
            for axis, values in data.axes.items()
            if len(values) > 1 and part[axis].n_unique() == 1
        }
        reason, others = part["reason"][0], part["reason"].n_unique() - 1
        rows.append((status, reason, others, len(part), label(shared), part["run"][0]))
    return frame_of_rows(UNFINISHED_COLUMNS, rows)


def _points(made: Summary, runs: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each measure and point."""
    data, count = made.data, len(made.labels)
    heads = runs.unique("point", maintain_order=True).select(*data.axes)
    number = np.bincount(runs["point"].to_numpy(), minlength=count)
    reference = _baseline(made, heads)
    frames = []
    for measure in data.measures:
        values = made.values[measure.name]
        found = spread(values)
        against = compared(values, np.where(reference[:, None] >= 0, values[reference], np.nan))
        fixed = made.fixed[measure.name]
        own = reference == np.arange(count)
        # The baseline is not compared with itself.
        p = holm(np.where(own, np.nan, against.p))
        columns = {
            "point": np.arange(1, count + 1), "measure": [measure.name] * count,
            "unit": [measure.unit] * count, "runs": number,
            "n": np.where(fixed, np.minimum(found.number, 1), found.number),
            "deterministic": fixed, "excluded": made.excluded[measure.name],
            "mean": found.mean, "ci95": found.half, "median": found.median, "min": found.least,
            "max": found.most, "ratio": against.ratio,
            "ratio_low": np.where(own, np.nan, against.low),
            "ratio_high": np.where(own, np.nan, against.high),
            "p": p,
            "test": np.where(own, "", _test(against, fixed, fixed[reference])),
            "significant": [*map(_significant, p)],
            "note": list(made.notes),
        }  # fmt: skip
        table = frame(POINT_COLUMNS, columns)
        frames.append(pl.concat([heads, table], how="horizontal"))
    return pl.concat(frames)


def _baseline(made: Summary, heads: pl.DataFrame) -> NDArray[np.int64]:
    """Return the point with which each point is compared, -1 if there is none."""
    rows = heads.rows()
    if not made.data.baseline:
        return np.full(len(made.labels), -1)
    index = {row: i for i, row in enumerate(rows)}
    fixed = [made.data.baseline.get(axis) for axis in heads.columns]
    wanted = (
        tuple(new if new is not None else old for new, old in zip(fixed, row, strict=True))
        for row in rows
    )
    return np.array([index.get(row, -1) for row in wanted], dtype=np.int64)


@dataclass(eq=False)
class _Ranking:
    """Choices compared with the best of them, [choices]; `_adjust` completes the p-values.

    They are ranked over the seeds that all have. While fewer than two are common, those with the
    fewest seeds are left out if some may be. If none is common, each counts with its own seeds.
    """

    values: Array
    fixed: NDArray[np.bool_]
    missing: NDArray[np.int64]
    better: str | None
    ratios: bool
    may_leave_out: bool

    def __post_init__(self) -> None:
        known = np.isfinite(self.values)
        kept, count = np.asarray(known.any(axis=1)), known.sum(axis=1)
        while True:
            common = known[kept].all(axis=0)
            # One that is deterministic has all seeds.
            drawn = count[kept & ~self.fixed]
            fewest, most = (drawn.min(), drawn.max()) if drawn.size else (0, 0)
            if not self.may_leave_out or common.sum() >= min(2, most) or fewest == most:
                break
            kept &= self.fixed | (count > fewest)
        paired = bool(common.any())
        self.values = np.where(kept[:, None] & (common | (not paired)), self.values, np.nan)
        self.found = average(self.values, self.ratios)
        self.number = np.where(self.fixed, np.minimum(self.found.number, 1), self.found.number)
        keys = self.found.mean if self.better != "higher" else -self.found.mean
        self.order = np.argsort(keys, kind="stable")  # NaN last
        self.choices = int(np.isfinite(keys).sum())
        self.own = np.arange(len(keys)) == (self.order[0] if self.choices else -1)
        best = self.values[self.own] if self.choices else np.full_like(self.values[:1], np.nan)
        best = np.broadcast_to(best, self.values.shape)
        self.against = compared(self.values, best, paired, self.ratios)
        self.test = _test(self.against, self.fixed, self.fixed[self.own].any())
        self.p = np.where(self.own, np.nan, self.against.p)

    def mean(self, at: int) -> tuple[Any, ...]:
        """Return number, whether it is deterministic, missing runs, and mean with interval."""
        ends = (_known(each[at]) for each in (self.found.mean, self.found.low, self.found.high))
        return int(self.number[at]), bool(self.fixed[at]), int(self.missing[at]), *ends

    def comparison(self, at: int) -> tuple[Any, ...]:
        """Return ratio to the best, its interval, p-value, test, and significance."""
        ratio, low, high = self.against.ratio[at], self.against.low[at], self.against.high[at]
        if self.own[at]:
            return _known(ratio), None, None, None, "", None
        p = self.p[at]
        return *map(_known, (ratio, low, high, p)), str(self.test[at]), _significant(p)


def _test(
    against: ReferenceComparison, fixed: NDArray[np.bool_], of_reference: Any
) -> NDArray[np.str_]:
    """Return the test of each comparison, or why there is none."""
    none = np.where(fixed & of_reference, "deterministic", "no variation")
    none = np.where(against.number >= np.where(fixed & of_reference, 1, 2), none, "")
    one = np.where(fixed | of_reference, "one-sample", against.test)
    return np.where(against.test == "", none, one)


def _adjust(rankings: Sequence[_Ranking]) -> None:
    """Adjust the p-values of a measure by Holm's method.

    The best is chosen from the same results, so the family is all pairs of choices.
    """
    tested = [int(np.isfinite(each.p).sum()) for each in rankings]
    p = holm(
        np.concatenate([each.p for each in rankings]) if rankings else np.zeros(0),
        sum(count * (count + 1) // 2 for count in tested),
    )
    for each in rankings:
        each.p, p = p[: len(each.p)], p[len(each.p) :]


def _best(made: Summary, measure: Measure) -> list[tuple[Any, ...]]:
    """Return the rows of a measure for `Summary.best`: on average, then under each condition."""
    values, axes = made.values[measure.name], list(made.axes)
    ratios = are_positive(values)
    under = [axis for axis in axes if axis in made.conditions]
    free = [axis for axis in axes if axis not in under]
    choice, choices = grouped(made, free)
    condition, conditions = grouped(made, under)
    cube = np.full((len(choices), len(conditions), values.shape[1]), np.nan)
    cube[choice, condition] = values
    fixed = np.ones(cube.shape[:2], dtype=bool)
    fixed[choice, condition] = made.fixed[measure.name]
    # A choice whose bad runs do not count is not compared with one whose runs all count.
    cut = np.zeros(cube.shape[:2], dtype=bool)
    cut[choice, condition] = made.cut[measure.name]
    cube[cut & (np.isfinite(cube).any(axis=2) & ~cut).any(axis=0)] = np.nan
    excluded = np.bincount(condition, made.excluded[measure.name], len(conditions)).astype(int)
    parts = []
    if len(conditions) > 1:
        # Whatever lacks a condition is not compared on average.
        whole = np.isfinite(cube).any(axis=2).all(axis=1)
        mean, count, missing = averaged(cube[whole], ratios)
        ranking = _Ranking(mean, fixed[whole].all(axis=1), missing, measure.better, ratios, True)
        names = [name for name, kept in zip(choices, whole, strict=True) if kept]
        parts.append((("", count, int(excluded.sum())), len(choices), names, ranking))
    for number, under_this in enumerate(conditions):
        here = cube[:, number]
        lacking = np.isnan(here).sum(axis=1)
        ranking = _Ranking(here, fixed[:, number], lacking, measure.better, ratios, True)
        there = len(np.unique(choice[condition == number]))
        parts.append(((under_this, 1, int(excluded[number])), there, choices, ranking))
    _adjust([ranking for *_, ranking in parts])
    rows = []
    for head, there, names, ranking in parts:
        counts = ranking.choices, there - ranking.choices
        rows.append((measure.name, measure.unit, *head, *counts, *_ranked(ranking, names)))
    return rows


def _ranked(ranking: _Ranking, names: Sequence[str]) -> tuple[Any, ...]:
    """Return the columns of `Summary.best` from the best on."""
    rest = list(BEST_COLUMNS)[list(BEST_COLUMNS).index("best") :]
    if not ranking.choices:
        return (None,) * len(rest)
    first, means = int(ranking.order[0]), ranking.found.mean
    alike = np.isclose(means, means[first], rtol=1e-12, atol=0.0)
    equal = int(alike.sum()) - 1
    mine = names[first], equal, *ranking.mean(first)
    if ranking.choices < equal + 2:
        return (*mine, *[None] * (len(rest) - len(mine)))
    second = int(ranking.order[equal + 1])
    tested = np.isfinite(ranking.p)
    worse = tested & (ranking.p <= 1 - CONFIDENCE)
    return (
        *mine, names[second], float(means[second]), int(ranking.missing[second]),
        int(ranking.against.number[second]), *ranking.comparison(second),
        int((tested & ~worse & ~alike).sum()) if tested.any() else None,
    )  # fmt: skip


def grouped(made: Summary, axes: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the group of each point by its values of some axes, and the labels of the groups."""
    columns = [list(made.axes).index(axis) for axis in axes]
    if not columns:
        return np.zeros(len(made.labels), dtype=np.int64), [""]
    found, group = np.unique(made.at[:, columns], axis=0, return_inverse=True)
    names = [
        label({axis: made.axes[axis][i] for axis, i in zip(axes, row, strict=True)})
        for row in found
    ]
    return group.ravel(), names


def _effects(made: Summary, measure: Measure) -> list[tuple[Any, ...]]:
    """Return the rows of a measure for `Summary.effects`."""
    values, parts = made.values[measure.name], []
    ratios = are_positive(values)
    for column, (axis, texts) in enumerate(made.axes.items()):
        if len(made.axes) == 1:
            break  # the axis is the point
        rest, names = grouped(made, [name for name in made.axes if name != axis])
        cube = np.full((len(texts), len(names), values.shape[1]), np.nan)
        cube[made.at[:, column], rest] = values
        fixed = np.ones(cube.shape[:2], dtype=bool)
        fixed[made.at[:, column], rest] = made.fixed[measure.name]
        # A value without any result would leave nothing to average.
        some = np.isfinite(cube).any(axis=(1, 2))
        mean = np.full((len(texts), values.shape[1]), np.nan)
        missing = np.zeros(len(texts), dtype=np.int64)
        mean[some], count, missing[some] = averaged(cube[some], ratios)
        ranking = _Ranking(
            mean, np.asarray(fixed.all(axis=1)), missing, measure.better, ratios, False
        )
        parts.append((axis, texts, (count, len(names)), ranking))
    _adjust([ranking for *_, ranking in parts])
    rows: list[tuple[Any, ...]] = []
    for axis, texts, (count, of), ranking in parts:
        for at, text in enumerate(texts):
            number, fixed_one, lacking, mean_one, low, high = ranking.mean(at)
            rows.append(
                (
                    measure.name, measure.unit, axis, text, count if mean_one is not None else 0,
                    of, lacking, number, fixed_one, mean_one, low, high, bool(ranking.own[at]),
                    *ranking.comparison(at),
                )
            )  # fmt: skip
    return rows


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _significant(p: float) -> bool | None:
    return bool(p <= 1 - CONFIDENCE) if np.isfinite(p) else None
