"""The type of options that take whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from weft.core.errors import InputError


def _whole(hint: Any, tokens: Sequence[Token]) -> int:
    (token,) = tokens
    try:
        return int(token.value)
    except ValueError:
        raise InputError(
            f"{token.keyword}: {token.value!r} does not fit: expected a whole number"
        ) from None


#: Type of an option that takes whole numbers; `int` alone would round other numbers.
Whole = Annotated[int, Parameter(converter=_whole)]
