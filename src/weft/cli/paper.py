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
    **options: Annotated[
        str, Parameter(help="Options of the study; 'weft list NAME' explains them.")
    ],
) -> int:
    """Run the experiments of a paper and print its claims beside the measured values.

    Every study takes --out FOLDER for its figures and tables. Its other options are its own:
    'weft list NAME' explains them.
    """
    entry = paper[name]
    bound = paper.bind(entry, {key.replace("-", "_"): value for key, value in options.items()})
    with announced_compile():
        study = entry.function(**bound)
    sys.stdout.write(study.text().rstrip("\n") + "\n")
    for path in study.files:
        print(path)
    return 0
