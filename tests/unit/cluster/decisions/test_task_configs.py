"""Tests for the publication of task configs (AbstractHerder.taskConfigsChanged)."""

from __future__ import annotations

import json

import pytest

from kraal.cluster.decisions.task_configs import (
    is_session_key_lag,
    publish_retry_s,
    should_publish,
    task_config_entries,
    too_many_tasks_text,
    with_task_class,
)
from kraal.cluster.state.cluster_state import ConnectorEntry
from kraal.core.ids import Config, ConnectorName
from tests.golden_files import current

GOLDEN = current("records")
X = ConnectorName("x")
CONFIG: Config = {"name": "x", "transforms": "t"}


def entry(*tasks: Config, applied: Config | None = CONFIG, inconsistent: bool = False) -> ConnectorEntry:
    return ConnectorEntry(name=X, config=CONFIG, tasks=tasks, applied=applied, inconsistent=inconsistent)


@pytest.mark.parametrize(
    ("stored_entry", "new_configs", "is_published"),
    [
        pytest.param(entry({"a": "1"}), [{"a": "1"}], False, id="unchanged"),
        pytest.param(entry(), [], False, id="no tasks, none generated"),
        pytest.param(entry({"a": "1"}), [{"a": "1"}, {}], True, id="one task more"),
        pytest.param(entry({"a": "1"}), [], True, id="one task fewer"),
        pytest.param(entry({"a": "1"}), [{"a": "2"}], True, id="another value"),
        pytest.param(entry({"a": "1"}), [{"a": "1", "b": None}], True, id="another key"),
        pytest.param(
            entry({"a": "1"}, applied={"name": "x"}), [{"a": "1"}], True, id="another connector config"
        ),
        pytest.param(entry(applied=None), [], True, id="never committed"),
        pytest.param(entry(inconsistent=True), [], True, id="inconsistent"),
    ],
)
def test_changed_task_configs_are_published(
    stored_entry: ConnectorEntry, new_configs: list[Config], *, is_published: bool
) -> None:
    assert should_publish(stored_entry, new_configs) is is_published


def test_task_configs_contain_class_and_topics() -> None:
    config = {"topics": "a", "topics.regex": None, "file": "f"}
    task_configs = with_task_class([{"file": "f"}, {"topics": "b"}], "Task", config)
    assert task_configs == [
        {"file": "f", "task.class": "Task", "topics": "a", "topics.regex": None},
        {"topics": "a", "task.class": "Task", "topics.regex": None},
    ]
    assert with_task_class([{"file": "f"}], "Task", {"file": "f"}) == [{"file": "f", "task.class": "Task"}]


def test_entries_match_java() -> None:
    rows = [
        json.loads(r) for r in (GOLDEN / "distributed-configs.jsonl").read_text().strip().split("\n")[5:8]
    ]
    configs = [json.loads(row["value"])["properties"] for row in rows[:2]]
    entries = task_config_entries(ConnectorName("my-sink-2"), configs)
    assert [(e.key, (e.value or b"").decode()) for e in entries] == [(r["key"], r["value"]) for r in rows]


def test_too_many_tasks_are_reported_with_connects_message() -> None:
    assert too_many_tasks_text(X, 3, 2).startswith(
        "The connector x has generated 3 tasks, which is greater than 2, the maximum number of tasks it is "
        "configured to create. This behaviour should be considered a bug and is disallowed."
    )


def test_failed_publications_back_off() -> None:
    assert [publish_retry_s(attempt) for attempt in range(10)] == [
        0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0,
    ]  # fmt: skip
    assert publish_retry_s(1_000_000) == 60.0


@pytest.mark.parametrize(
    ("status", "since_first_s", "expected"),
    [
        pytest.param(403, 0.0, True, id="invalid signature, first attempt"),
        pytest.param(403, 60.0, True, id="invalid signature, one minute later"),
        pytest.param(403, 60.1, False, id="invalid signature, more than a minute later"),
        pytest.param(400, 0.0, False, id="another error"),
        pytest.param(None, 0.0, False, id="no response"),
    ],
)
def test_invalid_signature_may_be_session_key_lag(
    status: int | None, since_first_s: float, *, expected: bool
) -> None:
    assert is_session_key_lag(status, since_first_s) is expected
