from __future__ import annotations

import gc
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from confluent_kafka import Producer
from typing_extensions import override

from actors.messages.supervisor import ListActors, Supervise
from actors.runtime.clock import ThreadClock
from actors.runtime.mailbox import Address, ask
from actors.runtime.system import Begin, ThreadSystem
from actors.supervisor import Supervisor
from kraal.cluster.decisions.actor_restart_budget import ActorRestartBudget
from kraal.config.worker.standalone import parse_standalone
from kraal.core import lease_clock
from kraal.core.errors import ConfigInvalid, KraalError
from kraal.testing._simulation.engine import FakeEngine
from kraal.testing._simulation.worker import DEFAULTS
from kraal.worker.control_port import HOST, MAX_REQUEST_BYTES, ControlPort, is_loopback
from kraal.worker.standalone import StandaloneProcess

if TYPE_CHECKING:
    from kraal.engine.api import Engine
    from kraal.plugins.registry import Registry

T = TypeVar("T")


class Standalone(StandaloneProcess):
    """A standalone worker without Spark and Kafka."""

    @override
    def _engine(self, registry: Registry, *, at_once: bool) -> Engine:
        del at_once
        return FakeEngine()

    @override
    def _cluster_id(self) -> str:
        return "cluster"


@contextmanager
def run_worker(raw: dict[str, str]) -> Iterator[Standalone]:
    """Run a worker, including its actors and its REST server, during the body of the `with` statement."""
    process = Standalone(parse_standalone(raw), {})
    thread = threading.Thread(target=process.run)
    thread.start()
    try:
        yield process
    finally:
        process.end()
        thread.join(30)
    assert not thread.is_alive()


def wait_for(get_result: Callable[[], T | None]) -> T:
    """Return the result of `get_result` once it is not None, within 30 s."""
    pause = threading.Event()
    deadline = time.monotonic() + 30
    while (result := get_result()) is None:
        assert time.monotonic() < deadline
        pause.wait(0.01)
    return result


class IdleActor:
    """An idle actor that records its start."""

    def __init__(self, started: threading.Semaphore) -> None:
        self._started = started

    def receive(self, message: object) -> object:
        if isinstance(message, Begin):
            self._started.release()
        return None


class ControlPortHarness:
    """A supervisor with one actor, and a control port."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.supervisor = Address("supervisor")
        self._system, self._clock = ThreadSystem(), ThreadClock()
        self._system.spawn(
            self.supervisor,
            lambda: Supervisor(
                address=self.supervisor, system=self._system, clock=self._clock, budget=ActorRestartBudget()
            ),
            lambda _: None,
        )
        self.supervisor.tell(
            Supervise(
                address=Address("idler"),
                factory=lambda: IdleActor(self.started),
                on_budget_exhausted=lambda _: None,
            )
        )
        self.control = ControlPort(0, self.supervisor)

    def send(self, line: bytes) -> dict[str, object]:
        with socket.create_connection((HOST, self.control.port), timeout=10) as connection:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            response: dict[str, object] = json.loads(connection.makefile("rb").readline())
        return response

    def close(self) -> None:
        self.control.close()
        self._system.close(5)
        self._clock.close()


@pytest.fixture
def harness() -> Iterator[ControlPortHarness]:
    new_harness = ControlPortHarness()
    assert new_harness.started.acquire(timeout=10)
    yield new_harness
    new_harness.close()


def test_named_actor_is_crashed_and_restarted(harness: ControlPortHarness) -> None:
    assert harness.send(b'{"do": "list"}\n') == {"actors": {"idler": 0}}
    assert harness.send(b'{"do": "crash", "actor": "idler"}\n') == {"crashed": "idler"}
    assert harness.started.acquire(timeout=10), "the actor was restarted"
    assert ask(harness.supervisor, ListActors(), timeout_s=5) == {"idler": 1}


def test_threads_are_grouped_by_name(harness: ControlPortHarness) -> None:
    threads = harness.send(b'{"do": "threads"}\n')["threads"]
    assert isinstance(threads, list)
    assert {"clock", "test-control"} <= set(threads)


def test_simulated_suspension_advances_only_the_lease_clock(harness: ControlPortHarness) -> None:
    before_s = lease_clock.now_s() - time.monotonic()
    assert harness.send(b'{"do": "suspend", "seconds": 60}\n') == {"suspended_s": 60}
    assert lease_clock.now_s() - time.monotonic() - before_s == pytest.approx(60, abs=1)


class Owner:
    """An object that holds a librdkafka client."""

    def __init__(self) -> None:
        self.client = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_open_clients_are_counted_by_holder(harness: ControlPortHarness) -> None:
    owner = Owner()
    gc.freeze()
    assert "'Producer of Owner': 1" in str(harness.send(b'{"do": "clients"}\n'))
    assert gc.get_freeze_count() > 0
    del owner
    assert "Producer of Owner" not in str(harness.send(b'{"do": "clients"}\n'))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b'{"do": "crash", "actor": "nobody"}\n', "Unknown actor nobody; expected one of: idler"),
        (b'{"do": "crash"}\n', "actor: missing; expected the name of an actor"),
        (b'{"do": "crash", "actor": 1}\n', "actor: missing; expected the name of an actor"),
        (b'{"do": "dance"}\n', 'do="dance": must be one of: list, threads, clients, crash, suspend'),
        (b'{"do": "suspend"}\n', "seconds: must be a positive number"),
        (b'{"do": "suspend", "seconds": -1}\n', "seconds: must be a positive number"),
        (b'{"do": "suspend", "seconds": NaN}\n', "seconds: must be a positive number"),
        (b"[]\n", 'The request is not a JSON object; expected a request such as {"do": "list"}'),
        (b"POST / HTTP/1.1\r\n", 'The request is not valid JSON; expected a request such as {"do": "list"}'),
        (b"\xff\n", 'The request is not valid JSON; expected a request such as {"do": "list"}'),
        (b'{"do": "list"}', f"A request must be one line of at most {MAX_REQUEST_BYTES} bytes."),
        (b"x" * MAX_REQUEST_BYTES, f"A request must be one line of at most {MAX_REQUEST_BYTES} bytes."),
    ],
)
def test_invalid_request_is_rejected_with_a_reason(
    harness: ControlPortHarness, line: bytes, error: str
) -> None:
    assert harness.send(line) == {"error": error}
    assert ask(harness.supervisor, ListActors(), timeout_s=5) == {"idler": 0}


def test_control_port_listens_on_loopback_only(harness: ControlPortHarness) -> None:
    # 127.0.0.2 is another local address, on which no process listens.
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.2", harness.control.port)) != 0


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("0.0.0.0", False), ("localhost", False)],  # noqa: S104
)
def test_loopback_addresses_are_detected(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_port_in_use_is_reported(harness: ControlPortHarness) -> None:
    with pytest.raises(
        KraalError, match=rf"kraal.test.control.port={harness.control.port} is not available on"
    ):
        ControlPort(harness.control.port, harness.supervisor)


def test_control_port_is_opened_only_if_configured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    raw = {
        **DEFAULTS,
        "offset.storage.file.filename": str(tmp_path / "o"),
        "listeners": "http://127.0.0.1:0",
    }
    assert parse_standalone(raw).test_control_port is None
    with run_worker(raw):
        assert "test control port" not in caplog.text
    with run_worker({**raw, "kraal.test.control.port": "0"}) as process:
        control = wait_for(lambda: process._control_port)
        with socket.create_connection((HOST, control.port), timeout=10) as connection:
            connection.sendall(b'{"do": "list"}\n')
            actors = json.loads(connection.makefile("rb").readline())["actors"]
        assert {"herder", "worker", "config reader", "offsets"} <= set(actors)
    assert f"Listening on the test control port at 127.0.0.1:{control.port}" in caplog.text
    with socket.socket() as probe:
        assert probe.connect_ex((HOST, control.port)) != 0, "the port is closed with the worker"


@pytest.mark.parametrize("port", ["-1", "65536", "0.0.0.0:1", "any"])
def test_invalid_port_is_rejected(port: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"kraal\.test\.control\.port"):
        parse_standalone({**DEFAULTS, "kraal.test.control.port": port})
