"""Hash functions: SplitMix64 for ideal random choices, and the CRC-32 that switches compute.

Random numbers are counter-based: each depends only on a seed, a stream and a count.
"""

import numpy as np

from weft.kernels.cache import njit

#: Added per step of SplitMix64 (Steele, Lea and Flood 2014): 2^64 divided by the golden ratio.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

_CRC32_POLYNOMIAL = 0xEDB88320


def _crc32_table():
    """Return the CRC-32 (ISO-HDLC, reflected) of each byte, uint32 [256]."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = (table & np.uint32(1)) != 0
        table = (table >> np.uint32(1)) ^ np.where(odd, np.uint32(_CRC32_POLYNOMIAL), np.uint32(0))
    return table


CRC32_TABLE = _crc32_table()


@njit(cache=True)
def splitmix64(state):
    """Return the output of SplitMix64 for a state: a bijective mix of all 64 bits.

    `state`: integer, taken as uint64. Returns uint64.
    """
    z = np.uint64(state) + GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def crc32_bytes(register, value, count):
    """Return the CRC-32 register after the low bytes of a value, most significant byte first.

    The CRC of a message is ``~crc32_bytes(~seed, message)``, as zlib's ``crc32(message, seed)``.

    `register`, uint32. `value`: integer, taken as uint64. `count`: number of low bytes of the value
    to use, at most 8. Returns uint32.
    """
    register = np.uint32(register)
    for position in range(count - 1, -1, -1):
        byte = np.uint32((np.uint64(value) >> np.uint64(8 * position)) & np.uint64(0xFF))
        register = CRC32_TABLE[(register ^ byte) & np.uint32(0xFF)] ^ (register >> np.uint32(8))
    return register


@njit(cache=True)
def five_tuple_prefix(source_ip, destination_ip, protocol):
    """Return the CRC-32 register, with seed 0, after the constant fields of a flow's five-tuple.

    `source_ip`, `destination_ip`: addresses of 4 bytes, as integers. `protocol`: 1 byte, as an
    integer. Returns uint32.
    """
    register = np.uint32(0xFFFFFFFF)
    register = crc32_bytes(register, source_ip, 4)
    register = crc32_bytes(register, destination_ip, 4)
    return crc32_bytes(register, protocol, 1)


@njit(cache=True)
def five_tuple_crc32(prefix, source_port, destination_port):
    """Return the CRC-32 of a five-tuple.

    `prefix`, uint32: register from `five_tuple_prefix`. `source_port`, `destination_port`: UDP or
    TCP ports of 2 bytes, as integers. Returns uint32.
    """
    register = crc32_bytes(prefix, source_port, 2)
    return np.uint32(~crc32_bytes(register, destination_port, 2))


@njit(cache=True)
def uniforms(seed, streams, counts, out):
    """Write number `counts[i]` of stream `streams[i]`, uniform on [0, 1), into `out`.

    `seed`, uint64. `streams`, `counts`, int64 [draws]: stream of each number, and index of the
    number in the stream. `out`, float64 [draws], written.
    """
    base = splitmix64(seed)
    for i in range(len(streams)):
        state = splitmix64(base ^ np.uint64(streams[i]))
        out[i] = (splitmix64(state ^ np.uint64(counts[i])) >> np.uint64(11)) * 2.0**-53
