"""The page of `weft serve` in a real headless Chromium, with a service behind it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import LIMIT_MS
from tests.processes import PATIENCE_S, wait_for
from tests.serve_runs import free_port, serving
from tests.serve_services import FABRIC, in_thread, without_processes
from weft.subnet.service.page import rendered

pytestmark = pytest.mark.browser

PHASES = [{"name": f"shift-{by}", "pattern": f"shift:offset={by}"} for by in (1, 4, 5)]


@contextmanager
def served(folder: Path, port: int) -> Iterator[httpx.Client]:
    """Run a service without processes of its own; give a client of it."""
    with pytest.MonkeyPatch.context() as patch:
        without_processes(patch)
        with (
            in_thread(folder / "store.sqlite", port=port) as (_, url),
            httpx.Client(base_url=url, timeout=PATIENCE_S) as client,
        ):
            yield client


@contextmanager
def opened(
    browser: Browser, url: str, *, allowed: tuple[str, ...] = (), **options: Any
) -> Iterator[Page]:
    """Open the page; fail if an error occurs in it that is not allowed, or on other requests."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
    context.set_default_timeout(LIMIT_MS)
    tab, wrong, requests = context.new_page(), [], []
    tab.on("console", lambda m: wrong.append(m.text) if m.type in {"error", "warning"} else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("dialog", lambda dialog: wrong.append(dialog.message))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(url)
    yield tab
    assert [text for text in wrong if not any(part in text for part in allowed)] == []
    assert {each.partition("?")[0] for each in requests} <= {url, f"{url}v1/state"}
    context.close()


def place(client: httpx.Client, name: str, hosts: list[int]) -> None:
    """Place an application, and wait for its keys."""
    body = {"name": name, "hosts": [f"h{host}" for host in hosts], "phases": PHASES}
    assert client.post("/v1/applications", json=body).status_code == 201

    def ready() -> bool:
        keys = client.get(f"/v1/applications/{name}").json()["keys"]
        return all(key["state"] == "ready" for key in keys)

    wait_for(ready)


def change(client: httpx.Client, name: str, phase: str, what: str) -> None:
    assert client.post(f"/v1/applications/{name}/keys/{phase}/{what}").status_code == 200


def link_rows(tab: Page, table: str) -> list[tuple[str, int, str]]:
    rows = tab.locator(f"#{table} tr").all()
    cells = [row.locator("th, td").all_inner_texts() for row in rows]
    return [(link.strip(), int(flows), keys) for link, flows, keys in cells]


def grant_rows(tab: Page) -> list[list[str]]:
    return [row.split("\t")[:2] for row in tab.locator("#grants tr").all_inner_texts()]


def test_the_page_follows_the_service(browser: Browser, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    unreachable = ("Failed to load resource", "ERR_CONNECTION_REFUSED")
    running = ExitStack()
    client = running.enter_context(served(tmp_path, port))
    with running, opened(browser, url, allowed=unreachable) as tab:
        expect(tab.locator("#grants-text")).to_have_text("0 keys.")
        place(client, "even", list(range(0, 16, 2)))
        place(client, "odd", list(range(1, 16, 2)))
        expect(tab.locator("#applications tr")).to_have_count(2)
        expect(tab.locator("#applications .badge").first).to_have_text("3 ready")

        policy = client.get("/").headers["Content-Security-Policy"]
        assert "script-src 'sha256-" in policy
        assert "style-src 'sha256-" in policy
        assert "unsafe" not in policy
        # The focus and an open list stay while rows come and go.
        summary = tab.locator("#applications summary").nth(1)
        summary.focus()
        tab.keyboard.press("Enter")
        expect(tab.locator("#applications li")).to_have_count(3)
        for name, phase in (("even", 1), ("even", 4), ("odd", 4), ("odd", 5)):
            change(client, name, f"shift-{phase}", "request")
        expect(tab.locator("#grants tr")).to_have_count(4)
        assert grant_rows(tab) == [
            ["even", "shift-1"], ["even", "shift-4"], ["odd", "shift-4"], ["odd", "shift-5"]
        ]  # fmt: skip
        assert tab.evaluate("() => document.activeElement.textContent") == "3 phases"
        expect(tab.locator("#applications li").nth(1)).to_contain_text("shift-4: ready, in use")

        # What the page shows is what the interface says, for keys and for the base routes.
        state = client.get("/v1/state").json()
        expect(tab.locator("html")).to_have_attribute("data-version", str(state["version"]))
        for table, part in (("meetings", "meetings"), ("base-meetings", "base_meetings")):
            meetings = [(m["link"], m["flows"], ", ".join(m["keys"])) for m in state[part]]
            assert link_rows(tab, table) == meetings
        assert state["base_meetings"]
        expect(tab.locator("#contention")).to_have_text(str(state["contention"]))
        expect(tab.locator("#base-contention")).to_have_text(str(state["base_contention"]))
        largest = tab.locator("#time-text").inner_text()
        assert f"{state['contention']} with" in largest
        assert f"{state['base_contention']} on the base" in largest

        # Changes are announced in one sentence, not at every change.
        expect(tab.locator("#said")).to_contain_text("granted", timeout=LIMIT_MS)
        change(client, "even", "shift-1", "done")
        change(client, "odd", "shift-4", "done")
        expect(tab.locator("#grants tr")).to_have_count(2)
        # Up to three changes are named and more are counted: which of both depends on the machine.
        expect(tab.locator("#said")).to_contain_text("given back", timeout=LIMIT_MS)
        # A request that changes nothing is answered when the wait is over, not before.
        version = client.get("/v1/state").json()["version"]
        start = time.monotonic()
        client.get("/v1/state", params={"after": version, "wait_s": 1.5})
        assert time.monotonic() - start >= 1.5

        # While the page pauses, it shows what was.
        tab.click("#pause")
        change(client, "even", "shift-1", "request")
        tab.wait_for_timeout(2500)
        assert tab.locator("#grants tr").count() == 2
        expect(tab.locator("#updated")).to_contain_text("Paused")
        tab.click("#pause")
        expect(tab.locator("#grants tr")).to_have_count(3)

        tab.fill("#filter", "odd")
        expect(tab.locator("#grants tr")).to_have_count(1)
        expect(tab.locator("#grants-text")).to_have_text("1 of 3 keys fit the filter.")
        tab.fill("#filter", "h14")
        assert tab.locator("#applications th").all_inner_texts() == ["even"]
        tab.fill("#filter", "")
        held = grant_rows(tab)
        tab.locator("#applications summary").first.focus()
        running.close()
        expect(tab.locator("#notice-lost")).to_contain_text("cannot be reached")
        expect(tab.locator("#updated")).to_have_text("Not connected")
        assert grant_rows(tab) == held
        with served(tmp_path, port) as again:
            expect(tab.locator("#notice-lost")).to_have_count(0)
            expect(tab.locator("#said")).to_have_text("The service answers again.")
            assert grant_rows(tab) == held
            change(again, "odd", "shift-5", "done")
            expect(tab.locator("#grants tr")).to_have_count(2)
            focused = "() => document.activeElement.getAttribute('aria-label')"
            assert tab.evaluate(focused) == "3 phases of even"


@pytest.mark.slow
def test_with_tokens_the_page_asks_for_one(browser: Browser, tmp_path: Path) -> None:
    with serving(FABRIC, tmp_path, tokens=True) as running, httpx.Client(
        base_url=running.url, headers={"Authorization": f"Bearer {running.admin_token}"},
        timeout=PATIENCE_S,
    ) as client:  # fmt: skip
        token, url = str(running.admin_token), f"{running.url}/"
        denied = ("401", "403")
        with opened(browser, url, allowed=denied, viewport={"width": 400, "height": 800}) as tab:
            expect(tab.locator("#token")).to_be_focused()
            expect(tab.get_by_label("Token of the monitor or the administrator")).to_be_visible()
            place(client, "one", [0, 1, 2, 3, 4, 5, 6, 7])
            body = {"name": "two", "hosts": ["h8", "h9"], "phases": PHASES[:1]}
            other = client.post("/v1/applications", json=body).json()["token"]
            for wrong in ("nonsense", other):
                tab.keyboard.type(wrong)
                tab.keyboard.press("Enter")
                expect(tab.locator("#notice-lost")).to_contain_text("does not accept this token")
                expect(tab.locator("#token")).to_be_focused()
                expect(tab.locator("#token")).to_have_value("")
            tab.keyboard.type("two words")
            tab.keyboard.press("Enter")
            expect(tab.locator("#notice-lost")).to_contain_text("no spaces")
            assert tab.locator("#applications tr").count() == 0
            tab.fill("#token", f" {token} ")
            tab.keyboard.press("Enter")
            expect(tab.locator("#applications tr")).to_have_count(2)
            expect(tab.locator("#token-form")).to_be_hidden()
            expect(tab.locator("#filter")).to_be_focused()
            expect(tab.locator("#notice-lost")).to_have_count(0)
            # It is nowhere but in memory: after loading again, the page asks again.
            assert tab.evaluate("() => [localStorage.length, sessionStorage.length]") == [0, 0]
            assert tab.context.cookies() == []
            assert token not in tab.content()
            tab.reload()
            expect(tab.locator("#token-form")).to_be_visible()
            assert tab.evaluate("() => document.documentElement.scrollWidth") == 400


class Stub:
    """A server of the page and of a state that tests choose."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {
            "version": 1, "time_ns": time.time_ns(), "fabric": FABRIC, "hosts": 16,
            "applications": [], "grants": [], "contention": 0, "base_contention": 0,
            "meetings": [], "base_meetings": [], "problems": [],
            "subnet": {
                "manager": "opensm", "missing_cables": [], "reloads": 3, "last_reload_s": 0.41,
                "problem": "",
            },
        }  # fmt: skip
        self.asked = 0


@pytest.fixture
def stub() -> Iterator[tuple[Stub, str]]:
    made = Stub()
    text, policy = rendered(FABRIC, 16, ("dmodk", "updn"))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_page = self.path == "/"
            made.asked += not is_page
            version = f"after={made.state['version']}&"
            while not is_page and version in self.path and not stopped.wait(0.05):
                version = f"after={made.state['version']}&"
            body = (text if is_page else json.dumps(made.state)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if is_page else "application/json")
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    stopped = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made, f"http://127.0.0.1:{server.server_port}/"
    stopped.set()
    server.shutdown()
    thread.join()
    server.server_close()


def key(phase: str, state: str = "ready", reason: str = "", granted: bool = False) -> Any:
    return {
        "phase": phase, "state": state, "flows": 8, "alternatives": 4, "generation": 1,
        "reason": reason, "granted": granted,
    }  # fmt: skip


def granted(application: str, phase: str, alternative: int = 0, lease_s: int = 90) -> Any:
    now = time.time_ns()
    return {
        "application": application, "phase": phase, "alternative": alternative,
        "since_ns": now - 3_700 * 10**9, "until_ns": now + lease_s * 10**9,
    }  # fmt: skip


def test_states_problems_and_names_as_text(browser: Browser, stub: tuple[Stub, str]) -> None:
    server, url = stub
    evil = "<img src=x onerror=alert(1)>"
    with opened(browser, url) as tab:
        expect(tab.locator("#subnet")).to_contain_text("0.41 s")
        expect(tab.locator("#subnet")).to_contain_text("missing cables: 0")
        server.state |= {
            "version": 2,
            "applications": [
                {
                    "name": evil, "hosts": [evil, "h1"],
                    "keys": [key("x", granted=True), key(evil, "failed", f"no LID left {evil}")],
                },
                {"name": "b", "hosts": ["h2"], "keys": [key("y", "making", "cable died")]},
            ],
            "grants": [granted(evil, "x"), granted("b", "y", -1, -5)],
            "meetings": [{"link": f"{evil} -> b", "flows": 2, "keys": [evil]}],
            "problems": ["the clock is behind", f"OpenSM does not run {evil}"],
            "subnet": server.state["subnet"] | {"missing_cables": ["leaf1[3] - spine2[1]"]},
        }  # fmt: skip
        row = tab.locator("#applications tr").first
        expect(row).to_contain_text(f"no LID left {evil}")
        assert row.locator(".badge").all_inner_texts() == ["1 ready", "1 failed", "1 in use"]
        expect(tab.locator("#applications tr").nth(1)).to_contain_text("cable died")
        expect(tab.locator("#notice-problems")).to_contain_text("clock is behind; OpenSM does not")
        expect(tab.locator("#subnet")).to_contain_text("missing cables: 1")
        expect(tab.locator("#subnet")).to_contain_text("leaf1[3] - spine2[1]")
        cells = tab.locator("#grants tr").nth(0).locator("td").all_inner_texts()
        assert cells[1:3] == ["0", "1 h 01 min"]
        assert cells[3].startswith("1 min ")
        assert tab.locator("#grants tr").nth(1).locator("td").all_inner_texts()[1::2] == [
            "base routes", "over"
        ]  # fmt: skip
        assert tab.locator("img").count() == 0
        # Lease times go on without a new state.
        expect(tab.locator("#grants tr").first.locator("td").nth(3)).not_to_have_text(cells[3])
        assert server.asked <= 3
        server.state |= {"version": 3, "problems": []}
        expect(tab.locator("#notice-problems")).to_have_count(0)


def test_all_is_reached_by_keyboard_and_named(browser: Browser, stub: tuple[Stub, str]) -> None:
    server, url = stub
    link = {"link": "a -> b", "flows": 2, "keys": ["one/x"]}
    server.state |= {
        "applications": [{"name": "one", "hosts": ["h0"], "keys": [key("x", granted=True)]}],
        "grants": [granted("one", "x")], "meetings": [link], "base_meetings": [link],
        "contention": 2, "base_contention": 2,
    }  # fmt: skip
    with opened(browser, url, reduced_motion="reduce", color_scheme="dark") as tab:
        expect(tab.locator("#grants tr")).to_have_count(1)
        order = []
        for _ in range(9):
            tab.keyboard.press("Tab")
            order.append(
                tab.evaluate(
                    """() => { const e = document.activeElement; return e.id || e.className
                    || e.getAttribute("aria-label") || e.tagName; }"""
                )
            )
        assert order == [
            "skip", "filter", "pause", "scroll", "scroll tall", "scroll tall", "scroll",
            "1 phase of one", "BODY",
        ]  # fmt: skip
        tab.keyboard.press("Tab")
        tab.keyboard.press("Enter")
        assert tab.evaluate("() => document.activeElement.id") == "grants-title"
        # Every table has a caption and headings with scope; every region has a name.
        bare = """() => [...document.querySelectorAll("table")].filter((t) => !t.caption
            || [...t.querySelectorAll("th")].some((h) => !h.scope)).length"""
        assert tab.evaluate(bare) == 0
        for role in ("region", "status", "table"):
            assert tab.get_by_role(role).count() > 0
        nameless = """() => [...document.querySelectorAll("[role=region]")].filter((r) =>
            !document.getElementById(r.getAttribute("aria-labelledby"))?.textContent.trim()).length"""
        assert tab.evaluate(nameless) == 0
        assert tab.evaluate("() => getComputedStyle(document.body).backgroundColor") == (
            "rgb(14, 18, 22)"
        )
        tab.set_viewport_size({"width": 320, "height": 700})
        assert tab.evaluate("() => document.documentElement.scrollWidth") == 320


def test_a_thousand_applications(browser: Browser, stub: tuple[Stub, str]) -> None:
    server, url = stub
    phases = [f"phase-{number}" for number in range(6)]

    def applications(state: str) -> list[Any]:
        return [
            {
                "name": f"job-{number}",
                "hosts": [f"h{16 * number + rank}" for rank in range(16)],
                "keys": [key(phase, state, granted=phase == "phase-0") for phase in phases],
            }
            for number in range(1000)
        ]

    server.state |= {
        "applications": applications("making"),
        "grants": [granted(f"job-{number}", "phase-0") for number in range(1000)],
    }
    with opened(browser, url) as tab:
        expect(tab.locator("#applications tr")).to_have_count(100)
        expect(tab.locator("#grants tr")).to_have_count(100)
        expect(tab.locator("#applications-text")).to_have_text(
            "1\u202f000 applications; the first 100 are shown."
        )
        # A state in which everything has changed costs the work for the rows that are shown.
        tab.evaluate(
            """() => {
                window.added = 0;
                const count = (node) => 1 + [...node.childNodes].reduce((n, c) => n + count(c), 0);
                new MutationObserver((records) => {
                    for (const record of records)
                        for (const node of record.addedNodes) window.added += count(node);
                }).observe(document.body, { childList: true, subtree: true });
            }"""
        )
        for version in range(2, 6):
            state = "ready" if version % 2 else "making"
            server.state |= {"version": version, "applications": applications(state)}
            expect(tab.locator("html")).to_have_attribute("data-version", str(version))
        assert 0 < tab.evaluate("() => window.added") < 4 * 1000
        expect(tab.locator("#applications .badge").first).to_have_text("6 ready")
        tab.fill("#filter", "JOB-77")
        expect(tab.locator("#grants tr")).to_have_count(11)
        tab.fill("#filter", "h15999")
        expect(tab.locator("#applications th")).to_have_text("job-999")
        expect(tab.locator("#applications-text")).to_have_text(
            "1 of 1\u202f000 applications fit the filter."
        )
