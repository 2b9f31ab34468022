"""The page of the cluster: its workers, its leader, and who runs what."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.integration.ui.scene import Scene

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor


def address(url: str) -> str:
    return url.removeprefix("http://").rstrip("/")


def test_the_workers_the_leader_and_the_generation_are_those_of_rest(scene: Scene, visitor: Visitor) -> None:
    told = scene.get("/admin/assignments")
    page = visitor.open(scene.page("cluster"))
    assert sorted(page.locator("tr[data-row] th a").all_inner_texts()) == sorted(
        address(worker["url"]) for worker in told["workers"]
    )
    leader = page.locator("tr[data-row]").filter(has_text="leader")
    expect(leader).to_have_count(1)
    expect(leader).to_contain_text(address(told["leader"]))
    expect(page.locator(".facts")).to_contain_text(re.compile(rf"Generation\s*{told['generation']}"))


def test_a_worker_leads_to_what_it_runs(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("cluster"))
    worker = address(scene.worker.url)
    page.get_by_role("link", name=worker).first.click()
    expect(page.get_by_text(f"On worker {worker}")).to_be_visible()
    statuses = scene.get("/connectors?expand=status")
    mine = [
        name
        for name, entry in statuses.items()
        if worker in {each["worker_id"] for each in (entry["status"]["connector"], *entry["status"]["tasks"])}
    ]
    assert sorted(page.locator("tr[data-row] th a").all_inner_texts()) == sorted(mine)
