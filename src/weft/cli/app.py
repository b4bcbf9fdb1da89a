"""The `weft` program: its commands, and how it prints errors and warnings."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft import __version__
from weft.cli.output import FLAGS, output_by, plain, printable_output, split_flags
from weft.core.errors import STANDARD_INPUT, InputError, WeftError
from weft.core.extensions import extensions
from weft.core.signals import ended_by, stoppable

if TYPE_CHECKING:  # slow to import
    import cyclopts


#: A word that, after an option, is the option's value: a negative number (perhaps with a unit, or
#: the first of a list) or a truth value.
_VALUE = re.compile(r"-(?:\.?\d\S*|inf|nan)|true|false|yes|no", re.IGNORECASE)
#: Commands that run a command of the user, which follows ``--``.
WITH_COMMAND = ("watch",)
#: Exit status of a wrong input or command line.
BAD_INPUT = 2
#: What the program does, in the list of commands.
SUMMARY = "Build, route, check and compare HPC and data-centre interconnects."
#: Name -> module and function of the command (imported when it runs) and first line of its help.
#: The same pairs are entry points of the group ``weft.commands``, for names that are free.
COMMANDS: dict[str, tuple[str, str]] = {
    "check": (
        "weft.cli.check:check_command",
        "Compare a cable plan with the fabric that was found, and list what to do, rack by rack.",
    ),
    "compare": (
        "weft.cli.compare:compare_command",
        "Route a fabric with every engine that fits, validate the routes and compare the loads.",
    ),
    "audit": (
        "weft.cli.audit:audit_command",
        "Report what is wrong with a fabric, its tables and its subnet manager, worst first.",
    ),
    "convert": (
        "weft.cli.convert:convert_command",
        "Write a fabric in another format, such as ibsim, Slurm's topology.yaml or Graphviz.",
    ),
    "completion": (
        "weft.cli.completion:completion_command",
        "Print a script that completes commands and options in bash, zsh or fish.",
    ),
    "cost": (
        "weft.cli.cost:cost_command",
        "Place a fabric in racks: switches, ports, cables by length, and the cabling list.",
    ),
    "doctor": (
        "weft.cli.doctor:doctor_command",
        "Print versions, missing programs and the state of the kernel cache, for bug reports.",
    ),
    "expect": (
        "weft.cli.expect:expect_command",
        "Compare logs of benchmarks with what the fabric should give, and say what is slow.",
    ),
    "flits": (
        "weft.cli.flits:flits_command",
        "Run synthetic traffic cycle by cycle, or repeat a configuration file of BookSim 2.",
    ),
    "info": (
        "weft.cli.info:info_command",
        "Describe a fabric: counts, rates, diameter, bisection and irregularities.",
    ),
    "keys": (
        "weft.cli.keys:keys_command",
        "Give the flows of an application paths that share few links (routing keys).",
    ),
    "list": (
        "weft.cli.listing:list_command",
        "List engines, topologies, patterns, policies, readers, writers, papers, or explain one.",
    ),
    "opensm": (
        "weft.cli.opensm:opensm_app",
        "Run the real OpenSM on a simulated fabric, and load tables into it.",
    ),
    "place-io": (
        "weft.cli.place_io:place_io_command",
        "Choose hosts for I/O nodes, and for the jobs beside them, and say why.",
    ),
    "predict": (
        "weft.cli.predict:predict_command",
        "Predict the completion times of communications that contend for adapters.",
    ),
    "replay": (
        "weft.cli.replay:replay_command",
        "Repeat the decisions in a log of 'weft serve', check them, and compare other rules.",
    ),
    "report": (
        "weft.cli.report:report_command",
        "Answer what a study asks: the best by each measure, with intervals, tables and figures.",
    ),
    "route": (
        "weft.cli.route:route_command",
        "Route with the first engine that fits (default: minhop) and print the validation.",
    ),
    "serve": (
        "weft.cli.serve:serve_command",
        "Place applications on a fat tree, make their routing keys, and grant them over HTTP.",
    ),
    "simulate": (
        "weft.cli.simulate:simulate_command",
        "Run a workload on a routed fabric and print how long it takes.",
    ),
    "store": (
        "weft.cli.store:store_app",
        "List, check, prune, export and move the results of studies.",
    ),
    "study": (
        "weft.cli.study:study_command",
        "Compute every run that a file describes, and keep the results in a store.",
    ),
    "sweep": (
        "weft.cli.sweep:sweep_command",
        "Measure latency and accepted load over offered load, with one run per load.",
    ),
    "topologies": (
        "weft.cli.topologies:topologies_command",
        "Size machines of every family for a number of hosts, and compare them.",
    ),
    "trace": (
        "weft.cli.trace:trace_app",
        "Check, format and unfold programs of the MPI trace language.",
    ),
    "watch": (
        "weft.cli.watch:watch_command",
        "Say what cables carry and how long they wait, whose traffic it is, and what helps.",
    ),
    "warmup": (
        "weft.cli.warmup:warmup_command",
        "Compile all kernels and print how long it took.",
    ),
    "what-if": (
        "weft.cli.what_if:what_if_command",
        "Say what happens if parts of a fabric fail, are slower, are drained or are added.",
    ),
}


def commands() -> dict[str, tuple[str, str]]:
    """Return all commands as in `COMMANDS`, with those of other distributions."""
    return dict(sorted((dict(extensions("weft.commands", tuple)) | COMMANDS).items()))


def _worth_showing(default: object) -> str | None:
    if default is None or default is False or default == ():
        return None
    return ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def program(
    words: Sequence[str] = (), known: Mapping[str, tuple[str, str]] | None = None
) -> cyclopts.App:
    """Return the program, with the help of the commands that a command line names.

    `words`: the command line. Commands that it does not name have one line of help and are not
    imported. `known`: its commands; by default, all.
    """
    import cyclopts

    known = commands() if known is None else known
    app = cyclopts.App(
        name="weft",
        help=SUMMARY,
        help_epilogue="\n\n".join(_epilogue("`{}`")),
        help_format="markdown",
        version=__version__,
        default_parameter=cyclopts.Parameter(negative=(), show_default=_worth_showing),
        suppress_keyboard_interrupt=False,  # `run` names the signal
    )
    for name, (where, summary) in known.items():
        app.command(where, name=name, help=None if name in words else summary)
    return app


def _epilogue(code: str) -> list[str]:
    flags = (f"{code.format(flag)}: {text}" for flag, text in FLAGS.items())
    return ["Every command also takes:", *flags]


def _list_commands() -> int:
    """Print the help of the program as cyclopts would, which takes longer to import."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table

    out = Console(highlight=False)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    for name, (_, summary) in commands().items():
        table.add_row(name, summary)
    table.add_row("--help (-h)", "Display this message and exit.")
    table.add_row("--version", "Display application version.")
    out.print(f"[bold]Usage: weft COMMAND[/]\n\n{SUMMARY}\n")
    out.print(Panel(table, title="Commands", title_align="left"))
    out.print("", "\n\n".join(_epilogue("[bold cyan]{}[/]")), sep="\n")
    return 0


def _parsed(words: Sequence[str]) -> Any:
    """Run the command of a command line and return its result."""
    import cyclopts

    app = program(words, COMMANDS if words[0] in COMMANDS else commands())
    try:
        return app(
            attached(words), exit_on_error=False, print_error=False, result_action="return_value"
        )
    except cyclopts.CycloptsError as error:
        from weft.cli.mistakes import explained

        raise InputError(explained(error)) from None


def attached(words: Sequence[str]) -> list[str]:
    """Join negative numbers and truth values to the option before, as in ``--snapshot=-1us``.

    The parser would take a negative number for an option and a truth value after a flag for an
    argument. The command itself checks whether the value is valid. A dash alone is standard input.
    What follows ``--`` is a command of the user if the command takes one, and else arguments.
    """
    joined: list[str] = []
    known = list(itertools.takewhile(lambda word: word != "--", words))
    for word in (STANDARD_INPUT[-1] if word == STANDARD_INPUT[0] else word for word in known):
        option = joined[-1] if joined else ""
        if _VALUE.fullmatch(word) and option.startswith("--") and "=" not in option:
            joined[-1] = f"{option}={word}"
        else:
            joined.append(word)
    rest = words[len(known) :]
    if words and words[0] in WITH_COMMAND:
        rest = [f"--command={word}" for word in rest[1:]]
    return [*joined, *rest]


def run(words: Sequence[str]) -> int:
    """Run one command.

    Returns the exit status of the command, by default 0; 2 on bad input, with one line on standard
    error.
    """
    warnings.showwarning = lambda message, *_: print(f"weft: warning: {message}", file=sys.stderr)
    flags, words = split_flags(words)
    try:
        with stoppable(), printable_output(), output_by(flags):
            helped = words in ([], ["--help"], ["-h"])
            result = _list_commands() if helped else _parsed(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except WeftError as error:
        if "--verbose" in flags:
            import traceback

            traceback.print_exc()
        return _fail(str(error))
    except KeyboardInterrupt:
        word, status = ended_by()
        print(f"weft: {word}", file=sys.stderr)
        return status
    except BrokenPipeError:
        # The reader of the output has closed it, as `weft list | head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is not None:
            name = str(error.filename)
            return _fail(f"{name[:60]}{'...' * (len(name) > 60)}: {error.strerror}")
        # Functions that write files raise an InputError, so this is an error of standard output.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(f"cannot write the output: {error.strerror or error}")
    except MemoryError as error:
        return _fail(f"not enough memory: {str(error) or 'the fabric or a number is too large'}")
    return result if isinstance(result, int) else 0


def _fail(text: str) -> int:
    print(f"weft: error: {plain(text)}", file=sys.stderr)
    return BAD_INPUT
