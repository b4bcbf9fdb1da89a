"""Levels of links: what max–min sharing keeps of each, and the queue in their order.

The queue has a bucket for each first binary digits of a level; within one, links come in any order.
"""

from typing import Any, NamedTuple

import numpy as np

from weft.kernels.lean import lean_njit
from weft.kernels.records import counters

#: What max–min sharing keeps of a link. Flows slower than its level hold what they use; all others,
#: and those without a rate, are active.
LINK = np.dtype(
    [
        ("rest", np.float64),  # capacity that no holding flow uses, bytes/ns
        ("weight", np.float64),  # parts of the active flows' rates that cross the link, added up
        ("active", np.float64),  # how many flows are active
        ("level", np.float64),  # bytes/ns, infinite when the link is not full
    ],
    align=True,
)
#: Links in the queue, its lowest bucket that may hold one, the binary digits of the first bucket's
#: keys, and the number of the last bucket.
QUEUE = counters("queued", "lowest", "base", "last_bucket")


class LinkQueue(NamedTuple):
    """Links in the order of their keys, as lists in buckets.

    Parameters
    ----------
    key, key_bits
        float64 [links], and the same memory as int64.
    bucket_of
        int32 [links]: bucket of a link, -1 for none.
    first
        int32 [buckets]: first link of a bucket, -1 for none.
    after, before
        int32 [links]: neighbours in the list of a bucket, -1 for none.
    count
        A QUEUE record.
    """

    key: Any
    key_bits: Any
    bucket_of: Any
    first: Any
    after: Any
    before: Any
    count: Any


#: Levels that differ by less than this part are the same.
SAME = 1e-12
#: A flow slower than a level by less than this part is at the level.
TIE = 1.0 + 1e-11
JUST_ABOVE = 1.0 + SAME

INFINITE = np.inf

#: Binary digits of a level that its bucket leaves out: 256 buckets for levels of one to two.
DIGITS = 44


@lean_njit(inline="always")
def bucket_of_level(queue, link):
    """Bucket of a link's key: its first binary digits, so that buckets ascend with keys."""
    digits = (queue.key_bits[link] >> DIGITS) - queue.count.base
    return min(max(digits, 0), queue.count.last_bucket)


@lean_njit(inline="always")
def queue_link(queue, link, level):
    """Put a link that is not queued where its level says."""
    queue.key[link] = level
    bucket = bucket_of_level(queue, link)
    head = queue.first[bucket]
    queue.bucket_of[link] = bucket
    queue.first[bucket] = link
    queue.after[link] = head
    queue.before[link] = -1
    if head >= 0:
        queue.before[head] = link
    queue.count.queued += 1
    queue.count.lowest = min(queue.count.lowest, bucket)


@lean_njit(inline="always")
def unqueue_link(queue, link):
    """Take a link out of its bucket."""
    follower, previous = queue.after[link], queue.before[link]
    if previous >= 0:
        queue.after[previous] = follower
    else:
        queue.first[queue.bucket_of[link]] = follower
    if follower >= 0:
        queue.before[follower] = previous
    queue.bucket_of[link] = -1
    queue.count.queued -= 1


@lean_njit(inline="always")
def lowest_bucket(queue):
    """First bucket that is not empty, when anything is queued."""
    bucket = queue.count.lowest
    while queue.first[bucket] < 0:
        bucket += 1
    queue.count.lowest = bucket
    return bucket
