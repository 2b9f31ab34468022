"""Tests that every worker returns the leader's response to `GET /admin/assignments`."""

from __future__ import annotations

import pytest

from tests.fakes.cluster.static_plans import Leader
from tests.unit.web.api import Api
from tests.unit.web.workers import FakePeer, Worker
from web.settings import Settings

PATH = "/admin/assignments"


def leader_with_assignments() -> Leader:
    leader = Leader(c1=2)
    leader.join("w1")
    leader.join("w2", "c1 c1-0")
    leader.rebalance()
    return leader


def test_leader_returns_its_assignments() -> None:
    api = Api(Settings(advertised_url="http://worker:8083/"))
    api.herder.publish(**leader_with_assignments().parts())
    response = api.client.get(PATH)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert [worker["tasks"] for worker in response.json()["workers"]] == [["c1-1"], ["c1-0"]]
    assert api.client.put(PATH).status_code == 405
    assert api.herder.requests == [], "the leader responds without the herder"


def test_rebalances_are_up_to_date() -> None:
    api = Api(Settings(advertised_url="http://worker:8083/"))
    leader = leader_with_assignments()
    for count in (1, 2):
        api.herder.publish(**leader.parts())
        assert len(api.client.get(PATH).json()["rebalances"]) == count
        leader.rebalance()


def test_follower_returns_the_leader_response(follower: Worker, leader: Worker) -> None:
    leader.api.herder.publish(**leader_with_assignments().parts())
    follower.api.herder.publish(is_leader=False, leader_url=leader.url)
    response = follower.ask("GET", PATH)
    assert (response.status_code, response.json()) == (200, leader.ask("GET", PATH).json())


def test_java_leader_has_no_assignments(follower: Worker, peer: tuple[str, FakePeer]) -> None:
    url, stub = peer
    stub.status, stub.body = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
    stub.headers = {"Content-Type": "application/json"}
    follower.api.herder.publish(is_leader=False, leader_url=url)
    response = follower.ask("GET", PATH)
    assert response.json() == {
        "error_code": 404,
        "message": (
            f"Only the leader has the assignments, but the leader at {url} does not serve them: it is "
            "an Apache Kafka worker, or it serves /admin on other listeners (admin.listeners)"
        ),
    }
    stub.status, stub.body = 500, b'{"error_code":500,"message":"no"}'
    assert follower.ask("GET", PATH).json() == {"error_code": 500, "message": "no"}


@pytest.mark.parametrize("hop", ["", "?forward=true"])
def test_unknown_leader_is_a_conflict(follower: Worker, hop: str) -> None:
    follower.api.herder.publish(is_leader=False, leader_url=None)
    assert follower.ask("GET", PATH + hop).status_code == 409
