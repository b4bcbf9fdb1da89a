"""Build a wheel of weft for the running version of Python, with its kernels compiled.

    python scripts/build_wheel.py FOLDER

The kernels are compiled for `weft.kernels.bundle.PROCESSOR`, whatever this machine has.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from weft.kernels import bundle

ROOT = Path(__file__).parents[1]


def run(*words: object, **environment: str) -> None:
    """Run a module of this Python."""
    command = [sys.executable, "-m", *map(str, words)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **environment})


def build(folder: Path) -> None:
    """Build the wheel in a folder."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", work, ".")
        (pure,) = work.glob("*.whl")
        run("wheel", "unpack", "--dest", work / "open", pure)
        (opened,) = (work / "open").iterdir()
        run(
            "weft", "warmup", PYTHONPATH=str(opened), NUMBA_CACHE_DIR=str(work / "cache"),
            NUMBA_CPU_NAME=bundle.PROCESSOR, NUMBA_CPU_FEATURES="", PYTHONDONTWRITEBYTECODE="1",
        )  # fmt: skip
        kernels = opened / "weft" / "kernels" / bundle.FOLDER.name
        kernels.mkdir()
        for path in sorted((work / "cache").rglob("*.nbc")):
            shutil.copyfile(path, kernels / path.name)
        (kernels / bundle.TARGET).write_text(json.dumps(bundle.built_for(), indent=2) + "\n")
        (work / "packed").mkdir()
        run("wheel", "pack", "--dest-dir", work / "packed", opened)
        (packed,) = (work / "packed").glob("*.whl")
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        run(
            "wheel", "tags", "--remove", "--python-tag", python, "--abi-tag", python,
            "--platform-tag", "linux_x86_64", packed,
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        for path in (work / "packed").glob("*.whl"):
            print(shutil.move(path, folder / path.name))


if __name__ == "__main__":
    build(Path(sys.argv[1]))
