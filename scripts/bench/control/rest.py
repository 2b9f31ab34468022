"""`rest`: GETs of 104 idle connectors over 8 kept connections, each asking again as soon as it was answered.

Both workers are up at once, and only one is asked at a time: the idle one costs a few hundredths of a core. Each has
104 FileStreamSource connectors, one task each, on empty files. Before anything is measured, each is asked for both
paths for a while, so that Java's compiler is done. Statuses are asked of all connectors in turn. The load is made by
this process; what it can do at most is measured with a server that only sends an answer of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

from scripts.bench.lab import Lab, alternated, say, source_config
from scripts.bench.report import Case, Wanted
from scripts.harness.load import Load, empty_server, gets
from scripts.harness.processes import wait_until
from scripts.harness.rest import all_running
from scripts.harness.workers import START_TIMEOUT_S, Worker

CONNECTORS = 104
CONNECTIONS = 8
MODES = ("standalone", "distributed")


@dataclass(frozen=True, slots=True)
class Asked:
    """One kind of request, and what is wanted of it."""

    name: str
    paths: tuple[str, ...]
    ratio: float
    faster_tail: bool


ASKED = (
    Asked(
        "GET /connectors/{c}/status",
        tuple(f"/connectors/idle-{number}/status" for number in range(CONNECTORS)),
        ratio=1.0,
        faster_tail=True,
    ),
    Asked(
        "GET /connectors?expand=…", ("/connectors?expand=status&expand=info",), ratio=6.0, faster_tail=False
    ),
)


def run(lab: Lab) -> list[Case]:
    """Ask workers of both modes."""
    cases = []
    for mode in MODES:
        kinds = tuple(lab_name(side, mode) for side in lab.options.sides)
        workers = lab.started(kinds)
        for worker in workers.values():
            create_idle(lab, worker)
        sizes = [_warmed(lab, worker) for worker in workers.values()]
        for asked in ASKED:
            cases += _measured(lab, mode, asked, workers, max(size[asked.name] for size in sizes))
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


def _warmed(lab: Lab, worker: Worker) -> dict[str, int]:
    """Ask for everything for a while; return how long the answers are."""
    seconds = lab.options.times(10, 2)
    say(f"warming up: {worker.name}, {2 * seconds} s of GETs")
    return {asked.name: _load(worker.rest.port, asked, seconds).longest for asked in ASKED}


def _load(port: int, asked: Asked, seconds: float) -> Load:
    return gets(port, asked.paths, connections=CONNECTIONS, seconds=seconds)


def _measured(lab: Lab, mode: str, asked: Asked, workers: dict[str, Worker], size: int) -> list[Case]:
    seconds = lab.options.times(5, 2)

    def measure(_: str, worker: Worker) -> list[float]:
        lab.settle()
        load = _load(worker.rest.port, asked, seconds)
        return [load.rate, load.percentile_ms(50), load.percentile_ms(99)]

    rows = alternated(workers, lab.options.times(3, 1), measure)
    java, kraal = (
        list(zip(*rows[kind], strict=True)) if (kind := lab_name(side, mode)) in rows else [(), (), ()]
        for side in ("java", "kraal")
    )
    with empty_server(b"x" * size) as port:
        most = [_load(port, asked, seconds).rate]
    name = f"{mode}: {asked.name}"
    return [
        Case(name, "requests/s", java[0], kraal[0], more_is_better=True, wanted=Wanted(ratio=asked.ratio)),
        Case("  median", "ms", java[1], kraal[1]),
        Case(
            "  99th percentile",
            "ms",
            java[2],
            kraal[2],
            wanted=Wanted(ratio=1.0) if asked.faster_tail else Wanted(),
        ),
        Case("  what the load can do at most", "requests/s", most, most, more_is_better=True),
    ]


def lab_name(side: str, mode: str) -> str:
    """Return what `Lab.start` calls a worker of this side and mode."""
    return side if mode == "standalone" else f"{side}-{mode}"
