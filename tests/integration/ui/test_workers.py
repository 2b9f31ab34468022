"""Tests for the cluster page, for links to workers, and for open pages of a killed worker.

This module must run last in this folder, because it leaves a changed cluster behind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.integration.ui.stage.axe import violations_in_both_schemes
from tests.integration.ui.stage.scene import FAILING_SINK, SOURCE, STOPPED_SOURCE, Scene, page_url
from tests.integration.ui.visitor import UNAVAILABLE_ERRORS

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor

REBALANCE_TIMEOUT_MS = 30_000
"""Time limit for the rebalance after a failure, which the group detects after six seconds."""


def get_address(url: str) -> str:
    return url.removeprefix("http://").rstrip("/")


def test_cluster_page_matches_the_rest_api(scene: Scene, visitor: Visitor) -> None:
    assignments = scene.get("/admin/assignments")
    page = visitor.open(scene.page("cluster"))
    assert sorted(page.locator("tr[data-row] th a").all_inner_texts()) == sorted(
        get_address(worker["url"]) for worker in assignments["workers"]
    )
    leader = page.locator("tr[data-row]").filter(has_text="leader")
    expect(leader).to_have_count(1)
    expect(leader).to_contain_text(get_address(assignments["leader"]))
    expect(page.locator(".facts")).to_contain_text(re.compile(rf"Generation\s*{assignments['generation']}"))
    reasons = [rebalance["reason"] or "not known" for rebalance in assignments["rebalances"]]
    assert set(reasons[1:]) - {"not known"}, "the leader must return earlier reasons"
    for worker in scene.cluster.workers:  # the leader and a follower
        page.goto(page_url(worker.url, "cluster"))
        assert page.locator("tr[data-rebalance] td[data-label='Why']").all_inner_texts() == reasons


def test_worker_links_to_its_connectors(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("cluster"))
    worker = get_address(scene.worker.url)
    page.get_by_role("link", name=worker).first.click()
    expect(page.get_by_text(f"On worker {worker}")).to_be_visible()
    statuses = scene.get("/connectors?expand=status")
    expected = [
        name
        for name, entry in statuses.items()
        if worker
        in {
            status_entry["worker_id"]
            for status_entry in (entry["status"]["connector"], *entry["status"]["tasks"])
        }
    ]
    assert sorted(page.locator("tr[data-row] th a").all_inner_texts()) == sorted(expected)


@pytest.mark.ci
def test_page_reports_a_killed_worker_and_recovers(scene: Scene, visitor: Visitor) -> None:
    visitor.expect(UNAVAILABLE_ERRORS)
    worker = scene.cluster.workers[1]
    name = worker.url.removeprefix("http://")
    page = visitor.open(page_url(worker.url))
    page.evaluate("window.sameDocument = true")
    form = visitor.open(page_url(worker.url, "connectors", STOPPED_SOURCE, "edit"), beside=page)
    form.get_by_label("topic", exact=False).first.fill("typed.while.away")
    survivor = visitor.open(scene.page("cluster"), beside=page)
    banner = page.locator("#away")
    expect(banner).to_be_hidden()
    worker.kill()
    expect(banner).to_be_visible()
    expect(banner).to_contain_text(f"No response from {name} since ")
    assert violations_in_both_schemes(page) == []
    expect(page.get_by_role("link", name=FAILING_SINK)).to_be_visible()  # the last content stays readable
    page.get_by_role("link", name="Pause").first.click()
    expect(form.locator("#away")).to_be_visible()
    form.get_by_role("button", name="Save…").click()
    expect(form.locator(".busy")).to_contain_text("Nothing was sent: the worker is not responding.")
    expect(survivor.get_by_role("link", name=name)).to_have_count(0, timeout=REBALANCE_TIMEOUT_MS)
    scene.wait_until(
        "all instances ran on the survivor", lambda: list_instance_workers(scene) == {scene.worker.url[7:]}
    )
    survivor.goto(scene.page("connectors", SOURCE))
    expect(survivor.locator("td[data-label='Worker']")).to_have_text(scene.worker.url[7:])
    worker.start()
    expect(banner).to_be_hidden()
    expect(page.get_by_role("link", name=FAILING_SINK)).to_be_visible()
    scene.cluster.pause(SOURCE)
    expect(page.locator("tr[data-row]").filter(has_text=SOURCE)).to_contain_text(
        "paused", timeout=REBALANCE_TIMEOUT_MS
    )
    assert page.evaluate("window.sameDocument")
    expect(form.locator(".busy")).to_have_text("")
    form.get_by_role("button", name="Save…").click()
    expect(form.locator("#changes")).to_contain_text("typed.while.away")


def list_instance_workers(scene: Scene) -> set[str]:
    """Return the workers of all connectors and tasks, or `none` for unassigned ones."""
    worker_ids = set()
    for entry in scene.get("/connectors?expand=status").values():
        for status_entry in (entry["status"]["connector"], *entry["status"]["tasks"]):
            worker_ids.add(status_entry["worker_id"] if status_entry["state"] != "UNASSIGNED" else "none")
    return worker_ids
