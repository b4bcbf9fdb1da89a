"""A simulator of its own that asks weft's network for the times of its messages.

Each host computes for a random time, sends the result to a random other host, and computes again
when it receives one. The simulator has nothing but a heap of its own events; the network has the
rest. Usage: event_driven.py SPEC MESSAGES
"""

import heapq
import random
import sys

import weft
from weft.network import FlowNetwork


def simulate(spec: str, messages: int) -> float:
    """Return the time at which the last of a number of messages arrives, in ns."""
    fabric = weft.fabric(spec)
    network = FlowNetwork(fabric, weft.route(fabric, "dmodk"))
    draw = random.Random(1)
    computing = [(draw.uniform(0, 10_000), host) for host in range(fabric.num_hosts)]
    heapq.heapify(computing)
    receiver_of: dict[int, int] = {}
    sent = received = 0
    while received < messages:
        # Whatever happens first: a host ends its calculation, or a message arrives.
        until = computing[0][0] if computing else float("inf")
        if arrival := network.next_completion(until):
            received += 1
            receiver = receiver_of.pop(arrival.message)
            heapq.heappush(computing, (arrival.time_ns + draw.uniform(0, 10_000), receiver))
            continue
        now, host = heapq.heappop(computing)
        if sent < messages:
            receiver = draw.randrange(fabric.num_hosts)
            receiver_of[network.send(now, host, receiver, 256 * 1024)] = receiver
            sent += 1
    return network.now_ns


if __name__ == "__main__":
    spec, messages = sys.argv[1], int(sys.argv[2])
    print(f"{messages} messages take {simulate(spec, messages) / 1e6:.3f} ms")
