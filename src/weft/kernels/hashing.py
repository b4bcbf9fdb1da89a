"""Hash functions: a counter-based mix for ideal choices, and the CRC-32 that switches compute."""

import numpy as np

from weft.kernels.cache import njit

#: Added per step of SplitMix64 (Steele, Lea and Flood 2014): 2^64 over the golden ratio.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

_CRC32_POLYNOMIAL = 0xEDB88320


def _crc32_table():
    """CRC-32 (ISO-HDLC, reflected) of each byte, uint32 [256]."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = (table & np.uint32(1)) != 0
        table = (table >> np.uint32(1)) ^ np.where(odd, np.uint32(_CRC32_POLYNOMIAL), np.uint32(0))
    return table


CRC32_TABLE = _crc32_table()


@njit(cache=True)
def splitmix64(state):
    """Output of SplitMix64 for a state: a mix of all 64 bits, one to one."""
    z = np.uint64(state) + GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def crc32_bytes(register, value, count):
    """The CRC-32 register after the `count` low bytes of a value, most significant byte first.

    The CRC of a message is ``~crc32_bytes(~seed, message)``, as zlib's ``crc32(message, seed)``.
    """
    register = np.uint32(register)
    for place in range(count - 1, -1, -1):
        byte = np.uint32((np.uint64(value) >> np.uint64(8 * place)) & np.uint64(0xFF))
        register = CRC32_TABLE[(register ^ byte) & np.uint32(0xFF)] ^ (register >> np.uint32(8))
    return register


@njit(cache=True)
def five_tuple_prefix(source_ip, destination_ip, protocol):
    """CRC-32 register, from 0, after the fields of a five-tuple that a flow never changes."""
    register = np.uint32(0xFFFFFFFF)
    register = crc32_bytes(register, source_ip, 4)
    register = crc32_bytes(register, destination_ip, 4)
    return crc32_bytes(register, protocol, 1)


@njit(cache=True)
def five_tuple_crc32(prefix, source_port, destination_port):
    """CRC-32 of a five-tuple whose first fields are in `prefix`."""
    register = crc32_bytes(prefix, source_port, 2)
    return np.uint32(~crc32_bytes(register, destination_port, 2))
