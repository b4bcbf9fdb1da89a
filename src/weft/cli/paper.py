"""`weft paper`: a paper's experiments, and each of its claims beside what is measured."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from weft.cli.common import announced_compile
from weft.papers import paper


def paper_command(
    name: Annotated[str, Parameter(help="Which paper; 'weft list papers' names them.")],
    /,
    **options: Annotated[str, Parameter(help="Options of the paper's study.")],
) -> int:
    """Run the experiments of a paper and print its claims beside the measured values.

    Every study takes --out FOLDER for its figures and tables; 'weft list papers' shows the
    other options of each. Those of multipath-ecmp are --seeds, --flows, --k 4,8,16,32, --hash
    (ideal, linear, crc, crc-offset, crc-polarised), --first-seed and --processes.
    """
    entry = paper[name]
    bound = paper.bind(entry, {key.replace("-", "_"): value for key, value in options.items()})
    with announced_compile():
        study = entry.function(**bound)
    sys.stdout.write(study.text().rstrip("\n") + "\n")
    for path in study.files:
        print(path)
    return 0
