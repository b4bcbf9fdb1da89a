from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.kernels.hashing import crc32_bytes, five_tuple_crc32, five_tuple_prefix, splitmix64


@given(st.integers(0, 2**64 - 1), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_crc32_equals_zlibs(value: int, count: int, seed: int) -> None:
    message = (value % 256**count).to_bytes(count, "big")
    register = crc32_bytes(np.uint32(seed ^ 0xFFFFFFFF), np.uint64(value), count)
    assert int(register) ^ 0xFFFFFFFF == zlib.crc32(message, seed)


def test_crc32_has_the_published_check_value() -> None:
    register = np.uint32(0xFFFFFFFF)
    for letter in b"123456789":
        register = crc32_bytes(register, letter, 1)
    assert int(register) ^ 0xFFFFFFFF == 0xCBF43926


def test_crc32_of_a_five_tuple_equals_zlibs() -> None:
    message = bytes([10, 0, 0, 1, 10, 1, 2, 3, 17, 0xC0, 0x01, 0x12, 0xB7])
    prefix = five_tuple_prefix(0x0A000001, 0x0A010203, 17)
    assert int(five_tuple_crc32(prefix, 0xC001, 4791)) == zlib.crc32(message)


@given(st.binary(min_size=13, max_size=13), st.integers(0, 2**32 - 1))
def test_a_seed_changes_every_crc_by_the_same_bits(message: bytes, seed: int) -> None:
    # Seeds therefore do not prevent polarisation. The masks of rows in the kernel rely on this.
    blank = bytes(13)
    assert zlib.crc32(message, seed) ^ zlib.crc32(message) == zlib.crc32(blank, seed) ^ zlib.crc32(
        blank
    )


@pytest.mark.parametrize(
    ("state", "output"),
    [
        # The first outputs of the published generator from seed 0 and seed 1234567.
        (0, 0xE220A8397B1DCDAF),
        (0x9E3779B97F4A7C15, 0x6E789E6AA1B965F4),
        (1234567, 6457827717110365317),
    ],
)
def test_splitmix64_has_the_published_outputs(state: int, output: int) -> None:
    assert int(splitmix64(np.uint64(state))) == output
