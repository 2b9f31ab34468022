"""Tests that a SIGKILL of a worker moves its work, does not disturb other work, and loses no line."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.flow import Flow, StatusTopic, round_pauses

log = logging.getLogger(__name__)

WORKER_COUNT = 3
JOIN_TIME = re.compile(r"^\[([^\]]+)\] INFO \[[^\]]*\] Joined group at generation ", re.MULTILINE)


@pytest.fixture(scope="module")
def killable_cluster(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Run three workers that tests kill. Each test first restarts the killed workers."""
    # The consumer group of a sink detects a killed member after this timeout; the default is 45 s, as in Java.
    properties = {"consumer.session.timeout.ms": "6000"}
    cluster = ProcessCluster(
        directory=tmp_path_factory.mktemp("lost"), bootstrap=kafka.bootstrap, properties=properties
    )
    cluster.start(WORKER_COUNT)
    yield cluster
    cluster.close()


@pytest.fixture
def flow(killable_cluster: ProcessCluster, kafka: Broker, tmp_path: Path) -> Iterator[Flow]:
    """Run six pipes on three workers."""
    killable_cluster.start_dead()
    running_flow = Flow(killable_cluster, kafka.bootstrap, tmp_path, 6)
    running_flow.wait_until_balanced(WORKER_COUNT)
    yield running_flow
    running_flow.stop()
    running_flow.delete()


def find_leader(cluster: ProcessCluster) -> WorkerProcess:
    """Return the leader that the log of the first live worker names."""
    urls = re.findall(r"leaderUrl='([^']*)'", cluster.alive[0].log_text())
    return next(worker for worker in cluster.alive if urls[-1].rstrip("/") == worker.url)


def find_join_time(worker: WorkerProcess, log_size: int) -> float | None:
    """Return the time of the first join that a worker logged after `log_size` characters, or None if it logged none."""
    match = JOIN_TIME.search(worker.log_text()[log_size:])
    return datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() if match else None


@pytest.mark.ci
@pytest.mark.one_a_day("role")
@pytest.mark.parametrize("role", ["follower", "leader"])
def test_work_of_a_killed_worker_is_reassigned_without_stopping_other_work(
    flow: Flow, killable_cluster: ProcessCluster, kafka: Broker, role: str
) -> None:
    leader = find_leader(killable_cluster)
    victim = leader if role == "leader" else next(w for w in killable_cluster.workers if w is not leader)
    victim_id = victim.url.partition("//")[2]
    with flow.flowing():
        flow.wait_until_running()
        owners_before = flow.owners()
        moved_instances = {instance for instance, owner in owners_before.items() if owner == victim_id}
        assert moved_instances
        statuses = StatusTopic(kafka.bootstrap, killable_cluster)
        survivors = [worker for worker in killable_cluster.workers if worker is not victim]
        log_sizes = {worker: len(worker.log_text()) for worker in survivors}
        victim.kill()

        def all_moved() -> bool:
            owners_after = flow.owners()
            return owners_after.keys() == owners_before.keys() and victim_id not in owners_after.values()

        killable_cluster.wait_until("all work had moved", all_moved)
        running_s = time.time()
        owners_after = flow.owners()
        flow.wait_until_running()
        flow.wait_until_new_output()
    join_times = [find_join_time(worker, size) for worker, size in log_sizes.items()]
    first_join_s = min(seconds for seconds in join_times if seconds is not None)
    log.info(
        "%s: %d instances ran %.2f s after the group's next round; longest pauses: %s s",
        role, len(moved_instances), running_s - first_join_s, round_pauses(flow.pauses),
    )  # fmt: skip
    assert {key: owners_after[key] for key in owners_before if key not in moved_instances} == {
        key: owner for key, owner in owners_before.items() if key not in moved_instances
    }
    other_instances = owners_before.keys() - moved_instances
    restarted_instances = {
        instance: states
        for instance, states in statuses.new_statuses().items()
        if instance in other_instances
    }
    assert not restarted_instances, "instances that were not reassigned must not be restarted"
    statuses.close()
    assert max(flow.repeats().values()) <= 2, "one batch of the source and one of the sink may be duplicated"


@pytest.mark.ci
@pytest.mark.parametrize(
    "rounds", [20, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_failed_tasks_of_other_workers_are_restarted(
    killable_cluster: ProcessCluster, kafka: Broker, tmp_path: Path, rounds: int
) -> None:
    killable_cluster.start_dead()
    name = f"cured-{tmp_path.name}"
    file, task_count = tmp_path / "sink", WORKER_COUNT
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, task_count, 1)])[name].result(30)
    file.mkdir()
    config = {
        "connector.class": "FileStreamSink",
        "file": str(file),
        "topics": name,
        "tasks.max": str(task_count),
    }
    killable_cluster.workers[0].create(name, config)
    failed_states = ["RUNNING", *["FAILED"] * task_count]
    for round_number in range(rounds):
        killable_cluster.wait_for_states(name, failed_states)
        file.rmdir()
        worker = killable_cluster.workers[round_number % WORKER_COUNT]
        response = worker.ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
        assert response.status == 202
        assert response.body["connector"]["state"] == "RUNNING"
        assert [task["state"] for task in response.body["tasks"]] == ["RESTARTING"] * task_count
        owners = {task["worker_id"] for task in response.body["tasks"]}
        assert len(owners) == WORKER_COUNT, (
            "tasks on all workers must restart, not only those on the worker that received the request"
        )
        killable_cluster.wait_for_states(name, ["RUNNING"] * (1 + task_count), 30)
        file.unlink()
        file.mkdir()
        assert worker.ask("POST", f"/connectors/{name}/restart?includeTasks=true").status == 202
    killable_cluster.wait_for_states(name, failed_states)
    killable_cluster.workers[0].ask("DELETE", f"/connectors/{name}")


def test_invalid_config_records_are_logged_and_skipped(
    killable_cluster: ProcessCluster, kafka: Broker
) -> None:
    killable_cluster.start_dead()
    topic = f"{killable_cluster.group}-config"
    invalid_records = [
        ("connector-bad", b"{not json"),
        ("connector-bad", b"[1, 2]"),
        ("connector-bad", b'{"properties": "none"}'),
        ("connector-bad", b'{"properties": {"tasks.max": {"a": 1}}}'),
        ("connector-bad", b"\x00\xff\xfe"),
        ("task-bad-0", b'{"properties": []}'),
        ("task-bad", b"{}"),
        ("commit-bad", b'{"tasks": "many"}'),
        ("commit-bad", b"{}"),
        ("target-state-bad", b'{"state": 7}'),
        ("restart-connector-bad", b'"now"'),
        ("session-key", b'{"key": 5}'),
        ("nobody-knows-this", b'{"a": 1}'),
    ]
    offsets: list[int] = []

    def record_offset(error: object, message: Message) -> None:
        offset = message.offset()
        assert error is None
        assert offset is not None
        offsets.append(offset)

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
    for key, value in invalid_records:
        producer.produce(topic, value, key, on_delivery=record_offset)
    producer.produce(topic, b"{}", b"\xff\xfe", on_delivery=record_offset)
    assert producer.flush(30) == 0
    assert len(offsets) == len(invalid_records) + 1

    def has_logged(worker: WorkerProcess) -> bool:
        log_text = worker.log_text()
        return all(
            f"Skipped an invalid record of the config log: {offset}: " in log_text for offset in offsets
        )

    name = f"{killable_cluster.group}-after"
    config = {"connector.class": "FileStreamSource", "file": "/nonexistent/file", "topic": name}
    killable_cluster.workers[0].create(name, config)
    killable_cluster.wait_for_states(name, ["RUNNING", "RUNNING"])
    for worker in killable_cluster.workers:
        assert has_logged(worker), json.dumps(
            [(o, k[0]) for o, k in zip(offsets, [*invalid_records, ("bytes", b"")], strict=True)]
        )
        assert worker.get("/connectors/bad").status == 404
    killable_cluster.workers[1].ask("DELETE", f"/connectors/{name}")
