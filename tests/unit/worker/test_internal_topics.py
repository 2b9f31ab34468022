"""Tests that a worker with unusable internal topics waits for an administrator, and logs the reason once a minute."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from kraal.core.errors import StoreError, TopicMisconfigured, TopicUnusable
from kraal.worker import internal_topics as module
from kraal.worker.internal_topics import InternalTopicsCheck

MISCONFIGURED_TOPIC_ERROR = TopicMisconfigured(
    "Topic 'c' has 'cleanup.policy=delete'.", hint="Or change it: kafka-configs.sh …"
)
NO_BROKER_ERROR = StoreError("no broker is available")


class Cluster:
    """A cluster whose topic check raises a sequence of errors, and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = [*errors]
        self.on_check: Callable[[], None] = lambda: None
        self.ended = threading.Event()
        self.failures: list[TopicUnusable] = []
        self.check = InternalTopicsCheck(self.ensure, self.ended, self.failures.append)

    def ensure(self) -> None:
        self.on_check()
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_INTERVAL_S", 0.0)


def test_misconfigured_topic_is_awaited_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster, problems = Cluster(*[MISCONFIGURED_TOPIC_ERROR] * 5), list[str | None]()
    cluster.on_check = lambda: problems.append(cluster.check.problem)
    cluster.check.run()
    cluster.check.wait()
    sentence = "Topic 'c' has 'cleanup.policy=delete'. Or change it: kafka-configs.sh …"
    assert problems == [None, *[sentence] * 5]
    assert cluster.check.problem is None
    assert cluster.failures == []
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", f"Waiting for an internal topic to be changed. {sentence}"),
        ("INFO", "Resuming startup: the internal topics are now usable"),
    ]


def test_repeated_reason_is_logged_once_per_interval(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_INTERVAL_S", 0.0)
    Cluster(MISCONFIGURED_TOPIC_ERROR, MISCONFIGURED_TOPIC_ERROR).check.run()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_readers_of_a_misconfigured_topic_fail_at_shutdown() -> None:
    cluster = Cluster(MISCONFIGURED_TOPIC_ERROR, MISCONFIGURED_TOPIC_ERROR)
    cluster.on_check = lambda: cluster.ended.set() if len(cluster.errors) == 1 else None
    cluster.check.run()
    with pytest.raises(StoreError, match="shutting down"):
        cluster.check.wait()


def test_unavailable_brokers_do_not_block_readers(caplog: pytest.LogCaptureFixture) -> None:
    cluster, reads = Cluster(NO_BROKER_ERROR, NO_BROKER_ERROR), list[None]()
    cluster.on_check = lambda: None if len(cluster.errors) == 2 else reads.append(cluster.check.wait())  # type: ignore[func-returns-value]
    cluster.check.run()
    assert len(reads) == 2
    assert cluster.check.problem is None
    assert [record.message for record in caplog.records] == ["no broker is available; retrying"]


def test_rejected_topic_settings_are_reported_as_a_failure() -> None:
    error = TopicUnusable("Unable to create topic(s) 'c'")
    cluster = Cluster(error)
    cluster.check.run()
    assert cluster.failures == [error]
