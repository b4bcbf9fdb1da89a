"""States of kernels as one pointer: the type that is remembered for a state is Numba's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import typeof

from weft.kernels.parts import _kind_of

RECORD = np.dtype([("free_at_ps", "i8"), ("credits", "i2")])
WHOLE = np.zeros((4, 6), dtype=np.int64)
FIXED = WHOLE.copy()
FIXED.flags.writeable = False


class One(NamedTuple):
    part: Any


class Other(NamedTuple):
    part: Any


@pytest.mark.parametrize(
    "part",
    [
        WHOLE, FIXED, WHOLE.T, WHOLE[:, ::2], WHOLE[0], WHOLE.astype(np.int32), WHOLE > 0,
        np.zeros(3, RECORD), np.zeros(3, RECORD)[0], np.zeros(3, np.dtype(RECORD.descr[:1])),
        np.zeros(3, RECORD).view(np.recarray)[0], None, True, 7, 2**63, 0.5, np.int32(7),
        np.float32(0.5), One(WHOLE), One(FIXED), One(One(7)),
    ],
    ids=str,
)  # fmt: skip
def test_the_remembered_type_of_a_state_is_numbas(part: Any) -> None:
    for state in (One(part), Other(part), One(One(part))):
        assert _kind_of(state) == typeof(state)
        assert _kind_of(type(state)(state.part)) == typeof(state)


def test_states_of_different_types_are_told_apart() -> None:
    parts = [WHOLE, FIXED, WHOLE.T, WHOLE[0], None, True, 7, 2**63, 0.5, One(WHOLE), One(FIXED)]
    for first, second in pairwise([*parts, *map(One, parts)]):
        assert (_kind_of(One(first)) == _kind_of(One(second))) == (
            typeof(One(first)) == typeof(One(second))
        )
