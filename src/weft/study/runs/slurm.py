"""Scripts of Slurm that perform the runs of a plan as an array of jobs and collect the results."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from weft.core.errors import InputError
from weft.core.files import write_text

ARRAY, COLLECT, SUBMIT = "array.sh", "collect.sh", "submit.sh"

_ARRAY = """\
#!/bin/sh
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --output=share-%a.out
#SBATCH --signal=B:TERM@60
{options}# Computes one share of the plan with a process for each core of the task.
exec {weft} study {folder} --share "$SLURM_ARRAY_TASK_ID" --workers "${{SLURM_CPUS_PER_TASK:-1}}"
"""
_COLLECT = """\
#!/bin/sh
#SBATCH --job-name={name}-collect
#SBATCH --output=collect.out
{options}#SBATCH --cpus-per-task=1
# Takes the results of all shares into the index of the store; may be run again at any time.
exec {weft} study --collect --store {store}
"""
_SUBMIT = """\
#!/bin/sh
# Submits the array, and the job that collects its results however the array ends.
set -e
cd {folder}
array=$(sbatch --parsable array.sh)
array=${{array%%;*}}
echo "submitted job $array"
collect=$(sbatch --parsable --dependency="afterany:$array" collect.sh)
echo "submitted job ${{collect%%;*}}, which collects the results"
"""


def write_scripts(folder: Path, study: str, shares: int, options: Sequence[str]) -> Path:
    """Write the scripts of a plan into its folder.

    `options`: options of sbatch for both jobs, such as ``--time=2:00:00``.

    Returns the script that submits the others.
    """
    folder = folder.resolve()
    filled = {
        "name": "weft-" + re.sub(r"[^\w.-]", "-", study),
        "last": shares - 1,
        "options": "".join(f"#SBATCH {option}\n" for option in options),
        "weft": f"{shlex.quote(sys.executable)} -m weft",
        "folder": shlex.quote(str(folder)),
        "store": shlex.quote(str(folder.parents[1])),
    }
    for name, text in ((ARRAY, _ARRAY), (COLLECT, _COLLECT), (SUBMIT, _SUBMIT)):
        write_text(folder / name, text.format(**filled))
    return folder / SUBMIT


def checked_options(options: Sequence[str]) -> list[str]:
    """Return options of sbatch as they are written."""
    for option in options:
        if not re.fullmatch(r"-[^\n\r]+", option):
            raise InputError(
                f"--sbatch-option: {option!r} is not an option of sbatch; expected, for example, "
                "--sbatch-option=--time=2:00:00"
            )
    return list(options)


def check_sbatch() -> None:
    """Refuse to submit where there is no Slurm."""
    if shutil.which("sbatch") is None:
        raise InputError("--submit: the program sbatch is not found; are you on a cluster?")


def submit(script: Path) -> list[str]:
    """Submit the jobs of a plan, and return the lines that sbatch printed."""
    ended = subprocess.run(
        ["/bin/sh", str(script)], capture_output=True, text=True, check=False
    )  # fmt: skip
    if ended.returncode:
        said = "; ".join((ended.stdout + ended.stderr).split("\n")).strip("; ")
        raise InputError(f"sbatch failed: {said}", file=script)
    return ended.stdout.splitlines()
