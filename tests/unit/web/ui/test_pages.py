"""Pages of a worker's own dashboard, made from its REST API."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from typing_extensions import override

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import State
from tests.unit.web.api import Api, status
from web.settings import Settings
from web.ui.app import DashboardApp, standalone
from web.ui.features import Features
from web.ui.options import DashboardOptions
from web.ui.routing import Model, Visit, page
from web.ui.sources.api import Caller
from web.ui.sources.in_process import InProcess

URL = "http://worker:8083/"


class NoSource(InProcess):
    """A source that only knows that it has no features."""

    @override
    async def features(self, caller: Caller) -> Features:
        return Features()


@pytest.fixture
def orders(api: Api) -> Api:
    """Return a worker with a connector whose second task failed."""
    statuses = ConnectorStatuses(
        connector=status(State.RUNNING),
        tasks={0: status(State.RUNNING), 1: status(State.FAILED, "IOError: disk is full\n\tat a.B.c")},
    )
    api.herder.put("orders", {"connector.class": "a.b.FileSource"}, tasks=2, statuses=statuses)
    return api


def get(api: Api, path: str, **headers: str) -> tuple[int, str]:
    answer = api.client.get(path, headers=headers)
    return answer.status_code, answer.text


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/connectors", "/ui/connectors/"])
def test_the_first_page_lists_connectors_with_the_cause_of_a_failure(orders: Api, path: str) -> None:
    code, text = get(orders, path)
    assert code == 200
    assert '<a href="/ui/connectors/orders"' in text
    assert '<span class="state failed">failed</span>' in text
    assert "IOError: disk is full" in text
    assert "at a.B.c" not in text


def test_a_connectors_page_shows_cause_and_trace_of_a_failed_task_first(orders: Api) -> None:
    code, text = get(orders, "/ui/connectors/orders")
    assert code == 200
    assert "at a.B.c" in text
    assert text.index('<th scope="row">1</th>') < text.index('<th scope="row">0</th>')


def test_the_cluster_page_shows_workers_and_what_they_run(orders: Api) -> None:
    code, text = get(orders, "/ui/cluster")
    assert code == 200
    assert "worker:8083" in text
    assert '<a href="/ui/connectors/orders">orders</a>' in text


def test_a_part_is_the_page_without_its_frame(orders: Api) -> None:
    _, page = get(orders, "/ui/connectors")
    code, part = get(orders, "/ui/connectors?part=list")
    assert code == 200
    assert "<html" not in part
    assert part.strip() in page


def test_a_part_that_did_not_change_is_not_sent_again(orders: Api) -> None:
    first = orders.client.get("/ui/connectors?part=list")
    again = {"If-None-Match": first.headers["etag"]}
    unchanged = orders.client.get("/ui/connectors?part=list", headers=again)
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    orders.herder.remove("orders")
    assert orders.client.get("/ui/connectors?part=list", headers=again).status_code == 200


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/ui/connectors/none", 404, "No status found for connector none"),
        ("/ui/nothing", 404, "There is no such page."),
        ("/ui/connectors/%zz", 400, "Path segment %zz contains a %"),
        ("/ui/connectors?part=nothing", 400, "This page has no part nothing."),
    ],
)
def test_an_error_is_a_page(orders: Api, path: str, code: int, said: str) -> None:
    found = orders.client.get(path)
    assert (found.status_code, found.headers["content-type"]) == (code, "text/html; charset=utf-8")
    assert said in found.text


def test_an_unexpected_error_is_a_page_without_details() -> None:
    @page("/broken", "pages/error.html")
    async def broken(_visit: Visit) -> Model:
        raise RuntimeError("details")

    client = TestClient(standalone(DashboardApp(NoSource(), DashboardOptions(worker="w:1"), pages=[broken])))
    answer = client.get("/ui/broken")
    assert answer.status_code == 500
    assert "The dashboard failed" in answer.text
    assert "details" not in answer.text


def test_without_ui_enabled_there_is_no_dashboard() -> None:
    api = Api(Settings(advertised_url=URL, ui=False))
    assert get(api, "/ui/")[0] == 404


def test_admin_listeners_alone_serve_the_dashboard() -> None:
    api = Api(Settings(advertised_url=URL, admin_apart=True))
    assert get(api, "/ui/")[0] == 404
