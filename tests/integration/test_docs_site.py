"""The documentation site as a reader has it: in a browser, opened as files and from a server, without a network."""

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
from tests.integration.ui.browser import running
from tests.integration.ui.chromium import chromium

pytestmark = pytest.mark.ci


class _Quiet(SimpleHTTPRequestHandler):
    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built without a fault."""
    assert build() == []
    return SITE


@pytest.fixture(params=["files", "server"])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """Where a browser finds the site."""
    if request.param == "files":
        yield site.as_uri()
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_reader_searches_a_key_and_opens_its_description(address: str) -> None:
    asked: list[str] = []
    errors: list[str] = []
    with sync_playwright() as playwright, running(chromium(), playwright) as browser:
        page = browser.new_context().new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/index.html")
        page.locator("input.md-search__input").click()
        page.keyboard.type("offset.flush.timeout.ms")
        found = page.locator(".md-search-result__link", has_text="offset.flush.timeout.ms").first
        expect(found).to_be_visible(timeout=20_000)
        found.click()
        expect(page.locator("h1")).to_contain_text("Every worker", timeout=20_000)
        hosts = {urlsplit(url).netloc for url in asked}
    assert errors == []
    assert hosts <= {urlsplit(address).netloc}
    assert len(asked) > 5
