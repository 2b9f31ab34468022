"""Task configs: when they are published, and as which records. Pure.

Source: AbstractHerder.taskConfigsChanged, Worker.connectorTaskConfigs (Kafka 4.3.0); contract 6.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from kraal.cluster.state import ConnectorEntry
from kraal.ids import Config, ConnectorName, TaskId
from kraal.protocol.records import ConfigRecord, TaskCommitRecord, TaskConfigRecord, encode
from kraal.records import Entry

TASK_CLASS = "task.class"
_COPIED = ("topics", "topics.regex")
"""What a sink's tasks are told of their connector's config."""

PUBLISH_RETRY_FIRST_S = 0.25
PUBLISH_RETRY_MAX_S = 60.0
_DOUBLINGS = 8
"""After so many the pause is above its maximum."""

KEY_LAG_S = 60.0
"""For so long after a key was changed, workers may hold different ones."""


def should_publish(entry: ConnectorEntry, new_task_configs: Sequence[Config]) -> bool:
    """Say whether task configs are to be written: their count, one of them, or what they belong to differs.

    The last point makes a changed transform or converter restart tasks whose own configs are the same. An
    inconsistent set is always written again, which heals it.
    """
    return (
        entry.inconsistent
        or entry.applied != entry.config
        or len(entry.tasks) != len(new_task_configs)
        or any(dict(old) != dict(new) for old, new in zip(entry.tasks, new_task_configs, strict=True))
    )


def task_config_entries(name: ConnectorName, configs: Sequence[Config]) -> list[Entry]:
    """Make the records of a set of task configs: one each, then the commit (C6)."""
    records: list[ConfigRecord] = [TaskConfigRecord(TaskId(name, n), c) for n, c in enumerate(configs)]
    return [Entry(*encode(record)) for record in [*records, TaskCommitRecord(name, len(configs))]]


def publish_retry_s(attempt: int) -> float:
    """Return the pause after a failed publication, in seconds; the first one is attempt 0. There is no last one.

    Source: DistributedHerder.RECONFIGURE_CONNECTOR_TASKS_BACKOFF_INITIAL_MS, ..._MAX_MS.
    """
    pause: float = PUBLISH_RETRY_FIRST_S * 2 ** min(attempt, _DOUBLINGS)
    return min(pause, PUBLISH_RETRY_MAX_S)


def is_key_lag(status: int | None, since_first_s: float) -> bool:
    """Say whether a failed publication may only mean that a new session key has not arrived everywhere.

    `status` is what the leader answered, None when it did not; `since_first_s` the seconds since the first
    attempt. Source: DistributedHerder.isPossibleExpiredKeyException.
    """
    return status == HTTPStatus.FORBIDDEN and since_first_s <= KEY_LAG_S


def with_task_class(
    configs: Sequence[Mapping[str, str]], task_class: str, connector_config: Config
) -> list[dict[str, str | None]]:
    """Complete what a connector returned: its tasks' class, and a sink's topics (contract 6.4)."""
    topics = {key: connector_config[key] for key in _COPIED if key in connector_config}
    return [{**config, TASK_CLASS: task_class, **topics} for config in configs]


def too_many_tasks(name: ConnectorName, generated: int, allowed: int) -> str:
    """Say that a connector made more tasks than `tasks.max`: FAILED with it, or a warning if not enforced."""
    return (
        f"The connector {name} has generated {generated} tasks, which is greater than {allowed}, the maximum "
        "number of tasks it is configured to create. This behaviour should be considered a bug and is "
        "disallowed. If necessary, it can be permitted by reconfiguring the connector with "
        "'tasks.max.enforce' set to false; however, this option will be removed in a future release of Kafka Connect."
    )
