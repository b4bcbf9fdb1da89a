"""Sorting, and heaps over two arrays: times, and items that order entries of equal times."""

from weft.kernels.lean import part_njit


@part_njit()
def sift_up(key_time, key_item, index, time, item):
    """Insert an entry at `index`, the empty end of a heap."""
    while index:
        parent = (index - 1) >> 1
        if key_time[parent] < time or (key_time[parent] == time and key_item[parent] <= item):
            break
        key_time[index] = key_time[parent]
        key_item[index] = key_item[parent]
        index = parent
    key_time[index] = time
    key_item[index] = item


@part_njit()
def sift_down(key_time, key_item, size):
    """Move the entry behind a heap of `size` entries to their empty top."""
    time, item = key_time[size], key_item[size]
    index = 0
    while True:
        child = 2 * index + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            key_time[right] < key_time[child]
            or (key_time[right] == key_time[child] and key_item[right] < key_item[child])
        ):
            child = right
        if key_time[child] > time or (key_time[child] == time and key_item[child] > item):
            break
        key_time[index] = key_time[child]
        key_item[index] = key_item[child]
        index = child
    key_time[index] = time
    key_item[index] = item


@part_njit()
def sort_part(numbers, begin, end):
    """Sort ``numbers[begin:end]`` in place (Shell's method); most often it is already sorted.

    Numpy's sort takes a second to compile.
    """
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
