"""`ui`: the dashboard of a worker with 1,000 connectors: time to content, updates, bytes, and idle cost.

The connectors are those of `create1000` on a standalone worker; pages are opened in the Chromium of the tests. A visit
opens `/ui/` in a new Chromium with a new profile and an empty cache. The bytes of a visit are those that Chromium
received, compressed and with headers. These visits alternate with visits of `/`, which is a line of JSON; the latter
show the cost of the browser itself. An update is the time from just before `PUT /connectors/{name}/pause` or `resume`
until the new state is in the page, which shows the first 50 connectors. The idle cost is the CPU time of the worker and
its child processes over 60 s with five open pages, minus the CPU time without pages. There are no other requests during
these measurements.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import sync_playwright

from scripts.bench.data.busy100 import Row, cases
from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target, percentile
from scripts.harness.processes import wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.workers import START_TIMEOUT_S, Worker
from tests.integration.ui.browser import run_browser
from tests.integration.ui.chromium import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CONNECTORS: Final = 1000
QUICK_CONNECTORS: Final = 100
PAGES: Final = 5
ROWS: Final[tuple[Row, ...]] = (
    ("first byte of the list, median", "ms", Target()),
    ("first contentful paint of the list, median", "ms", Target(limit=300)),
    ("first contentful paint of the list, 90 % within", "ms", Target(limit=300)),
    ("first contentful paint of a one-line page, median", "ms", Target()),
    ("first contentful paint of a one-line page, 90 % within", "ms", Target()),
    ("update of one connector, median", "ms", Target()),
    ("update of one connector, maximum", "ms", Target(limit=1000)),
    ("bytes received on the first visit", "KB", Target(limit=200)),
    ("CPU without pages", "cores", Target()),
    ("additional CPU of five idle pages", "cores", Target(limit=0.05)),
)
GET_PAINT_TIMES: Final = """() => new Promise(done => {
    const paint = () => performance.getEntriesByName("first-contentful-paint")[0];
    const wait = () => paint()
        ? done([performance.getEntriesByType("navigation")[0].responseStart, paint().startTime])
        : setTimeout(wait, 5);
    wait();
})"""
"""JavaScript that waits for the first content and resolves with the times of the first byte and the first content."""
WATCH: Final = """([name, state]) => {
    const isShown = () => {
        const row = [...document.querySelectorAll("tr[data-row]")]
            .find(each => each.querySelector("th a").textContent === name);
        return row?.querySelector(".state").textContent.trim() === state;
    };
    window.kraalSeen = new Promise(done => {
        const check = () => { if (isShown()) { observer.disconnect(); done(Date.now()); } };
        const observer = new MutationObserver(check);
        observer.observe(document.body, {subtree: true, childList: true, characterData: true});
        check();
    });
}"""
"""JavaScript that sets `window.kraalSeen` to a promise of the time at which a row shows a state."""


def run(lab: Lab) -> list[Case]:
    """Measure Kraal; Java's workers have no dashboard."""
    if "kraal" not in lab.options.sides:
        return []
    worker = lab.start_warm(("kraal",))["kraal"]
    count = QUICK_CONNECTORS if lab.options.quick else CONNECTORS
    create_connectors(lab, worker, count)
    cores_without_pages = _measure_idle_cores(lab, worker)
    with sync_playwright() as playwright:
        visits: list[dict[str, Any]] = []
        plain_visits: list[dict[str, Any]] = []
        for _ in range(lab.options.times(10, 3)):
            for path, results in (("/ui/", visits), ("/", plain_visits)):
                with run_browser(chromium(), playwright) as browser:
                    results.append(_measure_visit(browser, worker, path))
        with run_browser(chromium(), playwright) as browser:
            page = _open(browser, worker)
            updates = [_measure_update(page, worker, number) for number in range(lab.options.times(20, 4))]
        with run_browser(chromium(), playwright) as browser:
            for _ in range(PAGES):
                _open(browser, worker)
            with_pages = _measure_idle_cores(lab, worker)
    for visit in visits:
        say(f"visit: first byte {visit['byte_ms']:.0f} ms, first content {visit['content_ms']:.0f} ms")
    contents = [visit["content_ms"] for visit in visits]
    figures = [
        percentile([visit["byte_ms"] for visit in visits], 50),
        percentile(contents, 50),
        percentile(contents, 90),
        percentile([visit["content_ms"] for visit in plain_visits], 50),
        percentile([visit["content_ms"] for visit in plain_visits], 90),
        percentile(updates, 50),
        max(updates),
        max(visit["bytes"] for visit in visits) / 1000,
        cores_without_pages,
        max(0.0, with_pages - cores_without_pages),
    ]
    say(", ".join(f"{figure:,.4g}" for figure in figures))
    return cases(ROWS, {"kraal": figures})


def create_connectors(lab: Lab, worker: Worker, count: int) -> None:
    """Create idle connectors, and wait until all of them run."""
    topic, names = lab.topic("many"), [f"many-{number:04d}" for number in range(count)]
    say(f"creating {count} connectors")
    for name in names:
        worker.rest.create(name, source_config(lab.file(1), topic))
    wait_until(
        f"{count} connectors ran",
        lambda: (
            (statuses := worker.rest.statuses()).keys() >= set(names)
            and all(map(is_fully_running, statuses.values()))
        ),
        timeout_s=START_TIMEOUT_S,
        every_s=0.2,
        program=worker.process,
    )


def _open(browser: Browser, worker: Worker) -> Page:
    page = browser.new_context().new_page()
    page.goto(f"{worker.rest.url}/ui/")
    page.locator("tr[data-row]").first.wait_for()
    return page


def _measure_visit(browser: Browser, worker: Worker, path: str) -> dict[str, Any]:
    """Return the milliseconds until the first byte and the first content, and the number of received bytes."""
    page = browser.new_context().new_page()
    response_sizes = []
    debugger = page.context.new_cdp_session(page)
    debugger.on("Network.loadingFinished", lambda event: response_sizes.append(event["encodedDataLength"]))
    debugger.send("Network.enable")
    page.goto(f"{worker.rest.url}{path}", wait_until="load")
    byte_ms, content_ms = page.evaluate(GET_PAINT_TIMES)
    page.wait_for_timeout(1000)  # for requests of scripts after the page has loaded
    return {"byte_ms": byte_ms, "content_ms": content_ms, "bytes": sum(response_sizes)}


def _measure_update(page: Page, worker: Worker, number: int) -> float:
    """Return the milliseconds from a request until the page shows its effect."""
    action, state = ("resume", "running") if number % 2 else ("pause", "paused")
    name = "many-0000"
    page.evaluate(WATCH, [name, state])
    start_s = time.time()
    worker.rest.put(name, action)
    appeared_ms = page.evaluate("() => window.kraalSeen")
    time.sleep(1.0)  # so that updates are not merged
    return float(appeared_ms - start_s * 1000)


def _measure_idle_cores(lab: Lab, worker: Worker) -> float:
    time.sleep(lab.options.times(20, 2))
    before, start_s = worker.process.usage(), time.monotonic()
    time.sleep(lab.options.times(60, 5))
    after, elapsed_s = worker.process.usage(), time.monotonic() - start_s
    return (after.cpu_s - before.cpu_s) / elapsed_s
