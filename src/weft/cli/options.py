"""Options of commands, made from the settings that they set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, make_dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_origin

from cyclopts import Parameter

from weft.core.errors import InputError
from weft.core.registry import convert
from weft.core.settings import Setting, is_listed, parts_of, settings

T = TypeVar("T")


class Given:
    """Options as the command line has them: texts, of which settings are made later."""

    items: ClassVar[Mapping[str, Setting]]

    def is_given(self, name: str) -> bool:
        """Whether an option was given."""
        return getattr(self, name) not in (None, (), False)

    def value(self, name: str) -> Any:
        """Text of an option, names of a list one by one, or what a flag means."""
        item, value = self.items[name], getattr(self, name)
        if item.option.compared == "names":
            return tuple(part for text in value for part in split_names(text))
        return value if item.option.means is None else item.option.means

    def made(self, kind: type[T], **more: Any) -> T:
        """Settings of a class: those that were given, and more.

        Raises
        ------
        InputError
            Naming the option, on a value that does not fit.
        """
        items = settings(kind)
        given = {
            item.field: convert(self.value(name), item.hint, item.flag)
            for name, item in self.items.items()
            if item in items and self.is_given(name)
        }
        try:
            return kind(**more, **given)
        except InputError as error:
            raise InputError(in_flags(error.message, items)) from None

    def flags(self) -> list[str]:
        """Options that were given, as on the command line."""
        return [item.flag for name, item in self.items.items() if self.is_given(name)]


def options_of(name: str, settings: Iterable[Setting]) -> Any:
    """A class of options for a command, one for each setting.

    Parameters
    ----------
    name
        Of the class.
    settings
        What to make options of; those without a flag are left out.
    """
    items = {item.flag[2:].replace("-", "_"): item for item in settings if item.flag}
    made = [(name, *_option(item)) for name, item in items.items()]
    kind = make_dataclass(name, made, bases=(Given,), frozen=True)
    kind.items = items  # type: ignore[attr-defined]
    return Parameter(name="*")(kind)


def _option(item: Setting) -> tuple[Any, Any]:
    """Type and field of an option."""
    several = is_listed(item)
    hint: Any = tuple[str, ...] if several else str | None
    usual: Any = () if several else None
    if item.option.means is not None:
        hint, usual = bool, False
    about = Parameter(
        name=[item.flag, f"--{item.option.plural}"] if item.option.plural else item.flag,
        help=help_of(item),
        consume_multiple=(1, None) if item.option.plural else None,
    )
    return Annotated[hint, about], field(default=usual)


def help_of(item: Setting) -> str:
    """What an option means, what it may be and what it is when left out."""
    told = item.help.replace("`", "")
    if item.option.means is not None:
        return (
            f"Turn off: {told}"
            if item.option.means is False
            else f"{told[:-1]}: {item.option.means}."
        )
    said = [told]
    if item.choices:
        said.append(f"One of {', '.join(map(str, item.choices))}.")
    if is_listed(item):
        said.append("Repeatable.")
    if usual := usual_of(item):
        said.append(f"Default: {usual}.")
    return " ".join(said)


def usual_of(item: Setting) -> str:
    """What a setting is when left out, with its unit; empty where that is nothing."""
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


#: What values are called that a function of this name reads from text.
_READ = {"parse_bytes": "size", "parse_duration_ns": "time", "_truth": "true or false"}
_CALLED = {bool: "true or false", int: "whole number", float: "number", str: "text"}


def type_of(item: Setting) -> str:
    """The type of a setting in files and on the command line, in words."""
    if item.choices:
        return ", ".join(f"`{choice}`" for choice in item.choices)
    parts = list(parts_of(item.option.written or item.hint))
    if any(get_origin(part) in (dict, Mapping) for part in parts):
        return "table"
    for part in parts:
        if (read := getattr(getattr(part, "func", None), "__name__", "")) in _READ:
            return _READ[read]
    kind = next((_CALLED[part] for part in parts if part in _CALLED), "")
    return f"list of {kind}s" if is_listed(item) and not item.option.compared else kind


def bounds(item: Setting) -> str:
    """What a number may be: ``, 0 to 15``."""
    found = {
        type(each).__name__.lower(): getattr(each, type(each).__name__.lower())
        for part in parts_of(item.hint)
        for each in getattr(part, "metadata", ())
        if type(each).__name__ in ("Ge", "Gt", "Le", "Lt")
    }
    least, most = found.get("ge"), found.get("le")
    if least is not None and most is not None:
        return f", {least:,} to {most:,}"
    words = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))
    said = [
        f"{word} {found[key]:.4g}" for key, word in words if key in found and found[key] < 2**30
    ]
    return f", {', '.join(said)}" if said else ""


def split_names(text: str) -> list[str]:
    """Names of one word: in ``minhop,updn:roots=a,b`` commas part names before the colon only."""
    heads, colon, options = text.partition(":")
    *names, last = heads.split(",")
    return [*names, last + colon + options]


def in_flags(message: str, settings: Iterable[Setting]) -> str:
    """A message that names settings as Python does, with the names of their options."""
    flags = {item.field: item.flag for item in settings if item.flag}
    return re.sub(r"\b\w+\b", lambda word: flags.get(word[0], word[0]), message)
