"""Drawings of routing keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

import weft
from weft.report.colours import LIGHT_IDLE, LIGHT_SERIES
from weft.report.key_picture import MOST_FLOWS, plot_key
from weft.report.layout import layout
from weft.report.picture import cable_curves

TREE = weft.fabric("xgft:2;4,4;1,4")


def drawn(key: weft.RoutingKey) -> set[tuple[int, str]]:
    """Return the cables with paths in the drawing, each with the colour of the path."""
    middles = cable_curves(key.fabric, layout(key.fabric)).mean(axis=1)
    found = set()
    for lines in plot_key(key).axes[0].collections:
        if isinstance(lines, LineCollection):
            for curve, colour in zip(lines.get_segments(), lines.get_colors(), strict=False):
                cable = int(np.abs(middles - np.mean(curve, axis=0)).sum(axis=1).argmin())
                found.add((cable, to_hex(colour)))
    return {(cable, colour) for cable, colour in found if colour != LIGHT_IDLE}


def test_each_path_has_the_colour_of_its_flow() -> None:
    # The third flow repeats the first, the fourth stays within a switch, the last within a host.
    key = weft.keys(TREE, [0, 1, 0, 2, 3], [4, 8, 4, 3, 3])
    expected = set()
    for flow, colour in ((0, LIGHT_SERIES[0]), (1, LIGHT_SERIES[1]), (3, LIGHT_SERIES[-1])):
        ends = key.sources[flow : flow + 1], key.destinations[flow : flow + 1]
        loads = weft.link_loads(TREE, key.routes, *ends)
        expected |= {(cable, colour) for cable in (np.flatnonzero(loads) >> 1).tolist()}
    assert len(expected) == 4 + 4 + 2
    assert drawn(key) == expected
    figure = weft.plot(key)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "colour 0: s2-0", "colour 1: s2-1", "within a leaf switch", "source", "destination",
    ]  # fmt: skip
    written = {text.get_text() for text in figure.axes[0].texts}
    assert {"1→", "2→", "4→", "→1", "→2", "→4"} <= written
    assert not {"3→", "5→"} & written


def test_flows_on_one_cable_are_drawn_side_by_side() -> None:
    key = weft.keys(weft.fabric("xgft:2;4,2;1,1"), [0, 1, 2], [4, 5, 6])
    figure = plot_key(key)
    paths = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)][2:]
    starts = {
        round(float(lines.get_transform().transform(curve)[0, 0]), 3)
        for lines in paths
        for curve in lines.get_segments()
    }
    # Six cables of hosts, and three lines on each of two cables between switches.
    assert sum(len(lines.get_segments()) for lines in paths) == 12
    assert len(starts) == 6


def test_many_flows_are_drawn_as_loads_on_a_scale_of_at_least_two_flows() -> None:
    fabric = weft.fabric("xgft:2;10,10;1,10")
    order = np.random.default_rng(0).permutation(100)
    few, many = (
        plot_key(weft.keys(fabric, order[:count], order[-count:], first="random"))
        for count in (MOST_FLOWS // 2, MOST_FLOWS + 20)
    )
    assert len(few.axes) == 1
    plane, bar = many.axes
    assert bar.get_ylabel() == "flows on a link"
    assert [
        mappable.get_clim() for mappable in plane.collections if mappable.get_array() is not None
    ] == [(0.0, 2.0)]
    assert not many.legends


@pytest.mark.parametrize("spec", ["xgft:1;4;1", "xgft:3;2,2,2;1,2,2"])
def test_drawings_of_keys_without_flows_or_colours_are_reproducible(
    tmp_path: Path, spec: str
) -> None:
    fabric = weft.fabric(spec)
    for number, ends in enumerate(([], [0, 1])):
        key = weft.keys(fabric, ends, ends[::-1])
        pages = []
        for name in "ab":
            plot_key(key, title="A $ and a $_", size_inches=(4, 3)).write(tmp_path / name, dpi=60)
            pages.append((tmp_path / name).read_bytes())
        assert pages[0] == pages[1]
        assert pages[0].startswith(b"\x89PNG"), number
