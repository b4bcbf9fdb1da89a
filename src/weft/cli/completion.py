"""`weft completion`: shell completion of commands and options."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Shell.")], /
) -> int:
    """Print a script that completes commands and options in bash, zsh or fish.

    Save the script where the shell looks for completions; docs/guides/index.md names the folders.

    Example: `weft completion bash`
    """
    from weft.cli.app import commands, program

    app = program(tuple(commands()))
    sys.stdout.write(app.generate_completion(prog_name="weft", shell=shell))
    return 0
