"""Records that threads write: each has cache lines of its own."""

from weft.kernels.records import CACHE_LINE, aligned, copied, counters, record


def test_tables_share_no_cache_line() -> None:
    tables = [aligned(count, counters("a", "b", "c")) for count in (1, 2, 3, 1, 5) * 4]
    begins = [table.ctypes.data for table in tables]
    assert all(begin % CACHE_LINE == 0 for begin in begins)
    lines = [
        line
        for begin, table in zip(begins, tables, strict=True)
        for line in range(begin // CACHE_LINE, (begin + table.nbytes - 1) // CACHE_LINE + 1)
    ]
    assert len(lines) == len(set(lines))


def test_a_copy_has_the_values_and_memory_of_its_own() -> None:
    one = record(counters("a", "b"), b=3)
    two = copied(one, a=5)
    assert (one["a"], one["b"], two["a"], two["b"]) == (0, 3, 5, 3)
