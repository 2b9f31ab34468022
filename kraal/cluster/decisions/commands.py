"""REST commands: compute the records to write from the state, or raise Connect's error. Pure.

Standalone Connect has its own messages for unknown connectors. Kraal has one herder for both modes, which responds like
a distributed worker (docs/compat.md). All entries of a command are written atomically.
Source: DistributedHerder, ConnectorsResource (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Sequence

from kraal.cluster.decisions.task_configs import task_config_entries
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.status_replay import reset_topics as _reset_topics
from kraal.cluster.state.statuses import StatusState
from kraal.core.errors import AlreadyExists, BadRequest, NotFound
from kraal.core.ids import Config, ConnectorName, TargetState, TaskId
from kraal.core.records import Entry
from kraal.protocol.records import (
    ConfigRecord,
    ConnectorConfigRecord,
    LoggerRecord,
    TargetStateRecord,
    encode,
)

MAX_RECORD_BYTES = 990_000
"""Maximum size of a connector config record with its key.

The limit is below the producers' 1,000,000, because the records of task configs are larger.
"""


def add_name(name: ConnectorName, config: Config) -> dict[str, str | None]:
    """Return `config` with the key `name`, appended if missing. Raises BadRequest if the config has another name."""
    config_name = config.get("name")
    if config_name is None:
        return {**{k: v for k, v in config.items() if k != "name"}, "name": name}
    if config_name != name:
        raise BadRequest(
            f"Connector name configuration ({config_name}) doesn't match connector name in the URL ({name})"
        )
    return dict(config)


def check_absent(state: ClusterState, name: ConnectorName) -> None:
    """Raise AlreadyExists if the connector exists."""
    if name in state.connectors:
        raise AlreadyExists(f"Connector {name} already exists")


def create(
    state: ClusterState, name: ConnectorName, config: Config, initial_state: TargetState | None = None
) -> list[Entry]:
    """Handle POST /connectors. The target state precedes the config, so that no reader sees only the config (KIP-980).

    If `initial_state` is None, no target state is written. Raises BadRequest if `name` in `config` differs or the
    config is too large, AlreadyExists if the connector exists.
    """
    named_config = add_name(name, config)
    check_absent(state, name)
    target_records: list[ConfigRecord] = (
        [] if initial_state is None else [TargetStateRecord(name, initial_state)]
    )
    return _require_within_limit(_entries(*target_records, ConnectorConfigRecord(name, named_config)))


def put(name: ConnectorName, config: Config) -> list[Entry]:
    """Handle PUT /connectors/{c}/config: write the config, even if it is identical.

    Raises BadRequest if the name differs or the config is too large.
    """
    return _require_within_limit(_entries(ConnectorConfigRecord(name, add_name(name, config))))


def apply_patch(state: ClusterState, name: ConnectorName, patch: Config) -> dict[str, str | None]:
    """Handle PATCH /connectors/{c}/config: merge into the raw config; null removes a key.

    The caller must validate and `put` the result. Raises NotFound, and BadRequest if the patch changes `name`. Java
    accepts a changed name, which then differs from the name in the URL.
    """
    merged_config = {**state.connector(name).config, **patch}
    removed_keys = {key for key, value in patch.items() if value is None}
    return add_name(name, {key: value for key, value in merged_config.items() if key not in removed_keys})


def delete(state: ClusterState, name: ConnectorName) -> list[Entry]:
    """Handle DELETE /connectors/{c}: two tombstones; the remaining task configs are ignored. Raises NotFound."""
    state.connector(name)
    return _entries(ConnectorConfigRecord(name, None), TargetStateRecord(name, None))


def set_target(state: ClusterState, name: ConnectorName, target: TargetState) -> list[Entry]:
    """Handle PUT /connectors/{c}/pause, resume, stop. A stop first removes the tasks. Raises NotFound."""
    if name not in state.connectors:
        raise NotFound(f"Unknown connector {name}")
    task_removal = task_config_entries(name, []) if target is TargetState.STOPPED else []
    return [*task_removal, *_entries(TargetStateRecord(name, target))]


def submitted_task_configs(
    state: ClusterState, name: ConnectorName, configs: Sequence[Config]
) -> list[Entry]:
    """Handle POST /connectors/{c}/tasks, from the worker that runs the connector. Raises NotFound, BadRequest."""
    entry = state.connector(name)
    if entry.target is TargetState.STOPPED and configs:
        raise BadRequest(f"Cannot submit non-empty set of task configs for stopped connector {name}")
    return task_config_entries(name, configs)


def set_logger(namespace: str, level: str) -> list[Entry]:
    """Handle PUT /admin/loggers/{logger}?scope=cluster: write the level as received (KIP-976)."""
    return _entries(LoggerRecord(namespace, level))


def check_fence(state: ClusterState, name: ConnectorName, kind: str) -> None:
    """Handle PUT /connectors/{c}/fence: raise NotFound for an unknown connector, BadRequest unless it is a source."""
    state.connector(name)
    if kind != "source":
        raise BadRequest(f"Connector {name} is not a source connector")


def reset_topics(status: StatusState, name: ConnectorName) -> list[Entry]:
    """Handle PUT /connectors/{c}/topics/reset: accept any name, including deleted connectors (KIP-558)."""
    return _reset_topics(status, name)


def check_restart(state: ClusterState, name: ConnectorName) -> None:
    """Handle POST /connectors/{c}/restart with any options: raise NotFound unless the connector exists."""
    if name not in state.connectors:
        raise NotFound(f"Unknown connector: {name}")


def check_restart_task(state: ClusterState, task: TaskId) -> None:
    """Handle POST /connectors/{c}/tasks/{t}/restart: raise NotFound unless the connector has this task."""
    check_restart(state, task.connector)
    if not 0 <= task.task < len(state.connectors[task.connector].tasks):
        raise NotFound(f"Unknown task: {task}")


def _entries(*records: ConfigRecord) -> list[Entry]:
    return [Entry(*encode(record)) for record in records]


def _require_within_limit(entries: list[Entry]) -> list[Entry]:
    """Return the entries. Raises BadRequest if a record exceeds `MAX_RECORD_BYTES`."""
    size = max(len(entry.key.encode()) + len(entry.value or b"") for entry in entries)
    if size > MAX_RECORD_BYTES:
        raise BadRequest(
            f"The connector's config is too large: its record has {size} bytes; the maximum is {MAX_RECORD_BYTES}"
        )
    return entries
