"""Stores on Kafka: a fresh topic for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kraal.kafka.log import KafkaLog
from kraal.kafka.topics import TopicAdmin
from tests.fakes.kafka.internal_topics import options, topic_admin

MakeLog = Callable[..., KafkaLog]
"""Makes a log of a topic, closed after the test: `make_log(topic, in_transactions=False)`."""


@pytest.fixture
def admin(bootstrap: str) -> Iterator[TopicAdmin]:
    """An administrator's client."""
    with topic_admin(bootstrap) as made:
        yield made


@pytest.fixture
def make_log(admin: TopicAdmin, bootstrap: str) -> Iterator[MakeLog]:
    """A worker's log for each call."""
    with ExitStack() as stack:

        def make(topic: str, *, in_transactions: bool = False) -> KafkaLog:
            log = KafkaLog(
                topic,
                options(bootstrap),
                client_id="test-configs",
                admin=admin,
                transactional_id=f"connect-cluster-{topic}" if in_transactions else None,
                timeout_s=60,
            )
            stack.callback(log.close)
            return log

        yield make
