"""Studies that repeat the experiments of papers with weft: one folder for each paper."""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from weft_papers.kns.study import kns_infiniband
    from weft_papers.multipath.study import multipath_ecmp
    from weft_papers.paper_registry import paper

#: The command that weft takes from this package; see `weft.cli.app.commands`.
PAPER = (
    "weft_papers.commands.paper:paper_app",
    "Run the experiments of a paper and print its claims next to the measured values.",
)
#: Public name -> its module, which is imported at first use.
_HOME = {
    "kns_infiniband": "weft_papers.kns.study",
    "multipath_ecmp": "weft_papers.multipath.study",
    "paper": "weft_papers.paper_registry",
}

__all__ = ["kns_infiniband", "multipath_ecmp", "paper"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        if name in _HOME:
            return getattr(import_module(_HOME[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
