"""Runs every benchmark and prints its figures: ``python -m benchmarks [NAME ...]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def main() -> int:
    """Run the named benchmarks, or all of them."""
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    names = [name for name in names if not name.startswith("_")]
    wanted = sys.argv[1:] or names
    for name in wanted:
        if name not in names:
            print(f"no benchmark {name!r}; there are {', '.join(names)}", file=sys.stderr)
            return 2
        print(f"\n== {name} ==", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
