"""`transforms`: a file through HoistField, InsertField and JsonConverter with schemas into one partition.

Times are measured as in `source`, with default settings. The topics of both sides must contain the same bytes in the
same order.
"""

from __future__ import annotations

from scripts.bench.data.source import transfer
from scripts.bench.lab import Lab, measure_alternately
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

_TRANSFORMS = "org.apache.kafka.connect.transforms"
CHAIN = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "transforms": "hoist,insert",
    "transforms.hoist.type": f"{_TRANSFORMS}.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.insert.type": f"{_TRANSFORMS}.InsertField$Value",
    "transforms.insert.static.field": "source",
    "transforms.insert.static.value": "file",
}


def run(lab: Lab) -> list[Case]:
    """Measure each side with its default settings, and compare their topics."""
    lines = lab.options.lines()
    file = lab.file(lines)
    workers = lab.start_warm(lab.options.sides)
    checksums: dict[str, str] = {}

    def measure(kind: str, worker: Worker) -> list[float]:
        topic = lab.topic("transforms")
        seconds, _ = transfer(lab, worker, file, topic, lines, CHAIN)
        if kind not in checksums:
            checksums[kind] = lab.reader(topic).sha256(lines)
        return [lines / seconds]

    rows = measure_alternately(workers, lab.options.times(2, 1), measure)
    if len(set(checksums.values())) > 1:
        raise ScriptFailed("Java's and Kraal's topics differ.")
    java, kraal = ([row[0] for row in rows.get(kind, [])] for kind in ("java", "kraal"))
    return [
        Case(
            "source with transforms", "records/s", java, kraal, more_is_better=True, wanted=Target(ratio=4.0)
        )
    ]
