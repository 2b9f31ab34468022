"""Findings and their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """Severity of a finding, in ascending order."""

    OK = "ok"
    SKIPPED = "skipped"
    HINT = "hint"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check or a part of a check."""

    id: str
    """One of `IDS`."""
    level: Level
    what: str
    fix: str = ""
    """Fix; empty if no action is required."""

    @property
    def area(self) -> str:
        """First component of the id, such as `broker`."""
        return self.id.partition(".")[0]


IDS: Final[Mapping[str, str]] = {
    "config.valid": "The worker's file can be read, and every value in it is valid",
    "config.warning": "Lists settings that have no effect, are insecure, or can cause failures",
    "machine.memory": "At least 1.5 GB of memory are available, within the container's limit if there is one",
    "machine.files": "A worker, which raises its soft limit to the hard limit, may open at least 4,096 files",
    "machine.disk": "The directory for scratch files is writable and has at least 1 GB of free space",
    "install.files": "The installed files of Kraal match its RECORD: no other package has replaced them",
    "clock.synchronized": "The kernel considers its clock synchronized",
    "clock.records": "No record in the internal topics has a timestamp in the future",
    "clock.worker": "The clocks of running workers differ from this machine's by less than 5 s",
    "java.version": "Java 17, 21 or 25 is installed with all modules that Spark needs",
    "java.prepared": "`kraal prepare` has created the archive of Spark's classes",
    "listeners.free": "The addresses of the REST API are free",
    "listeners.advertised": "The advertised host can be resolved, and other workers can reach it",
    "broker.reachable": "A broker responds with the worker's security settings",
    "topics.exist": "The three internal topics exist, or are created at the first start",
    "topics.cleanup": "The internal topics are compacted; another policy would delete configs, offsets and statuses",
    "topics.partitions": "The config topic has one partition, which keeps its records in order",
    "topics.replicas": "The internal topics have more than one replica; there are enough brokers for missing topics",
    "topics.insync": "Each internal topic has at least `min.insync.replicas` in-sync replicas; with fewer, writes fail",
    "acls.topics": "The worker's user may read, write and describe the internal topics",
    "acls.group": "The worker's user may join the group of the workers",
    "acls.cluster": "The worker's user may create internal topics that do not exist",
    "acls.transactions": "Lists the transactional ids that the worker needs for exactly-once support",
    "plugins.lock": "The plugin lock is valid, and its files are unchanged",
    "plugins.path": "The entries of `plugin.path` exist and can contain plugins",
    "plugins.jvm": "Java accepts `plugins.jvm.options`, so that the JVM of Java plugins can start",
    "plugins.jars": "The jars of plugins in `plugin.path` can be read",
    "plugins.classes": "Each plugin class is in only one jar, unless the jars have different versions",
    "plugins.libraries": "Lists plugins that contain Kafka's libraries or SLF4J bindings, which workers do not use",
    "spark.master": "`spark.master` is a master URL of Spark; the master of a standalone cluster accepts connections",
    "spark.secret": "Applications of a standalone cluster authenticate: `spark.authenticate.secret` is set",
    "worker.reachable": "With `--url`: the worker responds, and has reached Kafka",
    "worker.health": "The worker reports that it is healthy",
    "worker.parts": "All components of the worker are up: Spark, and the JVMs of Java plugins",
    "workers.reachable": "The other workers that run connectors or tasks respond at their advertised addresses",
    "workers.versions": "All workers have the same version",
    "connectors.failed": "No connector and no task has failed",
    "connectors.stalled": "No task on a Kraal worker is stalled",
    "connectors.plugins": "The worker has all plugins that existing connectors name",
    "doctor.check": "Reported if a check itself fails or times out",
}
"""Descriptions of the checks, by the ids of their findings."""


def passed(check: str, what: str) -> Finding:
    """Return a finding that requires no action."""
    return Finding(check, Level.OK, what)
