"""The public test harness: whole clusters inside a test, and faults by name. `docs/testing.md` has examples.

    from kraal.testing import FAKE_SOURCE, Cluster

    with Cluster(workers=3) as c:
        c.create("numbers", {"connector.class": FAKE_SOURCE})
        c.kill_actor("task numbers-0")
        c.wait_for_states("numbers", ["RUNNING", "RUNNING"])

What is named here stays; modules below may change. Nothing is imported before it is used, so that the pytest plugin
costs a suite that does not use it nothing: no Spark, no Kafka client, no Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraal.testing.local import Cluster
    from kraal.testing.plugin_work import NeedsSpark
    from kraal.testing.plugins import FAKE_SINK, FAKE_SOURCE
    from kraal.testing.process import Answer, WorkerProcess
    from kraal.testing.process_cluster import ProcessCluster
    from kraal.testing.topics import TopicRecord
    from kraal.testing.worker import EmbeddedWorker

__all__ = [
    "FAKE_SINK",
    "FAKE_SOURCE",
    "Answer",
    "Cluster",
    "EmbeddedWorker",
    "NeedsSpark",
    "ProcessCluster",
    "TopicRecord",
    "WorkerProcess",
]

_WHERE = {
    "FAKE_SINK": "plugins",
    "FAKE_SOURCE": "plugins",
    "Answer": "process",
    "Cluster": "local",
    "EmbeddedWorker": "worker",
    "NeedsSpark": "plugin_work",
    "ProcessCluster": "process_cluster",
    "TopicRecord": "topics",
    "WorkerProcess": "process",
}


def __getattr__(name: str) -> object:
    """Import what is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
