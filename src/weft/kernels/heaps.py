"""Binary heaps over two arrays: times, and integer items that order entries of equal times."""

from weft.kernels.lean import inner_njit


@inner_njit()
def sift_up(key_time, key_item, place, time, item):
    """Insert an entry at the empty end of a heap, which has index `place`."""
    while place:
        parent = (place - 1) >> 1
        if key_time[parent] < time or (key_time[parent] == time and key_item[parent] <= item):
            break
        key_time[place] = key_time[parent]
        key_item[place] = key_item[parent]
        place = parent
    key_time[place] = time
    key_item[place] = item


@inner_njit()
def sift_down(key_time, key_item, size, time, item):
    """Insert an entry at the empty top of a heap of `size` entries, this one included."""
    place = 0
    while True:
        child = 2 * place + 1
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
        key_time[place] = key_time[child]
        key_item[place] = key_item[child]
        place = child
    key_time[place] = time
    key_item[place] = item
