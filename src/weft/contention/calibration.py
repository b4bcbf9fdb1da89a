"""Fit the contention-graph model to measured times.

The coefficients and alpha are those for which the logarithms of predicted over measured times have
the least squares. Times and not recovered penalties are fitted, as the noise of each time is its
own while that of a penalty is also that of all smaller graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.contention.coefficients import INFINIBAND, MOST_COEFFICIENT, PenaltyModel
from weft.contention.measurements import Measurement
from weft.contention.model import predict
from weft.contention.recovery import Recovery, Survey, recover_penalties, survey
from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.kernels.flow.contention_steps import synchronous_times

#: What the columns of `errors_by_size` hold: the table under figure 5 of the paper.
ERROR_COLUMNS: dict[str, Column] = {
    "edges": Column(pl.Int64, "", "number of communications in the graphs of this row"),
    "graphs": Column(pl.Int64, "", "number of measured graphs"),
    "times": Column(pl.Int64, "", "number of measured times"),
    "mean_error": Column(pl.Float64, "%", "mean of the absolute errors of all times"),
    "max_mean_error": Column(
        pl.Float64, "%", "maximum over the graphs of the mean absolute error of their times"
    ),
    "max_error": Column(pl.Float64, "%", "maximum of the absolute errors of all times"),
    "worst_graph": Column(pl.String, "", "name of the graph with that error"),
}

#: What the columns of `errors_by_edge` hold.
EDGE_ERROR_COLUMNS: dict[str, Column] = {
    "graph": Column(pl.String, "", "name of the measured graph"),
    "edges": Column(pl.Int64, "", "number of its communications"),
    "edge": Column(pl.Int64, "", "number of the communication in it, from 0"),
    "source": Column(pl.Int64, "", "node that sends"),
    "destination": Column(pl.Int64, "", "node that receives"),
    "measured_s": Column(pl.Float64, "s", "measured completion time"),
    "predicted_s": Column(pl.Float64, "s", "predicted completion time"),
    "error": Column(pl.Float64, "%", "predicted less measured time, of the measured one"),
}


def errors_by_edge(
    measurements: Sequence[Measurement],
    model: PenaltyModel,
    inverse_bandwidth_s_per_byte: float,
) -> pl.DataFrame:
    """Measured beside predicted time of every communication; see `EDGE_ERROR_COLUMNS`.

    Parameters
    ----------
    measurements
        Measured graphs. Starts and sizes may differ here.
    model, inverse_bandwidth_s_per_byte
        What to predict with.

    Raises
    ------
    InputError
        When there are no measurements.
    """
    if not measurements:
        raise InputError("there are no measurements")
    counts = [graph.num_edges for graph in measurements]
    measured = np.concatenate([graph.time_s for graph in measurements])
    predicted = np.concatenate(
        [
            predict(
                graph.sources,
                graph.destinations,
                graph.size_bytes,
                0.0,
                inverse_bandwidth_s_per_byte,
                model=model,
            )
            for graph in measurements
        ]
    )
    return frame(
        EDGE_ERROR_COLUMNS,
        {
            "graph": [graph.name for graph in measurements for _ in graph.sources],
            "edges": np.repeat(counts, counts),
            "edge": np.concatenate([np.arange(count) for count in counts]),
            "source": np.concatenate([graph.sources for graph in measurements]),
            "destination": np.concatenate([graph.destinations for graph in measurements]),
            "measured_s": measured,
            "predicted_s": predicted,
            "error": 100 * (predicted - measured) / measured,
        },
    )


def errors_by_size(
    measurements: Sequence[Measurement],
    model: PenaltyModel,
    inverse_bandwidth_s_per_byte: float,
) -> pl.DataFrame:
    """Errors of predicted times per number of edges, as in figure 5; see `ERROR_COLUMNS`.

    Parameters
    ----------
    measurements
        Measured graphs, at least one.
    model, inverse_bandwidth_s_per_byte
        What to predict with.

    Raises
    ------
    InputError
        When there are no measurements.
    """
    edges = errors_by_edge(measurements, model, inverse_bandwidth_s_per_byte)
    size = edges["edges"].to_numpy()
    error = np.abs(edges["error"].to_numpy())
    graph = np.repeat(np.arange(len(measurements)), [m.num_edges for m in measurements])
    mean = np.bincount(graph, error) / np.bincount(graph)
    rows: dict[str, list[object]] = {name: [] for name in ERROR_COLUMNS}
    for count in np.unique(size).tolist():
        here = size == count
        graphs = np.unique(graph[here])
        worst = int(np.argmax(np.where(here, error, -1.0)))
        for name, value in (
            ("edges", count),
            ("graphs", len(graphs)),
            ("times", int(here.sum())),
            ("mean_error", float(error[here].mean())),
            ("max_mean_error", float(mean[graphs].max())),
            ("max_error", float(error[worst])),
            ("worst_graph", measurements[int(graph[worst])].name),
        ):
            rows[name].append(value)
    return frame(ERROR_COLUMNS, rows)


#: Names of all coefficients, in the order of `PenaltyModel`.
COEFFICIENTS = tuple(field.name for field in fields(PenaltyModel))

#: Where searches start besides the model given: away from all ranges' ends.
_INSIDE = PenaltyModel(0.3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
#: Singular values below this part of the largest leave a direction undetermined.
_RANK = 1e-6
#: Step of numerical derivatives.
_STEP = 1e-7
#: Searches that start around the best solution so far.
_RESTARTS = 10


@dataclass(frozen=True)
class Calibration:
    """Coefficients fitted to measurements.

    Attributes
    ----------
    model
        The coefficients.
    inverse_bandwidth_s_per_byte
        alpha, seconds that a byte takes without contention.
    uncertainty
        Standard error of each fitted coefficient and of ``inverse_bandwidth_s_per_byte``: the
        larger one of two estimates, from the scatter of all times as if each had noise of its own
        and from the scatter between graphs.
    residual
        Root mean square of the relative errors of the fitted times.
    recovery
        The penalties that the measurements imply.
    errors
        Errors per size of graph, of all measurements; see `ERROR_COLUMNS`.
    """

    model: PenaltyModel
    inverse_bandwidth_s_per_byte: float
    uncertainty: Mapping[str, float]
    residual: float
    recovery: Recovery
    errors: pl.DataFrame


def fit(
    measurements: Sequence[Measurement],
    *,
    coefficients: Sequence[str] = COEFFICIENTS,
    model: PenaltyModel = INFINIBAND,
    fit_bandwidth: bool = True,
    max_edges: int | None = None,
    tolerance: float = 0.01,
    start_tolerance: float = 0.05,
) -> Calibration:
    """Fit the coefficients of the contention-graph model, and alpha, to measured times.

    Parameters
    ----------
    measurements
        Static-synchronous graphs; see `recover_penalties` for what is needed.
    coefficients
        Names of those to fit; the others stay as in `model`. A communication alone always has
        penalty 1, so ``out_offset`` + ``out_weight`` is at most 1.
    model
        Where the search starts.
    fit_bandwidth
        Fit alpha to all times; otherwise it is what communications alone took, which is noisier
        but right where the model is not.
    max_edges
        Fit to components of up to this many edges; errors are given for all graphs.
    tolerance, start_tolerance
        As for `recover_penalties`.

    Returns
    -------
    Calibration
        The coefficients with their uncertainty, and the errors that remain.

    Raises
    ------
    InputError
        As for `recover_penalties`; and when the measurements do not determine a coefficient,
        naming it, a name is unknown, or no times can be predicted from the model.
    """
    fitted = _fitted(coefficients, model)
    recovery = recover_penalties(
        measurements, tolerance=tolerance, start_tolerance=start_tolerance, max_edges=max_edges
    )
    seen = survey(measurements, start_tolerance=start_tolerance, max_edges=max_edges)
    unknowns = ["inverse_bandwidth_s_per_byte", *fitted]
    if len(seen.numbers) < len(unknowns):
        raise InputError(
            f"{len(seen.numbers)} different penalties were measured, too few for "
            f"{len(fitted)} coefficients and the bandwidth; measure more graphs, or fit fewer "
            "coefficients"
        )
    if len(seen.time_s) <= len(unknowns):
        raise InputError(
            f"{len(seen.time_s)} times leave no scatter to judge {len(unknowns)} fitted numbers "
            "by; measure more graphs, or fit fewer coefficients"
        )
    problem = _Problem(seen, fitted, model, fit_bandwidth)
    solution = _solution(problem, seen.graph, model)
    deviation = _deviation(problem, solution, seen.graph)
    found, alpha = problem.model(solution), float(np.exp(solution[0]) / seen.size_bytes)
    deviation[0] *= alpha
    return Calibration(
        found,
        alpha,
        dict(zip(unknowns, deviation.tolist(), strict=True)),
        float(np.sqrt(np.mean(np.expm1(problem.residuals(solution)) ** 2))),
        recovery,
        errors_by_size(measurements, found, alpha),
    )


def _fitted(coefficients: Sequence[str], model: PenaltyModel) -> list[str]:
    """The names to fit, in the model's order."""
    for name in coefficients:
        if name not in COEFFICIENTS:
            raise InputError(
                f"unknown coefficient {name!r}{did_you_mean(name, COEFFICIENTS)}; expected some "
                f"of {', '.join(COEFFICIENTS)}"
            )
    if model.out_offset + model.out_weight > 1:
        raise InputError(
            f"out_offset + out_weight is {model.out_offset + model.out_weight:g}; expected at most "
            "1, as a communication alone has penalty 1"
        )
    return [name for name in COEFFICIENTS if name in coefficients]


class _Problem:
    """The fit as a function of a vector of numbers, each with a range of its own.

    The first number is the logarithm of the time of one communication alone. Where both
    `out_offset` and `out_weight` are fitted, their sum stands for the first, as the sum has a
    bound and the two are nearly proportional otherwise.
    """

    def __init__(
        self, seen: Survey, fitted: list[str], model: PenaltyModel, fit_bandwidth: bool = True
    ):
        self.fitted = fitted
        #: How many measured times alpha is the mean of, 0 where it is fitted.
        self.alone = 0 if fit_bandwidth else int((seen.place == seen.cases[0].places[0]).sum())
        self._fixed = model
        self._place = seen.place
        self._log_time = np.log(seen.time_s)
        self._alone = seen.alone_s()
        self._ratio = np.ones(len(seen.numbers))
        ends, nodes = [], []
        for case in seen.cases:
            names, number = np.unique(np.array(case.edges), return_inverse=True)
            ends.append(number.reshape(-1, 2).astype(np.int32))
            nodes.append(len(names))
        sizes = [len(case.edges) for case in seen.cases]
        self._places = np.concatenate([case.places for case in seen.cases])
        self._completion = np.zeros(len(self._places))
        self._graphs = (
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.ascontiguousarray(np.concatenate(ends)[:, 0]),
            np.ascontiguousarray(np.concatenate(ends)[:, 1]),
            np.array(nodes, dtype=np.int64),
        )
        self._both = "out_offset" in fitted and "out_weight" in fitted

    def vector(self, model: PenaltyModel) -> NDArray[np.float64]:
        """The vector of a model."""
        values = {name: float(getattr(model, name)) for name in self.fitted}
        if self._both:
            values["out_offset"] += values["out_weight"]
        return np.array([np.log(self._alone), *values.values()])

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lowest and highest value of each number."""
        low, high = {"out_offset": -np.inf}, {"balanced_weight": 1.0, "back_pressure": 1.0}
        high["out_offset"] = 1.0 if self._both else 1.0 - self._fixed.out_weight
        if not self._both:
            high["out_weight"] = 1.0 - self._fixed.out_offset
        return (
            np.array([-np.inf, *(low.get(name, 0.0) for name in self.fitted)]),
            np.array([np.inf, *(high.get(name, np.inf) for name in self.fitted)]),
        )

    def model(self, vector: NDArray[np.float64]) -> PenaltyModel:
        """The model of a vector."""
        half = MOST_COEFFICIENT / 2  # also the difference of two is a coefficient
        values = dict(zip(self.fitted, vector[1:].clip(-half, half).tolist(), strict=True))
        if self._both:
            values["out_offset"] -= values["out_weight"]
        return replace(self._fixed, **values)

    def to_model(self) -> NDArray[np.float64]:
        """Matrix from changes of the vector to those of log alpha and the coefficients."""
        matrix = np.eye(1 + len(self.fitted))
        if self._both:
            matrix[1, 2] = -1.0
        return matrix

    def residuals(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of predicted over measured time of each measured time."""
        coefficients = self.model(vector).coefficients()
        synchronous_times(*self._graphs, coefficients, self._completion)
        self._ratio[self._places] = self._completion
        residuals: NDArray[np.float64] = (
            vector[0] + np.log(self._ratio)[self._place] - self._log_time
        )
        return residuals


def _solution(
    problem: _Problem, graph: NDArray[np.int64], model: PenaltyModel
) -> NDArray[np.float64]:
    """The vector of least squares.

    Kinks leave local minima some standard errors apart, so the search starts from two models and
    then again from around the best so far.
    """
    # Every command of weft imports this module, and few need so large a package.
    from scipy.optimize import least_squares

    low, high = problem.bounds()
    fixed = problem.vector(model)[: min(problem.alone, 1)]
    free = slice(len(fixed), None)

    def search(start: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        if len(start) == len(fixed):
            return 0.0, fixed
        found = least_squares(
            lambda numbers: problem.residuals(np.concatenate([fixed, numbers])),
            np.clip(start, low, high)[free],
            bounds=(low[free], high[free]),
            x_scale="jac",
            xtol=1e-10,
            ftol=1e-10,
            gtol=1e-10,
        )
        return float(found.cost), np.concatenate([fixed, found.x])

    cost, best = min((search(problem.vector(start)) for start in (model, _INSIDE)), key=_cost)
    random = np.random.default_rng(0)
    for _ in range(_RESTARTS):
        around = _around(problem, best, graph)
        again = search(best + 3 * around * random.standard_normal(len(best)))
        cost, best = min((cost, best), again, key=_cost)
    return best


def _cost(found: tuple[float, NDArray[np.float64]]) -> float:
    return found[0]


def _around(
    problem: _Problem, best: NDArray[np.float64], graph: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Standard errors at a solution, 0 where derivatives do not determine them."""
    jacobian = _jacobian(problem, best, np.full(len(best), _STEP))
    if _rank(jacobian, problem.alone) < len(best):
        return np.zeros(len(best))
    deviation: NDArray[np.float64] = np.sqrt(
        np.diag(_covariance(jacobian, problem.residuals(best), graph, problem.alone))
    )
    return deviation


def _rank(jacobian: NDArray[np.float64], alone: int) -> int:
    """How many numbers the times determine; alpha is one where it is measured."""
    if alone:
        return 1 + (_rank(jacobian[:, 1:], 0) if jacobian.shape[1] > 1 else 0)
    length = np.linalg.norm(jacobian, axis=0)
    unit = jacobian / np.where(length > _RANK * length.max(), length, np.inf)
    return int(np.linalg.matrix_rank(unit, _RANK))


def _deviation(
    problem: _Problem, solution: NDArray[np.float64], graph: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Standard errors of log alpha and the coefficients.

    Times have kinks, where communications change the order in which they end and where rules
    change, so that derivatives hold on one side only. They are therefore also taken over steps of
    one standard error to either side, and the largest result counts.
    """
    residuals = problem.residuals(solution)
    matrix = problem.to_model()
    local = _jacobian(problem, solution, np.full(len(solution), _STEP))
    fixed = min(problem.alone, 1)
    names = ["inverse_bandwidth_s_per_byte", *problem.fitted]
    _refuse_undetermined(local[:, fixed:], matrix[fixed:, fixed:], names[fixed:])
    first = _covariance(local, residuals, graph, problem.alone)
    deviation: NDArray[np.float64] = np.sqrt(np.diag(matrix @ first @ matrix.T))
    step = np.maximum(np.sqrt(np.diag(first)), _STEP)
    for side in (step, -step):
        jacobian = _jacobian(problem, solution, side)
        if _rank(jacobian, problem.alone) < len(step):
            continue  # so far away something else holds
        there = _covariance(jacobian, residuals, graph, problem.alone)
        deviation = np.maximum(deviation, np.sqrt(np.diag(matrix @ there @ matrix.T)))
    return deviation


def _jacobian(
    problem: _Problem, solution: NDArray[np.float64], step: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Differences of the residuals over given steps; where the range ends, over the step back."""
    low, high = problem.bounds()
    here = problem.residuals(solution)
    columns = [np.ones(len(here))]  # of log alpha
    for at, size in enumerate(step[1:], 1):
        moved = solution.copy()
        moved[at] += size if low[at] <= solution[at] + size <= high[at] else -size
        moved[at] = min(max(moved[at], low[at]), high[at])
        columns.append((problem.residuals(moved) - here) / (moved[at] - solution[at]))
    return np.array(columns).T


def _covariance(
    jacobian: NDArray[np.float64],
    residuals: NDArray[np.float64],
    graph: NDArray[np.int64],
    alone: int,
) -> NDArray[np.float64]:
    """Covariance of the vector; `alone` as in `_Problem`."""
    if not alone:
        return _fitted_covariance(jacobian, residuals, graph)
    others = jacobian[:, 1:]
    variance = residuals @ residuals / (len(residuals) - others.shape[1]) / alone
    # What an error of alpha does to the others.
    lean = np.concatenate([[1.0], -np.linalg.lstsq(others, jacobian[:, 0])[0]])
    found: NDArray[np.float64] = variance * np.outer(lean, lean)
    if others.shape[1]:
        found[1:, 1:] += _fitted_covariance(others, residuals, graph)
    return found


def _fitted_covariance(
    jacobian: NDArray[np.float64], residuals: NDArray[np.float64], graph: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Covariance of fitted numbers, of the two estimates the one with the larger errors."""
    times, numbers = jacobian.shape
    length = np.linalg.norm(jacobian, axis=0)
    inverse: NDArray[np.float64] = np.linalg.inv(
        (jacobian / length).T @ (jacobian / length)
    ) / np.outer(length, length)
    own = inverse * (residuals @ residuals) / (times - numbers)
    # Times of one graph share what disturbed its run.
    score = np.zeros((graph.max() + 1, numbers))
    np.add.at(score, graph, jacobian * residuals[:, None])
    graphs = len(np.unique(graph))
    shared = inverse @ (score.T @ score) @ inverse * graphs / max(graphs - 1, 1)
    least = np.maximum(np.diag(own), np.finfo(np.float64).tiny)  # of exact times it is 0
    larger: NDArray[np.float64] = np.sqrt(np.maximum(np.diag(shared) / least, 1.0))
    combined: NDArray[np.float64] = own * np.outer(larger, larger)
    return combined


def _refuse_undetermined(
    jacobian: NDArray[np.float64], matrix: NDArray[np.float64], names: list[str]
) -> None:
    """Raise where some direction changes no time, naming the coefficients it is made of."""
    if not names:
        return
    length = np.linalg.norm(jacobian, axis=0)
    unit = jacobian / np.where(length > _RANK * length.max(), length, np.inf)
    singular, rows = np.linalg.svd(unit)[1:]
    none = rows[np.concatenate([singular, np.zeros(len(rows) - len(singular))]) < _RANK]
    if none.size:
        loose = np.abs(matrix) @ np.abs(none).max(axis=0)
        wrong = ", ".join(name for name, part in zip(names, loose, strict=True) if part > 0.1)
        raise InputError(
            f"the measured graphs do not determine {wrong}; measure graphs of more shapes, or fit "
            "the other coefficients only"
        )
