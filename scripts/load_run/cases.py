"""The load cases and their results."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from kraal.protocol.signature import signature_headers
from kraal.testing._simulation.plugins import FAKE_SOURCE
from scripts.load_run.clients import Responses, ask_all, interleave, request
from scripts.load_run.worker import LoadedWorker, Setup, loaded_worker, make_config
from web.middleware.admission import Limits

_TIMEOUT_S = 600.0
_MAILBOX_DEPTH = re.compile(
    r'^kraal_mailbox_messages\{actor="(?P<actor>[^"]+)"\} (?P<depth>\d+)$', re.MULTILINE
)
_VALIDATE = f"/connector-plugins/{FAKE_SOURCE}/config/validate"


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step."""

    description: str
    responses: Responses
    peak_mb: float
    """Peak memory of the worker's process so far."""
    max_depths: Mapping[str, int]
    """Maximum observed mailbox depth of each actor."""
    health_s: float
    """Maximum response time of `GET /health` during and after the step."""

    def line(self) -> str:
        """Format the result as one line."""
        depths = ", ".join(f"{actor} {depth}" for actor, depth in sorted(self.max_depths.items()) if depth)
        return (
            f"{self.description}: {self.responses.line()}; peak {self.peak_mb:.0f} MB; mailboxes: {depths or 'empty'}; "
            f"health within {self.health_s:.2f} s"
        )


def flood(
    worker: LoadedWorker, description: str, messages: Sequence[bytes], max_in_flight: int | None = None
) -> StepResult:
    """Send all requests, with at most `max_in_flight` at a time; sample health and mailboxes meanwhile."""
    return asyncio.run(_flood(worker, description, messages, max_in_flight or len(messages)))


async def _flood(
    worker: LoadedWorker, description: str, messages: Sequence[bytes], max_in_flight: int
) -> StepResult:
    max_depths: dict[str, int] = {}
    health_s = 0.0
    sending = asyncio.create_task(ask_all(worker.port, messages, max_in_flight=max_in_flight))
    while True:
        is_done = sending.done()
        start_s = time.monotonic()
        await asyncio.to_thread(get, worker.port, "/health")
        health_s = max(health_s, time.monotonic() - start_s)
        for sample in _MAILBOX_DEPTH.finditer(await asyncio.to_thread(get, worker.port, "/metrics")):
            max_depths[sample["actor"]] = max(max_depths.get(sample["actor"], 0), int(sample["depth"]))
        if is_done:
            return StepResult(description, await sending, worker.peak_mb(), max_depths, health_s)
        await asyncio.wait([sending], timeout=0.2)


def get(port: int, path: str) -> str:
    """Send a GET; return the body of the response, regardless of the status."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=_TIMEOUT_S) as response:
            return str(response.read(), "utf-8")
    except urllib.error.HTTPError as error:
        return str(error.read(), "utf-8")


def wait_until(expected: str, done: Callable[[], bool]) -> float:
    """Wait until `done()`; return the seconds that passed. Raises TimeoutError."""
    start_s = time.monotonic()
    while not done():
        if time.monotonic() - start_s > _TIMEOUT_S:
            raise TimeoutError(f"timed out after {_TIMEOUT_S:g} s; expected: {expected}")
        time.sleep(0.05)
    return time.monotonic() - start_s


def put(name: str, tasks: int = 1, **settings: str) -> bytes:
    """Return a request that creates or reconfigures a connector."""
    body = json.dumps(make_config(name, tasks, **settings)).encode()
    return request("PUT", f"/connectors/{name}/config", body)


def requests(size: int = 5_000, limits: Limits | None = None) -> list[StepResult]:
    """Send many concurrent requests: first of all kinds, then only PUTs of configs, then only validations."""
    with loaded_worker(Setup(limits=limits or Limits())) as worker:
        wait_until("the worker is healthy", lambda: "healthy" in get(worker.port, "/health"))
        names = [f"c-{number}" for number in range(20)]
        puts = [put(name, number=str(at)) for at, name in enumerate(names)]
        check = [request("PUT", _VALIDATE, json.dumps(make_config("checked")).encode())]
        kinds = [
            puts,
            [request("GET", f"/connectors/{name}/status") for name in names],
            [request("GET", "/health")],
            [request("PUT", f"/connectors/{name}/pause") for name in names],
            check,
            [request("GET", "/metrics")],
        ]
        return [
            flood(worker, "20 created", puts, 8),
            flood(worker, f"{size} of all kinds", interleave(size, *kinds)),
            flood(worker, f"{size} configs", interleave(size, puts)),
            flood(worker, f"{size} validations", interleave(size, check)),
        ]


def bodies(size: int = 1_000, limits: Limits | None = None) -> list[StepResult]:
    """Send many large bodies concurrently: validations, requests between workers, and configs of 5 MB."""
    with loaded_worker(Setup(distributed=True, limits=limits or Limits())) as worker:
        wait_until("the worker is healthy", lambda: "healthy" in get(worker.port, "/health"))
        large_config = json.dumps(make_config("large", pad="x" * 900_000)).encode()
        body = b"[" + b" " * 8_000_000 + b"]"
        # The signature is invalid; without a signature, the body would not be read.
        worker_request = request("POST", "/connectors/large/tasks", body, signature_headers(b"guessed", body))
        return [
            flood(worker, f"{size} validations of 900 kB", [request("PUT", _VALIDATE, large_config)] * size),
            flood(worker, f"{size // 5} inter-worker requests of 8 MB", [worker_request] * (size // 5)),
            flood(
                worker, f"{size // 20} configs of 5 MB", [put("large", pad="x" * 5_000_000)] * (size // 20)
            ),
        ]


def tasks(size: int = 1_000) -> list[StepResult]:
    """Create, restart and delete a connector with `size` tasks."""
    with loaded_worker() as worker:
        creation = flood(worker, f"a connector with {size} tasks", [put("wide", size)])
        took_s = wait_until(
            "all tasks run", lambda: get(worker.port, "/connectors/wide/status").count("RUNNING") == size + 1
        )
        restart = request("POST", "/connectors/wide/restart?includeTasks=true&onlyFailed=false")
        return [
            creation,
            flood(worker, f"all of them restarted (they ran {took_s:.1f} s after the creation)", [restart]),
            flood(worker, "deleted", [request("DELETE", "/connectors/wide")]),
        ]


def replay(size: int = 200_000) -> list[StepResult]:
    """Start a worker with an empty config topic, and one with a config topic of `size` records."""
    results = []
    for records in (0, size):
        with loaded_worker(Setup(records=records)) as worker:
            took_s = wait_until(
                "the worker has read its config topic", lambda: "healthy" in get(worker.port, "/health")
            )
            count = len(json.loads(get(worker.port, "/connectors")))
            description = f"{records} records, {count} connectors, healthy after {took_s:.1f} s"
            results.append(flood(worker, description, [request("GET", "/connectors?expand=status")]))
    return results


def connectors(size: int = 2_000) -> list[StepResult]:
    """Create `size` connectors with one task each on one worker."""
    with loaded_worker() as worker:
        creation = flood(worker, f"{size} connectors", [put(f"many-{number}") for number in range(size)], 64)
        took_s = wait_until(
            "all tasks run",
            lambda: get(worker.port, "/connectors?expand=status").count("RUNNING") == 2 * size,
        )
        gets = [request("GET", "/connectors?expand=status&expand=info")]
        return [
            creation,
            flood(
                worker,
                f"all of them listed (all tasks ran {took_s:.1f} s after the last response)",
                gets * 100,
            ),
        ]


CASES: Mapping[str, Callable[[], list[StepResult]]] = {
    "requests": requests,
    "bodies": bodies,
    "tasks": tasks,
    "replay": replay,
    "connectors": connectors,
}


def faults(result: StepResult) -> list[str]:
    """Return the violations: missing responses, status 500, and status 503 without `Retry-After`."""
    invalid = [f"{result.description}: {text}" for text in result.responses.violations[:3]]
    failure_count = result.responses.statuses[HTTPStatus.INTERNAL_SERVER_ERROR]
    return [
        *invalid,
        *([f"{result.description}: {failure_count} responses with status 500"] if failure_count else []),
    ]
