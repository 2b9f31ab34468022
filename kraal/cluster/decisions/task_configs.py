"""Task configs: decides when to publish them, and creates their records. Pure.

Source: AbstractHerder.taskConfigsChanged, Worker.connectorTaskConfigs (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from kraal.cluster.state.cluster_state import ConnectorEntry
from kraal.core.ids import Config, ConnectorName, TaskId
from kraal.core.records import Entry
from kraal.protocol.records import ConfigRecord, TaskCommitRecord, TaskConfigRecord, encode

TASK_CLASS = "task.class"
_INHERITED_KEYS = ("topics", "topics.regex")
"""Keys that a sink's tasks inherit from the connector config."""

PUBLISH_RETRY_FIRST_S = 0.25
PUBLISH_RETRY_MAX_S = 60.0
_MAX_DOUBLINGS = 8
"""Number of doublings after which the backoff has reached its maximum."""

KEY_LAG_S = 60.0
"""Maximum time after a key rotation during which workers may have different keys."""


def should_publish(entry: ConnectorEntry, new_task_configs: Sequence[Config]) -> bool:
    """Return whether task configs must be written: their number, one of them or the connector config has changed.

    A changed transform or converter thus restarts tasks even if their own configs are unchanged. An inconsistent set is
    always written again, which repairs it.
    """
    return (
        entry.inconsistent
        or entry.applied != entry.config
        or len(entry.tasks) != len(new_task_configs)
        or any(dict(old) != dict(new) for old, new in zip(entry.tasks, new_task_configs, strict=True))
    )


def task_config_entries(name: ConnectorName, configs: Sequence[Config]) -> list[Entry]:
    """Create the records of a set of task configs: one for each config, then the commit record."""
    records: list[ConfigRecord] = [TaskConfigRecord(TaskId(name, n), c) for n, c in enumerate(configs)]
    return [Entry(*encode(record)) for record in [*records, TaskCommitRecord(name, len(configs))]]


def publish_retry_s(attempt: int) -> float:
    """Return the backoff after a failed publication, in seconds. Attempts start at 0 and are unlimited.

    Source: DistributedHerder.RECONFIGURE_CONNECTOR_TASKS_BACKOFF_INITIAL_MS, ..._MAX_MS.
    """
    delay_s: float = PUBLISH_RETRY_FIRST_S * 2 ** min(attempt, _MAX_DOUBLINGS)
    return min(delay_s, PUBLISH_RETRY_MAX_S)


def is_session_key_lag(status: int | None, since_first_s: float) -> bool:
    """Return whether a publication may have failed only because a worker has not read a new session key.

    `status` is the status of the leader's response, if any; `since_first_s` is the time since the first attempt.
    Source: DistributedHerder.isPossibleExpiredKeyException.
    """
    return status == HTTPStatus.FORBIDDEN and since_first_s <= KEY_LAG_S


def with_task_class(
    configs: Sequence[Mapping[str, str]], task_class: str, connector_config: Config
) -> list[dict[str, str | None]]:
    """Add the task class and a sink's topics to a connector's task configs (Worker.connectorTaskConfigs)."""
    topics = {key: connector_config[key] for key in _INHERITED_KEYS if key in connector_config}
    return [{**config, TASK_CLASS: task_class, **topics} for config in configs]


def too_many_tasks_text(name: ConnectorName, task_count: int, max_tasks: int) -> str:
    """Return the message for a connector that generates more tasks than `tasks.max`."""
    return (
        f"The connector {name} has generated {task_count} tasks, which is greater than {max_tasks}, the maximum "
        "number of tasks it is configured to create. This behaviour should be considered a bug and is "
        "disallowed. If necessary, it can be permitted by reconfiguring the connector with "
        "'tasks.max.enforce' set to false; however, this option will be removed in a future release of Kafka Connect."
    )
