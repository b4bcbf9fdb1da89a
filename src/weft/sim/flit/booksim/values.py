"""Values of the keys of a BookSim configuration, and the problems found with them."""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.errors import InputError
from weft.core.registry import did_you_mean
from weft.sim.flit.booksim import keys
from weft.sim.flit.booksim.grammar import Assignment, Value, call, items

_EXPECTED = {int: "a whole number", float: "a number", str: "a word"}


class Values:
    """The values of all keys.

    `given`: assignments in order; later ones replace earlier ones. `lenient`: whether what has no
    counterpart is noted, not refused.
    """

    def __init__(self, given: Iterable[Assignment], *, lenient: bool):
        self.lenient = lenient
        self.notes: list[str] = []
        self.replaced: list[str] = []
        self._words: dict[str, Assignment] = {}
        self._numbers: dict[str, Assignment] = {}
        self._read: set[str] = set()
        #: Text of the problem of each key, and whether `lenient` helps.
        self._problems: dict[str, tuple[str, bool]] = {}
        for each in given:
            (self._words if isinstance(each.value, str) else self._numbers)[each.key] = each
        for key in self.keys():
            self._check(key)

    def keys(self) -> list[str]:
        """Return the keys that are given."""
        return list(dict.fromkeys([*self._words, *self._numbers]))

    def _check(self, key: str) -> None:
        if key not in keys.DEFAULTS:
            instead = keys.OLD.get(key)
            similar = did_you_mean(key, keys.DEFAULTS)
            self.lack(
                key,
                f"is of older revisions; write {instead}"
                if instead
                else f"is no key of BookSim 2{similar}",
            )
            return
        kind = type(keys.DEFAULTS[key])
        word, number = self._words.get(key), self._numbers.get(key)
        if word and not (
            kind is str or key in keys.LISTS or (key in keys.SEEDS and word.value == "time")
        ):
            self.refuse(key, f"expected {_EXPECTED[kind]}")
        if number and (kind is str or (kind is int and not isinstance(number.value, int))):
            self.refuse(key, f"expected {_EXPECTED[kind]}")

    # -- values --------------------------------------------------------------------------------

    def _given(self, key: str) -> Assignment | None:
        """Return the assignment that counts: as in BookSim, a word or list before numbers."""
        return self._words.get(key) or self._numbers.get(key)

    def value(self, key: str) -> Value:
        """Return the value of a key."""
        self._read.add(key)
        given = self._given(key)
        if given is None or key in self._problems:
            return keys.DEFAULTS[key]
        if key in keys.LISTS and isinstance(given.value, str):
            return self._first(key, given.value)
        return given.value

    def _first(self, key: str, listed: str) -> Value:
        """Return the first item of a list, which has one for each class of traffic."""
        parts = items(listed)
        if len(parts) > 1:
            self.note(key, "there is one class of traffic, so the first value counts")
        kind = type(keys.DEFAULTS[key])
        if parts and parts[0].startswith("{"):
            return parts[0]
        try:
            return kind(parts[0])
        except (ValueError, IndexError):
            self.refuse(key, f"expected {_EXPECTED[kind]}, or a list of numbers")
            return keys.DEFAULTS[key]

    def whole(self, key: str) -> int:
        """Return the value of a key of whole numbers."""
        value = self.value(key)
        if isinstance(value, int):
            return value
        self.refuse(key, "expected a whole number")
        return int(keys.DEFAULTS[key])

    def real(self, key: str) -> float:
        """Return the value of a key of numbers."""
        value = self.value(key)
        if not isinstance(value, str):
            return float(value)
        self.refuse(key, "expected a number")
        return float(keys.DEFAULTS[key])

    def text(self, key: str) -> str:
        """Return the value of a key of words."""
        return str(self.value(key))

    def flag(self, key: str) -> bool:
        """Return whether a number is above 0."""
        return self.whole(key) > 0

    def numbers(self, key: str) -> list[int]:
        """Return the whole numbers of a list; a list of lists has one for each class."""
        texts = items(self.value(key))
        try:
            return [int(text) for text in texts]
        except ValueError:
            self.refuse(key, "expected whole numbers")
            return []

    def within(self, key: str, low: int) -> int:
        """Return a whole number; refuse one below `low`."""
        value = self.whole(key)
        if value < low:
            self.refuse(key, f"expected {low} or more")
        return max(value, low)

    # -- problems ------------------------------------------------------------------------------

    def refuse(self, key: str, why: str) -> None:
        """Add a problem for which there is no similar value."""
        self._problems.setdefault(key, (f"{self._shown(key)}: {why}", False))

    def lack(self, key: str, why: str, instead: str = "left out") -> None:
        """Add a problem that `lenient` solves in some way."""
        if self.lenient:
            self.note(key, f"{why}; {instead}")
            self.replaced.append(self.notes[-1])
        else:
            self._problems.setdefault(key, (f"{self._shown(key)}: {why}", True))

    def note(self, key: str, text: str) -> None:
        """Add a difference."""
        self.notes.append(f"{self._shown(key)}: {text}")

    def _shown(self, key: str) -> str:
        given = self._given(key)
        if given is None:
            return f"{key} = {keys.DEFAULTS[key]} (default)"
        return (f"line {given.line}, " if given.line else "") + f"{key} = {given.value}"

    def fixed(self) -> None:
        """Refuse values of keys that have one value here."""
        for key, (value, why) in keys.FIXED.items():
            if self._counts(key) and self.value(key) != value:
                self.lack(key, why)

    def _unread(self) -> None:
        """Refuse keys that no conversion has read, although BookSim reads them."""
        handled = self._read | keys.SILENT | set(keys.STOP_RULES)
        for key in self.keys():
            if key in keys.DEFAULTS and key not in handled and self._counts(key):
                self.lack(key, "has no counterpart")

    def _counts(self, key: str) -> bool:
        """Return whether BookSim reads a key with the values of the others."""
        groups = [group for group in keys.READ_IF if key in group[2]]
        return not groups or any(
            call(self.text(other))[0] in map(str, values) for other, values, _ in groups
        )

    def check(self, file: str) -> None:
        """Raise the error that names all problems, if there are any."""
        if not self._problems:
            self._unread()
        if not self._problems:
            return
        count = len(self._problems)
        noun = "setting has" if count == 1 else "settings have"
        texts = "".join(f"\n  {text}" for text, _ in self._problems.values())
        hint = "\nWith `lenient`, similar values are used, and the notes name them."
        soft = all(soft for _, soft in self._problems.values())
        raise InputError(
            f"{count} {noun} no counterpart in weft:{texts}{hint if soft else ''}", file=file
        )
