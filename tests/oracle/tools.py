"""Real programs that oracle tests compare with."""

from __future__ import annotations

import os
import shutil

import pytest


def require_tools(*names: str) -> None:
    """Skip the test when one of these programs is not installed; under CI, fail it instead."""
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    message = f"not installed: {', '.join(missing)} (Debian: opensm ibsim-utils infiniband-diags)"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
