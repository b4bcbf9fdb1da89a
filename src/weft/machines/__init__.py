"""Comparison of machines that do not exist: what they are made of, cost and carry."""

from weft.machines.describe import (
    HIGHER,
    LOWER,
    MACHINE_COLUMNS,
    WORKLOADS,
    MachineRun,
    TimedLevel,
    describe_machine,
)

__all__ = [
    "HIGHER", "LOWER", "MACHINE_COLUMNS", "WORKLOADS", "MachineRun", "TimedLevel",
    "describe_machine",
]  # fmt: skip
