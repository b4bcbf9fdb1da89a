"""Measurement of contention graphs on a cluster, and the model's coefficients from their times."""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from weft_calibration.measurements import read_measurements
    from weft_calibration.recovery import recover_penalties

#: The command that weft takes from this package; see `weft.cli.app.commands`.
CALIBRATE = (
    "weft_calibration.command:calibrate_command",
    "Fit the contention model to measured times of contention graphs.",
)
#: Public name -> its module, which is imported at first use.
_HOME = {
    "read_measurements": "weft_calibration.measurements",
    "recover_penalties": "weft_calibration.recovery",
}

__all__ = ["read_measurements", "recover_penalties"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
