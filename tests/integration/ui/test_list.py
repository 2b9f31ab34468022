"""Tests for the list of connectors and its updates after changes in the cluster."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import ConnectorName, State, TargetState, TaskId, WorkerId
from kraal.metrics.task import TaskMeter
from kraal.metrics.windows import Windows
from scripts.harness.processes import wait_until
from tests.integration.ui.stage.scene import (
    CAUSE,
    FAILING_SINK,
    ORDERS,
    RUNNING,
    SINK,
    SOURCE,
    STOPPED_SOURCE,
    Scene,
    page_url,
)
from tests.integration.ui.stage.screens import set_checked
from tests.unit.web.api import Api, status
from tests.unit.web.workers import worker as group_worker
from web.streams import METRICS

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Locator, Page, Route

    from tests.integration.ui.visitor import Visitor

LINE_COUNT: Final = 500
HIGH_RATE: Final = 5
"""A rate in records per second that is reached only by writing `LINE_COUNT` records within the measured minute."""


def find_row(page: Page, name: str) -> Locator:
    return page.locator("tr[data-row]").filter(has=page.get_by_role("link", name=name, exact=True))


def find_names(page: Page) -> Locator:
    return page.locator("tr[data-row] th a")


def test_failed_connector_is_listed_first_with_its_cause(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    expect(find_names(page).first).to_have_text(FAILING_SINK)
    expect(find_row(page, FAILING_SINK)).to_contain_text("failed")
    expect(find_row(page, FAILING_SINK)).to_contain_text(CAUSE)
    expect(find_row(page, STOPPED_SOURCE)).to_contain_text("stopped")
    expect(find_row(page, SOURCE)).to_contain_text("1 running")
    trace = scene.get(f"/connectors/{FAILING_SINK}/status")["tasks"][0]["trace"]
    assert trace.startswith(CAUSE)


def test_list_can_be_filtered_searched_and_shared_by_url(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    page.get_by_role("link", name=re.compile("1 failed")).click()
    expect(page).to_have_url(re.compile("state=failed"))
    expect(find_names(page)).to_have_text([FAILING_SINK])
    page = visitor.open(scene.page(), beside=page)
    page.get_by_role("searchbox").press_sequentially("ORDERS-")
    expect(page.locator("tr[data-row]")).to_have_count(2)
    expect(page).to_have_url(re.compile("q=ORDERS-"))
    assert sorted(find_names(visitor.open(page.url, beside=page)).all_inner_texts()) == [SINK, SOURCE]
    page.get_by_label("Type").select_option("sink")
    expect(find_names(page)).to_have_text([SINK])
    page.get_by_role("searchbox").fill("no such connector")
    expect(page.get_by_text("No connector matches.")).to_be_visible()
    page.get_by_role("link", name=re.compile("Show all")).click()
    expect(find_row(page, FAILING_SINK)).to_be_visible()


def test_change_is_displayed_without_a_reload(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    expect(find_row(page, SOURCE)).to_contain_text("running")
    page.wait_for_timeout(500)
    try:
        for action, states, text in (("pause", ["PAUSED"] * 2, "paused"), ("resume", RUNNING, "running")):
            assert scene.worker.ask("PUT", f"/connectors/{SOURCE}/{action}").status == 202
            scene.wait_for_states(SOURCE, *states)
            expect(find_row(page, SOURCE).locator(".state")).to_have_text(text)
    finally:
        scene.cluster.resume(SOURCE)


ONLY_METRICS_OF_THE_SINK: Final = f"""
delete window.SharedWorker;
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (kind, hear) {{
  return listen.call(this, kind, (event) => {{
    const {{ kinds, names }} = JSON.parse(event.data);
    const isOfTheSink = kind === "changed" && kinds.includes("numbers") && names && names.includes("{SINK}");
    if (kind === "hello" || isOfTheSink) hear(event);
  }});
}};"""
"""Hides other changes from a page, because every change refreshes all metrics of the list."""


def test_list_shows_metrics_of_another_worker(scene: Scene, visitor: Visitor) -> None:
    (task,) = scene.get(f"/connectors/{SINK}/status")["tasks"]
    other_worker = next(
        worker for worker in scene.cluster.workers if not worker.url.endswith(task["worker_id"])
    )
    page = visitor.open("about:blank")
    page.add_init_script(ONLY_METRICS_OF_THE_SINK)
    with page.expect_response(lambda response: "part=list" in response.url):
        page.goto(page_url(other_worker.url))
    rate = find_row(page, SINK).locator("td[data-label='Records/s']")
    assert float(rate.inner_text()) < HIGH_RATE
    order_count = len(scene.orders_in_kafka())
    lines = [f"order {order_count + number}" for number in range(LINE_COUNT)]
    scene.write_orders(*lines)
    scene.wait_until("the orders were written", lambda: scene.orders_out()[-LINE_COUNT:] == lines)
    expect(rate).to_have_text(re.compile(r"^([5-9]|[1-9]\d{1,2})(\.\d+)?$"))


@pytest.mark.ci
def test_list_and_connector_page_follow_metrics_of_another_worker(visitor: Visitor) -> None:
    with group_worker() as first_worker, group_worker() as second_worker:
        worker_ids = [WorkerId(urlsplit(dashboard.url).netloc) for dashboard in (first_worker, second_worker)]
        running_status = replace(status(State.RUNNING), worker_id=worker_ids[1])
        for worker, worker_id in zip((first_worker, second_worker), worker_ids, strict=True):
            worker.api.herder.publish(worker_id=worker_id)
            worker.api.herder.put(
                "orders",
                {},
                tasks=1,
                statuses=ConnectorStatuses(connector=running_status, tasks={0: running_status}),
            )
        task = TaskId(ConnectorName("orders"), 0)
        meter = TaskMeter(
            task,
            is_source=False,
            time=second_worker.api.clock,
            windows=Windows(),
            publish=second_worker.api.metrics.publish,
        )
        second_worker.api.metrics.record_start(task)
        meter.record_state(State.RUNNING)
        list_page = visitor.open(page_url(first_worker.url.rstrip("/")))
        connector_page = visitor.open(
            page_url(first_worker.url.rstrip("/"), "connectors", "orders"), beside=list_page
        )
        wait_until(
            "the page followed the other worker",
            lambda: second_worker.api.apps.streams.reader_count > 0,
            timeout_s=10,
        )
        for backlog in (2345, 17):
            second_worker.api.metrics.record_backlog(task, backlog)
            second_worker.api.apps.streams.notify_all(METRICS, ["orders"])
            for page in (list_page, connector_page):
                backlog_cell = page.locator("td[data-label='Backlog']").first
                expect(backlog_cell).to_have_text(str(backlog))
        visitor.close()


def test_created_and_deleted_connectors_appear_and_disappear(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    expect(find_row(page, SOURCE)).to_be_visible()
    config = {"connector.class": "FileStreamSource", "topic": ORDERS, "file": "/nowhere"}
    scene.cluster.create("a-new-one", config, state="STOPPED")
    expect(find_row(page, "a-new-one")).to_contain_text("stopped")
    scene.cluster.delete("a-new-one")
    expect(find_row(page, "a-new-one")).to_have_count(0)


def test_list_works_with_the_keyboard(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("k")
    expect(page.get_by_role("searchbox")).to_have_value("k")  # a character, not a command
    page.keyboard.press("Backspace")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(find_row(page, FAILING_SINK).get_by_role("link", name=FAILING_SINK)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(FAILING_SINK)
    page.wait_for_load_state()  # the scripts have run
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", level=1)).to_have_text("Connectors")


def test_list_works_without_scripts(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page(), java_script_enabled=False)
    expect(find_names(page).first).to_have_text(FAILING_SINK)
    page.get_by_role("searchbox").fill("archive")
    page.get_by_role("button", name="Search").click()
    expect(find_names(page)).to_have_text([STOPPED_SOURCE])
    page.get_by_role("link", name=STOPPED_SOURCE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(STOPPED_SOURCE)


TAB_COUNT: Final = 7
"""One more than the maximum number of connections to an HTTP/1.1 server."""


@pytest.mark.ci
def test_many_tabs_follow_changes_over_one_connection(api_and_url: tuple[Api, str], visitor: Visitor) -> None:
    api, url = api_and_url
    api.herder.put("orders", {"connector.class": "x"})
    first_page = visitor.open(page_url(url))
    pages = [first_page, *(visitor.open(page_url(url), beside=first_page) for _ in range(TAB_COUNT - 1))]
    assert not any(page.evaluate("document.hidden") for page in pages)
    for name in ("second", "third"):
        api.herder.put(name, {"connector.class": "x"})
        for page in pages:
            expect(find_row(page, name)).to_be_visible()
            expect(page.locator("#away")).to_be_hidden()
    expect(visitor.open(page_url(url, "connectors", "third"), beside=first_page).locator("h1")).to_have_text(
        "third"
    )


@pytest.mark.slow
def test_tabs_follow_changes_without_shared_workers(api_and_url: tuple[Api, str], visitor: Visitor) -> None:
    api, url = api_and_url
    page = visitor.open("about:blank")
    page.add_init_script("delete window.SharedWorker")
    page.goto(page_url(url))
    expect(page.get_by_text("This cluster has no connectors yet.")).to_be_visible()
    api.herder.put("orders", {"connector.class": "x"})
    expect(find_row(page, "orders")).to_be_visible()


AFTER_A_CHANGE: Final = """new Promise((resolve) => {
  kraal.changed(["states"]);
  setTimeout(resolve, 600);
})"""
"""Sends a change to the page, and resolves after the page has passed the change on to its parts."""


@pytest.mark.ci
def test_change_during_a_pending_request_is_displayed(api_and_url: tuple[Api, str], visitor: Visitor) -> None:
    api, url = api_and_url
    page = visitor.open("about:blank")
    pending_requests: list[tuple[Route, APIResponse]] = []
    page.route("**/*part=list*", lambda route: pending_requests.append((route, route.fetch())), times=1)
    page.goto(page_url(url), wait_until="commit")
    while not pending_requests:
        page.wait_for_timeout(10)
    api.herder.put("orders", {"connector.class": "x"})
    page.evaluate(AFTER_A_CHANGE)
    [(route, response)] = pending_requests
    route.fulfill(response=response)
    expect(find_row(page, "orders")).to_be_visible()


DELAY_FRAMES: Final = """
window.pendingFrames = [];
window.requestAnimationFrame = (draw) => window.pendingFrames.push(draw);
const { SharedWorker } = window;
window.SharedWorker = function (...args) {
  window.isStreamOpened = true;
  return new SharedWorker(...args);
};"""
"""Delays the frames of a page, and records when it opens the stream."""


@pytest.mark.ci
def test_page_is_displayed_before_its_stream_starts(api_and_url: tuple[Api, str], visitor: Visitor) -> None:
    api, url = api_and_url
    page = visitor.open("about:blank")
    page.add_init_script(DELAY_FRAMES)
    page.goto(page_url(url), wait_until="load")
    assert not page.evaluate("window.isStreamOpened")
    page.evaluate("window.pendingFrames.forEach((draw) => draw())")
    page.wait_for_function("window.isStreamOpened")
    api.herder.put("orders", {"connector.class": "x"})
    expect(find_row(page, "orders")).to_be_visible()


def list_paused(api: Api) -> list[str]:
    connectors = api.published.latest.config.connectors
    return sorted(name for name, connector in connectors.items() if connector.target is TargetState.PAUSED)


@pytest.mark.ci
def test_selection_of_all_matches_survives_list_changes(
    api_and_url: tuple[Api, str], visitor: Visitor
) -> None:
    api, url = api_and_url
    names = [f"copy-{number:02d}" for number in range(60)]
    for name in ["orders", *names]:
        api.herder.put(name, {"connector.class": "x"})
    page = visitor.open(f"{page_url(url, 'connectors')}?q=copy-")
    select_matching, bulk = page.get_by_label("Select all 60 connectors that match"), page.locator("#bulk")
    set_checked(page.get_by_label("Select copy-07", exact=True))
    expect(select_matching).to_be_hidden()
    page.get_by_role("button", name="Select all").click()
    expect(bulk).to_contain_text("50 selected")
    set_checked(select_matching)
    expect(bulk).to_contain_text("60 selected")
    api.herder.put("copy-99", {"connector.class": "x"})
    expect(page.get_by_label("Select all 61 connectors that match")).to_be_checked()
    expect(bulk).to_contain_text("61 selected")
    api.herder.remove("copy-99")
    expect(select_matching).to_be_checked()
    set_checked(page.get_by_label("Select copy-07", exact=True), is_checked=False)
    expect(bulk).to_contain_text("49 selected")
    expect(select_matching).to_be_hidden()
    page.get_by_role("button", name="Select all").click()
    set_checked(select_matching)
    bulk.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Pause 60 connectors (copy-00, copy-01,")
    assert list_paused(api) == []
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-result]")).to_contain_text("60 done")
    assert list_paused(api) == names


@pytest.mark.slow
def test_all_matches_can_be_selected_without_scripts(api_and_url: tuple[Api, str], visitor: Visitor) -> None:
    api, url = api_and_url
    names = [f"copy-{number:02d}" for number in range(60)]
    for name in ["orders", *names]:
        api.herder.put(name, {"connector.class": "x"})
    visitor.expect("409")
    page = visitor.open(f"{page_url(url, 'connectors')}?q=copy-", java_script_enabled=False)
    page.get_by_label("Select all 60 connectors that match").check()
    page.locator("#bulk").get_by_role("button", name="Pause").click()
    api.herder.remove("copy-30")
    page.get_by_role("button", name="Pause (60)").click()
    expect(page.get_by_role("alert")).to_contain_text("1 connector no longer matches (copy-30).")
    assert list_paused(api) == []
    page.get_by_role("button", name="Pause (59)").click()
    expect(page.locator("[data-result]")).to_contain_text("59 done")
    assert list_paused(api) == [name for name in names if name != "copy-30"]


PRESS_AFTER_SWAP: Final = """() => {
  window.pressed = new Promise((resolve) => document.body.addEventListener("htmx:afterSwap", () => setTimeout(() => {
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "x", bubbles: true }));
    resolve(document.querySelectorAll("tr[data-row]").length);
  }), { once: true }));
}"""
"""Presses x in the first JavaScript task after the next swap, and resolves to the current number of rows."""


def test_keys_act_on_the_same_row_after_a_refresh(api_and_url: tuple[Api, str], visitor: Visitor) -> None:
    api, url = api_and_url
    api.herder.put("orders", {"connector.class": "x"})
    page = visitor.open(page_url(url))
    api.herder.put("second", {"connector.class": "x"})
    expect(
        find_row(page, "second")
    ).to_be_visible()  # a response with the same rows would not replace the list
    find_row(page, "orders").get_by_role("link", name="orders", exact=True).focus()
    page.keyboard.press("x")
    expect(page.get_by_label("Select orders", exact=True)).to_be_checked()
    page.evaluate(PRESS_AFTER_SWAP)
    api.herder.put("third", {"connector.class": "x"})
    assert page.evaluate("window.pressed") == 3
    expect(page.get_by_label("Select orders", exact=True)).to_be_checked(checked=False)
    find_row(page, "second").locator("[data-key=r]").focus()
    api.herder.put("second", {"connector.class": "x"}, TargetState.PAUSED)
    expect(find_row(page, "second").locator("[data-key=r]")).to_have_count(0)
    expect(page.get_by_role("link", name="second", exact=True)).to_be_focused()


@pytest.mark.slow
def test_every_documented_key_works(api_and_url: tuple[Api, str], visitor: Visitor) -> None:
    api, url = api_and_url
    api.herder.put("orders", {"connector.class": "x"})
    page = visitor.open(page_url(url))
    link = page.get_by_role("link", name="orders", exact=True)
    page.keyboard.press("j")
    for selected in (True, False):
        page.keyboard.press("x")
        expect(page.get_by_label("Select orders", exact=True)).to_be_checked(checked=selected)
    dialog = page.get_by_role("dialog")
    for key, title in (("r", "Restart orders"), ("p", "Pause orders"), ("s", "Stop orders")):
        if key == "s":
            link.press("Enter")
            expect(page.get_by_role("heading", level=1)).to_have_text("orders")
            page.wait_for_load_state()  # scripts run after the heading is shown
        else:
            link.focus()
        page.keyboard.press(key)
        expect(dialog).to_contain_text(title)
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
    page.keyboard.press("e")
    page.wait_for_url(page_url(url, "connectors", "orders", "edit"))
    for key, title in (("w", "Cluster"), ("p", "Plugins"), ("e", "Events"), ("c", "Connectors")):
        page.get_by_role("heading", level=1).click()
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        page.wait_for_load_state()
