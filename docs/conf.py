"""Sphinx configuration of the documentation: ``make docs`` builds docs/_build/html."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference  # noqa: E402  (docs/reference.py)
import weft  # noqa: E402

project = "weft"
author = "the weft developers"
copyright = author
version = release = weft.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "gallery", "accuracy/*.md"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "member-order": "bysource"}
default_role = "code"

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "image_scrapers": ("matplotlib", "notebook_figures"),
    "ignore_repr_types": "NotebookFigure",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 60,
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "weft"
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_static_path: list[str] = []

reference.write_pages(HERE / "reference")
