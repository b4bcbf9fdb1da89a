"""The page of `weft expect`: pictures of measured and expected values, and the loads of links."""

from __future__ import annotations

from math import ceil, floor, log2, log10
from typing import Any

from markupsafe import Markup

from weft.advice.comparison import fabric_facts
from weft.advice.expect.expect import Expectation, Figure, Series
from weft.core.arguments import bytes_text
from weft.report.colours import LIGHT_SERIES
from weft.report.comparison_data import EngineVerdict, Page, PageSection, PatternRun, Words

#: Size of a picture and of its upper panel, and its margins, in pixels.
_WIDTH, _HEIGHT, _UPPER, _LEFT, _RIGHT, _BOTTOM = 720, 400, 220, 70, 12, 50
#: Ratios at the lower and upper edge of the lower panel, and those with a line.
_RATIOS, _LINES = (0.4, 2.5), (0.5, 1.0, 2.0)
_MEASURED, _EXPECTED = LIGHT_SERIES[1], LIGHT_SERIES[0]
_WORDS = Words(
    engine="Run", pattern="Size", amount="Traffic", unit="Gb/s", counted=False,
    load="share of the rate", load_text="A load of 1 is the rate of the link over the whole run.",
)  # fmt: skip


def expectation_page(result: Expectation) -> Page:
    """Return the data of the page."""
    rate = result.fabric.link_rate_gbps
    sections = [PageSection("Verdicts", tuple(
        {"series": each.name, "status": each.status, "verdict": each.verdict,
         "suspect": each.suspect} for each in result.series
    ))]  # fmt: skip
    for each in result.series:
        lead = f"{each.verdict} {each.suspect}".rstrip()
        drawn = {"measured (points) and expected (line)": _picture(each, result.tolerance)}
        sections.append(PageSection(each.name, (drawn,), lead))
        sections.append(
            PageSection(f"{each.name}: sizes", tuple(map(_cells, each.figures)))
        )  # fmt: skip
    largest = [bytes_text(each.figures[-1].size_bytes) for each in result.series]
    runs = tuple(
        PatternRun(each.name, size, load * rate, load, no_users="The run has one job.")
        for each, size, load in zip(result.series, largest, result.loads, strict=True)
    )
    verdicts = tuple(
        EngineVerdict(each.name, each.verdict, ok=each.status == "as expected")
        for each in result.series
    )
    return Page(
        result.fabric, f"Measured and expected on {result.fabric.name}",
        fabric_facts(result.fabric), {}, verdicts, dict.fromkeys(largest, ""), runs,
        notes=result.notes, answer=" ".join(f"{e.name}: {e.verdict}" for e in result.series[:1]),
        best=result.series[0].name, sections=tuple(sections), words=_WORDS,
    )  # fmt: skip


def _cells(at: Figure) -> dict[str, Any]:
    interval = None if at.low is None else f"{at.low:.2f} to {at.high:.2f} ({at.interval})"
    return {
        "size B": f"{at.size_bytes:,}", "measured": f"{at.measured:,.4g}",
        "expected": f"{at.expected:,.4g}", "ratio": f"{at.ratio:.2f}", "interval": interval,
        "bound by": at.bound.text(), "share": f"{at.bound.share:.0%}",
    }  # fmt: skip


def _picture(series: Series, tolerance: float) -> Markup:
    """Return a picture: values by size above, ratios below, with the tolerance as a band."""
    figures = series.figures
    scale, unit = (1e-3, "µs") if series.is_time else (1.0, "Gb/s")
    values = [value * scale for at in figures for value in (at.measured, at.expected)]
    low, high = floor(log10(min(values))), ceil(log10(max(values) * 1.001))
    first, last = (log2(max(figures[at].size_bytes, 0.5)) for at in (0, -1))
    span = max(last - first, 1.0)

    def x(size: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (log2(max(size, 0.5)) - first) / span

    def y(value: float) -> float:
        return 10 + (_UPPER - 20) * (high - log10(value * scale)) / (high - low)

    def below(ratio: float) -> float:
        bottom, top = map(log2, _RATIOS)
        share = (min(max(log2(ratio), bottom), top) - bottom) / (top - bottom)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _UPPER - 10) * share

    right = _WIDTH - _RIGHT
    parts = [
        f'<rect x="{_LEFT}" y="{below(1 + tolerance):.1f}" width="{right - _LEFT}" fill="'
        f'currentColor" opacity="0.12" height="{below(1 / (1 + tolerance)) - below(1 + tolerance):.1f}"/>'
    ]
    lines = [(y(10.0**power / scale), f"{10.0**power:,g} {unit}") for power in range(low, high + 1)]
    for height, text in [*lines, *((below(each), f"× {each:g}") for each in _LINES)]:
        parts.append(
            f'<path d="M{_LEFT} {height:.1f}H{right}" stroke="currentColor" opacity="0.2"/>'
            f'<text x="{_LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{text}</text>'
        )
    every = ceil(len(figures) / 12)
    for at in figures[::every]:
        parts.append(
            f'<text x="{x(at.size_bytes):.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
            f'text-anchor="middle">{bytes_text(at.size_bytes)}</text>'
        )
    line = " ".join(f"{x(at.size_bytes):.1f},{y(at.expected):.1f}" for at in figures)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{_EXPECTED}" stroke-width="2"/>')
    for at in figures:
        where, found = x(at.size_bytes), below(at.ratio)
        if at.low is not None and at.high is not None:
            parts.append(
                f'<path d="M{where:.1f} {below(at.low):.1f}V{below(at.high):.1f}" '
                f'stroke="{_MEASURED}" stroke-width="1.5"/>'
            )
        tip = Markup("<title>{}: ratio {:.2f}; {}</title>").format(
            bytes_text(at.size_bytes), at.ratio, at.bound.text()
        )
        parts += [
            f'<circle cx="{where:.1f}" cy="{height:.1f}" r="3.5" fill="{_MEASURED}">{tip}</circle>'
            for height in (y(at.measured), found)
        ]
    parts.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}">size; above: measured and expected; below: measured '
        f"by expected time, with {tolerance:.0%} as a band</text>"
    )
    label = Markup("{} by size").format(series.name)
    return Markup(
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{label}" font-size="11" fill="currentColor">{"".join(parts)}</svg>'
    )
