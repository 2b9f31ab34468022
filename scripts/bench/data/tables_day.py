"""`tables-day`: a day of small commits to tables that are maintained; Kraal only.

A commit a minute makes 1,440 commits a day, and here they follow one another without pauses: each has 100 of 144,000
records, with changes of 1,000 keys. A DeltaSink and an IcebergSink write at the same time, with maintenance. The files
of each table and the memory of the worker are counted every few seconds. After the first third, neither may grow: the
maximum of the last third is compared with that of the second.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from scripts.bench.data.tables_cdc import sink_config, table_config
from scripts.bench.data.tables_latency import encode
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

COMMITS: Final = 1_440
COMMIT_RECORDS: Final = 100
KEYS: Final = 1_000
MAINTENANCE_MS: Final = 20_000, 2_000
RETENTION_S: Final = 60, 4
"""How long old versions and their files are kept. The second values are those of a quick run."""
_QUICK_DIVISOR: Final = 5
_SAMPLE_S: Final = 3, 1
_MIN_SAMPLES: Final = 3
_TIMEOUT_S: Final = 3_600.0
_QUEUE_RECORDS: Final = 100_000
_PROPERTIES: Final = {
    "DeltaSink": {
        "delta.deletedFileRetentionDuration": "interval {seconds} seconds",
        "delta.logRetentionDuration": "interval {seconds} seconds",
    },
    "IcebergSink": {"history.expire.max-snapshot-age-ms": "{seconds}000"},
}
_KEY: Final = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
_ROW: Final = {"type": "struct", "fields": [*_KEY["fields"], {"field": "name", "type": "string"}]}

Samples = dict[str, list[int]]


def run(lab: Lab) -> list[Case]:
    """Write all records with both sinks, and compare the thirds of the time."""
    worker = lab.start_warm(("kraal",))["kraal"]
    count = lab.options.times(COMMITS, COMMITS // _QUICK_DIVISOR) * COMMIT_RECORDS
    topic = _fill_topic(lab, count)
    folders = {sink: lab.directory / lab.new_name("day") for sink in _PROPERTIES}
    names = {sink: _create(lab, worker, sink, topic, folder) for sink, folder in folders.items()}
    start_s = time.monotonic()
    samples = _sample_until_done(lab, worker, names, folders, count)
    hours = (time.monotonic() - start_s) / 3600
    say(f"{count // COMMIT_RECORDS:,} commits of each sink took {hours * 60:.1f} minutes")
    for name in names.values():
        worker.rest.delete(name)
    return [
        *(_compare(f"{sink}: files", "files", samples[sink], limit=1.2) for sink in names),
        _compare("memory of the worker", "bytes", samples["memory"], limit=1.05),
    ]


def _fill_topic(lab: Lab, count: int) -> str:
    topic = lab.topic("day")
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(count):
        key = {"id": number * 7919 % KEYS}
        producer.produce(topic, encode(_ROW, **key, name=f"name {number}"), encode(_KEY, **key))
        if len(producer) > _QUEUE_RECORDS // 2:
            producer.poll(0.05)
    if producer.flush(60):
        raise ScriptFailed("The broker has not received all records.")
    return topic


def _create(lab: Lab, worker: Worker, sink: str, topic: str, folder: Path) -> str:
    folder.mkdir()
    name, seconds = lab.new_name("day"), lab.options.times(*RETENTION_S)
    config = {
        **sink_config(sink, topic, table_config(sink, folder)),
        "write.mode": "upsert",
        "commit.interval.ms": "0",
        "commit.records": str(COMMIT_RECORDS),
        "maintenance.interval.ms": str(lab.options.times(*MAINTENANCE_MS)),
        **{
            f"table.properties.{key}": value.format(seconds=seconds)
            for key, value in _PROPERTIES[sink].items()
        },
    }
    worker.rest.create(name, config)
    return name


def _sample_until_done(
    lab: Lab, worker: Worker, names: Mapping[str, str], folders: Mapping[str, Path], count: int
) -> Samples:
    """Return the number of files of each table until its sink has finished, and the memory of the worker in bytes."""
    samples: Samples = {"memory": [], **{sink: [] for sink in names}}
    deadline_s = time.monotonic() + _TIMEOUT_S
    running = set(names)
    while running:
        if time.monotonic() > deadline_s:
            raise ScriptFailed(f"The sinks have not written all records within {_TIMEOUT_S:.0f} s.")
        time.sleep(lab.options.times(*_SAMPLE_S))
        samples["memory"].append(worker.process.usage().resident_bytes)
        for sink in sorted(running):
            samples[sink].append(sum(1 for _ in folders[sink].rglob("*.*")))
        running = {sink for sink in running if worker.rest.committed_offsets(names[sink]) < count}
    return samples


def _compare(name: str, unit: str, values: Sequence[int], limit: float) -> Case:
    """Return the row with the growth from the second third of the time to the last one."""
    third = len(values) // 3
    if third < _MIN_SAMPLES:
        raise ScriptFailed(f"{name}: {len(values)} samples are too few.")
    before, after = max(values[third : 2 * third]), max(values[2 * third :])
    say(f"{name}: at most {before:,} {unit} in the second third, {after:,} in the last one")
    return Case(f"{name}, last third / second third", "", [], [after / before], wanted=Target(limit=limit))
