"""`NotebookFigure`: a matplotlib figure that any notebook shows, with reproducible files."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from weft.core.files import write_with

#: Dots per inch in a notebook.
NOTEBOOK_DPI = 100


def corners(
    left: NDArray[Any], right: NDArray[Any], first: NDArray[Any], second: NDArray[Any]
) -> list[NDArray[np.float64]]:
    """Return the corners of rectangles, [4, 2] each; two ends in x, and two in y."""
    x, y = np.stack([left, right, right, left], axis=1), np.stack([first, first, second, second], 1)
    return list(np.stack([x, y], axis=2))


class NotebookFigure(Figure):
    """A figure without a window; notebooks show it even if pyplot is not imported."""

    def __init__(self, size_inches: tuple[float, float]) -> None:
        super().__init__(figsize=size_inches, layout="constrained", facecolor="white")
        FigureCanvasAgg(self)

    def _repr_html_(self) -> str:
        image = io.BytesIO()
        self.savefig(image, format="png", dpi=NOTEBOOK_DPI)
        data = base64.b64encode(image.getvalue()).decode()
        return f'<img alt="figure" style="max-width: 100%" src="data:image/png;base64,{data}">'

    def write(self, path: str | Path, dpi: int = 150, format: str = "png") -> None:
        """Write the figure; the file is replaced only when it is complete.

        Parameters
        ----------
        path
            The file.
        dpi
            Dots per inch.
        format
            ``png``, ``svg`` or ``pdf``.

        Raises
        ------
        InputError
            If the file cannot be written.
        """

        def save(file: Any) -> None:
            # Without matplotlib's version and the date, equal drawings give equal files.
            absent = {"png": ("Software",), "svg": ("Date",), "pdf": ("CreationDate",)}
            metadata = dict.fromkeys(absent[format])
            self.savefig(file, format=format, dpi=dpi, metadata=metadata)

        write_with(path, save)
