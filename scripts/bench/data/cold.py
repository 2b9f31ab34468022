"""`cold`: time from the start of a worker until the first line of its first connector is in Kafka.

The config of a FileStreamSource is posted as soon as the REST API of the standalone worker responds. The file has one
line before, and the topic exists. A consumer that polls all the time receives the line. Each worker is first started
once without measurement, so that files are cached and Python's modules are compiled.
"""

from __future__ import annotations

import time
from typing import Final

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import write_lines
from scripts.harness.processes import ScriptFailed, wait_until

_CHECK_INTERVAL_S: Final = 0.005
_TIMEOUT_S: Final = 90.0
_POLL_S: Final = 1.0


def run(lab: Lab) -> list[Case]:
    """Start each worker several times, in turns."""
    rounds = lab.options.times(3, 1)
    durations_s: dict[str, list[float]] = {"java": [], "kraal": []}
    for kind in lab.options.sides:
        _measure(lab, kind)
    for _ in range(rounds):
        for kind in lab.options.sides:
            durations_s[kind].append(_measure(lab, kind))
            say(f"{kind}: {durations_s[kind][-1]:.2f} s")
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
    worker = lab.start(kind)
    wait_until(
        "REST was up",
        worker.rest.is_up,
        timeout_s=_TIMEOUT_S,
        every_s=_CHECK_INTERVAL_S,
        program=worker.process,
    )
    worker.rest.create(lab.new_name("cold"), source_config(file, topic))
    while reader.next(_POLL_S) is None:
        if time.monotonic() > start_s + _TIMEOUT_S:
            raise ScriptFailed(f"No line has arrived from {worker.name} within {_TIMEOUT_S:.0f} s.")
    seconds = time.monotonic() - start_s
    worker.stop()
    return seconds
