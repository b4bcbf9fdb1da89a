"""A stencil that requests a routing key for each of its phases, after figure 5(b) of the paper.

    weft serve 'xgft:2;4,4;1,4' &
    eval "$(python examples/mpi_routing_keys.py --place 8)"   # before the job, by the batch system
    mpirun -n 8 python examples/mpi_routing_keys.py           # the job

In each phase every rank sends to its neighbour in one direction of a periodic grid. The program
prints which alternative of the key each phase got; an MPI library that can choose the LID of a peer
would use `routes.dlid(peer)` in the exchange.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from mpi4py import MPI

import weft.mpi
from weft.client import Client

#: Name of each key, with the axis and direction of its flows.
PHASES = {
    f"{name}{sign}": (axis, step)
    for axis, name in enumerate("xyz")
    for sign, step in (("+", 1), ("-", -1))
}


def neighbour(rank: int, dims: list[int], axis: int, step: int) -> int:
    """Return the rank beside another one in a periodic grid, whose last axis varies fastest."""
    stride = 1
    for size in dims[axis + 1 :]:
        stride *= size
    at = rank // stride % dims[axis]
    return rank + ((at + step) % dims[axis] - at) * stride


def place(application: str, num_ranks: int) -> None:
    """Announce the application and the flows of its phases; print what its ranks need to know."""
    dims = MPI.Compute_dims(num_ranks, 3)
    flows = {
        key: [(rank, neighbour(rank, dims, *direction)) for rank in range(num_ranks)]
        for key, direction in PHASES.items()
    }
    with Client() as client:
        placed = client.place(application, num_hosts=num_ranks, phases=flows)
    print(f"export WEFT_APPLICATION={placed.name} WEFT_TOKEN={placed.token}")


def run(application: str, message_bytes: int, report: Path | None) -> None:
    """Run the phases, and write what each rank was told."""
    world = MPI.COMM_WORLD
    grid = world.Create_cart(MPI.Compute_dims(world.size, 3), periods=[True] * 3)
    mine = []
    out, into = bytearray(message_bytes), bytearray(message_bytes)
    for key, (axis, step) in PHASES.items():
        routes = weft.mpi.request(grid, key, application=application)  # RODREQUEST
        source, peer = grid.Shift(axis, step)
        grid.Sendrecv(out, peer, recvbuf=into, source=source)
        weft.mpi.done(grid, key)  # BARRIER ALL, RODDONE
        mine.append((key, routes.alternative, peer, routes.path_bits(peer), routes.dlid(peer)))
    told = world.gather(mine)
    if told is not None:
        for key, alternative, *_ in told[0]:
            print(f"{key}: {'base routes' if alternative < 0 else f'alternative {alternative}'}")
        if report:
            report.write_text(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--application", default=os.environ.get("WEFT_APPLICATION", "stencil"))
    parser.add_argument("--place", type=int, metavar="RANKS", help="announce it, and end")
    parser.add_argument("--bytes", type=int, default=32768, help="size of each message")
    parser.add_argument("--report", type=Path, help="file for what each rank was told (JSON)")
    options = parser.parse_args()
    if options.place:
        place(options.application, options.place)
    else:
        run(options.application, options.bytes, options.report)
