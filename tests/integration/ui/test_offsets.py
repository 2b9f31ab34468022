"""Tests for offsets of connectors: display, changes with a preview, and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.integration.ui.stage.axe import violations_in_both_schemes
from tests.integration.ui.stage.scene import RUNNING, SINK, SOURCE, Scene

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci


def test_source_rereads_records_after_its_offset_is_set_back(scene: Scene, visitor: Visitor) -> None:
    path = f"/connectors/{SOURCE}/offsets"
    scene.wait_until("the source had an offset", lambda: bool(scene.get(path)["offsets"]))
    page = visitor.open(scene.page("connectors", SOURCE, "offsets"))
    expect(page.get_by_role("button", name="Preview changes")).to_have_count(0)
    page.get_by_role("link", name="Stop first").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    scene.wait_for_states(SOURCE, "STOPPED")
    try:
        (old_offset,) = scene.get(path)["offsets"]
        orders = scene.orders_in_kafka()
        page.goto(scene.page("connectors", SOURCE, "offsets"))
        page.locator("textarea[name^='o.']").fill('{"position": 0}')
        page.get_by_role("button", name="Preview changes").click()
        change = page.locator("table.diff tbody tr")
        expect(change.locator("[data-label='Before']")).to_contain_text(str(old_offset["offset"]["position"]))
        expect(change.locator("[data-label='After']")).to_contain_text("0")
        assert violations_in_both_schemes(page) == []
        assert scene.get(path)["offsets"] == [old_offset]
        page.get_by_role("button", name="Change 1 offset").click()
        expect(page.locator("[data-result]")).to_be_visible()
        assert scene.get(path)["offsets"] == [old_offset | {"offset": {"position": 0}}]
    finally:
        scene.cluster.resume(SOURCE)
    scene.wait_until("the orders were written again", lambda: scene.orders_in_kafka() == orders + orders)
    scene.wait_for_states(SOURCE, *RUNNING)


def test_sink_offsets_are_reset_after_confirmation(scene: Scene, visitor: Visitor) -> None:
    path = f"/connectors/{SINK}/offsets"
    count = len(scene.orders_in_kafka())

    def has_committed_all() -> bool:
        return [entry["offset"] for entry in scene.get(path)["offsets"]] == [{"kafka_offset": count}]

    scene.wait_until("the sink had written all orders", has_committed_all)
    line_count = len(scene.orders_out())
    scene.cluster.stop(SINK)
    scene.wait_for_states(SINK, "STOPPED")
    try:
        page = visitor.open(scene.page("connectors", SINK, "offsets"))
        position = page.locator("input[name^='o.']")
        expect(position).to_have_value(str(count))
        expect(page.locator("td[data-label='Lag']")).to_have_text("0")
        scene.write_orders("written while the sink was stopped")
        scene.wait_until("the order was in Kafka", lambda: len(scene.orders_in_kafka()) == count + 1)
        page.reload()
        expect(page.locator("td[data-label='Lag']")).to_have_text("1")
        expect(page.get_by_text("1 of 1 partitions, 1 offset behind")).to_be_visible()
        visitor.expect("422")
        position.fill("-5")
        page.get_by_role("button", name="Preview changes").click()
        expect(page.get_by_role("alert")).to_contain_text("1 problem")
        assert violations_in_both_schemes(page) == []
        page.get_by_role("link", name="Back").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        page.wait_for_load_state()  # the scripts have run
        page.get_by_role("link", name="Delete all").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator("[data-result]")).to_be_visible()
        assert scene.get(path)["offsets"] == []
        expect(page.locator("tr[data-row]")).to_have_count(0)
    finally:
        scene.cluster.resume(SINK)
        scene.wait_for_states(SINK, *RUNNING)
    scene.wait_until(
        "the sink wrote all orders again", lambda: len(scene.orders_out()) == line_count + count + 1
    )
