"""Workloads: the programs of ranks, and the messages that they send over a fabric."""

from weft.workload.builder import RankProgram, WorkloadBuilder
from weft.workload.load import load_rolled, load_workload
from weft.workload.patterns import Pairs, pattern, traffic
from weft.workload.workload import Kind, Multicast, Workload

__all__ = [
    "Kind",
    "Multicast",
    "Pairs",
    "RankProgram",
    "Workload",
    "WorkloadBuilder",
    "load_rolled",
    "load_workload",
    "pattern",
    "traffic",
]
