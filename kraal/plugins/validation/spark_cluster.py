"""Rejects connectors that cannot run on the worker's Spark cluster before they are created."""

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

_INSTEAD: Final = "the worker's spark.master is a cluster; use a worker with spark.master=local[*]"


def add_cluster_errors(
    registry: Registry,
    worker: Mapping[str, str],
    connector: type[Connector],
    config: Config,
    values: dict[str, ConfigValue],
) -> None:
    """Add an error to each value that requires a local Spark, unless Spark is local. `worker`: its properties."""
    if is_local(worker):
        return
    non_null = {key: value for key, value in config.items() if value is not None}
    for key, error in _errors(registry, worker, connector, non_null):
        values[key] = values.get(key, ConfigValue(name=key)).with_errors(error)


def _errors(
    registry: Registry, worker: Mapping[str, str], connector: type[Connector], config: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    local = connector.needs_local_spark(config)
    for key, why in local.items():
        yield key, f"{config.get(key, key)} needs a local Spark, because {why}, and {_INSTEAD}"
    task = connector.task_class
    if not local and issubclass(task, SourceTask) and task.is_stream(config):
        why = "its query in real-time mode calls the worker for every batch"
        yield "connector.class", f"This connector needs a local Spark, because {why}, and {_INSTEAD}"
    for key, name in list_java_classes(registry, worker, config):
        why = "Spark's tasks pass records through the JVM of Java plugins on the worker's machine"
        yield key, f"{name} is a Java plugin, which needs a local Spark, because {why}, and {_INSTEAD}"
    if not has_remote_executors(worker):
        return
    roots = shared_paths(worker)
    for key, path in connector.shared_paths(config).items():
        if not any(_is_below(path, root) for root in roots):
            yield (
                key,
                (
                    f"{path} must be on a file system that the worker and Spark's executors share under the same path; "
                    f"list it in {SHARED_PATHS} of the worker's file, which has {', '.join(roots) or 'none'}"
                ),
            )


def _is_below(path: str, root: str) -> bool:
    normal, above = os.path.normpath(path), os.path.normpath(root)
    return normal == above or normal.startswith(above.rstrip("/") + "/")
