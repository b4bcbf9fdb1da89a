"""Run benchmarks and print their results: ``python -m benchmarks [--large] [NAME ...]``.

``--large`` adds or selects large cases where a benchmark has them; these take much longer.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path


def main() -> int:
    """Run the named benchmarks, or all of them."""
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    names = [name for name in names if not name.startswith("_")]
    arguments = sys.argv[1:]
    if "--large" in arguments:
        os.environ["WEFT_BENCHMARK_LARGE"] = "1"
    wanted = [argument for argument in arguments if argument != "--large"] or names
    for name in wanted:
        if name not in names:
            print(
                f"unknown benchmark {name!r}; expected one of {', '.join(names)}", file=sys.stderr
            )
            return 2
        print(f"\n== {name} ==", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
