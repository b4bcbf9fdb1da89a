"""Sorting of a part of an array; numpy's sort takes a second to compile."""

from weft.kernels.lean import part_njit


@part_njit()
def sort_part(numbers, begin, end):
    """Sort ``numbers[begin:end]`` in place (Shell's method); most often it is already sorted."""
    ordered = True
    for at in range(begin + 1, end):
        ordered = ordered and numbers[at - 1] <= numbers[at]
    gap = 0 if ordered else (end - begin) // 2
    while gap:
        for at in range(begin + gap, end):
            moved = numbers[at]
            to = at
            while to >= begin + gap and numbers[to - gap] > moved:
                numbers[to] = numbers[to - gap]
                to -= gap
            numbers[to] = moved
        gap //= 2
