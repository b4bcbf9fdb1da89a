"""Traffic between clients and servers, such as I/O nodes."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.patterns.pattern_registry import (
    Pairs,
    check_flows,
    generator,
    listed_hosts,
    need,
    pattern,
)

Mapping = Literal["clustered", "distributed"]
Choice = Literal["random", "cyclic", "block"]


@pattern(
    "io",
    source="Petrini et al. 2003, sections 4.5 and 4.6",
    draws=lambda options: options["choice"] == "random" and options["servers"] != 1,
)
def io(
    num_hosts: int,
    *,
    servers: int | None = None,
    mapping: Mapping = "clustered",
    hosts: tuple[int, ...] | None = None,
    dedicated: bool = False,
    clients: tuple[int, ...] | None = None,
    choice: Choice = "random",
    flows: int = 1,
    seed: int = 0,
) -> Pairs:
    """Every client sends to I/O servers: several hot spots, or one with ``servers=1``.

    Parameters
    ----------
    servers
        Number of servers; if left out, an eighth of the hosts, at least 1.
    mapping
        `clustered`: the servers are the last hosts. `distributed`: they are the last hosts of
        consecutive groups of equal size: every eighth host, if there are 8 servers of 64 hosts.
    hosts
        Numbers of the servers, instead of `servers` and `mapping`.
    dedicated
        Whether servers are never clients; otherwise they are (shared I/O).
    clients
        Numbers of the clients; if left out, all hosts.
    choice
        Server of each flow. `random`: drawn among the servers. The others are fixed: client n of
        C, from 0, uses server n mod S of S (`cyclic`), or server floor(n S / C) (`block`). A server
        does not choose itself: it draws among the others, or takes the next one; a single server
        is no client.
    flows
        Number of flows from each client.
    seed
        Seed of the random choice.
    """
    need(flows >= 1, f"flows must be at least 1, not {flows}")
    random = generator(seed)
    if hosts is None:
        serving = servers_of(num_hosts, servers, mapping)
    else:
        need(servers is None, "give servers (how many) or hosts (which), not both")
        serving = listed_hosts("io", "hosts", hosts, num_hosts)
    client = np.arange(num_hosts)
    if clients is not None:
        client = listed_hosts("io", "clients", clients, num_hosts)
    if dedicated or len(serving) == 1:
        client = np.setdiff1d(client, serving)
    if not len(client):
        raise NotApplicable(f"io with {len(serving)} servers of {num_hosts} hosts has no client")
    check_flows("io", num_hosts, len(client) * flows)
    number = np.repeat(np.arange(len(client)), flows)
    # Index of each client among the servers; their number for other clients.
    own = np.searchsorted(serving, client)
    own[serving[np.minimum(own, len(serving) - 1)] != client] = len(serving)
    own = own[number]
    if choice == "random":
        server = random.integers(0, np.where(own < len(serving), len(serving) - 1, len(serving)))
        server += server >= own
    else:
        block = number * len(serving) // len(client)
        server = number % len(serving) if choice == "cyclic" else block
        server = np.where(server == own, server + 1, server) % len(serving)
    return Pairs(client[number], serving[server])


def servers_of(num_hosts: int, servers: int | None, mapping: Mapping) -> NDArray[np.int64]:
    """Return the hosts that are servers, ascending, as described in `io`."""
    count = max(1, num_hosts // 8) if servers is None else servers
    need(count >= 1, f"servers must be at least 1, not {count}")
    if count > num_hosts:
        raise NotApplicable(f"io needs {count} servers, and there are {num_hosts} hosts")
    if mapping == "clustered":
        return np.arange(num_hosts - count, num_hosts)
    return np.arange(1, count + 1) * num_hosts // count - 1
