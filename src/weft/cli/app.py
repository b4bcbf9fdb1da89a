"""The `weft` program: its commands, and how errors and warnings reach the user."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TextIO

import cyclopts

from weft.cli.calibrate import calibrate_command
from weft.cli.compare import compare_command
from weft.cli.convert import convert_command
from weft.cli.cost import cost_command
from weft.cli.info import info_command
from weft.cli.listing import list_command
from weft.cli.opensm import opensm_app
from weft.cli.paper import paper_command
from weft.cli.predict import predict_command
from weft.cli.route import route_command
from weft.cli.signals import ended_by, stoppable
from weft.cli.simulate import simulate_command
from weft.cli.sweep import sweep_command
from weft.cli.trace import trace_app
from weft.cli.warmup import warmup_command
from weft.errors import WeftError

#: Exit status when the input or the command line is at fault.
BAD_INPUT = 2


def _worth_showing(default: object) -> str | None:
    return None if default in ((), None, False) else str(default)


app = cyclopts.App(
    name="weft",
    help="Build, route, check and compare HPC and data-centre interconnects.",
    help_format="markdown",
    default_parameter=cyclopts.Parameter(negative=(), show_default=_worth_showing),
    suppress_keyboard_interrupt=False,  # `main` says what ended it
)
app.command(compare_command, name="compare")
app.command(info_command, name="info")
app.command(route_command, name="route")
app.command(convert_command, name="convert")
app.command(cost_command, name="cost")
app.command(predict_command, name="predict")
app.command(calibrate_command, name="calibrate")
app.command(paper_command, name="paper")
app.command(simulate_command, name="simulate")
app.command(sweep_command, name="sweep")
app.command(list_command, name="list")
app.command(opensm_app)
app.command(trace_app)
app.command(warmup_command, name="warmup")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments
        Words of the command line; the process's own when left out.

    Returns
    -------
    int
        Exit status: 0, 2 on bad input (one line on standard error), or what the command gives.
    """
    warnings.showwarning = _show_warning
    try:
        with stoppable():
            result = app(
                arguments, exit_on_error=False, print_error=False, result_action="return_value"
            )
        if sys.stdout is not None:
            sys.stdout.flush()
    except cyclopts.CycloptsError as error:
        return _fail(" ".join(str(error).split()))
    except WeftError as error:
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
