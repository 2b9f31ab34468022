"""Workers as targets of the fuzzers: the real web application, herder, actors and plugins, on a loopback port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx2

from actors.messages.supervisor import ListActors
from actors.runtime.mailbox import ask
from kraal.plugins.registry import Registry
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE, FakeSinkConnector, FakeSourceConnector
from tests.fakes.workers.rest_worker import rest_worker

if TYPE_CHECKING:
    from kraal.plugins.api import Connector, Converter

MODES: Final = ("standalone", "distributed")
_FILES: Final = "org.apache.kafka.connect.file.FileStream"
_CONVERTERS: Final = (
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter",
    "org.apache.kafka.connect.json.JsonConverter",
)


@dataclass(slots=True)
class Target:
    """The address and the faults of a worker."""

    url: str
    faults: list[str] = field(default_factory=list)
    """Faults detected after the run."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def check_alive(self) -> None:
        """Send a few GET requests, and record a fault for each response that is missing or not 200."""
        for path in ("", "health", "connectors?expand=status&expand=info"):
            try:
                response = httpx2.get(f"{self.url}{path}", timeout=10, trust_env=False)
            except httpx2.HTTPError as error:
                self.faults.append(f"GET /{path} failed: {error!r}")
            else:
                if response.status_code != 200:
                    self.faults.append(f"GET /{path} returned {response.status_code}: {response.text}")


def load_registry() -> Registry:
    """Return a registry of installed plugins and fake connectors; all tasks run on the fake engine."""
    installed = Registry.load()
    classes: dict[str, type[Connector | Converter]] = {
        FAKE_SOURCE: FakeSourceConnector,
        FAKE_SINK: FakeSinkConnector,
        **{name: installed.converter_class(name) for name in _CONVERTERS},
    }
    for name in (f"{_FILES}SourceConnector", f"{_FILES}SinkConnector"):
        classes[name] = installed.connector_class(name)
    return Registry.of(classes)


@contextmanager
def target(mode: str) -> Iterator[Target]:
    """Run a worker without Spark and Kafka. After the run, record faults if the worker is unhealthy or actors died."""
    with rest_worker(load_registry(), distributed=mode == "distributed") as worker:
        new_target = Target(worker.url)
        yield new_target
        new_target.check_alive()
        restart_counts = ask(worker.assembly.supervisor, ListActors(), timeout_s=10)
        new_target.faults += [
            f"the actor {name} died {restart_count} times"
            for name, restart_count in restart_counts.items()
            if restart_count
        ]
