"""Simulation of one worker, or of a group of three workers, with the REST API.

The simulation runs in one thread and in virtual time; a seed determines the order of events. A request runs the actors
step by step until its response is available; time advances only when no message is due. In the group, consecutive
requests go to different workers, which forward them to the responsible worker.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2

from actors.assembly import Assembly
from actors.runtime.mailbox import Address
from kraal.config.connector.auto_restart import AutoRestart
from kraal.core.ids import ConnectorName, TaskId
from kraal.metrics.progress import ProgressReports
from kraal.metrics.stalls.detection import StallDetection
from kraal.plugins.registry import Registry
from kraal.testing._simulation.engine import FakeEngine
from kraal.testing._simulation.metrics import create_scrape
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE, FakeSourceConnector
from web.app import create_apps
from web.settings import Settings

if TYPE_CHECKING:
    from kraal.plugins.api import ConnectorContext
    from kraal.plugins.validation.infos import ConfigInfos
    from kraal.stores.memory import MemoryLog
    from kraal.testing._simulation.scheduler import Scheduler

MAX_IDLE_TURNS = 25
"""Number of event loop turns without a message after which time advances. A response takes a few turns to arrive."""
REQUEST_TIMEOUT_S = 100.0
"""Virtual duration of a request after which virtual time stops. Only a real timeout can then end the request."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A REST response and the worker that sent it."""

    status: int
    text: str
    headers: Mapping[str, str]
    via: str

    @property
    def body(self) -> Any:
        """The JSON value, or the text if it is not JSON; None if there is no body."""
        if not self.text:
            return None
        is_json = self.headers.get("content-type", "").startswith("application/json")
        return json.loads(self.text) if is_json else self.text


@dataclass(slots=True)
class ConnectorContexts:
    """The contexts of the connectors' instances."""

    contexts: dict[str, ConnectorContext] = field(default_factory=dict)
    """Context of the last started instance, by connector name."""


@dataclass(frozen=True, slots=True)
class RestEndpoint:
    """The REST API of one worker."""

    worker: Assembly
    app: httpx2.ASGITransport


class ConnectCluster(ABC):
    """A simulated Connect cluster of one standalone or three distributed workers, with methods for tests."""

    mode = ""

    def __init__(
        self,
        connector_contexts: ConnectorContexts,
        seed: int,
        properties: Mapping[str, str] | None,
        **rest_settings: Any,
    ) -> None:
        """Create the cluster; `properties` and `rest_settings` override defaults of workers and their REST API."""
        self.connector_contexts = connector_contexts
        self.seed = seed
        self.properties = dict(properties or {})
        self._rest_settings = rest_settings
        self._loop = asyncio.new_event_loop()
        self._endpoints: dict[str, RestEndpoint] = {}
        self._turn = seed
        self.forwarded_requests: list[tuple[str, str]] = []
        """Receiver and query string of each forwarded request, in order."""

    # -- per mode ------------------------------------------------------------------------------------------

    scheduler: Scheduler
    config_log: MemoryLog
    status_log: MemoryLog

    @abstractmethod
    def workers(self) -> Mapping[str, Assembly]:
        """Return the running workers by URL."""

    @abstractmethod
    def leader(self) -> str:
        """Return the URL of the leader, which plans restarts."""

    @abstractmethod
    def engines(self) -> list[FakeEngine]:
        """Return the engines of all workers that were ever started; the engines of running workers are last."""

    def find_engine(self, name: str, task: int) -> FakeEngine:
        """Return the engine of the running worker that runs a task."""
        task_id = TaskId(ConnectorName(name), task)
        [engine] = [engine for engine in self.engines()[-len(self.workers()) :] if task_id in engine.running]
        return engine

    @abstractmethod
    def addresses(self, actor: str, url: str | None) -> list[Address]:
        """Return the addresses of the actors with this name on the worker at `url`, or on all workers without a URL."""

    @abstractmethod
    def advance_until_idle(self) -> None:
        """Advance time until the workers are idle."""

    @abstractmethod
    def restart_workers(self, *, is_graceful: bool = True) -> None:
        """Restart all workers with the same logs, after a graceful stop or as after a SIGKILL."""

    # -- REST ----------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Json | None = None, via: str | None = None) -> Response:
        """Send one request, and run the actors until the response arrives."""
        return self.request_and_watch(method, path, body, via=via)[0]

    def get(self, path: str, via: str | None = None) -> Response:
        return self.request("GET", path, via=via)

    def get_immediately(self, path: str, via: str) -> Response:
        """Send a GET that requires no actors, without handling messages."""
        return self._loop.run_until_complete(self._send("GET", via, path))

    def put(self, path: str, body: Json | None = None) -> Response:
        return self.request("PUT", path, body)

    def post(self, path: str, body: Json | None = None) -> Response:
        return self.request("POST", path, body)

    def request_and_watch(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        watch: str = "",
        via: str | None = None,
        on_all_workers: bool = False,
    ) -> tuple[Response, list[Any]]:
        """Send a request; also return the bodies of GET `watch`, which is sent after each actor message.

        `on_all_workers`: send GET `watch` to all workers instead of only to `via`.
        """
        if via is None:
            urls = list(self.workers())
            self._turn += 1
            via = urls[self._turn % len(urls)]
        bodies: list[Any] = []
        watched_urls = list(self.workers()) if on_all_workers else [via]
        response = self._loop.run_until_complete(
            self._drive(method, via, path, body, watch, watched_urls, bodies)
        )
        return response, bodies

    async def _drive(
        self,
        method: str,
        url: str,
        path: str,
        body: Json | None,
        watch: str,
        watched_urls: Sequence[str],
        bodies: list[Any],
    ) -> Response:
        response_future = asyncio.ensure_future(self._send(method, url, path, body))
        start_s, idle_turns = self.scheduler.clock.now(), 0
        while not response_future.done():
            await asyncio.sleep(0)
            if self.scheduler.step():
                idle_turns = 0
                if watch:
                    bodies += [
                        (await self._send("GET", watched_url, watch)).body for watched_url in watched_urls
                    ]
            else:
                idle_turns += 1
            if idle_turns > MAX_IDLE_TURNS:
                idle_turns = 0
                due = self.scheduler.clock.next_due()
                if due is not None and due - start_s < REQUEST_TIMEOUT_S:
                    self.scheduler.clock.advance_to(due)
                else:
                    await asyncio.sleep(0.001)  # only the timeout of the request can end it
        return response_future.result()

    async def _send(self, method: str, url: str, path: str, body: Json | None = None) -> Response:
        transport = self._endpoint(url).app
        async with httpx2.AsyncClient(transport=transport, base_url=url, timeout=None) as client:
            response = await client.request(method, path, json=body)
        headers = dict(response.headers)
        return Response(status=response.status_code, text=response.text, headers=headers, via=url)

    async def forward(self, request: httpx2.Request) -> httpx2.Response:
        """Forward a request from one worker to another."""
        target = request.extensions["target"].decode()
        url = f"http://{request.url.netloc.decode()}/"
        if url not in self.workers():
            raise httpx2.ConnectError("connection refused", request=request)
        self.forwarded_requests.append((url, target.partition("?")[2]))
        forwarded_request = httpx2.Request(
            request.method, url.rstrip("/") + target, headers=request.headers, content=await request.aread()
        )
        return await self._endpoint(url).app.handle_async_request(forwarded_request)

    def _endpoint(self, url: str) -> RestEndpoint:
        worker = self.workers()[url]
        endpoint = self._endpoints.get(url)
        if endpoint is None or endpoint.worker is not worker:
            settings = Settings(
                advertised_url=url,
                distributed=self.mode == "distributed",
                topic_tracking=self.properties.get("topic.tracking.enable") != "false",
                topic_reset=self.properties.get("topic.tracking.allow.reset") != "false",
                **self._rest_settings,
            )
            app = create_apps(
                worker.herder,
                worker.published,
                Registry.of({}),
                _reject_validation,
                settings,
                scrape=create_scrape(worker, url),
                stall_detection=StallDetection(worker.metrics, AutoRestart()),
                progress=ProgressReports(worker.metrics, worker.series),
            ).main
            endpoint = self._endpoints[url] = RestEndpoint(worker, httpx2.ASGITransport(app=app))
        return endpoint

    # -- actions -------------------------------------------------------------------------------------------

    def create(self, name: str, tasks: int = 3, *, is_sink: bool = False, **config: str) -> None:
        """Create a connector with fake plugins, and wait until it runs."""
        response = self.post(
            "/connectors", {"name": name, "config": fake_config(tasks, is_sink=is_sink, **config)}
        )
        assert response.status == 201, response
        self.advance_until_idle()

    def fail_task(self, name: str, task: int, trace: str = "Broken: failed by a test") -> None:
        """Make a running task fail."""
        self.find_engine(name, task).fail(TaskId(ConnectorName(name), task), trace)

    def fail_opening(self, name: str, task: int, trace: str) -> None:
        """Make every later start of a task fail on any worker."""
        for engine in self.engines():
            engine.fail_opening(TaskId(ConnectorName(name), task), trace)

    def fail_connector(self, name: str) -> None:
        """Make the running instance of a connector raise an error through its context."""
        self.connector_contexts.contexts[name].raise_error(RuntimeError("failed by a test"))

    def feed(self, name: str, task: int, records: int) -> None:
        """Feed `records` records to a task."""
        self.find_engine(name, task).feed(TaskId(ConnectorName(name), task), records)

    def set_topic(self, name: str) -> None:
        """Set the topic that all tasks use."""
        for engine in self.engines():
            engine._topic = name

    def freeze(self, actor: str, *, frozen: bool = True, url: str | None = None) -> None:
        """Freeze or resume the actors with this name on the worker at `url`, or on all workers without a URL."""
        for address in self.addresses(actor, url):
            self.scheduler.freeze(address, frozen=frozen)

    def change_rest_settings(self, **rest_settings: Any) -> None:
        """Change settings of the REST API."""
        self._rest_settings = rest_settings
        self._endpoints.clear()

    def get_written_numbers(self, name: str, task: int) -> list[int]:
        """Return the numbers of the records written by a task."""
        return self.engines()[0].written.get(TaskId(ConnectorName(name), task), [])

    def close(self) -> None:
        """Close the event loop."""
        self._loop.close()

    # -- queries -------------------------------------------------------------------------------------------

    def status(self, name: str, via: str | None = None) -> Json:
        """GET the status of an existing connector."""
        response = self.get(f"/connectors/{name}/status", via)
        assert response.status == 200, response
        body: Json = response.body
        return body

    def states(self, name: str, via: str | None = None) -> list[str]:
        """Return the states of a connector and its tasks."""
        return get_states(self.status(name, via))

    def topics(self, name: str) -> list[str]:
        """GET the topics of a connector."""
        response = self.get(f"/connectors/{name}/topics")
        assert response.status == 200, response
        names: list[str] = response.body[name]["topics"]
        return names

    def config_records(self, prefix: str = "", *, after: int = 0) -> list[tuple[str, Any]]:
        """Return the keys and JSON values of the config log's records with this key prefix."""
        return list(_records(self.config_log, prefix, after))

    def status_records(self, prefix: str = "", *, after: int = 0) -> list[tuple[str, Any]]:
        """Return the keys and JSON values of the status log's records with this key prefix."""
        return list(_records(self.status_log, prefix, after))

    def starts(self, name: str) -> tuple[int, ...]:
        """Return the number of starts of the connector's instance and of each task, in order."""
        opened_tasks = [task for engine in self.engines() for task in engine.opened if task.connector == name]
        task_count = 1 + max((task.task for task in opened_tasks), default=-1)
        counts = [opened_tasks.count(TaskId(ConnectorName(name), number)) for number in range(task_count)]
        return (FakeSourceConnector.calls.count((name, "start")), *counts)


def fake_config(tasks: int = 3, *, is_sink: bool = False, **config: str) -> dict[str, str]:
    """Return the config of a connector with fake plugins."""
    plugin = {"connector.class": FAKE_SINK, "topics": "fake"} if is_sink else {"connector.class": FAKE_SOURCE}
    return {**plugin, "tasks.max": str(tasks), **config}


def get_states(status: Json) -> list[str]:
    """Return the states of the connector and its tasks in a status."""
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def _records(log: MemoryLog, prefix: str, after: int) -> Iterator[tuple[str, Any]]:
    for record in log.read(after, log.end()):
        if record.key.startswith(prefix):
            yield record.key, None if record.value is None else json.loads(record.value)


def _reject_validation(_plugin: str, _config: Any) -> ConfigInfos:
    raise AssertionError("unexpected validation over REST")
