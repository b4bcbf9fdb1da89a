"""`plot_timelines`: the states of ranks over time, as a picture for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from weft.core.errors import InputError
from weft.report.colours import LIGHT_SERIES
from weft.report.figure import NotebookFigure, corners
from weft.report.simulation_page import time_text
from weft.sim.packet.timelines import rank_spans, timelines

if TYPE_CHECKING:
    from weft.sim.packet.result import PacketResult

#: State -> label, colour, opacity and share of the row's height, in the order of painting.
_STATES = {
    "receiving": ("waiting to receive", LIGHT_SERIES[5], 0.42, 0.8),
    "sending": ("sending", LIGHT_SERIES[0], 1.0, 0.5),
    "computing": ("computing", LIGHT_SERIES[2], 1.0, 0.8),
}
#: Largest number of messages that are drawn by default.
MAX_MESSAGES = 400


def plot_timelines(
    result: PacketResult,
    *,
    ranks: tuple[int, int] | None = None,
    begin_ns: float = 0.0,
    end_ns: float | None = None,
    messages: bool | None = None,
    title: str = "",
    size_inches: tuple[float, float] = (12.0, 6.5),
) -> NotebookFigure:
    """Draw the states of ranks as bars over time, and messages as lines from departure to arrival.

    - `result`: a run of the packet level.
    - `ranks`: first and last rank to draw; all by default.
    - `begin_ns`, `end_ns`: interval to draw; the whole run by default.
    - `messages`: whether to draw the messages between these ranks; by default, they are drawn if
      there are at most `MAX_MESSAGES`.
    - `title`: heading; empty for none.
    """
    work = result.workload
    first, last = ranks or (0, work.num_ranks - 1)
    if not 0 <= first <= last < work.num_ranks:
        raise InputError(
            f"ranks {first} to {last} do not exist; expected a range within 0 to "
            f"{work.num_ranks - 1}"
        )
    end = result.end_ps / 1e3 if end_ns is None else end_ns
    if not 0 <= begin_ns < end:
        raise InputError(
            f"the interval from {begin_ns:g} to {end:g} ns is not valid; expected 0 <= begin_ns < "
            "end_ns"
        )
    figure = NotebookFigure(size_inches)
    axes = figure.add_subplot()
    spans = rank_spans(result)
    rank, state = spans["rank"].to_numpy(), spans["state"].to_numpy()
    start, stop = spans["begin_ns"].to_numpy(), spans["end_ns"].to_numpy()
    shown = (rank >= first) & (rank <= last) & (stop > begin_ns) & (start < end)
    for name, (_, colour, opacity, height) in _STATES.items():
        mine = np.flatnonzero(shown & (state == name))
        low, high = rank[mine] - height / 2, rank[mine] + height / 2
        bars = corners(start[mine], stop[mine], low, high)
        axes.add_collection(PolyCollection(bars, facecolors=colour, alpha=opacity, linewidths=0))
    lines = _messages(result, first, last, begin_ns, end)
    if messages or (messages is None and len(lines) <= MAX_MESSAGES):
        axes.add_collection(
            LineCollection(list(lines), colors="#1b1f24", linewidths=0.6, alpha=0.6)
        )
    axes.set_xlim(begin_ns, end)
    axes.set_ylim(last + 0.6, first - 0.6)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=20))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axes.set_ylabel("rank")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        handles=[Patch(fc=c, alpha=a, label=text) for text, c, a, _ in _STATES.values()],
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False, fontsize=9,
    )  # fmt: skip
    if title:
        axes.set_title(title, loc="left", parse_math=False)
    return figure


def _messages(
    result: PacketResult, first: int, last: int, begin_ns: float, end_ns: float
) -> np.ndarray:
    """Return (time, rank) of both ends of each drawn message, float64 [messages, 2, 2]."""
    rows = timelines(result)
    sent = rows.filter(
        rows["kind"].is_in(["send", "put"]),
        rows["rank"].is_between(first, last),
        rows["peer"].is_between(first, last),
        rows["arrived_ns"] > begin_ns,
        rows["left_ns"] < end_ns,
    )
    ends = [
        np.stack([sent[time].to_numpy(), sent[rank].to_numpy()], axis=1)
        for time, rank in (("left_ns", "rank"), ("arrived_ns", "peer"))
    ]
    return np.stack(ends, axis=1).astype(np.float64)
