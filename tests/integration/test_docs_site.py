"""Tests for the search of the documentation site in a browser. The pages must not request other hosts."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright
from typing_extensions import override

from scripts.docs_site.__main__ import SITE, build
from tests.integration.ui.browser import run_browser
from tests.integration.ui.chromium import chromium

pytestmark = pytest.mark.ci


class _QuietHandler(SimpleHTTPRequestHandler):
    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Path:
    """Build the site, which must have no problems, and return its directory."""
    assert build() == []
    return SITE


@pytest.fixture(params=["files", "server"])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """Yield the URL of the site."""
    if request.param == "files":
        yield site.as_uri()
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_QuietHandler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_search_for_a_key_opens_its_description(address: str) -> None:
    requested_urls: list[str] = []
    errors: list[str] = []
    with sync_playwright() as playwright, run_browser(chromium(), playwright) as browser:
        page = browser.new_context().new_page()
        page.on("request", lambda request: requested_urls.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/index.html")
        page.locator("input.md-search__input").click()
        page.keyboard.type("offset.flush.timeout.ms")
        result = page.locator(".md-search-result__link", has_text="offset.flush.timeout.ms").first
        expect(result).to_be_visible(timeout=20_000)
        result.click()
        expect(page.locator("h1")).to_contain_text("Every worker", timeout=20_000)
        hosts = {urlsplit(url).netloc for url in requested_urls}
    assert errors == []
    assert hosts <= {urlsplit(address).netloc}
    assert len(requested_urls) > 5
