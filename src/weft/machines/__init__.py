"""Comparison of machines that do not exist: what they are made of, cost and carry."""

from weft.machines.describe import (
    MACHINE_COLUMNS,
    MEASURES,
    MachineRun,
    TimedLevel,
    describe_machine,
)

__all__ = ["MACHINE_COLUMNS", "MEASURES", "MachineRun", "TimedLevel", "describe_machine"]
