"""Tests for the publication of task configs to the leader (DistributedHerder.publishConnectorTaskConfigs)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from actors.herding.task_config_publisher import MAX_IN_FLIGHT_REQUESTS, PublishCompleted, Publisher, Send
from actors.messages.publisher import PublishFailed, PublishTasks, TasksPublished
from actors.runtime.mailbox import Address
from actors.runtime.system import Begin, Crash, ThreadSystem
from kraal.core.ids import ConnectorName
from kraal.peers import PeerFailed, PeerRefused
from kraal.testing._simulation.scheduler import Scheduler

OLD_LEADER_URL, NEW_LEADER_URL = "http://old/", "http://new/"
HERDER = Address("herder")


def publish(name: str, token: int, *, url: str = OLD_LEADER_URL, reply_to: Address = HERDER) -> PublishTasks:
    return PublishTasks(
        name=ConnectorName(name),
        configs=[{"n": str(token)}],
        leader_url=url,
        key=b"0" * 32,
        algorithm="HmacSHA256",
        reply_to=reply_to,
        token=token,
    )


@dataclass
class PublisherHarness:
    """A publisher whose request actors are not started; the test completes the requests."""

    replies: list[tuple[str, int]] = field(default_factory=list)
    spawned_addresses: list[Address] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.herder = Address("herder")
        self.herder.bind(self._record)
        self.publisher = Publisher(address=Address("publisher"), system=self, send=lambda _: None)
        self.publisher.receive(Begin())

    def spawn(
        self,
        address: Address,
        factory: Callable[[], object],
        died: Callable[[BaseException], None],
        *,
        shares_thread: bool = False,
    ) -> None:
        del factory, died, shares_thread
        self.spawned_addresses.append(address)

    def stop(self, address: Address) -> None:
        del address

    def _record(self, message: object) -> bool:
        assert isinstance(message, TasksPublished | PublishFailed)
        self.replies.append((type(message).__name__, message.token))
        return True

    def publish(self, name: str, token: int, url: str = OLD_LEADER_URL) -> None:
        self.publisher.receive(publish(name, token, url=url, reply_to=self.herder))

    def complete(self, token: int, error: Exception | None = None) -> None:
        self.publisher.receive(PublishCompleted(token, error))

    @property
    def requests_in_flight(self) -> list[int]:
        return [request.token for request in self.publisher._in_flight.values()]


def test_requests_are_sent_in_order_up_to_the_limit() -> None:
    harness = PublisherHarness()
    for token in range(MAX_IN_FLIGHT_REQUESTS + 2):
        harness.publish(f"c{token}", token)
    assert harness.requests_in_flight == list(range(MAX_IN_FLIGHT_REQUESTS))
    harness.complete(1)
    assert harness.requests_in_flight == [0, 2, 3, 4]
    harness.complete(0)
    assert harness.requests_in_flight == [2, 3, 4, 5]
    assert harness.replies == [("TasksPublished", 1), ("TasksPublished", 0)]


def test_requests_of_one_connector_are_sent_sequentially() -> None:
    harness = PublisherHarness()
    for name, token in (("a", 0), ("a", 1), ("b", 2)):
        harness.publish(name, token)
    assert harness.requests_in_flight == [0, 2]
    harness.complete(2)
    assert harness.requests_in_flight == [0]
    harness.complete(0)
    assert harness.requests_in_flight == [1]


def test_unreachable_leader_fails_all_requests_at_once() -> None:
    harness = PublisherHarness()
    for token in range(10):
        harness.publish(f"c{token}", token)
    harness.complete(2, PeerFailed("no response"))
    assert harness.replies == [("PublishFailed", token) for token in (2, 4, 5, 6, 7, 8, 9)]
    assert harness.requests_in_flight == [0, 1, 3]


def test_rejection_by_the_leader_fails_only_one_request() -> None:
    harness = PublisherHarness()
    for token in range(MAX_IN_FLIGHT_REQUESTS + 1):
        harness.publish(f"c{token}", token)
    harness.complete(0, PeerRefused(403, 403, "wrong"))
    assert harness.replies == [("PublishFailed", 0)]
    assert harness.requests_in_flight == [1, 2, 3, 4]


def test_change_of_leader_fails_all_pending_requests() -> None:
    harness = PublisherHarness()
    for token in range(MAX_IN_FLIGHT_REQUESTS + 1):
        harness.publish(f"c{token}", token)
    harness.publish("c0", 9, NEW_LEADER_URL)
    assert harness.replies == [("PublishFailed", token) for token in range(MAX_IN_FLIGHT_REQUESTS + 1)]
    assert harness.requests_in_flight == [9]
    harness.complete(0)
    harness.complete(1, PeerFailed("no response"))
    assert harness.requests_in_flight == [9]
    harness.complete(9)
    assert harness.replies[-1] == ("TasksPublished", 9)
    assert len(harness.replies) == MAX_IN_FLIGHT_REQUESTS + 2


def fail_test(error: BaseException) -> None:
    pytest.fail(repr(error))


@dataclass
class MessageRecorder:
    """A herder that records the messages of a publisher."""

    messages: list[TasksPublished | PublishFailed] = field(default_factory=list)
    is_complete: threading.Event = field(default_factory=threading.Event)
    expected_count: int = 1

    def __post_init__(self) -> None:
        self.address = Address("herder")
        self.address.bind(self._deliver)

    def _deliver(self, message: object) -> bool:
        assert isinstance(message, TasksPublished | PublishFailed)
        self.messages.append(message)
        if len(self.messages) == self.expected_count:
            self.is_complete.set()
        return True


def run(send: Send, *tokens: int, seed: int = 0) -> list[TasksPublished | PublishFailed]:
    """Publish the task configs of one connector per token, and return the messages to the herder."""
    recorder, system, address = MessageRecorder(), Scheduler(seed), Address("publisher")
    system.spawn(address, lambda: Publisher(address=address, system=system, send=send), fail_test)
    for token in tokens:
        address.tell(publish(f"c{token}", token, reply_to=recorder.address))
    system.run()
    assert system.addresses() == [address]
    return recorder.messages


@pytest.mark.parametrize("seed", range(5))
def test_every_request_is_sent_once_and_completed(seed: int) -> None:
    sent_tokens: list[int] = []
    messages = run(lambda request: sent_tokens.append(request.token), *range(20), seed=seed)
    assert sorted(sent_tokens) == list(range(20))
    assert sorted(message.token for message in messages) == list(range(20))
    assert all(isinstance(message, TasksPublished) for message in messages)


@pytest.mark.parametrize(
    ("error", "status"),
    [(PeerRefused(403, 403, "wrong"), 403), (PeerRefused(500, 500, None), 500), (PeerFailed("gone"), None)],
)
def test_failure_includes_the_response_of_the_leader(error: Exception, status: int | None) -> None:
    def send(_: PublishTasks) -> None:
        raise error

    assert run(send, 7) == [PublishFailed(token=7, error=error, status=status)]


def test_dead_request_actor_fails_its_request() -> None:
    def send(_: PublishTasks) -> None:
        raise ZeroDivisionError

    [message] = run(send, 7)
    assert isinstance(message, PublishFailed)
    assert (message.token, message.status, str(message.error)) == (7, None, "ZeroDivisionError()")


def test_hanging_request_does_not_delay_others() -> None:
    release, recorder = threading.Event(), MessageRecorder(expected_count=10)

    def send(request: PublishTasks) -> None:
        if request.token == 0:
            assert release.wait(10)

    system, address = ThreadSystem(), Address("publisher")
    system.spawn(address, lambda: Publisher(address=address, system=system, send=send), fail_test)
    for token in range(11):
        address.tell(publish(f"c{token}", token, reply_to=recorder.address))
    assert recorder.is_complete.wait(10)
    assert {message.token for message in recorder.messages} == set(range(1, 11))
    release.set()
    assert system.close(10) == []


def test_restarted_publisher_ignores_results_of_earlier_requests() -> None:
    recorder, address, system = MessageRecorder(), Address("publisher"), Scheduler()
    start_numbers: list[int] = []

    def start(_: BaseException | None = None) -> None:
        start_numbers.append(len(start_numbers))
        system.spawn(address, lambda: Publisher(address=address, system=system, send=lambda _: None), start)

    start()
    address.tell(Crash("for a test"))
    system.run()
    assert start_numbers == [0, 1]
    address.tell(PublishCompleted(1, None))
    address.tell(publish("a", 2, reply_to=recorder.address))
    system.run()
    assert recorder.messages == [TasksPublished(token=2)]
