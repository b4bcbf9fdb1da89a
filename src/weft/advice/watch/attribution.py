"""Which job sends how much of the traffic measured on a link, and how well that is determined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, LinearConstraint, milp, minimize
from scipy.sparse import csc_array, csr_array, hstack, vstack

from weft.advice.watch.path_rates import PathRates, path_rates
from weft.advice.watch.traffic import PairTraffic
from weft.core.arguments import whole_numbers
from weft.core.errors import InputError
from weft.core.student import CONFIDENCE, student_t
from weft.core.words import few
from weft.counters.rates import Rates
from weft.fabrics import Fabric
from weft.routing.routes import Routes

#: Name of traffic that no given job explains.
NO_JOB = "no job"

#: Errors below this part of a rate are rounding.
_ROUNDING = 1e-5
#: The fit ends when what it could still gain is this part of the errors of the rates.
_CLOSE = 0.03
#: Number of times that rates of hosts are scaled to the sums that they must have, at most, and the
#: relative error at which that ends.
_SCALINGS, _SCALED = 30, 1e-3
#: Number of unknown rates up to which all take part in the bounds of a share.
_MOST_UNKNOWN = 20_000
#: Number of unknown rates near a link up to which they are not merged.
_MOST_NEAR = 5_000


@dataclass(frozen=True)
class LinkVerdict:
    """Who loads a link most: the only one that may, if there is only one."""

    #: Names of the groups that may, or `NO_JOB`, by falling estimate; none on an idle link.
    candidates: tuple[str, ...]

    @property
    def first(self) -> str | None:
        """Name of the group, or `NO_JOB`; None if several may load the link most, or none does."""
        return self.candidates[0] if len(self.candidates) == 1 else None

    def __str__(self) -> str:
        if not self.candidates:
            return "no traffic"
        return self.first or f"cannot be told apart: {few(self.candidates)}"


@dataclass(frozen=True, eq=False)
class Attribution:
    """Traffic of links by group.

    An interval holds every share with which rates of pairs exist that add up to all measured rates
    within their errors.
    """

    #: Names of the groups, and last `NO_JOB`: what no group explains.
    names: tuple[str, ...]
    #: int64 [asked links], and float64 [asked links]: measured rate, and its standard error.
    links: NDArray[np.int64]
    measured_gbps: NDArray[np.float64]
    error_gbps: NDArray[np.float64]
    #: float64 [asked links, names]: estimate and interval.
    explained_gbps: NDArray[np.float64]
    low_gbps: NDArray[np.float64]
    high_gbps: NDArray[np.float64]
    #: One of each asked link.
    verdicts: tuple[LinkVerdict, ...]
    #: For each asked link and group, int64: hosts of the group whose traffic can be on the link.
    hosts: tuple[tuple[NDArray[np.int64], ...], ...]
    pair_traffic: PairTraffic


def attribute(
    rates: Rates,
    routes: Routes,
    groups: Mapping[str, ArrayLike],
    links: ArrayLike,
) -> Attribution:
    """Return how much of the measured traffic of links each group of hosts explains.

    docs/watch.md describes the method.

    Parameters
    ----------
    rates
        Measured rates; links without a rate are left out.
    routes
        The present routes of the fabric.
    groups
        Host numbers of each running job, by its name; a host may be in several groups. Hosts of a
        group exchange data with one another and with hosts of no group.
    links
        Numbers of the links to explain.

    Raises
    ------
    InputError
        If a host or link does not exist, an asked link has no rate, a group is called "no job", or
        the routes belong to another fabric.
    NotApplicable
        If packets are sent via intermediates.
    """
    fabric, measured = rates.fabric, rates.link_gbps
    routes.check(fabric)
    names = tuple(groups)
    for name in {NO_JOB}.intersection(names):
        raise InputError(f"a job must not be called {name!r}")
    hosts = [fabric.host_numbers(each, f"hosts of {name}") for name, each in groups.items()]
    asked = whole_numbers(np.atleast_1d(links), "links", low=0, high=fabric.num_links - 1)
    for link in asked[np.isnan(measured[asked])]:
        raise InputError(f"{fabric.link_name(int(link))} has no rate to explain")
    system = path_rates(fabric, routes, measured, hosts, asked)
    errors = Errors.of(rates)
    fit = _Fit.of(system, errors)
    shares = [_Share(fit, fabric, int(link), len(names)) for link in asked]
    explained, low, high = (
        np.array([getattr(each, part) for each in shares]).reshape(len(asked), len(names) + 1)
        for part in ("estimate", "low", "high")
    )
    return Attribution(
        (*names, NO_JOB), asked, measured[asked], errors.deviation(measured[asked]),
        explained, low, high, tuple(share.verdict((*names, NO_JOB)) for share in shares),
        tuple(share.hosts(fabric, hosts) for share in shares), _host_pairs(fabric, fit),
    )  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """Errors of measured rates, whose variance is proportional to the rate."""

    #: Variance of a rate of 1 Gb/s.
    variance_gbps: float
    #: Number of switches or cables that tell it.
    degrees: int

    @classmethod
    def of(cls, rates: Rates) -> Errors:
        """Return the larger of the errors by which switches, and cables, do not balance.

        A switch sends what it receives, and the two ends of a cable count the same data.
        """
        fabric, switches = rates.fabric, rates.fabric.num_switches
        link = fabric.port_link[rates.frame["slot"].to_numpy()]
        ends = np.full((2, fabric.num_links), np.nan)
        for end, column, at in zip(ends, ("xmit_gbps", "rcv_gbps"), (link, link ^ 1), strict=True):
            end[at[link >= 0]] = rates.frame[column].to_numpy().astype(np.float64)[link >= 0]
        sums = [
            np.bincount(node, rates.link_gbps, minlength=switches)[:switches]
            for node in (fabric.link_from, fabric.link_to)
        ]
        found = [(0.0, 1)]
        for pair in (ends, np.array(sums)):
            sent, received = pair[:, pair.sum(axis=0) > 0]  # not where one is not known
            if len(sent):
                variance = ((sent - received) ** 2).sum() / (sent + received).sum()
                found.append((float(variance), len(sent)))
        return cls(*max(found))

    def deviation(self, gbps: Any) -> Any:
        """Return the standard deviation of the errors of rates."""
        return np.sqrt(self.variance_gbps * gbps + (_ROUNDING * gbps) ** 2)

    def quantile(self, rates: int) -> float:
        """Return the number of standard deviations that no error of so many rates exceeds."""
        return float(student_t(self.degrees, 1 - (1 - CONFIDENCE) / max(rates, 1)))


@dataclass(frozen=True, eq=False)
class _Fit:
    """Rates that fit the measured ones, and how far others may be from these."""

    system: PathRates
    #: [measured rates, pairs]: as in `PathRates.share`.
    share: csc_array
    #: float64 [pairs]: estimate, and the most that is possible.
    rate: NDArray[np.float64]
    most: NDArray[np.float64]
    #: float64 [measured rates]: possible error.
    slack: NDArray[np.float64]

    @classmethod
    def of(cls, system: PathRates, errors: Errors) -> _Fit:
        """Return the fit; what it leaves counts as an error of the measured rate."""
        share = csc_array(system.share)
        deviation, quantile = errors.deviation(system.gbps), errors.quantile(len(system.gbps))
        # Without more knowledge, all pairs of endpoints are alike.
        sizes = system.sending.size[system.source], system.receiving.size[system.destination]
        alike = np.prod(sizes, axis=0, dtype=np.float64)
        alike *= system.gbps.sum() / max((system.share @ alike).sum(), 1)
        rate = _fitted(system.share, share, system.gbps, deviation, alike)
        slack = quantile * deviation + np.abs(system.share @ rate - system.gbps)
        most = system.most_gbps + quantile * errors.deviation(system.sending.gbps[system.source])
        return cls(system, share, rate, np.where(np.isnan(most), np.inf, most), slack)


def _fitted(
    share: csr_array,
    columns: csc_array,
    gbps: NDArray[np.float64],
    deviation: NDArray[np.float64],
    prior: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the rates closest to the measured ones, among such the closest to `prior`.

    Minimises the sum of squared errors, each divided by its variance, plus the Kullback-Leibler
    divergence from `prior`. This is done in the dual problem, which has one variable for each
    measured rate and no constraints: the rates are ``prior * exp(-share.T @ y)``. `columns` has the
    entries of `share`.
    """
    if not len(prior):
        return prior
    unit = float((prior**2).sum() / prior.sum())
    # Each dual variable is scaled by its curvature at the start, and so is the error it may leave.
    scale = 1 / np.sqrt(share @ prior + deviation**2 / unit)
    back, gbps, soft = columns.T, scale * gbps, (scale * deviation) ** 2 / unit
    last: tuple[NDArray[np.float64], NDArray[np.float64]] = gbps * np.nan, prior

    def rates(y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rates, which are asked for many times at one `y`."""
        nonlocal last
        if not np.array_equal(y, last[0]):
            with np.errstate(over="ignore"):
                last = y.copy(), prior * np.exp(-(back @ (scale * y)))
        return last[1]

    def value(y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        rate = rates(y)
        gradient: NDArray[np.float64] = gbps + soft * y - scale * (share @ rate)
        return float(rate.sum() + gbps @ y + 0.5 * soft @ y**2), gradient

    def curvature(y: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
        product: NDArray[np.float64] = scale * (share @ (rates(y) * (back @ (scale * p))))
        product += soft * p
        return product

    close = _CLOSE * float(np.linalg.norm(scale * deviation))
    found = minimize(
        value, np.zeros(len(gbps)), jac=True, hessp=curvature, method="trust-ncg",
        options={"gtol": close, "maxiter": 200},
    )  # fmt: skip
    return rates(found.x)


class _Share:
    """What each group, and last no group, can have of one link: estimate, least and most.

    In a large fabric, only rates of pairs that share a source, or a destination, with a pair on the
    link are unknowns (`_program`). So intervals may become wider, never narrower.
    """

    def __init__(self, fit: _Fit, fabric: Fabric, link: int, groups: int):
        self.system, self.groups = fit.system, groups
        number = int(fit.system.rate_of_link[link])
        self.gbps = float(fit.system.gbps[number]) if number >= 0 else 0.0
        on = fit.system.share[[number] if number >= 0 else []]
        self.pairs, group = on.indices, fit.system.group[on.indices]
        program = _program(fit, fabric, link, self.pairs)
        self.load = np.where(program.group == np.arange(groups)[:, None], program.part, 0.0)
        some = np.diff(program.share.indptr) > 0
        self.fits = LinearConstraint(program.share[some], program.low[some], program.high[some])
        self.most = program.most
        tight = bool((program.rate > self.most).any() and self.load.any())
        if tight and self._least(np.zeros(groups)) < 0:
            self.most = np.maximum(self.most, program.rate)
        every = np.vstack((np.eye(groups), np.ones(groups)))
        least, most = (
            np.array([sign * self._least(sign * each) for each in every]) for sign in (1, -1)
        )
        least[-1], most[-1] = self.gbps - most[-1], self.gbps - least[-1]
        self.low, self.high = (each.clip(0, self.gbps) + 0.0 for each in (least, most))
        rate = on.data * fit.rate[self.pairs]
        estimate = np.bincount(group, rate, minlength=groups + 1)[:groups]
        self.estimate = np.append(estimate, self.gbps - estimate.sum()).clip(self.low, self.high)

    def _least(self, weights: NDArray[np.float64]) -> float:
        """Return the least of a weighted sum of the groups' rates on the link, -inf if none fit."""
        cost = weights @ self.load
        if weights.any() and not cost.any():
            return 0.0
        found = milp(cost, constraints=self.fits, bounds=Bounds(0, self.most))
        return float(found.fun) if found.x is not None else -np.inf

    def verdict(self, names: Sequence[str]) -> LinkVerdict:
        """Return who has the largest share in some rates that fit."""
        if not self.gbps:
            return LinkVerdict(())
        order = np.argsort(-self.estimate, kind="stable")
        likely = [int(each) for each in order if self.high[each] >= self.low.max()]
        if len(likely) > 1:
            likely = [each for each in likely if self._can_be_first(each)]
        return LinkVerdict(tuple(names[each] for each in likely))

    def _can_be_first(self, one: int) -> bool:
        """Return whether a share can be as large as every other.

        Its smallest lead is a variable of its own, the last one.
        """
        # What no group explains is the rate of the link less the sum of all groups.
        weight = np.vstack((np.eye(self.groups), np.full(self.groups, -1)))
        constant = np.append(np.zeros(self.groups), self.gbps)
        others = np.arange(self.groups + 1) != one
        lead = np.column_stack(
            ((weight[one] - weight[others]) @ self.load, np.full(self.groups, -1))
        )
        fits = self.fits
        last = csc_array((len(fits.lb), 1))
        found = milp(
            np.append(np.zeros(len(self.most)), -1),
            constraints=[
                LinearConstraint(hstack((fits.A, last)), fits.lb, fits.ub),
                LinearConstraint(lead, constant[others] - constant[one], np.inf),
            ],
            bounds=Bounds(
                np.append(np.zeros(len(self.most)), -np.inf), np.append(self.most, np.inf)
            ),
        )
        return found.x is None or float(found.fun) <= 0

    def hosts(
        self, fabric: Fabric, groups: Sequence[NDArray[np.int64]]
    ) -> tuple[NDArray[np.int64], ...]:
        """Return the hosts of each group that can send or receive over the link."""
        system, found = self.system, []
        for number, members in enumerate(groups):
            pairs = self.pairs[system.group[self.pairs] == number]
            there = np.isin(system.sending.of, system.source[pairs])
            there |= np.isin(system.receiving.of, system.destination[pairs])
            ends = fabric.endpoint_node[np.flatnonzero(there)] - fabric.num_switches
            found.append(np.intersect1d(ends, members))
        return tuple(found)


class _Program(NamedTuple):
    """Unknown rates by which shares of a link are bounded, and the bounds of their sums."""

    #: int64 [unknowns] and float64 [unknowns]: group, and part of the rate that is on the link.
    group: NDArray[np.int64]
    part: NDArray[np.float64]
    #: [sums, unknowns]: part of each rate in each sum; and float64 [sums].
    share: csr_array
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    #: float64 [unknowns]: the most, and the estimate.
    most: NDArray[np.float64]
    rate: NDArray[np.float64]


def _program(fit: _Fit, fabric: Fabric, link: int, pairs: NDArray[np.int32]) -> _Program:
    """Return the bounds of the pairs on a link.

    In a large fabric, pairs count that share both ends, or one, with a pair on the link. The others
    only add to a measured rate, which then is no more than an upper bound.
    """
    system, columns = fit.system, np.arange(len(fit.rate))
    number = int(system.rate_of_link[link])
    near = [np.isin(ends, ends[pairs]) for ends in (system.source, system.destination)]
    side = int(np.argmin([np.count_nonzero(each) for each in near]))
    if len(columns) > _MOST_UNKNOWN:
        columns = np.flatnonzero(near[0] | near[1])
        if len(columns) > _MOST_NEAR:
            columns = np.flatnonzero(near[side])
    share = csr_array(fit.share[:, columns])
    part = share[[number]].toarray()[0] if number >= 0 else np.zeros(len(columns))
    whole = np.diff(share.indptr) == np.diff(system.share.indptr)
    found = _Program(
        system.group[columns], part, share,
        np.where(whole, system.gbps - fit.slack, -np.inf), system.gbps + fit.slack,
        fit.most[columns], fit.rate[columns],
    )  # fmt: skip
    if len(fit.rate) <= _MOST_UNKNOWN or len(columns) <= _MOST_NEAR:
        return found
    ends = (system.source[columns], system.destination[columns])[:: 1 - 2 * side]
    known = [np.isfinite(each.gbps) for each in (system.sending, system.receiving)]
    counts = [np.count_nonzero(each) for each in known]
    first = len(whole) - sum(counts[side ^ 1 :])
    row = np.where(known[side ^ 1], first + np.cumsum(known[side ^ 1]) - 1, -1)
    whole[row[row >= 0]] = False
    merged = _merged(found, ends, row, whole)
    if len(merged.most) > _MOST_NEAR:
        own = [fabric.link_from[link], fabric.link_to[link]]
        there = np.isin(fabric.link_from, own) | np.isin(fabric.link_to, own)
        links = len(whole) - sum(counts)
        whole[:links] &= np.isin(np.arange(links), system.rate_of_link[there])
        merged = _merged(found, ends, row, whole)
    return merged


def _merged(
    found: _Program,
    ends: tuple[NDArray[np.int64], ...],
    row: NDArray[np.int64],
    kept: NDArray[np.bool_],
) -> _Program:
    """Return the bounds with classes at the far end as one, if the same sums tell them apart.

    `ends`: near and far class of each unknown. `row`: sum of each far class, -1 for none. `kept`
    [sums]: which of the others count; those of links that other pairs share tell little.
    """
    rng = np.random.default_rng(0)  # equal columns have equal sums of random numbers
    near, far = ends
    body = csc_array(found.share[kept])
    sums = np.unique(body.T @ rng.random(body.shape[0]), return_inverse=True)[1]
    form = np.unique(np.vstack((sums, found.group, near)), axis=1, return_inverse=True)[1].ravel()
    classes, at = np.unique(far, return_inverse=True)
    row = row[classes]
    forms = csr_array((np.ones(len(at)), (at, form)), (len(classes), form.max() + 1))
    sums = np.unique(forms @ rng.random(forms.shape[1]), return_inverse=True)[1]
    kinds = np.vstack((sums, row >= 0, np.isfinite(found.low[row])))
    kind = np.unique(kinds, axis=1, return_inverse=True)[1].ravel()
    _, first, index = np.unique(
        kind[at] * forms.shape[1] + form, return_index=True, return_inverse=True
    )
    known = row >= 0
    listed = np.unique(kind[known])
    mine = csr_array(
        (np.ones(len(first)), (kind[at][first], np.arange(len(first)))),
        (kind.max() + 1, len(first)),
    )  # fmt: skip
    low, high, most, rate = (
        each.astype(np.float64)
        for each in (
            *(
                np.append(bound[kept], np.bincount(kind[known], bound[row[known]])[listed])
                for bound in (found.low, found.high)
            ),
            np.bincount(index, found.most),
            np.bincount(index, found.rate),
        )
    )
    return _Program(
        found.group[first], found.part[first], csr_array(vstack((body[:, first], mine[listed]))),
        low, high, most, rate,
    )  # fmt: skip


def _host_pairs(fabric: Fabric, fit: _Fit) -> PairTraffic:
    """Return the rates of pairs of hosts: of classes, divided as their endpoints send and receive.

    No endpoint sends to itself, so sums over sources, destinations and classes are scaled in turn.
    """
    system, rate = fit.system, fit.rate
    width = system.receiving.size[system.destination].astype(np.int32)
    count = system.sending.size[system.source] * width
    # Millions of pairs: 32 bits halve what they take.
    pair = np.repeat(np.arange(len(count), dtype=np.int32), count)
    within = np.arange(len(pair), dtype=np.int32)
    within -= np.repeat((np.cumsum(count) - count).astype(np.int32), count)
    gbps, hosts, sums = rate[pair], [], []
    for side, index, place in (
        (system.sending, system.source, within // width[pair]),
        (system.receiving, system.destination, within % width[pair]),
    ):
        at = side.offset[index].astype(np.int32)[pair] + place
        hosts.append(fabric.endpoint_node[side.endpoint[at]] - np.int32(fabric.num_switches))
        gbps *= side.part[at]
        total = np.bincount(index, rate, minlength=len(side.gbps))
        sums.append((at, side.part * np.repeat(total, side.size)))
    gbps[hosts[0] == hosts[1]] = 0
    for _ in range(_SCALINGS):
        largest = 0.0
        for at, wanted in (*sums, (pair, rate)):
            found = np.bincount(at, gbps, minlength=len(wanted))
            factor = np.divide(wanted, found, out=np.ones(len(wanted)), where=found > 0)
            largest = max(largest, float(np.abs(factor - 1).max(initial=0)))
            gbps *= factor[at]
        if largest < _SCALED:
            break
    sent = gbps > 0
    source, destination = (each[sent].astype(np.int64) for each in hosts)
    return PairTraffic(source, destination, gbps[sent])
