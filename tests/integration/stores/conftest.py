"""Fixtures: stores on Kafka, with a new topic for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kraal.kafka.log import KafkaLog
from kraal.kafka.topics import TopicAdmin
from tests.fakes.kafka.internal_topics import options, topic_admin

MakeLog = Callable[..., KafkaLog]
"""A function that creates the log of a topic. The log is closed after the test."""


@pytest.fixture
def admin(bootstrap: str) -> Iterator[TopicAdmin]:
    """Yield an admin client."""
    with topic_admin(bootstrap) as client:
        yield client


@pytest.fixture
def make_log(admin: TopicAdmin, bootstrap: str) -> Iterator[MakeLog]:
    """Yield a function that creates the log of a topic."""
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
