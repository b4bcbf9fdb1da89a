"""Examples of every topology, for tests that run on all of them.

`make test` uses representatives: the first example of each family and the first with parallel
cables. `make validate` uses all examples.
"""

from __future__ import annotations

from typing import Any

import pytest

from weft.core.registry import Entry
from weft.fabrics.topology import topology


def representatives(entry: Entry) -> set[str]:
    """Return the examples of a family that `make test` uses."""
    specs = entry.facts["examples"]
    return {specs[0], *[spec for spec in specs if "cables=" in spec][:1]}


def marks(entry: Entry, spec: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a test on an example."""
    return [] if spec in representatives(entry) else [pytest.mark.slow]


#: Family and spec of each example, and the same as parameters of tests.
EXAMPLES = [(entry, spec) for entry in topology for spec in entry.facts["examples"]]
SPECS: list[Any] = [pytest.param(spec, marks=marks(entry, spec)) for entry, spec in EXAMPLES]
