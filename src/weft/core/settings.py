"""Settings, each declared once as a field of a class with a type, a default and a docstring.

The class is a frozen dataclass or a table of an experiment file. The checks of Python arguments,
keys of files, options of commands and tables of the reference are generated from its fields.
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
from weft.core.registry import convert, did_you_mean, wrong_name

_UNIT = re.compile(r"_(bytes|ns)$")
#: Group of a setting in the help of commands, in the order of the groups there.
Group = Literal[
    "first", "fabric", "routing", "workload", "levels", "flow", "packet", "flit", "runs", "service",
    "room", "output",
]  # fmt: skip


@dataclass(frozen=True)
class Option:
    """Further properties of a field of settings: ``Annotated[type, Option(...)]``."""

    #: Name in files. Default: name of the field without its unit.
    key: str = ""
    #: Name on the command line. Default: the key; None for no option.
    flag: str | None = ""
    #: Value that a flag without an argument sets.
    means: Any = None
    #: Type in files and on the command line, if it differs from the type in Python.
    written: Any = None
    #: ``names`` or ``texts`` if files and commands take a list, and each item makes separate runs
    #: to compare. Commas may separate ``names``, but not ``texts``.
    compared: Literal["", "names", "texts"] = ""
    #: Second name on the command line; under this name, the option takes several words.
    plural: str = ""
    #: Levels of detail that have the setting; empty for all.
    levels: tuple[str, ...] = ()
    #: The default in words, if it depends on other settings.
    usual: str = ""
    #: Group in help. Default: the only level that has the setting, ``GROUP`` of the class, or runs.
    group: Group | None = None


@dataclass(frozen=True)
class Called:
    """What a text is, if more is known than that: ``Annotated[str, Called("file")]``."""

    what: str


@dataclass(frozen=True)
class Setting:
    """One setting."""

    #: Name of the setting in Python, and in files.
    field: str
    key: str
    #: Type of the setting, and its default (`MISSING` if the setting is required).
    hint: Any
    default: Any
    #: Meaning of the setting, in one line.
    help: str
    #: Other properties of the setting.
    option: Option
    #: Group in help.
    group: Group

    @property
    def flag(self) -> str:
        """The option on the command line; empty if there is none."""
        if self.option.flag is None:
            return ""
        return "--" + (self.option.flag or self.key).replace("_", "-")

    @functools.cached_property
    def converted(self) -> Any:
        """The default as a value of its type."""
        return convert(self.default, self.hint, self.field)

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed texts; empty if any value of the type is allowed."""
        parts = parts_of(self.option.written or self.hint)
        return next((get_args(part) for part in parts if get_origin(part) is Literal), ())

    def of(self, level: str) -> bool:
        """Return whether a level of detail has the setting."""
        return not self.option.levels or level in self.option.levels


def is_listed(item: Setting) -> bool:
    """Return whether files and commands take several values of a setting."""
    hint = item.option.written or item.hint
    lists = (tuple, list, Mapping, dict)
    return bool(item.option.compared) or any(get_origin(part) in lists for part in parts_of(hint))


def parts_of(hint: Any) -> Iterator[Any]:
    """Yield a type, its parts and its annotations, recursively."""
    yield hint
    if get_origin(hint) is Annotated:
        yield from hint.__metadata__
        yield from parts_of(hint.__origin__)
    elif get_origin(hint) is not Literal:
        for part in get_args(hint):
            yield from parts_of(part)


def settings(kind: type, level: str = "") -> tuple[Setting, ...]:
    """Return the settings that a class declares, in order; of a level of detail, if given."""
    return _settings(cast(Hashable, kind), level)


@functools.cache
def _settings(kind: Any, level: str) -> tuple[Setting, ...]:
    if level:
        return tuple(item for item in _settings(kind, "") if item.of(level))
    hints = get_type_hints(kind, include_extras=True)
    helps: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        helps |= meanings(inspect.cleandoc(base.__doc__ or ""))  # no docstring under python -OO
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
    items = []
    for name, default in defaults.items():
        hint = hints[name]
        option = next((part for part in get_args(hint) if isinstance(part, Option)), Option())
        key = option.key or _UNIT.sub("", name)
        usual = option.levels[0] if len(option.levels) == 1 else getattr(kind, "GROUP", "runs")
        group = option.group or cast(Group, usual)
        items.append(Setting(name, key, hint, default, helps.get(name, ""), option, group))
    return tuple(items)


class Settings:
    """Base of frozen dataclasses of settings, which converts values to the types of the fields.

    Raises
    ------
    InputError
        If a value does not fit; the message names the field.
    """

    def __post_init__(self) -> None:
        for item in settings(type(self)):
            given = getattr(self, item.field)
            usual = given is item.default
            value = item.converted if usual else convert(given, item.hint, item.field)
            object.__setattr__(self, item.field, value)
        self.check()

    def check(self) -> None:
        """Refuse invalid combinations of values."""

    def table(self) -> dict[str, Any]:
        """Return all settings by their names in Python."""
        return {item.field: getattr(self, item.field) for item in settings(type(self))}


def known_fields(
    given: Iterable[str], known: Iterable[Setting], whose: str, elsewhere: Callable[[str], str]
) -> None:
    """Refuse unknown names of settings.

    `whose`: owner of the settings, for messages: ``"the flow level"``. `elsewhere`: function from a
    name to a text about another owner of this setting; an empty text if there is none.
    """
    names = [item.field for item in known]
    for name in given:
        if name in names:
            continue
        if other := elsewhere(name):
            raise InputError(f"{whose} has no {name}; {other}")
        raise InputError(wrong_name(f"{whose} has no", name, names))


def document(function: Any, *kinds: type, without: Iterable[str] = ()) -> None:
    """Put settings into the signature and docstring of a function that takes them as ``**options``.

    `without`: fields that the function does not take.
    """
    own = inspect.signature(function)
    parameters = [each for name, each in own.parameters.items() if name != "options"]
    names = {*own.parameters, *without}
    lines = []
    for kind in kinds:
        hints = get_type_hints(kind)
        for item in settings(kind):
            if item.field not in names:
                parameters.append(
                    inspect.Parameter(
                        item.field, inspect.Parameter.KEYWORD_ONLY, default=item.default,
                        annotation=hints[item.field],
                    )
                )  # fmt: skip
                lines.append("\n        ".join([item.field, *textwrap.wrap(item.help, 92)]))
    function.__signature__ = own.replace(parameters=parameters)
    if function.__doc__:  # no docstring under python -OO
        head, returns, rest = function.__doc__.partition("\n\n    Returns\n")
        function.__doc__ = "\n    ".join([head, *lines]) + returns + rest


# -- types of settings -----------------------------------------------------------------------------


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


def _truth(value: Any) -> Any:
    truth = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(truth, bool | np.bool_):
        raise ValueError("expected true or false")
    return bool(truth)


def pairs_of(text_is: str, last: bool = False) -> Callable[[Any], Any]:
    """Return a function that converts texts ``NAME=VALUE`` of a command line to a mapping.

    `text_is`: form of a text, for messages: ``"node[port]=RATE, such as leaf2[21]=1xHDR"``. `last`:
    split at the last equals sign, not at the first.
    """

    def parse(given: Any) -> Any:
        if isinstance(given, Mapping) or not isinstance(given, tuple | list):
            return given
        pairs: dict[str, str] = {}
        for text in given:
            if not isinstance(text, str):
                raise ValueError(f"expected {text_is}")
            name, equals, value = text.rpartition("=") if last else text.partition("=")
            if not (name and equals and value):
                raise ValueError(f"expected {text_is}")
            if name in pairs:
                raise ValueError(f"{name} is given twice")
            pairs[name] = value
        return pairs

    return parse


def parse_words(words: Iterable[str], known: Mapping[str, Setting], example: str) -> dict[str, str]:
    """Parse settings from words such as ``mtu=4KiB,queues=voq`` or ``vlarb_high=0:4,1:8``.

    `known`: key -> setting. Values of a setting with a list may contain commas. `example`: a
    setting and its value, for messages.
    """
    parsed: dict[str, str] = {}
    names = ", ".join(known)
    for word in words:
        last = ""
        for part in word.split(","):
            name, equals, value = (text.strip() for text in part.partition("="))
            name = name.replace("-", "_")
            # Entries of a list are also separated by commas.
            if not equals and last and is_listed(known[last]) and part.strip():
                parsed[last] += "," + part.strip()
                continue
            if not equals or not value or not name:
                raise InputError(
                    f"{part.strip()!r} in {word!r}: expected NAME=VALUE, such as {example}; names "
                    f"are {names}"
                )
            if name not in known:
                raise InputError(
                    f"unknown name {name!r}{did_you_mean(name, known)}; there are {names}"
                )
            if name in parsed:
                raise InputError(f"{name} is given twice")
            parsed[name] = value
            last = name
    return parsed


#: Types that reject bools as numbers, and numbers as bools.
Whole = Annotated[int, BeforeValidator(_number)]
Number = Annotated[float, BeforeValidator(_number)]
Truth = Annotated[bool, BeforeValidator(_truth)]
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]
Positive = Annotated[Whole, Field(ge=1)]
Rate = Annotated[Number, Field(gt=0, allow_inf_nan=False)]
File = Annotated[str, Called("file")]
Folder = Annotated[str, Called("folder")]
Hosts = Annotated[str, Called("hosts")]
