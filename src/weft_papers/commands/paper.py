"""`weft paper`: the experiments of a paper, with each claim next to the measured value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import cyclopts

from weft.cli.common import announced_compile, check_folder
from weft.cli.option_types import OUTPUT, RUNS, Folder, Listed, Whole
from weft.cli.output import emit, given
from weft.cli.study_progress import Display
from weft.core.docstrings import meanings, sections
from weft.core.errors import InputError
from weft.core.registry import Entry, convert
from weft.core.signals import ended_by
from weft.study.runs.store import INDEX
from weft.study.runs.typed import Results
from weft_papers.paper_registry import paper

#: Type of a study's option -> type on the command line. Other options are text; a list has commas.
_KINDS: dict[Any, Any] = {
    bool: bool, int: Whole, int | None: Whole | None, float: float, Path | None: Folder | None,
}  # fmt: skip

#: The option that every study has, and its help.
_STORE = Parameter("store", Parameter.KEYWORD_ONLY, default=None)
_OF_STORE = (
    "Folder that keeps the result of each run as soon as it is known. Runs that it has are not "
    "computed again, also after an interrupt or with more seeds."
)


def _command(entry: Entry) -> Callable[..., int]:
    """Return the command of a study, with the options of its function and their help."""

    def command(store: Path | None = None, **chosen: Any) -> int:
        hints = get_type_hints(entry.function, include_extras=True)
        arguments = {
            name: convert(value, hints[name], _flag(name))
            for name, value in chosen.items()
            if value is not None
        }
        check_folder("--out", arguments.get("out"))
        bound = paper.bind(entry, arguments)
        with announced_compile(), Display() as display:
            study = entry.function(**bound, results=Results(store, display.update, _say))
        claims = getattr(study, "claims_frame", None)
        emit(text=study.text, files=study.files, **({} if claims is None else {"claims": claims}))
        sys.stdout.write(study.text().rstrip("\n") + "\n")
        for path in study.files:
            print(path)
        if store is not None and not (store / INDEX).exists() and not given("--quiet"):
            print(
                f"weft: {store} is not written: with these options no runs are kept",
                file=sys.stderr,
            )
        if study.partial:
            word, status = ended_by()
            print(f"weft: {word}: {study.partial}; the study is partial", file=sys.stderr)
            return status
        return 0

    texts = meanings(entry.explanation)
    hints = get_type_hints(entry.function, include_extras=True)
    options = [
        *(
            _option(name, option, hints[name], texts.get(name, ""))
            for name, option in entry.options.items()
        ),
        _option("store", _STORE, Path | None, _OF_STORE),
    ]
    command.__signature__ = Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    command.__doc__ = f"{sections(entry.explanation)[0][1]}\n\nExample: `weft paper {entry.name}`"
    return command


def _say(text: str) -> None:
    if not given("--quiet"):
        print(f"weft: {text}", file=sys.stderr)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _option(name: str, option: Parameter, hint: Any, meaning: str) -> Parameter:
    """Return an option as a keyword of a command, None by default."""
    kind = hint if get_origin(hint) is Literal else _KINDS.get(hint, Listed)
    default = option.default
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    own: dict[str, Any] = {"converter": _path} if hint == Path | None else {}
    group = OUTPUT if hint == Path | None else RUNS
    about = group(
        name=_flag(name),
        help=meaning,
        negative=_flag(f"no-{name}") if default is True else (),
        show_default=False if shown in ("", None) or default is False else lambda _: str(shown),
        **own,
    )
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, about]
    )


def _path(_: Any, tokens: Sequence[cyclopts.Token]) -> Path:
    """Convert a path; refuse an empty text, which would be the current folder."""
    if not tokens[0].value:
        raise InputError(f"{tokens[0].keyword}: expected a path, not an empty text")
    return Path(tokens[0].value)


paper_app = cyclopts.App(
    name="paper",
    help="Run the experiments of a paper and print its claims next to the measured values.",
    help_format="markdown",
)
for each in paper:
    paper_app.command(_command(each), name=each.name, alias=each.aliases)
