"""Restarts, and actions on several connectors, with their effect on each instance as the history tells it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.integration.ui.stage.scene import FAILING, ORDERS, RUNNING, SINK, SOURCE, Scene

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci
CONNECTOR, TASK = None, 0


def reached(scene: Scene, name: str, state: str) -> Counter[int | None]:
    """Return how often the connector, None, and each of its tasks came into a state."""
    history = scene.get(f"/connectors/{name}/history?limit=1000")["states"]
    return Counter(each["task"] for each in history if each["state"] == state)


def wait_until_reached(scene: Scene, name: str, state: str, expected: Counter[int | None]) -> None:
    scene.wait_until(f"{name} was {state} again", lambda: reached(scene, name, state) == expected)


def wait_until_copied(scene: Scene, order: str) -> None:
    scene.write_orders(order)
    scene.wait_until("the order was in Kafka", lambda: order in scene.orders_in_kafka())


def confirm(page: Page, button: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=button).click()
    expect(page.locator("[data-result]")).to_be_visible()


def bulk(page: Page, scene: Scene, action: str, *names: str) -> None:
    """Select connectors of the list and say yes to an action on them."""
    page.goto(scene.page("connectors"))
    for name in names:
        page.get_by_label(f"Select {name}", exact=True).check()
    page.locator("#bulk").get_by_role("button", name=action, exact=True).click()
    confirm(page, f"{action} ({len(names)})")
    expect(page.locator("[data-result]")).to_contain_text(f"{len(names)} done")


def test_a_restart_is_of_both_of_the_connector_or_of_a_task_and_records_go_on(
    scene: Scene, visitor: Visitor
) -> None:
    page = visitor.open(scene.page("connectors", SOURCE))
    actions = page.locator("#connector-actions")
    for link, restarted in (
        ("Restart", (CONNECTOR, TASK)),
        ("Restart connector only", (CONNECTOR,)),
        ("task", (TASK,)),
    ):
        expected = reached(scene, SOURCE, "RUNNING") + Counter(restarted)
        page.goto(scene.page("connectors", SOURCE))
        if link == "task":
            page.locator("tr[data-row]").get_by_role("link", name="Restart").click()
        else:
            if link == "Restart connector only":
                actions.locator("summary").click()
            actions.get_by_role("link", name=link, exact=True).click()
        confirm(page, "Restart")
        wait_until_reached(scene, SOURCE, "RUNNING", expected)
        wait_until_copied(scene, f"written after {link}")
        scene.wait_for_states(SOURCE, *RUNNING)
        assert reached(scene, SOURCE, "RUNNING") == expected


@pytest.mark.slow
def test_several_are_steered_at_once(scene: Scene, visitor: Visitor) -> None:
    names = ["several-0", "several-1"]
    page = visitor.open(scene.page("connectors"))
    config = {"connector.class": "FileStreamSource", "topic": ORDERS, "file": str(scene.directory / "none")}
    try:
        for name in names:
            scene.cluster.create(name, config, state="STOPPED")
        for action, states in (
            ("Resume", RUNNING),
            ("Pause", ["PAUSED", "PAUSED"]),
            ("Resume", RUNNING),
            ("Stop", ["STOPPED"]),
            ("Resume", RUNNING),
        ):
            bulk(page, scene, action, *names)
            for name in names:
                scene.wait_for_states(name, *states)
        expected = {name: reached(scene, name, "RUNNING") + Counter((CONNECTOR, TASK)) for name in names}
        bulk(page, scene, "Restart", *names)
        for name in names:
            wait_until_reached(scene, name, "RUNNING", expected[name])
    finally:
        for name in names:
            scene.cluster.delete(name)


@pytest.mark.slow
def test_of_several_only_what_failed_is_restarted(scene: Scene, visitor: Visitor) -> None:
    failed, running = reached(scene, FAILING, "FAILED"), reached(scene, SINK, "RUNNING")
    connector = reached(scene, FAILING, "RUNNING")[CONNECTOR]
    page = visitor.open(scene.page("connectors"))
    bulk(page, scene, "Restart failed", FAILING, SINK)
    wait_until_reached(scene, FAILING, "FAILED", failed + Counter((TASK,)))
    assert reached(scene, FAILING, "RUNNING")[CONNECTOR] == connector
    assert reached(scene, SINK, "RUNNING") == running
    expect(page.locator("tr[data-row]").filter(has_text=FAILING)).to_contain_text("failed")
