"""`weft completion`: complete commands and options in a shell."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter


def completion_command(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Shell.")], /
) -> int:
    """Print a script that completes commands and options in bash, zsh or fish.

    Write it to `~/.local/share/bash-completion/completions/weft` for bash, to `_weft` in a folder
    of `fpath` for zsh, or to `~/.config/fish/completions/weft.fish`.
    """
    from weft.cli.app import COMMANDS, program

    app = program(tuple(COMMANDS))
    sys.stdout.write(app.generate_completion(prog_name="weft", shell=shell))
    return 0
