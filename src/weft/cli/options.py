"""Options of commands, generated from declared settings."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field, make_dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_origin

from cyclopts import Parameter

from weft.cli.option_types import GROUPS
from weft.core.errors import InputError
from weft.core.registry import convert
from weft.core.settings import Called, Setting, is_listed, parts_of, settings

T = TypeVar("T")


class GivenOptions:
    """Options as texts from the command line, which are later converted to settings."""

    items: ClassVar[Mapping[str, Setting]]

    def is_given(self, name: str) -> bool:
        """Return whether an option was given."""
        return getattr(self, name) not in (None, (), False)

    def given(self) -> dict[str, Setting]:
        """Return the settings of the options that were given."""
        return {name: item for name, item in self.items.items() if self.is_given(name)}

    def value(self, name: str) -> Any:
        """Return an option's text, its names if it takes a list, or the value that a flag sets."""
        item, value = self.items[name], getattr(self, name)
        if item.option.compared == "names":
            return tuple(part for text in value for part in split_names(text))
        return value if item.option.means is None else item.option.means

    def build(self, kind: type[T], **more: Any) -> T:
        """Return an instance of a settings class, from given options and, below them, others."""
        given = self.converted(kind)
        if not more and not given:
            usual: T = _usual(cast(Hashable, kind))
            return usual
        try:
            return kind(**{**more, **given})
        except InputError as error:
            raise InputError(in_flags(error.message, settings(kind))) from None

    def converted(self, kind: type) -> dict[str, Any]:
        """Return the given options that are settings of a class."""
        return {
            item.field: convert(self.value(name), item.hint, item.flag)
            for name, item in self.given().items()
            if item in settings(kind)
        }

    def flags(self) -> list[str]:
        """Return the names of the given options, such as ``--seed``."""
        return [item.flag for item in self.given().values()]


@functools.cache
def _usual(kind: Any) -> Any:
    return kind()


def options_of(name: str, settings: Iterable[Setting]) -> Any:
    """Return a class of options for a command, with one option for each setting.

    `settings`: the settings; settings without a flag are left out.
    """
    items = {item.flag[2:].replace("-", "_"): item for item in settings if item.flag}
    options = [(name, *_option(item)) for name, item in items.items()]
    # Without a module of ours cyclopts takes the class for a builtin type and shows no options.
    namespace = {"__module__": __name__}
    kind = make_dataclass(name, options, bases=(GivenOptions,), namespace=namespace, frozen=True)
    kind.items = items  # type: ignore[attr-defined]
    return Parameter(name="*")(kind)


def _option(item: Setting) -> tuple[Any, Any]:
    """Return the type and the dataclass field of an option."""
    several = is_listed(item)
    text: Any = Annotated[str, Parameter(metavar=_word(item))]
    one: Any = Literal[item.choices] if item.choices else text
    hint: Any = tuple[text, ...] if several else one | None
    usual: Any = () if several else None
    if item.option.means is not None:
        hint, usual = bool, False
    about = Parameter(
        name=[item.flag, f"--{item.option.plural}"] if item.option.plural else item.flag,
        group=GROUPS[item.group],
        help=help_of(item),
        consume_multiple=(1, None) if item.option.plural else None,
    )
    return Annotated[hint, about], field(default=usual)


def _word(item: Setting) -> str:
    """Return the word for a value of an option: that of its type, or the last of its name."""
    kind = _kind(item)
    if item.choices or kind == "text":
        return item.flag.rpartition("-")[2].upper()
    return _WORDS.get(kind, kind.upper())


def help_of(item: Setting) -> str:
    """Return the help of an option: its meaning, choices and default."""
    meaning = re.sub(r"^Whether (.)", lambda found: found[1].upper(), item.help.replace("`", ""))
    if item.option.means is True:
        return meaning
    if item.option.means is not None:
        return (
            f"Turn off: {meaning}"
            if item.option.means is False
            else f"{meaning[:-1]}: {item.option.means}."
        )
    sentences = [meaning]
    if is_listed(item):
        if item.choices:
            sentences.append(f"One of {', '.join(map(str, item.choices))}.")
        sentences.append("Repeatable.")
    if usual := usual_of(item):
        sentences.append(f"Default: {usual}.")
    return " ".join(sentences)


def usual_of(item: Setting) -> str:
    """Return the default of a setting as text with its unit; empty if there is none."""
    default = item.default
    if (
        item.option.usual
        or default in (None, ())
        or not isinstance(default, str | int | float | tuple)
    ):
        return item.option.usual
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    if isinstance(default, bool):
        return str(default).lower()
    kind = type_of(item)
    if kind == "size" and isinstance(default, int):
        return f"{default // 1024} KiB" if default and default % 1024 == 0 else f"{default} B"
    text = f"{default:g}" if isinstance(default, float) else f"{default}"
    return f"{text} ns" if kind == "time" else text


#: Name of a function that converts text -> name of the type of its values.
_READ = {
    "parse_bytes": "size", "parse_duration_ns": "time", "_truth": "true or false",
    "parse_count": "number or share",
}  # fmt: skip
_CALLED = {bool: "true or false", int: "whole number", float: "number", str: "text"}
#: Name of a type -> word for a value in the help of options, if that is not the name itself.
_WORDS = {
    "whole number": "INT", "number": "FLOAT", "number or share": "INT|SHARE", "table": "NAME=VALUE",
}  # fmt: skip


def type_of(item: Setting) -> str:
    """Return the type of a setting in files and on the command line, in words."""
    if item.choices:
        return ", ".join(f"`{choice}`" for choice in item.choices)
    kind = _kind(item)
    several = is_listed(item) and not item.option.compared and kind != "table"
    return f"list of {kind}s" if several else kind


def _kind(item: Setting) -> str:
    """Return the name of the type of a setting's values, ``text`` if no more is known."""
    parts = list(parts_of(item.option.written or item.hint))
    if any(get_origin(part) in (dict, Mapping) for part in parts):
        return "table"
    for part in parts:
        if isinstance(part, Called):
            return part.what
        if (read := getattr(getattr(part, "func", None), "__name__", "")) in _READ:
            return _READ[read]
    return next((_CALLED[part] for part in parts if part in _CALLED), "text")


def bounds(item: Setting) -> str:
    """Return the allowed range of a number as text, such as ``, 0 to 15``."""
    limits = {
        type(each).__name__.lower(): getattr(each, type(each).__name__.lower())
        for part in parts_of(item.hint)
        for each in getattr(part, "metadata", ())
        if type(each).__name__ in ("Ge", "Gt", "Le", "Lt")
    }
    least, most = limits.get("ge"), limits.get("le")
    if least is not None and most is not None:
        return f", {least:,} to {most:,}"
    words = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))
    parts = [
        f"{word} {limits[key]:.4g}" for key, word in words if key in limits and limits[key] < 2**30
    ]
    return f", {', '.join(parts)}" if parts else ""


def split_names(text: str) -> list[str]:
    """Split names at commas before the first colon: ``minhop,updn:roots=a,b`` has two names."""
    heads, colon, options = text.partition(":")
    *names, last = heads.split(",")
    return [*names, last + colon + options]


def in_flags(message: str, settings: Iterable[Setting]) -> str:
    """Replace the Python names of settings in a message by the names of their options."""
    flags = {item.field: item.flag for item in settings if item.flag}
    return re.sub(r"\b\w+\b", lambda word: flags.get(word[0], word[0]), message)
