from weft_calibration.measurements import read_measurements
from weft_calibration.recovery import recover_penalties

CALIBRATE: tuple[str, str]

__all__ = ["read_measurements", "recover_penalties"]
