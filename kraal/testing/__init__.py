"""The public test harness: clusters inside a test, with fault injection. `docs/testing.md` has examples.

    from kraal.testing import FAKE_SOURCE, Cluster

    with Cluster(workers=3) as c:
        c.create("numbers", {"connector.class": FAKE_SOURCE})
        c.kill_actor("task numbers-0")
        c.wait_for_states("numbers", ["RUNNING", "RUNNING"])

Names in this module are stable; submodules may change. Submodules are imported on first use, so the pytest plugin does
not import Spark, a Kafka client or Arrow in a suite that does not use its fixtures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kraal.testing._simulation.plugin_work import NeedsSpark
    from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
    from kraal.testing._simulation.topics import TopicRecord
    from kraal.testing._simulation.worker import EmbeddedWorker
    from kraal.testing.local import Cluster
    from kraal.testing.process import Answer, WorkerProcess
    from kraal.testing.process_cluster import ProcessCluster

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

_MODULES = {
    "FAKE_SINK": "_simulation.plugins",
    "FAKE_SOURCE": "_simulation.plugins",
    "Answer": "process",
    "Cluster": "local",
    "EmbeddedWorker": "_simulation.worker",
    "NeedsSpark": "_simulation.plugin_work",
    "ProcessCluster": "process_cluster",
    "TopicRecord": "_simulation.topics",
    "WorkerProcess": "process",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
