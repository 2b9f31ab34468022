"""`/admin/assignments` over HTTP: every worker returns the leader's response."""

from __future__ import annotations

import pytest

from tests.fakes.cluster.static_plans import Leader
from tests.unit.web.api import Api
from tests.unit.web.workers import FakePeer, Worker
from web.settings import Settings

PATH = "/admin/assignments"


def decided() -> Leader:
    leader = Leader(c1=2)
    leader.join("w1")
    leader.join("w2", "c1 c1-0")
    leader.rebalance()
    return leader


def test_leader_returns_its_assignments() -> None:
    api = Api(Settings(advertised_url="http://worker:8083/"))
    api.herder.publish(**decided().parts())
    answer = api.client.get(PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert [worker["tasks"] for worker in answer.json()["workers"]] == [["c1-1"], ["c1-0"]]
    assert api.client.put(PATH).status_code == 405
    assert api.herder.requests == [], "nobody is asked"


def test_rebalances_are_up_to_date() -> None:
    api = Api(Settings(advertised_url="http://worker:8083/"))
    leader = decided()
    for count in (1, 2):
        api.herder.publish(**leader.parts())
        assert len(api.client.get(PATH).json()["rebalances"]) == count
        leader.rebalance()


def test_follower_returns_the_leader_response(follower: Worker, leader: Worker) -> None:
    leader.api.herder.publish(**decided().parts())
    follower.api.herder.publish(is_leader=False, leader_url=leader.url)
    answer = follower.ask("GET", PATH)
    assert (answer.status_code, answer.json()) == (200, leader.ask("GET", PATH).json())


def test_java_leader_has_no_assignments(follower: Worker, peer: tuple[str, FakePeer]) -> None:
    url, stub = peer
    stub.status, stub.body = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
    stub.headers = {"Content-Type": "application/json"}
    follower.api.herder.publish(is_leader=False, leader_url=url)
    answer = follower.ask("GET", PATH)
    assert answer.json() == {
        "error_code": 404,
        "message": (
            f"Only the leader knows the assignments, and the leader at {url} does not serve them: it is a worker of "
            "Apache Kafka, or it serves /admin on other listeners (admin.listeners)"
        ),
    }
    stub.status, stub.body = 500, b'{"error_code":500,"message":"no"}'
    assert follower.ask("GET", PATH).json() == {"error_code": 500, "message": "no"}


@pytest.mark.parametrize("hop", ["", "?forward=true"])
def test_request_can_be_retried_while_the_leader_is_unknown(follower: Worker, hop: str) -> None:
    follower.api.herder.publish(is_leader=False, leader_url=None)
    assert follower.ask("GET", PATH + hop).status_code == 409
