"""Settings, each declared once: a field of a class, with its type, default and docstring.

The class is a frozen dataclass or a table of an experiment file. From its fields come the checks of
Python arguments, the keys of files, the options of commands and the tables of docs/options.md.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BeforeValidator, Field

from weft.core.docstrings import meanings
from weft.core.errors import InputError
from weft.core.registry import convert, did_you_mean

_UNIT = re.compile(r"_(bytes|ns)$")


@dataclass(frozen=True)
class Option:
    """What name, type and docstring of a field do not say: ``Annotated[type, Option(...)]``.

    Parameters
    ----------
    key
        Name in files; that of the field without its unit when left out.
    flag
        Name on the command line; the key when left out, none where it is None.
    means
        Value for which the command line has a flag without a value.
    written
        Type in files and on the command line, where Python takes another one.
    compared
        Files and commands take a list, of which each item makes runs of its own: of ``names``,
        which commas may part, or of ``texts``.
    plural
        Another name on the command line, which takes several words.
    levels
        Levels of detail that know it; all where it is empty.
    usual
        The default in words, where it follows from other things.
    """

    key: str = ""
    flag: str | None = ""
    means: Any = None
    written: Any = None
    compared: Literal["", "names", "texts"] = ""
    plural: str = ""
    levels: tuple[str, ...] = ()
    usual: str = ""


@dataclass(frozen=True)
class Setting:
    """One setting, as everything that knows it is made from.

    Parameters
    ----------
    field, key
        Its name in Python and in files.
    hint, default
        Its type and default; `MISSING` where it must be given.
    help
        What it means, in one line.
    option
        The rest.
    """

    field: str
    key: str
    hint: Any
    default: Any
    help: str
    option: Option

    @property
    def flag(self) -> str:
        """Its option on the command line; empty where there is none."""
        if self.option.flag is None:
            return ""
        return "--" + (self.option.flag or self.key).replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that it may be, where it is one of a few."""
        parts = parts_of(self.option.written or self.hint)
        return next((get_args(part) for part in parts if get_origin(part) is Literal), ())

    def of(self, level: str) -> bool:
        """Whether a level of detail knows it."""
        return not self.option.levels or level in self.option.levels


def is_listed(item: Setting) -> bool:
    """Whether files and commands take several values."""
    hint = item.option.written or item.hint
    lists = (tuple, list, Mapping, dict)
    return bool(item.option.compared) or any(get_origin(part) in lists for part in parts_of(hint))


def parts_of(hint: Any) -> Iterator[Any]:
    """A type and all that it is made of, what is said of it included."""
    yield hint
    if get_origin(hint) is Annotated:
        yield from hint.__metadata__
        yield from parts_of(hint.__origin__)
    elif get_origin(hint) is not Literal:
        for part in get_args(hint):
            yield from parts_of(part)


def settings(kind: type) -> tuple[Setting, ...]:
    """The settings that a class declares, in their order."""
    return _settings(cast(Hashable, kind))


@functools.cache
def _settings(kind: Any) -> tuple[Setting, ...]:
    hints = get_type_hints(kind, include_extras=True)
    told: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        told |= meanings(inspect.cleandoc(base.__doc__ or ""))  # none under python -OO
    if is_dataclass(kind):
        defaults = {
            item.name: item.default if item.default_factory is MISSING else item.default_factory()
            for item in fields(kind)
        }
    else:
        defaults = {
            name: MISSING if item.is_required() else item.get_default(call_default_factory=True)
            for name, item in kind.model_fields.items()
        }
    found = []
    for name, default in defaults.items():
        hint = hints[name]
        option = next((part for part in get_args(hint) if isinstance(part, Option)), Option())
        key = option.key or _UNIT.sub("", name)
        found.append(Setting(name, key, hint, default, told.get(name, ""), option))
    return tuple(found)


class Settings:
    """Base of frozen dataclasses of settings: values are converted to their types, or refused.

    Raises
    ------
    InputError
        Naming the field, on a value that does not fit.
    """

    def __post_init__(self) -> None:
        for item in settings(type(self)):
            value = convert(getattr(self, item.field), item.hint, item.field)
            object.__setattr__(self, item.field, value)
        self.check()

    def check(self) -> None:
        """Refuse values that do not go together."""

    def table(self) -> dict[str, Any]:
        """Every setting by its name in Python."""
        return {item.field: getattr(self, item.field) for item in settings(type(self))}


def known_fields(
    given: Iterable[str], known: Iterable[Setting], whose: str, elsewhere: Callable[[str], str]
) -> None:
    """Refuse names that are no settings.

    Parameters
    ----------
    given
        Names in Python.
    known
        Settings that there are.
    whose
        What has them, for messages: ``"the flow level"``.
    elsewhere
        What else has one of that name, for messages: empty where nothing does.

    Raises
    ------
    InputError
        On the first.
    """
    names = [item.field for item in known]
    for name in given:
        if name in names:
            continue
        if other := elsewhere(name):
            raise InputError(f"{whose} has no {name}; {other}")
        raise InputError(
            f"{whose} has no {name!r}{did_you_mean(str(name), names)}; there are {', '.join(names)}"
        )


def document(function: Any, *kinds: type, without: Iterable[str] = ()) -> None:
    """Put settings into the signature and docstring of a function that takes them as ``**options``.

    Parameters
    ----------
    function
        What takes them.
    kinds
        Classes that declare them.
    without
        Fields that the function does not take.
    """
    own = inspect.signature(function)
    made = [each for name, each in own.parameters.items() if name != "options"]
    names = {*own.parameters, *without}
    told = []
    for kind in kinds:
        hints = get_type_hints(kind)
        for item in settings(kind):
            if item.field not in names:
                made.append(
                    inspect.Parameter(
                        item.field, inspect.Parameter.KEYWORD_ONLY, default=item.default,
                        annotation=hints[item.field],
                    )
                )  # fmt: skip
                told.append("\n        ".join([item.field, *textwrap.wrap(item.help, 92)]))
    function.__signature__ = own.replace(parameters=made)
    if function.__doc__:  # none under python -OO
        head, returns, rest = function.__doc__.partition("\n\n    Returns\n")
        function.__doc__ = "\n    ".join([head, *told]) + returns + rest


# -- types that settings have ----------------------------------------------------------------------


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


def _truth(value: Any) -> Any:
    made = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(made, bool | np.bool_):
        raise ValueError("expected true or false")
    return bool(made)


def pairs_of(text_is: str, last: bool = False) -> Callable[[Any], Any]:
    """What makes a mapping of texts ``NAME=VALUE``, as command lines have them.

    Parameters
    ----------
    text_is
        What each is, for messages: ``"node[port]=RATE, such as leaf2[21]=1xHDR"``.
    last
        Whether the last equals sign parts a text; the first does otherwise.
    """

    def made(given: Any) -> Any:
        if isinstance(given, Mapping) or not isinstance(given, tuple | list):
            return given
        found: dict[str, str] = {}
        for text in given:
            if not isinstance(text, str):
                raise ValueError(f"expected {text_is}")
            name, equals, value = text.rpartition("=") if last else text.partition("=")
            if not (name and equals and value):
                raise ValueError(f"expected {text_is}")
            if name in found:
                raise ValueError(f"{name} is given twice")
            found[name] = value
        return found

    return made


#: A number, and not whether something holds; whether it holds, and no number.
Whole = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
Truth = Annotated[bool, BeforeValidator(_truth)]
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]
Positive = Annotated[Whole, Field(ge=1)]
Rate = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
