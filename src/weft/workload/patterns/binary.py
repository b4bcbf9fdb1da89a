"""Permutations of the bits of a host number; the number of hosts must be a power of two.

A host number has b bits: s(i) is bit i of the source, d(i) is bit i of the destination, and bit 0
is the least significant.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.patterns.pattern_registry import Pairs, pattern, permutation

DALLY = "Dally and Towles 2004, table 3.1"


def _bits(name: str, num_hosts: int) -> int:
    bits = num_hosts.bit_length() - 1
    if num_hosts != 1 << bits:
        raise NotApplicable(
            f"{name} permutes the bits of a host number, so the number of hosts must be a power of "
            f"two, not {num_hosts}"
        )
    return bits


def _from_bits(num_hosts: int, of: list[int]) -> NDArray[np.int64]:
    """Return destinations with d(i) = s(of[i])."""
    hosts = np.arange(num_hosts, dtype=np.int64)
    destinations = np.zeros(num_hosts, dtype=np.int64)
    for bit, source_bit in enumerate(of):
        destinations |= ((hosts >> source_bit) & 1) << bit
    return destinations


@pattern("bit-reversal", aliases=("bit-reverse",), binary=True, source=DALLY)
def bit_reversal(num_hosts: int) -> Pairs:
    """d(i) = s(b - 1 - i): the bits in reverse order, as in the reordering step of an FFT."""
    bits = _bits("bit-reversal", num_hosts)
    return permutation(_from_bits(num_hosts, list(range(bits))[::-1]))


@pattern("bit-rotation", binary=True, source=DALLY)
def bit_rotation(num_hosts: int) -> Pairs:
    """d(i) = s(i + 1 mod b): the bits rotated right by one, the inverse of the shuffle."""
    bits = _bits("bit-rotation", num_hosts)
    return permutation(_from_bits(num_hosts, [(i + 1) % bits for i in range(bits)]))


@pattern("butterfly", binary=True, source="Duato, Yalamanchili and Ni 2003")
def butterfly(num_hosts: int) -> Pairs:
    """The most and the least significant bit are exchanged."""
    bits = _bits("butterfly", num_hosts)
    return permutation(_from_bits(num_hosts, [bits - 1, *range(1, bits - 1), 0][:bits]))


@pattern("complement", aliases=("bit-complement",), binary=True, source=DALLY)
def complement(num_hosts: int) -> Pairs:
    """d(i) = not s(i): host s sends to host N - 1 - s."""
    _bits("complement", num_hosts)
    return permutation(np.arange(num_hosts)[::-1])


@pattern("shuffle", aliases=("perfect-shuffle",), binary=True, source=DALLY)
def shuffle(num_hosts: int) -> Pairs:
    """d(i) = s(i - 1 mod b): the bits rotated left by one, as in a perfect shuffle of cards."""
    bits = _bits("shuffle", num_hosts)
    return permutation(_from_bits(num_hosts, [(i - 1) % bits for i in range(bits)]))


@pattern("transpose", binary=True, source=DALLY)
def transpose(num_hosts: int, *, square: bool = False) -> Pairs:
    """d(i) = s(i + b/2 mod b): the halves of the bits are exchanged, as in a matrix transposition.

    Parameters
    ----------
    num_hosts
        Number of hosts: an even power of two or, with `square`, a square number.
    square
        Arrange the hosts in a square with any side length; the host at (x, y) sends to the host at
        (y, x). For an even power of two, the flows are the same as without this option.
    """
    if square:
        side = isqrt(num_hosts)
        if side * side != num_hosts:
            raise NotApplicable(
                f"transpose of a square needs a square number of hosts, not {num_hosts}"
            )
        return permutation(np.arange(num_hosts).reshape(side, side).T.reshape(-1))
    bits = _bits("transpose", num_hosts)
    if bits % 2:
        raise NotApplicable(
            "transpose exchanges the halves of a host number and needs an even number of bits; "
            f"{num_hosts} hosts have {bits}"
        )
    return permutation(_from_bits(num_hosts, [(i + bits // 2) % bits for i in range(bits)]))
