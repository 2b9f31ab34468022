"""Tests that hostile texts of a worker are inert in the elements and attributes of a parsed page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from html.parser import HTMLParser
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from kraal.core.ids import Json
from tests.fakes.servers.connect_rest import Connector, FakeConnect
from tests.unit.web.ui.activity import NAME, canned_responses
from tests.unit.web.ui.canned import ALL_FEATURES, CannedSource, browser
from web.ui.features import Features
from web.ui.pages import PAGES
from web.ui.sources.api import ApiResponse, Caller, Change, Query, RequestRejected, Source
from web.ui.sources.messages import encode_body
from web.ui.sources.remote import RemoteSource, RemoteTarget

HOSTILE_TEXT = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>` onload=x {{ 7*7 }}\x1b[31m\u202e"
PLUGIN = "org.example.FileSource"
PATH_PARAMETERS = {"connector": NAME, "task": "0", "plugin": PLUGIN}
PAGE_PATHS = ["/ui" + page.path.format(**PATH_PARAMETERS) for page in PAGES if page.method == "GET"]
REFERENCE_KEYS = frozenset({"state", "class", "type", "name", "connector.class"})
"""Keys whose values refer to other responses; pages show more content if these values are unchanged."""
ASSIGNMENTS = {
    "leader": "http://w:1/",
    "generation": 3,
    "workers": [{"url": "http://w:1/", "connectors": [NAME], "tasks": [f"{NAME}-0"]}],
    "unassigned": [],
    "rebalances": [
        {"generation": 3, "completed_ms": 1, "leader": "http://w:1/", "reason": "joined: http://w:1/"}
    ],
}
TABS_WITHOUT_OTHER_TEXTS = ("offsets/reset", "topics/reset", "letters/replay", "tasks/0/config", "trace")
PATHS_WITHOUT_OTHER_TEXTS = {
    "/ui/confirm",
    "/ui/create",
    *(f"/ui/connectors/{NAME}/{tab}" for tab in TABS_WITHOUT_OTHER_TEXTS),
}
"""Pages that show no text of a worker in this test, apart from names and numbers."""


class HostileSource(Source):
    """Source that appends hostile text to all texts in a worker's responses, except to values of `unchanged_keys`."""

    def __init__(self, unchanged_keys: frozenset[str]) -> None:
        config: dict[str, str | None] = {
            "connector.class": PLUGIN,
            "topic": "t",
            "name": NAME,
            "a\u202e<b>": "x",
        }
        offsets = [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 1}}]
        versions = [
            {"config": config, "ms": 2, "by": "PUT"},
            {"config": {**config, "topic": "u"}, "ms": 1, "by": "PUT"},
        ]
        entry = Connector(config=config, tasks=["FAILED"], offsets=offsets, versions=versions)
        worker = FakeConnect({NAME: entry})
        target = RemoteTarget(url="http://worker:8083", retry_s=0.0)
        self._worker = RemoteSource(target, transport=httpx2.ASGITransport(app=worker))
        canned = canned_responses()
        info = {"name": NAME, "config": config, "tasks": [], "type": "sink"}
        connectors = {NAME: {"status": canned[f"/connectors/{NAME}/status"], "info": info}}
        health = {"down": [{"part": "spark", "why": "ended", "down_ms": 1}]}
        self._canned = CannedSource(
            {**canned, "/connectors": connectors, "/admin/assignments": ASSIGNMENTS, "/health": health}
        )
        self._unchanged_keys = unchanged_keys

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        try:
            response = await self._canned.ask(method, *segments, query=query, body=body, caller=caller)
        except RequestRejected:
            response = await self._worker.ask(method, *segments, query=query, body=body, caller=caller)
        return ApiResponse(response.status, encode_body(self._append_hostile_text(response.value, "")))

    def _append_hostile_text(self, value: Any, key: str) -> Any:
        match value:
            case dict():
                return {name: self._append_hostile_text(item, name) for name, item in value.items()}
            case list():
                return [self._append_hostile_text(item, key) for item in value]
            case str() if key not in self._unchanged_keys:
                return value.replace("\n", f"{HOSTILE_TEXT}\n") + HOSTILE_TEXT
            case _:
                return value

    @override
    def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        return self._canned.changes(caller)

    @override
    async def features(self, caller: Caller) -> Features:
        return ALL_FEATURES

    @override
    async def close(self) -> None:
        await self._worker.close()


class ContentParser(HTMLParser):
    """Parser that collects the text and the active content of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.active_content: list[str] = []
        self.text = ""

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.active_content.append(f"{tag} {name}={value}")
            is_address = name in ("href", "src", "action", "formaction", "hx-get", "hx-post")
            if is_address and not (value or "").startswith(("/ui/", "#", "?")):
                self.active_content.append(f"{tag} {name}={value}")
        if tag in ("iframe", "object", "embed", "base", "img", "style", "meta") and dict(attrs).keys() - {
            "charset", "name", "content",
        }:  # fmt: skip
            self.active_content.append(tag)
        if tag == "script" and "src" not in dict(attrs):
            self.active_content.append("script")

    @override
    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "unchanged_keys",
    [REFERENCE_KEYS, frozenset({"class", "name"}), frozenset[str]()],
    ids=["names", "classes", "none"],
)
@pytest.mark.parametrize("path", PAGE_PATHS)
def test_hostile_worker_texts_are_inert_in_a_page(path: str, unchanged_keys: frozenset[str]) -> None:
    response = browser(HostileSource(unchanged_keys)).get(f"{path}?action=pause&name={NAME}&limit=1")
    parser = ContentParser()
    parser.feed(response.text)
    assert parser.active_content == []
    assert not {"\x1b", "\u202e"} & {*parser.text}
    assert "The dashboard failed" not in response.text
    if unchanged_keys == REFERENCE_KEYS and path not in PATHS_WITHOUT_OTHER_TEXTS:
        assert "onerror=alert(1)" in parser.text
