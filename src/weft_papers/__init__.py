"""Studies that repeat the experiments of papers with weft: one folder for each paper."""

from weft.core.lazy import attach

#: The command that weft takes from this package; see `weft.cli.app.commands`.
PAPER = (
    "weft_papers.commands.paper:paper_app",
    "Run the experiments of a paper and print its claims next to the measured values.",
)
__getattr__, __dir__ = attach(__name__, __file__)  # the public names are in __init__.pyi
