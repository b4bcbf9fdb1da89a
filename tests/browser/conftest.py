"""A headless Chromium without network, and queries that tests send to an open page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Playwright, expect, sync_playwright
from playwright.sync_api import Page as Tab

from weft.report.comparison_data import Page
from weft.report.comparison_page import write_comparison_page
from weft.report.summary import busiest_links, scope_of

#: Time limit for a page, far more than any page needs.
LIMIT_MS = 300_000
expect.set_options(timeout=LIMIT_MS)

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    if not Path(CHROMIUM).exists():
        message = "no Chromium (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
    yield started
    started.close()


@dataclass
class Report:
    """A page open in the browser, and the errors that occurred in it."""

    tab: Tab
    page: Page
    wrong: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return self.tab.locator(selector).inner_text()

    def ask(self, script: str, argument: Any = None) -> Any:
        """Evaluate a function in the page."""
        return self.tab.evaluate(script, argument)

    def cable_point(self, cable: int, share: float = 0.5) -> tuple[float, float]:
        """Return the point at a share of the length of a cable, in window coordinates."""
        self.tab.locator("#canvas").scroll_into_view_if_needed()
        self.settle()
        point = self.ask("([c, s]) => weftReport.cablePoint(c, s)", [cable, share])
        return point["x"], point["y"]

    def wait_selected(self, cable: int) -> None:
        """Wait until the page has registered a click on this cable."""
        self.tab.wait_for_function("(c) => weftReport.selection?.cable === c", arg=cable)

    def settle(self) -> None:
        """Wait until requested frames are painted."""
        settle(self.tab)

    def choose(self, engine: str | None = None, pattern: str | None = None) -> None:
        for selector, value in (("#engine", engine), ("#pattern", pattern)):
            if value:
                self.tab.select_option(selector, value)
        # The page unpacks a run before it shows the run.
        self.tab.wait_for_function(
            """() => {
                const { page, run, engine, pattern } = weftReport;
                const of = (one) => one.engineName === engine && one.patternName === pattern;
                const ready = page.runs.some(of) ? run && of(run) : !run;
                const asked = (id) => document.getElementById(id).value;
                return ready && asked("engine") === engine && asked("pattern") === pattern;
            }"""
        )
        self.settle()

    def busiest_links(self, engine: str, pattern: str) -> list[int]:
        fabric = self.page.fabric
        run = next(r for r in self.page.runs if (r.engine, r.pattern) == (engine, pattern))
        return busiest_links(run.load, scope_of(fabric).links)


@contextmanager
def opened_page(browser: Browser, path: Path, **options: Any) -> Iterator[Tab]:
    """Open a page without network; fail if it makes a request or an error occurs in it."""
    context = browser.new_context(
        offline=True, **{"viewport": {"width": 1280, "height": 900}} | options
    )
    context.set_default_timeout(LIMIT_MS)
    tab, wrong, requests = context.new_page(), [], []
    tab.on(
        "console",
        lambda message: (
            wrong.append(message.text) if message.type in {"error", "warning"} else None
        ),
    )
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(path.as_uri())
    tab.wait_for_selector("html[data-state=done]", state="attached")
    settle(tab)
    yield tab
    assert wrong == []
    assert requests == [path.as_uri()]
    context.close()


def settle(tab: Tab) -> None:
    """Wait until requested frames are painted."""
    tab.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 200))")


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    contexts = []
    reports = []

    def opened(page: Page, **options: Any) -> Report:
        path = tmp_path / "report.html"
        write_comparison_page(page, path)
        options = {"viewport": {"width": 1280, "height": 900}} | options
        context = browser.new_context(offline=True, **options)
        context.set_default_timeout(LIMIT_MS)
        contexts.append(context)
        report = Report(context.new_page(), page)
        report.tab.on(
            "console",
            lambda message: (
                report.wrong.append(message.text) if message.type in {"error", "warning"} else None
            ),
        )
        report.tab.on("pageerror", lambda error: report.wrong.append(str(error)))
        report.tab.on("dialog", lambda dialog: report.wrong.append(dialog.message))
        report.tab.on("request", lambda request: report.requests.append(request.url))
        report.tab.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            report.tab.wait_for_selector("html[data-state=done]", state="attached")
            report.settle()
        reports.append(report)
        return report

    yield opened
    for report in reports:
        assert report.wrong == []
        assert all(url.startswith("file:") for url in report.requests)
        assert len(report.requests) == 1
    for context in contexts:
        context.close()
