"""Tests for `expand=progress` and `GET /connectors/{c}/series`: task metrics, merged over several workers."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import ConnectorName, State, TaskId, WorkerId
from kraal.metrics.errors import ErrorCounts
from kraal.metrics.series import RECENT, STEP_S
from kraal.metrics.task import TaskMeter
from kraal.metrics.windows import Windows
from tests.unit.web.api import Api, document, status
from tests.unit.web.openapi.test_document import matches
from tests.unit.web.workers import FakePeer, Worker
from web.middleware import shared_responses
from web.requests import ask_workers
from web.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

C, D = ConnectorName("c"), ConnectorName("d")
T0, T1 = TaskId(C, 0), TaskId(C, 1)
DOCUMENT: Final = document(Settings(advertised_url="http://worker:8083/"))
STATUS_PATH, LIST_PATH, SERIES_PATH = "/connectors/c/status", "/connectors", "/connectors/c/series"
NO_SAMPLES: Final[list[float | None]] = [None] * RECENT
caller_numbers: Iterator[int] = itertools.count()


def start_task(api: Api, task: TaskId, *, is_source: bool = True) -> TaskMeter:
    """Publish a task that runs on this worker; return its meter."""
    api.metrics.record_start(task)
    meter = TaskMeter(
        task, is_source=is_source, time=api.clock, windows=Windows(), publish=api.metrics.publish
    )
    meter.record_state(State.RUNNING)
    return meter


def get_validated(api: Api, path: str, schema: str) -> Any:
    """Return a response that is not shared, after validating it against its schema."""
    code, text = api.request("GET", path, Authorization=str(next(caller_numbers)))
    assert code == 200, text
    body = json.loads(text)
    parts = list(body.values()) if schema == "ExpandedConnector" else [body]
    assert all(matches(DOCUMENT["components"]["schemas"][schema], part, DOCUMENT) for part in parts)
    return body


def get_progress(api: Api, query: str = "?expand=progress") -> Any:
    return get_validated(api, STATUS_PATH + query, "ConnectorStateInfo")["progress"]


def test_source_reports_its_progress(api: Api) -> None:
    api.herder.put("c", {}, tasks=1)
    meter = start_task(api, T0)
    errors = ErrorCounts(errors=4, skipped=3, logged=2, dead_letters=1, failures=9)
    meter.record_batch(records=40, read=44, duration_s=0.04567, poll_s=0.0125, errors=errors)
    meter.record_commit_start()
    api.clock.advance_to(0.5)
    meter.record_commit()
    api.clock.advance_to(STEP_S)
    api.series.sample()
    api.metrics.track(T0)(busy=True)
    api.clock.advance_to(7.0)
    assert get_progress(api) == {
        "tasks": [
            {
                "id": 0, "worker_id": "worker:8083",
                "records_per_second": 1.08, "records_total": 40, "read_total": 44,
                "poll_ms": 12.5, "write_ms": 45.67, "commit_ms": 500.0, "commits_total": 1,
                "errors": {"failed": 4, "skipped": 3, "logged": 2, "dead_lettered": 1},
                "backlog_records": None, "stalled": False, "stall_cause": None, "step_ms": 2000,
                "last_batch_age_ms": 7000,
            }
        ],
        "stall_cause": None,
        "recent_records_per_second": [*[None] * (RECENT - 1), 8.0],
        "silent": [],
    }  # fmt: skip


def test_running_sink_reports_a_backlog(api: Api) -> None:
    api.herder.put("c", {}, tasks=1)
    start_task(api, T0, is_source=False).record_batch(records=1, duration_s=0.25, poll_s=0.0)
    assert get_progress(api)["tasks"][0]["backlog_records"] is None, "no backlog has been reported yet"
    api.metrics.record_backlog(T0, 17)
    [task] = get_progress(api)["tasks"]
    assert (task["backlog_records"], task["poll_ms"], task["write_ms"]) == (17, None, 250.0)
    paused_statuses = ConnectorStatuses(connector=status(State.PAUSED), tasks={0: status(State.PAUSED)})
    api.herder.put("c", {}, tasks=1, statuses=paused_statuses)
    assert get_progress(api)["tasks"][0]["backlog_records"] is None, "a paused sink does not read"


def test_java_tasks_report_metrics_of_their_jvm(api: Api) -> None:
    api.herder.put("c", {}, tasks=2)
    for task in (T0, T1):
        start_task(api, task).record_batch(records=5, duration_s=60, poll_s=0, continuous=True)
    api.java.tasks = {T0: None, T1: None}
    api.java.reported_metrics = {
        T1: {
            "source-record-write-rate": 2.345678, "source-record-write-total": 90.0,
            "source-record-poll-total": 91.0, "poll-batch-avg-time-ms": 3.5,
            "offset-commit-avg-time-ms": float("nan"), "total-records-skipped": 1.0,
        }
    }  # fmt: skip
    unreported_task, reported_task = get_progress(api)["tasks"]
    metric_names = ("records_per_second", "records_total", "read_total", "poll_ms", "write_ms", "commit_ms")
    assert [unreported_task[name] for name in metric_names] == [None] * 6
    assert unreported_task["errors"] == dict.fromkeys(("failed", "skipped", "logged", "dead_lettered"))
    assert [reported_task[name] for name in metric_names] == [2.35, 90, 91, 3.5, None, None]
    assert reported_task["errors"]["skipped"] == 1
    assert api.java.gather_count == 1


def test_list_includes_progress_with_and_without_other_parts(api: Api) -> None:
    api.herder.put("c", {}, tasks=1)
    api.herder.put("d", {})
    start_task(api, T0).record_batch(records=5, duration_s=0, poll_s=0)
    connect_parts = json.loads(api.request("GET", f"{LIST_PATH}?expand=info&expand=status")[1])
    progress_only = get_validated(api, f"{LIST_PATH}?expand=progress", "ExpandedConnector")
    assert {name: list(parts) for name, parts in progress_only.items()} == {
        "c": ["progress"],
        "d": ["progress"],
    }
    assert progress_only["c"]["progress"]["tasks"][0]["records_total"] == 5
    empty_progress = {"tasks": [], "stall_cause": None, "recent_records_per_second": NO_SAMPLES, "silent": []}
    assert progress_only["d"]["progress"] == empty_progress
    for parts in (["progress", "info", "status"], ["info", "progress", "status"]):
        query = "&".join(f"expand={part}" for part in parts)
        code, text = api.request("GET", f"{LIST_PATH}?{query}")
        body = json.loads(text)
        assert (code, [list(connector_parts) for connector_parts in body.values()]) == (200, [parts, parts])
        assert {
            name: {key: parts_by_key[key] for key in ("info", "status")}
            for name, parts_by_key in body.items()
        } == connect_parts


@pytest.mark.parametrize("query", ["", "?expand=Progress", "?progress", "?expand="])
def test_responses_without_expand_match_connect(api: Api, query: str) -> None:
    api.herder.put("c", {}, tasks=1)
    start_task(api, T0)
    assert "records_total" not in api.request("GET", LIST_PATH + query)[1]
    assert api.request("GET", STATUS_PATH + query) == api.request("GET", STATUS_PATH)
    assert "progress" not in api.request("GET", STATUS_PATH)[1]


def test_status_includes_progress_and_supervision(api: Api) -> None:
    api.herder.put("c", {}, tasks=1)
    start_task(api, T0)
    body = get_validated(api, f"{STATUS_PATH}?expand=progress&expand=supervision", "ConnectorStateInfo")
    connect_status = json.loads(api.request("GET", STATUS_PATH)[1])
    assert list(body) == [*connect_status, "supervision", "progress"]
    assert {name: body[name] for name in connect_status} == connect_status


def test_progress_is_not_cached_for_other_users(api: Api) -> None:
    api.herder.put("c", {}, tasks=1)
    meter = start_task(api, T0)
    assert get_progress(api)["tasks"][0]["records_total"] == 0
    meter.record_batch(records=5, duration_s=0, poll_s=0)
    assert get_progress(api)["tasks"][0]["records_total"] == 5


@pytest.mark.parametrize("path", [f"{STATUS_PATH}?expand=progress", SERIES_PATH])
def test_unknown_connector_returns_404(api: Api, path: str) -> None:
    code, text = api.request("GET", path)
    assert (code, json.loads(text)["error_code"]) == (404, 404)


# -- series ------------------------------------------------------------------------------------------------


def test_connector_reports_its_series(api: Api) -> None:
    api.herder.put("c", {}, tasks=1)
    meter = start_task(api, T0, is_source=False)
    for number in (1, 2):
        meter.record_batch(records=10 * number, duration_s=0.5, poll_s=0)
        api.metrics.record_backlog(T0, number)
        api.clock.advance_to(number * STEP_S)
        api.series.sample()
    expected = {
        "step_ms": 5000,
        "start_ms": 1_700_000_000_000,
        "tasks": [
            {
                "id": 0, "records_per_second": [2.0, 4.0], "poll_ms": [None, None], "write_ms": [500.0, 500.0],
                "commit_ms": [None, None], "backlog_records": [1, 2],
            }
        ],
        "worker_ids": ["worker:8083"],
        "silent": [],
    }  # fmt: skip
    assert get_validated(api, SERIES_PATH, "ConnectorSeries") == expected
    later_series = get_validated(api, f"{SERIES_PATH}?since_ms=1700000005000", "ConnectorSeries")
    assert (later_series["start_ms"], later_series["tasks"][0]["backlog_records"]) == (1_700_000_005_000, [2])


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1" * 16, "%C2%B2"])
def test_invalid_start_time_is_rejected(api: Api, text: str) -> None:
    api.herder.put("c", {})
    code, body = api.request("GET", f"{SERIES_PATH}?since_ms={text}")
    assert code == 400
    assert json.loads(body)["message"].startswith("Invalid value ")
    assert json.loads(body)["message"].endswith(" for query parameter since_ms; expected a whole number")


# -- several workers ---------------------------------------------------------------------------------------


def publish_tasks(
    workers: Mapping[int, Worker], other_tasks: Mapping[int, str] | None = None
) -> list[TaskMeter]:
    """Publish a connector whose task N runs on the worker `workers[N]`; return the meters of these tasks.

    `other_tasks` maps the numbers of further tasks to worker ids.
    """
    workers_by_task = {
        number: urlsplit(running_worker.url).netloc for number, running_worker in workers.items()
    } | dict(other_tasks or {})
    tasks = {
        number: replace(status(State.RUNNING), worker_id=WorkerId(worker))
        for number, worker in workers_by_task.items()
    }
    statuses = ConnectorStatuses(connector=tasks[0], tasks=tasks)
    meters = []
    for number, running_worker in workers.items():
        running_worker.api.herder.publish(worker_id=WorkerId(workers_by_task[number]))
        running_worker.api.herder.put("c", {}, tasks=len(tasks), statuses=statuses)
        for task in [
            instance
            for instance in running_worker.api.metrics.current().plugin_versions
            if isinstance(instance, TaskId)
        ]:
            running_worker.api.metrics.remove(task)
        meters.append(start_task(running_worker.api, TaskId(C, number)))
    return meters


def ask(worker: Worker, path: str, caller: str | None = None) -> Any:
    response = worker.ask("GET", path, Authorization=caller or str(next(caller_numbers)))
    assert response.status_code == 200, response.text
    return response.json()


def sample(*workers: Worker) -> None:
    """Take the next sample on all workers at the same time."""
    now_s = (max(worker.api.clock.now() for worker in workers) // STEP_S + 1) * STEP_S
    for worker in workers:
        worker.api.clock.advance_to(now_s)
        worker.api.series.sample()


def test_all_workers_of_a_connector_are_queried(
    follower: Worker, leader: Worker, peer: tuple[str, FakePeer]
) -> None:
    url, stub = peer
    follower_id, leader_id, java_id = (
        urlsplit(worker_url).netloc for worker_url in (follower.url, leader.url, url)
    )
    stub.status, stub.body = 200, b'{"c":{}}'
    for meter in publish_tasks({0: follower, 1: leader}, {2: java_id, 3: "no worker/at:1"}):
        meter.record_batch(records=10, duration_s=0, poll_s=0)
    sample(follower, leader)
    for response in (
        ask(follower, f"{STATUS_PATH}?expand=progress")["progress"],
        ask(follower, f"{LIST_PATH}?expand=progress")["c"]["progress"],
    ):
        assert [(task["id"], task["worker_id"]) for task in response["tasks"]] == [
            (0, follower_id),
            (1, leader_id),
        ]
        assert response["recent_records_per_second"][-1] == 4, "the rate is the sum of both tasks"
        assert response["silent"] == sorted([java_id, "no worker/at:1"])
    assert [request.target for request in stub.requests] == [
        "/connectors/c/status?forward=false&expand=progress",
        "/connectors?forward=false&expand=progress",
    ]


def test_forwarded_request_returns_local_tasks_only(follower: Worker, leader: Worker) -> None:
    publish_tasks({0: follower, 1: leader})
    leader.api.herder.put("d", {})
    local_progress = ask(leader, f"{LIST_PATH}?forward=false&expand=progress")
    assert local_progress["d"] == {}, "no instance runs on this worker"
    assert [task["id"] for task in local_progress["c"]["progress"]["tasks"]] == [1]
    assert local_progress["c"]["progress"]["silent"] == []
    assert ask(leader, f"{LIST_PATH}?expand=progress")["d"]["progress"]["tasks"] == []


def test_series_are_merged_over_all_workers_of_a_task(
    follower: Worker, leader: Worker, peer: tuple[str, FakePeer]
) -> None:
    follower_id, leader_id = (urlsplit(worker_url).netloc for worker_url in (follower.url, leader.url))
    url, stub = peer
    stub.status, stub.body = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
    sample(follower, leader)
    first_meter, second_meter = publish_tasks({0: follower, 1: leader}, {2: urlsplit(url).netloc})
    first_meter.record_batch(records=5, duration_s=0, poll_s=0)
    second_meter.record_batch(records=10, duration_s=0, poll_s=0)
    sample(follower, leader)
    new_meter = start_task(leader.api, T0)
    follower.api.metrics.remove(T0)
    new_meter.record_batch(records=15, duration_s=0, poll_s=0)
    sample(follower, leader)
    now_ms = follower.api.clock.wall_ms()
    response = ask(follower, f"{SERIES_PATH}?since_ms={now_ms - 10_000}")
    assert [(task["id"], task["records_per_second"]) for task in response["tasks"]] == [
        (0, [1, 3]),
        (1, [2, 0]),
    ]
    assert (response["start_ms"], response["worker_ids"]) == (
        now_ms - 10_000,
        sorted([follower_id, leader_id]),
    )
    assert response["silent"] == [urlsplit(url).netloc]
    assert [request.target for request in stub.requests] == [
        f"{SERIES_PATH}?forward=false&since_ms={now_ms - 10_000}"
    ]


def test_requests_of_one_user_within_a_second_share_a_response(
    follower: Worker, peer: tuple[str, FakePeer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_responses, "REUSE_S", 60)
    url, stub = peer
    stub.status, stub.body = 200, b'{"c":{}}'
    publish_tasks({0: follower}, {1: urlsplit(url).netloc})
    user = str(next(caller_numbers))
    for path in (f"{LIST_PATH}?expand=progress", f"{STATUS_PATH}?expand=progress", SERIES_PATH):
        stub.requests.clear()
        assert ask(follower, path, user) == ask(follower, path, user)
        assert len(stub.requests) == 1
        ask(follower, path)
        assert len(stub.requests) == 2, "another user has a separate response"


def test_client_sees_its_own_change_immediately(api: Api) -> None:
    api.herder.put("c", {})
    query = f"{LIST_PATH}?expand=progress&expand=status"
    assert json.loads(api.request("GET", query)[1])["c"]["status"]["connector"]["state"] == "RUNNING"
    assert api.request("PUT", "/connectors/c/pause")[0] == 202
    assert json.loads(api.request("GET", query)[1])["c"]["status"]["connector"]["state"] == "PAUSED"


SERIES_BODY = b'{"step_ms":5000,"start_ms":1700000000000,"tasks":[%s]}'


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (500, b'{"error_code":500,"message":"x"}'),
        (200, b"nonsense"),
        (200, b"[]"),
        (200, b'{"progress":7,"c":7}'),
        (200, b'{"c":{"progress":{"tasks":[7],"recent_records_per_second":[]}}}'),
        (200, b'{"progress":{"tasks":[{"id":1}],"recent_records_per_second":[1]}}'),
        (200, b'{"progress":{"tasks":[{"id":1}],"recent_records_per_second":"%s"}}' % (b"x" * RECENT)),
        (200, b'{"progress":{"tasks":[],"recent_records_per_second":[NaN%s]}}' % (b",1" * (RECENT - 1))),
        (200, b'{"step_ms":1000,"start_ms":0,"tasks":[]}'),
        (200, b""),
        (204, b""),
    ],
)
def test_worker_with_a_malformed_response_is_listed_as_silent(
    follower: Worker, peer: tuple[str, FakePeer], code: int, body: bytes
) -> None:
    url, stub = peer
    stub.status, stub.body = code, body
    publish_tasks({0: follower}, {1: urlsplit(url).netloc})
    silent_workers = [urlsplit(url).netloc]
    assert ask(follower, f"{STATUS_PATH}?expand=progress")["progress"]["silent"] == silent_workers
    assert ask(follower, f"{LIST_PATH}?expand=progress")["c"]["progress"]["silent"] == silent_workers
    assert ask(follower, SERIES_PATH)["silent"] == silent_workers


@pytest.mark.parametrize(
    "task", [b"7", b'{"id":1}', b'{"id":1,"records_per_second":[%s]}' % b",".join([b"1"] * 121)]
)
def test_malformed_tasks_of_a_series_are_skipped(
    follower: Worker, peer: tuple[str, FakePeer], task: bytes
) -> None:
    url, stub = peer
    stub.status, stub.body = 200, SERIES_BODY % task
    publish_tasks({0: follower}, {1: urlsplit(url).netloc})
    sample(follower)
    response = ask(follower, SERIES_PATH)
    assert ([task["id"] for task in response["tasks"]], response["silent"]) == ([0], [])


def test_samples_with_skewed_clocks_are_skipped(follower: Worker, peer: tuple[str, FakePeer]) -> None:
    url, stub = peer
    columns = b",".join(b'"%s":[1]' % name for name in (b"records_per_second", b"poll_ms", b"write_ms"))
    task = b'{"id":1,%s,"commit_ms":[1],"backlog_records":[1]}' % columns
    stub.status, stub.body = 200, (SERIES_BODY % task).replace(b"1700000000000", b"999999999995000")
    publish_tasks({0: follower}, {1: urlsplit(url).netloc})
    sample(follower)
    response = ask(follower, SERIES_PATH)
    assert len(response["tasks"][0]["poll_ms"]) == len(response["tasks"][1]["poll_ms"]) <= 120
    assert set(response["tasks"][1]["records_per_second"]) == {None}


def test_oversized_response_is_not_read(
    follower: Worker, leader: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_tasks({0: follower, 1: leader})
    assert ask(follower, f"{STATUS_PATH}?expand=progress")["progress"]["silent"] == []
    monkeypatch.setattr(ask_workers, "MAX_RESPONSE_BYTES", 100)
    assert ask(follower, f"{STATUS_PATH}?expand=progress")["progress"]["silent"] == [
        urlsplit(leader.url).netloc
    ]
