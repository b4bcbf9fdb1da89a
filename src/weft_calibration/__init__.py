"""Measurement of contention graphs on a cluster, and the model's coefficients from their times."""

from weft.core.lazy import attach

#: The command that weft takes from this package; see `weft.cli.app.commands`.
CALIBRATE = (
    "weft_calibration.command:calibrate_command",
    "Fit the contention model to measured times of contention graphs.",
)
__getattr__, __dir__ = attach(__name__, __file__)  # the public names are in __init__.pyi
