"""The `weft` program: its commands, and how errors and warnings reach the user."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any, TextIO

import cyclopts

from weft import __version__
from weft.cli.machine_output import FLAGS, output_by, split_flags
from weft.cli.mistakes import attached, explained
from weft.cli.output import printable_output
from weft.core.errors import WeftError
from weft.core.signals import ended_by, stoppable

#: Exit status when the input or the command line is at fault.
BAD_INPUT = 2
#: Name -> where the command is, imported when it is wanted, and the first line of its description.
COMMANDS = {
    "calibrate": (
        "weft.cli.calibrate:calibrate_command",
        "Fit the contention model to measured times of contention graphs.",
    ),
    "compare": (
        "weft.cli.compare:compare_command",
        "Route a fabric with every engine that fits, check each, load it, and compare.",
    ),
    "convert": (
        "weft.cli.convert:convert_command",
        "Write a fabric as ibnetdiscover, ibsim, node-name-map, Slurm, GraphML or Graphviz.",
    ),
    "completion": (
        "weft.cli.completion:completion_command",
        "Print a script that completes commands and options in bash, zsh or fish.",
    ),
    "cost": (
        "weft.cli.cost:cost_command",
        "Put a fabric into racks: switches, ports, cables by length, and the cabling list.",
    ),
    "doctor": (
        "weft.cli.doctor:doctor_command",
        "Print versions, missing programs and the state of the kernel cache, for bug reports.",
    ),
    "info": (
        "weft.cli.info:info_command",
        "Describe a fabric: counts, rates, diameter, bisection, and what the literature says.",
    ),
    "list": (
        "weft.cli.listing:list_command",
        "List engines, topologies, patterns, policies, workloads, formats, papers, or explain one.",
    ),
    "opensm": (
        "weft.cli.opensm:opensm_app",
        "Try the real OpenSM on a simulated fabric, load tables into it, and check what it does.",
    ),
    "paper": (
        "weft.cli.paper:paper_app",
        "Run the experiments of a paper and print its claims beside the measured values.",
    ),
    "predict": (
        "weft.cli.predict:predict_command",
        "Predict the completion times of communications that contend for adapters.",
    ),
    "route": (
        "weft.cli.route:route_command",
        "Route with the first engine that fits (minhop if none is named); print what is found.",
    ),
    "simulate": (
        "weft.cli.simulate:simulate_command",
        "Run a workload over a routed fabric and say how long it takes.",
    ),
    "sweep": (
        "weft.cli.sweep:sweep_command",
        "Measure latency and accepted load over offered load, each load by a run of its own.",
    ),
    "trace": (
        "weft.cli.trace:trace_app",
        "Check, format, unfold and fold programs of the MPI trace language.",
    ),
    "warmup": (
        "weft.cli.warmup:warmup_command",
        "Compile all kernels and say how long it took.",
    ),
}


def _worth_showing(default: object) -> str | None:
    if default is None or default is False or default == ():
        return None
    return ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def program(words: Sequence[str] = ()) -> cyclopts.App:
    """The program, with the command among the words that will run.

    Parameters
    ----------
    words
        The command line. A command that is not on it is known by one line, and not imported.
    """
    app = cyclopts.App(
        name="weft",
        help="Build, route, check and compare HPC and data-centre interconnects.",
        help_epilogue="Every command also takes:\n\n"
        + "\n\n".join(f"`{flag}`: {text}" for flag, text in FLAGS.items()),
        help_format="markdown",
        version=__version__,
        default_parameter=cyclopts.Parameter(negative=(), show_default=_worth_showing),
        suppress_keyboard_interrupt=False,  # `run` says what ended it
    )
    for name, (where, summary) in COMMANDS.items():
        app.command(where, name=name, help=None if name in words else summary)
    return app


def run(words: Sequence[str]) -> int:
    """Run one command.

    Parameters
    ----------
    words
        Those of the command line.

    Returns
    -------
    int
        Exit status: 0, 2 on bad input (one line on standard error), or what the command gives.
    """
    warnings.showwarning = _show_warning
    flags, words = split_flags(words)
    app = program(words)
    try:
        with stoppable(), printable_output(), output_by(flags):
            result = app(
                attached(words), exit_on_error=False, print_error=False,
                result_action="return_value",
            )  # fmt: skip
        if sys.stdout is not None:
            sys.stdout.flush()
    except cyclopts.CycloptsError as error:
        return _fail(explained(error))
    except WeftError as error:
        if "--verbose" in flags:
            traceback.print_exc()
        return _fail(str(error))
    except KeyboardInterrupt:
        word, status = ended_by()
        print(f"weft: {word}", file=sys.stderr)
        return status
    except BrokenPipeError:
        # Whoever read the output has enough of it; nothing is left to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # Files are written by functions that give an InputError; this is standard output.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(f"cannot write the output: {error.strerror or error}")
    except MemoryError as error:
        return _fail(f"not enough memory: {str(error) or 'the fabric or a number is too large'}")
    return result if isinstance(result, int) else 0


def _fail(text: str) -> int:
    print(f"weft: error: {text}", file=sys.stderr)
    return BAD_INPUT


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> Any:
    print(f"weft: warning: {message}", file=sys.stderr)
