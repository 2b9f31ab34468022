"""Functions that find the screens of a dashboard by links, and change its checkboxes."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def list_navigation_urls(page: Page) -> list[str]:
    """Return the URLs in the navigation of a page."""
    return _links(page, "header nav a")


def list_tab_urls(page: Page) -> list[str]:
    """Return the URLs of the tabs of a connector's page."""
    return _links(page, "nav.tabs a")


def set_checked(box: Locator, *, is_checked: bool = True) -> None:
    """Change a checkbox. Unlike Playwright's `set_checked`, works if an update replaces the box meanwhile."""
    expect(box).to_be_checked(checked=not is_checked)
    box.click()
    expect(box).to_be_checked(checked=is_checked)


def _links(page: Page, selector: str) -> list[str]:
    paths = page.locator(selector).evaluate_all("links => links.map(each => each.getAttribute('href'))")
    return [urljoin(page.url, path) for path in paths]
