"""`exactly-once`: FileStreamSource with `exactly.once.source.support=enabled`, a large file and 100 busy connectors.

Distributed workers, each a cluster of its own, with the same settings on both sides. Records/s is lines divided by the
time from the POST until the committed offsets (`GET /connectors/{c}/offsets`) are at the end of the file. The 100
connectors are those of `busy100`: a line every 100 ms for each, read by a consumer that sees committed records only.
"""

from __future__ import annotations

import time
from pathlib import Path

from scripts.bench.data import busy100
from scripts.bench.lab import SIDES, TRANSFER_S, Lab, alternated, say, source_config
from scripts.bench.report import Case, Wanted
from scripts.harness.lines import sha256
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

LOOK_S = 0.020
SETTINGS = {"exactly.once.source.support": "enabled"}
BUSY_WANTED = (*[Wanted()] * 6, Wanted(limit=0.6))


def run(lab: Lab) -> list[Case]:
    """Send a file, both sides in turns; then let lines flow through one worker after another."""
    return _sent(lab) + _busy(lab)


def _sent(lab: Lab) -> list[Case]:
    lines = lab.options.lines()
    file = lab.file(lines)
    checked, expected = set[str](), sha256(file)
    workers = {side: _started(lab, side) for side in lab.options.sides}

    def measure(kind: str, worker: Worker) -> list[float]:
        topic = lab.topic("once")
        seconds = _transfer(lab, worker, file, topic)
        if kind not in checked:
            checked.add(kind)
            if lab.reader(topic).sha256(lines) != expected:
                raise ScriptFailed(f"What {kind} wrote to {topic} is not the file, line by line in order.")
            say(f"{kind}: the topic has the file's lines in the file's order, each once")
        return [lines / seconds]

    rows = alternated(workers, lab.options.times(2, 1), measure)
    for worker in workers.values():
        worker.stop()
    java, kraal = ([row[0] for row in rows.get(side, [])] for side in SIDES)
    wanted = Wanted(ratio=3.0)
    return [Case("a file, exactly once", "records/s", java, kraal, more_is_better=True, wanted=wanted)]


def _started(lab: Lab, side: str) -> Worker:
    kind = f"{side}-distributed"
    return lab.started((kind,), SETTINGS)[kind]


def _transfer(lab: Lab, worker: Worker, file: Path, topic: str) -> float:
    """Return the seconds from the POST until the end of `file` is committed."""
    connector, size = lab.fresh("once-source"), file.stat().st_size
    lab.settle()
    begun = time.monotonic()
    worker.rest.create(connector, source_config(file, topic))
    while (found := worker.rest.offsets(connector)) != [size]:
        if time.monotonic() - begun > TRANSFER_S or not worker.process.alive:
            raise ScriptFailed(f"{worker.name} stopped at {found} of {size} bytes.")
        time.sleep(LOOK_S)
    seconds = time.monotonic() - begun
    worker.rest.delete(connector)
    return seconds


def _busy(lab: Lab) -> list[Case]:
    rows: dict[str, list[float]] = {"java": [], "kraal": []}
    for side in lab.options.sides:
        worker = _started(lab, side)
        rows[side] = busy100.flow_figures(lab, worker, lab.options.times(busy100.MEASURED_S, 10))[0]
        worker.stop()
        say(f"{side}: " + ", ".join(f"{figure:,.4g}" for figure in rows[side]))
    return [
        Case(name, unit, java=rows["java"][place:][:1], kraal=rows["kraal"][place:][:1], wanted=wanted)
        for place, ((name, unit, _), wanted) in enumerate(zip(busy100.ROWS, BUSY_WANTED, strict=True))
    ]
