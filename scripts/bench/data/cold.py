"""`cold`: time from the start of a worker until the first line of its first connector is in Kafka.

The config of a FileStreamSource is posted as soon as the REST API of the standalone worker responds. The file has one
line before, and the topic exists. A consumer that polls all the time receives the line. Each worker is first started
once without measurement, so that files are cached and Python's modules are compiled.
"""

from __future__ import annotations

import time
from typing import Final

from scripts.bench.control.start import measure_starts, start_worker
from scripts.bench.lab import Lab, source_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import write_lines
from scripts.harness.processes import ScriptFailed

_TIMEOUT_S: Final = 90.0
_POLL_S: Final = 1.0


def run(lab: Lab) -> list[Case]:
    """Start each worker several times, in turns."""
    durations_s = measure_starts(lab, dict.fromkeys(("java", "kraal"), lab.options.times(3, 1)), _measure)
    name = "start until the first line is in Kafka"
    return [Case(name, "s", durations_s["java"], durations_s["kraal"], wanted=Target(limit=3.0))]


def _measure(lab: Lab, kind: str) -> float:
    """Return the seconds from the start of a worker until a consumer has the first line of its connector."""
    file, topic = lab.directory / lab.new_name("lines"), lab.topic("cold")
    write_lines(file, 1)
    reader = lab.reader(topic)
    reader.seek(0)
    reader.next(_POLL_S)  # connects
    lab.settle()
    start_s = time.monotonic()
    worker = start_worker(lab, kind)
    worker.rest.create(lab.new_name("cold"), source_config(file, topic))
    while reader.next(_POLL_S) is None:
        if time.monotonic() > start_s + _TIMEOUT_S:
            raise ScriptFailed(f"No line has arrived from {worker.name} within {_TIMEOUT_S:.0f} s.")
    seconds = time.monotonic() - start_s
    worker.stop()
    return seconds
