"""Levels of links: what max–min sharing keeps of each, and the queue in their order.

The queue has a bucket for each first binary digits of a level; within one, links come in any order.
"""

import numpy as np

from weft.kernels.lean import lean_njit

# Places of `number`.
SHIFT = 0
POOL_END = 1
DIRTY = 2
TOUCHED = 3
SLOTS = 4
ENTRIES = 5
FILLED = 6
REVISED = 7
QUEUED = 8
LOWEST = 9
BASE = 10
LAST_BUCKET = 11
PATIENCE = 12

# Of each link, in `links`, four numbers in a row. Flows slower than the level hold what they use;
# all others, and those without a rate, are active.
REST = 0  # capacity that no holding flow uses
WEIGHT = 1  # parts of the active flows' rates that cross the link, added up
ACTIVE = 2  # how many flows are active
LEVEL = 3  # infinite when the link is not full

#: Levels that differ by less than this part are the same.
SAME = 1e-12
#: A flow slower than a level by less than this part is at the level.
TIE = 1.0 + 1e-11
JUST_ABOVE = 1.0 + SAME

INFINITE = np.inf

#: Binary digits of a level that its bucket leaves out: 256 buckets for levels of one to two.
DIGITS = 44


@lean_njit(inline="always")
def bucket_of_level(key_bits, number, link):
    """Bucket of a link's key: its first binary digits, so that buckets ascend with keys."""
    return min(max((key_bits[link] >> DIGITS) - number[BASE], 0), number[LAST_BUCKET])


@lean_njit(inline="always")
def queue_link(queue, number, link, level):
    """Put a link that is not queued where its level says."""
    key, key_bits, bucket_of, first, after, before = queue
    key[link] = level
    bucket = bucket_of_level(key_bits, number, link)
    head = first[bucket]
    bucket_of[link] = bucket
    first[bucket] = link
    after[link] = head
    before[link] = -1
    if head >= 0:
        before[head] = link
    number[QUEUED] += 1
    number[LOWEST] = min(number[LOWEST], bucket)


@lean_njit(inline="always")
def unqueue_link(queue, number, link):
    """Take a link out of its bucket."""
    _, _, bucket_of, first, after, before = queue
    follower = after[link]
    if before[link] >= 0:
        after[before[link]] = follower
    else:
        first[bucket_of[link]] = follower
    if follower >= 0:
        before[follower] = before[link]
    bucket_of[link] = -1
    number[QUEUED] -= 1


@lean_njit(inline="always")
def lowest_bucket(queue, number):
    """First bucket that is not empty, when anything is queued."""
    first = queue[3]
    bucket = number[LOWEST]
    while first[bucket] < 0:
        bucket += 1
    number[LOWEST] = bucket
    return bucket
