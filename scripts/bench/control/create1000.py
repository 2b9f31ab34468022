"""`create1000`: the cost of creating, listing and running 1,000 connectors on one worker, compared with 100.

The connectors are idle FileStreamSources with one task each, created over REST one after another. Then `GET
/connectors?expand=status` is sent 100 times. Finally, the CPU time of the worker and its child processes is measured
for 30 s without requests. Threads are counted in the worker's own process, and in this process together with its child
processes, such as Kraal's JVM.
"""

from __future__ import annotations

import statistics
import time

from scripts.bench.data.busy100 import Row, cases
from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target, percentile
from scripts.harness.processes import wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.workers import START_TIMEOUT_S, Worker

CONNECTORS, FIRST = 1000, 100
QUICK_CONNECTORS = 200
LIST_REQUESTS = 100
ROWS: tuple[Row, ...] = (
    ("creation time, mean of the first 100", "ms", Target()),
    ("creation time, mean of the last 100", "ms", Target()),
    ("  relative to the first 100", "x", Target(limit=1.5)),
    ("from the last response until all tasks RUNNING", "s", Target()),
    ("GET /connectors?expand=status, 99 % within", "ms", Target(limit=50)),
    ("threads of the worker's process", "", Target(limit=250)),
    ("threads of the worker and its child processes", "", Target()),
    ("CPU, all tasks idle", "cores", Target()),
    ("resident memory", "GB", Target()),
)


def run(lab: Lab) -> list[Case]:
    """Create the connectors on a new worker of each kind, one after the other."""
    rows: dict[str, list[float]] = {}
    for kind in lab.options.sides:
        worker = lab.start_warm((kind,))[kind]
        rows[kind] = _measure(lab, worker)
        worker.stop()
        say(f"{kind}: " + ", ".join(f"{figure:,.4g}" for figure in rows[kind]))
    return cases(ROWS, rows)


def _measure(lab: Lab, worker: Worker) -> list[float]:
    """Return a value for each of `ROWS`."""
    count = QUICK_CONNECTORS if lab.options.quick else CONNECTORS
    topic, rest = lab.topic("many"), worker.rest
    names = [f"many-{number}" for number in range(count)]
    files = [lab.file(1) for _ in names]
    creation_times_ms = []
    for name, file in zip(names, files, strict=True):
        start_s = time.perf_counter()
        rest.create(name, source_config(file, topic))
        creation_times_ms.append((time.perf_counter() - start_s) * 1000)
    last_response_s = time.monotonic()
    wait_until(
        f"{count} connectors ran",
        lambda: (
            (statuses := rest.statuses()).keys() >= set(names)
            and all(map(is_fully_running, statuses.values()))
        ),
        timeout_s=START_TIMEOUT_S,
        every_s=0.2,
        program=worker.process,
    )
    running_s = time.monotonic() - last_response_s
    list_times_ms = []
    for _ in range(LIST_REQUESTS):
        start_s = time.perf_counter()
        rest.statuses()
        list_times_ms.append((time.perf_counter() - start_s) * 1000)
    time.sleep(lab.options.times(10, 2))
    seconds = lab.options.times(30, 5)
    before, start_s = worker.process.usage(), time.monotonic()
    time.sleep(seconds)
    after, elapsed_s = worker.process.usage(), time.monotonic() - start_s
    first_ms, last_ms = (statistics.fmean(t) for t in (creation_times_ms[:FIRST], creation_times_ms[-FIRST:]))
    main_process, *children = worker.process.tree()
    return [
        first_ms,
        last_ms,
        last_ms / first_ms,
        running_s,
        percentile(list_times_ms, 99),
        main_process.num_threads(),
        main_process.num_threads() + sum(child.num_threads() for child in children),
        (after.cpu_s - before.cpu_s) / elapsed_s,
        after.resident_bytes / 1e9,
    ]
