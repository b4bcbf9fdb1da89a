"""The page of routing keys in a real headless Chromium, opened from disk without network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

import weft
from tests.browser.conftest import opened_page
from weft.report.colours import LIGHT_SERIES
from weft.report.key_page import write_key_page
from weft.report.key_picture import MOST_FLOWS

pytestmark = pytest.mark.browser

#: Colours on the canvas beside a point of a cable. They are read at once, as Chromium warns of
#: repeated reads.
PIXELS = """(cable) => {
    const { drawing } = weftReport, [x, y] = drawing.onCable(cable, 0.4);
    const at = [(x - 4) * drawing.ratio, y * drawing.ratio].map(Math.round);
    const { data } = drawing.context.getImageData(...at, 9, 1);
    const hex = (part) => part.toString(16).padStart(2, "0");
    const colour = (i) => "#" + [...data.slice(4 * i, 4 * i + 3)].map(hex).join("");
    return [...Array(9).keys()].map(colour);
}"""


def test_a_key_its_flows_and_their_paths_can_be_chosen(browser: Browser, tmp_path: Path) -> None:
    fabric = weft.fabric("xgft:2;8,9;1,8")
    order = np.random.default_rng(0).permutation(fabric.num_hosts)
    few = weft.keys(fabric, [0, 1, 8, 9, 0, 7], [8, 16, 24, 10, 8, 7], name="A")
    many = weft.keys(fabric, range(fabric.num_hosts), order, name="<b>x, +y</b>")
    assert len(few.sources) <= MOST_FLOWS < len(many.sources)
    path = tmp_path / "keys.html"
    write_key_page(fabric, [few, many], path)
    with opened_page(browser, path) as tab:
        rows = tab.locator("#flows tr")
        assert rows.locator("button").all_inner_texts() == few.lines()[:4]
        expect(tab.locator("#flows-text")).to_contain_text("4 flows. Not listed: 2 flows within")
        assert tab.locator("#key-text").inner_text() == f"A: {few.guarantee}."
        assert tab.locator("#colour-key").is_visible()
        # The link to the spine switch of the first flow has its colour, and hover names the flow.
        up = int(few.network.fabric.graph.edge_link[few.paths[1][0]]) >> 1
        assert LIGHT_SERIES[few.colour[0]] in tab.evaluate(PIXELS, up)
        point = tab.evaluate("(cable) => weftReport.cablePoint(cable, 0.4)", up)
        tab.mouse.move(point["x"], point["y"])
        expect(tab.locator("#hover")).to_contain_text(few.lines()[0])
        tab.mouse.click(point["x"], point["y"])
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("h0 → h8")
        tab.click("#all-flows")
        expect(rows).to_have_count(4)

        # By keyboard: the second flow alone, then all flows; then the other key.
        tab.focus("#canvas")
        for _ in range(2):
            tab.keyboard.press("n")
        expect(tab.locator("#flows tr.chosen")).to_contain_text(few.lines()[1])
        faint = "() => weftReport.drawing.paths.map((path) => path.faint)"
        assert tab.evaluate(faint) == [True, False, True, True]
        tab.keyboard.press("Escape")
        expect(tab.locator("#flows tr.chosen")).to_have_count(0)
        assert tab.evaluate(faint) == [False] * 4
        tab.focus("#key")
        tab.keyboard.press("ArrowDown")
        moving = np.flatnonzero(many.sources != many.destinations)
        expect(tab.locator("#flows-text")).to_contain_text(f"{len(moving)} flows")
        expect(tab.locator("#legend-title")).to_be_visible()
        assert tab.locator("tr.chosen th").inner_text() == many.name
        expected = [many.lines()[flow] for flow in moving]
        assert rows.locator("button").all_inner_texts() == expected

        # The flows of one host are few enough to be drawn.
        tab.fill("#search", "h5")
        tab.press("#search", "Enter")
        mine = moving[(many.sources[moving] == 5) | (many.destinations[moving] == 5)]
        assert rows.locator("button").all_inner_texts() == [many.lines()[flow] for flow in mine]
        assert tab.evaluate("() => weftReport.drawing.paths.length") == len(mine)
        assert not tab.locator("#legend-title").is_visible()

    with opened_page(
        browser, path, viewport={"width": 400, "height": 800}, color_scheme="dark"
    ) as tab:
        assert tab.evaluate("() => document.documentElement.scrollWidth") == 400
        corner = tab.evaluate(
            "() => [...weftReport.drawing.context.getImageData(2, 2, 1, 1).data].slice(0, 3)"
        )
        assert max(corner) < 60
