"""What a user waits for once: compiling every kernel into an empty cache, in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        for run in ("first, empty cache", "second"):
            for command in (["compare", "xgft:2;4,4;1,4"], ["warmup"]):
                start = time.perf_counter()
                subprocess.run(
                    [
                        sys.executable,
                        "-c",
                        "import sys; from weft.cli import main; main(sys.argv[1:])",
                        *command,
                    ],
                    env=environment,
                    check=True,
                    capture_output=True,
                )
                print(f"weft {command[0]:8s} {run:20s} {time.perf_counter() - start:6.1f} s")


if __name__ == "__main__":
    main()
