"""`GET /connectors/{c}/logs`: lines of all workers that run a connector, merged, filtered, bounded, and continued."""

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
from kraal.core.logging import about
from kraal.journal.log_lines import LINE_BYTES
from tests.unit.web.api import WORKER, Api, document, status
from tests.unit.web.openapi.test_document import matches
from tests.unit.web.workers import Stranger, Worker
from web.openapi import history as shapes
from web.routes.logs import MAX_BYTES, LogQuery, Positions, WorkerLines, _parse_answer, merge_lines
from web.settings import Settings

NAME = ConnectorName("c")
DOCUMENT = document(Settings(advertised_url="http://worker:8083/"))
PATH = "/connectors/c/logs"
SCHEMA = DOCUMENT["paths"]["/connectors/{connector}/logs"]["get"]["responses"]["200"]["content"][
    "application/json"
]["schema"]


def say(api: Api, text: str, *, task: int | None = 0, level: int = logging.INFO, at_s: float = 1.0) -> None:
    """Log a line on a thread that works for the connector or a task of it."""
    record = logging.makeLogRecord({"name": "kraal.x", "levelno": level, "msg": text, "created": at_s})

    def run() -> None:
        about.set(f"connector {NAME}" if task is None else f"task {NAME}-{task}")
        api.journal.lines.handle(record)

    copy_context().run(run)


def checked(text: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(text)
    assert matches(SCHEMA, body, DOCUMENT)
    return body


def told(api: Api, query: str = "") -> dict[str, Any]:
    code, text = api.request("GET", PATH + query)
    assert code == 200, text
    return checked(text)


def texts(body: dict[str, Any]) -> list[str]:
    return [line["message"] for line in body["lines"]]


class TestOfOneWorker:
    """Its own lines."""

    def test_lines_are_shown_oldest_first(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=1)
        say(api, "one", task=None, at_s=1.5)
        say(api, "two", level=logging.WARNING, at_s=2.0)
        assert told(api)["lines"] == [
            {"id": 1_500_000, "ms": 1_500, "worker_id": WORKER, "level": "INFO", "logger": "kraal.x",
             "task": None, "message": "one"},
            {"id": 2_000_000, "ms": 2_000, "worker_id": WORKER, "level": "WARN", "logger": "kraal.x",
             "task": 0, "message": "two"},
        ]  # fmt: skip

    def test_lines_are_filtered_by_task_and_level(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=2)
        say(api, "info", task=0)
        say(api, "warning", task=1, level=logging.WARNING)
        say(api, "error", task=0, level=logging.ERROR)
        assert texts(told(api, "?level=warn")) == ["warning", "error"]
        assert texts(told(api, "?task=0")) == ["info", "error"]
        assert texts(told(api, "?task=0&level=ERROR")) == ["error"]

    def test_a_reader_resumes_at_its_position(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=1)
        for number in range(10):
            say(api, str(number))
        first = told(api, "?limit=3")
        assert texts(first) == ["7", "8", "9"]
        assert texts(told(api, f"?after={quote(first['next'])}")) == []
        for number in range(10, 15):
            say(api, str(number))
        second = told(api, f"?limit=3&after={quote(first['next'])}")
        third = told(api, f"?limit=3&after={quote(second['next'])}")
        assert texts(second) + texts(third) == ["10", "11", "12", "13", "14"]
        assert texts(told(api, f"?after={third['lines'][0]['id']}")) == ["14"], "an id is a position as well"
        assert texts(told(api, "?after=0&limit=2")) == ["0", "1"]

    def test_an_answer_is_bounded_in_bytes(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=1)
        for _ in range(2_000):
            say(api, '"' * 5_000)
        code, text = api.request("GET", f"{PATH}?limit=1000")
        assert code == 200
        assert len(text.encode()) < 300_000
        assert json.loads(text)["dropped"] > 1_900

    def test_an_unknown_connector_is_404_and_a_deleted_one_may_have_lines(self, api: Api) -> None:
        assert api.request("GET", "/connectors/none/logs")[0] == 404
        say(api, "before its end")
        assert texts(told(api)) == ["before its end"]
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
    def test_invalid_parameters_are_refused(self, api: Api, query: str) -> None:
        api.herder.put("c", {})
        code, text = api.request("GET", f"{PATH}?{query}")
        assert code == 400
        assert "Invalid " in text
        assert len(text) < 400


def in_group(one: Worker, tasks: dict[int, str]) -> None:
    """Have tasks of the connector run on these workers, and the connector itself on this one."""
    worker_id = WorkerId(urlsplit(one.url).netloc)
    statuses_by_task = {
        number: replace(status(State.RUNNING), worker_id=WorkerId(of)) for number, of in tasks.items()
    }
    one.api.herder.publish(worker_id=worker_id)
    connector = replace(status(State.RUNNING), worker_id=worker_id)
    one.api.herder.put("c", {}, statuses=ConnectorStatuses(connector=connector, tasks=statuses_by_task))


def test_lines_of_another_worker_are_cut_like_own_ones() -> None:
    line = {"id": 1, "ms": 1, "worker_id": "b:1", "level": "INFO", "logger": "x" * 9_000, "task": None}
    response = _parse_answer({"lines": [{**line, "message": "y" * 2_000_000, "more": 1}], "dropped": 0})
    assert response is not None
    [line_ids] = response.lines
    assert len(line_ids["message"]) <= LINE_BYTES
    assert list(line_ids) == list(shapes.LINE_FIELDS)
    assert matches(SCHEMA, {**merge_lines({WorkerId("b:1"): response}, LogQuery()), "silent": []}, DOCUMENT)


class TestOfAGroup:
    """The lines of each worker, merged by the one that is asked."""

    @pytest.fixture(autouse=True)
    def no_lines(self, follower: Worker, leader: Worker) -> None:
        for each in (follower, leader):
            each.api.journal.lines.__init__(131_072, 1 << 20, lambda _: None)  # type: ignore[misc]

    def test_lines_are_merged_and_silent_workers_named(
        self, follower: Worker, leader: Worker, peer: tuple[str, Stranger]
    ) -> None:
        url, stub = peer
        ours, theirs, java = (urlsplit(each).netloc for each in (follower.url, leader.url, url))
        stub.status, stub.body = 200, b'{"lines":[{"id":"no number"}],"dropped":0}'
        in_group(follower, {0: ours, 1: theirs, 2: java, 3: "no worker/at:1"})
        in_group(leader, {0: ours, 1: theirs})
        say(follower.api, "one", task=0, at_s=1)
        say(leader.api, "two", task=1, at_s=2)
        say(follower.api, "three", task=0, at_s=3)
        body = checked(follower.ask("GET", f"{PATH}?level=INFO&limit=10").text)
        assert [(line["message"], line["worker_id"]) for line in body["lines"]] == [
            ("one", ours), ("two", theirs), ("three", ours),
        ]  # fmt: skip
        assert body["silent"] == sorted([java, "no worker/at:1"])
        [request] = stub.seen
        assert request.target == f"{PATH}?forward=false&limit=10&level=INFO"

    def test_lines_are_complete_despite_clock_skew(self, follower: Worker, leader: Worker) -> None:
        ours, theirs = (urlsplit(each.url).netloc for each in (follower, leader))
        for each in (follower, leader):
            in_group(each, {0: ours, 1: theirs})
        say(follower.api, "ahead 1", at_s=1_000)
        say(leader.api, "behind 1", task=1, at_s=1)
        first = checked(follower.ask("GET", PATH).text)
        say(leader.api, "behind 2", task=1, at_s=2)
        say(follower.api, "ahead 2", at_s=1_001)
        second = checked(follower.ask("GET", f"{PATH}?after={quote(first['next'])}").text)
        assert texts(first) == ["behind 1", "ahead 1"]
        assert texts(second) == ["behind 2", "ahead 2"]
        other_way = checked(leader.ask("GET", f"{PATH}?after={quote(second['next'])}").text)
        assert texts(other_way) == [], "any worker can be asked for the next lines"

    def test_forwarded_request_is_not_forwarded_again(self, follower: Worker, leader: Worker) -> None:
        ours, theirs = (urlsplit(each.url).netloc for each in (follower, leader))
        in_group(follower, {0: ours, 1: theirs})
        say(leader.api, "theirs", task=1)
        assert texts(checked(follower.ask("GET", f"{PATH}?forward=false").text)) == []


IDS = st.sets(st.integers(1, 60), max_size=25)


@given(st.dictionaries(st.sampled_from(["a:1", "b:2", "c:3"]), IDS, min_size=1), st.integers(1, 7))
def test_reading_page_by_page_gives_every_line_once(ids: dict[str, set[int]], limit: int) -> None:
    def line(at: int) -> dict[str, Any]:
        return {"id": at, "ms": 0, "level": "INFO", "logger": "x", "task": None, "message": str(at)}

    after, seen = Positions(), list[tuple[str, int]]()
    for _ in range(80):
        responses = {
            WorkerId(worker): WorkerLines([line(at) for at in sorted(known) if at > after.on(worker)][:limit])
            for worker, known in ids.items()
        }
        page = merge_lines(responses, LogQuery(limit=limit, after=after))
        assert len(page["lines"]) <= limit
        seen += [(each["worker_id"], each["id"]) for each in page["lines"]]
        after = Positions.parse(page["next"])
    assert sorted(seen) == sorted((worker, at) for worker, known in ids.items() for at in known)


@given(st.lists(st.integers(0, 400_000), max_size=12), st.sampled_from(["latest", "first"]))
def test_a_merged_answer_is_bounded_and_has_the_latest_or_the_first(sizes: list[int], which: str) -> None:
    latest = which == "latest"
    lines = [
        {"id": at, "ms": 0, "level": "INFO", "logger": "x", "task": None, "message": "y" * size}
        for at, size in enumerate(sizes)
    ]
    page = merge_lines(
        {WorkerId("a:1"): WorkerLines(lines)}, LogQuery(limit=1_000, after=None if latest else Positions())
    )
    line_ids = [each["id"] for each in page["lines"]]
    assert sum(len(each["message"]) for each in page["lines"]) <= MAX_BYTES
    expected = list(range(len(sizes)))
    assert line_ids == (expected[len(sizes) - len(line_ids) :] if latest else expected[: len(line_ids)])
    if len(line_ids) < len(sizes):
        omitted = sizes[len(sizes) - len(line_ids) - 1] if latest else sizes[len(line_ids)]
        assert sum(sizes[at] for at in line_ids) + omitted + 300 * (len(line_ids) + 1) > MAX_BYTES
