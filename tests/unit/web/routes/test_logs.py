"""Tests for `GET /connectors/{c}/logs`: filters, limits, paging, and the merging of lines from several workers."""

from __future__ import annotations

import json
import logging
from contextvars import copy_context
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import ConnectorName, State, WorkerId
from kraal.core.logging import log_subject
from kraal.journal.log_lines import LINE_BYTES
from tests.unit.web.api import WORKER, Api, document, status
from tests.unit.web.openapi.test_document import matches
from tests.unit.web.workers import FakePeer, Worker
from web.openapi import history as shapes
from web.routes.logs import MAX_BYTES, LogQuery, Positions, WorkerLines, _parse_response, merge_lines
from web.settings import Settings

NAME = ConnectorName("c")
DOCUMENT = document(Settings(advertised_url="http://worker:8083/"))
PATH = "/connectors/c/logs"
SCHEMA = DOCUMENT["paths"]["/connectors/{connector}/logs"]["get"]["responses"]["200"]["content"][
    "application/json"
]["schema"]


def log_line(
    api: Api, text: str, *, task: int | None = 0, level: int = logging.INFO, at_s: float = 1.0
) -> None:
    """Log a line in the context of the connector, or of one of its tasks."""
    record = logging.makeLogRecord({"name": "kraal.x", "levelno": level, "msg": text, "created": at_s})

    def run() -> None:
        log_subject.set(f"connector {NAME}" if task is None else f"task {NAME}-{task}")
        api.journal.lines.handle(record)

    copy_context().run(run)


def parse_and_validate(text: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(text)
    assert matches(SCHEMA, body, DOCUMENT)
    return body


def get_logs(api: Api, query: str = "") -> dict[str, Any]:
    code, text = api.request("GET", PATH + query)
    assert code == 200, text
    return parse_and_validate(text)


def list_messages(body: dict[str, Any]) -> list[str]:
    return [line["message"] for line in body["lines"]]


class TestOneWorker:
    """Lines of a single worker."""

    def test_lines_are_returned_oldest_first(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=1)
        log_line(api, "one", task=None, at_s=1.5)
        log_line(api, "two", level=logging.WARNING, at_s=2.0)
        assert get_logs(api)["lines"] == [
            {"id": 1_500_000, "ms": 1_500, "worker_id": WORKER, "level": "INFO", "logger": "kraal.x",
             "task": None, "message": "one"},
            {"id": 2_000_000, "ms": 2_000, "worker_id": WORKER, "level": "WARN", "logger": "kraal.x",
             "task": 0, "message": "two"},
        ]  # fmt: skip

    def test_lines_are_filtered_by_task_and_level(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=2)
        log_line(api, "info", task=0)
        log_line(api, "warning", task=1, level=logging.WARNING)
        log_line(api, "error", task=0, level=logging.ERROR)
        assert list_messages(get_logs(api, "?level=warn")) == ["warning", "error"]
        assert list_messages(get_logs(api, "?task=0")) == ["info", "error"]
        assert list_messages(get_logs(api, "?task=0&level=ERROR")) == ["error"]

    def test_reader_resumes_at_its_position(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=1)
        for number in range(10):
            log_line(api, str(number))
        first = get_logs(api, "?limit=3")
        assert list_messages(first) == ["7", "8", "9"]
        assert list_messages(get_logs(api, f"?after={quote(first['next'])}")) == []
        for number in range(10, 15):
            log_line(api, str(number))
        second = get_logs(api, f"?limit=3&after={quote(first['next'])}")
        third = get_logs(api, f"?limit=3&after={quote(second['next'])}")
        assert list_messages(second) + list_messages(third) == ["10", "11", "12", "13", "14"]
        assert list_messages(get_logs(api, f"?after={third['lines'][0]['id']}")) == ["14"], (
            "an id is also a valid position"
        )
        assert list_messages(get_logs(api, "?after=0&limit=2")) == ["0", "1"]

    def test_response_size_is_limited(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=1)
        for _ in range(2_000):
            log_line(api, '"' * 5_000)
        code, text = api.request("GET", f"{PATH}?limit=1000")
        assert code == 200
        assert len(text.encode()) < 300_000
        assert json.loads(text)["dropped"] > 1_900

    def test_unknown_connector_returns_404_and_deleted_connector_keeps_lines(self, api: Api) -> None:
        assert api.request("GET", "/connectors/none/logs")[0] == 404
        log_line(api, "before its end")
        assert list_messages(get_logs(api)) == ["before its end"]
        api.herder.put("quiet", {})
        code, text = api.request("GET", "/connectors/quiet/logs")
        assert (code, json.loads(text)) == (
            200, {"lines": [], "next": f"0@{WORKER}", "dropped": 0, "silent": []},
        )  # fmt: skip

    @pytest.mark.parametrize(
        "query",
        ["limit=0", "limit=1001", "task=x", "level=LOUD", "after=", "after=x", "after=1@", "after=1,,2",
         f"after={'1,' * 20_000}1"],
    )  # fmt: skip
    def test_invalid_parameters_are_rejected(self, api: Api, query: str) -> None:
        api.herder.put("c", {})
        code, text = api.request("GET", f"{PATH}?{query}")
        assert code == 400
        assert "Invalid " in text
        assert len(text) < 400


def publish_tasks(worker: Worker, tasks: dict[int, str]) -> None:
    """Publish that the connector runs on this worker, and its tasks on the workers in `tasks`."""
    worker_id = WorkerId(urlsplit(worker.url).netloc)
    statuses_by_task = {
        number: replace(status(State.RUNNING), worker_id=WorkerId(owner)) for number, owner in tasks.items()
    }
    worker.api.herder.publish(worker_id=worker_id)
    connector = replace(status(State.RUNNING), worker_id=worker_id)
    worker.api.herder.put("c", {}, statuses=ConnectorStatuses(connector=connector, tasks=statuses_by_task))


def test_lines_of_other_workers_are_truncated() -> None:
    line = {"id": 1, "ms": 1, "worker_id": "b:1", "level": "INFO", "logger": "x" * 9_000, "task": None}
    response = _parse_response({"lines": [{**line, "message": "y" * 2_000_000, "more": 1}], "dropped": 0})
    assert response is not None
    [parsed_line] = response.lines
    assert len(parsed_line["message"]) <= LINE_BYTES
    assert list(parsed_line) == list(shapes.LINE_FIELDS)
    assert matches(SCHEMA, {**merge_lines({WorkerId("b:1"): response}, LogQuery()), "silent": []}, DOCUMENT)


class TestGroup:
    """Lines of several workers, merged by the worker that receives the request."""

    @pytest.fixture(autouse=True)
    def reset_lines(self, follower: Worker, leader: Worker) -> None:
        for group_worker in (follower, leader):
            group_worker.api.journal.lines.__init__(131_072, 1 << 20, lambda _: None)  # type: ignore[misc]

    def test_lines_are_merged_and_silent_workers_listed(
        self, follower: Worker, leader: Worker, peer: tuple[str, FakePeer]
    ) -> None:
        url, stub = peer
        follower_id, leader_id, java_id = (
            urlsplit(worker_url).netloc for worker_url in (follower.url, leader.url, url)
        )
        stub.status, stub.body = 200, b'{"lines":[{"id":"no number"}],"dropped":0}'
        publish_tasks(follower, {0: follower_id, 1: leader_id, 2: java_id, 3: "no worker/at:1"})
        publish_tasks(leader, {0: follower_id, 1: leader_id})
        log_line(follower.api, "one", task=0, at_s=1)
        log_line(leader.api, "two", task=1, at_s=2)
        log_line(follower.api, "three", task=0, at_s=3)
        body = parse_and_validate(follower.ask("GET", f"{PATH}?level=INFO&limit=10").text)
        assert [(line["message"], line["worker_id"]) for line in body["lines"]] == [
            ("one", follower_id), ("two", leader_id), ("three", follower_id),
        ]  # fmt: skip
        assert body["silent"] == sorted([java_id, "no worker/at:1"])
        [request] = stub.requests
        assert request.target == f"{PATH}?forward=false&limit=10&level=INFO"

    def test_lines_are_complete_despite_clock_skew(self, follower: Worker, leader: Worker) -> None:
        follower_id, leader_id = (urlsplit(group_worker.url).netloc for group_worker in (follower, leader))
        for group_worker in (follower, leader):
            publish_tasks(group_worker, {0: follower_id, 1: leader_id})
        log_line(follower.api, "ahead 1", at_s=1_000)
        log_line(leader.api, "behind 1", task=1, at_s=1)
        first = parse_and_validate(follower.ask("GET", PATH).text)
        log_line(leader.api, "behind 2", task=1, at_s=2)
        log_line(follower.api, "ahead 2", at_s=1_001)
        second = parse_and_validate(follower.ask("GET", f"{PATH}?after={quote(first['next'])}").text)
        assert list_messages(first) == ["behind 1", "ahead 1"]
        assert list_messages(second) == ["behind 2", "ahead 2"]
        leader_page = parse_and_validate(leader.ask("GET", f"{PATH}?after={quote(second['next'])}").text)
        assert list_messages(leader_page) == [], "every worker can continue from the position"

    def test_forwarded_request_is_not_forwarded_again(self, follower: Worker, leader: Worker) -> None:
        follower_id, leader_id = (urlsplit(group_worker.url).netloc for group_worker in (follower, leader))
        publish_tasks(follower, {0: follower_id, 1: leader_id})
        log_line(leader.api, "theirs", task=1)
        assert list_messages(parse_and_validate(follower.ask("GET", f"{PATH}?forward=false").text)) == []


IDS = st.sets(st.integers(1, 60), max_size=25)


@given(st.dictionaries(st.sampled_from(["a:1", "b:2", "c:3"]), IDS, min_size=1), st.integers(1, 7))
def test_paging_returns_every_line_once(ids: dict[str, set[int]], limit: int) -> None:
    def line(line_id: int) -> dict[str, Any]:
        return {"id": line_id, "ms": 0, "level": "INFO", "logger": "x", "task": None, "message": str(line_id)}

    after, returned_ids = Positions(), list[tuple[str, int]]()
    for _ in range(80):
        responses = {
            WorkerId(worker): WorkerLines(
                [line(line_id) for line_id in sorted(line_ids) if line_id > after.position_on(worker)][:limit]
            )
            for worker, line_ids in ids.items()
        }
        page = merge_lines(responses, LogQuery(limit=limit, after=after))
        assert len(page["lines"]) <= limit
        returned_ids += [(page_line["worker_id"], page_line["id"]) for page_line in page["lines"]]
        after = Positions.parse(page["next"])
    assert sorted(returned_ids) == sorted(
        (worker, line_id) for worker, line_ids in ids.items() for line_id in line_ids
    )


@given(st.lists(st.integers(0, 400_000), max_size=12), st.sampled_from(["latest", "first"]))
def test_merged_response_is_limited_to_the_latest_or_first_lines(sizes: list[int], kind: str) -> None:
    is_latest = kind == "latest"
    lines = [
        {"id": index, "ms": 0, "level": "INFO", "logger": "x", "task": None, "message": "y" * size}
        for index, size in enumerate(sizes)
    ]
    page = merge_lines(
        {WorkerId("a:1"): WorkerLines(lines)}, LogQuery(limit=1_000, after=None if is_latest else Positions())
    )
    line_ids = [page_line["id"] for page_line in page["lines"]]
    assert sum(len(page_line["message"]) for page_line in page["lines"]) <= MAX_BYTES
    expected = list(range(len(sizes)))
    assert line_ids == (expected[len(sizes) - len(line_ids) :] if is_latest else expected[: len(line_ids)])
    if len(line_ids) < len(sizes):
        omitted_size = sizes[len(sizes) - len(line_ids) - 1] if is_latest else sizes[len(line_ids)]
        assert sum(sizes[index] for index in line_ids) + omitted_size + 300 * (len(line_ids) + 1) > MAX_BYTES
