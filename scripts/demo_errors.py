"""The demo's second part: a transform, and a record that cannot be read and becomes a dead letter.

A sink of JSON masks a field. One of the records is not valid JSON, so it goes to the dead letter topic, with the reason
in its headers, and the others are written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import confluent_kafka as ck

from kraal.dead_letters.api import Span
from kraal.dead_letters.kafka import Kafka
from kraal.dead_letters.records import as_text
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.rest import all_running
from scripts.harness.show import say
from scripts.harness.topics import create_topic
from scripts.harness.workers import START_TIMEOUT_S, Worker

TOPIC, DEAD, SINK = "orders", "orders-dead", "orders-sink"
RECORDS: Final = (
    '{"order": 1, "card": "4242 4242"}',
    '{"order": 2, "card": "4000',
    '{"order": 3, "card": "1881 1881"}',
)
WRITTEN: Final = ("{order=1, card=****}", "{order=3, card=****}")


def run(bootstrap: str, worker: Worker, directory: Path) -> None:
    """Show it, on a worker and a broker that run. Raises ScriptFailed when something else comes out."""
    file = directory / "orders.txt"
    create_topic(bootstrap, TOPIC)
    producer = ck.Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    for record in RECORDS:
        producer.produce(TOPIC, record.encode())
    if producer.flush(START_TIMEOUT_S):
        raise ScriptFailed(f"The topic {TOPIC} took no records in {START_TIMEOUT_S:.0f} s.")
    worker.rest.create(SINK, make_config(file))

    def is_through() -> bool:
        status = worker.rest.status(SINK)
        if status is not None:
            all_running(status)  # raises for FAILED
        return file.exists() and len(file.read_text("utf-8").splitlines()) >= len(WRITTEN)

    wait_until(f"{SINK} had written {file}", is_through, timeout_s=START_TIMEOUT_S, program=worker.process)
    lines = tuple(file.read_text("utf-8").splitlines())
    if sorted(lines) != sorted(WRITTEN):
        raise ScriptFailed(f"{file} has {lines} instead of {WRITTEN}.")
    with Kafka({"bootstrap.servers": bootstrap}) as kafka:
        letters = list(
            kafka.read(DEAD, {number: Span(0, span.end) for number, span in kafka.spans(DEAD).items()})
        )
    if [letter.value for letter in letters] != [RECORDS[1].encode()]:
        raise ScriptFailed(f"{DEAD} has {letters} instead of {RECORDS[1]}.")
    say(f"A transform and a dead letter: {SINK} masks the field card, and one record is not valid JSON.")
    for name, texts in (("in Kafka", RECORDS), ("in the file", lines)):
        for number, text in enumerate(texts):
            say(f"{'' if number else name:12}{text}")
    say(f"`kraal dlq show {SINK}` shows the record that failed:")
    for text in as_text(letters[0], stack=False):
        say(f"  {text}")


def make_config(file: Path) -> dict[str, str]:
    """Return the sink's config."""
    return {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(file),
        "topics": TOPIC,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        "transforms.mask.fields": "card",
        "transforms.mask.replacement": "****",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": DEAD,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
