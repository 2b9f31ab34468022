"""Tests for the plugin pages."""

from __future__ import annotations

from tests.fakes.servers.connect_rest import FakeConnect
from tests.unit.web.ui.browser import Browser

CREATE_PATH = "/ui/create/org.example.FileSource"


def test_plugins_are_listed_and_documented() -> None:
    browser = Browser(FakeConnect())
    assert "Cast$Value" in browser.get("/ui/plugins").plain
    assert "No plugin matches" in browser.get("/ui/plugins?q=zzz").plain
    page = browser.get("/ui/plugins/org.example.FileSource?version=4.3.0")
    assert page.status == 200
    assert "File <script>alert(1)</script>" in page.plain
    assert "<script>alert" not in page.text
    assert '"topic": "my-topic"' in page.plain
    assert f'href="{CREATE_PATH}?example=1"' in page.text
    assert "Create one" not in browser.get("/ui/plugins/org.example.Cast$Value").plain
    assert browser.get("/ui/plugins/Nope").status == 404
