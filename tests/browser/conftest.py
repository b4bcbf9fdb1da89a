"""A headless Chromium without network, and queries that tests send to an open page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Playwright, expect, sync_playwright
from playwright.sync_api import Page as Tab

from tests.processes import not_here
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


VIEWPORT = {"width": 1280, "height": 900}


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    if not Path(CHROMIUM).exists():
        message = "no Chromium (Debian: apt-get install chromium)"
        not_here(message)
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Return a browser with one tab, for all pages that need no other settings."""
    started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
    context = started.new_context(offline=True, viewport=VIEWPORT)
    context.set_default_timeout(LIMIT_MS)
    context.new_page()
    yield started
    started.close()


@dataclass
class Report:
    """A page open in the browser, and the errors that occurred in it."""

    tab: Tab
    page: Page
    wrong: list[str]

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
def watched_page(browser: Browser, path: Path, **options: Any) -> Iterator[tuple[Tab, list[str]]]:
    """Open a page without network; yield its tab and the errors that occur in it.

    Fail if there are errors in the end, or the page made a request. Without options the tab is the
    browser's first, as another takes much longer to begin.
    """
    context = browser.contexts[0]
    if options:
        context = browser.new_context(offline=True, **{"viewport": VIEWPORT} | options)
        context.set_default_timeout(LIMIT_MS)
    tab = context.new_page() if options else context.pages[0]
    wrong: list[str] = []
    requests: list[str] = []

    def note_message(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            wrong.append(message.text)

    def note_dialog(dialog: Dialog) -> None:
        wrong.append(dialog.message)
        dialog.dismiss()

    listeners = {
        "console": note_message, "dialog": note_dialog,
        "pageerror": lambda error: wrong.append(str(error)),
        "request": lambda request: requests.append(request.url),
    }  # fmt: skip
    for event, listener in listeners.items():
        tab.on(event, listener)
    try:
        tab.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            tab.wait_for_selector("html[data-state=done]", state="attached")
            settle(tab)
        yield tab, wrong
        assert wrong == []
        assert requests == [path.as_uri()]
    finally:
        for event, listener in listeners.items():
            tab.remove_listener(event, listener)
        if options:
            context.close()
        else:
            tab.mouse.move(0, 0)
            tab.emulate_media(media="null")


@contextmanager
def opened_page(browser: Browser, path: Path, **options: Any) -> Iterator[Tab]:
    """Open a page as `watched_page`; any error fails the test."""
    with watched_page(browser, path, **options) as (tab, _):
        yield tab


def settle(tab: Tab) -> None:
    """Wait until requested frames are painted."""
    tab.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 200))")


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Return a function that opens a report, in place of the one before."""
    with ExitStack() as opened:

        def open_page(page: Page, **options: Any) -> Report:
            opened.close()
            path = tmp_path / "report.html"
            write_comparison_page(page, path)
            tab, wrong = opened.enter_context(watched_page(browser, path, **options))
            return Report(tab, page, wrong)

        yield open_page
