"""Accessibility of all pages, on a wide screen and on a phone, in the light and the dark scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.ui.stage.axe import CONTRAST, violations
from tests.integration.ui.stage.scene import FAILING, STOPPED, Scene
from tests.integration.ui.stage.screens import of_connector, of_dashboard

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci
WIDE, PHONE = 1280, 390
PLUGIN = "org.apache.kafka.connect.file.FileStreamSourceConnector"
OTHERS = (
    ("connectors", FAILING, "tasks", "0"),
    ("connectors", FAILING, "edit"),
    ("connectors", STOPPED, "offsets"),
    ("create", PLUGIN),
    ("plugins", PLUGIN),
    ("yaml",),
)
"""Screens that are not linked from the navigation or tabs."""


def test_pages_have_no_serious_violations_and_fit_a_phone(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    screens = of_dashboard(page)
    page.goto(scene.page("connectors", FAILING))
    screens += [page.url, *of_connector(page), *(scene.page(*segments) for segments in OTHERS)]
    screens.append(f"{scene.page('confirm')}?action=delete&name={FAILING}")
    found = []
    for screen in dict.fromkeys(screens):
        page.goto(screen)
        found += [f"{screen} {each}" for each in find_violations(page)]
    assert found == []


def test_keyboard_help_has_no_serious_violations(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    page.keyboard.press("?")
    assert list(find_violations(page)) == []


def find_violations(page: Page) -> list[str]:
    """Return the violations of a page, in both color schemes and widths."""
    found = []
    for width in (WIDE, PHONE):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            rules = () if scheme == "light" else (CONTRAST,)
            found += [f"{scheme}, {width} px: {each}" for each in violations(page, rules)]
        needed = page.evaluate("document.documentElement.scrollWidth")
        if needed > width:
            found.append(f"needs {needed} px of {width}")
    return found
