"""Checks of a user's settings of opensm.conf for a live subnet."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

from weft.core.errors import InputError, NotApplicable
from weft.core.registry import did_you_mean
from weft.fabrics import Fabric
from weft.routing.lane_files import torus_configuration
from weft.routing.opensm.tables_folder import read_settings
from weft.routing.opensm.torus_conf import write

#: Time limit in seconds for OpenSM to write its settings, which takes milliseconds.
_WRITE_S = 10.0


def known_settings(opensm: str) -> frozenset[str]:
    """Return the names of OpenSM's settings, as written by ``opensm -c``; empty if it fails."""
    with tempfile.TemporaryDirectory(prefix="weft-settings-") as folder:
        path = Path(folder, "opensm.conf")
        try:
            subprocess.run(
                [opensm, "-c", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_WRITE_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return frozenset()
        return frozenset(read_settings(path)) if path.is_file() else frozenset()


def check_settings(names: Collection[str], opensm: str) -> None:
    """Refuse settings that OpenSM does not have and would silently ignore."""
    known = known_settings(opensm) if names else frozenset()
    for name in names:
        if known and name not in known:
            raise InputError(
                f"OpenSM has no setting {name!r}{did_you_mean(name, sorted(known))}; "
                "'opensm -c FILE' writes all its settings"
            )


def torus_text(fabric: Fabric) -> str:
    """Return the text of a torus-2QoS.conf, which OpenSM's engine of that name needs."""
    try:
        return write(torus_configuration(fabric))
    except NotApplicable as reason:
        raise NotApplicable(
            f"OpenSM's torus-2QoS needs a torus-2QoS.conf, but weft cannot create one for "
            f"{fabric.name}: {reason}; specify yours with --option torus_config=FILE"
        ) from None
