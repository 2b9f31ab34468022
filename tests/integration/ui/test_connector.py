"""Tests for the page of a connector: tasks, causes of failures, and record counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.integration.ui.stage.axe import violations_in_both_schemes
from tests.integration.ui.stage.scene import (
    CAUSE,
    FAILING_SINK,
    SECRET,
    SINK,
    SOURCE,
    STOPPED_SOURCE,
    Scene,
    page_url,
)

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor


def test_failed_task_shows_cause_and_trace_on_demand(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("connectors", FAILING_SINK))
    trace = scene.get(f"/connectors/{FAILING_SINK}/status")["tasks"][0]["trace"]
    assert trace.startswith(CAUSE)
    expect(page.locator(".cause").first).to_contain_text(CAUSE)
    trace_element = page.locator("details.trace pre")
    expect(trace_element).to_be_hidden()
    page.get_by_text("Trace", exact=True).click()
    expect(trace_element).to_be_visible()
    assert trace_element.inner_text().strip() == trace.strip()
    assert SECRET not in page.content()


def test_open_trace_stays_open_when_the_page_is_updated(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("connectors", FAILING_SINK))
    page.get_by_text("Trace", exact=True).click()
    with page.expect_response(lambda response: "part=" in response.url and response.status == 200):
        scene.cluster.pause(FAILING_SINK)
        scene.wait_for_states(FAILING_SINK, "PAUSED", "FAILED")
    try:
        expect(page.locator(".facts")).to_contain_text("paused")
        expect(page.locator("details.trace pre")).to_be_visible()
    finally:
        scene.cluster.resume(FAILING_SINK)
        scene.wait_for_states(FAILING_SINK, "RUNNING", "FAILED")


def read_records_total(scene: Scene) -> int:
    """Return the number of records that the sink's task has processed since its start."""
    (task,) = scene.get(f"/connectors/{SINK}/status?expand=progress")["progress"]["tasks"]
    return int(task["records_total"])


@pytest.mark.parametrize("is_task_worker", [True, False], ids=["the task's worker", "another worker"])
def test_record_counts_are_updated_on_the_page(
    scene: Scene, visitor: Visitor, *, is_task_worker: bool
) -> None:
    (task,) = scene.get(f"/connectors/{SINK}/status")["tasks"]
    worker = next(
        candidate
        for candidate in scene.cluster.workers
        if candidate.url.endswith(task["worker_id"]) is is_task_worker
    )
    page = visitor.open(page_url(worker.url, "connectors", SINK))
    order_count, processed_count = len(scene.orders_in_kafka()), read_records_total(scene)
    lines = [f"order {order_count + number}" for number in range(25)]
    scene.write_orders(*lines)
    scene.wait_until("the orders were written", lambda: scene.orders_out()[-25:] == lines)
    assert scene.orders_in_kafka()[-25:] == lines
    records = page.locator("td[data-label='Records']")
    expect(records).to_have_text(str(processed_count + 25))


def test_task_shows_its_worker_and_stopped_connector_has_no_tasks(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("connectors", SOURCE))
    task = scene.get(f"/connectors/{SOURCE}/status")["tasks"][0]
    expect(page.locator("td[data-label='Worker']")).to_have_text(task["worker_id"])
    page.goto(scene.page("connectors", STOPPED_SOURCE))
    expect(page.get_by_text("A stopped connector has no tasks.")).to_be_visible()


def test_unknown_connector_is_reported_by_a_page(scene: Scene, visitor: Visitor) -> None:
    visitor.expect("404")
    page = visitor.open(scene.page("connectors", "nobody"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.get_by_role("alert")).to_contain_text("nobody")
    assert violations_in_both_schemes(page) == []
