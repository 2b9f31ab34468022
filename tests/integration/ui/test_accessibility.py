"""Tests for the accessibility of all pages on wide and narrow screens, in the light and the dark scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.ui.stage.axe import CONTRAST_RULE, violations
from tests.integration.ui.stage.scene import FAILING_SINK, STOPPED_SOURCE, Scene
from tests.integration.ui.stage.screens import list_navigation_urls, list_tab_urls

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci
WIDE, PHONE = 1280, 390
PLUGIN = "org.apache.kafka.connect.file.FileStreamSourceConnector"
UNLINKED_SCREENS = (
    ("connectors", FAILING_SINK, "tasks", "0"),
    ("connectors", FAILING_SINK, "edit"),
    ("connectors", STOPPED_SOURCE, "offsets"),
    ("create", PLUGIN),
    ("plugins", PLUGIN),
    ("yaml",),
)
"""Screens that are not linked from the navigation or tabs."""


def test_pages_have_no_serious_violations_and_fit_a_phone(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    screens = list_navigation_urls(page)
    page.goto(scene.page("connectors", FAILING_SINK))
    screens += [page.url, *list_tab_urls(page), *(scene.page(*segments) for segments in UNLINKED_SCREENS)]
    screens.append(f"{scene.page('confirm')}?action=delete&name={FAILING_SINK}")
    problems = []
    for screen in dict.fromkeys(screens):
        page.goto(screen)
        problems += [f"{screen} {violation}" for violation in find_violations(page)]
    assert problems == []


def test_keyboard_help_has_no_serious_violations(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page())
    page.keyboard.press("?")
    assert list(find_violations(page)) == []


def find_violations(page: Page) -> list[str]:
    """Return the violations of a page in both color schemes and at both widths."""
    problems = []
    for width in (WIDE, PHONE):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            rules = () if scheme == "light" else (CONTRAST_RULE,)
            problems += [f"{scheme}, {width} px: {violation}" for violation in violations(page, rules)]
        scroll_width = page.evaluate("document.documentElement.scrollWidth")
        if scroll_width > width:
            problems.append(f"needs {scroll_width} px of {width}")
    return problems
