"""Variables of a study: ``$name`` in the texts of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.core.toml_lines import KeyPath
from weft.study.axes import Axis, text_of

#: A variable in a text, ``$name`` or ``${name}``; ``$$`` is a dollar sign.
_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{(\w+)\})")


class Variables:
    """The variables of a study.

    `fail`: function from a message and a path in the file to an error.
    """

    def __init__(self, axes: Iterable[Axis], fail: Callable[..., InputError]) -> None:
        self._fail = fail
        self._where: dict[str, KeyPath] = {
            path[0][1:]: axis.whole[at]
            for axis in axes
            for at, path in enumerate(axis.paths)
            if axis.is_variable(path)
        }
        self._used: set[str] = set()

    def filled(self, value: Any, chosen: Mapping[str, Any], path: KeyPath = ()) -> Any:
        """Return a value with the values of variables in its texts.

        `value`: a text, or a table or list with texts. `path`: path of the value, for messages.
        """
        if isinstance(value, str):
            return self._fill(value, chosen, (), path) if "$" in value else value
        if isinstance(value, dict):
            return {key: self.filled(each, chosen, (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self.filled(each, chosen, (*path, at)) for at, each in enumerate(value)]
        return value

    def _fill(
        self, text: str, chosen: Mapping[str, Any], inside: tuple[str, ...], path: KeyPath
    ) -> Any:
        def value_of(match: re.Match[str]) -> Any:
            if match[1]:
                return "$"
            name = match[2] or match[3]
            if name not in chosen:
                known = ", ".join("$" + each for each in chosen)
                raise self._fail(
                    f"unknown variable ${name}{did_you_mean(name, chosen)} in {text!r}; expected "
                    + (f"one of {known}" if known else "$$ for a dollar sign"),
                    path,
                )
            if name in inside:
                cycle = " -> ".join(f"${each}" for each in (*inside, name))
                raise self._fail(
                    f"variables refer to one another in a cycle: {cycle}", self._where[name]
                )
            self._used.add(name)
            value = chosen[name]
            if isinstance(value, str):
                return self._fill(value, chosen, (*inside, name), self._where[name])
            return value

        whole = _VARIABLE.fullmatch(text)
        if whole:  # numbers stay numbers
            return value_of(whole)
        return _VARIABLE.sub(lambda match: text_of(value_of(match)), text)

    def refuse_unused(self) -> None:
        """Refuse variables that occur in no text."""
        for name, where in self._where.items():
            if name not in self._used:
                raise self._fail(f"the variable ${name} is not used in any value", where)
