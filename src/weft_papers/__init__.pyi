from weft_papers.kns.study import kns_infiniband
from weft_papers.multipath.study import multipath_ecmp
from weft_papers.paper_registry import paper

PAPER: tuple[str, str]

__all__ = ["kns_infiniband", "multipath_ecmp", "paper"]
