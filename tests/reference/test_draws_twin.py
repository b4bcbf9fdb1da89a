"""Counter-based random numbers against Python's integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.kernels.hashing import uniforms

WORD = 2**64 - 1


def splitmix64(state: int) -> int:
    """Steele, Lea and Flood 2014, figure 14."""
    z = (state + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def plain_uniform(seed: int, stream: int, count: int) -> float:
    state = splitmix64(splitmix64(splitmix64(seed) ^ stream) ^ count)
    return (state >> 11) / 2**53


@settings(max_examples=60)
@given(
    st.integers(0, 2**63 - 1),
    st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 2**40)), max_size=8),
)
def test_draws_are_those_of_the_definition(seed: int, draws: list[tuple[int, int]]) -> None:
    streams, counts = np.array(draws, dtype=np.int64).reshape(-1, 2).T
    out = np.empty(len(draws))
    uniforms(np.uint64(seed), streams, counts, out)
    assert list(out) == [plain_uniform(seed, *one) for one in draws]


def test_draws_are_uniform_and_independent() -> None:
    streams, counts = (part.ravel() for part in np.meshgrid(np.arange(300), np.arange(300)))
    out = np.empty(len(streams))
    uniforms(np.uint64(3), streams, counts, out)
    observed, _ = np.histogram(out, bins=20, range=(0, 1))
    # Chi-squared with 19 degrees of freedom: 43.8 is exceeded once in a thousand times.
    assert ((observed - 4500) ** 2 / 4500).sum() < 43.8
    grid = out.reshape(300, 300)
    assert abs(np.corrcoef(grid[:-1].ravel(), grid[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(grid[:, :-1].ravel(), grid[:, 1:].ravel())[0, 1]) < 0.02
