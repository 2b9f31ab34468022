"""Tests for the screenshots in the documentation. `KRAAL_UPDATE_SCREENSHOTS=1` updates the screenshots."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.ui.stage.scene import (
    DEAD_LETTER_SINK,
    FAILING_SINK,
    SINK,
    SOURCE,
    STOPPED_SOURCE,
    UPDATES_PICTURES,
    Scene,
)
from web.ui.views.navigation import CONNECTOR_TABS, NAVIGATION

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor

DOCS: Final = Path(__file__).parents[3] / "docs"
PLUGIN: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SCREENS: Final[dict[str, tuple[str, ...]]] = {
    "connectors": ("connectors",),
    "cluster": ("cluster",),
    "create": ("create",),
    "plugins": ("plugins",),
    "events": ("events",),
    "connector": ("connectors", FAILING_SINK),
    "charts": ("connectors", SINK, "charts"),
    "history": ("connectors", SOURCE, "history"),
    "logs": ("connectors", FAILING_SINK, "logs"),
    "config": ("connectors", FAILING_SINK, "config"),
    "offsets": ("connectors", STOPPED_SOURCE, "offsets"),
    "topics": ("connectors", SINK, "topics"),
    "delivery": ("connectors", SINK, "delivery"),
    "letters": ("connectors", DEAD_LETTER_SINK, "letters"),
    "task": ("connectors", FAILING_SINK, "tasks", "0"),
    "form": ("create", PLUGIN),
    "plugin": ("plugins", PLUGIN),
}
"""Maps each screenshot to the segments of its path under `/ui`."""
TABLE: Final = "table"
"""The screenshot of a tab that test_activity.py creates, from canned responses: no sink of the scene writes a table."""
PHONE: Final = "phone"
FLOW_S: Final = 45.0
"""Duration of the data flow before the screenshots; charts have a point every five seconds."""


def test_every_screen_has_a_screenshot() -> None:
    keys = {entry.key for entry in NAVIGATION} | {entry.key or "connector" for entry in CONNECTOR_TABS}
    assert keys <= {*SCREENS, TABLE}


@pytest.mark.parametrize("name", [*SCREENS, TABLE, PHONE])
def test_documentation_shows_the_screenshots(name: str) -> None:
    assert (DOCS / "dashboard" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"](dashboard/{name}.png)" in (DOCS / "dashboard.md").read_text(encoding="utf-8")


if UPDATES_PICTURES:

    def test_screenshots_are_created(request: pytest.FixtureRequest, scene: Scene, visitor: Visitor) -> None:
        request.getfixturevalue("sink_with_letters")
        end = time.monotonic() + FLOW_S
        number = 0
        while time.monotonic() < end:
            count = 40 + (number * 7) % 60
            scene.write_orders(*(f"order {number}-{order}" for order in range(count)))
            number += 1
            time.sleep(1)
        (DOCS / "dashboard").mkdir(exist_ok=True)
        size: dict[str, Any] = {"width": 1200, "height": 760}
        page = visitor.open(scene.page(), **size)
        for name, segments in SCREENS.items():
            page.goto(scene.page(*segments))
            if name == "delivery":
                page.get_by_role("button", name="Prove delivery").click()
                page.get_by_text("PROVED").wait_for(timeout=60_000)
            page.wait_for_timeout(800)
            page.screenshot(path=DOCS / "dashboard" / f"{name}.png")
        phone = visitor.open(scene.page("connectors", FAILING_SINK), is_dark=True, width=390, height=760)
        phone.wait_for_timeout(800)
        phone.screenshot(path=DOCS / "dashboard" / f"{PHONE}.png")
