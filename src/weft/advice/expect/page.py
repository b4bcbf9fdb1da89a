"""The page of `weft expect`: pictures of measured and expected values, and the loads of links."""

from __future__ import annotations

from math import ceil, floor, log2, log10

from markupsafe import Markup

from weft.advice.comparison import fabric_facts
from weft.advice.expect.expect import Expectation, SizeSeries
from weft.core.arguments import bytes_text
from weft.report.colours import LIGHT_SERIES
from weft.report.comparison_data import EngineVerdict, Page, PageSection, PatternRun, Words

#: Edges of a picture and of its panels, in pixels.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _UPPER, _LOWER = 1000, 345, 70, 970, 10, 195, 305
#: Distance of the first and last point from the edges.
_INSET = 10
#: Ratios at the lower and upper edge of the lower panel, and those with a line.
_RATIOS, _LINES = (0.4, 2.5), (0.5, 1.0, 2.0)
#: Most sizes that are written below a picture.
_SIZES = 14
_WORDS = Words(
    engine="Run", pattern="Size", amount="Traffic", unit="Gb/s", counted=False,
    load="share of the rate", load_text="A load of 1 is the rate of the link over the whole run.",
)  # fmt: skip


def expectation_page(result: Expectation) -> Page:
    """Return the data of the page."""
    rate, series = result.fabric.link_rate_gbps, result.series
    verdicts = (
        {"series": each.name, "status": each.status, "verdict": each.text()} for each in series
    )
    sections = [PageSection("Verdicts", tuple(verdicts))] if len(series) > 1 else []
    for each in series:
        rows = tuple(
            {
                "size B": f"{at.size_bytes:,}", "measured": each.shown(at.measured, at.size_bytes),
                "expected": each.shown(at.expected, at.size_bytes), "ratio": f"{at.ratio:.2f}",
                "interval": at.low and f"{at.low:.2f} to {at.high:.2f} ({at.interval})",
                "choice": at.choice, "bound by": at.bound.text(), "share": f"{at.bound.share:.0%}",
            }
            for at in each.figures
        )  # fmt: skip
        drawn = {"measured (points) and expected (line)": _picture(each, result.tolerance)}
        sections.append(PageSection(each.name, (drawn,), each.text()))
        sections.append(PageSection(f"{each.name}: sizes", rows))
    largest = [bytes_text(each.figures[-1].size_bytes) for each in series]
    return Page(
        result.fabric, f"Measured and expected on {result.fabric.name}",
        fabric_facts(result.fabric), {},
        tuple(
            EngineVerdict(each.name, each.verdict, ok=each.status == "as expected")
            for each in series
        ),
        dict.fromkeys(largest, ""),
        tuple(
            PatternRun(each.name, size, load * rate, load, no_users="All traffic is of this run.")
            for each, size, load in zip(series, largest, result.loads, strict=True)
        ),
        notes=result.notes, answer=result.answer(),
        best=series[0].name, sections=tuple(sections), words=_WORDS,
    )  # fmt: skip


def _picture(series: SizeSeries, tolerance: float) -> Markup:
    """Return a picture: values by size above, ratios below, with the tolerance as a band."""
    figures = series.figures
    values = [value for at in figures for value in (at.measured, at.expected)]
    low, high = floor(log10(min(values))), ceil(log10(max(values) * 1.001))
    at_x = [log2(max(at.size_bytes, 0.5)) for at in figures]
    step = (_RIGHT - _LEFT - 2 * _INSET) / max(at_x[-1] - at_x[0], 1.0)
    xs = [_LEFT + _INSET + step * (at - at_x[0]) for at in at_x]

    def y(value: float) -> float:
        return _TOP + (_UPPER - _TOP) * (high - log10(value)) / (high - low)

    def below(ratio: float) -> float:
        bottom, top = map(log2, _RATIOS)
        part = (top - min(max(log2(ratio), bottom), top)) / (top - bottom)
        return _UPPER + 12 + (_LOWER - _UPPER - 12) * part

    def text(x: float, y: float, anchor: str, words: str) -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'

    band = below(1 + tolerance), below(1 / (1 + tolerance))
    parts = [
        f'<rect x="{_LEFT}" y="{band[0]:.1f}" width="{_RIGHT - _LEFT}" '
        f'height="{band[1] - band[0]:.1f}" fill="currentColor" opacity="0.12"/>'
    ]
    lines = [(y(10.0**power), series.shown(10.0**power)) for power in range(low, high + 1)]
    for height, words in [*lines, *((below(each), f"× {each:g}") for each in _LINES)]:
        path = f"M{_LEFT} {height:.1f}H{_RIGHT}"
        parts.append(f'<path d="{path}" stroke="currentColor" opacity="0.2"/>')
        parts.append(text(_LEFT - 6, height + 4, "end", words))
    line = " ".join(f"{x:.1f},{y(at.expected):.1f}" for x, at in zip(xs, figures, strict=True))
    expected, measured = LIGHT_SERIES[:2]
    parts.append(f'<polyline points="{line}" fill="none" stroke="{expected}" stroke-width="2"/>')
    for number, (x, at) in enumerate(zip(xs, figures, strict=True)):
        size = bytes_text(at.size_bytes)
        tip = Markup("<title>{}: ratio {:.2f}; {}</title>").format(size, at.ratio, at.bound.text())
        ends = f"M{x:.1f} {below(at.low or at.ratio):.1f}V{below(at.high or at.ratio):.1f}"
        parts.append(f'<path d="{ends}" stroke="{measured}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{height:.1f}" r="3.5" fill="{measured}">{tip}</circle>'
            for height in (y(at.measured), below(at.ratio))
        ]
        if number % ceil(len(figures) / _SIZES) == 0:
            parts.append(text(x, _LOWER + 18, "middle", size))
    below_text = f"Above: values; below: measured by expected time, and the band of {tolerance:.0%}"
    parts.append(text(_LEFT, _HEIGHT - 4, "start", below_text))
    return Markup(
        '<svg width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{name} by size"'
        ' font-size="11" fill="currentColor">{parts}</svg>'
    ).format(w=_WIDTH, h=_HEIGHT, name=series.name, parts=Markup("").join(map(Markup, parts)))
