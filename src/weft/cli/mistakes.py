"""One-line messages for errors of the command line: what, where, and what was expected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

import cyclopts


def explained(error: cyclopts.CycloptsError) -> str:
    """Return a one-line message for an error of the parser."""
    chain = list(error.command_chain or ())
    command = " ".join(["weft", *chain])
    more = f"see '{command} --help'"
    match error:
        case cyclopts.UnknownCommandError():
            return _unknown_command(error, chain)
        case cyclopts.UnknownOptionError():
            word = (error.token.keyword or error.token.value).partition("=")[0]
            names = [
                name
                for argument in error.argument_collection
                if argument.parse
                for name in argument.names
            ]
            return f"{command} has no option {word!r}{_meant(word, names)}; {more}"
        case cyclopts.MissingArgumentError():
            assert error.argument is not None
            if error.keyword is not None:
                return f"{error.keyword} needs a value; {more}"
            return f"{command} needs {error.argument.name}; {more}"
        case cyclopts.UnusedCliTokensError():
            words = error.unused_tokens or [""]
            return f"{command}: unexpected argument {words[0]!r}; {more}"
        case cyclopts.RepeatArgumentError():
            return f"{error.token.keyword} is given twice"
        case cyclopts.CoercionError() if error.msg is None and error.token is not None:
            option = error.token.keyword or (error.argument.name if error.argument else command)
            value = error.token.value
            return f"{option}: {value!r} does not fit: {_expected(error.target_type, value)}"
    return " ".join(str(error).split())


def _unknown_command(error: cyclopts.UnknownCommandError, chain: list[str]) -> str:
    word = (error.unused_tokens or [""])[0]
    if word.startswith("-"):
        flags = [name for name in error.app or () if name.startswith("-")]
        return f"{' '.join(['weft', *chain])} has no option {word!r}{_meant(word, flags)}"
    names = [name for name in error.app or () if not name.startswith("-")]
    if chain and error.app is not None:  # each command once, by its first name
        names = list({id(error.app[name]): name for name in reversed(names)}.values())[::-1]
    # To the parser, papers are commands.
    kind = chain[-1] if chain[-1:] == ["paper"] else " ".join([*chain, "command"])
    return f"unknown {kind} {word!r}{_meant(word, names)}; expected one of {', '.join(names)}"


def _expected(hint: Any, value: str) -> str:
    """Return what a value of a type must be, in words."""
    if get_origin(hint) is Literal:
        *others, last = get_args(hint)
        listed = f"{', '.join(map(repr, others))} or {last!r}" if others else repr(last)
        return f"expected {listed}{_meant(value, [*others, last])}"
    kinds = {hint, *get_args(hint)}
    if bool in kinds:
        return "the option takes no value"
    if int in kinds:
        return "expected a whole number"
    if float in kinds:
        return "expected a number"
    return "wrong type of value"


def _meant(name: str, names: Iterable[str]) -> str:
    from weft.core.registry import did_you_mean  # imported late: slow to import

    return did_you_mean(name, names)
