"""Tests for `kraal prove` on a real worker: proved deliveries, and differences that are located."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka as ck
import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import Pipe, create_topic

ROOT = Path(__file__).parents[3]
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
LINES = 5_000
Prove = Callable[..., tuple[int, str]]


@pytest.fixture
def prove(worker: WorkerProcess) -> Prove:
    """Run `kraal prove`; return the exit code and the output."""

    def run(*arguments: str) -> tuple[int, str]:
        code = "from kraal.cli.main import main; main(prog_name='kraal')"
        result = subprocess.run(
            [sys.executable, "-c", code, "prove", *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT), "KRAAL_URL": worker.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        errors = [line for line in result.stderr.splitlines() if not line.startswith("Proving ")]
        return result.returncode, result.stdout + "\n".join(errors)

    return run


def wait_for_commit(worker: WorkerProcess, connector: str, count: int) -> None:
    """Wait until a sink has committed this number of offsets."""

    def committed() -> int:
        offsets = worker.get(f"/connectors/{connector}/offsets").body["offsets"]
        return sum(entry["offset"]["kafka_offset"] for entry in offsets)

    worker.wait_until(f"{count} offsets of {connector} were committed", lambda: committed() == count)


def test_file_sink_is_proved_until_a_line_is_removed_or_repeated(pipe: Pipe, prove: Prove) -> None:
    pipe.write(LINES)
    pipe.worker.wait_until("all lines were transferred", pipe.is_through_exactly)
    wait_for_commit(pipe.worker, pipe.sink, LINES)
    code, output = prove(pipe.sink)
    assert (code, output.partition(" (")[0]) == (0, f"proved up to {pipe.topic}-0@{LINES:,}")
    assert output.endswith("UTC): 0 missing, 0 repeated, 0 unexpected\n")
    code, output = prove(pipe.sink, "--sample", "10")
    assert (code, output.partition(" (")[0]) == (0, "proved in a sample of 10 %")

    lines = pipe.sink_file.read_bytes().splitlines(keepends=True)
    pipe.sink_file.write_bytes(b"".join([*lines[:1234], *lines[1236:], lines[77]]))
    code, output = prove(pipe.sink)
    assert code == 1
    assert output.splitlines()[1:] == [
        f"missing: {pipe.topic}-0@1,234 to @1,235",
        f"repeated: {pipe.topic}-0@77",
    ]
    code, output = prove(pipe.sink, "--sample", "100")
    assert (code, output.splitlines()[1:]) == (
        1,
        [
            f"missing: {pipe.topic}-0@1,234 to @1,235",
            f"compared {pipe.topic}-0@0 to @{LINES - 1:,}; repeated and unexpected rows were not searched",
        ],
    )
    code, output = prove(pipe.sink, "-o", "json")
    result = json.loads(output)["result"]
    assert code == 1
    assert (result["expected_rows"], result["stored_rows"]) == (LINES, LINES - 1)
    assert result["missing"] == {
        "rows": 2,
        "offsets": [{"topic": pipe.topic, "partition": 0, "first": 1234, "last": 1235}],
        "source_records": [],
        "keys": [],
    }

    code, output = prove(pipe.sink, "--since", "2099-01-01")
    assert (code, "has committed no records" in output) == (2, True)


def test_file_source_is_proved_until_a_line_is_changed(pipe: Pipe, prove: Prove) -> None:
    pipe.write(LINES)
    pipe.worker.wait_until("all lines were transferred", pipe.is_through_exactly)
    size = pipe.source_file.stat().st_size
    code, output = prove(pipe.source)
    end = f'offset {{"position": {size}}} of {{"filename": "{pipe.source_file}"}}'
    assert (code, output.partition(" (")[0]) == (0, f"proved up to {end}")
    assert output.endswith("UTC): 0 missing, 0 repeated, 0 unexpected\n")

    with pipe.source_file.open("r+b") as file:
        file.seek(1234 * (size // LINES))
        file.write(b"changed")
    code, output = prove(pipe.source)
    assert code == 1
    missing = f'record 1,235 of {{"filename": "{pipe.source_file}"}}'
    assert output.splitlines()[1:] == [f"missing: {missing}", f"unexpected: {pipe.topic}-0@1,234"]

    code, output = prove(pipe.source, "--since", "2026-01-01")
    assert (code, "only a proof of a sink can compare a part of the records" in output) == (2, True)


@pytest.mark.parametrize("errors", [{}, {"errors.tolerance": "all"}], ids=["columns", "records"])
@pytest.mark.one_a_day("errors")
def test_proof_of_a_source_applies_transforms(
    worker: WorkerProcess, kafka: Broker, tmp_path: Path, prove: Prove, errors: dict[str, str]
) -> None:
    name, file = f"hoisted-{uuid.uuid4().hex[:8]}", tmp_path / "lines"
    file.write_text("".join(f"{number}\n" for number in range(LINES)), encoding="ascii")
    create_topic(kafka.bootstrap, f"{name}-x")
    config = {
        "name": name,
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": name,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "transforms": "hoist,route",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "$0-x",
        **errors,
    }
    assert worker.put(f"/connectors/{name}/config", config).status == 201
    worker.wait_until(
        "all lines were read",
        lambda: (
            [entry["offset"] for entry in worker.get(f"/connectors/{name}/offsets").body["offsets"]]
            == [{"position": file.stat().st_size}]
        ),
    )
    code, output = prove(name)
    assert (code, output.partition("UTC): ")[2]) == (0, "0 missing, 0 repeated, 0 unexpected\n")
    worker.delete(f"/connectors/{name}")


@pytest.fixture
def folder_sink(worker: WorkerProcess, kafka: Broker, tmp_path: Path) -> Iterator[tuple[str, str, Path]]:
    """Run a SparkSink with a transform and dead letters; return its name, its topic and its folder."""
    name, folder = f"folder-{tmp_path.name}", tmp_path / "out"
    topic, dead_topic = f"{name}-orders", f"{name}-dead"
    create_topic(kafka.bootstrap, topic, partitions=2)
    config = {
        "name": name,
        "connector.class": "SparkSink",
        "topics": topic,
        "spark.format": "json",
        "path": str(folder),
        "key.converter": STRING_CONVERTER,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead_topic,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "transforms": "filter,mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        "transforms.mask.fields": "card",
        "transforms.mask.replacement": "****",
        "transforms.filter.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.filter.predicate": "tombstone",
        "predicates": "tombstone",
        "predicates.tombstone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    assert worker.put(f"/connectors/{name}/config", config).status == 201
    yield name, topic, folder
    worker.delete(f"/connectors/{name}")


def test_transforms_and_dead_letters_are_part_of_the_proof(
    worker: WorkerProcess, kafka: Broker, folder_sink: tuple[str, str, Path], prove: Prove
) -> None:
    name, topic, folder = folder_sink
    producer = ck.Producer({"bootstrap.servers": kafka.bootstrap})
    values = [json.dumps({"order": number, "card": "4242"}).encode() for number in range(1000)]
    values[400], values[500] = b"{", b"nonsense"
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    producer.produce(topic, None, partition=0)
    producer.flush()
    wait_for_commit(worker, name, 1001)
    code, output = prove(name)
    assert (code, output.partition("UTC): ")[2]) == (
        0,
        "0 missing, 0 repeated, 0 unexpected, 2 dead letters, 1 dropped\n",
    )
    (path, *_) = sorted(folder.glob(f"{topic}+1+*"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines).replace(b'"card":"****"', b'"card":"4242"', 1))
    code, output = prove(name)
    assert code == 1
    assert f"missing: {topic}-1@0\n" in output
    assert "no record's row: 1\n" in output
