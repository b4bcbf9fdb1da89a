"""Settings of opensm.conf that a user gives for a live subnet: whether OpenSM has them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

from weft.core.errors import InputError, NotApplicable
from weft.core.registry import did_you_mean
from weft.fabrics import Fabric
from weft.opensm.files.tables_folder import read_settings
from weft.opensm.files.torus_conf import write
from weft.opensm.lane_files import torus_configuration

#: Seconds that OpenSM may take to write the settings that it has; it takes milliseconds.
_WRITE_S = 10.0


def known_settings(opensm: str) -> frozenset[str]:
    """Names of the settings that an OpenSM has, as ``opensm -c`` writes them.

    Parameters
    ----------
    opensm
        Path of the program.

    Returns
    -------
    frozenset of str
        Empty when it writes none.
    """
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
    """Refuse settings that OpenSM does not have, which it would pass over without a word.

    Raises
    ------
    InputError
        With the first of them. None is refused when the program does not say which there are.
    """
    known = known_settings(opensm) if names else frozenset()
    for name in names:
        if known and name not in known:
            raise InputError(
                f"OpenSM has no setting {name!r}{did_you_mean(name, sorted(known))}; "
                "'opensm -c FILE' writes all that it has"
            )


def torus_text(fabric: Fabric) -> str:
    """Contents of the torus-2QoS.conf without which OpenSM's engine of that name gives up.

    Raises
    ------
    NotApplicable
        When the fabric is none that the engine routes, with what to do.
    """
    try:
        return write(torus_configuration(fabric))
    except NotApplicable as reason:
        raise NotApplicable(
            f"OpenSM's torus-2QoS needs a torus-2QoS.conf, and weft can make none for "
            f"{fabric.name}: {reason}; give yours with --option torus_config=FILE"
        ) from None
