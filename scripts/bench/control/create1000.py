"""`create1000`: 1,000 connectors on one worker: what each costs to create, to list and to keep, next to the first 100.

Each is an idle FileStreamSource with one task; they are created over REST one after another. Then `GET
/connectors?expand=status` is asked 100 times, and for 30 s nothing is asked: processor time of the worker and all below
it. Threads are those of the worker's own process and, for Kraal, of its JVM as well.
"""

from __future__ import annotations

import statistics
import time

from scripts.bench.data.busy100 import Row, cases
from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Wanted, percentile
from scripts.harness.processes import wait_until
from scripts.harness.rest import all_running
from scripts.harness.workers import START_TIMEOUT_S, Worker

CONNECTORS, FIRST = 1000, 100
QUICK = 200
ASKED = 100
ROWS: tuple[Row, ...] = (
    ("time for each of the first 100", "ms", Wanted()),
    ("time for each of the last 100", "ms", Wanted()),
    ("  in relation to the first", "x", Wanted(limit=1.5)),
    ("all tasks RUNNING after the last answer", "s", Wanted()),
    ("GET /connectors?expand=status, 99 % within", "ms", Wanted(limit=50)),
    ("threads of the worker's process", "", Wanted(limit=250)),
    ("threads of all its processes", "", Wanted()),
    ("processor, all tasks idle", "cores", Wanted()),
    ("resident memory", "GB", Wanted()),
)


def run(lab: Lab) -> list[Case]:
    """Create them on a new worker of each kind, one after the other."""
    rows: dict[str, list[float]] = {}
    for kind in lab.options.sides:
        worker = lab.started((kind,))[kind]
        rows[kind] = _measured(lab, worker)
        worker.stop()
        say(f"{kind}: " + ", ".join(f"{figure:,.4g}" for figure in rows[kind]))
    return cases(ROWS, rows)


def _measured(lab: Lab, worker: Worker) -> list[float]:
    """Return a figure for each of `ROWS`."""
    count = QUICK if lab.options.quick else CONNECTORS
    topic, rest = lab.topic("many"), worker.rest
    names = [f"many-{number}" for number in range(count)]
    files = [lab.file(1) for _ in names]
    times = []
    for name, file in zip(names, files, strict=True):
        begun = time.perf_counter()
        rest.create(name, source_config(file, topic))
        times.append((time.perf_counter() - begun) * 1000)
    answered = time.monotonic()
    wait_until(
        f"{count} connectors ran",
        lambda: (
            (statuses := rest.statuses()).keys() >= set(names) and all(map(all_running, statuses.values()))
        ),
        timeout_s=START_TIMEOUT_S,
        every_s=0.2,
        program=worker.process,
    )
    running_s = time.monotonic() - answered
    lists = []
    for _ in range(ASKED):
        begun = time.perf_counter()
        rest.statuses()
        lists.append((time.perf_counter() - begun) * 1000)
    time.sleep(lab.options.times(10, 2))
    seconds = lab.options.times(30, 5)
    before, begun = worker.process.usage(), time.monotonic()
    time.sleep(seconds)
    after, passed = worker.process.usage(), time.monotonic() - begun
    first, last = statistics.fmean(times[:FIRST]), statistics.fmean(times[-FIRST:])
    own, *below = worker.process.tree()
    return [
        first,
        last,
        last / first,
        running_s,
        percentile(lists, 99),
        own.num_threads(),
        own.num_threads() + sum(each.num_threads() for each in below),
        (after.cpu_s - before.cpu_s) / passed,
        after.resident_bytes / 1e9,
    ]
