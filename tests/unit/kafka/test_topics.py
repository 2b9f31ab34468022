"""An administrator's client that no broker answers is replaced; one that was refused is kept."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from kraal.core.errors import StoreError
from kraal.kafka import topics as kafka_topics
from kraal.kafka.topics import TopicAdmin


class Client:
    """A client whose requests all end with one error."""

    def __init__(self, error: int) -> None:
        self._error = error
        self.polled = 0

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> dict[str, Future[object]]:
        """Answer with the error, as the real one does: in a future."""
        del topics, request_timeout
        answer: Future[object] = Future()
        answer.set_exception(KafkaException(KafkaError(self._error)))
        return {"t": answer}

    def poll(self, timeout: float) -> int:
        """Count that it was asked what is wrong."""
        del timeout
        self.polled += 1
        return 0


@pytest.mark.parametrize(
    ("error", "clients"),
    [
        (KafkaError._TIMED_OUT, 3),
        (KafkaError._TRANSPORT, 3),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 1),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, 1),
    ],
)
def test_a_client_that_no_broker_answers_is_replaced(
    monkeypatch: pytest.MonkeyPatch, error: int, clients: int
) -> None:
    made: list[Client] = []

    def make(settings: object) -> Client:
        del settings
        made.append(Client(error))
        return made[-1]

    monkeypatch.setattr(kafka_topics, "AdminClient", make)
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, client_id="a", timeout_s=0.1)
    for _ in range(3):
        with pytest.raises(StoreError):
            admin.describe("t")
    assert len(made) == clients
    assert sum(client.polled for client in made) == 3
