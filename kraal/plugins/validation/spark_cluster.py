"""Validation that rejects configs of connectors that cannot run on the worker's Spark cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from kraal.config.key import ConfigValue
from kraal.config.spark_master import SHARED_PATHS, has_remote_executors, is_local, shared_paths
from kraal.core.ids import Config
from kraal.plugins.api import Connector, SourceTask
from kraal.plugins.java_chain import list_java_classes
from kraal.plugins.registry import Registry

_REMEDY: Final = "the worker's spark.master is a cluster; use a worker with spark.master=local[*]"


def add_cluster_errors(
    registry: Registry,
    worker: Mapping[str, str],
    connector: type[Connector],
    config: Config,
    values: dict[str, ConfigValue],
) -> None:
    """Add an error to each value that the Spark cluster does not support; no-op if the worker's Spark is local."""
    if is_local(worker):
        return
    non_null_config = {key: value for key, value in config.items() if value is not None}
    for key, error in _list_errors(registry, worker, connector, non_null_config):
        values[key] = values.get(key, ConfigValue(name=key)).with_errors(error)


def _list_errors(
    registry: Registry, worker: Mapping[str, str], connector: type[Connector], config: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    local_reasons = connector.needs_local_spark(config)
    for key, reason in local_reasons.items():
        yield key, f"{config.get(key, key)} needs a local Spark, because {reason}, and {_REMEDY}"
    task = connector.task_class
    if not local_reasons and issubclass(task, SourceTask) and task.is_stream(config):
        reason = "its query in real-time mode calls the worker for every batch"
        yield "connector.class", f"This connector needs a local Spark, because {reason}, and {_REMEDY}"
    for key, name in list_java_classes(registry, worker, config):
        reason = "Spark's tasks pass records through the JVM of Java plugins on the worker's machine"
        yield key, f"{name} is a Java plugin, which needs a local Spark, because {reason}, and {_REMEDY}"
    if not has_remote_executors(worker):
        return
    roots = shared_paths(worker)
    for key, path in connector.shared_paths(config).items():
        if not any(_is_within(path, root) for root in roots):
            yield (
                key,
                (
                    f"{path} must be on a file system that the worker and Spark's executors share under the same path; "
                    f"add it to {SHARED_PATHS} in the worker's file, which contains {', '.join(roots) or 'no paths'}"
                ),
            )


def _is_within(path: str, root: str) -> bool:
    normalized_path, normalized_root = os.path.normpath(path), os.path.normpath(root)
    return normalized_path == normalized_root or normalized_path.startswith(normalized_root.rstrip("/") + "/")
