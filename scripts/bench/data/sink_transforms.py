"""`sink-transforms`: JSON records from one partition through ReplaceField, Cast and MaskField.

Times are measured as in `sink`, from the POST until all lines are written. With schemas, each record is in an envelope
with the same schema, and the files must have the expected lines. Without schemas, Java prints the fields in the order
of a hash map, so only the file sizes must agree. SparkSink writes the records with schemas as JSON lines. Java has no
such sink, so this case is compared with Java's FileStreamSink.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from scripts.bench.data.sink import drain
from scripts.bench.lab import Lab, measure_alternately, say, sink_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import sha256, size
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

_TRANSFORMS = "org.apache.kafka.connect.transforms"
CHAIN = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "transforms": "slim,cast,mask",
    "transforms.slim.type": f"{_TRANSFORMS}.ReplaceField$Value",
    "transforms.slim.exclude": "note",
    "transforms.slim.renames": "name:title",
    "transforms.cast.type": f"{_TRANSFORMS}.Cast$Value",
    "transforms.cast.spec": "amount:int32,flag:string",
    "transforms.mask.type": f"{_TRANSFORMS}.MaskField$Value",
    "transforms.mask.fields": "card",
}
WITHOUT_SCHEMAS = {"value.converter.schemas.enable": "false"}
TYPES = {
    "id": "int64",
    "name": "string",
    "amount": "double",
    "flag": "boolean",
    "card": "string",
    "note": "string",
}
SCHEMA = {
    "type": "struct",
    "fields": [{"type": kind, "optional": False, "field": name} for name, kind in TYPES.items()],
    "optional": False,
}


def run(lab: Lab) -> list[Case]:
    """Fill two topics, then measure each of them on both sides."""
    count = lab.options.lines() // 3
    say("filling the topics")
    topics = {envelopes: _fill_topic(lab, count, envelopes=envelopes) for envelopes in (True, False)}
    workers = lab.start_warm(lab.options.sides)
    total, expected = _compute_expected(count)

    def with_schemas(_kind: str, worker: Worker) -> list[float]:
        return [count / _write_file(lab, worker, CHAIN, topics[True], total, expected)]

    def without_schemas(_kind: str, worker: Worker) -> list[float]:
        # Each line is 2 bytes shorter: Java prints `{a=1, b=2, …}` instead of `Struct{a=1,b=2,…}`, with 5 fields.
        return [
            count / _write_file(lab, worker, CHAIN | WITHOUT_SCHEMAS, topics[False], total - 2 * count, None)
        ]

    def to_json(kind: str, worker: Worker) -> list[float]:
        if kind == "java":
            return with_schemas(kind, worker)
        return [count / _write_directory(lab, worker, topics[True], count)]

    cases = []
    for name, measure, ratio in (
        ("with schemas", with_schemas, 2.0),
        ("without schemas", without_schemas, 1.0),
        ("with schemas, to JSON lines", to_json, 1.8),
    ):
        say(name)
        rows = measure_alternately(workers, lab.options.times(3, 1), measure)
        java, kraal = ([row[0] for row in rows.get(kind, [])] for kind in ("java", "kraal"))
        cases.append(Case(name, "records/s", java, kraal, more_is_better=True, wanted=Target(ratio=ratio)))
    return cases


def _write_file(
    lab: Lab, worker: Worker, chain: dict[str, str], topic: str, total: int, expected: str | None
) -> float:
    file = lab.directory / lab.new_name("out")
    seconds = drain(lab, worker, sink_config(file, topic) | chain, lambda: size(file), total)
    if size(file) != total or (expected is not None and sha256(file) != expected):
        raise ScriptFailed(
            f"The file of {worker.name} differs from the transformed records of the topic:"
            f" {size(file)} bytes of {total}."
        )
    file.unlink()
    return seconds


def _write_directory(lab: Lab, worker: Worker, topic: str, count: int) -> float:
    folder = lab.directory / lab.new_name("out")
    total_bytes = sum(len(json.dumps(_transform(n), separators=(",", ":"))) + 1 for n in range(count))

    def get_size() -> int:
        return sum(size(path) for path in folder.glob("*.json"))

    config = {
        "connector.class": "SparkSink", "tasks.max": "1", "topics": topic, "spark.format": "json", "path": str(folder)
    }  # fmt: skip
    seconds = drain(lab, worker, config | CHAIN, get_size, total_bytes)
    _delete_files(folder)
    return seconds


def _delete_files(folder: Path) -> None:
    for path in folder.glob("*.json"):
        path.unlink()


def _make_record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"item {number % 1009}",
        "amount": number % 1000 + 0.5,
        "flag": number % 2 == 0,
        "card": f"4111-{number:012d}",
        "note": "left at the gate, behind the old baobab",
    }


def _transform(number: int) -> dict[str, Any]:
    """Return the transformed record."""
    record = _make_record(number)
    amount, flag = int(record["amount"]), str(record["flag"]).lower()
    return {"id": number, "title": record["name"], "amount": amount, "flag": flag, "card": ""}


def _yield_lines(count: int) -> Iterator[bytes]:
    """Yield the lines of the transformed records, as Java prints structs."""
    for number in range(count):
        fields = ",".join(f"{name}={value}" for name, value in _transform(number).items())
        yield f"Struct{{{fields}}}\n".encode()


def _compute_expected(count: int) -> tuple[int, str]:
    """Return the size and the checksum of a file with all lines."""
    digest, total = hashlib.sha256(), 0
    for line in _yield_lines(count):
        digest.update(line)
        total += len(line)
    return total, digest.hexdigest()


def _fill_topic(lab: Lab, count: int, *, envelopes: bool) -> str:
    """Fill a topic with the records as JSON; return its name."""
    topic = lab.topic("json")
    prefix = f'{{"schema":{json.dumps(SCHEMA, separators=(",", ":"))},"payload":' if envelopes else ""
    # Retries of a producer that is not idempotent may duplicate or reorder records.
    producer = Producer(
        {
            "bootstrap.servers": lab.bootstrap,
            "linger.ms": 20,
            "compression.type": "lz4",
            "enable.idempotence": True,
        }
    )
    for number in range(count):
        text = prefix + json.dumps(_make_record(number), separators=(",", ":")) + "}" * envelopes
        while True:
            try:
                producer.produce(topic, text.encode(), partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise ScriptFailed(f"Failed to fill the topic {topic}.")
    return topic
