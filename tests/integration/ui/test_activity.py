"""Tests for browser features of the activity pages: charts, dialogs and keys. The worker's responses are canned."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from typing_extensions import override

from scripts.harness.processes import wait_until
from tests.integration.ui.stage.axe import violations, violations_in_both_schemes
from tests.integration.ui.stage.dashboard import dashboard
from tests.integration.ui.stage.scene import UPDATES_PICTURES
from tests.integration.ui.visitor import WAIT_MS, Visitor
from tests.unit.web.ui.activity import NAME, canned_responses
from tests.unit.web.ui.canned import CannedSource
from web.ui.sources.api import Caller, Change, ChangeEvent, RequestRejected

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from playwright.sync_api import Page

pytestmark = pytest.mark.ci

SCREENSHOT = Path(__file__).parents[3] / "docs" / "dashboard" / "table.png"
PAGES = ("tasks/0", "history", "charts", "logs", "topics", "table", "letters")
INVALID_LANGUAGE = """Object.defineProperty(Navigator.prototype, "language",
    {get() { return "en-US@posix" }, configurable: true})"""


class Worker(CannedSource):
    """A worker whose stream of changes the test controls."""

    changed: asyncio.Queue[Change]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._followed = threading.Event()

    @override
    async def changes(self, caller: Caller) -> AsyncGenerator[Change, None]:
        self.changed, self.loop = asyncio.Queue(), asyncio.get_running_loop()
        self._followed.set()
        yield Change(ChangeEvent.CONNECTED)
        while True:
            yield await self.changed.get()

    def send_change(self, kind: str) -> None:
        """Send a change of a kind to all pages, once a page reads the stream."""
        assert self._followed.wait(WAIT_MS / 1000), "no page followed the changes"
        change = Change(ChangeEvent.CHANGED, kinds=frozenset({kind}))
        self.loop.call_soon_threadsafe(self.changed.put_nowait, change)


@pytest.fixture
def worker() -> Worker:
    """Return a worker with a connector whose task has failed."""
    return Worker(canned_responses())


@pytest.fixture
def url(worker: Worker) -> Iterator[str]:
    """Serve a dashboard, and yield the URL of the connector's page. Must be requested before `visitor`."""
    with dashboard(worker) as address:
        yield f"{address}/ui/connectors/{NAME}"


def find_plots(page: Page) -> Any:
    return page.locator("figure.drawn .uplot")


def test_charts_follow_metrics_and_show_values_under_the_pointer(
    worker: Worker, url: str, visitor: Visitor
) -> None:
    page = visitor.open(f"{url}/charts")
    expect(find_plots(page)).to_have_count(3)
    page.evaluate("document.querySelector('.uplot').dataset.first = 'yes'")
    rate = page.locator("figure[data-chart=rate]")
    expect(rate.locator("[data-value]")).to_have_text("2")

    worker.responses[f"/connectors/{NAME}/series"]["tasks"][0]["records_per_second"] = [1, None, 2, 70]
    worker.send_change("numbers")
    expect(rate.locator("[data-value]")).to_have_text("70")
    expect(find_plots(page)).to_have_count(3)
    expect(rate.locator(".uplot[data-first=yes]")).to_have_count(1)

    plot_area = rate.locator(".u-over")
    plot_area.hover(position={"x": 2, "y": 20})
    expect(rate.locator("[data-value]")).to_have_text("1")
    expect(rate.locator("[data-at]")).to_have_text("01:01:00")
    page.mouse.move(1, 1)
    expect(rate.locator("[data-value]")).to_have_text("70")


def test_charts_are_redrawn_when_phases_are_no_longer_stacked(
    worker: Worker, url: str, visitor: Visitor
) -> None:
    task = worker.responses[f"/connectors/{NAME}/series"]["tasks"][0]
    task["commit_ms"] = [5, None, 5]
    page = visitor.open(f"{url}/charts")
    phases = page.locator("figure[data-chart=phases]")
    stacked_plots = phases.locator(".uplot[data-stacked=true]")
    expect(stacked_plots).to_have_count(1)
    task["commit_ms"] = [None, 5, None]
    worker.send_change("numbers")
    expect(phases.locator(".uplot")).to_have_count(1)
    expect(stacked_plots).to_have_count(0)


def test_charts_are_drawn_despite_an_invalid_browser_language(url: str, visitor: Visitor) -> None:
    page = visitor.open(f"{url}/topics")
    page.context.add_init_script(INVALID_LANGUAGE)
    expect(find_plots(visitor.open(f"{url}/charts", beside=page))).to_have_count(3)


def test_charts_are_svg_lines_without_scripts(url: str, visitor: Visitor) -> None:
    page = visitor.open(f"{url}/charts", java_script_enabled=False)
    expect(page.locator("figure svg path")).to_have_count(3)
    expect(page.locator("figure svg").first).to_be_visible()


def test_times_are_local_with_utc_on_hover(url: str, visitor: Visitor) -> None:
    timestamp = visitor.open(f"{url}/history").locator(".timeline tbody time").first
    expect(timestamp).to_have_text("1 Jan 1970, 01:00:03")
    expect(timestamp).to_have_attribute("title", "1970-01-01 00:00:03 UTC")
    page_without_scripts = visitor.open(f"{url}/history", java_script_enabled=False)
    expect(page_without_scripts.locator(".timeline tbody time").first).to_have_text("1970-01-01 00:00:03 UTC")


def test_dead_letters_are_replayed_with_the_keyboard(worker: Worker, url: str, visitor: Visitor) -> None:
    page = visitor.open(f"{url}/letters")
    page.locator("#replay-limit").focus()
    page.keyboard.type("20")
    page.keyboard.press("Enter")
    expect(page.locator("dialog#ask h2")).to_have_text(f"Replay 15 dead letters of {NAME}?")
    assert violations_in_both_schemes(page) == []
    page.locator("dialog#ask button.main").press("Enter")
    expect(page.locator("[data-result]")).to_contain_text("15 records written to clicks (3) and orders (12)")
    assert violations_in_both_schemes(page) == []
    sent_bodies = [body for method, _, _, body in worker.requests if method == "POST"]
    replay_request = {"limit": 15, "dry_run": False, "from": {"0": 17, "3": 5}}
    assert sent_bodies == [{"limit": 20, "dry_run": True}, replay_request]


def test_open_trace_stays_open_when_the_history_grows(worker: Worker, url: str, visitor: Visitor) -> None:
    page = visitor.open(f"{url}/tasks/0")
    page.locator(".timeline details summary").first.click()
    new_state = {
        "ms": 9_000,
        "task": 0,
        "state": "PAUSED",
        "worker_id": "w:1",
        "cause": "paused",
        "by": "PUT from x",
    }
    worker.responses[f"/connectors/{NAME}/history"]["states"].insert(0, new_state)
    worker.send_change("history")
    expect(page.locator(".timeline tbody tr")).to_have_count(5)
    expect(page.locator(".timeline details[open] pre")).to_be_visible()


def test_page_part_is_requested_again_after_a_rejection(worker: Worker, url: str, visitor: Visitor) -> None:
    visitor.expect("409")
    page = visitor.open(f"{url}/topics")
    wait_until("the page listened", lambda: hasattr(worker, "loop"), timeout_s=10, every_s=0.05)
    path = f"/connectors/{NAME}/config"
    config, worker.responses[path] = (
        worker.responses[path],
        RequestRejected(409, "A rebalance is in progress."),
    )
    worker.send_change("topics")
    expect(page.locator("#old")).to_have_text("This page is not up to date. A rebalance is in progress.")
    worker.responses[path] = config
    expect(page.locator("#old")).to_be_hidden()


def test_table_is_updated_after_a_commit(worker: Worker, url: str, visitor: Visitor) -> None:
    page = visitor.open(f"{url}/table")
    expect(page.locator(".facts")).to_contain_text("1,234,567")
    worker.responses[f"/connectors/{NAME}/tables"]["tables"][0]["rows"] = 1_234_568
    worker.send_change("numbers")
    expect(page.locator(".facts")).to_contain_text("1,234,568")


if UPDATES_PICTURES:

    def test_screenshot_of_a_table_is_created(worker: Worker, url: str, visitor: Visitor) -> None:
        tables = worker.responses[f"/connectors/{NAME}/tables"]
        tables["silent"] = []
        fill_in(tables["tables"][0])
        page = visitor.open(f"{url}/table", width=1200, height=760)
        page.screenshot(path=SCREENSHOT)

    def fill_in(table: dict[str, Any]) -> None:
        """Replace the canned values by those of a table that follows a database."""
        now_ms = 1_795_000_000_000
        table |= {"table": "shop.orders", "format": "iceberg", "version": "7", "reported_ms": now_ms}
        table["columns"] = [
            {"name": name, "type": kind}
            for name, kind in {"id": "int32", "amount": "decimal128(10, 2)", "note": "string"}.items()
        ]
        place = {"topic": "shop.public.orders", "partition": 0}
        table["partitions"] = [{**part, **place} for part in table["partitions"]]
        offset = 12_345
        table["commits"] = [
            {
                **table["commits"][0],
                "version": str(7 - number),
                "time_ms": now_ms - 2000 * number,
                "operation": "overwrite",
                "offsets": [{**place, "offset": offset - 60 * number}],
            }
            for number in range(3)
        ]
        change = {**table["schema_changes"][0], "version": "5", "time_ms": now_ms - 4000}
        table["schema_changes"] = [
            {
                **change,
                "column": "note",
                "new_type": "string",
                "record": f"shop.public.orders-0@{offset - 130}",
            }
        ]


@pytest.mark.parametrize("is_dark", [False, True])
def test_activity_pages_are_accessible_and_fit_a_phone(url: str, visitor: Visitor, *, is_dark: bool) -> None:
    for path in PAGES:
        page = visitor.open(f"{url}/{path}", is_dark=is_dark, width=390)
        assert violations(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
