"""Tests that pages show failed components of the worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from kraal.core.ids import Json
from tests.unit.web.ui.activity import get, page_text
from tests.unit.web.ui.canned import ALL_FEATURES, JAVA_FEATURES, CannedSource
from web.ui.pages import connectors
from web.ui.sources.api import ApiResponse, Caller, Query, RequestRejected

PATHS = ("/ui", "/ui/connectors?part=list", "/ui/cluster", "/ui/cluster?part=cluster")
HEALTH_WITH_FAILURE = {
    "status": "healthy",
    "down": [{"part": "spark", "why": "its JVM <ended>", "down_ms": 90_000}],
}


def source_with_health(health: Any) -> CannedSource:
    return CannedSource(
        {"/connectors": {}, "/admin/assignments": {}, "/events": {"events": []}, "/health": health}
    )


@pytest.mark.parametrize("path", PATHS)
def test_failed_component_is_shown_with_time_and_cause(path: str) -> None:
    page = get(path, source_with_health(HEALTH_WITH_FAILURE))
    assert "its JVM &lt;ended&gt;" in page
    banner = page_text(page[page.index('<section class="notice bad"') :])
    assert banner.startswith("Spark of worker worker:8083 is down since 20"), (
        "the time of the failure is shown"
    )
    assert " UTC : its JVM <ended>" in banner


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("health", [{"status": "healthy"}, RequestRejected(500, "unhealthy"), [1]])
def test_pages_have_no_banner_without_failed_components(path: str, health: Any) -> None:
    assert "notice bad" not in get(path, source_with_health(health))


def test_list_does_not_change_while_a_failure_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = []
    for now_ms, down_ms in ((1_000_000_090_003, 90_001), (1_000_000_095_004, 95_004)):
        monkeypatch.setattr("time.time_ns", lambda now_ms=now_ms: now_ms * 1_000_000)
        health = {"down": [{"part": "lane", "why": "it has ended", "down_ms": down_ms}]}
        pages.append(get("/ui?part=list", source_with_health(health)))
    assert pages[0] == pages[1]


def test_workers_without_health_endpoint_receive_no_request() -> None:
    source = source_with_health(HEALTH_WITH_FAILURE)
    source.reported_features = JAVA_FEATURES
    assert "notice bad" not in get("/ui", source)
    assert "/health" not in [path for _, path, _, _ in source.requests]


class HangingSource(CannedSource):
    """Source that never responds to `GET /health`, like a worker whose herder hangs."""

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        if segments == ("health",):
            await asyncio.Event().wait()
        return await super().ask(method, *segments, query=query, body=body, caller=caller)


def test_page_does_not_wait_for_a_hanging_herder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectors, "_HEALTH_TIMEOUT_S", 0.01)
    source = HangingSource({"/connectors": {}}, ALL_FEATURES)
    assert "This cluster has no connectors yet." in get("/ui", source)
