"""`rest`: GETs of 104 idle connectors over 8 persistent connections, each with one request in flight.

The Java and the Kraal worker run side by side, but only one receives requests at a time; the idle worker uses a few
hundredths of a core. Each worker has 104 FileStreamSource connectors with one task each, which read an empty file. The
warm-up sends both kinds of requests to each worker, so that JIT compilation is complete. Status requests are sent for
all connectors in turn. The load generator runs in this process. Its maximum request rate is measured against a stub
server that returns responses of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

from scripts.bench.lab import Lab, measure_alternately, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.load import LoadResult, send_gets, stub_server
from scripts.harness.processes import wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.workers import START_TIMEOUT_S, Worker

CONNECTORS = 104
CONNECTIONS = 8
MODES = ("standalone", "distributed")


@dataclass(frozen=True, slots=True)
class RequestKind:
    """One kind of request, and its targets."""

    name: str
    paths: tuple[str, ...]
    ratio: float
    has_tail_target: bool


REQUEST_KINDS = (
    RequestKind(
        "GET /connectors/{c}/status",
        tuple(f"/connectors/idle-{number}/status" for number in range(CONNECTORS)),
        ratio=1.0,
        has_tail_target=True,
    ),
    RequestKind(
        "GET /connectors?expand=…",
        ("/connectors?expand=status&expand=info",),
        ratio=6.0,
        has_tail_target=False,
    ),
)


def run(lab: Lab) -> list[Case]:
    """Measure workers in both modes."""
    cases = []
    for mode in MODES:
        kinds = tuple(worker_kind(side, mode) for side in lab.options.sides)
        workers = lab.start_warm(kinds)
        for worker in workers.values():
            create_idle(lab, worker)
        sizes = [_warm_up(lab, worker) for worker in workers.values()]
        for request_kind in REQUEST_KINDS:
            cases += _measure(
                lab, mode, request_kind, workers, max(size[request_kind.name] for size in sizes)
            )
        for worker in workers.values():
            worker.stop()
    return cases


def create_idle(lab: Lab, worker: Worker) -> None:
    """Create the idle connectors and wait until all of them run."""
    topic = lab.topic("idle")
    empty = lab.directory / "empty"
    empty.touch()
    for number in range(CONNECTORS):
        worker.rest.create(f"idle-{number}", source_config(empty, topic))

    def are_all_running() -> bool:
        statuses = worker.rest.statuses()
        return len(statuses) == CONNECTORS and all(is_fully_running(status) for status in statuses.values())

    wait_until(
        "all idle connectors were RUNNING",
        are_all_running,
        timeout_s=START_TIMEOUT_S,
        every_s=0.2,
        program=worker.process,
    )


def _warm_up(lab: Lab, worker: Worker) -> dict[str, int]:
    """Send each kind of GET for a while; return the size of the largest response by kind, in bytes."""
    seconds = lab.options.times(10, 2)
    say(f"warming up: {worker.name}, {2 * seconds} s of GETs")
    return {
        request_kind.name: _load(worker.rest.port, request_kind, seconds).max_response_bytes
        for request_kind in REQUEST_KINDS
    }


def _load(port: int, request_kind: RequestKind, seconds: float) -> LoadResult:
    return send_gets(port, request_kind.paths, connections=CONNECTIONS, seconds=seconds)


def _measure(
    lab: Lab, mode: str, request_kind: RequestKind, workers: dict[str, Worker], size: int
) -> list[Case]:
    seconds = lab.options.times(5, 2)

    def measure(_: str, worker: Worker) -> list[float]:
        lab.settle()
        load = _load(worker.rest.port, request_kind, seconds)
        return [load.rate, load.percentile_ms(50), load.percentile_ms(99)]

    rows = measure_alternately(workers, lab.options.times(3, 1), measure)
    java, kraal = (
        list(zip(*rows[kind], strict=True)) if (kind := worker_kind(side, mode)) in rows else [(), (), ()]
        for side in ("java", "kraal")
    )
    with stub_server(b"x" * size) as port:
        limit = [_load(port, request_kind, seconds).rate]
    name = f"{mode}: {request_kind.name}"
    return [
        Case(
            name,
            "requests/s",
            java[0],
            kraal[0],
            more_is_better=True,
            wanted=Target(ratio=request_kind.ratio),
        ),
        Case("  median", "ms", java[1], kraal[1]),
        Case(
            "  99th percentile",
            "ms",
            java[2],
            kraal[2],
            wanted=Target(ratio=1.0) if request_kind.has_tail_target else Target(),
        ),
        Case("  load generator limit (empty server)", "requests/s", limit, limit, more_is_better=True),
    ]


def worker_kind(side: str, mode: str) -> str:
    """Return the kind of worker, as for `Lab.start`, of this side and mode."""
    return side if mode == "standalone" else f"{side}-{mode}"
