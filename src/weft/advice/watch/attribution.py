"""Which job sends how much of the traffic measured on a link, and how well that is determined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, LinearConstraint, milp, minimize
from scipy.sparse import csc_array, csr_array, hstack

from weft.advice.watch.path_rates import PathRates, path_rates
from weft.core.errors import InputError
from weft.core.student import CONFIDENCE, student_t
from weft.counters.rates import Rates
from weft.fabrics import Fabric
from weft.routing.routes import Routes

#: Name of traffic that no given job explains.
NO_JOB = "no job"

#: Errors below this part of a rate are rounding.
_ROUNDING = 1e-5
#: Pairs up to which all take part in the bounds of a share.
_MOST_COLUMNS = 20_000


@dataclass(frozen=True, eq=False)
class Group:
    """Hosts of a running job; hosts may be in several groups."""

    name: str
    #: int64: host numbers.
    hosts: NDArray[np.int64]


class PairRates(NamedTuple):
    """Estimated rates of pairs of hosts."""

    #: int64 [pairs]: hosts.
    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    #: int64 [pairs]: the group, or the number of groups for traffic between hosts of none.
    group: NDArray[np.int64]
    #: float64 [pairs]
    gbps: NDArray[np.float64]


@dataclass(frozen=True)
class Verdict:
    """Whose traffic loads a link most."""

    #: Name of the group, or `NO_JOB`; None if that cannot be told, or the link carries nothing.
    first: str | None
    #: Names of those of which each may be the first, by falling estimate.
    candidates: tuple[str, ...]

    def __str__(self) -> str:
        if self.first is not None:
            return self.first
        names = ", ".join(self.candidates)
        return f"cannot be told apart: {names}" if names else "no traffic"


@dataclass(frozen=True, eq=False)
class Attribution:
    """Traffic of links by job.

    An interval holds every share with which rates of pairs exist that add up to all measured rates
    within their errors.
    """

    names: tuple[str, ...]
    #: int64 [asked links], and float64 [asked links]: their measured rates.
    links: NDArray[np.int64]
    measured_gbps: NDArray[np.float64]
    #: float64 [asked links, groups]: estimate and interval.
    explained_gbps: NDArray[np.float64]
    low_gbps: NDArray[np.float64]
    high_gbps: NDArray[np.float64]
    #: float64 [asked links]: estimate and interval of traffic that no group explains.
    unexplained_gbps: NDArray[np.float64]
    unexplained_low_gbps: NDArray[np.float64]
    unexplained_high_gbps: NDArray[np.float64]
    verdicts: tuple[Verdict, ...]
    #: For each asked link and group, int64: hosts of the group whose traffic can be on the link.
    hosts: tuple[tuple[NDArray[np.int64], ...], ...]
    pair_gbps: PairRates
    #: Root mean square of the errors of the measured rates, as a part of each rate's square root
    #: of (rate times mean rate).
    error_share: float


def attribute(
    rates: Rates,
    routes: Routes,
    groups: Sequence[Group],
    links: ArrayLike,
    *,
    patterns: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]] | None = None,
) -> Attribution:
    """Return how much of the measured traffic of links each group of hosts explains.

    docs/watch.md has the method.

    Parameters
    ----------
    rates
        Measured rates; links without a rate are left out.
    routes
        The present routes of the fabric.
    groups
        Running jobs. Hosts of a group exchange data with one another and with hosts of no group.
    links
        Links to explain.

    Raises
    ------
    InputError
        If two groups have one name, a host or link does not exist, an asked link has no rate, or
        the routes belong to another fabric.
    NotApplicable
        If packets are sent via intermediates.
    """
    fabric = rates.fabric
    routes.check(fabric)
    names = tuple(group.name for group in groups)
    if len({*names, NO_JOB}) <= len(names):
        raise InputError(f"jobs must have different names, none of them {NO_JOB!r}")
    asked = np.atleast_1d(np.asarray(links, dtype=np.int64))
    measured = rates.link_gbps
    for link in asked[np.isnan(measured[asked])]:
        raise InputError(f"{fabric.link_name(int(link))} has no rate to explain")
    hosts = [fabric.host_numbers(group.hosts, f"hosts of {group.name}") for group in groups]
    system = path_rates(fabric, routes, measured, hosts, asked)
    errors = Errors.of(fabric, measured)
    fit = _Fit.of(system, errors)
    shares = [_Share(fit, int(link), len(groups)) for link in asked]
    bounds = [share.bounds() for share in shares]
    explained, low, high = (
        np.array(each).reshape(len(asked), len(groups) + 1) for each in zip(*bounds, strict=True)
    )
    return Attribution(
        names, asked, measured[asked], explained[:, :-1], low[:, :-1], high[:, :-1],
        explained[:, -1], low[:, -1], high[:, -1],
        tuple(
            share.verdict((*names, NO_JOB), *bound)
            for share, bound in zip(shares, bounds, strict=True)
        ),
        tuple(share.hosts(fabric, hosts) for share in shares),
        _host_pairs(fabric, fit), errors.relative,
    )  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """Errors of measured rates: their variance is proportional to the rate."""

    #: Variance of a rate of 1 Gb/s.
    gbps: float
    #: Switches that tell it.
    degrees: int
    #: Mean rate.
    mean_gbps: float

    @classmethod
    def of(cls, fabric: Fabric, link_gbps: NDArray[np.float64]) -> Errors:
        """Return the errors by which switches send something else than they receive."""
        switches = fabric.num_switches
        balance = np.zeros(len(fabric.node_names))
        total = np.zeros_like(balance)
        for node, sign in ((fabric.link_to, 1), (fabric.link_from, -1)):
            np.add.at(balance, node, sign * link_gbps)
            np.add.at(total, node, link_gbps)
        told = np.flatnonzero(total[:switches] > 0)  # not NaN
        known = link_gbps[link_gbps > 0]
        variance = float((balance[told] ** 2).sum() / max(total[told].sum(), 1e-300))
        return cls(variance, len(told), float(known.mean()) if len(known) else 0.0)

    def deviation(self, gbps: Any) -> Any:
        """Return the standard deviation of rates."""
        return np.sqrt(self.gbps * gbps + (_ROUNDING * gbps) ** 2)

    def quantile(self, rates: int) -> float:
        """Return how many standard deviations none of `rates` errors exceeds, with confidence."""
        return float(student_t(max(self.degrees, 1), 1 - (1 - CONFIDENCE) / max(rates, 1)))

    @property
    def relative(self) -> float:
        """Standard deviation of the mean rate, as a part of it."""
        return self.deviation(self.mean_gbps) / self.mean_gbps if self.mean_gbps else 0.0


@dataclass(frozen=True, eq=False)
class _Fit:
    """Rates of pairs that fit the measured rates, and how far others may be from these."""

    system: PathRates
    #: float64 [columns]: estimate, and the most that is possible.
    rate: NDArray[np.float64]
    most: NDArray[np.float64]
    #: float64 [rows]: possible error of each measured rate.
    slack: NDArray[np.float64]
    #: `PathRates.share` by column.
    by_column: csc_array

    @classmethod
    def of(cls, system: PathRates, errors: Errors) -> _Fit:
        """Return the fit; what it leaves unexplained is an error of the measured rate."""
        rate = _fitted(system, errors)
        quantile = errors.quantile(len(system.gbps))
        residual = np.abs(system.share @ rate - system.gbps)
        slack = quantile * errors.deviation(system.gbps) + residual
        cap = system.most_gbps + quantile * errors.deviation(system.sending.gbps[system.source])
        most = np.maximum(np.where(np.isnan(cap), np.inf, cap), rate)
        return cls(system, rate, most, slack, csc_array(system.share))


def _fitted(system: PathRates, errors: Errors) -> NDArray[np.float64]:
    """Return the rates closest to the measured ones, among such the closest to a gravity model.

    Minimises the sum of squared errors, each divided by its variance, plus the Kullback-Leibler
    divergence from the gravity model. This is done in the dual problem, which has one variable per
    measured rate and no constraints: the rates are ``prior * exp(-share.T @ y)``.
    """
    prior = _gravity(system)
    if not len(prior):
        return prior
    share, back = system.share, csr_array(system.share.T)
    unit = float((prior**2).sum() / prior.sum())
    soft = errors.deviation(system.gbps) ** 2 / unit

    def rates(y: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):
            rate: NDArray[np.float64] = prior * np.exp(-(back @ y))
        return rate

    def value(y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        rate = rates(y)
        return (
            float(rate.sum() + system.gbps @ y + 0.5 * soft @ y**2),
            system.gbps + soft * y - share @ rate,
        )

    def curvature(y: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = share @ (rates(y) * (back @ p)) + soft * p
        return product

    found = minimize(
        value, np.zeros(len(system.gbps)), jac=True, hessp=curvature, method="trust-ncg",
        options={"maxiter": 200},
    )  # fmt: skip
    return rates(found.x)


def _gravity(system: PathRates) -> NDArray[np.float64]:
    """Return rates in proportion to what both ends send and receive, float64 [columns].

    What a class sends is divided among its pairs; where it is not known, it is the mean.
    """
    ends = []
    for side in (system.sending, system.receiving):
        known = side.gbps[np.isfinite(side.gbps)]
        ends.append(np.where(np.isnan(side.gbps), known.mean() if len(known) else 1.0, side.gbps))
    raw = ends[1][system.destination]
    total = np.bincount(system.source, raw, minlength=len(ends[0]))
    return ends[0][system.source] * raw / total[system.source]


class _Share:
    """What each group, and no group, can have of one link.

    Rates of pairs that cannot be on the link take part as far as their number allows: all of them,
    or those that share an end with a pair that can. What is left out only adds to a measured rate,
    so the intervals are no narrower than without this.
    """

    def __init__(self, fit: _Fit, link: int, groups: int):
        system = fit.system
        row = int(system.row_of_link[link])
        on = system.share[[row]] if row >= 0 else csr_array((1, len(fit.rate)))
        self.gbps = float(system.gbps[row]) if row >= 0 else 0.0
        self.group, self.columns = system.group[on.indices], on.indices
        self.system = system
        self.estimate = np.bincount(
            self.group, on.data * fit.rate[on.indices], minlength=groups + 1
        )[:groups]
        scope = _scope(system, self.columns)
        place = np.full(len(fit.rate), -1)
        place[scope] = np.arange(len(scope))
        # Part of the rate of each pair in scope on the link, by group.
        self.load = csr_array(
            (on.data, (self.group, place[self.columns])), shape=(groups + 1, len(scope))
        ).toarray()[:groups]
        part = csr_array(fit.by_column[:, scope])
        count = np.diff(part.indptr)
        rows = np.flatnonzero(count)
        whole = count[rows] == np.diff(system.share.indptr)[rows]
        self.constraint = LinearConstraint(
            part[rows],
            np.where(whole, (system.gbps - fit.slack)[rows], -np.inf),
            (system.gbps + fit.slack)[rows],
        )
        self.limits = Bounds(0.0, fit.most[scope])

    def least(self, weights: NDArray[np.float64]) -> float:
        """Return the least of a weighted sum of the groups' rates on the link."""
        cost = weights @ self.load
        if not cost.any():
            return 0.0
        found = milp(cost, constraints=self.constraint, bounds=self.limits)
        if found.x is None:
            raise RuntimeError(f"the bounds of a share were not found: {found.message}")
        return float(found.fun)

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return estimate, least and most of each group, and last of what no group explains."""
        groups = len(self.estimate)
        weights = np.vstack((np.eye(groups), np.ones(groups)))
        low = np.array([self.least(each) for each in weights])
        high = np.array([-self.least(-each) for each in weights])
        low[-1], high[-1] = self.gbps - high[-1], self.gbps - low[-1]
        low, high = (np.clip(each, 0.0, self.gbps) + 0.0 for each in (low, high))
        estimate = np.append(self.estimate, self.gbps - self.estimate.sum())
        return np.clip(estimate, low, high), low, high

    def verdict(
        self,
        names: Sequence[str],
        estimate: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> Verdict:
        """Return whose share is the largest in all cases, or whose may be."""
        if not self.gbps:
            return Verdict(None, ())
        order = np.argsort(-estimate, kind="stable")
        likely = [int(each) for each in order if high[each] >= low.max()]
        if len(likely) > 1:
            likely = [each for each in likely if self._can_be_first(each)] or likely[:1]
        names = [names[each] for each in likely]
        return Verdict(names[0] if len(names) == 1 else None, tuple(names))

    def _can_be_first(self, one: int) -> bool:
        """Return whether rates of pairs exist with which one share is as large as every other.

        The smallest difference to the other shares is a variable of its own.
        """
        groups, pairs = self.load.shape
        # What no group explains is the rate of the link less the sum of all groups.
        weight = np.vstack((np.eye(groups), np.full(groups, -1.0)))
        constant = np.append(np.zeros(groups), self.gbps)
        others = np.delete(np.arange(groups + 1), one)
        lead = np.column_stack(
            ((weight[one] - weight[others]) @ self.load, np.full(len(others), -1.0))
        )
        matrix, low, high = self.constraint.A, self.constraint.lb, self.constraint.ub
        found = milp(
            np.append(np.zeros(pairs), -1.0),
            constraints=[
                LinearConstraint(hstack((matrix, csc_array((len(low), 1)))), low, high),
                LinearConstraint(lead, constant[others] - constant[one], np.inf),
            ],
            bounds=Bounds(
                np.append(np.zeros(pairs), -self.gbps), np.append(self.limits.ub, self.gbps)
            ),
        )
        return found.x is None or -float(found.fun) >= 0

    def hosts(
        self, fabric: Fabric, groups: Sequence[NDArray[np.int64]]
    ) -> tuple[NDArray[np.int64], ...]:
        """Return the hosts of each group that can send or receive over the link."""
        system, found = self.system, []
        for number, members in enumerate(groups):
            columns = self.columns[self.group == number]
            ends = np.union1d(
                system.sending.endpoints_of(system.source[columns]),
                system.receiving.endpoints_of(system.destination[columns]),
            )
            found.append(np.intersect1d(fabric.endpoint_node[ends] - fabric.num_switches, members))
        return tuple(found)


def _scope(system: PathRates, columns: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the columns whose rates are looked for to bound the given ones."""
    if len(system.group) <= _MOST_COLUMNS:
        return np.arange(len(system.group))
    near = np.isin(system.source, system.source[columns])
    near |= np.isin(system.destination, system.destination[columns])
    return np.flatnonzero(near)


def _host_pairs(fabric: Fabric, fit: _Fit) -> PairRates:
    """Return the rates of pairs of hosts: of classes, divided as their hosts send and receive."""
    system = fit.system
    width = system.receiving.size[system.destination]
    count = system.sending.size[system.source] * width
    column = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(column)) - np.repeat(np.cumsum(count) - count, count)
    ends, part = [], np.ones(len(column))
    for side, index, place in (
        (system.sending, system.source, within // width[column]),
        (system.receiving, system.destination, within % width[column]),
    ):
        at = side.offset[index[column]] + place
        ends.append(fabric.endpoint_node[side.endpoint[at]].astype(np.int64) - fabric.num_switches)
        part *= side.part[at]
    part[ends[0] == ends[1]] = 0.0
    whole = np.bincount(column, part, minlength=len(count))
    gbps = fit.rate[column] * part / np.where(whole > 0, whole, 1.0)[column]
    sent = gbps > 0
    return PairRates(ends[0][sent], ends[1][sent], system.group[column][sent], gbps[sent])
