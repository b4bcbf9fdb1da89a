"""Slim Fly: switches connected as the graphs of McKay, Miller and Širáň, of diameter two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.fabrics import FabricBuilder
from weft.fabrics.topology.family_registry import ClosedForm, at_least, check_size, need, topology
from weft.fabrics.topology.wiring import connect_copies, switches_with_hosts


@dataclass(frozen=True)
class Field:
    """A finite field as tables; the base-p digits of an element are a polynomial's coefficients."""

    #: int64 [q - 1]: powers 0, 1, … of a primitive element.
    power: NDArray[np.int64]
    #: int64 [q, q]: sum and product of two elements.
    add: NDArray[np.int64]
    multiply: NDArray[np.int64]


def prime_power(q: int) -> tuple[int, int] | None:
    """Return the prime p and exponent e with p^e = q, or None if q is not a prime power."""
    if q < 2:
        return None
    p = next((f for f in range(2, int(q**0.5) + 1) if q % f == 0), q)
    e = 0
    while q % p == 0:
        q, e = q // p, e + 1
    return (p, e) if q == 1 else None


def finite_field(p: int, e: int) -> Field:
    """Return GF(p^e), from the first primitive polynomial; for e = 1, from a primitive element."""
    q = p**e
    digits = np.array(list(product(range(p), repeat=e)), dtype=np.int64)[:, ::-1]
    weights = p ** np.arange(e)
    power = _primitive_powers(p, e, q)
    log = np.zeros(q, dtype=np.int64)
    log[power] = np.arange(q - 1)
    multiply = power[(log[:, None] + log[None, :]) % (q - 1)]
    multiply[0, :] = multiply[:, 0] = 0
    add = np.zeros((q, q), dtype=np.int64)
    for i in range(e):
        column = digits[:, i]
        add += (column[:, None] + column[None, :]) % p * weights[i]
    return Field(power, add, multiply)


def _primitive_powers(p: int, e: int, q: int) -> NDArray[np.int64]:
    """Return powers 0 to q - 2 of a primitive element.

    The element is x modulo a monic polynomial x^e + t(e-1) x^(e-1) + … + t0; for e = 1 it is the
    number -t0. Polynomials are tried in order until the powers of x are all nonzero elements.
    """
    for tail in product(range(p), repeat=e):
        value = [1] + [0] * (e - 1)
        powers = [1]
        while len(powers) < q:
            top = value[-1]
            value = [(a - top * t) % p for a, t in zip([0, *value[:-1]], tail, strict=True)]
            number = sum(digit * p**i for i, digit in enumerate(value))
            if number <= 1:
                break
            powers.append(number)
        if len(powers) == q - 1 and number == 1:
            return np.array(powers, dtype=np.int64)
    raise AssertionError("every finite field has a primitive element")


def generator_sets(power: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return Hafner's sets X and X' for the field whose primitive element has these powers.

    With q = 4w + δ: for δ = 1 or 0, X is the even powers up to q - 2; for δ = -1, the even powers
    up to 2w - 2 and their negatives. X' is X times the primitive element.
    """
    q = len(power) + 1
    if q % 4 != 3:
        exponents = np.arange(0, q - 1, 2)
    else:
        w = (q + 1) // 4
        exponents = np.concatenate((np.arange(0, 2 * w - 1, 2), np.arange(2 * w - 1, 4 * w - 2, 2)))
    return power[exponents], power[(exponents + 1) % (q - 1)]


def _slim_fly_counts(q: int, hosts: int | None = None, cables: int = 1) -> ClosedForm:
    at_least(1, q=q, cables=cables)
    need(
        prime_power(q) is not None and q > 2,
        f"q must be a prime power of 3 or more, such as 5, 7, 8 or 9, not {q}",
    )
    delta = {0: 0, 1: 1, 3: -1}[q % 4]
    degree = (3 * q - delta) // 2
    per_switch = -(-degree // 2) if hosts is None else hosts
    at_least(1, hosts=per_switch)
    switches = 2 * q * q
    return ClosedForm(
        hosts=switches * per_switch,
        switches=switches,
        cables=switches * per_switch + q * q * degree * cables,
        diameter=4,
        radix=per_switch + degree * cables,
        source="Besta and Hoefler 2014; McKay, Miller and Širáň 1998; Hafner 2004",
    )


def _sized_slim_flies(hosts: int, radix: int) -> Iterator[dict[str, Any]]:
    """Yield Slim Flies with at most half as many hosts as cables on a switch, rounded up.

    q is a prime power and p = ⌈k'/2⌉, where k' is the number of cables to other switches (Besta and
    Hoefler 2014, section II.B.2). Small q has parallel cables, so that the ports of a switch are
    used.
    """
    for q in range(3, radix):
        if prime_power(q) is None:
            continue
        degree = (3 * q - {0: 0, 1: 1, 3: -1}[q % 4]) // 2
        for cables in range(1, radix // degree + 1):
            per_switch = min(-(-hosts // (2 * q * q)), -(-degree * cables // 2))
            yield {"q": q, "hosts": per_switch, "cables": cables}


@topology(
    "slim-fly",
    aliases=("slimfly",),
    positional=("q",),
    examples=(
        "slim-fly:q=5",
        "slim-fly:q=4",
        "slim-fly:q=3,hosts=1",
        "slim-fly:q=7,hosts=2,cables=2",
        "slim-fly:q=8,hosts=1",
        "slim-fly:q=9,hosts=1",
    ),
    closed_form=_slim_fly_counts,
    sizings={"slim-fly": _sized_slim_flies},
    engines=("ugal",),
)
def slim_fly(q: int, hosts: int | None = None, cables: int = 1) -> FabricBuilder:
    """Slim Fly: 2 q² switches in two parts of q groups, any two switches at most two hops apart.

    q = 4w + δ with δ in -1, 0, 1 is a prime power, and arithmetic is that of GF(q). Switches
    (0, x, y) and (0, x, y') are connected if y - y' is in Hafner's set X, (1, m, c) and (1, m, c')
    if c - c' is in X', and (0, x, y) and (1, m, c) if y = m x + c; each switch then has
    (3q - δ)/2 neighbours. For q = 5, the switches form the Hoffman-Singleton graph.

    Switch ``s{part}.{x}.{y}`` and its hosts have the coordinates (part, x, y); an element of
    GF(p^e) is the number whose base-p digits are the coefficients of its polynomial. Ports: the
    hosts; then `cables` ports per neighbour in the group, in order of the generators of its set;
    then `cables` ports for each x, or m, of the other part.

    Parameters
    ----------
    q
        Prime power, 3 or more.
    hosts
        Number of hosts of each switch, by default half its number of neighbours, rounded up, as in
        the paper.

    Raises
    ------
    InputError
        If q is not a prime power, or a value is too small.
    """
    form = _slim_fly_counts(q, hosts, cables)
    check_size(form)
    per_switch = form.hosts // form.switches
    p, e = prime_power(q) or (q, 1)
    field = finite_field(p, e)
    sets = generator_sets(field.power)

    coordinates = np.stack(np.unravel_index(np.arange(2 * q * q), (2, q, q)), axis=1)
    build, switches = switches_with_hosts(coordinates, per_switch, ports=form.radix or 0)
    nodes = switches.reshape(2, q, q)
    within = len(sets[0])
    minus_one = field.power[(q - 1) // 2 if q % 2 else 0]
    element = np.arange(q)
    for part, generators in enumerate(sets):
        negative = field.multiply[minus_one, generators]
        # A cable from y to y + g is generator g at its tail and -g at its head.
        index = {int(g): i for i, g in enumerate(generators)}
        for g, minus_g in zip(generators.tolist(), negative.tolist(), strict=True):
            if g > minus_g:
                continue  # this cable is added for -g
            tail = element if g < minus_g else np.flatnonzero(field.add[:, g] > element)
            head = field.add[tail, g]
            connect_copies(
                build,
                nodes[part][:, tail].reshape(-1),
                nodes[part][:, head].reshape(-1),
                per_switch + index[g] * cables + 1,
                per_switch + index[minus_g] * cables + 1,
                cables=cables,
            )
    x, m, c = (axis.reshape(-1) for axis in np.indices((q, q, q)))
    y = field.add[field.multiply[m, x], c]
    first = per_switch + within * cables + 1
    connect_copies(
        build, nodes[0, x, y], nodes[1, m, c], first + m * cables, first + x * cables, cables=cables
    )
    return build
