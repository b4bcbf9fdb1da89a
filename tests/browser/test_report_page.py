"""The report in a real headless Chromium, opened from disk without network."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Report
from tests.machine_fabrics import rail_fabric
from tests.report_pages import comparison_page
from weft.advice.compare import compare
from weft.fabrics import Fabric
from weft.fabrics.topology import build
from weft.report.comparison_data import Page
from weft.report.summary import busiest_links, scope_of

pytestmark = pytest.mark.browser

#: Names that would each run a script if the page did not escape them.
HOSTILE = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=2>",
    '"><svg onload=window.hacked=3>',
    "'-(window.hacked=4)-'",
    "${window.hacked=5}",
    "節点 <b>bold</b> &amp; {{ 7*7 }}",
)


def skewed_tree() -> Fabric:
    """Build a tree with parallel cables in which slow cables make one link by far the busiest."""
    fabric = build("xgft:2;4,4;1,2;1,2")
    return fabric.degraded(["s1-2[5]"], "4xDDR")


@pytest.fixture(scope="module")
def tree_page() -> Page:
    return comparison_page(skewed_tree(), patterns=("all-to-all", "shift", "incast"))


@pytest.fixture
def report(open_report: Any, tree_page: Page) -> Report:
    return open_report(tree_page)


def row_texts(rows: Locator) -> list[list[str]]:
    return [row.locator("td, th").all_inner_texts() for row in rows.all()]


def test_opens_from_disk_and_shows_the_best_engine(report: Report) -> None:
    assert report.tab.input_value("#engine") == "minhop"
    assert report.tab.input_value("#pattern") == "all-to-all"
    run = report.page.runs[0]
    between = scope_of(report.page.fabric).links
    shown = report.text("#run-text")
    assert shown.startswith("minhop under all-to-all")
    assert f"has load {run.load[between].max():.4g}" in shown
    assert not report.tab.locator("#failure").is_visible()


def test_canvas_is_painted_in_the_colours_of_the_legend(report: Report) -> None:
    """Most pixels along the busiest cable, hardly any along a cold one, have the last colour."""
    fabric, run = report.page.fabric, report.page.runs[0]
    between = scope_of(fabric).links
    cables = np.unique(between >> 1)
    load = run.load.reshape(-1, 2).max(axis=1)
    report.cable_point(0)
    # Initially, colours are scaled by the loads of the run: its busiest cable has the last colour.
    report.tab.press(
        "#canvas", "Escape"
    )  # deselect, as a selected cable has a halo of another colour
    report.settle()
    order = cables[np.argsort(load[cables])]
    assert load[order[0]] < load[order[-1]] / 4
    # All pixels are read at once, as Chromium warns of repeated reads.
    result = report.ask(
        """(cables) => {
            const { canvas, drawing } = { ...weftReport, canvas: weftReport.drawing.canvas };
            const all = drawing.context.getImageData(0, 0, canvas.width, canvas.height).data;
            return cables.map((c) => [...Array(17).keys()].map((i) => {
                const at = drawing.onCable(c, (i + 2) / 20);
                const [x, y] = at.map((place) => Math.round(place * drawing.ratio));
                return [...all.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 3)];
            }));
        }""",
        [int(order[0]), int(order[-1])],
    )
    last = report.ask("() => weftReport.page.colours.light.scale.at(-1)")
    wanted = np.array([int(last[i : i + 2], 16) for i in (1, 3, 5)])
    cold, hot = (np.abs(np.array(pixels) - wanted).max(axis=1) < 40 for pixels in result)
    assert hot.mean() > 0.7
    assert cold.mean() < 0.3
    # The busiest cable is drawn last: no other covers it, and it is picked where others cross it.
    assert report.ask("(c) => weftReport.drawing.order.at(-1) === c", int(order[-1]))
    picked = report.ask(
        """(c) => [...Array(61).keys()].map((i) => {
            const { drawing } = weftReport;
            return drawing.pick(...drawing.onCable(c, 0.2 + 0.01 * i)).cable;
        })""",
        int(order[-1]),
    )
    assert set(picked) == {int(order[-1])}


def test_other_engine_and_pattern_change_the_numbers(report: Report) -> None:
    seen = {}
    for engine in ("minhop", "updn", "ecmp"):
        for pattern in ("all-to-all", "shift", "incast"):
            report.choose(engine, pattern)
            run = next(r for r in report.page.runs if (r.engine, r.pattern) == (engine, pattern))
            between = scope_of(report.page.fabric).links
            top = f"{run.load[between].max():.4g}"
            assert f"{engine} under {pattern}" in report.text("#run-text")
            assert f"has load {top}," in report.text("#run-text")
            first = row_texts(report.tab.locator("#busiest tr"))[0]
            link = busiest_links(run.load, between)[0]
            assert report.page.fabric.link_name(link) in first[0]
            assert first[1] == top
            rows = {row[0]: row[1:] for row in row_texts(report.tab.locator("#numbers tbody tr"))}
            assert rows[engine][0] == top
            assert set(rows) == {"minhop", "updn", "ecmp"}
            chosen = report.tab.locator("#chart-key button[aria-pressed=true]")
            assert chosen.inner_text().strip() == engine
            assert report.tab.locator("#chart path.curve").count() == 3
            seen[engine, pattern] = (
                top,
                report.tab.locator("#chart path.chosen").get_attribute("d"),
            )
    assert len(set(seen.values())) > 4


def test_engine_can_be_chosen_in_table_chart_and_numbers(report: Report) -> None:
    report.tab.click("table.engines [data-choose=updn]")
    expect(report.tab.locator("#run-text")).to_contain_text("updn under")
    report.tab.click("#chart-key button:has-text('ecmp')")
    expect(report.tab.locator("#run-text")).to_contain_text("ecmp under")
    report.tab.click("#numbers button:has-text('minhop')")
    expect(report.tab.locator("#run-text")).to_contain_text("minhop under")
    expect(report.tab.locator("table.engines tr.chosen").first).to_contain_text("minhop")


def test_busiest_link_in_the_list_gives_name_and_users(report: Report) -> None:
    report.choose("minhop", "incast")
    link = report.busiest_links("minhop", "incast")[0]
    fabric = report.page.fabric
    report.tab.locator("#busiest button").first.click()
    report.settle()
    details = report.text("#details")
    run = next(r for r in report.page.runs if (r.engine, r.pattern) == ("minhop", "incast"))
    assert fabric.link_name(link) in details
    assert fabric.link_name(link ^ 1) in details
    assert f"{run.load[link]:.4g}" in details
    users = row_texts(report.tab.locator("#details .way").first.locator("table.users tbody tr"))
    pairs = run.users[link].pairs
    named = [[fabric.node_names[node] for node in nodes] for nodes in pairs.nodes]
    assert users == [[*n, str(f)] for n, f in zip(named, pairs.flows, strict=True)]
    assert len(users) > 1
    assert report.tab.locator("#busiest tr.chosen").count() == 1
    # The cable is in view, near the middle.
    x, y = report.cable_point(link >> 1)
    box = report.tab.locator("#canvas").bounding_box()
    assert box is not None
    assert abs(x - box["x"] - box["width"] / 2) < box["width"] / 3
    assert abs(y - box["y"] - box["height"] / 2) < box["height"] / 3


def test_users_can_be_read_by_source_and_by_destination(report: Report) -> None:
    report.choose("minhop", "all-to-all")
    link = report.busiest_links("minhop", "all-to-all")[0]
    report.tab.locator("#busiest button").first.click()
    users = report.page.runs[0].users[link]
    names = [report.page.fabric.node_names[node] for node in users.sources.nodes[:, 0]]
    report.tab.locator("#details .tabs button[data-tab=sources]").first.click()
    rows = row_texts(report.tab.locator("#details .way").first.locator("table.users tbody tr"))
    assert rows == [[n, str(f)] for n, f in zip(names, users.sources.flows, strict=True)]


def test_hover_and_click_in_the_drawing_select_the_hot_cable(report: Report) -> None:
    fabric = report.page.fabric
    report.choose("minhop", "all-to-all")
    report.tab.press("#canvas", "Escape")
    link = report.busiest_links("minhop", "all-to-all")[0]
    cable = link >> 1
    x, y = report.cable_point(cable, 0.45)
    report.tab.mouse.move(x, y)
    hover = report.tab.locator("#hover")
    expect(hover).to_be_visible()
    expect(hover).to_contain_text(fabric.cable_name(cable))
    run = report.page.runs[0]
    expect(hover).to_contain_text(f"load {run.load[link]:.4g}")
    report.tab.mouse.click(x, y)
    expect(report.tab.locator("#details")).to_contain_text(fabric.link_name(link))
    assert report.ask("() => weftReport.selection") == {"kind": "cable", "cable": cable}
    # The parallel cable is drawn beside the selected one and picked separately.
    ends = {int(fabric.link_from[link]), int(fabric.link_to[link])}
    twins = [
        c
        for c in range(fabric.num_cables)
        if {int(fabric.link_from[2 * c]), int(fabric.link_to[2 * c])} == ends and c != cable
    ]
    assert len(twins) == 1
    report.tab.mouse.click(*report.cable_point(twins[0]))
    report.wait_selected(twins[0])


def test_every_cable_between_switches_can_be_picked(report: Report) -> None:
    """Although cables cross, each has a point at which it alone is picked."""
    fabric = report.page.fabric
    report.tab.press("#canvas", "Escape")
    report.cable_point(0)
    result = report.ask(
        """() => [...weftReport.fabric.aNode.keys()].filter((c) =>
            [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8].some((share) => {
                const picked = weftReport.drawing.pick(...weftReport.drawing.onCable(c, share));
                return picked && picked.kind === "cable" && picked.cable === c;
            }))"""
    )
    assert result == list(range(fabric.num_cables))


def test_switch_in_the_drawing_lists_its_cables(report: Report) -> None:
    fabric = report.page.fabric
    node = fabric.find_node("s2-1")
    report.cable_point(0)
    x, y = report.ask(
        """(n) => {
            const d = weftReport.drawing, box = d.canvas.getBoundingClientRect();
            return [box.left + d.screenX(d.fabric.x[n]), box.top + d.screenY(d.fabric.y[n])];
        }""",
        node,
    )
    report.tab.mouse.click(x, y)
    expect(report.tab.locator("#details h4")).to_have_text("s2-1")
    details = report.text("#details")
    assert details.startswith("s2-1")
    assert f"{int(fabric.node_guid[node]):#018x}" in details
    assert "8 of 8 ports cabled" in details
    assert report.tab.locator("#details tbody tr").count() == 8


def test_search_finds_switch_guid_and_port(report: Report) -> None:
    fabric = report.page.fabric
    report.tab.fill("#search", "s2-1")
    expect(report.tab.locator("#found li").first).to_contain_text("s2-1 (switch)")
    report.tab.press("#search", "Enter")
    assert report.text("#details h4") == "s2-1"
    assert report.ask("() => weftReport.selection") == {
        "kind": "node",
        "node": fabric.find_node("s2-1"),
    }
    report.tab.fill("#search", f"{int(fabric.node_guid[fabric.find_node('h7')]):#x}")
    report.tab.press("#search", "Enter")
    assert report.text("#details h4") == "h7"
    report.tab.fill("#search", "s1-2[5]")
    report.tab.press("#search", "Enter")
    assert report.text("#details .way:nth-of-type(1) > p.name").startswith("s1-2[5] -> ")
    assert "4xDDR (16 Gb/s)" in report.text("#details")
    report.tab.fill("#search", "no such node")
    expect(report.tab.locator("#found li")).to_have_text("No node has this in its name.")
    report.tab.press("#search", "Escape")
    expect(report.tab.locator("#found")).to_be_hidden()


def test_search_finds_a_machine_with_all_its_adapters(open_report: Any) -> None:
    fabric = rail_fabric(machines=4, adapters=2)
    report = open_report(comparison_page(fabric, patterns=("shift",)))
    report.tab.fill("#search", "gpu02")
    expect(report.tab.locator("#found li").first).to_have_text("gpu02 (machine of 2 adapters)")
    expect(report.tab.locator("#found li")).to_have_count(3)
    report.tab.press("#search", "Enter")
    assert report.text("#details h4") == "gpu02 mlx5_0"
    assert report.text("#details .machine") == (
        "Machine gpu02 of 2 adapters: gpu02 mlx5_0, gpu02 mlx5_1"
    )
    report.tab.click("#details .machine button")
    assert report.text("#details h4") == "gpu02 mlx5_1"


def test_zoom_and_pan_by_wheel_drag_buttons_and_keys(report: Report) -> None:
    view = "() => { const d = weftReport.drawing; return [d.scale, d.centreX, d.centreY]; }"
    report.cable_point(0)
    start = report.ask(view)
    box = report.tab.locator("#canvas").bounding_box()
    assert box is not None
    x, y = round(box["x"] + box["width"] * 0.3), round(box["y"] + box["height"] * 0.6)
    report.tab.mouse.move(x, y)
    under = """([x, y]) => {
        const d = weftReport.drawing, box = d.canvas.getBoundingClientRect();
        return [(x - box.left - d.width / 2) / d.scale + d.centreX,
                d.centreY - (y - box.top - d.height / 2) / d.scale];
    }"""
    before = report.ask(under, [x, y])
    report.tab.mouse.wheel(0, -300)
    report.tab.wait_for_function("(s) => weftReport.drawing.scale > s", arg=start[0])
    report.settle()
    zoomed = report.ask(view)
    assert zoomed[0] > 1.3 * start[0]
    assert report.ask(under, [x, y]) == pytest.approx(before, abs=1e-6)  # the point stays in place
    report.tab.mouse.down()
    report.tab.mouse.move(x + 80, y + 30, steps=4)
    report.tab.mouse.up()
    report.tab.wait_for_function("(x) => weftReport.drawing.centreX < x - 1e-9", arg=zoomed[1])
    report.settle()
    dragged = report.ask(view)
    assert dragged[1] == pytest.approx(zoomed[1] - 80 / zoomed[0])
    assert dragged[2] == pytest.approx(zoomed[2] + 30 / zoomed[0])
    report.tab.click("#zoom-all")
    assert report.ask(view) == pytest.approx(start)
    report.tab.click("#zoom-in")
    assert report.ask(view)[0] == pytest.approx(1.5 * start[0])
    report.tab.click("#zoom-out")
    report.tab.focus("#canvas")
    report.tab.keyboard.press("+")
    report.tab.keyboard.press("ArrowRight")
    moved = report.ask(view)
    assert moved[0] == pytest.approx(1.4 * start[0])
    assert moved[1] > start[1]
    report.tab.keyboard.press("0")
    assert report.ask(view) == pytest.approx(start)
    links = report.busiest_links("minhop", "all-to-all")
    report.tab.keyboard.press("Escape")
    for wanted in links[:2]:
        report.tab.keyboard.press("n")
        assert report.ask("() => weftReport.selection.link") == wanted
    report.tab.keyboard.press("p")
    assert report.ask("() => weftReport.selection.link") == links[0]


def test_wheel_scrolls_the_page_once_the_whole_fabric_is_in_view(report: Report) -> None:
    report.cable_point(0)
    box = report.tab.locator("#canvas").bounding_box()
    assert box is not None
    report.tab.mouse.move(box["x"] + 200, box["y"] + 100)
    before = report.ask("() => scrollY")
    report.tab.mouse.wheel(0, 200)
    report.tab.wait_for_function("(before) => scrollY > before", arg=before)


def test_host_cables_can_be_listed_and_hidden(open_report: Any) -> None:
    page = comparison_page(build("xgft:2;4,4;1,2"), ("minhop", "ecmp"), ("incast",))
    report = open_report(page)
    run = next(r for r in report.page.runs if (r.engine, r.pattern) == ("minhop", "incast"))
    fabric = report.page.fabric
    first = report.text("#busiest tr:first-child td:first-child")
    assert not re.search(r"\bh\d+\[", first.splitlines()[0])
    report.tab.check("#all-links")
    hot = busiest_links(run.load, np.arange(fabric.num_links))[0]
    assert fabric.link_kind[hot] != 0
    assert fabric.link_name(hot) in report.text("#busiest tr:first-child td:first-child")
    report.tab.uncheck("#show-hosts")
    report.settle()
    assert report.ask("() => weftReport.drawing.top") == pytest.approx(
        run.load[scope_of(fabric).links].max()
    )
    report.tab.check("#same-scale")
    top = max(
        r.load[scope_of(fabric).links].max() for r in report.page.runs if r.pattern == "incast"
    )
    assert report.ask("() => weftReport.drawing.top") == pytest.approx(top)
    report.tab.locator("#busiest button").first.click()  # a host's cable: hosts are shown again
    assert report.tab.is_checked("#show-hosts")


def test_engine_without_paths_explains_why_there_are_no_users(report: Report) -> None:
    report.choose("ecmp", "all-to-all")
    assert "ecmp does not fix the path of a flow" in report.text("#details")


def test_refused_engines_and_absent_patterns_cannot_be_chosen(open_report: Any) -> None:
    report = open_report(comparison_page(build("torus:4x4"), ("minhop", "dmodk")))
    assert report.tab.locator("#engine option[value=dmodk]").is_disabled()
    assert report.tab.locator("#pattern option[value=bit-reversal]").is_disabled()
    assert "needs a power of two of hosts" in report.text("#patterns")
    refused = report.tab.locator("details.refused tbody tr")
    assert refused.count() == 1
    assert not refused.is_visible()
    report.tab.click("details.refused summary")
    expect(refused).to_be_visible()
    expect(refused).to_contain_text("dmodk")
    assert report.tab.locator("table.engines [data-engine=dmodk]").count() == 0


def test_engine_that_did_not_run_a_pattern_says_so(open_report: Any, tree_page: Page) -> None:
    runs = tuple(r for r in tree_page.runs if (r.engine, r.pattern) != ("updn", "shift"))
    report = open_report(replace(tree_page, runs=runs))
    report.choose("updn", "shift")
    assert report.text("#run-text") == "updn did not run shift."
    assert report.tab.locator("#numbers tbody tr").count() == 2
    report.choose("minhop")
    assert "minhop under shift" in report.text("#run-text")


def test_hostile_names_do_not_run(open_report: Any) -> None:
    fabric = build("xgft:2;2,2;1,2")
    names = {int(g): n for g, n in zip(fabric.node_guid, HOSTILE, strict=False)}
    fabric = fabric.renamed(names)
    page = comparison_page(fabric, title=HOSTILE[0])
    report = open_report(replace(page, notes=HOSTILE, facts=((HOSTILE[1], HOSTILE[2]),)))
    assert report.text("h1") == HOSTILE[0]
    report.cable_point(0)
    for node in range(fabric.num_nodes):
        report.tab.fill("#search", fabric.node_names[node][:60])
        report.tab.press("#search", "Enter")
        assert report.text("#details h4") == fabric.node_names[node]
    for cable in range(fabric.num_cables):
        report.ask("(c) => weftReport.pick({ kind: 'cable', cable: c })", cable)
        assert fabric.link_name(2 * cable) in report.text("#details")
        report.tab.mouse.move(*report.cable_point(cable))
    report.settle()
    assert report.ask("() => window.hacked") is None
    assert (
        report.tab.locator("b:has-text('bold')").locator("xpath=self::*[text()='bold']").count()
        == 0
    )
    assert report.tab.locator("img").count() == 0
    # An injected script would not run either: the page's own policy forbids it.
    blocked = report.ask(
        """() => new Promise((done) => {
            document.addEventListener(
                "securitypolicyviolation", (event) => done(event.violatedDirective));
            const script = document.createElement("script");
            script.textContent = "window.hacked = 6";
            document.body.append(script);
            setTimeout(() => done("nothing"), 30000);
        })"""
    )
    assert blocked.startswith("script-src")
    assert report.ask("() => window.hacked") is None
    report.wrong[:] = [text for text in report.wrong if "Content Security Policy" not in text]


def test_tables_are_readable_without_scripts(open_report: Any, tree_page: Page) -> None:
    report = open_report(tree_page, java_script_enabled=False)
    fabric = tree_page.fabric
    assert report.tab.locator("table.engines tbody tr:not(.findings)").count() == 3
    links = busiest_links(tree_page.runs[0].load, scope_of(fabric).links)
    rows = row_texts(report.tab.locator("#busiest tr"))
    assert [row[0].splitlines()[0] for row in rows] == [fabric.link_name(link) for link in links]
    assert report.tab.locator("noscript p.notice").is_visible()
    assert not report.tab.locator("#canvas").is_visible()
    assert not report.tab.locator(".toolbar").is_visible()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_fits_its_window(open_report: Any, tree_page: Page, width: int, theme: str) -> None:
    report = open_report(tree_page, viewport={"width": width, "height": 800}, color_scheme=theme)
    assert report.ask("() => document.documentElement.scrollWidth") <= width
    paper = report.ask("() => getComputedStyle(document.body).backgroundColor")
    bright = sum(map(int, re.findall(r"\d+", paper)[:3])) > 384
    assert bright == (theme == "light")
    assert report.ask("() => weftReport.drawing.mode()") == theme
    canvas = report.tab.locator("#canvas").bounding_box()
    assert canvas is not None
    assert canvas["width"] <= width
    assert canvas["height"] > 200


def test_picture_is_on_the_first_screen_however_many_engines_there_are(
    open_report: Any, tree_page: Page
) -> None:
    first = tree_page.engines[0]
    more = tuple(
        replace(first, name=f"{first.name}:n={i}", refusal="no tree" * (i % 2)) for i in range(40)
    )
    page = replace(tree_page, engines=tree_page.engines + more)
    report = open_report(page, viewport={"width": 1400, "height": 1000})
    for selector in ("#canvas", "#ramp"):
        box = report.tab.locator(selector).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 1000
    assert report.text("details.refused summary") == "20 engines do not fit this fabric"


def test_chart_curve_is_the_distribution(report: Report) -> None:
    report.tab.locator("#chart").scroll_into_view_if_needed()
    run = report.page.runs[0]
    load = run.load[scope_of(report.page.fabric).links]
    box = report.tab.locator("#chart svg").bounding_box()
    assert box is not None
    readout = report.tab.locator("#chart .readout")
    shares = set()
    before = ""
    for place in (0.13, 0.16, 0.2, 0.3, 0.6):
        report.tab.mouse.move(box["x"] + box["width"] * place, box["y"] + box["height"] * 0.5)
        expect(readout).to_be_visible()
        expect(readout).not_to_have_text(before, use_inner_text=True)
        before = readout.inner_text()
        lines = before.splitlines()
        at = float(lines[0].removeprefix("load at most "))
        shown = next(line for line in lines if line.startswith("minhop"))
        share = float(shown.removeprefix("minhop: ").rstrip("%\u00a0 ")) / 100
        near = [np.mean(load <= at * 0.99), np.mean(load <= at * 1.01)]  # the readout is rounded
        assert near[0] - 0.001 <= share <= near[1] + 0.001
        shares.add(share)
    assert len(shares) > 2
    report.tab.check("#log-load")
    assert report.tab.locator("#chart path.curve").count() == 3


def test_torus_and_line_network_are_drawn_and_their_cables_picked(open_report: Any) -> None:
    for spec in ("torus:5x5", "kns:k=4,n=2", "kns:k=4,n=2,router=adapter"):
        page = comparison_page(build(spec), ("minhop",), ("all-to-all",))
        report = open_report(page)
        link = json.loads(report.ask("() => JSON.stringify(weftReport.run.busiest[0])"))
        report.tab.press("#canvas", "Escape")
        report.tab.mouse.click(*report.cable_point(link >> 1, 0.4))
        report.wait_selected(link >> 1)


def test_many_cables_are_drawn_as_bundles_until_zoomed_in(
    open_report: Any,
) -> None:
    """The fabric has 1,728 hosts and 5,184 cables in 12 pods."""
    fabric = build("xgft:3;12,12,12;1,12,12")
    page = comparison_page(fabric, ("dmodk",), ("shift", "incast"), listed=20)
    report = open_report(page)
    bundles = report.ask(
        """() => {
            const { drawing, run } = weftReport, { between, inside } = drawing.bundles;
            const busiest = ({ cables }) => Math.max(...cables.map((c) => run.cable[c]));
            return { on: drawing.bundled, cables: between.flatMap((one) => [...one.cables]),
                inside: inside.filter(Boolean).length,
                right: between.every((one) => one.load === busiest(one)),
                last: between.at(-1).load };
        }"""
    )
    assert bundles["on"]
    assert sorted(bundles["cables"]) == list(range(fabric.num_cables))  # none is left out
    assert bundles["inside"] == 0
    assert bundles["right"]
    assert bundles["last"] == page.runs[0].load.max()
    assert "No cable is left out: 5\u202f184 cables" in report.text("#drawing-text")
    # A click on a bundle picks the busiest of its cables.
    picked = report.ask(
        """() => {
            const { drawing } = weftReport, { between, groups } = drawing.bundles;
            const one = between.at(-1);
            const middle = (key) => (groups[one.a][key] + groups[one.b][key]) / 2;
            const found = drawing.pick(drawing.screenX(middle("x")), drawing.screenY(middle("y")));
            return [found.cable, one.cable, found.bundle];
        }"""
    )
    assert picked[0] == picked[1]
    assert "cables between" in picked[2]
    link = report.busiest_links("dmodk", "shift")[0]
    before = report.ask("() => weftReport.drawing.scale")
    report.tab.locator("#busiest button").first.click()
    report.settle()
    assert fabric.link_name(link) in report.text("#details")
    assert report.ask("() => weftReport.drawing.scale") > 1.2 * before  # the click zoomed in
    report.ask("(n) => weftReport.selectNode(n, true)", int(fabric.find_node("s1-70")))
    report.settle()
    assert not report.ask("() => weftReport.drawing.bundled")
    assert "No cable is left out" not in report.text("#drawing-text")
    # Every cable of the leaf switch is drawn.
    assert report.ask(
        """(n) => [...weftReport.fabric.cablesOf(n)].every((c) => weftReport.drawing.drawn[c])""",
        int(fabric.find_node("s1-70")),
    )


def test_even_loads_do_not_cover_the_drawing(open_report: Any) -> None:
    page = comparison_page(build("leaf-spine:leaves=24,spines=16,hosts=12,cables=2"), ("minhop",))
    report = open_report(page)
    share = report.ask(
        """() => {
            const { drawing } = weftReport, { canvas } = drawing;
            const all = drawing.context.getImageData(0, 0, canvas.width, canvas.height).data;
            let dark = 0;
            for (let i = 0; i < all.length; i += 4) dark += all[i] + all[i + 1] + all[i + 2] < 384;
            return (4 * dark) / all.length;
        }"""
    )
    assert 0.02 < share < 0.4


def test_scale_labels_do_not_overlap(open_report: Any, tree_page: Page) -> None:
    huge = tuple(replace(run, load=run.load * 3_674_160 / run.load.max()) for run in tree_page.runs)
    report = open_report(replace(tree_page, runs=huge))
    for selector in ("#ramp-ticks span", "#chart text[text-anchor=middle]"):
        boxes = report.ask(
            """(selector) => [...document.querySelectorAll(selector)]
                .filter((one) => !one.hasAttribute("transform"))
                .map((one) => { const box = one.getBoundingClientRect();
                    return [Math.round(box.top), box.left, box.right]; })""",
            selector,
        )
        assert len(boxes) > 2
        for (top, _, right), (below, left, _) in itertools.pairwise(sorted(boxes)):
            assert top != below or right < left
    assert report.text("#ramp-ticks").split()[-1] == "3.67M"


def test_all_columns_fit_into_a_small_window(open_report: Any) -> None:
    page = compare(
        build("xgft:2;4,4;1,2"), ("minhop", "minhop:balance=opensm"), ("all-to-all",), samples=5
    ).page()
    report = open_report(page, viewport={"width": 800, "height": 600})
    assert page.answer in report.text("header")
    assert report.tab.locator("table.engines thead th").count() == 16
    wide = report.ask(
        """() => [...document.querySelectorAll(".scroll")]
            .filter((one) => one.scrollWidth > one.clientWidth).length"""
    )
    assert wide == 0


def test_hosts_of_large_fabrics_are_not_drawn_but_searchable(
    open_report: Any, monkeypatch: pytest.MonkeyPatch, tree_page: Page
) -> None:
    monkeypatch.setattr("weft.report.parts.MAX_DRAWN_HOSTS", 8)
    report = open_report(tree_page)
    assert "16 hosts and their cables are too many to draw" in report.text("#drawing-text")
    assert not report.tab.locator("#hosts-option").is_visible()
    report.tab.fill("#search", "h7")
    report.tab.press("#search", "Enter")
    assert report.text("#details h4") == "h7"


def test_page_without_any_run_opens(open_report: Any, tree_page: Page) -> None:
    report = open_report(replace(tree_page, runs=()))
    assert report.text("#run-text") == "No engine ran."
    assert report.tab.locator("#engine").is_disabled()
    report.tab.fill("#search", "s2-1")
    report.tab.press("#search", "Enter")
    assert report.text("#details h4") == "s2-1"
    x, y = report.cable_point(3, 0.3)
    report.tab.mouse.click(x, y)
    expect(report.tab.locator("#details")).to_contain_text(report.page.fabric.link_name(6))


def test_single_switch_counts_all_links(open_report: Any) -> None:
    page = comparison_page(build("xgft:1;4;1"), ("minhop",), ("incast",))
    report = open_report(page)
    assert "has load 3" in report.text("#run-text")
    assert "of 8 links" in report.text("#run-text")
    assert not report.tab.locator("#all-links").is_visible()
    assert report.text("#busiest tr:first-child td:first-child").startswith("s1-0[1] -> h0[1]")
