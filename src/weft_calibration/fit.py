"""Fit of the contention-graph model to measured times.

The coefficients and alpha minimise the sum of squares of log(predicted time / measured time). Times
are fitted instead of recovered penalties, because their noise is independent, while the noise of a
penalty includes the noise of all smaller graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.core.columns import Column, frame
from weft.core.errors import InputError
from weft.core.registry import wrong_name
from weft.kernels.flow.contention_steps import synchronous_times
from weft.sim.flow.contention.coefficients import INFINIBAND, MAX_COEFFICIENT, PenaltyModel
from weft.sim.flow.contention.model import predict
from weft_calibration.measurements import Measurement
from weft_calibration.recovery import Recovery, Survey, recover_penalties, survey

#: Columns of `errors_by_size`: the table under figure 5 of the paper.
ERROR_COLUMNS: dict[str, Column] = {
    "edges": Column(pl.Int64, "", "Number of communications per graph"),
    "graphs": Column(pl.Int64, "", "Number of measured graphs"),
    "times": Column(pl.Int64, "", "Number of measured times"),
    "mean_error": Column(pl.Float64, "%", "Mean absolute error of all times"),
    "max_mean_error": Column(
        pl.Float64, "%", "Maximum over the graphs of the mean absolute error of their times"
    ),
    "max_error": Column(pl.Float64, "%", "Maximum absolute error of all times"),
    "worst_graph": Column(pl.String, "", "Name of the graph with the maximum error"),
}

#: Columns of `errors_by_edge`.
EDGE_ERROR_COLUMNS: dict[str, Column] = {
    "graph": Column(pl.String, "", "Name of the measured graph"),
    "edges": Column(pl.Int64, "", "Number of communications in the graph"),
    "edge": Column(pl.Int64, "", "Index of the communication in the graph"),
    "source": Column(pl.Int64, "", "Sending node"),
    "destination": Column(pl.Int64, "", "Receiving node"),
    "measured_s": Column(pl.Float64, "s", "Measured completion time"),
    "predicted_s": Column(pl.Float64, "s", "Predicted completion time"),
    "error": Column(
        pl.Float64, "%", "Predicted minus measured time, relative to the measured time"
    ),
}


def errors_by_edge(
    measurements: Sequence[Measurement],
    model: PenaltyModel,
    inverse_bandwidth_s_per_byte: float,
) -> pl.DataFrame:
    """Return measured and predicted time of every communication; see `EDGE_ERROR_COLUMNS`.

    `measurements`: measured graphs; starts and sizes may differ. `model`,
    `inverse_bandwidth_s_per_byte`: coefficients and alpha of the prediction.
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
    """Return errors of predicted times by number of edges, as in figure 5; see `ERROR_COLUMNS`.

    `measurements`: measured graphs, at least one. `model`, `inverse_bandwidth_s_per_byte`:
    coefficients and alpha of the prediction.
    """
    edges = errors_by_edge(measurements, model, inverse_bandwidth_s_per_byte)
    size = edges["edges"].to_numpy()
    error = np.abs(edges["error"].to_numpy())
    graph = np.repeat(np.arange(len(measurements)), [m.num_edges for m in measurements])
    mean = np.bincount(graph, error) / np.bincount(graph)
    rows: dict[str, list[object]] = {name: [] for name in ERROR_COLUMNS}
    for count in np.unique(size).tolist():
        selected = size == count
        graphs = np.unique(graph[selected])
        worst = int(np.argmax(np.where(selected, error, -1.0)))
        for name, value in (
            ("edges", count),
            ("graphs", len(graphs)),
            ("times", int(selected.sum())),
            ("mean_error", float(error[selected].mean())),
            ("max_mean_error", float(mean[graphs].max())),
            ("max_error", float(error[worst])),
            ("worst_graph", measurements[int(graph[worst])].name),
        ):
            rows[name].append(value)
    return frame(ERROR_COLUMNS, rows)


#: Names of all coefficients, in the order of `PenaltyModel`.
COEFFICIENTS = tuple(field.name for field in fields(PenaltyModel))

#: Second starting point of the search, inside all ranges.
_INSIDE = PenaltyModel(0.3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
#: Relative singular value below which the times do not determine a combination of parameters.
_RANK = 1e-6
#: Step of numerical derivatives.
_STEP = 1e-7
#: Number of searches from random points around the best solution.
_RESTARTS = 10


@dataclass(frozen=True)
class Calibration:
    """Coefficients fitted to measurements."""

    model: PenaltyModel
    #: alpha, seconds per byte without contention.
    inverse_bandwidth_s_per_byte: float
    #: Standard error of each fitted coefficient and of ``inverse_bandwidth_s_per_byte``: the larger
    #: of two estimates. One assumes that the noise of all times is independent, the other that it
    #: is independent only between graphs.
    uncertainty: Mapping[str, float]
    #: Root mean square of the relative errors of the fitted times.
    residual: float
    #: The penalties recovered from the measurements.
    recovery: Recovery
    #: Errors of all measurements by number of edges; see `ERROR_COLUMNS`.
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

    - `measurements`: static-synchronous graphs, as required by `recover_penalties`.
    - `coefficients`: names of the coefficients to fit; the others keep their values in `model`. A
      single communication always has penalty 1, so ``out_offset`` + ``out_weight`` is at most 1.
    - `fit_bandwidth`: fit alpha to all times. If False, alpha is the mean time per byte of single
      communications, which is noisier but independent of the model.
    - `max_edges`: only connected components of at most this many edges are used for the fit;
      `errors` includes all graphs.
    - `tolerance`, `start_tolerance`: as for `recover_penalties`.

    Returns the coefficients with their uncertainty, and the remaining errors.
    """
    fitted = _fitted(coefficients, model)
    recovery = recover_penalties(
        measurements, tolerance=tolerance, start_tolerance=start_tolerance, max_edges=max_edges
    )
    data = survey(measurements, start_tolerance=start_tolerance, max_edges=max_edges)
    unknowns = ["inverse_bandwidth_s_per_byte", *fitted]
    if len(data.numbers) < len(unknowns):
        raise InputError(
            f"{len(data.numbers)} different penalties were measured, too few for "
            f"{len(fitted)} coefficients and the bandwidth; measure more graphs, or fit fewer "
            "coefficients"
        )
    if len(data.time_s) <= len(unknowns):
        raise InputError(
            f"{len(data.time_s)} times are too few for standard errors of {len(unknowns)} "
            "fitted numbers; measure more graphs, or fit fewer coefficients"
        )
    problem = _Problem(data, fitted, model, fit_bandwidth)
    solution = _solution(problem, data.graph, model)
    deviation = _deviation(problem, solution, data.graph)
    fitted_model, alpha = (
        problem.model(solution),
        float(np.exp(solution[0]) / data.size_bytes),
    )
    deviation[0] *= alpha
    return Calibration(
        fitted_model,
        alpha,
        dict(zip(unknowns, deviation.tolist(), strict=True)),
        float(np.sqrt(np.mean(np.expm1(problem.residuals(solution)) ** 2))),
        recovery,
        errors_by_size(measurements, fitted_model, alpha),
    )


def _fitted(coefficients: Sequence[str], model: PenaltyModel) -> list[str]:
    """Return the names of the coefficients to fit, in the model's order."""
    for name in coefficients:
        if name not in COEFFICIENTS:
            raise InputError(
                wrong_name("unknown coefficient", name, COEFFICIENTS, "expected one or more of")
            )
    if model.out_offset + model.out_weight > 1:
        raise InputError(
            f"out_offset + out_weight is {model.out_offset + model.out_weight:g}; expected at most "
            "1, because a single communication has penalty 1"
        )
    return [name for name in COEFFICIENTS if name in coefficients]


class _Problem:
    """The fit as a function of a vector of bounded parameters.

    The first parameter is the logarithm of the time of a single communication. If both `out_offset`
    and `out_weight` are fitted, the vector has their sum in place of `out_offset`, because the sum
    is bounded and the effects of the two coefficients are otherwise nearly proportional.
    """

    def __init__(
        self, data: Survey, fitted: list[str], model: PenaltyModel, fit_bandwidth: bool = True
    ):
        self.fitted = fitted
        #: Number of measured times whose mean is alpha; 0 if alpha is fitted.
        self.alone = 0 if fit_bandwidth else int((data.place == data.cases[0].places[0]).sum())
        self._fixed = model
        self._place = data.place
        self._log_time = np.log(data.time_s)
        self._alone = data.alone_s()
        self._ratio = np.ones(len(data.numbers))
        ends, nodes = [], []
        for case in data.cases:
            names, number = np.unique(np.array(case.edges), return_inverse=True)
            ends.append(number.reshape(-1, 2).astype(np.int32))
            nodes.append(len(names))
        sizes = [len(case.edges) for case in data.cases]
        self._places = np.concatenate([case.places for case in data.cases])
        self._completion = np.zeros(len(self._places))
        self._graphs = (
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.ascontiguousarray(np.concatenate(ends)[:, 0]),
            np.ascontiguousarray(np.concatenate(ends)[:, 1]),
            np.array(nodes, dtype=np.int64),
        )
        self._both = "out_offset" in fitted and "out_weight" in fitted

    def vector(self, model: PenaltyModel) -> NDArray[np.float64]:
        """Return the vector that represents a model."""
        values = {name: float(getattr(model, name)) for name in self.fitted}
        if self._both:
            values["out_offset"] += values["out_weight"]
        return np.array([np.log(self._alone), *values.values()])

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest and highest value of each parameter."""
        low, high = {"out_offset": -np.inf}, {"balanced_weight": 1.0, "back_pressure": 1.0}
        high["out_offset"] = 1.0 if self._both else 1.0 - self._fixed.out_weight
        if not self._both:
            high["out_weight"] = 1.0 - self._fixed.out_offset
        return (
            np.array([-np.inf, *(low.get(name, 0.0) for name in self.fitted)]),
            np.array([np.inf, *(high.get(name, np.inf) for name in self.fitted)]),
        )

    def model(self, vector: NDArray[np.float64]) -> PenaltyModel:
        """Return the model that a vector represents."""
        half = MAX_COEFFICIENT / 2  # so that differences of two parameters are in range
        values = dict(zip(self.fitted, vector[1:].clip(-half, half).tolist(), strict=True))
        if self._both:
            values["out_offset"] -= values["out_weight"]
        return replace(self._fixed, **values)

    def to_model(self) -> NDArray[np.float64]:
        """Return the Jacobian of log alpha and the coefficients with respect to the vector."""
        matrix = np.eye(1 + len(self.fitted))
        if self._both:
            matrix[1, 2] = -1.0
        return matrix

    def residuals(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log(predicted time / measured time) for each measured time."""
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
    """Return the least-squares vector.

    Kinks of the predicted times cause local minima a few standard errors apart, so the search
    starts from two models and then from random points around the best solution.
    """
    # Imported here because scipy.optimize is slow to import and only this function uses it.
    from scipy.optimize import least_squares

    low, high = problem.bounds()
    fixed = problem.vector(model)[: min(problem.alone, 1)]
    free = slice(len(fixed), None)

    def search(start: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        if len(start) == len(fixed):
            return 0.0, fixed
        result = least_squares(
            lambda numbers: problem.residuals(np.concatenate([fixed, numbers])),
            np.clip(start, low, high)[free],
            bounds=(low[free], high[free]),
            x_scale="jac",
            xtol=1e-10,
            ftol=1e-10,
            gtol=1e-10,
        )
        return float(result.cost), np.concatenate([fixed, result.x])

    cost, best = min((search(problem.vector(start)) for start in (model, _INSIDE)), key=_cost)
    random = np.random.default_rng(0)
    for _ in range(_RESTARTS):
        deviation = _local_deviation(problem, best, graph)
        candidate = search(best + 3 * deviation * random.standard_normal(len(best)))
        cost, best = min((cost, best), candidate, key=_cost)
    return best


def _cost(result: tuple[float, NDArray[np.float64]]) -> float:
    return result[0]


def _local_deviation(
    problem: _Problem, best: NDArray[np.float64], graph: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the standard errors at a solution, 0 if the derivatives do not determine them."""
    jacobian = _jacobian(problem, best, np.full(len(best), _STEP))
    if _rank(jacobian, problem.alone) < len(best):
        return np.zeros(len(best))
    deviation: NDArray[np.float64] = np.sqrt(
        np.diag(_covariance(jacobian, problem.residuals(best), graph, problem.alone))
    )
    return deviation


def _rank(jacobian: NDArray[np.float64], alone: int) -> int:
    """Return how many parameters the times determine, alpha included; `alone`: see `_Problem`."""
    if alone:
        return 1 + (_rank(jacobian[:, 1:], 0) if jacobian.shape[1] > 1 else 0)
    length = np.linalg.norm(jacobian, axis=0)
    unit = jacobian / np.where(length > _RANK * length.max(), length, np.inf)
    return int(np.linalg.matrix_rank(unit, _RANK))


def _deviation(
    problem: _Problem, solution: NDArray[np.float64], graph: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the standard errors of log alpha and the coefficients.

    Predicted times have kinks where the order of completions or the rule of a penalty changes;
    derivatives there are one-sided. Derivatives are therefore also taken over steps of one standard
    error to either side; the result is the maximum of the three standard errors.
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
            continue  # the step crosses a kink
        covariance = _covariance(jacobian, residuals, graph, problem.alone)
        deviation = np.maximum(deviation, np.sqrt(np.diag(matrix @ covariance @ matrix.T)))
    return deviation


def _jacobian(
    problem: _Problem, solution: NDArray[np.float64], step: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return difference quotients [times, parameters]; steps out of a range are reversed."""
    low, high = problem.bounds()
    base = problem.residuals(solution)
    columns = [np.ones(len(base))]  # of log alpha
    for index, size in enumerate(step[1:], 1):
        moved = solution.copy()
        moved[index] += size if low[index] <= solution[index] + size <= high[index] else -size
        moved[index] = min(max(moved[index], low[index]), high[index])
        columns.append((problem.residuals(moved) - base) / (moved[index] - solution[index]))
    return np.array(columns).T


def _covariance(
    jacobian: NDArray[np.float64],
    residuals: NDArray[np.float64],
    graph: NDArray[np.int64],
    alone: int,
) -> NDArray[np.float64]:
    """Return the covariance matrix of the parameters; `alone` as in `_Problem`."""
    if not alone:
        return _fitted_covariance(jacobian, residuals, graph)
    fitted = jacobian[:, 1:]
    variance = residuals @ residuals / (len(residuals) - fitted.shape[1]) / alone
    # Sensitivity of the fitted coefficients to an error of alpha.
    sensitivity = np.concatenate([[1.0], -np.linalg.lstsq(fitted, jacobian[:, 0])[0]])
    covariance: NDArray[np.float64] = variance * np.outer(sensitivity, sensitivity)
    if fitted.shape[1]:
        covariance[1:, 1:] += _fitted_covariance(fitted, residuals, graph)
    return covariance


def _fitted_covariance(
    jacobian: NDArray[np.float64], residuals: NDArray[np.float64], graph: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the covariance of fitted parameters; each variance is the larger of two estimates."""
    times, numbers = jacobian.shape
    length = np.linalg.norm(jacobian, axis=0)
    inverse: NDArray[np.float64] = np.linalg.inv(
        (jacobian / length).T @ (jacobian / length)
    ) / np.outer(length, length)
    own = inverse * (residuals @ residuals) / (times - numbers)
    # Disturbances of a run are common to all times of its graph.
    score = np.zeros((graph.max() + 1, numbers))
    np.add.at(score, graph, jacobian * residuals[:, None])
    graphs = len(np.unique(graph))
    shared = inverse @ (score.T @ score) @ inverse * graphs / max(graphs - 1, 1)
    least = np.maximum(np.diag(own), np.finfo(np.float64).tiny)  # 0 for exact times
    larger: NDArray[np.float64] = np.sqrt(np.maximum(np.diag(shared) / least, 1.0))
    combined: NDArray[np.float64] = own * np.outer(larger, larger)
    return combined


def _refuse_undetermined(
    jacobian: NDArray[np.float64], matrix: NDArray[np.float64], names: list[str]
) -> None:
    """Raise an error that names the coefficients which can change without changing any time."""
    if not names:
        return
    length = np.linalg.norm(jacobian, axis=0)
    unit = jacobian / np.where(length > _RANK * length.max(), length, np.inf)
    singular, rows = np.linalg.svd(unit)[1:]
    null_space = rows[np.concatenate([singular, np.zeros(len(rows) - len(singular))]) < _RANK]
    if null_space.size:
        undetermined = np.abs(matrix) @ np.abs(null_space).max(axis=0)
        names_text = ", ".join(
            name for name, part in zip(names, undetermined, strict=True) if part > 0.1
        )
        raise InputError(
            f"the measured graphs do not determine {names_text}; measure graphs of more shapes, or "
            "fit only the other coefficients"
        )
