"""The page of pairwise runs: a matrix of the speed of pairs, the suspects, and their cables."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from weft.advice.comparison import fabric_facts
from weft.advice.expect.pairwise import Pairwise
from weft.core.words import natural_key
from weft.report.colours import LIGHT_PART, scale
from weft.report.comparison_data import EngineVerdict, Mark, Page, PageSection, PatternRun, Words

#: Colours from fast to slow; edges of the matrix and its largest size, and cells with frames, px.
_COLOURS = scale(LIGHT_PART, 8)
_LEFT, _TOP, _PIXELS, _FRAMED = 110, 90, 700, 5
_WORDS = Words(
    engine="Run", pattern="Figures", amount="Figures", unit="figures", counted=False,
    load="figures per fastest host cable",
    load_text="A load of 1 is one figure that crosses a link with the rate of a host's cable.",
)  # fmt: skip


def pairwise_page(found: Mapping[str, Pairwise]) -> Page:
    """Return the data of the page; `found`: result by operation and size."""
    fabric = next(iter(found.values())).fabric
    sections, marks = [], []
    for name, result in found.items():
        sections.append(PageSection(name, ({"speed of each pair": _matrix(result)},)))
        rows = tuple(
            {
                "slow": " or ".join(each.names),
                "value": f"{each.value:,.0f} ns" if result.is_latency else f"{each.value:.1%}",
                "95 %": f"{each.low:,.3g} to {each.high:,.3g}",
                "figures": each.figures, "by chance": f"{each.chance:.1g}",
                "nearly as likely": ", ".join(each.perhaps) or None,
            }
            for each in result.suspects
        )  # fmt: skip
        if rows:
            sections.append(PageSection(f"{name}: suspects", rows))
        ports = [part[6:].split(" - ")[0] for each in result.suspects for part in each.names
                 if part.startswith("cable ")]  # fmt: skip
        marks += [Mark(cable=fabric.find_cable(port)) for port in ports]
    rate = fabric.link_rate_gbps / fabric.host_rate_gbps
    return Page(
        fabric, f"Pairwise runs on {fabric.name}", fabric_facts(fabric), {},
        tuple(EngineVerdict(name, "figures that cross each link", ok=True) for name in found),
        {"pairs": "One figure for each pair of machines"},
        tuple(
            PatternRun(name, "pairs", result.crossings, result.crossings / rate)
            for name, result in found.items()
        ),
        answer=" ".join(f"{name}: {result}" for name, result in found.items()),
        best=next(iter(found)), sections=tuple(sections), words=_WORDS, marks=tuple(marks),
        marks_text="Rings mark cables of suspects.",
    )  # fmt: skip


def _matrix(result: Pairwise) -> Markup:
    """Return a matrix of the speed of pairs; a frame is around those that suspects slow down."""
    pairs = result.pairs
    ends = pairs["from_machine"].to_list(), pairs["to_machine"].to_list()
    names = sorted({*ends[0], *ends[1]}, key=natural_key)
    number = {name: at for at, name in enumerate(names)}
    row, column = (np.array([number[name] for name in side]) for side in ends)
    side = max(min(_PIXELS / len(names), 20.0), 2.0)
    least = min(float(pairs["speed"].min()), 0.8)  # type: ignore[arg-type]
    hot = (1 - pairs["speed"].to_numpy()) / (1 - least) * len(_COLOURS)
    step = np.clip(hot.astype(int), 0, len(_COLOURS) - 1)
    slow = pairs["explained"].to_numpy() < 1
    bottom = _TOP + side * len(names) + 12
    drawn: list[str] = []

    def boxes(which: NDArray[np.bool_], attributes: str) -> None:
        corners = zip(column[which], row[which], strict=True)
        steps = (f"M{_LEFT + side * x:.1f} {_TOP + side * y:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z"
                 for x, y in corners)  # fmt: skip
        drawn.append(f'<path d="{"".join(steps)}" {attributes}/>')

    def text(left: float, top: float, anchor: str, words: str, turned: str = "") -> None:
        said = '<text x="{:.1f}" y="{:.1f}" text-anchor="{}" transform="{}">{}</text>'
        drawn.append(Markup(said).format(left, top, anchor, turned, words))

    for at, colour in enumerate(_COLOURS):
        boxes(step == at, f'fill="{colour}"')
        left = _LEFT + 60 * at
        drawn.append(f'<rect x="{left}" y="{bottom}" width="60" height="10" fill="{colour}"/>')
        text(left, bottom + 24, "middle", f"{1 - (1 - least) * at / len(_COLOURS):.2f}")
    if side >= _FRAMED:
        boxes(slow, 'fill="none" stroke="#0072b2" stroke-width="1.5"')
    for at in range(0, len(names), ceil(12 / side)):
        middle = side * (at + 0.5) + 3
        text(_LEFT - 4, _TOP + middle, "end", names[at])
        turned = f"rotate(-90 {_LEFT + middle:.1f} {_TOP - 4})"
        text(_LEFT + middle, _TOP - 4, "start", names[at], turned)
    legend = "speed by that of most pairs; frames: slow according to the suspects"
    text(_LEFT, bottom + 40, "start", f"Row: from; column: to; colour: {legend}.")
    wide, high = max(_LEFT + side * len(names), _LEFT + 500) + 10, bottom + 46
    return Markup(
        '<svg width="{w:.0f}" height="{h:.0f}" viewBox="0 0 {w:.0f} {h:.0f}" role="img" '
        'aria-label="Speed of pairs" font-size="10" fill="currentColor">{drawn}</svg>'
    ).format(w=wide, h=high, drawn=Markup("").join(map(Markup, drawn)))
