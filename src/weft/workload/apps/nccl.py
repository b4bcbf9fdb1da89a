"""Collectives of NCCL."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from weft.core.units import Bytes, Nanoseconds
from weft.workload.apps.application_registry import all_ranks, application, at_least, check_size
from weft.workload.builder import WorkloadBuilder
from weft.workload.nccl import Collective, Options, add_collective
from weft.workload.nccl.tuning import Algorithm, Architecture, Protocol
from weft.workload.places import Places
from weft.workload.workload import Workload


@application(
    "nccl", source="NCCL 2.29; docs/nccl.md", positional=("collective",), small={"size": 4096}
)
def nccl(
    num_ranks: int,
    *,
    collective: Collective = "allreduce",
    size: Bytes = 2**20,
    count: int = 1,
    root: int = 0,
    algo: Algorithm = "auto",
    proto: Protocol = "auto",
    min_channels: int = 1,
    max_channels: int = 64,
    nthreads: int = 0,
    buffsize: Bytes = 4 * 2**20,
    pxn_disable: bool = False,
    cross_nic: int = 2,
    nvls_enable: bool = True,
    collnet_enable: bool = False,
    net_overhead: Nanoseconds | None = None,
    cpu: Literal["intel", "amd", "arm"] = "intel",
    architecture: Architecture = "auto",
    places: Places | None = None,
) -> Workload:
    """Run a collective of NCCL on all ranks, one a GPU: ``nccl:allreduce,size=1GiB``.

    The notes of a run say which algorithm, protocol and channels were taken.

    Parameters
    ----------
    collective
        Name of the collective; sendrecv is that of nccl-tests, from each rank to the next.
    size
        Bytes, as nccl-tests counts them: of all blocks of a rank together for allgather,
        reduce-scatter and alltoall, else of the buffer or message.
    count, root
        Number of collectives, one after the other; root of broadcast and reduce.
    algo, proto
        As NCCL_ALGO and NCCL_PROTO; auto takes what NCCL chooses.
    min_channels, max_channels, nthreads, buffsize
        As NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS, NCCL_NTHREADS (0: NCCL's own) and NCCL_BUFFSIZE.
    pxn_disable, cross_nic, nvls_enable, collnet_enable
        As NCCL_PXN_DISABLE, NCCL_CROSS_NIC, NCCL_NVLS_ENABLE and NCCL_COLLNET_ENABLE, which
        the algorithm collnet-direct implies.
    net_overhead
        Time to post a message to an adapter (NCCL_NET_OVERHEAD); by default NCCL's own.
    cpu, architecture
        Maker of the processors and architecture of the GPUs, on which tables of NCCL depend; auto
        takes the architecture from the rate of the scale-up network.
    """
    at_least(1, count=count)
    check_size(size)
    builder = WorkloadBuilder(num_ranks)
    given = locals()
    values = {f.name: given[f.name] for f in fields(Options)}
    options = Options(**{**values, "net_overhead": -1.0 if net_overhead is None else net_overhead})
    places = places or Places.one_each(num_ranks)
    for _ in range(count):
        add_collective(
            builder, collective, all_ranks(builder), places, size, root=root, options=options
        )
    if places.model is None:
        builder.notes.append(
            "no model of the machines (--node): NCCL's choice is that for one GPU of each machine "
            "with an adapter of 400 Gb/s"
        )
    return builder.build()
