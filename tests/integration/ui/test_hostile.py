"""Tests for connectors whose names and configs attempt script injection or path traversal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin

import pytest
from playwright.sync_api import expect

from tests.integration.ui.stage.scene import ORDERS, Scene
from tests.integration.ui.stage.screens import list_tab_urls

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci
SCRIPT = "<script>window.ran = 1</script>"
NAMES = (
    f"{SCRIPT}<img src=x onerror=window.ran=2>",
    "\" onmouseover=window.ran=3 autofocus onfocus=window.ran=4 x='",
    "javascript:window.ran=5",
    "../../connectors",
    "a%2Fb?c#d&e=f;g+h",
    "{{ 7 * 7 }}${7 * 7}",
)


NAMES_ON_ALL_TABS = (NAMES[0], NAMES[4])


@pytest.fixture
def hostile_names(scene: Scene) -> Iterator[tuple[str, ...]]:
    """Create stopped connectors whose names (`NAMES`) are also in their configs. Yield the names.

    Must be requested before `visitor`, so that no open page requests a deleted connector.
    """
    for name in NAMES:
        config = {"connector.class": "FileStreamSink", "topics": ORDERS, "file": name, name: name}
        scene.cluster.create(name, config, state="STOPPED")
    yield NAMES
    for name in NAMES:
        assert scene.worker.ask("DELETE", f"/connectors/{quote(name, safe='')}").status == 204


def test_hostile_names_and_configs_do_not_run_scripts(
    scene: Scene, hostile_names: tuple[str, ...], visitor: Visitor
) -> None:
    page = visitor.open(scene.page())
    page.on("dialog", lambda dialog: pytest.fail(f"a script opened a dialog: {dialog.message}"))
    for name in hostile_names:
        page.goto(scene.page())
        link = page.get_by_role("link", name=name, exact=True)
        expect(link).to_have_text(name)
        assert urljoin(page.url, link.get_attribute("href") or "") == scene.page("connectors", name)
        link.hover()
        link.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        assert_no_script_ran(page)
        for screen in list_tab_urls(page) if name in NAMES_ON_ALL_TABS else ():
            page.goto(screen)
            expect(page.get_by_role("heading", level=1)).to_have_text(name)
            assert_no_script_ran(page)


def assert_no_script_ran(page: Page) -> None:
    assert page.evaluate("window.ran") is None
    assert page.locator("main script, main img, main iframe").count() == 0
    assert [
        name
        for name in page.evaluate("[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())")
        if name.startswith("on")
    ] == []
