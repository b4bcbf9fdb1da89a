"""Let sphinx-gallery save the figures that weft returns, which pyplot does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sphinx_gallery.scrapers import figure_rst

from weft.report.figure import NotebookFigure

_saved: list[NotebookFigure] = []


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figure at the end of a block, if there is one; return the reST that shows it."""
    figure = block_vars["example_globals"].get("___")
    if not isinstance(figure, NotebookFigure) or any(figure is each for each in _saved):
        return ""
    _saved.append(figure)
    path = next(block_vars["image_path_iterator"])
    figure.write(path, dpi=120)
    return figure_rst([path], gallery_conf["src_dir"])


def _get_sg_image_scraper() -> Callable[..., str]:
    return scrape
