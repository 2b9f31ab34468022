"""A Java worker and a Kraal worker in a group, with either as the leader: both accept requests."""

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
from tests.fakes.kafka.releases import comparable
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic
from tests.fakes.workers.java_worker import JavaWorker, MixedCluster

pytestmark = [pytest.mark.releases, pytest.mark.one_a_day("mixed")]


@dataclass(frozen=True, slots=True)
class Mixed:
    """Two workers, the first of which is the leader."""

    cluster: MixedCluster
    leader: WorkerProcess
    follower: WorkerProcess

    @property
    def workers(self) -> Sequence[WorkerProcess]:
        """Both workers, the leader first."""
        return (self.leader, self.follower)

    def follows(self, worker_id: str) -> bool:
        """Whether statuses contain the follower's worker id."""
        return self.cluster.worker(worker_id) is self.follower


@pytest.fixture(scope="module", params=["java", "kraal"])
def mixed(
    request: pytest.FixtureRequest, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mixed]:
    """Yield a group whose first member is a worker of the given kind."""
    cluster = MixedCluster(directory=tmp_path_factory.mktemp("mixed"), bootstrap=kafka.bootstrap)
    starts: list[Callable[[], WorkerProcess]] = [cluster.start_java, cluster.start_kraal]
    if request.param == "kraal":
        starts.reverse()
    try:
        yield Mixed(cluster, *(start() for start in starts))
        codes = {type(worker): worker.end() for worker in cluster.workers}
    finally:
        cluster.close()
    assert codes == {JavaWorker: 143, WorkerProcess: 0}


@pytest.fixture
def pipes(mixed: Mixed, kafka: Broker, tmp_path: Path) -> Iterator[Sequence[Pipe]]:
    """Two running pipes, each created through a different worker, with work on both workers."""
    made = [Pipe(worker, tmp_path) for worker in mixed.workers]
    for pipe in made:
        pipe.source_file.touch()
        create_topic(kafka.bootstrap, pipe.topic)
        pipe.create()
    for name in connector_names(made):
        mixed.cluster.wait_for_states(name, RUNNING)
    yield made
    for pipe in made:
        pipe.delete()


def connector_names(pipes: Sequence[Pipe]) -> list[str]:
    return [name for pipe in pipes for name in (pipe.source, pipe.sink)]


def write_through(pipes: Sequence[Pipe], count: int = 10) -> None:
    for pipe in pipes:
        pipe.write(count)
    for pipe in pipes:
        pipe.worker.wait_until("the sink file was the source file", pipe.is_through_exactly)


def wait_until_responses_are_equal(mixed: Mixed, path: str) -> None:
    def same() -> bool:
        one, other = (comparable(worker.get(path)) for worker in mixed.workers)
        return one == other

    mixed.cluster.wait_until(f"{path} was the same on both", same)


def test_java_and_kraal_workers_report_the_same_assignments(mixed: Mixed, pipes: Sequence[Pipe]) -> None:
    write_through(pipes)
    assert len(mixed.cluster.work()) == 2
    for name in connector_names(pipes):
        for path in ("", "/config", "/tasks", "/status", "/topics", "/tasks/0/status"):
            wait_until_responses_are_equal(mixed, f"/connectors/{name}{path}")
        topic = next(pipe.topic for pipe in pipes if name in (pipe.source, pipe.sink))
        for worker in mixed.workers:
            worker.wait_until(f"{name} had its topic", partial(has_topic, worker, name, topic))
    wait_until_responses_are_equal(mixed, "/connectors?expand=info&expand=status")


def has_topic(worker: WorkerProcess, name: str, topic: str) -> bool:
    topics: list[str] = worker.get(f"/connectors/{name}/topics").body[name]["topics"]
    return topics == [topic]


def test_task_configs_reach_the_leader_signed(mixed: Mixed, pipes: Sequence[Pipe]) -> None:
    owners = {name: mixed.cluster.owners(name)["connector"] for name in connector_names(pipes)}
    theirs = [name for name, owner in owners.items() if mixed.follows(owner)]
    assert theirs, (
        f"the follower has no connector: {owners}"
    )  # its tasks run, so the leader has accepted their configs
    config = mixed.leader.get(f"/connectors/{theirs[0]}/tasks").body[0]["config"]
    answer = mixed.leader.post(f"/connectors/{theirs[0]}/tasks", [config])
    assert (answer.status, answer.body["message"]) == (400, "Internal request missing required signature")
    # after a config change, the owner generates new task configs and sends them
    for name in theirs:
        changed = {**mixed.leader.get(f"/connectors/{name}/config").body, "client.note": "changed"}
        assert mixed.follower.ask("PUT", f"/connectors/{name}/config", changed).status == 200

        mixed.cluster.wait_until("the new task configs were known", partial(is_running, mixed, name))
        mixed.cluster.wait_for_states(name, RUNNING)
    write_through(pipes)


def is_running(mixed: Mixed, name: str) -> bool:
    answers = [worker.get(f"/connectors/{name}/tasks") for worker in mixed.workers]
    return all(
        answer.status == 200 and [task["config"].get("client.note") for task in answer.body] == ["changed"]
        for answer in answers
    )


def test_either_worker_pauses_resumes_stops_and_deletes(mixed: Mixed, pipes: Sequence[Pipe]) -> None:
    names = connector_names(pipes)
    for asked in mixed.workers:
        for path, states, code in (
            ("pause", ["PAUSED", "PAUSED"], 202),
            ("resume", RUNNING, 202),
            ("stop", ["STOPPED"], 204),
            ("resume", RUNNING, 202),
        ):
            for name in names:
                assert asked.ask("PUT", f"/connectors/{name}/{path}").status == code
            if states != RUNNING:
                for name in names:
                    mixed.cluster.wait_for_states(name, states)
                for pipe in pipes:
                    pipe.write(5)
            else:
                for name in names:
                    mixed.cluster.wait_for_states(name, RUNNING)
                write_through(pipes, 5)
    for asked, pipe in zip(reversed(mixed.workers), pipes, strict=True):
        for name in (pipe.source, pipe.sink):
            assert asked.post("/connectors", {"name": name, "config": pipe.source_config}).status in (
                400,
                409,
            )
            assert asked.ask("DELETE", f"/connectors/{name}").status == 204
    for name in names:
        mixed.cluster.wait_until(f"{name} was gone", partial(is_deleted, mixed, name))


def is_deleted(mixed: Mixed, name: str) -> bool:
    paths = (f"/connectors/{name}", f"/connectors/{name}/status")
    return all(worker.get(path).status == 404 for path in paths for worker in mixed.workers)


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_only_failed_instances_are_restarted_on_any_worker(
    mixed: Mixed, kafka: Broker, tmp_path: Path, rounds: int
) -> None:
    pipes = [Pipe(mixed.leader, tmp_path / f"away-{n}") for n in range(2)]
    for pipe in pipes:
        create_topic(kafka.bootstrap, pipe.topic)
        mixed.leader.create(pipe.sink, pipe.sink_config)
    sinks = [pipe.sink for pipe in pipes]
    for name in sinks:
        mixed.cluster.wait_for_states(name, ["RUNNING", "FAILED"])
    homes = {find_task_owner(mixed, name) for name in sinks}
    assert len(homes) == 2, "the tasks are not on both workers"
    for n in range(rounds):
        asked = mixed.workers[n % 2]
        for pipe in pipes:
            pipe.sink_file.parent.mkdir()
        restart_all(mixed, asked, sinks, only_failed=True)
        for name in sinks:
            mixed.cluster.wait_for_states(name, RUNNING, 30)
        for pipe in pipes:
            parent = pipe.sink_file.parent
            parent.rename(parent.with_name(f"{parent.name}-was-here-{n}"))  # the directory may contain files
        restart_all(mixed, asked, sinks, only_failed=False)
        for name in sinks:
            mixed.cluster.wait_for_states(name, ["RUNNING", "FAILED"], 30)
    for name in sinks:
        assert mixed.leader.ask("DELETE", f"/connectors/{name}").status == 204


def restart_all(mixed: Mixed, asked: WorkerProcess, names: Sequence[str], *, only_failed: bool) -> None:
    query = f"includeTasks=true&onlyFailed={'true' if only_failed else 'false'}"
    for name in names:
        answer = asked.ask("POST", f"/connectors/{name}/restart?{query}")
        assert answer.status == 202, answer
        states = [answer.body["connector"]["state"], *(t["state"] for t in answer.body["tasks"])]
        wanted = ["RUNNING", "RESTARTING"] if only_failed else ["RESTARTING", "RESTARTING"]
        # Java plans its response when the record is read back, when instances restarted meanwhile are RUNNING.
        cured = [["RUNNING", "RUNNING"]] if only_failed and isinstance(mixed.leader, JavaWorker) else []
        assert states in [wanted, *cured]


def find_task_owner(mixed: Mixed, name: str) -> str:
    home: str = mixed.leader.get(f"/connectors/{name}/tasks/0/status").body["worker_id"]
    return home


def test_sink_tasks_run_on_java_and_kraal_workers(mixed: Mixed, kafka: Broker, tmp_path: Path) -> None:
    name, out = f"wide-{uuid.uuid4().hex[:8]}", tmp_path / "out"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 4, 1)])[name].result(30)
    config = {"connector.class": "FileStreamSink", "file": str(out), "topics": name, "tasks.max": "4"}
    mixed.follower.create(name, config)
    mixed.cluster.wait_for_states(name, ["RUNNING"] * 5)
    homes = Counter(each for key, each in mixed.cluster.owners(name).items() if key != "connector")
    assert sorted(homes.values()) == [2, 2]
    lines = [f"line {n:06d}" for n in range(4000)]
    produce(kafka, name, lines[:2000])
    wait_for_lines(mixed, out, lines[:2000])
    produce(kafka, name, lines[2000:])
    wait_for_lines(mixed, out, lines)
    assert mixed.leader.ask("DELETE", f"/connectors/{name}").status == 204


def produce(kafka: Broker, topic: str, lines: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for n, line in enumerate(lines):
        producer.produce(topic, line, partition=n % 4)
    assert producer.flush(30) == 0


def wait_for_lines(mixed: Mixed, out: Path, lines: Sequence[str]) -> None:
    size = sum(len(line) + 1 for line in lines)
    mixed.cluster.wait_until(
        "all lines were in the file", lambda: out.exists() and out.stat().st_size >= size
    )
    assert Counter(out.read_text().splitlines()) == Counter(lines)


def test_group_uses_the_sessioned_protocol(mixed: Mixed) -> None:
    for worker in mixed.workers:
        versions = re.findall(r"protocol version (\d)", worker.log_text())
        assert versions[-1] == "2"
        alone = ["3"] if worker is mixed.leader and not isinstance(worker, JavaWorker) else []
        assert versions[: len(alone)] == alone
        assert set(versions[len(alone) :]) == {"2"}
