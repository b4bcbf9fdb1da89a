"""The page of a study in a real headless Chromium, opened from disk without network."""

from __future__ import annotations

import csv
import io
import itertools
import xml.etree.ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import opened_page, settle
from tests.studies import FABRICS, large, study, with_failures, with_tables
from weft.report.study_data import StudyData
from weft.report.study_page import write_study_page
from weft.report.study_summary import summary

pytestmark = pytest.mark.browser

PLOTS = ("bars", "curves", "heat", "pareto", "links", "fabric", "matrix")


@pytest.fixture(scope="module")
def data() -> StudyData:
    return with_tables(with_failures(study()))


@pytest.fixture(scope="module")
def path(data: StudyData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.html"
    write_study_page(data, path)
    return path


@pytest.fixture
def tab(browser: Browser, path: Path) -> Iterator[Page]:
    with opened_page(browser, path) as page:
        yield page


def cells(tab: Page, column: int) -> list[str]:
    return tab.locator(f"#points-table tbody td:nth-child({column})").all_inner_texts()


def allow(tab: Page, axis: int, *values: str) -> None:
    """Show only some values of an axis."""
    filters = tab.locator(f'.filter[data-axis="{axis}"]')
    filters.locator("summary").click()
    filters.get_by_role("button", name="none").click()
    for value in values:
        filters.get_by_label(value, exact=True).check()
    tab.keyboard.press("Escape")


def drawn(tab: Page, plot: str) -> Any:
    """Bring a plot into view and return its picture."""
    figure = tab.locator(f"#plot-{plot}")
    figure.scroll_into_view_if_needed()
    expect(figure.locator(".picture svg")).to_be_visible()
    return figure.locator(".picture svg")


def saved(tab: Page, selector: str) -> tuple[str, str]:
    """Click on a button and return name and text of the file that it saves."""
    with tab.expect_download() as waiting:
        tab.click(selector)
    file = waiting.value
    return file.suggested_filename, Path(file.path()).read_text(encoding="utf-8")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_answer_comes_first_and_failures_are_not_hidden(tab: Page, data: StudyData) -> None:
    assert tab.locator("#answer p").first.inner_text().startswith("Makespan (lower is better)")
    assert tab.locator("#answer strong").first.inner_text() == f"{FABRICS[0]} · dfsssp"
    notice = tab.locator(".notice.bad").first.inner_text()
    assert notice.startswith("93 of 120 runs are complete: 10 failed, 7 partial, 10 do not fit.")
    reasons = tab.locator("#unfinished tbody tr").all_inner_texts()
    assert any("no room <left> on the device" in row for row in reasons)
    assert cells(tab, 12)[0] == "3 of 5 runs: 1 failed, 1 partial"
    # What scripts show are the numbers of the summary.
    row = summary(data).points.row(2, named=True)
    assert cells(tab, 6)[2].startswith(f"{row['mean'] / 1e3:.1f} ± {row['ci95'] / 1e3:.1f}")
    assert cells(tab, 10)[2].startswith(f"{row['ratio']:.3f} ({row['ratio_low']:.3f} to ")


def test_filters_change_table_and_plots(tab: Page) -> None:
    assert len(cells(tab, 1)) == 24
    before = drawn(tab, "bars").inner_html()
    allow(tab, 1, "dfsssp", "nue")
    assert set(cells(tab, 3)) == {"dfsssp", "nue"}
    allow(tab, 2, "0.6")
    assert len(cells(tab, 1)) == 8
    expect(tab.locator("#shown-text")).to_have_text(
        "8 of 24 points shown: engine dfsssp, nue; load 0.6."
    )
    bars = drawn(tab, "bars")
    assert bars.inner_html() != before
    assert bars.locator("rect[fill-opacity]").count() == 7  # nue does not fit on the torus
    heat = drawn(tab, "heat")
    assert heat.get_by_text("minhop").count() == 0
    assert heat.get_by_text("–", exact=True).count() == 1
    tab.click("#reset")
    assert len(cells(tab, 1)) == 24
    assert drawn(tab, "bars").inner_html() == before
    allow(tab, 0)
    assert cells(tab, 1) == []
    expect(tab.locator("#plot-bars .none")).to_be_visible()
    expect(tab.locator("#plot-bars [data-save=svg]")).to_be_disabled()


def test_headings_sort_and_say_so(tab: Page) -> None:
    heading = tab.locator("#points-table th", has_text="Mean ±")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    means = [text.split()[0] for text in cells(tab, 6)]
    known = [float(text) for text in means if text != "–"]
    assert all(b > a - 1 for a, b in itertools.pairwise(known))  # rounded by their intervals
    assert means[-2:] == ["–", "–"]
    heading.get_by_role("button").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    means = [text.split()[0] for text in cells(tab, 6)]
    assert float(means[0]) == max(known)
    assert means[-2:] == ["–", "–"]


def test_other_measures(tab: Page) -> None:
    tab.select_option("#measure", label="accepted load")
    expect(tab.locator("#measure-text")).to_contain_text("Higher is better.")
    best = tab.locator("#points-table tr.chosen td:nth-child(4)").all_inner_texts()
    assert sorted(best) == ["0.3", "0.6"]  # one for each condition
    visible = tab.locator("#effects tbody tr:not([hidden]) td:first-child").all_inner_texts()
    assert set(visible) == {"accepted load"}
    # Nobody ranks by a measure of which neither lower nor higher values are better.
    for menu in ("#measure", "#plot-pareto [data-name=x]", "#plot-pareto [data-name=y]"):
        assert "messages" not in tab.locator(f"{menu} option").all_inner_texts()
    curve = tab.locator("#plot-curves [data-name=y]")
    curve.select_option(label="messages")
    expect(drawn(tab, "curves")).to_contain_text("messages")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("plot", PLOTS)
def test_every_plot_is_saved_as_svg_and_its_data_as_csv(tab: Page, plot: str) -> None:
    picture = drawn(tab, plot)
    assert len(picture.get_attribute("aria-label")) > 20
    name, text = saved(tab, f"#plot-{plot} [data-save=svg]")
    assert name == f"topologies-engines-under-two-loads-{plot}.svg"
    root = xml.etree.ElementTree.fromstring(text.partition("\n")[2])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    # A saved picture has its own colours and size.
    assert root.get("width") == "720"
    assert "class=" not in text
    name, text = saved(tab, f"#plot-{plot} [data-save=csv]")
    rows = rows_of(text)
    assert name.endswith(f"{plot}.csv")
    assert rows
    details = tab.locator(f"#plot-{plot} details.values")
    details.locator("summary").click()
    # The browser opens an element before it reports the change.
    expect(details.locator("tbody tr").first).to_be_visible()
    first = details.locator("tbody tr").first.locator("td").all_inner_texts()
    assert len(first) == len(rows[0])
    assert first[0] == next(iter(rows[0].values()))


def test_saved_data_are_unrounded_means(tab: Page, data: StudyData) -> None:
    allow(tab, 1, "nue")
    _, text = saved(tab, "#save-points")
    rows = rows_of(text)
    assert len(rows) == 8 * len(data.measures)
    points = summary(data).points.filter(engine="nue")
    assert [row["mean"] for row in rows if row["n"] == "0"] == [""] * 2 * len(data.measures)
    for row, expected in zip(rows, points.iter_rows(named=True), strict=True):
        assert row["measure"] == expected["measure"]
        if expected["mean"] is not None:
            assert float(row["mean"]) == pytest.approx(expected["mean"], rel=1e-6)
    _, text = saved(tab, "#save-runs")
    rows = rows_of(text)
    assert len(rows) == 120
    assert {row["reason"] for row in rows if row["status"] == "failed"} == {
        "RuntimeError: no room <left> on the device"
    }


def test_pareto_front_is_that_of_the_averages(tab: Page, data: StudyData) -> None:
    drawn(tab, "pareto")
    _, text = saved(tab, "#plot-pareto [data-save=csv]")
    front = {row["choice"] for row in rows_of(text) if row["on the front"] == "yes"}
    assert front == {f"{fabric} · dfsssp" for fabric in FABRICS}
    assert len(rows_of(text)) == 11
    expect(tab.locator("#plot-pareto .text")).to_contain_text("1 choice left out: runs are missing")


def test_single_runs_follow_the_filters(tab: Page) -> None:
    drawn(tab, "fabric")
    assert tab.locator("#point option").count() == 22
    allow(tab, 0, FABRICS[2])
    assert tab.locator("#point option").count() == 6
    tab.select_option("#point", index=3)
    label = tab.locator("#point option").nth(3).inner_text()
    expect(tab.locator("#plot-fabric .text")).to_contain_text(label)
    # Every cable is drawn: 48 between switches and 32 to hosts.
    assert drawn(tab, "fabric").locator("g path").count() == 80


def test_all_controls_are_reached_and_used_by_keyboard(tab: Page) -> None:
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    seen: set[str] = set()
    wanted = {
        "measure", "fabric: all", "engine: all", "load: all", "reset", "save-points", "save-runs",
        *(f"{plot} {kind}" for plot in PLOTS for kind in ("svg", "csv", "table")), "point",
    }  # fmt: skip
    for _ in range(150):
        tab.keyboard.press("Tab")
        seen.add(
            tab.evaluate(
                """() => {
                    const at = document.activeElement, plot = at.closest(".plot");
                    if (plot && at.dataset.save) return `${plot.id.slice(5)} ${at.dataset.save}`;
                    if (plot && at.matches("summary")) return `${plot.id.slice(5)} table`;
                    return at.id || at.textContent.trim();
                }"""
            )
        )
        if wanted <= seen:
            break
    assert wanted - seen == set()
    tab.focus('.filter[data-axis="1"] summary')
    tab.keyboard.press("Enter")
    for _ in range(3):
        tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    assert "minhop" not in cells(tab, 3)
    tab.keyboard.press("Escape")
    assert not tab.locator('.filter[data-axis="1"] fieldset').is_visible()
    assert tab.evaluate("document.activeElement.textContent").startswith("engine: 2 of 3")


def test_series_differ_without_colours(tab: Page) -> None:
    curves = drawn(tab, "curves")
    lines = curves.locator("path[stroke-linejoin]").evaluate_all(
        "(all) => all.map((path) => path.getAttribute('stroke-dasharray'))"
    )
    markers = curves.locator("path[transform]").evaluate_all(
        "(all) => all.map((path) => path.getAttribute('d'))"
    )
    assert len(lines) == 11
    assert len(set(lines)) == 7
    assert len(set(markers)) == 7
    # Seven colours, dashes and markers repeat in other combinations.
    legend = curves.locator("line[stroke-width='2']").evaluate_all(
        "(all) => all.map((line) => [line.getAttribute('stroke-dasharray'),"
        " line.nextElementSibling.getAttribute('d')].join())"
    )
    assert len(set(legend)) == 11


def test_text_has_contrast_and_controls_have_names(tab: Page) -> None:
    nameless = tab.evaluate(
        """() => [...document.querySelectorAll("button, select, input, summary")].filter((each) =>
            !(each.textContent.trim() || each.getAttribute("aria-label") || each.labels?.length))
            .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    for plot in PLOTS:
        drawn(tab, plot)
    low = tab.evaluate(
        """() => {
            const light = (text) => {
                const parts = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255);
                const linear = (v) => (v <= .04 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                const [r, g, b] = parts.map(linear);
                return .2126 * r + .7152 * g + .0722 * b;
            };
            const found = [];
            for (const text of document.querySelectorAll("svg text")) {
                // A text in a cell stands on the rectangle before it; others on the page.
                const before = text.previousElementSibling;
                const middle = text.getAttribute("text-anchor") === "middle";
                const cell = middle && before?.tagName === "rect" && before.children.length;
                const [a, b] = [text, cell ? before : text.ownerSVGElement.firstElementChild]
                    .map((each) => light(getComputedStyle(each).fill));
                const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
                if (ratio < 4.5) found.push([text.textContent, ratio]);
            }
            return found;
        }"""
    )
    assert low == []


def test_narrow_and_dark_pages_fit(browser: Browser, path: Path) -> None:
    narrow = {"width": 390, "height": 800}
    with opened_page(browser, path, viewport=narrow, color_scheme="dark") as tab:
        for plot in PLOTS:
            drawn(tab, plot)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        dark = tab.evaluate("weftReport.page.colours.dark.page")
        assert drawn(tab, "bars").locator("rect").first.get_attribute("fill") == dark
        tab.locator('.filter[data-axis="0"] summary').click()
        box = tab.locator('.filter[data-axis="0"] fieldset').bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_all_plots_are_printed_on_white(tab: Page) -> None:
    tab.emulate_media(media="print")
    tab.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    for plot in PLOTS:
        assert tab.locator(f"#plot-{plot} .picture svg").is_visible()
    assert not tab.locator(".toolbar").is_visible()
    assert tab.locator("#plot-bars svg rect").first.get_attribute("fill") == "#ffffff"


def test_without_scripts_the_answer_and_tables_remain(browser: Browser, path: Path) -> None:
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("#answer li").count() == 2
    assert page.locator("#best tbody tr").count() == 9
    assert page.locator("#unfinished tbody tr").count() == 3
    assert not page.locator("#points").is_visible()
    context.close()


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    bad = "</script><script>window.hacked=1</script>"
    names = (bad, '"><img src=x onerror=window.hacked=2>')
    data = replace(study({"engine": names, "load": ("0.1", "0.2")}, seeds=2), title=bad)
    data = replace(data, experiment=f"# {bad}", baseline={"engine": bad})
    write_study_page(data, tmp_path / "page.html")
    with opened_page(browser, tmp_path / "page.html") as tab:
        assert tab.evaluate("() => window.hacked") is None
        assert bad in cells(tab, 2)
        assert tab.locator("h1").inner_text() == bad


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", ["no seeds", "one axis", "one point", "no result"])
def test_small_studies(browser: Browser, tmp_path: Path, case: str) -> None:
    data = {
        "no seeds": study(seeds=0),
        "one axis": study({"engine": ("minhop", "nue")}, seeds=3),
        "one point": study({"engine": ("minhop",)}, seeds=3),
        "no result": study(),
    }[case]
    if case == "no result":
        lost = pl.lit(None, pl.Float64)
        runs = data.runs.with_columns(
            pl.lit("lost").alias("status"), *(lost.alias(m.name) for m in data.measures)
        )
        data = replace(data, runs=runs)
    write_study_page(data, tmp_path / "page.html")
    with opened_page(browser, tmp_path / "page.html") as tab:
        points = len(summary(data).labels)
        assert len(cells(tab, 1)) == points
        tab.locator("#plot-bars").scroll_into_view_if_needed()
        if case == "no result":
            expect(tab.locator("#plot-bars .none")).to_be_visible()
        else:
            bars = drawn(tab, "bars").locator("rect[fill-opacity]")
            assert bars.count() == points


def test_a_thousand_runs_stay_small_and_are_drawn_in_parts(
    browser: Browser, tmp_path: Path
) -> None:
    """Times are not asserted: a filter takes 50 ms on an idle core."""
    data = large()
    assert (len(data.runs), len(data.measures)) == (1000, 10)
    assert write_study_page(data, tmp_path / "page.html") < 10_000_000
    with opened_page(browser, tmp_path / "page.html") as tab:
        assert len(cells(tab, 1)) == 60
        expect(tab.locator("#rows-text")).to_have_text("The first 60 of 200 rows.")
        # Only plots near the view are drawn, so that a filter changes little at once.
        assert tab.locator(".picture svg").count() < 4
        tab.click("#more")
        assert len(cells(tab, 1)) == 200
        allow(tab, 3, "0.8")
        assert len(cells(tab, 1)) == 40
        expect(tab.locator("#more")).to_be_hidden()
        assert drawn(tab, "bars").locator("rect[fill-opacity]").count() == 30
        expect(tab.locator("#plot-bars .text")).to_contain_text("The first 30 of 40 points")
        settle(tab)
