"""Functions that find the screens of a dashboard by links."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from playwright.sync_api import Page


def list_navigation_urls(page: Page) -> list[str]:
    """Return the URLs in the navigation of a page."""
    return _links(page, "header nav a")


def list_tab_urls(page: Page) -> list[str]:
    """Return the URLs of the tabs of a connector's page."""
    return _links(page, "nav.tabs a")


def _links(page: Page, selector: str) -> list[str]:
    paths = page.locator(selector).evaluate_all("links => links.map(each => each.getAttribute('href'))")
    return [urljoin(page.url, path) for path in paths]
