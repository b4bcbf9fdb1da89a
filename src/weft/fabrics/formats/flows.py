"""Files of flows between hosts, one line ``SOURCE DESTINATION`` each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, in_file
from weft.fabrics import Fabric
from weft.fabrics.formats.host_words import host_number
from weft.fabrics.formats.records import lines_of, shown


def read_flows(fabric: Fabric, text: str, file: str = "flows") -> NDArray[np.int64]:
    """Read flows, one line ``SOURCE DESTINATION`` each, int64 [2, flows]."""
    ends: list[tuple[int, int]] = []
    for number, line in enumerate(lines_of(text), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        with in_file(file, number):
            if len(words) != 2:
                raise InputError(f"expected SOURCE DESTINATION, not {shown(' '.join(words))}")
            ends.append((host_number(fabric, words[0]), host_number(fabric, words[1])))
    if not ends:
        raise InputError("there are no flows; expected lines SOURCE DESTINATION", file=file)
    return np.array(ends, dtype=np.int64).T
