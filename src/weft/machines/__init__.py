"""Comparison of machines that do not exist: what they are made of, cost and carry."""

from weft.machines.describe import (
    HIGHER,
    LOWER,
    MACHINE_COLUMNS,
    ROUTINGS,
    WORKLOADS,
    MachineRun,
    Routing,
    TimedLevel,
    describe_machine,
    routes_text,
    uneven,
)

__all__ = [
    "HIGHER", "LOWER", "MACHINE_COLUMNS", "ROUTINGS", "WORKLOADS", "MachineRun", "Routing",
    "TimedLevel", "describe_machine", "routes_text", "uneven",
]  # fmt: skip
