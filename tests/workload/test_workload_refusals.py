"""Values of wrong shapes and types: builders refuse them with an error, and convert none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.core.registry import convert
from weft.core.units import Bytes, Nanoseconds
from weft.workload import Kind, WorkloadBuilder

Write = Callable[[WorkloadBuilder], object]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda b: b.wait(0, [-2]), "no operation has the handle -2"),
        (lambda b: b.wait([0], [[-2]]), "no operation has the handle -2"),
        (lambda b: b.wait(0, 0.7), "handles must be whole numbers, not 0.7"),
        (lambda b: b.wait([0], [0.7]), "handles must be whole numbers"),
        (lambda b: b.calc(0, 1, after=[0.5]), "handles must be whole numbers, not 0.5"),
        (lambda b: b.calc(0, 1, after=[-1]), "no operation has the handle -1"),
        (lambda b: b.requires([0], [[0], [0, 0]]), "handles must be whole numbers, not "),
        (lambda b: b.wait([0], [[0], [0, 0]]), "handles must be whole numbers, not "),
        (lambda b: b.requires([0, 0], [0, 0, 0]), "2 operations cannot wait for 3 others"),
        (lambda b: b.calc([0, 1], [1, 2, 3]), r"duration: array of shape \(3,\); .* of 2 ranks"),
        (lambda b: b.calc(0, [1.0, 2.0]), r"duration: array of shape \(2,\); .* each of 1 ranks"),
        (lambda b: b.calc([0, 1], 1, cpu=[1, 2, 3]), r"processor: array of shape \(3,\)"),
        (lambda b: b.calc(0, 1, cpu=1.5), "processor 1.5"),
        (lambda b: b.calc(0, "10us"), "duration of '10us'"),
        (lambda b: b.send([0, 1], [1, 2, 3], 1), r"peer: array of shape \(3,\)"),
        (lambda b: b.send(0, [1, 2], 5), r"peer: array of shape \(2,\)"),
        (lambda b: b.send(0, 1, 10**30), "size in bytes 1000000000000000000000000000000; sizes"),
        (lambda b: b.send(0, 1, 1, comm=[0, 0]), r"no communicator \[0, 0\]"),
        (lambda b: b.send(0, 1, 1, comm=0.5), "no communicator 0.5"),
        (lambda b: b.put(0, 1, 1, release_ns="5us"), "release time '5us' is not a number"),
        (lambda b: b.put([0, 1], 1, 1, release_ns=[5.0, 6, 7]), r"release time: array .*3,"),
        (lambda b: b.sendrecv([0, 1], [1, 0, 2], 8, 0, 8), r"peer: array of shape \(3,\)"),
        (lambda b: b.sendrecv(0.5, 1, 8, 1, 8), "ranks must be whole numbers, not 0.5"),
        (lambda b: b.sendrecv(0, 1.5, 8, -1, 8), "peer 1.5 is not a whole number"),
        (lambda b: b.operations([0.5], 0), "ranks must be whole numbers"),
        (lambda b: b.operations([0], -1), "kind -1; kinds are 0 to 5"),
        (lambda b: b.operations([0], 256), "kind 256; kinds are 0 to 5"),
        (lambda b: b.operations([0, 1], [0, 0, 0]), r"kind: array of shape \(3,\)"),
        (lambda b: b.operations([0, 1], 0, release_ns=[1, 2, 3]), r"release time: array .*3,"),
        (lambda b: b.operations([0], Kind.PUT, peer=1, comm=0.5), "communicator 0.5 is not"),
    ],
)
def test_bad_values_are_refused(write: Write, message: str) -> None:
    builder = WorkloadBuilder(4)
    builder.calc(0, 1.0)
    with pytest.raises(InputError, match=message):
        write(builder)


def test_totals_that_cannot_be_counted_are_refused() -> None:
    builder = WorkloadBuilder(2)
    for _ in range(64):
        builder.put(0, 1, 2**56)
    builder.build()
    builder.put(1, 0, 2**56)
    with pytest.raises(InputError, match=r"have 4.68e.18 bytes together; at most 4.61e.18 can be"):
        builder.build()


@pytest.mark.parametrize("ranks", [1.5, "4", None, -1])
def test_bad_numbers_of_ranks_are_refused(ranks: object) -> None:
    with pytest.raises(InputError, match=f"cannot have {ranks} ranks"):
        WorkloadBuilder(ranks)  # type: ignore[arg-type]


def test_arrays_of_one_value_count_as_single_values() -> None:
    builder = WorkloadBuilder(2)
    builder.send(0, np.array([1]), np.int64(5), tag=np.array(2))
    builder.recv(1, 0, [7], tag=2)
    work = builder.build()
    assert work.peer.tolist() == [1, 0]
    assert work.size_bytes.tolist() == [5, 7]


@pytest.mark.parametrize("value", [None, [1], {}, True, b"5"])
@pytest.mark.parametrize("kind", [Bytes, Nanoseconds])
def test_quantities_of_other_types_are_refused(kind: object, value: object) -> None:
    with pytest.raises(InputError, match=r"^x: "):
        convert(value, kind, "x")
