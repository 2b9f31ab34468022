"""Tests that sources lose no records when their worker is killed repeatedly, and that a proof counts the duplicates."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.broker.records import read_topic
from kraal.jars import jars
from kraal.testing.process import WorkerProcess
from scripts.harness.postgresql import postgresql
from scripts.harness.proofs import prove
from tests.fakes.spark.counted_sources import (
    CountedSource,
    mirror,
    parse_number,
    python_data_source,
    rate_stream,
    spark_files,
    spark_lines,
    spark_table,
    verifiable,
)
from tests.fakes.spark.feed import Feed

log = logging.getLogger(__name__)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

KILLS = 3
READ_TIMEOUT_S = 60.0
KINDS = ["lines", "files", "table", "python", "stream", "mirror", "mirror-real-time", "verifiable"]


@pytest.fixture(scope="module")
def killable_worker(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    properties = {
        "spark.master": "local[4]",  # the mirror in real-time mode occupies a slot
        "spark.jars": ",".join(str(jar) for jar in jars.ensure("postgresql")),
    }
    worker = WorkerProcess(tmp_path_factory.mktemp("worker"), kafka.bootstrap, properties=properties)
    worker.start()
    yield worker
    worker.close()


@pytest.fixture
def counted_source(request: pytest.FixtureRequest, kafka: Broker, tmp_path: Path) -> Iterator[CountedSource]:
    kind: str = request.param
    topic, directory = f"{kind}-{uuid.uuid4().hex[:8]}-numbers", tmp_path / "source"
    match kind:
        case "lines":
            yield spark_lines(directory, topic)
        case "files":
            yield spark_files(directory, topic)
        case "table":
            with postgresql() as database:
                yield spark_table(database, topic)
        case "python":
            yield python_data_source(directory, topic)
        case "stream":
            yield rate_stream(directory, topic)
        case "verifiable":
            yield verifiable(topic)
        case _:
            yield mirror(kafka.bootstrap, topic, kind)


@pytest.mark.parametrize("counted_source", KINDS, indirect=True)
def test_killed_worker_loses_no_records_of_its_source(
    counted_source: CountedSource, killable_worker: WorkerProcess, kafka: Broker
) -> None:
    worker, name = killable_worker, f"source-{uuid.uuid4().hex[:8]}"
    feed = None if counted_source.add is None else Feed(counted_source.add, interval_s=0.5, count=100)

    def read_numbers() -> list[int]:
        records = read_topic(kafka.bootstrap, counted_source.topic, timeout_s=READ_TIMEOUT_S)
        return [parse_number(record.value) for record in records]

    def wait_for_new_numbers() -> None:
        last_number = max(read_numbers(), default=-1) if feed is None else feed.added_count - 1
        worker.wait_until("new numbers arrived", lambda: max(read_numbers(), default=-1) > last_number)

    worker.create(name, counted_source.config)
    with nullcontext() if feed is None else feed.flowing():
        wait_for_new_numbers()
        for _ in range(KILLS):
            worker.kill()
            worker.start()
            wait_for_new_numbers()
    if feed is not None:
        count = feed.added_count
        worker.wait_until("all numbers arrived", lambda: set(read_numbers()) >= set(range(count)))
    assert worker.put(f"/connectors/{name}/pause").status == 202
    worker.wait_for_states(name, ["PAUSED", "PAUSED"])
    numbers = read_numbers()
    distinct_numbers = set(numbers)
    duplicate_count = len(numbers) - len(distinct_numbers)
    assert distinct_numbers == set(range(max(numbers) + 1))
    log.info("%s: %d numbers, %d duplicates", name, len(distinct_numbers), duplicate_count)

    state = prove(worker, name)
    result = state["result"]
    assert result is not None, state
    assert (result["missing"]["rows"], result["expected_rows"]) == (0, len(distinct_numbers)), state
    if counted_source.keeps_records:
        assert (result["repeated"]["rows"], result["unexpected"]["rows"]) == (duplicate_count, 0), state
    assert worker.delete(f"/connectors/{name}").status == 204
