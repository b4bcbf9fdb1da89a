"""No kernel reads or writes outside its arrays: tests again, with Numba's checks of bounds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
#: The twins of all levels, and runs with all policies, congestion control and routing keys.
TESTS = (
    "tests/reference",
    "tests/sim/test_congestion_control.py",
    "tests/sim/test_flit_routings.py",
    "tests/sim/test_key_alternatives.py",
    "tests/sim/test_key_scheduler.py",
    "tests/sim/test_packet_policies.py",
)
#: Fails where bounds are not checked.
CHECK = """
import numpy as np
import pytest

from weft.kernels.cache import njit


@njit(cache=True)
def beyond(array, at):
    return array[at]


def test_bounds_are_checked():
    with pytest.raises(IndexError):
        beyond(np.zeros(3), 3)
"""


def test_kernels_stay_within_their_arrays(tmp_path: Path) -> None:
    check = tmp_path / "test_checks.py"
    check.write_text(CHECK)
    # A cache of its own: compiled code is large, and of no use to other runs.
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml",
         str(check), *TESTS],
        check=False, cwd=ROOT, env=os.environ | checked, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
