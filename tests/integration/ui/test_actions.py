"""Tests for action buttons on connectors: the confirmation, and the effect over REST and in Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.integration.ui.stage.axe import violations_in_both_schemes
from tests.integration.ui.stage.scene import (
    FAILING_SINK,
    ORDERS,
    RUNNING,
    SINK,
    SOURCE,
    Scene,
    count_transitions,
)
from tests.integration.ui.stage.screens import set_checked

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.integration.ui.visitor import Visitor

RESTARTED_SINK = "restarted-sink"


def wait_until_deleted(scene: Scene, *names: str) -> None:
    """Wait until the first worker, which may not be the leader, lists none of the connectors."""
    scene.wait_until("the connectors were deleted", lambda: not set(names) & set(scene.get("/connectors")))


def open_confirmation(page: Page, action: str) -> Locator:
    """Click an action on a connector's page and return the confirmation dialog."""
    page.locator("#connector-actions").get_by_role("link", name=action, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


@pytest.fixture
def create_stopped(scene: Scene) -> Iterator[Callable[..., list[str]]]:
    """Yield a function that creates stopped connectors, which are deleted after the test."""
    created_names: list[str] = []

    def create(prefix: str, count: int) -> list[str]:
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            created_names.append(name)
            config = {"connector.class": "FileStreamSource", "topic": ORDERS, "file": "/nowhere"}
            scene.cluster.create(name, config, state="STOPPED")
        for name in names:
            scene.wait_for_states(name, "STOPPED")
        return names

    yield create
    remaining = scene.get("/connectors")
    for name in created_names:
        if name in remaining:
            scene.cluster.delete(name)


def test_paused_source_writes_no_records_until_resumed(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("connectors", SOURCE))
    dialog = open_confirmation(page, "Pause")
    expect(dialog).to_contain_text(f"Pause {SOURCE}")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-result]")).to_contain_text(SOURCE)
    scene.wait_for_states(SOURCE, "PAUSED", "PAUSED")
    expect(page.locator(".facts")).to_contain_text("paused")
    orders_before = scene.orders_in_kafka()
    scene.write_orders("written while it was paused")
    assert scene.orders_in_kafka() == orders_before
    page.locator("#connector-actions").get_by_role("button", name="Resume").click()
    scene.wait_for_states(SOURCE, *RUNNING)
    scene.wait_until(
        "the order was in Kafka",
        lambda: scene.orders_in_kafka()[len(orders_before) :] == ["written while it was paused"],
    )
    expect(page.locator(".facts")).to_contain_text("running")


@pytest.fixture
def missing_directory(scene: Scene) -> Iterator[Path]:
    """Create a sink whose directory is missing, and yield the directory. Must be requested before `visitor`."""
    directory = scene.directory / "missing"
    config = {"connector.class": "FileStreamSink", "topics": ORDERS, "file": str(directory / "out")}
    scene.cluster.create(RESTARTED_SINK, config)
    yield directory
    scene.cluster.delete(RESTARTED_SINK)


@pytest.mark.ci
def test_restart_recovers_a_failed_task_once_its_cause_is_fixed(
    missing_directory: Path, scene: Scene, visitor: Visitor
) -> None:
    scene.wait_for_states(RESTARTED_SINK, "RUNNING", "FAILED")
    page = visitor.open(scene.page("connectors", RESTARTED_SINK))
    expect(page.locator(".cause").first).to_contain_text(str(missing_directory))
    missing_directory.mkdir()
    dialog = open_confirmation(page, "Restart failed")
    expect(dialog).to_contain_text("task 0")
    dialog.get_by_role("button", name="Restart").click()
    scene.wait_for_states(RESTARTED_SINK, *RUNNING)
    expect(page.locator(".facts")).to_contain_text("running")
    orders = scene.orders_in_kafka()
    scene.wait_until(
        "the orders were written", lambda: (missing_directory / "out").read_text().splitlines() == orders
    )
    page.locator("tr[data-row]").get_by_role("link", name="Restart").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart").click()
    expect(page.locator("[data-result]")).to_contain_text(f"{RESTARTED_SINK}, task 0")
    scene.wait_for_states(RESTARTED_SINK, *RUNNING)


@pytest.mark.ci
def test_confirmation_can_be_canceled_and_stop_removes_tasks(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("connectors", SINK))
    dialog = open_confirmation(page, "Stop")
    expect(dialog).to_contain_text(f"Stop {SINK}")
    dialog.get_by_text("Cancel").click()
    expect(dialog).to_be_hidden()
    assert scene.worker.states(SINK) == RUNNING
    open_confirmation(page, "Stop")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    open_confirmation(page, "Stop").get_by_role("button", name="Stop").click()
    scene.wait_for_states(SINK, "STOPPED")
    try:
        expect(page.get_by_text("A stopped connector has no tasks.")).to_be_visible()
    finally:
        scene.cluster.resume(SINK)
        scene.wait_for_states(SINK, *RUNNING)


@pytest.mark.ci
def test_bulk_deletion_requires_typing_the_number(
    scene: Scene, visitor: Visitor, create_stopped: Callable[..., list[str]]
) -> None:
    names = create_stopped("many", 12)
    page = visitor.open(f"{scene.page('connectors')}?q=many-")
    for name in names[:2]:
        set_checked(page.get_by_label(f"Select {name}", exact=True))
    page.locator("#bulk").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Delete 2 connectors (many-0 and many-1)?")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator("[data-result]")).to_contain_text("2 done")
    wait_until_deleted(scene, *names[:2])
    page.goto(f"{scene.page('connectors')}?q=many-")
    names += create_stopped("many-more", 1)
    expect(page.locator("tr[data-row]")).to_have_count(11)
    page.get_by_role("button", name="Select all").click()
    page.locator("#bulk").get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_be_visible()  # the number has not been typed
    assert violations_in_both_schemes(page) == []
    dialog.get_by_label("Type 11 to confirm").fill("11")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator("[data-result]")).to_contain_text("11 done")
    assert violations_in_both_schemes(page) == []
    wait_until_deleted(scene, *names)


@pytest.mark.ci
def test_actions_work_with_the_keyboard_and_without_scripts(
    scene: Scene, visitor: Visitor, create_stopped: Callable[..., list[str]]
) -> None:
    (name,) = create_stopped("by-hand", 1)
    page = visitor.open(f"{scene.page('connectors')}?q={name}")
    page.keyboard.press("j")
    page.keyboard.press("p")
    scene.wait_for_states(name, "RUNNING", "RUNNING")
    expect(page.locator("tr[data-row] .state")).to_have_text("running")
    page_without_scripts = visitor.open(scene.page("connectors", name), java_script_enabled=False)
    page_without_scripts.locator("#connector-actions").get_by_role("link", name="Delete", exact=True).click()
    expect(page_without_scripts.get_by_role("heading", level=2).first).to_contain_text(f"Delete {name}")
    page_without_scripts.get_by_role("button", name="Delete").click()
    wait_until_deleted(scene, name)
    expect(page_without_scripts.get_by_role("heading", level=1)).to_have_text("Connectors")


CONNECTOR, TASK = None, 0


def wait_until_reached(scene: Scene, name: str, state: str, expected: Counter[int | None]) -> None:
    scene.wait_until(f"{name} was {state} again", lambda: count_transitions(scene, name, state) == expected)


def wait_until_copied(scene: Scene, order: str) -> None:
    scene.write_orders(order)
    scene.wait_until("the order was in Kafka", lambda: order in scene.orders_in_kafka())


def confirm(page: Page, button: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=button).click()
    expect(page.locator("[data-result]")).to_be_visible()


def run_bulk_action(page: Page, scene: Scene, action: str, *names: str) -> None:
    """Select connectors in the list and confirm an action on them."""
    page.goto(scene.page("connectors"))
    for name in names:
        set_checked(page.get_by_label(f"Select {name}", exact=True))
    page.locator("#bulk").get_by_role("button", name=action, exact=True).click()
    confirm(page, f"{action} ({len(names)})")
    expect(page.locator("[data-result]")).to_contain_text(f"{len(names)} done")


@pytest.mark.ci
def test_restarts_of_connector_and_tasks_keep_records_flowing(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("connectors", SOURCE))
    actions = page.locator("#connector-actions")
    for link, restarted_instances in (
        ("Restart", (CONNECTOR, TASK)),
        ("Restart connector only", (CONNECTOR,)),
        ("task", (TASK,)),
    ):
        expected = count_transitions(scene, SOURCE, "RUNNING") + Counter(restarted_instances)
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
        assert count_transitions(scene, SOURCE, "RUNNING") == expected


@pytest.mark.slow
def test_bulk_actions_apply_to_selected_connectors(scene: Scene, visitor: Visitor) -> None:
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
            run_bulk_action(page, scene, action, *names)
            for name in names:
                scene.wait_for_states(name, *states)
        expected = {
            name: count_transitions(scene, name, "RUNNING") + Counter((CONNECTOR, TASK)) for name in names
        }
        run_bulk_action(page, scene, "Restart", *names)
        for name in names:
            wait_until_reached(scene, name, "RUNNING", expected[name])
    finally:
        for name in names:
            scene.cluster.delete(name)


@pytest.mark.slow
def test_bulk_restart_of_failed_instances_restarts_only_failed_tasks(scene: Scene, visitor: Visitor) -> None:
    failed_counts, running_counts = (
        count_transitions(scene, FAILING_SINK, "FAILED"),
        count_transitions(scene, SINK, "RUNNING"),
    )
    connector_count = count_transitions(scene, FAILING_SINK, "RUNNING")[CONNECTOR]
    page = visitor.open(scene.page("connectors"))
    run_bulk_action(page, scene, "Restart failed", FAILING_SINK, SINK)
    wait_until_reached(scene, FAILING_SINK, "FAILED", failed_counts + Counter((TASK,)))
    assert count_transitions(scene, FAILING_SINK, "RUNNING")[CONNECTOR] == connector_count
    assert count_transitions(scene, SINK, "RUNNING") == running_counts
    expect(page.locator("tr[data-row]").filter(has_text=FAILING_SINK)).to_contain_text("failed")
