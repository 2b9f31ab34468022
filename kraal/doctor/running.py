"""Checks of running workers over REST, those of Kraal and of Java. Only GETs.

The worker that was named gets the user's credentials; the others, which it names, are asked without any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from kraal.client.rest import Refused, Rest
from kraal.client.target import BadTarget, Target, parse_target
from kraal.core.errors import KraalError
from kraal.doctor import connectors
from kraal.doctor.clock import now_s, of_worker
from kraal.doctor.finding import Finding, Level, ok

_REACH = "Check the URL, the firewall, and the worker's log; `kraal doctor worker.properties` on its machine says more."
_EXPAND: Final = (("expand", "status"), ("expand", "info"), ("expand", "progress"), ("traces", "causes"))
_OTHERS_TIMEOUT_S: Final = 3.0
_MOST_OTHERS: Final = 64
_SIDE_BY_SIDE: Final = 16


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker tells of itself at `GET /`."""

    url: str
    version: str
    """Its version of Connect, and Kraal's own if it is a Kraal worker."""
    cluster_id: str | None
    clock: Finding


def check_running(target: Target) -> Iterator[Finding]:
    """Check a worker, its connectors and tasks, and the workers that run them.

    Blocks for a few timeouts of the target at most.
    """
    with Rest(target) as rest:
        try:
            worker = ask_worker(rest)
        except KraalError as exc:
            yield Finding("worker.reachable", Level.ERROR, str(exc), _REACH)
            return
        yield reachable(worker)
        yield health(rest)
        yield worker.clock
        try:
            found: Mapping[str, Any] = rest.get("connectors", query=_EXPAND)
            listed = rest.get_list("connector-plugins", query=[("connectorsOnly", "false")])
        except KraalError as exc:
            yield Finding("connectors.failed", Level.SKIPPED, f"The connectors cannot be looked up: {exc}")
            return
    yield from connectors.failed(found)
    yield from connectors.stalled(found)
    yield from connectors.plugins(target.url, found, listed)
    yield from others(worker, target, connectors.workers(found))


def ask_worker(rest: Rest) -> Worker:
    """Ask a worker for its version and its time. Raises Refused, NoAnswer, Unreachable."""
    asked_s = now_s()
    body, headers = rest.get_with_headers()
    clock = of_worker(rest.target.url, headers.get("Date"), asked_s, now_s())
    own = f", Kraal {body.get('commit')}" if headers.get("Server", "").startswith("kraal/") else ""
    return Worker(rest.target.url, f"Connect {body.get('version')}{own}", body.get("kafka_cluster_id"), clock)


def reachable(worker: Worker) -> Finding:
    """Judge what the worker tells of itself."""
    if worker.cluster_id is None:
        what = f"{worker.url} answers ({worker.version}), but has not reached Kafka yet"
        fix = "Look into the worker's log, and run `kraal doctor worker.properties` on its machine."
        return Finding("worker.reachable", Level.WARNING, what, fix)
    return ok(
        "worker.reachable", f"{worker.url} answers ({worker.version}), on Kafka cluster {worker.cluster_id}"
    )


def health(rest: Rest) -> Finding:
    """Ask the worker whether it is healthy (KIP-1017)."""
    try:
        return ok("worker.health", str(rest.get("health").get("message")))
    except Refused as exc:
        if exc.no_such_path:
            return Finding("worker.health", Level.SKIPPED, "The worker is older than /health")
        fix = "Look into the worker's log; restart the worker if this lasts."
        return Finding("worker.health", Level.ERROR, f"The worker is not healthy: {exc.text}", fix)
    except KraalError as exc:
        return Finding("worker.health", Level.ERROR, str(exc), "Look into the worker's log.")


def others(worker: Worker, target: Target, ids: Sequence[str]) -> Iterator[Finding]:
    """Check the workers that run connectors and tasks, by the addresses that they advertise."""
    scheme = target.url.partition("://")[0]
    urls = [url for each in ids if (url := f"{scheme}://{each}") != target.url]
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="doctor worker") as pool:
        answers = [*pool.map(lambda url: _ask_other(target, url), urls[:_MOST_OTHERS])]
    told = [each for each in answers if isinstance(each, Worker)]
    for each in told:
        if each.clock.level is not Level.OK:
            yield each.clock
    for answer in answers:
        if isinstance(answer, Finding):
            yield answer
    if told or urls:
        yield versions([worker, *told], unknown=len(urls) - len(told))


def _ask_other(target: Target, url: str) -> Worker | Finding:
    """Ask another worker without credentials."""
    fix = "Check its rest.advertised.* and the firewall: workers forward requests to this address."
    try:
        cacert = target.cacert if url.startswith("https:") else None
        other = replace(
            parse_target(url, cacert=cacert),
            timeout_s=min(_OTHERS_TIMEOUT_S, target.timeout_s),
            retry_s=0.0,
        )
        with Rest(other) as rest:
            return ask_worker(rest)
    except Refused as exc:
        return Finding(
            "workers.reachable", Level.SKIPPED, f"{url} tells nothing without credentials ({exc.status})"
        )
    except BadTarget:
        return Finding("workers.reachable", Level.HINT, f"The worker id {url} is not an address", fix)
    except KraalError as exc:
        return Finding("workers.reachable", Level.HINT, f"A worker does not answer from here: {exc}", fix)


def versions(workers: Sequence[Worker], *, unknown: int) -> Finding:
    """Judge whether all workers have the same version; of `unknown` workers it is not known."""
    by_version: dict[str, list[str]] = {}
    for each in workers:
        by_version.setdefault(each.version, []).append(each.url)
    more = f"; {unknown} more did not tell theirs" if unknown else ""
    if len(by_version) == 1:
        return ok("workers.versions", f"{next(iter(by_version))} on {len(workers)} workers{more}")
    shown = "; ".join(f"{version}: {', '.join(urls)}" for version, urls in by_version.items())
    fix = "Finish the upgrade or the migration, so that connectors behave alike on every worker."
    return Finding("workers.versions", Level.WARNING, f"Workers have different versions: {shown}{more}", fix)
