"""The question and the answer of a study in sentences, and its numbers as text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from weft.core.columns import Measure
from weft.core.counts import count_text, with_status
from weft.report.study_data import StudyData
from weft.report.study_summary import Summary, grouped

#: Units of names that a label leaves out.
_SUFFIX = re.compile(r"_(ns|ps|us|ms|s|bytes|gbps|usd|eur|w|kw|m|cycles)$")
#: Unit -> larger units and their factors, the largest first.
_LARGER = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs")),
    "B": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")),
}


#: Test -> what it is called, or why there is none.
_TESTS = {
    "paired": "a paired t-test by seed", "one-sample": "a one-sample t-test",
    "Welch": "Welch's t-test",
}  # fmt: skip
_UNTESTED = {
    "": "one run: no test", "deterministic": "deterministic", "no variation": "no variation"
}  # fmt: skip


#: Command -> the size of its runs, if that is not the number of hosts; how to compare equal ones.
_SIZED = {"simulate": "ranks"}
_SAME_SIZE = {
    "ranks": "give the jobs one number of ranks, or compare fabrics with one number of hosts.",
    "hosts": "compare fabrics with one number of hosts.",
}


class Shown(NamedTuple):
    """A measure as it is shown: label, unit, and the factor by which values are divided."""

    label: str
    unit: str
    factor: float

    @property
    def heading(self) -> str:
        """The label with the unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


class Answer(NamedTuple):
    """An answer in three parts, of which the second names the best."""

    head: str
    best: str
    tail: str


def shown(made: Summary, measure: Measure) -> Shown:
    """Return label and unit of a measure, the unit in keeping with the median value."""
    label = _SUFFIX.sub("", measure.name) if measure.unit else measure.name
    means = made.points.filter(pl.col("measure") == measure.name)["mean"].abs()
    usual = means.median()
    larger = _LARGER.get(measure.unit, ())
    fitting = (pair for pair in larger if isinstance(usual, float) and usual >= pair[0])
    factor, unit = next(fitting, (1.0, measure.unit))
    return Shown(label.replace("_", " "), unit, factor)


def digits(value: float | None, most: int = 4) -> str:
    """Return a number of a few significant digits as text."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= 10 ** (most - 1):
        return f"{value:,.0f}"
    if value == round(value) or abs(value) < 1e-4:
        return f"{value:.{most}g}"
    return f"{value:.{most - 1 - math.floor(math.log10(abs(value)))}f}"


def with_interval(mean: float | None, half: float | None, scale: Shown) -> str:
    """Return a mean with the half-width of its interval, which has two significant digits."""
    if mean is None or half is None:
        return number_text(mean, scale)
    half = half / scale.factor
    places = _places(half)
    return f"{mean / scale.factor:,.{places}f} ± {half:,.{places}f}{_unit(scale)}"


def with_ends(row: Mapping[str, Any], scale: Shown) -> str:
    """Return a geometric mean with the ends of its interval."""
    mean, low, high = (row[name] for name in ("mean", "low", "high"))
    if mean is None or low is None:
        return number_text(mean, scale)
    places = _places((high - low) / 2 / scale.factor)
    at, *ends = (f"{value / scale.factor:,.{places}f}" for value in (mean, low, high))
    return f"{at}{_unit(scale)} ({' to '.join(ends)})"


def number_text(value: float | None, scale: Shown) -> str:
    """Return a number as it is shown, with its unit."""
    return "–" if value is None else digits(value / scale.factor) + _unit(scale)


def _unit(scale: Shown) -> str:
    return f" {scale.unit}" if scale.unit not in ("", "share") else ""


def _places(half: float) -> int:
    """Return the decimal places of the two significant digits of a half-width."""
    return min(max(0, 1 - math.floor(math.log10(half))), 9) if half > 0 else 0


def runs_text(row: Mapping[str, Any]) -> str:
    """Return of how many runs a mean is, and how many it lacks."""
    interval = row["low" if "low" in row else "ci95"] is not None
    if row["deterministic"]:
        text = "deterministic"
    elif row["n"] == 1:
        text = "one run: no interval"
    else:
        text = f"n = {row['n']}" + ("" if interval else ", all equal: no interval")
    missing = row.get("missing") or 0
    return text + (f", lacks {count_text(missing, 'run')}" if missing else "")


def ratio_text(row: Mapping[str, Any]) -> str:
    """Return a ratio with its interval."""
    if row["ratio"] is None:
        return "–"
    if row["ratio_low"] is None:
        return f"{row['ratio']:.3f}"
    return f"{row['ratio']:.3f} ({row['ratio_low']:.3f} to {row['ratio_high']:.3f})"


def p_text(p: float | None) -> str:
    """Return a p-value as text."""
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def verdict(row: Mapping[str, Any]) -> str:
    """Return whether a difference is significant, in a few words."""
    if row["significant"] is None:
        return _UNTESTED[row["test"] or ""]
    p = p_text(row["p"])
    return f"{'yes' if row['significant'] else 'no'} (p {p if p[0] == '<' else '= ' + p})"


def question(made: Summary) -> str:
    """Return what was asked."""
    axes = [f"{name} ({len(values)})" for name, values in made.axes.items()]
    varied = _listed(axes) or "nothing but the seed"
    seeds = f", {made.seeds} seeds" if made.seeds > 1 else ", one seed"
    count = len(made.labels)
    text = (
        f"The study runs weft {made.data.command} and varies {varied}{seeds if count else ''}: "
        f"{count_text(count, 'point')} and {count_text(len(made.data.runs), 'run')}."
    )
    if made.data.baseline:
        absent = ", but no run is compared with it" if made.uncompared else ""
        set_to = ", ".join(f"{axis} = {value}" for axis, value in made.data.baseline.items())
        text += f" The baseline is {set_to}{absent}."
    if made.conditions and len(made.conditions) < len(made.axes):
        text += f" The best choice is sought on average over {_listed(list(made.conditions))}"
        text += (
            ", and under each." if len(made.conditions) == 1 else ", and under each combination."
        )
    return text


def completeness(made: Summary) -> str:
    """Return how many runs are complete, what became of the others, and how many are equal."""
    total = len(made.data.runs)
    equal = total - made.data.runs["key"].n_unique()
    same = (
        f" {equal:,} runs are equal to others and are computed once: nothing random differs."
        if equal
        else ""
    )
    words = Counter(word for word, _ in made.data.excluded.values())
    for word, count in words.items():
        are, do = ("run is", "does") if count == 1 else ("runs are", "do")
        same += f" {count:,} {are} {word} and {do} not count for {_void(made)}."
    done = int((made.data.runs["status"] == "complete").sum())
    if done == total and not made.lacking:
        return (f"All {total:,} runs are complete." if total > 1 else "The run is complete.") + same
    groups = made.unfinished.group_by("status", maintain_order=True).agg(pl.col("runs").sum())
    parts = [with_status(count, status) for status, count in groups.iter_rows()]
    of = f"{done:,} of {total:,} runs are complete" + (f": {', '.join(parts)}" if parts else "")
    return (
        f"{of}. {made.lacking:,} of {len(made.notes):,} points lack runs; statistics use complete "
        f"runs only, so a choice without its slowest runs may seem better than it is.{same}"
    )


def _void(made: Summary) -> str:
    """Return the measures of excluded runs that do not count."""
    names = {name for _, names in made.data.excluded.values() for name in names}
    return _listed([shown(made, each).label for each in made.data.measures if each.name in names])


def version_notes(data: StudyData) -> list[str]:
    """Return a sentence on the versions of weft if there are several."""
    if len(data.versions) < 2:
        return []
    counts = ", ".join(f"{name} ({count:,} runs)" for name, count in sorted(data.versions.items()))
    return [f"Runs of several versions of weft are compared: {counts}."]


def warnings(made: Summary) -> list[str]:
    """Return what to know before results are compared: versions of weft, and sizes."""
    condition, _ = grouped(made, made.conditions)
    sizes: dict[int, dict[float, int]] = {}
    for point, keys in enumerate(made.keys):
        for size in {made.data.sizes[key] for key in keys if key in made.data.sizes}:
            sizes.setdefault(int(condition[point]), {}).setdefault(size, point)
    found = version_notes(made.data)
    mixed = next((each for each in sizes.values() if len(each) > 1), None)
    if mixed is not None:
        (low, first), *_, (high, last) = sorted(mixed.items())
        what = _SIZED.get(made.data.command, "hosts")
        found.append(
            f"Choices of different size are compared: from {low:,.0f} {what} "
            f"({made.labels[first]}) to {high:,.0f} ({made.labels[last]}). Their times, loads and "
            f"costs are not of the same task; {_SAME_SIZE.get(what, _SAME_SIZE['hosts'])}"
        )
    return found


def answers(made: Summary) -> list[Answer]:
    """Return the best by each measure: on average over conditions, or without conditions."""
    found: list[Answer] = []
    said = (0, 0)
    for measure in made.data.measures:
        rows = made.best.filter(pl.col("measure") == measure.name)
        if not rows.is_empty():
            row = rows.row(0, named=True)
            answer = _answer(made, measure, row, len(rows) - 1)
            # Most measures lack the results of the same runs.
            lacks = row["left_out"], row["excluded"]
            if lacks != said:
                answer = answer._replace(tail=answer.tail + _left_out(made, row))
            said = lacks
            found.append(answer)
    return found


def _left_out(made: Summary, row: Mapping[str, Any]) -> str:
    text, of = "", row["choices"] + row["left_out"]
    if row["excluded"]:
        words = _listed(list(dict.fromkeys(word for word, _ in made.data.excluded.values())))
        text = f" {count_text(row['excluded'], 'run')} do not count: {words}."
    if row["left_out"]:
        lack = "lacks" if row["left_out"] == 1 else "lack"
        text += f" {row['left_out']} of {of} choices {lack} runs that count, and are left out."
    return text


def _answer(made: Summary, measure: Measure, row: Mapping[str, Any], conditions: int) -> Answer:
    scale = shown(made, measure)
    head = f"{scale.label.capitalize()} ({measure.better} is better): "
    if row["best"] is None:
        why = "no choice has a result under every condition" if conditions else "no run is complete"
        return Answer(head, "", f"{why}.")
    average = f" on average over {row['conditions']:,} conditions" if conditions > 1 else ""
    value = f"{with_ends(row, scale)} ({runs_text(row)})"
    if not row["best"]:  # there is no choice
        return Answer(head, "", f"{value}{average}.")
    tail = f" is best{average}, with {value}"
    if row["equal"]:
        tail += f"; {row['equal']} other{'s have' if row['equal'] > 1 else ' has'} the same mean"
    tail += "."
    if row["runner_up"] is not None:
        tail += f" Next is {row['runner_up']}, {_gap(row, made.seeds, scale)}"
        if row["runner_up_missing"]:
            tail += f" (lacks {count_text(row['runner_up_missing'], 'run')})"
        if row["test"] == "no variation":
            tail += " for every seed"
        elif row["significant"] is not None:
            p = p_text(row["p"])
            tail += (
                f"; the difference is {'' if row['significant'] else 'not '}significant by "
                f"{_TESTS[row['test']]} (p {p if p[0] == '<' else '= ' + p}, Holm)"
            )
        tail += "."
        if row["not_worse"] and row["not_worse"] > (row["significant"] is False):
            tail += f" {row['not_worse']} choices do not differ significantly from the best."
    return Answer(head, row["best"], tail)


def _gap(row: Mapping[str, Any], seeds: int, scale: Shown) -> str:
    """Return by how much the runner-up is higher or lower."""
    if row["ratio"] is None:
        return f"with {number_text(row['runner_up_mean'], scale)}"
    more = row["ratio"] - 1
    text = f"{_percent(abs(more))} {'higher' if more > 0 else 'lower'}"
    if row["ratio_low"] is not None:
        ends = (row["ratio_low"] - 1, row["ratio_high"] - 1)
        signed = " to ".join(("−" if end < 0 else "+") + _percent(abs(end)) for end in ends)
        text += f" (95 % interval {signed})"
    if row["test"] == "paired" and row["compared"] < seeds:
        text += f" over the {row['compared']} seeds that all compared choices have"
    return text


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:,.0f} %"


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
