"""Tests for transforms, bad records and dead letters over REST. Mirrors ErrorHandlingIntegrationTest."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import httpx2
import pytest
from click.testing import CliRunner

from kraal.broker.broker import Broker
from kraal.cli.main import main
from kraal.dead_letters.kafka import Kafka
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import RUNNING, create_topic

pytestmark = pytest.mark.timeout(180)

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms"


@pytest.fixture
def name(worker: WorkerProcess) -> Iterator[str]:
    """Yield the name of a connector and of its topic. The connector is deleted after the test."""
    name = f"rec-{uuid.uuid4().hex[:8]}"
    yield name
    worker.ask("DELETE", f"/connectors/{name}")


def produce(kafka: Broker, topic: str, values: Sequence[bytes | None], **options: Any) -> None:
    producer = ck.Producer({"bootstrap.servers": kafka.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=0, **options)
    assert producer.flush(30) == 0


def read_messages(kafka: Broker, topic: str, count: int) -> list[Any]:
    """Read `count` messages of partition 0, and check that there are no more."""
    consumer = ck.Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": uuid.uuid4().hex})
    partition = ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)
    consumer.assign([partition])
    records: list[Any] = []
    for _ in range(300):
        records += [m for m in consumer.consume(count, 0.1) if not m.error()]
        if len(records) >= count:
            break
    _, end = consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=20)
    consumer.close()
    assert len(records) == end == count
    return records


def read_metric(worker: WorkerProcess, name: str, attribute: str) -> float:
    text = httpx2.get(f"{worker.url}/metrics", timeout=30).text
    start = f'kafka_connect_task_error_metrics_{attribute}{{connector="{name}",task="0"}} '
    return next(float(line.removeprefix(start)) for line in text.splitlines() if line.startswith(start))


def test_source_transforms_records_and_writes_json(
    worker: WorkerProcess, kafka: Broker, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "in"
    file.write_text('one\ntwo "q"\nskip me\n')
    create_topic(kafka.bootstrap, f"{name}-out")
    worker.create(
        name,
        {
            "name": name,
            "connector.class": "FileStreamSource",
            "file": str(file),
            "topic": name,
            "value.converter": JSON_CONVERTER,
            "transforms": "hoist,insert,route",
            "transforms.hoist.type": f"{TRANSFORMS}.HoistField$Value",
            "transforms.hoist.field": "line",
            "transforms.insert.type": f"{TRANSFORMS}.InsertField$Value",
            "transforms.insert.static.field": "src",
            "transforms.insert.static.value": "file",
            "transforms.route.type": f"{TRANSFORMS}.RegexRouter",
            "transforms.route.regex": "(.*)",
            "transforms.route.replacement": "$1-out",
        },
    )
    records = read_messages(kafka, f"{name}-out", 3)
    schema = (
        '{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"line"},'
        '{"type":"string","optional":true,"field":"src"}],"optional":false},"payload":'
    )
    assert [message.value().decode() for message in records] == [
        f'{schema}{{"line":"one","src":"file"}}}}',
        f'{schema}{{"line":"two \\"q\\"","src":"file"}}}}',
        f'{schema}{{"line":"skip me","src":"file"}}}}',
    ]
    assert [message.key() for message in records] == [None] * 3
    worker.wait_until(
        "the topic was reported",
        lambda: worker.get(f"/connectors/{name}/topics").body == {name: {"topics": [f"{name}-out"]}},
    )
    assert worker.states(name) == RUNNING


def sink_config(name: str, file: Path, **settings: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "FileStreamSink",
        "file": str(file),
        "topics": name,
        "value.converter": JSON_CONVERTER,
        "value.converter.schemas.enable": "false",
        **settings,
    }


def test_bad_record_of_sink_becomes_dead_letter(
    worker: WorkerProcess, kafka: Broker, name: str, tmp_path: Path
) -> None:
    create_topic(kafka.bootstrap, name)
    values = [b'{"a":1}', b"{no json", b'{"a":{"b":[1,2.5,true,null,"x"]}}', b"null"]
    produce(kafka, name, values, key=b"k", headers=[("own", b"\x01")])
    file, dead_letter_topic = tmp_path / "out", f"{name}-dead"
    error_config = {
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
        "errors.deadletterqueue.topic.name": dead_letter_topic,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    worker.create(name, sink_config(name, file, **error_config))
    expected = "{a=1}\n{a={b=[1, 2.5, true, null, x]}}\nnull\n"
    worker.wait_until("the file was complete", lambda: file.exists() and file.read_text() == expected)
    partition = {"kafka_topic": name, "kafka_partition": 0}
    worker.wait_until(
        "offsets were committed past the bad record",
        lambda: (
            worker.get(f"/connectors/{name}/offsets").body
            == {"offsets": [{"partition": partition, "offset": {"kafka_offset": 4}}]}
        ),
    )
    assert worker.states(name) == RUNNING
    (letter,) = read_messages(kafka, dead_letter_topic, 1)
    assert (letter.key(), letter.value()) == (b"k", b"{no json")
    headers = letter.headers()
    prefix = "__connect.errors."
    assert headers[:-2] == [
        ("own", b"\x01"),
        (f"{prefix}topic", name.encode()),
        (f"{prefix}partition", b"0"),
        (f"{prefix}offset", b"1"),
        (f"{prefix}connector.name", name.encode()),
        (f"{prefix}task.id", b"0"),
        (f"{prefix}stage", b"VALUE_CONVERTER"),
        (f"{prefix}class.name", JSON_CONVERTER.encode()),
        (f"{prefix}exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ]
    check_error(headers[-2:])
    assert read_metric(worker, name, "total_records_skipped") == 1
    assert read_metric(worker, name, "deadletterqueue_produce_requests") == 1
    line = (
        f"Error encountered in task {name}-0. Executing stage 'VALUE_CONVERTER' with class '{JSON_CONVERTER}', "
        f"where consumed record is {{topic='{name}', partition=0, offset=1, timestamp="
    )
    assert line in worker.log_text()
    topics = worker.get(f"/connectors/{name}/topics").body[name]["topics"]
    assert topics == [name]
    show_and_replay(worker, kafka, name, dead_letter_topic)
    worker.wait_until(
        "the task failed again", lambda: read_metric(worker, name, "total_records_skipped") == 2
    )
    check_replayed(read_messages(kafka, dead_letter_topic, 2))
    show_and_replay_over_rest(worker, name, dead_letter_topic)
    assert [letter.value() for letter in read_messages(kafka, name, 6)[4:]] == [b"{no json", b"{no json"]


def check_error(headers: Sequence[tuple[str, bytes]]) -> None:
    """Check that the message is Java's, and that the stack trace contains the parser's reason and position."""
    (message, java_message), (stacktrace, stack) = headers
    assert (message, stacktrace) == (
        "__connect.errors.exception.message",
        "__connect.errors.exception.stacktrace",
    )
    assert java_message == b"Converting byte[] to Kafka Connect data failed due to serialization error: "
    reason = b"JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"
    assert b"\nCaused by: json.decoder." + reason in stack


def check_replayed(letters: Sequence[Any]) -> None:
    """Check that the second letter is a replay of the first."""
    first_letter, replayed_letter = letters
    assert (replayed_letter.key(), replayed_letter.value(), replayed_letter.timestamp()) == (
        first_letter.key(),
        first_letter.value(),
        first_letter.timestamp(),
    )
    assert replayed_letter.headers()[0] == ("own", b"\x01")
    headers = [dict(letter.headers()) for letter in letters]
    assert [header.pop("__connect.errors.offset") for header in headers] == [b"1", b"4"]
    assert len(replayed_letter.headers()) == len(first_letter.headers()) == 11


def show_and_replay_over_rest(worker: WorkerProcess, name: str, dead_letter_topic: str) -> None:
    """Read both letters over REST, and replay the second. `kraal dlq` has already replayed the first."""
    path = f"/connectors/{name}/dead-letters"
    body = worker.get(path).body
    assert [(letter["offset"], letter["error"]["offset"]) for letter in body["shown"]] == [(1, 4), (0, 1)]
    assert (body["letters"], body["left_to_replay"], body["shown"][0]["value"]) == (2, 1, "{no json")
    replay = worker.post(f"{path}/replay", {"limit": 1}).body
    assert replay["targets"] == [{"partition": 0, "offset": 1, "to_topic": name, "to_partition": 0}]
    assert (replay["topic"], replay["written"]) == (dead_letter_topic, {name: 1})


def show_and_replay(worker: WorkerProcess, kafka: Broker, name: str, dead_letter_topic: str) -> None:
    """List, show and replay the letter of a connector with `kraal dlq`."""

    def run_dlq(*arguments: str) -> str:
        env = {"KRAAL_URL": worker.url, "KRAAL_BOOTSTRAP_SERVERS": kafka.bootstrap}
        result = CliRunner().invoke(main, ["dlq", *arguments], env=env)
        assert result.exit_code == 0, result.output
        return result.stdout

    (row,) = [entry for entry in json.loads(run_dlq("ls", "-o", "json")) if entry["connector"] == name]
    assert row == {"connector": name, "topic": dead_letter_topic, "letters": 1, "left_to_replay": 1}
    letter = json.loads(run_dlq("show", name, "--json"))
    assert (letter["key"], letter["value"], letter["error"]["offset"]) == ("k", "{no json", 1)
    assert run_dlq("replay", name, "--dry-run").splitlines()[0] == f"{dead_letter_topic}-0@0 -> {name}-0"
    assert run_dlq("replay", name) == f"1 dead letter from {dead_letter_topic} written to {name}\n"
    first_record = ("--topic", "--allow-topic", name, "--partition", "0", "--offset", "0", "--dry-run")
    assert run_dlq("replay", dead_letter_topic, *first_record).count("->") == 1
    with Kafka({"bootstrap.servers": kafka.bootstrap}) as letters:
        assert letters.compacted_topics([name, dead_letter_topic]) == set()


def test_bad_record_fails_sink_without_tolerance(
    worker: WorkerProcess, kafka: Broker, name: str, tmp_path: Path
) -> None:
    create_topic(kafka.bootstrap, name)
    produce(kafka, name, [json.dumps({"f": "text"}).encode()])
    cast = {
        "transforms": "cast",
        "transforms.cast.type": f"{TRANSFORMS}.Cast$Value",
        "transforms.cast.spec": "f:int32",
    }
    worker.create(name, sink_config(name, tmp_path / "out", **cast))
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    (trace,) = worker.traces(name)
    lines = trace.splitlines()
    assert "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler" in lines
    assert f"\tat stage TRANSFORMATION of {TRANSFORMS}.Cast$Value, record {name}-0@0" in lines
    error, is_error_shown, _ = lines[0].partition(f": record {name}-0@0 failed at TRANSFORMATION: ")
    assert is_error_shown
    assert any(line.startswith(f"Caused by: {error}: ") for line in lines)
    assert read_metric(worker, name, "total_record_errors") == 1
