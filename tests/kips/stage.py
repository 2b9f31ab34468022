"""A worker, or a group of three, behind their REST API: one thread, virtual time, and a seed for every order.

A request runs the actors step by step until its answer is there; time passes only when nobody has anything to do.
In the group each request goes to the next worker, so what only one of them can do is sent on, over the same API.
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
from kraal.metrics.stall_detection import StallDetection
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

IDLE_TURNS = 25
"""So often the event loop turns without a message before time passes: an answer takes a few turns to arrive."""
PATIENCE_S = 100.0
"""Virtual seconds that a request may take; after them only a real time-out can end it."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What REST said, and which worker was asked."""

    status: int
    text: str
    headers: Mapping[str, str]
    via: str

    @property
    def body(self) -> Any:
        """The JSON value, or the text when it is none; None when there is no body."""
        if not self.text:
            return None
        is_json = self.headers.get("content-type", "").startswith("application/json")
        return json.loads(self.text) if is_json else self.text


@dataclass(slots=True)
class Outlook:
    """What a test wants to know of the connectors' objects."""

    contexts: dict[str, ConnectorContext] = field(default_factory=dict)
    """By connector: of the object that was started last."""


@dataclass(frozen=True, slots=True)
class Door:
    """One worker's REST API."""

    worker: Assembly
    app: httpx2.ASGITransport


class Stage(ABC):
    """What tests do and see, in either mode."""

    mode = ""

    def __init__(self, outlook: Outlook, seed: int, properties: Mapping[str, str] | None, **web: Any) -> None:
        """`properties` are the workers', `web` the settings of their REST API, where they are not the default."""
        self.outlook = outlook
        self.seed = seed
        self.properties = dict(properties or {})
        self._web = web
        self._loop = asyncio.new_event_loop()
        self._doors: dict[str, Door] = {}
        self._turn = seed
        self.forwarded: list[tuple[str, str]] = []
        """The receiver and the query of every request from one worker to another, in order."""

    # -- in each mode --------------------------------------------------------------------------------------

    scheduler: Scheduler
    config_log: MemoryLog
    status_log: MemoryLog

    @abstractmethod
    def workers(self) -> Mapping[str, Assembly]:
        """Return the living workers by URL."""

    @abstractmethod
    def leader(self) -> str:
        """Return the URL of the worker that restarts are planned by."""

    @abstractmethod
    def engines(self) -> list[FakeEngine]:
        """Return the engine of every worker there ever was; the living ones last."""

    def engine_of(self, name: str, task: int) -> FakeEngine:
        """Return where a task runs: of a worker that was killed, what ran then is still noted."""
        found = TaskId(ConnectorName(name), task)
        [engine] = [each for each in self.engines()[-len(self.workers()) :] if found in each.running]
        return engine

    @abstractmethod
    def addresses(self, actor: str, url: str | None) -> list[Address]:
        """Return where the actors of this name are; of all workers, or of one."""

    @abstractmethod
    def calm(self) -> None:
        """Let everything happen that is about to."""

    @abstractmethod
    def restart_workers(self, *, orderly: bool = True) -> None:
        """End all workers, and start as many with the same logs; `orderly`: by SIGTERM, not by SIGKILL."""

    # -- REST ----------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Json | None = None, via: str | None = None) -> Answer:
        """Send one request and run everything until it is answered."""
        return self.watching(method, path, body, via=via)[0]

    def get(self, path: str, via: str | None = None) -> Answer:
        return self.request("GET", path, via=via)

    def seen_at_once(self, path: str, via: str) -> Answer:
        """GET what needs no actor; none handles a message meanwhile."""
        return self._loop.run_until_complete(self._send("GET", via, path))

    def put(self, path: str, body: Json | None = None) -> Answer:
        return self.request("PUT", path, body)

    def post(self, path: str, body: Json | None = None) -> Answer:
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
    ) -> tuple[Answer, list[Any]]:
        """As `request`; also return the bodies of GET `watch` after each message of an actor, `everywhere` or `via`."""
        if via is None:
            urls = list(self.workers())
            self._turn += 1
            via = urls[self._turn % len(urls)]
        seen: list[Any] = []
        watched = list(self.workers()) if everywhere else [via]
        answer = self._loop.run_until_complete(self._drive(method, via, path, body, watch, watched, seen))
        return answer, seen

    async def _drive(
        self,
        method: str,
        url: str,
        path: str,
        body: Json | None,
        watch: str,
        watched: Sequence[str],
        seen: list[Any],
    ) -> Answer:
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
            if idle > IDLE_TURNS:
                idle = 0
                due = self.scheduler.clock.next_due()
                if due is not None and due - began_s < PATIENCE_S:
                    self.scheduler.clock.advance_to(due)
                else:
                    await asyncio.sleep(0.001)  # nothing will happen but the request's own time-out
        return sending.result()

    async def _send(self, method: str, url: str, path: str, body: Json | None = None) -> Answer:
        transport = self._door(url).app
        async with httpx2.AsyncClient(transport=transport, base_url=url, timeout=None) as client:
            response = await client.request(method, path, json=body)
        headers = dict(response.headers)
        return Answer(status=response.status_code, text=response.text, headers=headers, via=url)

    async def between_workers(self, request: httpx2.Request) -> httpx2.Response:
        """Carry a request from one worker to another."""
        target = request.extensions["target"].decode()
        url = f"http://{request.url.netloc.decode()}/"
        if url not in self.workers():
            raise httpx2.ConnectError("nobody listens there", request=request)
        self.forwarded.append((url, target.partition("?")[2]))
        sent = httpx2.Request(
            request.method, url.rstrip("/") + target, headers=request.headers, content=await request.aread()
        )
        return await self._door(url).app.handle_async_request(sent)

    def _door(self, url: str) -> Door:
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
            door = self._doors[url] = Door(worker, httpx2.ASGITransport(app=app))
        return door

    # -- what tests do -------------------------------------------------------------------------------------

    def create(self, name: str, tasks: int = 3, *, sink: bool = False, **config: str) -> None:
        """Create a connector of fakes, and wait for it to run."""
        answer = self.post("/connectors", {"name": name, "config": fake_config(tasks, sink=sink, **config)})
        assert answer.status == 201, answer
        self.calm()

    def fail_task(self, name: str, task: int, trace: str = "Broken: a test broke it") -> None:
        """Make one running task fail."""
        self.engine_of(name, task).fail(TaskId(ConnectorName(name), task), trace)

    def fail_opening(self, name: str, task: int, trace: str) -> None:
        """Make every later start of a task fail, on whichever worker."""
        for engine in self.engines():
            engine.fail_opening(TaskId(ConnectorName(name), task), trace)

    def fail_connector(self, name: str) -> None:
        """Make the connector's running object say that it has failed."""
        self.outlook.contexts[name].raise_error(RuntimeError("a test broke it"))

    def feed(self, name: str, task: int, records: int) -> None:
        """Give a task more records, wherever it runs."""
        self.engine_of(name, task).feed(TaskId(ConnectorName(name), task), records)

    def topic(self, name: str) -> None:
        """Have all tasks use another topic from now on."""
        for engine in self.engines():
            engine._topic = name

    def freeze(self, actor: str, *, frozen: bool = True, url: str | None = None) -> None:
        """Have the actors of this name do nothing, or go on; of all workers, or of one."""
        for address in self.addresses(actor, url):
            self.scheduler.freeze(address, frozen=frozen)

    def change_web(self, **web: Any) -> None:
        """Have the REST API work with other settings from now on."""
        self._web = web
        self._doors.clear()

    def written(self, name: str, task: int) -> list[int]:
        """Return the numbers of the records that a task has written."""
        return self.engines()[0].written.get(TaskId(ConnectorName(name), task), [])

    def close(self) -> None:
        """Give the event loop back."""
        self._loop.close()

    # -- what tests see ------------------------------------------------------------------------------------

    def status(self, name: str, via: str | None = None) -> Json:
        """GET the status of a connector that there is."""
        answer = self.get(f"/connectors/{name}/status", via)
        assert answer.status == 200, answer
        body: Json = answer.body
        return body

    def states(self, name: str, via: str | None = None) -> list[str]:
        """Return the states of a connector and its tasks."""
        return states_of(self.status(name, via))

    def topics(self, name: str) -> list[str]:
        """GET the topics of a connector."""
        answer = self.get(f"/connectors/{name}/topics")
        assert answer.status == 200, answer
        found: list[str] = answer.body[name]["topics"]
        return found

    def config_records(self, begin: str = "", *, after: int = 0) -> list[tuple[str, Any]]:
        """Return the records of the config log whose key begins so: key, and value as JSON."""
        return list(_records(self.config_log, begin, after))

    def status_records(self, begin: str = "", *, after: int = 0) -> list[tuple[str, Any]]:
        """As `config_records`, of the status log."""
        return list(_records(self.status_log, begin, after))

    def starts(self, name: str) -> tuple[int, ...]:
        """Return how often the connector's object was started, and each of its tasks, in order."""
        opened = [task for engine in self.engines() for task in engine.opened if task.connector == name]
        tasks = 1 + max((task.task for task in opened), default=-1)
        counts = [opened.count(TaskId(ConnectorName(name), number)) for number in range(tasks)]
        return (FakeSourceConnector.calls.count((name, "start")), *counts)


def fake_config(tasks: int = 3, *, sink: bool = False, **config: str) -> dict[str, str]:
    """Return the config of a connector of fakes."""
    plugin = {"connector.class": FAKE_SINK, "topics": "fake"} if sink else {"connector.class": FAKE_SOURCE}
    return {**plugin, "tasks.max": str(tasks), **config}


def states_of(status: Json) -> list[str]:
    """Return the states in the body of a status, the connector's first."""
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def _records(log: MemoryLog, begin: str, after: int) -> Iterator[tuple[str, Any]]:
    for record in log.read(after, log.end()):
        if record.key.startswith(begin):
            yield record.key, None if record.value is None else json.loads(record.value)


def _never(_plugin: str, _config: Any) -> ConfigInfos:
    raise AssertionError("no KIP here validates over REST")
