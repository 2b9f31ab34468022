"""`rest`: GETs of 104 idle connectors over 8 persistent connections, each sending a request after every response.

Both workers run, and one at a time gets requests; the idle one uses a few hundredths of a core. Each has 104
FileStreamSource connectors, one task each, on empty files. A warm-up sends requests for both paths to each worker, so
that Java's JIT compiler is done. Status requests go to all connectors in turn. This process creates the load; its
maximum is measured against a server that only sends a response of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

from scripts.bench.lab import Lab, measure_alternately, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.load import Load, empty_server, send_gets
from scripts.harness.processes import wait_until
from scripts.harness.rest import all_running
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
    faster_tail: bool


REQUEST_KINDS = (
    RequestKind(
        "GET /connectors/{c}/status",
        tuple(f"/connectors/idle-{number}/status" for number in range(CONNECTORS)),
        ratio=1.0,
        faster_tail=True,
    ),
    RequestKind(
        "GET /connectors?expand=…", ("/connectors?expand=status&expand=info",), ratio=6.0, faster_tail=False
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
        for kind_of_request in REQUEST_KINDS:
            cases += _measure(
                lab, mode, kind_of_request, workers, max(size[kind_of_request.name] for size in sizes)
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

    def all_run() -> bool:
        statuses = worker.rest.statuses()
        return len(statuses) == CONNECTORS and all(all_running(each) for each in statuses.values())

    wait_until(
        "all idle connectors were RUNNING",
        all_run,
        timeout_s=START_TIMEOUT_S,
        every_s=0.2,
        program=worker.process,
    )


def _warm_up(lab: Lab, worker: Worker) -> dict[str, int]:
    """Send each kind of GET for a while; return the size of the largest response by kind, in bytes."""
    seconds = lab.options.times(10, 2)
    say(f"warming up: {worker.name}, {2 * seconds} s of GETs")
    return {
        kind_of_request.name: _load(worker.rest.port, kind_of_request, seconds).longest
        for kind_of_request in REQUEST_KINDS
    }


def _load(port: int, kind_of_request: RequestKind, seconds: float) -> Load:
    return send_gets(port, kind_of_request.paths, connections=CONNECTIONS, seconds=seconds)


def _measure(
    lab: Lab, mode: str, kind_of_request: RequestKind, workers: dict[str, Worker], size: int
) -> list[Case]:
    seconds = lab.options.times(5, 2)

    def measure(_: str, worker: Worker) -> list[float]:
        lab.settle()
        load = _load(worker.rest.port, kind_of_request, seconds)
        return [load.rate, load.percentile_ms(50), load.percentile_ms(99)]

    rows = measure_alternately(workers, lab.options.times(3, 1), measure)
    java, kraal = (
        list(zip(*rows[kind], strict=True)) if (kind := worker_kind(side, mode)) in rows else [(), (), ()]
        for side in ("java", "kraal")
    )
    with empty_server(b"x" * size) as port:
        most = [_load(port, kind_of_request, seconds).rate]
    name = f"{mode}: {kind_of_request.name}"
    return [
        Case(
            name,
            "requests/s",
            java[0],
            kraal[0],
            more_is_better=True,
            wanted=Target(ratio=kind_of_request.ratio),
        ),
        Case("  median", "ms", java[1], kraal[1]),
        Case(
            "  99th percentile",
            "ms",
            java[2],
            kraal[2],
            wanted=Target(ratio=1.0) if kind_of_request.faster_tail else Target(),
        ),
        Case("  what the load can do at most", "requests/s", most, most, more_is_better=True),
    ]


def worker_kind(side: str, mode: str) -> str:
    """Return the kind of worker, as for `Lab.start`, of this side and mode."""
    return side if mode == "standalone" else f"{side}-{mode}"
