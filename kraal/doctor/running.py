"""Checks of running Kraal and Java workers over REST. All requests are GETs.

Only requests to the worker at the given URL have the user's credentials; requests to other workers have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from kraal.client.rest import RequestRejected, Rest
from kraal.client.target import InvalidTarget, Target, parse_target
from kraal.core.errors import KraalError
from kraal.doctor import connectors
from kraal.doctor.clock import check_worker_time, now_s
from kraal.doctor.finding import Finding, Level, passed

_REACH_FIX = (
    "Check the URL, the firewall and the worker's log; run `kraal doctor worker.properties` on its machine."
)
_EXPAND: Final = (("expand", "status"), ("expand", "info"), ("expand", "progress"), ("traces", "causes"))
_OTHER_WORKER_TIMEOUT_S: Final = 3.0
_MAX_OTHER_WORKERS: Final = 64
_MAX_CONCURRENT: Final = 16


@dataclass(frozen=True, slots=True)
class Worker:
    """Response of a worker to `GET /`."""

    url: str
    version: str
    """Connect version and, for a Kraal worker, also Kraal's version."""
    cluster_id: str | None
    clock: Finding


def check_running(target: Target) -> Iterator[Finding]:
    """Check a worker, its connectors and tasks, and the workers that run them.

    Blocks for at most a few times the target's timeout.
    """
    with Rest(target) as rest:
        try:
            worker = request_worker(rest)
        except KraalError as exc:
            yield Finding("worker.reachable", Level.ERROR, str(exc), _REACH_FIX)
            return
        yield describe_worker(worker)
        yield from check_health(rest)
        yield worker.clock
        try:
            expanded: Mapping[str, Any] = rest.get("connectors", query=_EXPAND)
            plugins = rest.get_list("connector-plugins", query=[("connectorsOnly", "false")])
        except KraalError as exc:
            yield Finding("connectors.failed", Level.SKIPPED, f"The connectors cannot be looked up: {exc}")
            return
    yield from connectors.check_failed(expanded)
    yield from connectors.check_stalled(expanded)
    yield from connectors.check_plugins(target.url, expanded, plugins)
    yield from check_others(worker, target, connectors.list_workers(expanded))


def request_worker(rest: Rest) -> Worker:
    """Request a worker's version and time. Raises RequestRejected, NoResponse, Unreachable."""
    sent_s = now_s()
    body, headers = rest.get_with_headers()
    clock = check_worker_time(rest.target.url, headers.get("Date"), sent_s, now_s())
    kraal_version = f", Kraal {body.get('commit')}" if headers.get("Server", "").startswith("kraal/") else ""
    return Worker(
        rest.target.url, f"Connect {body.get('version')}{kraal_version}", body.get("kafka_cluster_id"), clock
    )


def describe_worker(worker: Worker) -> Finding:
    """Check whether a worker has reached Kafka."""
    if worker.cluster_id is None:
        what = f"{worker.url} responds ({worker.version}), but has not reached Kafka yet"
        fix = "See the worker's log, and run `kraal doctor worker.properties` on its machine."
        return Finding("worker.reachable", Level.WARNING, what, fix)
    return passed(
        "worker.reachable", f"{worker.url} responds ({worker.version}), on Kafka cluster {worker.cluster_id}"
    )


def check_health(rest: Rest) -> Iterator[Finding]:
    """Check the worker's health (KIP-1017) and report failed components."""
    try:
        response = rest.get("health")
    except RequestRejected as exc:
        if exc.is_unknown_endpoint:
            yield Finding("worker.health", Level.SKIPPED, "The worker does not support /health")
            return
        fix = "See the worker's log; restart the worker if this lasts."
        yield Finding("worker.health", Level.ERROR, f"The worker is not healthy: {exc.text}", fix)
        return
    except KraalError as exc:
        yield Finding("worker.health", Level.ERROR, str(exc), "See the worker's log.")
        return
    yield passed("worker.health", str(response.get("message")))
    for part in response.get("down", ()):
        what = f"The worker's {part['part']} is down: {part['why']}"
        fix = "Fix the cause; the worker restarts the component automatically. See the worker's log."
        yield Finding("worker.parts", Level.WARNING, what, fix)


def check_others(worker: Worker, target: Target, ids: Sequence[str]) -> Iterator[Finding]:
    """Check the other workers that run connectors and tasks, at their advertised addresses."""
    scheme = target.url.partition("://")[0]
    urls = [url for worker_id in ids if (url := f"{scheme}://{worker_id}") != target.url]
    with ThreadPoolExecutor(_MAX_CONCURRENT, thread_name_prefix="doctor worker") as pool:
        responses = [*pool.map(lambda url: _request_other_worker(target, url), urls[:_MAX_OTHER_WORKERS])]
    responding_workers = [response for response in responses if isinstance(response, Worker)]
    for other in responding_workers:
        if other.clock.level is not Level.OK:
            yield other.clock
    for response in responses:
        if isinstance(response, Finding):
            yield response
    if responding_workers or urls:
        yield check_versions([worker, *responding_workers], unknown=len(urls) - len(responding_workers))


def _request_other_worker(target: Target, url: str) -> Worker | Finding:
    """Request the version of another worker, without credentials."""
    fix = "Check its rest.advertised.* and the firewall: workers forward requests to this address."
    try:
        cacert = target.cacert if url.startswith("https:") else None
        other_target = replace(
            parse_target(url, cacert=cacert),
            timeout_s=min(_OTHER_WORKER_TIMEOUT_S, target.timeout_s),
            retry_s=0.0,
        )
        with Rest(other_target) as rest:
            return request_worker(rest)
    except RequestRejected as exc:
        return Finding(
            "workers.reachable", Level.SKIPPED, f"{url} rejected a request without credentials ({exc.status})"
        )
    except InvalidTarget:
        return Finding("workers.reachable", Level.HINT, f"The worker id {url} is not an address", fix)
    except KraalError as exc:
        return Finding("workers.reachable", Level.HINT, f"A worker cannot be reached from here: {exc}", fix)


def check_versions(workers: Sequence[Worker], *, unknown: int) -> Finding:
    """Check that all workers have the same version; `unknown`: number of workers that did not report a version."""
    urls_by_version: dict[str, list[str]] = {}
    for worker in workers:
        urls_by_version.setdefault(worker.version, []).append(worker.url)
    suffix = f"; {unknown} more did not report a version" if unknown else ""
    if len(urls_by_version) == 1:
        return passed("workers.versions", f"{next(iter(urls_by_version))} on {len(workers)} workers{suffix}")
    listing = "; ".join(f"{version}: {', '.join(urls)}" for version, urls in urls_by_version.items())
    fix = "Finish the upgrade or the migration, so that connectors behave alike on every worker."
    return Finding(
        "workers.versions", Level.WARNING, f"Workers have different versions: {listing}{suffix}", fix
    )
