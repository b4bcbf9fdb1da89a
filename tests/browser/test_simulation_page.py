"""The page of a simulation in a real headless Chromium, opened from disk without network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import opened_page, settle
from weft.fabrics.topology import build
from weft.report.simulation_page import write_simulation_page
from weft.routing import route
from weft.sim.packet.hot_spots import trees_at
from weft.sim.packet.result import PacketResult
from weft.sim.packet.series import link_series
from weft.sim.simulate import simulate
from weft.workload import WorkloadBuilder

pytestmark = pytest.mark.browser

TREE = build("xgft:2;4,4;1,2")


@pytest.fixture(scope="module")
def result() -> PacketResult:
    """Simulate an incast to host 0, with one more message from rank 3 to rank 9."""
    builder = WorkloadBuilder(16, name="incast <b>of 15</b>")
    for rank in range(1, 16):
        builder.calc(rank, 800.0)
        builder.put(rank, 0, 40_000)
    builder.put(3, 9, 20_000)
    builder.recv(0, 15, 64)
    builder.isend(15, 0, 64)
    return simulate(TREE, route(TREE, "minhop"), builder.build(), snapshot_ns=400, level="packet")


@pytest.fixture
def tab(browser: Browser, result: PacketResult, tmp_path: Path) -> Any:
    path = tmp_path / "run.html"
    write_simulation_page(result, path)
    with opened_page(browser, path) as page:
        yield page


def frame(tab: Page) -> int:
    return int(tab.evaluate("() => weftReport.frame"))


def later(result: PacketResult) -> np.ndarray:
    assert result.snapshots is not None
    return np.flatnonzero(result.snapshots.time_ps > 0)


def test_opens_at_the_largest_congestion_tree_and_lists_it(tab: Page, result: PacketResult) -> None:
    at = frame(tab)
    trees = trees_at(result, int(later(result)[at]))
    sizes = [sum(map(len, trees_at(result, int(number)))) for number in later(result)]
    assert sizes[at] == max(sizes)
    entries = tab.locator("#trees > li")
    assert entries.count() == len(trees)
    message = entries.first.inner_text()
    assert result.link_name(trees[0].root) in message
    assert f"{len(trees[0])} buffers, {int(trees[0].full.sum())} full" in message
    entries.first.locator("summary").click()
    rows = entries.first.locator(".branches li")
    # The browser opens an element before it reports the change.
    expect(rows).to_have_count(len(trees[0]))
    names = {result.link_name(int(link)) for link in trees[0].link}
    assert {row.locator("button").inner_text() for row in rows.all()} == names


def test_slider_keys_and_buttons_move_in_time(tab: Page, result: PacketResult) -> None:
    count = len(later(result))
    slider = tab.locator("#slider")
    slider.fill("0")
    assert frame(tab) == 0
    assert tab.locator("#now").inner_text().replace("\u00a0", " ") == "400 ns"
    assert tab.locator("#moment").inner_text() == f"moment 1 of {count}"
    tab.keyboard.press("ArrowRight")
    assert frame(tab) == 1
    tab.locator("body").click(position={"x": 4, "y": 4})
    tab.keyboard.press(".")
    tab.keyboard.press("ArrowRight")
    assert frame(tab) == 3
    tab.keyboard.press(",")
    assert frame(tab) == 2
    tab.keyboard.press("End")
    assert frame(tab) == count - 1
    tab.keyboard.press("Home")
    assert frame(tab) == 0


def test_play_and_pause(tab: Page, result: PacketResult) -> None:
    count = len(later(result))
    tab.select_option(
        "#speed", "60"
    )  # slow, so that the animation does not end before it is paused
    tab.locator("#slider").fill("0")
    tab.click("#play")
    expect(tab.locator("#play")).to_have_attribute("aria-label", "Pause")
    tab.wait_for_function("() => weftReport.frame > 0")
    tab.locator("body").click(position={"x": 4, "y": 4})
    tab.keyboard.press(" ")
    expect(tab.locator("#play")).to_have_attribute("aria-label", "Play")
    stopped = frame(tab)
    settle(tab)
    assert frame(tab) == stopped
    tab.select_option("#speed", "3")
    tab.locator("body").click(position={"x": 4, "y": 4})
    tab.keyboard.press(" ")
    tab.wait_for_function(f"() => weftReport.frame === {count - 1}")
    expect(tab.locator("#play")).to_have_attribute("aria-label", "Play")


def test_colours_and_tips_are_the_values_of_the_moment(tab: Page, result: PacketResult) -> None:
    series = link_series(result)
    hot = int(result.busy_ps.argmax())
    for at in (5, 9, frame(tab)):
        tab.evaluate("(at) => weftReport.show(at)", at)
        row = series.filter(
            series["link"] == hot, series["end_ns"] == series["end_ns"].unique().sort()[at]
        )
        shown = tab.evaluate("([l]) => weftReport.moments.value('use', weftReport.frame, l)", [hot])
        assert shown == pytest.approx(row["utilisation"][0], abs=0.003)
        bins = tab.evaluate("(c) => weftReport.drawing.bin[c]", hot >> 1)
        assert bins > 0
    settle(tab)
    point = tab.evaluate("(c) => weftReport.cablePoint(c, 0.4)", hot >> 1)
    tab.mouse.move(point["x"], point["y"])
    tip = tab.locator("#hover")
    expect(tip).to_contain_text(result.link_name(hot))
    expect(tip).to_contain_text("100 % busy".replace(" ", "\u00a0", 1))
    expect(tip).to_contain_text("root of congestion tree")


@pytest.mark.parametrize(
    ("quantity", "legend"),
    [
        ("use", "Utilisation"),
        ("held", "Buffer occupancy"),
        ("waiting", "Packets that wait"),
    ],
)
def test_quantity_can_be_chosen(tab: Page, quantity: str, legend: str) -> None:
    tab.select_option("#quantity", quantity)
    assert tab.locator("#legend-title").inner_text().startswith(legend)
    assert tab.evaluate("() => Math.max(...weftReport.drawing.bin)") > 0


def test_a_tree_can_be_shown_alone_and_a_link_selected(tab: Page, result: PacketResult) -> None:
    first = tab.locator("#trees > li").first
    first.locator("button").first.click()
    expect(tab.locator("#trees > li").first).to_contain_class("chosen")
    assert tab.evaluate("() => weftReport.drawing.chosenTree") is not None
    tab.locator("#trees > li").first.locator("button").first.click()
    assert tab.evaluate("() => weftReport.drawing.chosenTree") is None
    before = tab.evaluate("() => weftReport.chart.strips.length")
    idle = tab.evaluate(
        "() => [...Array(weftReport.fabric.numCables * 2).keys()]"
        ".find((link) => !weftReport.page.strips.includes(link))"
    )
    tab.evaluate("(link) => weftReport.selectLink(link, true)", idle)
    assert TREE.link_name(idle) in tab.locator("#details").inner_text()
    assert tab.evaluate("() => weftReport.chart.strips.length") == before + 1
    tab.press("#canvas", "Escape")
    assert tab.evaluate("() => weftReport.chart.strips.length") == before


def test_chart_over_time_moves_the_cursor_and_shows_messages(tab: Page) -> None:
    chart = tab.locator("#time-canvas")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    row = tab.evaluate("() => weftReport.chart.ranksTop + 3.5 * weftReport.chart.rowHeight")
    x = tab.evaluate("() => weftReport.chart.toX(weftReport.moments.endNs[7] - 1)")
    chart.click(position={"x": x, "y": row})
    assert frame(tab) == 7
    assert tab.evaluate("() => weftReport.chart.chosenRow") == 3
    box = chart.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + x + 1, box["y"] + row)
    tip = tab.locator("#time-hover")
    expect(tip).to_contain_text("rank 3 on h3")
    expect(tip).to_contain_text("messages on the way from it")
    span = tab.evaluate("() => weftReport.chart.to - weftReport.chart.from")
    tab.click("#time-in")
    assert tab.evaluate("() => weftReport.chart.to - weftReport.chart.from") == span / 2
    settle(tab)


def test_search_selects_nodes_and_links(tab: Page, result: PacketResult) -> None:
    tab.fill("#search", "s1-2")
    tab.press("#search", "Enter")
    assert tab.evaluate("() => weftReport.selection") == {
        "kind": "node",
        "node": TREE.find_node("s1-2"),
    }
    assert "s1-2" in tab.locator("#details h4").inner_text()
    rows = tab.locator("#details tbody tr")
    assert rows.count() == 6
    rows.first.locator("button").click()
    assert tab.evaluate("() => weftReport.selection.kind") == "cable"
    tab.locator("#busiest [data-link]").first.click()
    assert tab.evaluate("() => weftReport.selection.link") == int(result.busy_ps.argmax())


def test_matrix_tells_and_selects_links_and_switches(tab: Page, result: PacketResult) -> None:
    matrix = result.congestion_matrix()
    tab.locator("#matrix-canvas").scroll_into_view_if_needed()
    settle(tab)
    cell = int(matrix["wait_ns"].arg_max())
    row = matrix.row(cell, named=True)
    point = tab.evaluate("(cell) => weftReport.matrix.cellPoint(cell)", cell)
    tab.mouse.move(point["x"], point["y"])
    tip = tab.locator("#matrix-hover")
    expect(tip).to_contain_text(row["name"])
    wait_us = f"{row['wait_ns'] / 1e3:.4g}".rstrip("0").rstrip(".")
    expect(tip).to_contain_text(f"{wait_us}\u00a0µs of waits in {row['node_name']}")
    expect(tip).to_contain_text("100\u00a0% of the most loaded link")
    tab.mouse.click(point["x"], point["y"])
    assert tab.evaluate("() => weftReport.selection.link") == row["link"]
    assert row["name"] in tab.locator("#details").inner_text()
    settle(tab)
    # The chart above has grown by the strip of the link, but the matrix has not moved.
    now = tab.evaluate("(cell) => weftReport.matrix.cellPoint(cell)", cell)
    assert now == pytest.approx(point, abs=1)
    block = tab.evaluate("(cell) => weftReport.matrix.matrix.block[cell]", cell)
    centre = tab.evaluate(
        """(b) => {
            const view = weftReport.matrix, { matrix } = view;
            const box = view.canvas.getBoundingClientRect();
            return {
                x: box.left + view.screenX(matrix.x[b] + matrix.width[b] / 2),
                y: box.top + view.screenY(matrix.centreY[b] - matrix.centre / 2),
            };
        }""",
        block,
    )
    tab.mouse.move(centre["x"], centre["y"])
    expect(tip).to_contain_text("of the most loaded switch")
    tab.mouse.click(centre["x"], centre["y"])
    assert tab.evaluate("() => weftReport.selection") == {"kind": "node", "node": row["node"]}


def test_keys_step_through_the_links_of_the_matrix_by_wait(tab: Page, result: PacketResult) -> None:
    matrix = result.congestion_matrix().sort("wait_ns", descending=True)
    assert matrix["wait_ns"][:3].n_unique() == 3
    for link in matrix["link"][:3]:
        tab.press("#matrix-canvas", "n")
        assert tab.evaluate("() => weftReport.selection.link") == link
    tab.press("#matrix-canvas", "p")
    assert tab.evaluate("() => weftReport.selection.link") == matrix["link"][1]
    tab.press("#matrix-canvas", "Escape")
    assert tab.evaluate("() => weftReport.selection") is None


@pytest.mark.parametrize("most", [True, False])
def test_cells_have_the_colours_of_their_shares(
    tab: Page, result: PacketResult, most: bool
) -> None:
    waits = result.congestion_matrix()["wait_ns"]
    cell = int(waits.arg_max() if most else waits.arg_min())  # type: ignore[arg-type]
    assert (waits[cell] > 0) == most
    pixel, hottest, idle = tab.evaluate(
        """(cell) => {
            const view = weftReport.matrix, { matrix } = view, { scale, idle } = view.colours.light;
            view.paint();
            const x = view.screenX(matrix.cellX[cell]), y = view.screenY(matrix.cellY[cell]);
            const at = [(x + 3) * view.ratio, (y + 3) * view.ratio, 1, 1];
            const parts = [...view.context.getImageData(...at).data].slice(0, 3);
            const hex = parts.map((part) => part.toString(16).padStart(2, "0"));
            return ["#" + hex.join(""), scale.at(-1), idle];
        }""",
        cell,
    )
    assert pixel == (hottest if most else idle)


def test_names_stay_text(tab: Page) -> None:
    assert tab.locator("h1").inner_text() == "incast <b>of 15</b> on xgft:2;4,4;1,2"
    assert tab.locator("h1 b").count() == 0


def test_dark_page_is_painted_dark(browser: Browser, result: PacketResult, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    write_simulation_page(result, path)
    context = browser.new_context(offline=True, color_scheme="dark")
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-state=done]", state="attached")
    settle(page)
    for canvas in ("canvas", "time-canvas", "matrix-canvas"):
        corner = page.evaluate(
            "(id) => [...document.getElementById(id).getContext('2d')"
            ".getImageData(2, 2, 1, 1).data]",
            canvas,
        )
        assert max(corner[:3]) < 60
    context.close()
