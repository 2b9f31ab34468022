"""Tests for the pages of a worker's own dashboard, rendered from its REST API."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from typing_extensions import override

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.config.values import Password
from kraal.config.worker.basic_auth import BasicAuth
from kraal.core.ids import State
from tests.unit.web.api import Api, status
from tests.unit.web.ui.fake_source import FakeSource, dashboard
from web.settings import Settings
from web.ui.app import DashboardApp, standalone
from web.ui.features import Features, detect_features
from web.ui.options import DashboardOptions
from web.ui.routing import Model, Visit, page
from web.ui.sources.api import Caller, SourceUnavailable
from web.ui.sources.in_process import InProcessSource
from web.ui.views.formats import UNKNOWN

URL = "http://worker:8083/"


class FeaturelessSource(InProcessSource):
    """Source of a worker without optional features."""

    @override
    async def features(self, caller: Caller) -> Features:
        return Features()


@pytest.fixture
def api_with_orders(api: Api) -> Api:
    """Return the API of a worker with a connector whose second task has failed."""
    statuses = ConnectorStatuses(
        connector=status(State.RUNNING),
        tasks={0: status(State.RUNNING), 1: status(State.FAILED, "IOError: disk is full\n\tat a.B.c")},
    )
    api.herder.put("orders", {"connector.class": "a.b.FileSource"}, tasks=2, statuses=statuses)
    return api


def get(api: Api, path: str, **headers: str) -> tuple[int, str]:
    response = api.client.get(path, headers=headers)
    return response.status_code, response.text


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/connectors", "/ui/connectors/"])
def test_start_page_lists_connectors_with_causes_of_failures(api_with_orders: Api, path: str) -> None:
    code, text = get(api_with_orders, path)
    assert code == 200
    assert '<a href="/ui/connectors/orders"' in text
    assert '<span class="state failed">failed</span>' in text
    assert "IOError: disk is full" in text
    assert "at a.B.c" not in text


def test_connector_page_shows_failed_task_first_with_cause_and_trace(api_with_orders: Api) -> None:
    code, text = get(api_with_orders, "/ui/connectors/orders")
    assert code == 200
    assert "at a.B.c" in text
    assert text.index('tasks/1">1</a></th>') < text.index('tasks/0">0</a></th>')


def test_long_traces_are_truncated_and_complete_on_demand(api: Api) -> None:
    long_trace = "IOError: disk is full\n" + "\tat a.B.c\n" * 100_000 + "the \u202e end"
    failed_tasks = {number: status(State.FAILED, f"{number} {long_trace}") for number in range(20)}
    statuses = ConnectorStatuses(connector=status(State.FAILED, long_trace), tasks=failed_tasks)
    api.herder.put("orders", {"connector.class": "a.b.FileSource"}, tasks=20, statuses=statuses)
    code, text = get(api, "/ui/connectors/orders")
    assert (code, len(text) < 250_000) == (200, True)
    assert text.count(r"the \u202e end") == 21
    assert 'href="/ui/connectors/orders/trace?task=7">Full trace</a>' in text
    response = api.client.get("/ui/connectors/orders/trace?task=7")
    assert (response.status_code, response.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.text == f"7 {long_trace}".replace("\u202e", r"\u202e")
    assert get(api, "/ui/connectors/orders/trace")[1].startswith("IOError")
    assert len(get(api, "/ui/connectors/orders/tasks/7")[1]) < 100_000
    assert [get(api, f"/ui/connectors/{path}")[0] for path in ("orders/trace?task=20", "none/trace")] == [
        404,
        404,
    ]


def test_short_traces_are_complete(api_with_orders: Api) -> None:
    assert "Full trace" not in get(api_with_orders, "/ui/connectors/orders")[1]
    assert get(api_with_orders, "/ui/connectors/orders/trace?task=0")[0] == 404, (
        "a task that has not failed has no trace"
    )


def test_cluster_page_shows_workers_and_their_instances(api_with_orders: Api) -> None:
    code, text = get(api_with_orders, "/ui/cluster")
    assert code == 200
    assert "worker:8083" in text
    assert '<a href="/ui/connectors/orders">orders</a>' in text


def test_part_is_the_page_without_its_frame(api_with_orders: Api) -> None:
    _, page = get(api_with_orders, "/ui/connectors")
    code, part = get(api_with_orders, "/ui/connectors?part=list")
    assert code == 200
    assert "<html" not in part
    assert part.strip() in page


def test_unchanged_part_returns_304(api_with_orders: Api) -> None:
    first_response = api_with_orders.client.get("/ui/connectors?part=list")
    headers = {"If-None-Match": first_response.headers["etag"]}
    second_response = api_with_orders.client.get("/ui/connectors?part=list", headers=headers)
    assert (second_response.status_code, second_response.content) == (304, b"")
    api_with_orders.herder.remove("orders")
    assert api_with_orders.client.get("/ui/connectors?part=list", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("path", "expected_request"),
    [
        ("", "curl -sS 'http://testserver/connectors?expand=status&amp;traces=causes'"),
        ("cluster", "curl -sS http://testserver/admin/assignments"),
        ("plugins", "curl -sS 'http://testserver/connector-plugins?connectorsOnly=false'"),
        ("events", "curl -sS 'http://testserver/events?limit=1000'"),
        ("connectors/orders", "curl -sS http://testserver/connectors/orders/topics"),
        ("connectors/orders/charts", "curl -sS http://testserver/connectors/orders/series"),
        ("connectors/orders/history", "curl -sS 'http://testserver/connectors/orders/history?limit=1000'"),
        ("connectors/orders/logs", "curl -sS 'http://testserver/connectors/orders/logs?limit="),
        ("connectors/orders/config", "curl -sS -X PUT"),
        ("connectors/orders/offsets", "curl -sS http://testserver/connectors/orders/offsets"),
        ("connectors/orders/topics", "curl -sS http://testserver/connectors/orders/topics"),
        (
            "connectors/orders/tasks/1",
            "curl -sS 'http://testserver/connectors/orders/history?limit=1000&amp;task=1'",
        ),
        ("connectors/orders/tasks/1/config", "curl -sS http://testserver/connectors/orders/tasks"),
    ],
)
def test_every_page_lists_its_requests_as_curl_commands(
    api_with_orders: Api, path: str, expected_request: str
) -> None:
    code, text = get(api_with_orders, f"/ui/{path}")
    assert code == 200
    assert text.count("<summary>Copy as curl</summary>") == 1
    assert expected_request in text.replace("&#39;", "'")


def test_repeated_requests_are_listed_once_and_parts_list_no_commands(api_with_orders: Api) -> None:
    _, text = get(api_with_orders, "/ui/connectors/orders/logs")
    assert text.count("/connectors/orders/config\n") == 1
    assert "curl" not in get(api_with_orders, "/ui/connectors?part=list")[1]


def test_error_page_has_the_navigation(api: Api) -> None:
    assert 'id="nav-events"' in get(api, "/ui/connectors")[1]
    assert 'id="nav-events"' in get(api, "/ui/connectors/none")[1]


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/ui/connectors/none", 404, "No status found for connector none"),
        ("/ui/nothing", 404, "There is no such page."),
        ("/ui/connectors/%zz", 400, "Path segment %zz contains a %"),
        ("/ui/connectors?part=nothing", 400, "This page has no part nothing."),
    ],
)
def test_error_is_rendered_as_a_page(api_with_orders: Api, path: str, code: int, message: str) -> None:
    response = api_with_orders.client.get(path)
    assert (response.status_code, response.headers["content-type"]) == (code, "text/html; charset=utf-8")
    assert message in response.text


def test_unexpected_error_page_has_no_details() -> None:
    @page("/broken", "pages/error.html")
    async def broken(_visit: Visit) -> Model:
        raise RuntimeError("details")

    client = TestClient(
        standalone(DashboardApp(FeaturelessSource(), DashboardOptions(worker="w:1"), pages=[broken]))
    )
    response = client.get("/ui/broken")
    assert response.status_code == 500
    assert "The dashboard failed" in response.text
    assert "details" not in response.text


def test_disabled_dashboard_returns_404() -> None:
    api = Api(Settings(advertised_url=URL, ui=False))
    assert get(api, "/ui/")[0] == 404


def test_dashboard_is_served_only_by_separate_admin_listeners() -> None:
    api = Api(Settings(advertised_url=URL, has_separate_admin=True))
    api.herder.put("orders", {"connector.class": "x"})
    assert get(api, "/ui/")[0] == 404
    admin_client = TestClient(api.apps.admin)
    assert "/ui/connectors/orders" in admin_client.get("/ui/").text
    assert "worker:8083" in admin_client.get("/ui/cluster").text


def test_dashboard_requires_the_workers_authentication() -> None:
    auth = BasicAuth({"ann": Password("secret")})
    api = Api(Settings(advertised_url=URL, basic_auth=auth))
    api.herder.put("orders", {"connector.class": "x"})
    for path in ("/ui/", "/ui/connectors/orders", "/ui/stream", "/ui/static/0/app.js"):
        response = api.client.get(path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith("Basic")
        assert "orders" not in response.text
    assert "/ui/connectors/orders" in api.client.get("/ui/", auth=("ann", "secret")).text


@pytest.mark.parametrize("read_only", [False, True])
def test_read_only_dashboard_is_marked_and_has_no_actions(*, read_only: bool) -> None:
    api = Api(Settings(advertised_url=URL, ui_read_only=read_only))
    api.herder.put("orders", {"connector.class": "x"}, tasks=1)
    for path in ("/ui/", "/ui/connectors/orders"):
        _, text = get(api, path)
        assert (">read-only</span>" in text) is read_only
        for label in (">Restart<", "Restart the row"):
            assert (label in text) is not read_only


def test_java_worker_has_only_states_and_traces() -> None:
    status = {
        "name": "orders",
        "connector": {"state": "RUNNING", "worker_id": "10.0.0.1:8083", "version": "4.3.0"},
        "tasks": [
            {"id": 0, "state": "FAILED", "worker_id": "10.0.0.2:8083", "version": "4.3.0", "trace": "E: why"}
        ],
        "type": "sink",
    }
    config = {"connector.class": "FileStreamSink", "name": "orders"}
    source = FakeSource(
        {
            "/connectors?expand=status&traces=causes": {"orders": {"status": status}},
            "/connectors?expand=info": {
                "orders": {"info": {"name": "orders", "config": config, "tasks": []}}
            },
            "/connectors/orders/status": status,
            "/connectors/orders/config": config,
            "/connectors/orders/topics": {"orders": {"topics": ["t"]}},
        },
        detect_features({"version": "4.3.0", "commit": "c", "kafka_cluster_id": "k"}, None),
    )
    client = TestClient(dashboard(source))
    list_text = client.get("/ui/").text
    assert "E: why" in list_text
    assert "FileStreamSink" in list_text
    assert "Records/s" not in list_text
    connector_text = client.get("/ui/connectors/orders").text
    assert "E: why" in connector_text
    assert "Last batch" not in connector_text
    cluster_text = client.get("/ui/cluster").text
    assert "10.0.0.2:8083" in cluster_text
    assert "does not report" in cluster_text
    assert not [
        path for _, path in source.requests if "supervision" in path or "progress" in path or "admin" in path
    ]


def test_unavailable_worker_page_shows_the_reason() -> None:
    client = TestClient(
        dashboard(FakeSource(features=SourceUnavailable("http://w:1 does not respond: Connection refused")))
    )
    response = client.get("/ui/")
    assert response.status_code == 502
    assert "The worker is not responding" in response.text
    assert "Connection refused" in response.text


def test_metrics_are_shown_if_available() -> None:
    progress = {"tasks": [{"id": 0, "records_per_second": 12.5}], "recent_records_per_second": [0, 5, 12.5]}
    statuses = {
        "orders": {"status": {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}}
    }
    source = FakeSource(
        {
            "/connectors?expand=status&traces=causes": statuses,
            "/connectors?expand=info": {},
            "/connectors?expand=progress": {"orders": {"progress": progress}},
        },
        Features(kraal=True, progress=True),
    )
    text = TestClient(dashboard(source)).get("/ui/").text
    assert "Records/s" in text
    assert ">12.5<" in text
    assert '<path d="M0.0,19.0L48.0' in text
    assert 'data-live="states configs numbers"' in text


def test_metrics_missing_from_a_java_task_are_omitted() -> None:
    java_task = {"id": 0, "records_per_second": 2.0, "records_total": 7, "poll_ms": 3.5, "write_ms": None}
    source = FakeSource(
        {
            "/connectors/orders/status": {
                "connector": {"state": "RUNNING"},
                "tasks": [{"id": 0, "state": "RUNNING"}],
                "progress": {"tasks": [java_task], "recent_records_per_second": [None] * 24},
            },
        },
        Features(kraal=True, progress=True),
    )
    client = TestClient(dashboard(source))
    connector_text = client.get("/ui/connectors/orders").text
    task_text = client.get("/ui/connectors/orders/tasks/0").text
    assert ">4 ms<" in connector_text
    assert ">4 ms<" in task_text
    for page_text in (connector_text, task_text):
        assert ">Poll<" in page_text
        assert [label for label in ("Backlog", ">Write<", ">Commit<", UNKNOWN) if label in page_text] == []


def test_cluster_page_shows_latest_rebalances_with_reasons() -> None:
    events = [
        {"seq": number, "ms": number, "kind": kind, "text": f"generation {number}", "by": ""}
        for number, kind in enumerate(["rebalance"] * 12 + ["state"])
    ]
    source = FakeSource(
        {"/connectors?expand=status&traces=causes": {}, "/events": {"events": events}},
        Features(kraal=True, events=True),
    )
    text = TestClient(dashboard(source)).get("/ui/cluster").text
    assert [number for number in range(13) if f">generation {number}<" in text] == list(range(2, 12))
    assert text.index(">generation 11<") < text.index(">generation 2<")
    assert 'href="/ui/events?kind=rebalance"' in text


def leader_rebalance(generation: int, leader: str, reason: str | None) -> dict[str, object]:
    return {"generation": generation, "completed_ms": generation, "leader": leader, "reason": reason}


@pytest.mark.parametrize("earlier_reason", ["joined: http://other:8083/", None])
def test_cluster_page_of_any_worker_shows_the_leaders_rebalances(earlier_reason: str | None) -> None:
    latest_rebalance = leader_rebalance(7, "http://other:8083/", "left: http://third:8083/")
    earlier_rebalance = leader_rebalance(6, "http://third:8083/", earlier_reason)
    source = FakeSource(
        {
            "/connectors?expand=status&traces=causes": {},
            "/admin/assignments": {
                "leader": "http://other:8083/", "workers": [], "rebalances": [latest_rebalance, earlier_rebalance],
            },
        },
        Features(kraal=True, events=True, assignments=True),
    )  # fmt: skip
    text = TestClient(dashboard(source)).get("/ui/cluster").text
    assert text.count("<tr data-rebalance>") == 2
    assert text.index("left: http://third:8083/") < text.index(earlier_reason or "unknown")
    assert "that the leader, other:8083, took part in since it started" in text
    assert ("The reasons are unknown for rebalances that another worker led" in text) is (
        earlier_reason is None
    )
    assert "Only the leader" not in text
    assert 'href="/ui/events?kind=rebalance"' in text
    assert not [path for _, path in source.requests if path.startswith("/events")], (
        "the events would show the rebalances twice"
    )


@pytest.mark.parametrize(("leader", "has_note"), [("worker:8083", False), ("other:8083", True)])
def test_follower_refers_to_the_leader_for_rebalance_reasons(leader: str, *, has_note: bool) -> None:
    source = FakeSource(
        {
            "/connectors?expand=status&traces=causes": {},
            "/admin/assignments": {"leader": f"http://{leader}/", "workers": []},
            "/events": {
                "events": [{"seq": 1, "ms": 1, "kind": "rebalance", "text": "generation 1", "by": ""}]
            },
        },
        Features(kraal=True, events=True, assignments=True),
    )
    text = TestClient(dashboard(source)).get("/ui/cluster").text
    assert (f"Only the leader, {leader}, has the reasons" in text) is has_note


def test_missing_page_has_the_navigation() -> None:
    missing_page = TestClient(dashboard(FakeSource(features=Features(events=True)))).get("/ui/nothing")
    assert missing_page.status_code == 404
    assert 'href="/ui/events"' in missing_page.text
    page_without_worker = TestClient(dashboard(FakeSource(features=SourceUnavailable("gone")))).get(
        "/ui/nothing"
    )
    assert page_without_worker.status_code == 404
    assert "There is no such page." in page_without_worker.text
