"""The second part of the demo: a transform, and an unreadable record that becomes a dead letter.

A sink masks a field of JSON records. One of the records is not valid JSON, so the sink writes it to the dead letter
queue topic, with the error in its headers, and writes the others to its file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import confluent_kafka as ck

from kraal.dead_letters.api import OffsetRange
from kraal.dead_letters.kafka import Kafka
from kraal.dead_letters.records import format_text
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.show import say
from scripts.harness.topics import create_topic
from scripts.harness.workers import START_TIMEOUT_S, Worker

TOPIC, DEAD_LETTER_TOPIC, SINK = "orders", "orders-dead", "orders-sink"
RECORDS: Final = (
    '{"order": 1, "card": "4242 4242"}',
    '{"order": 2, "card": "4000',
    '{"order": 3, "card": "1881 1881"}',
)
EXPECTED_LINES: Final = ("{order=1, card=****}", "{order=3, card=****}")


def run(bootstrap: str, worker: Worker, directory: Path) -> None:
    """Run this part on a running worker and broker. Raises ScriptFailed if the output is not as expected."""
    file = directory / "orders.txt"
    create_topic(bootstrap, TOPIC)
    producer = ck.Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    for record in RECORDS:
        producer.produce(TOPIC, record.encode())
    if producer.flush(START_TIMEOUT_S):
        raise ScriptFailed(f"The topic {TOPIC} accepted no records within {START_TIMEOUT_S:.0f} s.")
    worker.rest.create(SINK, make_config(file))

    def has_written_all() -> bool:
        status = worker.rest.status(SINK)
        if status is not None:
            is_fully_running(status)  # raises for FAILED
        return file.exists() and len(file.read_text("utf-8").splitlines()) >= len(EXPECTED_LINES)

    wait_until(
        f"{SINK} had written {file}", has_written_all, timeout_s=START_TIMEOUT_S, program=worker.process
    )
    lines = tuple(file.read_text("utf-8").splitlines())
    if sorted(lines) != sorted(EXPECTED_LINES):
        raise ScriptFailed(f"{file} contains {lines} instead of {EXPECTED_LINES}.")
    with Kafka({"bootstrap.servers": bootstrap}) as kafka:
        failed_records = list(
            kafka.read(
                DEAD_LETTER_TOPIC,
                {number: OffsetRange(0, span.end) for number, span in kafka.spans(DEAD_LETTER_TOPIC).items()},
            )
        )
    if [failed_record.value for failed_record in failed_records] != [RECORDS[1].encode()]:
        raise ScriptFailed(f"{DEAD_LETTER_TOPIC} contains {failed_records} instead of {RECORDS[1]}.")
    say(f"A transform and a dead letter: {SINK} masks the field card, and one record is not valid JSON.")
    for name, texts in (("in Kafka", RECORDS), ("in the file", lines)):
        for number, text in enumerate(texts):
            say(f"{'' if number else name:12}{text}")
    say(f"`kraal dlq show {SINK}` shows the record that failed:")
    for text in format_text(failed_records[0], stack=False):
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
        "errors.deadletterqueue.topic.name": DEAD_LETTER_TOPIC,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
