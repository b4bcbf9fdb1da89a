"""Numbers of examples that hypothesis tries."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> int:
    """Return a number of examples in `make validate`, and a quarter of it in `make test`."""
    return max(1, number * settings().max_examples // 100)
