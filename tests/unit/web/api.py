"""The REST API of a worker whose herder is a fake that holds its state in memory."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from actors.messages import herder as messages
from actors.messages.ledger import LedgerView, ShowLedger
from actors.messages.offsets import AlterOffsets, LaggedOffsets, ResetOffsets, ShowLags, ShowOffsets
from actors.runtime.mailbox import Address, Question, Reply
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.statuses import ConnectorStatuses, StatusState
from kraal.cluster.views.snapshot import Published, Snapshot
from kraal.config.connector.auto_restart import AutoRestart
from kraal.core.errors import AlreadyExists, BadRequest, NotFound
from kraal.core.ids import (
    Config,
    ConnectorName,
    Generation,
    Instance,
    State,
    TargetState,
    TaskId,
    TopicName,
    WorkerId,
)
from kraal.core.log_levels import Loggers
from kraal.journal.journal import Journal
from kraal.metrics.java_plugins import JvmMetrics, TaskValues
from kraal.metrics.progress import ProgressReports
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.series import Series
from kraal.metrics.stalls.detection import StallDetection
from kraal.metrics.stalls.down_parts import DownPart
from kraal.metrics.thread_pools import PoolState
from kraal.metrics.windows import Windows
from kraal.plugins.registry import Registry
from kraal.plugins.validation.infos import ConfigInfos
from kraal.protocol.status_records import Status
from kraal.testing._simulation.scheduler import VirtualClock
from tests.fakes.kafka.dead_letters import MemoryKafka
from tests.fakes.proofs import FakeProof, make_proofs
from tests.fakes.web_client import WebClient
from web.app import create_apps
from web.middleware.admission import Admission
from web.settings import Settings

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import Message

WORKER = WorkerId("worker:8083")
STATES = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


def status(state: State, trace: str | None = None) -> Status:
    return Status(state=state, worker_id=WORKER, generation=Generation(1), trace=trace, version="0.1.0")


@dataclass
class FakeHerder:
    """Herder that raises `error` if set, never replies if `is_silent` is set, and otherwise replies immediately."""

    published: Published
    requests: list[object] = field(default_factory=list)
    error: Exception | None = None
    is_silent: bool = False
    on_wait_until_live: Callable[[], object] = lambda: None
    offsets: Sequence[tuple[Any, Any]] = ()
    lags: Sequence[int | None] = ()

    def deliver(self, item: object) -> bool:
        assert isinstance(item, Question)
        item.reply_with(self)
        return True

    def receive(self, message: object) -> object:
        self.requests.append(message)
        if self.error is not None:
            raise self.error
        if self.is_silent:
            return Reply[None]()
        return self._reply_to(message)

    def _reply_to(self, message: object) -> object:
        """Carry out a request of the API; return its result, or None if it has none."""
        result: object = None
        match message:
            case messages.CreateConnector(
                name=name, config=config, initial_state=initial, initial_offsets=offsets
            ):
                if name in self._connectors:
                    raise AlreadyExists(f"Connector {name} already exists")
                self._check_name(name, config)
                self.put(name, config, initial or TargetState.STARTED)
                result = None if offsets is None else "altered"
            case messages.PutConfig(name=name, config=config):
                self._check_name(name, config)
                result = name not in self._connectors
                self.put(name, config)
            case messages.PatchConfig(name=name, patch=patch):
                merged_config = {**self._entry(name, "Connector {} not found").config, **patch}
                self.put(name, {key: value for key, value in merged_config.items() if value is not None})
            case messages.DeleteConnector(name=name):
                self._entry(name, "Connector {} not found")
                self.remove(name)
            case messages.SetTargetState(name=name, target=target):
                self.put(name, self._entry(name, "Unknown connector {}").config, target)
            case messages.RestartConnector(name=name, include_tasks=tasks, only_failed=failed):
                self._entry(name, "Unknown connector: {}")
                result = {"name": name, "plan": True} if tasks or failed else None
            case ShowOffsets():
                result = self.offsets
            case ShowLags():
                result = LaggedOffsets(self.offsets, self.lags)
            case AlterOffsets():
                result = "altered"
            case ResetOffsets():
                result = "reset"
            case messages.WaitUntilLive():
                self.on_wait_until_live()
            case messages.RestartTask(task=TaskId(connector=name)):
                self._entry(name, "Unknown connector: {}")
            case _:
                messages_without_result = (
                    messages.ResetTopics
                    | messages.Ping
                    | messages.PutTaskConfigs
                    | messages.FenceZombies
                    | messages.SetLoggerLevel
                )
                assert isinstance(message, messages_without_result)
        return result

    @property
    def _connectors(self) -> Mapping[ConnectorName, ConnectorEntry]:
        return self.published.latest.config.connectors

    def _entry(self, name: ConnectorName, error_format: str) -> ConnectorEntry:
        if name not in self._connectors:
            raise NotFound(error_format.format(name))
        return self._connectors[name]

    def _check_name(self, name: ConnectorName, config: Config) -> None:
        if config.get("name", name) != name:
            raise BadRequest(
                f"Connector name configuration ({config['name']}) doesn't match "
                f"connector name in the URL ({name})"
            )

    def publish(self, **changes: Any) -> None:
        latest = self.published.latest
        self.published.publish(replace(latest, number=latest.number + 1, **changes))

    def put(
        self,
        name: str,
        config: Config,
        target: TargetState = TargetState.STARTED,
        *,
        tasks: int = 0,
        statuses: ConnectorStatuses | None = None,
        topics: frozenset[str] = frozenset(),
    ) -> None:
        """Publish a connector as if its records had been read back."""
        connector_name, latest = ConnectorName(name), self.published.latest
        task_configs = tuple({**config, "task": str(number)} for number in range(tasks))
        entry = ConnectorEntry(
            name=connector_name,
            config={**config, "name": name},
            target=target,
            tasks=task_configs,
            task_count=tasks,
        )
        connector_statuses = statuses or ConnectorStatuses(
            connector=status(STATES[target]), tasks={n: status(STATES[target]) for n in range(tasks)}
        )
        topic_names = frozenset(map(TopicName, topics))
        self.publish(
            config=replace(
                latest.config, offset=1, connectors={**latest.config.connectors, connector_name: entry}
            ),
            status=StatusState(
                statuses={**latest.status.statuses, connector_name: connector_statuses},
                topics={**latest.status.topics, connector_name: topic_names},
            ),
            types={**latest.types, connector_name: "source"},
        )

    def remove(self, name: str) -> None:
        """Remove a connector and its statuses."""
        latest = self.published.latest
        self.publish(
            config=ClusterState(connectors={k: v for k, v in latest.config.connectors.items() if k != name}),
            status=StatusState(statuses={k: v for k, v in latest.status.statuses.items() if k != name}),
        )


@dataclass
class FakeJava:
    """Fake metrics of the plugins' JVM. A call of `gather` adds `reported_metrics` to `tasks`."""

    tasks: dict[TaskId, TaskValues | None] = field(default_factory=dict)
    reported_metrics: dict[TaskId, TaskValues] = field(default_factory=dict)
    gather_count: int = 0

    def current(self, instances: Container[Instance]) -> JvmMetrics:
        del instances
        return JvmMetrics(tasks=self.tasks)

    def gather(self) -> Sequence[Future[bool]]:
        self.gather_count += 1
        future = Future[bool]()
        future.set_result(True)
        self.tasks |= self.reported_metrics
        return [future] if self.tasks else []


class FakeLedger:
    """A ledger keeper that replies with a fixed view."""

    def __init__(self) -> None:
        self.view = LedgerView(tasks={}, partitions={})
        self.asked_connectors: list[ConnectorName] = []
        self.address = Address("ledger")
        self.address.bind(self._deliver)

    def _deliver(self, message: object) -> bool:
        assert isinstance(message, Question)
        message.reply_with(self)
        return True

    def receive(self, message: ShowLedger) -> LedgerView:
        """Return the view."""
        self.asked_connectors.append(message.connector)
        return self.view


class Api:
    """The application with its herder and a client."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry | None = None,
        loggers: Loggers | None = None,
        admission: Admission | None = None,
    ) -> None:
        self.published = Published(Snapshot(worker_id=WORKER, live=True, ready=True))
        self.herder = FakeHerder(self.published)
        self.address = Address("herder")
        self.address.bind(self.herder.deliver)
        self.validated_configs: list[tuple[str, Config]] = []
        self.clock = VirtualClock()
        self.metrics = MetricsRegistry(self.clock, Windows(), in_group=False)
        self.series = Series(self.metrics)
        self.java = FakeJava()
        self.journal = Journal(self.clock.wall_ms)
        self.pools: Sequence[PoolState] = ()
        self.down_parts: Sequence[DownPart] = ()
        self.infos = ConfigInfos(name="x", error_count=0, groups=(), configs=())
        self.validation_error: Exception | None = None
        self.before_validation: Callable[[], object] = lambda: None
        self.kafka = MemoryKafka()
        self.proof = FakeProof()
        self.proofs = make_proofs(self.proof)
        self.ledger = FakeLedger()
        self.apps = create_apps(
            self.address,
            self.published,
            registry or Registry.of({}),
            self.validate,
            settings,
            scrape=lambda: iter(("# nothing is measured here\n",)),
            loggers=loggers,
            stall_detection=StallDetection(
                self.metrics, AutoRestart(max_restarts=5), lambda: self.pools, lambda: self.down_parts
            ),
            progress=ProgressReports(self.metrics, self.series, self.java),
            admission=admission,
            dead_letters=self.kafka,
            proofs=self.proofs,
            ledger=self.ledger.address,
            journal=self.journal,
        )
        self.app: Starlette = self.apps.main
        self.client = WebClient(self.app, headers={"Accept": "*/*"})

    def validate(self, plugin: str, config: Config) -> ConfigInfos:
        self.validated_configs.append((plugin, config))
        self.before_validation()
        if self.validation_error is not None:
            raise self.validation_error
        return self.infos

    def request(
        self, method: str, path: str, body: str | bytes | None = None, **headers: str
    ) -> tuple[int, str]:
        """Send a request, with a JSON content type if `body` is set; return the status and text of the response."""
        request_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            request_headers.setdefault("Content-Type", "application/json")
        response = self.client.request(method, path, content=body, headers=request_headers)
        return response.status_code, response.text


def document(settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI document of a worker with these settings, requested with the credentials of user `a`."""
    response = Api(settings).client.get("/openapi.json", auth=("a", "b"))
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    content: dict[str, Any] = response.json()
    return content


async def send_raw_get(api: Api, raw_path: str) -> list[Message]:
    """Send a GET with an unnormalized path; return the ASGI messages of the response."""
    sent_messages: list[Message] = []

    async def send(message: Message) -> None:
        sent_messages.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": raw_path, "raw_path": raw_path.encode()}
    await api.app({**scope, "query_string": b"", "headers": []}, receive, send)
    return sent_messages
