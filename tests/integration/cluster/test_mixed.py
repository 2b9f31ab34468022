"""Tests for a Java worker and a Kraal worker in one group, with either as the leader."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.kafka.releases import make_comparable
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic
from tests.fakes.workers.java_worker import JavaWorker, MixedCluster

pytestmark = [pytest.mark.releases, pytest.mark.one_a_day("group")]


@dataclass(frozen=True, slots=True)
class MixedGroup:
    """A Java worker and a Kraal worker in one group."""

    cluster: MixedCluster
    leader: WorkerProcess
    follower: WorkerProcess

    @property
    def workers(self) -> Sequence[WorkerProcess]:
        """Both workers, the leader first."""
        return (self.leader, self.follower)

    def is_follower(self, worker_id: str) -> bool:
        """Return whether `worker_id` is the id of the follower."""
        return self.cluster.worker(worker_id) is self.follower


@pytest.fixture(scope="module", params=["java", "kraal"])
def group(
    request: pytest.FixtureRequest, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedGroup]:
    """Run a group whose leader is a worker of the given kind."""
    cluster = MixedCluster(directory=tmp_path_factory.mktemp("mixed"), bootstrap=kafka.bootstrap)
    starts: list[Callable[[], WorkerProcess]] = [cluster.start_java, cluster.start_kraal]
    if request.param == "kraal":
        starts.reverse()
    try:
        yield MixedGroup(cluster, *(start() for start in starts))
        exit_codes = {type(worker): worker.end() for worker in cluster.workers}
    finally:
        cluster.close()
    assert exit_codes == {JavaWorker: 143, WorkerProcess: 0}


@pytest.fixture
def pipes(group: MixedGroup, kafka: Broker, tmp_path: Path) -> Iterator[Sequence[Pipe]]:
    """Run two pipes, each of which is created through a different worker."""
    running_pipes = [Pipe(worker, tmp_path) for worker in group.workers]
    for pipe in running_pipes:
        pipe.source_file.touch()
        create_topic(kafka.bootstrap, pipe.topic)
        pipe.create()
    for name in connector_names(running_pipes):
        group.cluster.wait_for_states(name, RUNNING)
    yield running_pipes
    for pipe in running_pipes:
        pipe.delete()


def connector_names(pipes: Sequence[Pipe]) -> list[str]:
    return [name for pipe in pipes for name in (pipe.source, pipe.sink)]


def write_and_wait(pipes: Sequence[Pipe], count: int = 10) -> None:
    for pipe in pipes:
        pipe.write(count)
    for pipe in pipes:
        pipe.worker.wait_until("both files were equal", pipe.is_through_exactly)


def wait_until_responses_are_equal(group: MixedGroup, path: str) -> None:
    def are_equal() -> bool:
        leader_response, follower_response = (make_comparable(worker.get(path)) for worker in group.workers)
        return leader_response == follower_response

    group.cluster.wait_until(f"{path} was equal on both workers", are_equal)


def test_java_and_kraal_workers_report_the_same_assignments(group: MixedGroup, pipes: Sequence[Pipe]) -> None:
    write_and_wait(pipes)
    assert len(group.cluster.work()) == 2
    for name in connector_names(pipes):
        for path in ("", "/config", "/tasks", "/status", "/topics", "/tasks/0/status"):
            wait_until_responses_are_equal(group, f"/connectors/{name}{path}")
        topic = next(pipe.topic for pipe in pipes if name in (pipe.source, pipe.sink))
        for worker in group.workers:
            worker.wait_until(f"{name} had its topic", partial(has_topic, worker, name, topic))
    wait_until_responses_are_equal(group, "/connectors?expand=info&expand=status")


def has_topic(worker: WorkerProcess, name: str, topic: str) -> bool:
    topics: list[str] = worker.get(f"/connectors/{name}/topics").body[name]["topics"]
    return topics == [topic]


def test_follower_signs_task_configs_for_the_leader(group: MixedGroup, pipes: Sequence[Pipe]) -> None:
    owners = {name: group.cluster.owners(name)["connector"] for name in connector_names(pipes)}
    follower_names = [name for name, owner in owners.items() if group.is_follower(owner)]
    assert follower_names, (
        f"the follower has no connector: {owners}"
    )  # the tasks are running, so the leader has accepted their configs
    config = group.leader.get(f"/connectors/{follower_names[0]}/tasks").body[0]["config"]
    response = group.leader.post(f"/connectors/{follower_names[0]}/tasks", [config])
    assert (response.status, response.body["message"]) == (400, "Internal request missing required signature")
    # after a config change, the owner generates new task configs and sends them
    for name in follower_names:
        new_config = {**group.leader.get(f"/connectors/{name}/config").body, "client.note": "changed"}
        assert group.follower.ask("PUT", f"/connectors/{name}/config", new_config).status == 200

        group.cluster.wait_until(
            "both workers had the new task configs", partial(has_new_task_configs, group, name)
        )
        group.cluster.wait_for_states(name, RUNNING)
    write_and_wait(pipes)


def has_new_task_configs(group: MixedGroup, name: str) -> bool:
    responses = [worker.get(f"/connectors/{name}/tasks") for worker in group.workers]
    return all(
        response.status == 200
        and [task["config"].get("client.note") for task in response.body] == ["changed"]
        for response in responses
    )


def test_either_worker_pauses_resumes_stops_and_deletes(group: MixedGroup, pipes: Sequence[Pipe]) -> None:
    names = connector_names(pipes)
    for worker in group.workers:
        for path, states, code in (
            ("pause", ["PAUSED", "PAUSED"], 202),
            ("resume", RUNNING, 202),
            ("stop", ["STOPPED"], 204),
            ("resume", RUNNING, 202),
        ):
            for name in names:
                assert worker.ask("PUT", f"/connectors/{name}/{path}").status == code
            if states != RUNNING:
                for name in names:
                    group.cluster.wait_for_states(name, states)
                for pipe in pipes:
                    pipe.write(5)
            else:
                for name in names:
                    group.cluster.wait_for_states(name, RUNNING)
                write_and_wait(pipes, 5)
    for worker, pipe in zip(reversed(group.workers), pipes, strict=True):
        for name in (pipe.source, pipe.sink):
            assert worker.post("/connectors", {"name": name, "config": pipe.source_config}).status in (
                400,
                409,
            )
            assert worker.ask("DELETE", f"/connectors/{name}").status == 204
    for name in names:
        group.cluster.wait_until(f"{name} was deleted", partial(is_deleted, group, name))


def is_deleted(group: MixedGroup, name: str) -> bool:
    paths = (f"/connectors/{name}", f"/connectors/{name}/status")
    return all(worker.get(path).status == 404 for path in paths for worker in group.workers)


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_only_failed_instances_are_restarted_on_any_worker(
    group: MixedGroup, kafka: Broker, tmp_path: Path, rounds: int
) -> None:
    pipes = [Pipe(group.leader, tmp_path / f"away-{n}") for n in range(2)]
    for pipe in pipes:
        create_topic(kafka.bootstrap, pipe.topic)
        group.leader.create(pipe.sink, pipe.sink_config)
    sinks = [pipe.sink for pipe in pipes]
    for name in sinks:
        group.cluster.wait_for_states(name, ["RUNNING", "FAILED"])
    owners = {find_task_owner(group, name) for name in sinks}
    assert len(owners) == 2, "both tasks run on the same worker"
    for n in range(rounds):
        worker = group.workers[n % 2]
        for pipe in pipes:
            pipe.sink_file.parent.mkdir()
        restart_all(group, worker, sinks, only_failed=True)
        for name in sinks:
            group.cluster.wait_for_states(name, RUNNING, 30)
        for pipe in pipes:
            parent = pipe.sink_file.parent
            parent.rename(parent.with_name(f"{parent.name}-was-here-{n}"))  # the directory may contain files
        restart_all(group, worker, sinks, only_failed=False)
        for name in sinks:
            group.cluster.wait_for_states(name, ["RUNNING", "FAILED"], 30)
    for name in sinks:
        assert group.leader.ask("DELETE", f"/connectors/{name}").status == 204


def restart_all(group: MixedGroup, worker: WorkerProcess, names: Sequence[str], *, only_failed: bool) -> None:
    query = f"includeTasks=true&onlyFailed={'true' if only_failed else 'false'}"
    for name in names:
        response = worker.ask("POST", f"/connectors/{name}/restart?{query}")
        assert response.status == 202, response
        states = [response.body["connector"]["state"], *(t["state"] for t in response.body["tasks"])]
        expected = ["RUNNING", "RESTARTING"] if only_failed else ["RESTARTING", "RESTARTING"]
        # Java creates the response when it reads the restart record; restarted instances may be RUNNING by then.
        already_running = (
            [["RUNNING", "RUNNING"]] if only_failed and isinstance(group.leader, JavaWorker) else []
        )
        assert states in [expected, *already_running]


def find_task_owner(group: MixedGroup, name: str) -> str:
    worker_id: str = group.leader.get(f"/connectors/{name}/tasks/0/status").body["worker_id"]
    return worker_id


def test_sink_tasks_run_on_java_and_kraal_workers(group: MixedGroup, kafka: Broker, tmp_path: Path) -> None:
    name, out = f"wide-{uuid.uuid4().hex[:8]}", tmp_path / "out"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 4, 1)])[name].result(30)
    config = {"connector.class": "FileStreamSink", "file": str(out), "topics": name, "tasks.max": "4"}
    group.follower.create(name, config)
    group.cluster.wait_for_states(name, ["RUNNING"] * 5)
    task_counts = Counter(owner for key, owner in group.cluster.owners(name).items() if key != "connector")
    assert sorted(task_counts.values()) == [2, 2]
    lines = [f"line {n:06d}" for n in range(4000)]
    produce(kafka, name, lines[:2000])
    wait_for_lines(group, out, lines[:2000])
    produce(kafka, name, lines[2000:])
    wait_for_lines(group, out, lines)
    assert group.leader.ask("DELETE", f"/connectors/{name}").status == 204


def produce(kafka: Broker, topic: str, lines: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for n, line in enumerate(lines):
        producer.produce(topic, line, partition=n % 4)
    assert producer.flush(30) == 0


def wait_for_lines(group: MixedGroup, out: Path, lines: Sequence[str]) -> None:
    size = sum(len(line) + 1 for line in lines)
    group.cluster.wait_until(
        "all lines were in the file", lambda: out.exists() and out.stat().st_size >= size
    )
    assert Counter(out.read_text().splitlines()) == Counter(lines)


def test_group_uses_the_sessioned_protocol(group: MixedGroup) -> None:
    for worker in group.workers:
        versions = re.findall(r"protocol version (\d)", worker.log_text())
        assert versions[-1] == "2"
        versions_before_join = ["3"] if worker is group.leader and not isinstance(worker, JavaWorker) else []
        assert versions[: len(versions_before_join)] == versions_before_join
        assert set(versions[len(versions_before_join) :]) == {"2"}
