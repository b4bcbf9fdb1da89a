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
        from weft.core.arguments import shown  # imported late: it loads NumPy

        raise InputError(
            f"{token.keyword}: {shown(token.value)} does not fit: expected a whole number"
        ) from None


#: Type of an option that takes whole numbers; `int` alone would round other numbers.
Whole = Annotated[int, Parameter(converter=_whole)]
