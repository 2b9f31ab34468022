"""A worker or a group of three with their REST API, in one thread and virtual time, ordered by a seed.

A request runs the actors step by step until its response is available; time advances only when no message is due. In
the group, consecutive requests go to different workers, which forward them to the responsible worker.
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
"""Number of event loop turns without a message before time advances; a response takes a few turns to arrive."""
REQUEST_TIMEOUT_S = 100.0
"""Virtual seconds after which only a real timeout can end a request."""
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
    """Context of the last started instance of each connector."""


@dataclass(frozen=True, slots=True)
class RestEndpoint:
    """The REST API of one worker."""

    worker: Assembly
    app: httpx2.ASGITransport


class Stage(ABC):
    """Actions and queries of tests, in either mode."""

    mode = ""

    def __init__(
        self, outlook: ConnectorContexts, seed: int, properties: Mapping[str, str] | None, **web: Any
    ) -> None:
        """`properties` and `web` override the default settings of the workers and of their REST API."""
        self.outlook = outlook
        self.seed = seed
        self.properties = dict(properties or {})
        self._web = web
        self._loop = asyncio.new_event_loop()
        self._doors: dict[str, RestEndpoint] = {}
        self._turn = seed
        self.forwarded: list[tuple[str, str]] = []
        """Receiver and query of all forwarded requests, in order."""

    # -- in each mode --------------------------------------------------------------------------------------

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
        """Return the engines of all workers so far, with those of running workers last."""

    def find_engine(self, name: str, task: int) -> FakeEngine:
        """Return the engine of the running worker that runs a task."""
        task_id = TaskId(ConnectorName(name), task)
        [engine] = [each for each in self.engines()[-len(self.workers()) :] if task_id in each.running]
        return engine

    @abstractmethod
    def addresses(self, actor: str, url: str | None) -> list[Address]:
        """Return the addresses of the actors with this name on all workers or on one."""

    @abstractmethod
    def advance_until_idle(self) -> None:
        """Advance time until the workers are idle."""

    @abstractmethod
    def restart_workers(self, *, orderly: bool = True) -> None:
        """Restart all workers with the same logs, gracefully or as after a SIGKILL."""

    # -- REST ----------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Json | None = None, via: str | None = None) -> Response:
        """Send one request, and run the actors until its response."""
        return self.watching(method, path, body, via=via)[0]

    def get(self, path: str, via: str | None = None) -> Response:
        return self.request("GET", path, via=via)

    def get_immediately(self, path: str, via: str) -> Response:
        """Send a GET that requires no actors, without handling messages."""
        return self._loop.run_until_complete(self._send("GET", via, path))

    def put(self, path: str, body: Json | None = None) -> Response:
        return self.request("PUT", path, body)

    def post(self, path: str, body: Json | None = None) -> Response:
        return self.request("POST", path, body)

    def watching(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        watch: str = "",
        via: str | None = None,
        everywhere: bool = False,
    ) -> tuple[Response, list[Any]]:
        """Send a request; also return the bodies of GET `watch` after each actor message, `everywhere` or on `via`."""
        if via is None:
            urls = list(self.workers())
            self._turn += 1
            via = urls[self._turn % len(urls)]
        seen: list[Any] = []
        watched = list(self.workers()) if everywhere else [via]
        response = self._loop.run_until_complete(self._drive(method, via, path, body, watch, watched, seen))
        return response, seen

    async def _drive(
        self,
        method: str,
        url: str,
        path: str,
        body: Json | None,
        watch: str,
        watched: Sequence[str],
        seen: list[Any],
    ) -> Response:
        sending = asyncio.ensure_future(self._send(method, url, path, body))
        began_s, idle = self.scheduler.clock.now(), 0
        while not sending.done():
            await asyncio.sleep(0)
            if self.scheduler.step():
                idle = 0
                if watch:
                    seen += [(await self._send("GET", each, watch)).body for each in watched]
            else:
                idle += 1
            if idle > MAX_IDLE_TURNS:
                idle = 0
                due = self.scheduler.clock.next_due()
                if due is not None and due - began_s < REQUEST_TIMEOUT_S:
                    self.scheduler.clock.advance_to(due)
                else:
                    await asyncio.sleep(0.001)  # only the request's own timeout is left
        return sending.result()

    async def _send(self, method: str, url: str, path: str, body: Json | None = None) -> Response:
        transport = self._endpoint(url).app
        async with httpx2.AsyncClient(transport=transport, base_url=url, timeout=None) as client:
            received = await client.request(method, path, json=body)
        headers = dict(received.headers)
        return Response(status=received.status_code, text=received.text, headers=headers, via=url)

    async def between_workers(self, request: httpx2.Request) -> httpx2.Response:
        """Forward a request from one worker to another."""
        target = request.extensions["target"].decode()
        url = f"http://{request.url.netloc.decode()}/"
        if url not in self.workers():
            raise httpx2.ConnectError("connection refused", request=request)
        self.forwarded.append((url, target.partition("?")[2]))
        sent = httpx2.Request(
            request.method, url.rstrip("/") + target, headers=request.headers, content=await request.aread()
        )
        return await self._endpoint(url).app.handle_async_request(sent)

    def _endpoint(self, url: str) -> RestEndpoint:
        worker = self.workers()[url]
        door = self._doors.get(url)
        if door is None or door.worker is not worker:
            settings = Settings(
                advertised_url=url,
                distributed=self.mode == "distributed",
                topic_tracking=self.properties.get("topic.tracking.enable") != "false",
                topic_reset=self.properties.get("topic.tracking.allow.reset") != "false",
                **self._web,
            )
            app = create_apps(
                worker.herder,
                worker.published,
                Registry.of({}),
                _never,
                settings,
                scrape=create_scrape(worker, url),
                stall_detection=StallDetection(worker.metrics, AutoRestart()),
                progress=ProgressReports(worker.metrics, worker.series),
            ).main
            door = self._doors[url] = RestEndpoint(worker, httpx2.ASGITransport(app=app))
        return door

    # -- actions -------------------------------------------------------------------------------------------

    def create(self, name: str, tasks: int = 3, *, sink: bool = False, **config: str) -> None:
        """Create a connector with fake plugins, and wait until it runs."""
        response = self.post("/connectors", {"name": name, "config": fake_config(tasks, sink=sink, **config)})
        assert response.status == 201, response
        self.advance_until_idle()

    def fail_task(self, name: str, task: int, trace: str = "Broken: a test broke it") -> None:
        """Fail a running task."""
        self.find_engine(name, task).fail(TaskId(ConnectorName(name), task), trace)

    def fail_opening(self, name: str, task: int, trace: str) -> None:
        """Make every later start of a task fail on any worker."""
        for engine in self.engines():
            engine.fail_opening(TaskId(ConnectorName(name), task), trace)

    def fail_connector(self, name: str) -> None:
        """Make the connector's running instance raise an error through its context."""
        self.outlook.contexts[name].raise_error(RuntimeError("a test broke it"))

    def feed(self, name: str, task: int, records: int) -> None:
        """Feed records to a task on its worker."""
        self.find_engine(name, task).feed(TaskId(ConnectorName(name), task), records)

    def topic(self, name: str) -> None:
        """Make all tasks use another topic from now on."""
        for engine in self.engines():
            engine._topic = name

    def freeze(self, actor: str, *, frozen: bool = True, url: str | None = None) -> None:
        """Freeze or resume the actors with this name on all workers or on one."""
        for address in self.addresses(actor, url):
            self.scheduler.freeze(address, frozen=frozen)

    def change_web(self, **web: Any) -> None:
        """Change settings of the REST API."""
        self._web = web
        self._doors.clear()

    def get_written(self, name: str, task: int) -> list[int]:
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

    def config_records(self, begin: str = "", *, after: int = 0) -> list[tuple[str, Any]]:
        """Return the keys and JSON values of the config log's records with this key prefix."""
        return list(_records(self.config_log, begin, after))

    def status_records(self, begin: str = "", *, after: int = 0) -> list[tuple[str, Any]]:
        """Return the keys and JSON values of the status log's records with this key prefix."""
        return list(_records(self.status_log, begin, after))

    def starts(self, name: str) -> tuple[int, ...]:
        """Return the number of starts of the connector's instance and of each task, in order."""
        opened = [task for engine in self.engines() for task in engine.opened if task.connector == name]
        tasks = 1 + max((task.task for task in opened), default=-1)
        counts = [opened.count(TaskId(ConnectorName(name), number)) for number in range(tasks)]
        return (FakeSourceConnector.calls.count((name, "start")), *counts)


def fake_config(tasks: int = 3, *, sink: bool = False, **config: str) -> dict[str, str]:
    """Return the config of a connector with fake plugins."""
    plugin = {"connector.class": FAKE_SINK, "topics": "fake"} if sink else {"connector.class": FAKE_SOURCE}
    return {**plugin, "tasks.max": str(tasks), **config}


def get_states(status: Json) -> list[str]:
    """Return the states in a status, that of the connector first."""
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def _records(log: MemoryLog, begin: str, after: int) -> Iterator[tuple[str, Any]]:
    for record in log.read(after, log.end()):
        if record.key.startswith(begin):
            yield record.key, None if record.value is None else json.loads(record.value)


def _never(_plugin: str, _config: Any) -> ConfigInfos:
    raise AssertionError("no KIP here validates over REST")
