"""Tests for the late import of a worker's dashboard, by `prepare` or by the first request."""

from __future__ import annotations

import asyncio
import logging
import threading
from http import HTTPStatus
from typing import Any

import httpx2
import pytest
from jinja2 import TemplateSyntaxError
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.unit.web.ui.fake_source import FakeSource
from web.ui import late
from web.ui.app import DashboardApp, standalone
from web.ui.late import LateDashboard
from web.ui.mount import DashboardMount
from web.ui.options import DashboardOptions
from web.ui.rendering import Rendering


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[type[DashboardApp]]:
    """Return a list to which each import of the dashboard is appended."""
    imported_classes: list[type[DashboardApp]] = []

    def import_class() -> type[DashboardApp]:
        imported_classes.append(DashboardApp)
        return DashboardApp

    monkeypatch.setattr(late, "_import_class", import_class)
    return imported_classes


async def request_pages(dashboard: LateDashboard, count: int) -> list[Any]:
    """Request a page several times concurrently."""
    app = Starlette(routes=[DashboardMount(dashboard)])
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
        return await asyncio.gather(*(client.get("/ui/help") for _ in range(count)))


def test_first_requests_import_the_dashboard_once(imports: list[type[DashboardApp]]) -> None:
    dashboard = LateDashboard(FakeSource(), DashboardOptions(worker="w:1"))
    assert imports == []
    responses = asyncio.run(request_pages(dashboard, 3))
    assert {response.headers["content-type"] for response in responses} == {"text/html; charset=utf-8"}
    assert len(imports) == 1


def test_requests_after_prepare_do_not_import(imports: list[type[DashboardApp]]) -> None:
    async def prepare_and_request() -> None:
        dashboard = LateDashboard(FakeSource(), DashboardOptions(worker="w:1"))
        await dashboard.prepare()
        assert len(imports) == 1
        await request_pages(dashboard, 1)
        assert len(imports) == 1

    asyncio.run(prepare_and_request())


async def test_prepare_compiles_templates_until_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compilation_started, compilation_canceled = asyncio.Event(), asyncio.Event()

    async def compile_all(_self: Rendering) -> None:
        compilation_started.set()
        try:
            await asyncio.Event().wait()
        finally:
            compilation_canceled.set()

    monkeypatch.setattr(Rendering, "compile_all", compile_all)
    dashboard = LateDashboard(FakeSource(), DashboardOptions(worker="w:1"))
    async with asyncio.timeout(5):
        await dashboard.prepare()
        await compilation_started.wait()
        await dashboard.close()
        await compilation_canceled.wait()


def test_standalone_dashboard_compiles_its_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation_started = threading.Event()

    async def compile_all(_self: Rendering) -> None:
        compilation_started.set()

    monkeypatch.setattr(Rendering, "compile_all", compile_all)
    with TestClient(standalone(DashboardApp(FakeSource(), DashboardOptions(worker="w:1")))):
        assert compilation_started.wait(5)


def test_precompilation_failure_is_logged_once_and_pages_are_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compilation_started = threading.Event()

    async def compile_all(_self: Rendering) -> None:
        compilation_started.set()
        raise TemplateSyntaxError("unexpected end", 7, "pages/plugins.html")

    monkeypatch.setattr(Rendering, "compile_all", compile_all)
    source = FakeSource({"/connector-plugins": []})
    with TestClient(standalone(DashboardApp(source, DashboardOptions(worker="w:1")))) as client:
        assert compilation_started.wait(5)
        responses = [client.get("/ui/plugins").status_code for _ in range(2)]
    assert responses == [HTTPStatus.OK] * 2
    [record] = [log_record for log_record in caplog.records if log_record.levelno >= logging.WARNING]
    assert record.getMessage().startswith("Failed to precompile the dashboard's templates")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], TemplateSyntaxError)


@pytest.mark.parametrize("is_prepared", [False, True])
def test_closing_the_dashboard_closes_the_source(is_prepared: bool) -> None:  # noqa: FBT001 - a parameter of a test
    source = FakeSource()

    async def close_dashboard() -> None:
        dashboard = LateDashboard(source, DashboardOptions(worker="w:1"))
        if is_prepared:
            await dashboard.prepare()
        await dashboard.close()

    asyncio.run(close_dashboard())
    assert source.is_closed
