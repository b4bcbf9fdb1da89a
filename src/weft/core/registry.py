"""Registry of functions that are added by a file and a decorator, such as routing engines.

A registry finds its entries by importing every module of its package, and the modules that other
distributions declare under its entry-point group. Options are text from the command line or values
from Python; both are converted to the types with which the function's parameters are annotated.

A spec is ``name:arguments``. Arguments are key=value pairs separated by commas; a value may be a
list (``m=6,6,6``) or dimensions (``4x4x4``). An entry with the fact `positional` also takes its
leading arguments by position, separated by semicolons: ``xgft:3;6,6,6;1,6,6`` is
``xgft:h=3,m=6,6,6,w=1,6,6``. A value or an item of a list in double quotes is literal, with ``""``
for a double quote: ``updn:roots="MF0;A09,P1",spine2``. Options that the fact `verbatim` lists have
a syntax of their own and keep their quotes.
"""

from __future__ import annotations

import difflib
import functools
import heapq
import importlib
import importlib.util
import inspect
import pkgutil
import re
import textwrap
import threading
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from weft.core.arguments import shown, whole_number
from weft.core.errors import InputError
from weft.core.extensions import warn_of
from weft.core.words import split_quoted, unquoted

F = TypeVar("F", bound=Callable[..., Any])

_KEY = re.compile(r"[A-Za-z_]\w*")
#: Regular expressions for parts of pydantic's messages, and their replacements.
_WORDS = (
    (r"Input should be a valid (integer|boolean|number)\b.*", r"expected a \1"),
    ("a valid tuple", "text or a list"),
    (r"a valid dictionary( or instance of \w+)?|a valid mapping|an instance of Mapping", "a table"),
    ("Value error, ", ""),
    ("a integer", "a whole number"),
    ("a boolean", "true or false"),
    ("a valid string", "text"),
    ("a valid list", "a list"),
    ("an instance of", "a"),
    ("Input should be less than or equal to (.*)", r"expected \1 or less"),
    ("Input should be greater than or equal to (.*)", r"expected \1 or more"),
    ("Input should be (greater|less) than (.*)", r"expected a number \1 than \2"),
    ("String should have at least 1 character", "expected a text that is not empty"),
    ("Input should be", "expected"),
    ("Extra inputs are not permitted", "unknown key"),
    ("Field required", "is missing"),
    (r"\w+ should have at least 1 item .*", "expected one item or more"),
)
_PUNCTUATION = str.maketrans("", "", " ._-,/:")
#: Maximum number of names that `difflib` compares with an unknown name.
_MANY = 1000


@dataclass(frozen=True)
class Entry:
    """A registered function with its name, aliases and facts."""

    name: str
    function: Callable[..., Any]
    aliases: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return self.explanation.partition("\n")[0]

    @property
    def explanation(self) -> str:
        """The docstring of the function, without backticks."""
        return (inspect.getdoc(self.function) or "").replace("`", "")

    @functools.cached_property
    def options(self) -> dict[str, inspect.Parameter]:
        """The parameters that a user may set: all except those that weft itself passes."""
        parameters = inspect.signature(self.function).parameters
        return {
            name: parameter
            for name, parameter in parameters.items()
            if name not in self.facts.get("pipeline", ())
        }

    def complete(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given options and the defaults of the others."""
        return {name: bound.get(name, option.default) for name, option in self.options.items()}

    def text(self, options: Mapping[str, Any]) -> str:
        """Return the spec of the entry with these options; options of None are left out."""
        pairs = [f"{key}={_text(value)}" for key, value in options.items() if value is not None]
        return f"{self.name}:{','.join(pairs)}" if pairs else self.name


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


class Registry:
    """A collection of named functions of one kind.

    Parameters
    ----------
    kind
        Name of an entry in messages, such as ``"routing engine"``.
    package
        Package whose modules register the built-in entries when they are imported.
    group
        Entry-point group under which other distributions register entries.
    pipeline
        Names of the parameters that weft itself passes; users cannot set them.
    facts
        Names of the facts that every entry must have.
    common
        Parameters that mean the same in several entries, and their meanings, which a docstring need
        not repeat.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        group: str,
        pipeline: tuple[str, ...] = (),
        facts: tuple[str, ...] = (),
        common: Mapping[str, str] = MappingProxyType({}),
    ):
        self.kind = kind
        self._common = common
        self._facts = facts
        #: Name of a plug-in or of its entry -> reason why it cannot be loaded.
        self._broken: dict[str, str] = {}
        self._package = package
        self._group = group
        self._pipeline = pipeline
        self._entries: dict[str, Entry] = {}
        self._loaded = self._loading = False
        self._lock = threading.RLock()

    def __call__(
        self, name: str, *, aliases: tuple[str, ...] = (), **facts: Any
    ) -> Callable[[F], F]:
        """Register the decorated function under a name, with facts about it."""

        def register(function: F) -> F:
            entry = Entry(name, function, aliases, {"pipeline": self._pipeline, **facts})
            for key in (name, *aliases):
                if key in self._entries:
                    raise ValueError(f"{self.kind} {key!r} is registered twice")
                self._entries[key] = entry
            self._document(function)
            return function

        return register

    def _document(self, function: Callable[..., Any]) -> None:
        """Add the meanings of common parameters to a docstring that lacks them."""
        before, title, after = (function.__doc__ or "").partition("\n    ----------\n")
        own, gap, rest = after.partition("\n\n")
        for name in inspect.signature(function).parameters if title else ():
            if name in self._common and not re.search(rf"^    (.*, )?{name}(,.*)?$", own, re.M):
                lines = textwrap.wrap(self._common[name], 92)
                own = "\n        ".join([f"{own.rstrip()}\n    {name}", *lines])
        if own != after.partition("\n\n")[0]:
            function.__doc__ = before + title + own + (gap + rest if gap else "\n    ")

    def _load(self) -> None:
        if self._loaded:
            return
        with self._lock:  # another thread waits until all entries are loaded
            if self._loaded or self._loading:
                return  # an imported module may use the entries loaded so far
            self._loading = True
            try:
                package = importlib.import_module(self._package)
                for module in pkgutil.iter_modules(package.__path__, self._package + "."):
                    importlib.import_module(module.name)
                for point in entry_points(group=self._group):
                    self._load_plugin(point)
                self._loaded = True  # not set after a failure: the next call raises it again
            finally:
                self._loading = False

    def _load_plugin(self, point: EntryPoint) -> None:
        """Import a plug-in; leave it out with a warning if that fails."""
        before = dict(self._entries)
        try:
            point.load()
            for name in self._entries.keys() - before:
                entry = self._entries[name]
                missing = [fact for fact in self._facts if fact not in entry.facts]
                if missing:
                    raise TypeError(f"{self.kind} {name!r} lacks the fact {missing[0]!r}")
                get_type_hints(entry.function, include_extras=True)
        except (Exception, SystemExit) as error:
            reason = warn_of(point, error)
            self._broken |= dict.fromkeys([point.name, *(self._entries.keys() - before)], reason)
            self._entries = before

    def __iter__(self) -> Iterator[Entry]:
        self._load()
        seen = {entry.name: entry for entry in self._entries.values()}
        return iter(sorted(seen.values(), key=lambda entry: entry.name))

    def names(self) -> list[str]:
        """Return the sorted names of all entries, without aliases."""
        return [entry.name for entry in self]

    def of_suffix(self, path: object) -> list[Entry]:
        """Return the file formats that have a suffix with which this file name ends."""
        return [each for each in self if str(path).endswith(tuple(each.facts["suffixes"]))]

    def of_file(self, path: str | Path, format: str | None = None) -> Entry:
        """Return the file format called `format`; if None, the first one for the file's suffix.

        Raises
        ------
        InputError
            If the format is unknown or no format has the file's suffix.
        """
        if format is not None:
            return self[format]
        for entry in self.of_suffix(path):
            return entry
        formats = ", ".join(f"{e.name} ({' '.join(e.facts['suffixes'])})" for e in self)
        raise InputError(f"unknown file suffix; expected one of the formats {formats}", file=path)

    def has_module_of(self, name: object) -> bool:
        """Whether the module called like an entry has it; no other module is imported."""
        if name not in self._entries and not self._loaded and isinstance(name, str):
            module = name.lower().replace("-", "_")
            if module.isidentifier():
                module = f"{self._package}.{module}"
                with self._lock:
                    if importlib.util.find_spec(module) is not None:
                        importlib.import_module(module)
        return name in self._entries

    def has_plugins(self) -> bool:
        """Whether other distributions have entries; they are not imported."""
        return bool(entry_points(group=self._group))

    def __contains__(self, name: object) -> bool:
        """Whether an entry has this name; only its own module is imported if that has the name."""
        if not self.has_module_of(name):
            self._load()
        return name in self._entries

    def __getitem__(self, name: str) -> Entry:
        if name in self:
            return self._entries[name]
        if name in self._broken:
            raise InputError(f"{self.kind} {name!r}: {self._broken[name]}")
        raise InputError(
            f"unknown {self.kind} {shown(name)}{did_you_mean(name, self._entries)}; "
            f"expected one of {', '.join(self.names())}"
        )

    def parse(
        self, spec: str, options: Mapping[str, Any] | None = None
    ) -> tuple[Entry, dict[str, Any]]:
        """Split a spec into its entry and raw arguments, which `bind` then converts.

        The arguments are those of the spec and of `options`.

        Raises
        ------
        InputError
            If the name is unknown, the syntax is wrong, or an argument is also in `options`.
        """
        if not isinstance(spec, str) or not spec.isprintable():
            raise InputError(f"{spec!r} is not a {self.kind}; expected one line, name:arguments")
        name, _, rest = spec.partition(":")
        entry = self[name.strip()]
        free = iter(entry.facts.get("positional", ()))
        given: dict[str, list[str]] = {}
        verbatim = entry.facts.get("verbatim", ())
        for section in split_quoted(rest, ";") if rest.strip() else ():
            values: list[str] | None = None
            for token in map(str.strip, split_quoted(section, ",")):
                parts = ("", "", "") if token.startswith('"') else token.partition("=")
                key, equals, value = map(str.strip, parts)
                if not token:
                    raise InputError(f"{spec}: empty argument")
                if equals and not (_KEY.fullmatch(key) and value):
                    if ":" in key:
                        raise InputError(
                            f"{spec}: {token!r} follows the options of {entry.name}, where a comma "
                            f"separates options: give each {self.kind} with options by itself, as "
                            "an option of the command or a text in a list of a file"
                        )
                    raise InputError(f"{spec}: {token!r} is not a key=value pair")
                if not equals and values is not None:
                    values.append(token)
                    continue
                if not equals:
                    key, value = next(free, ""), token
                if not key:
                    takes = ", ".join(entry.facts.get("positional", ())) or "none"
                    raise InputError(
                        f"{spec}: unexpected positional argument {token!r}; "
                        f"{entry.name} takes {takes}"
                    )
                if key in given:
                    raise InputError(f"{spec}: {key} is given twice")
                given[key] = values = [value]
        hints = _hints(entry.function)
        twice = sorted(given.keys() & (options or {}).keys())
        if twice:
            raise InputError(f"{spec}: {twice[0]} is also given as an option")
        # An option that the entry passes on may be a list.
        passed = given.keys() - hints.keys() if entry.facts.get("passes_on") else set()
        arguments = {
            key: values
            if key in passed and len(values) > 1
            else _one_or_many(
                values if key in verbatim else list(map(unquoted, values)),
                hints.get(key),
                spec,
                key,
            )
            for key, values in given.items()
        }
        return entry, {**arguments, **(options or {})}

    def bind(self, entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
        """Convert options to the annotated types of the entry's parameters.

        Raises
        ------
        InputError
            If an option is unknown, a value has the wrong type, or an option without default is
            missing.
        """
        options = entry.options
        hints = _hints(entry.function)
        bound: dict[str, Any] = {}
        for name, value in given.items():
            if name not in options:
                takes = ", ".join(options) or "no options"
                raise InputError(
                    f"{self.kind} {entry.name!r} has no option {name!r}"
                    f"{did_you_mean(name, options)}; it takes {takes}"
                )
            bound[name] = convert(value, hints.get(name, Any), f"{entry.name}: option {name}")
        missing = [
            name
            for name, parameter in options.items()
            if parameter.default is inspect.Parameter.empty and name not in bound
        ]
        if missing:
            form = ",".join(f"{name}=…" for name in (*bound, *missing))
            raise InputError(
                f"{self.kind} {entry.name!r} needs {', '.join(missing)}; "
                f"expected {entry.name}:{form}"
            )
        return bound


def _one_or_many(values: list[str], hint: Any, spec: str, key: str) -> Any:
    """Return the items of a list option, or the single value of another option."""
    if _is_list(hint):
        # 4x4x4 is a list of numbers; in names, x is a letter.
        if _items(hint) <= {int, float}:
            return [part for value in values for part in value.split("x")]
        return values
    if len(values) > 1:
        text = ",".join(values)
        advice = (
            "separate the next name by a space"
            if f"{key}={text}" in spec
            else f"separate arguments by semicolons, as in {spec.replace(text, ';'.join(values))}"
        )
        raise InputError(
            f"{spec}: {key} takes one value, not the {len(values)} of {text!r}; {advice}"
        )
    return values[0]


def _is_list(hint: Any) -> bool:
    union = get_origin(hint) in (typing.Union, type(int | None))
    return any(get_origin(part) in (tuple, list) for part in (get_args(hint) if union else (hint,)))


def _items(hint: Any) -> set[Any]:
    """Return the types of the items of a list hint, which may be optional."""
    parts = get_args(hint) if get_origin(hint) not in (tuple, list) else (hint,)
    lists = [part for part in parts if get_origin(part) in (tuple, list)]
    return {item for part in lists for item in get_args(part) if item is not Ellipsis}


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)``, or an empty text if no name is similar.

    A similar name differs only in case and punctuation. If there is none, `difflib` searches for
    one. If it finds none, the first name that begins with `name` is used. For 50,000 names this
    takes about 0.1 s.
    """
    known = list(names)
    plain = _plain(name)
    close = [other for other in known if _plain(other) == plain][:1] if plain else []
    if not close:
        close = difflib.get_close_matches(name, _likely(name, known), n=1)
    if not close and len(name) > 1:
        close = [other for other in known if other.startswith(name)][:1]
    return f" (did you mean {close[0]!r}?)" if close else ""


def wrong_name(
    what: str, name: object, known: Iterable[str], expected: str = "expected one of"
) -> str:
    """Return a message about a wrong name, such as ``unknown key 'x'; expected one of a, b``."""
    names = list(known)
    return f"{what} {name!r}{did_you_mean(str(name), names)}; {expected} {', '.join(names)}"


def _plain(name: str) -> str:
    """Return a name in lower case without punctuation."""
    return name.casefold().translate(_PUNCTUATION)


def _likely(name: str, names: list[str]) -> list[str]:
    """Return the names, at most `_MANY`, that share the most pairs of letters with a name."""
    if len(names) <= _MANY:
        return names
    pairs = sorted({name[at : at + 2] for at in range(len(name) - 1)})
    return heapq.nlargest(_MANY, names, key=lambda other: sum(pair in other for pair in pairs))


@functools.lru_cache(maxsize=1024)
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a function's parameters; cached, because evaluating them takes long."""
    return get_type_hints(function, include_extras=True)


@functools.lru_cache(maxsize=256)
def adapter(hint: Any) -> TypeAdapter[Any]:
    """Return pydantic's checker of a type; cached, because making it takes long."""
    return TypeAdapter(hint)


def convert(value: Any, hint: Any, what: str) -> Any:
    """Convert a value, often text, to an annotated type; a list may be text with commas."""
    if _is_list(hint) and isinstance(value, str | int):
        value = [unquoted(item.strip()) for item in split_quoted(str(value), ",")]
    try:
        converted = adapter(hint).validate_python(value)
        for number in converted if isinstance(converted, tuple | list) else (converted,):
            if isinstance(number, int) and abs(number) >= 2**63:
                whole_number(number, what, -(2**63))
        return converted
    except ValidationError as error:
        first = error.errors()[0]
        # If the value is a list, show only the wrong item.
        wrong = first["input"] if _is_list(hint) and first["loc"] else value
        raise InputError(
            f"{what}: {shown(wrong)} does not fit: {in_words(first)}", key=what
        ) from None


def in_words(error: Any) -> str:
    """Return pydantic's message on a value in weft's words."""
    message = str(error["msg"])
    for theirs, ours in _WORDS:
        message = re.sub(theirs, ours, message)
    if error["type"] == "literal_error" and isinstance(error["input"], str):
        message += did_you_mean(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]))
    return message
