"""Tests for `kraal topics`."""

from __future__ import annotations

import json

from kraal.core.ids import ConnectorName, TaskId
from tests.fakes.workers.connect import Connect
from tests.unit.client.conftest import Kraal


def test_disabled_topic_tracking_is_reported(kraal: Kraal, populated_worker: Connect) -> None:
    populated_worker.refuse("GET", "/connectors/orders/topics", 403, "Topic tracking is disabled.")
    assert "Topics:  not tracked\n" in kraal.out("describe", "orders")
    result = kraal("topics", "orders")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "returned 403: Topic tracking is disabled." in result.stderr


def test_topics_are_listed_and_reset(kraal: Kraal, populated_worker: Connect) -> None:
    populated_worker.worker.fake.feed(TaskId(ConnectorName("orders"), 0), 10)
    populated_worker.worker.run()
    assert kraal.out("topics") == "NAME     TOPIC\norders   fake\n"
    assert json.loads(kraal.out("topics", "orders", "-o", "json")) == {"orders": {"topics": ["fake"]}}
    assert kraal.out("topics", "orders", "--reset") == "orders: topics reset\n"
    assert kraal("topics", "orders").stderr == "No topics.\n"
    assert kraal("topics", "--reset").exit_code == 2
