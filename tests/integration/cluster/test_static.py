"""Tests for static assignments (KIP-987) on worker processes, according to the KIP's test plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraal.broker.broker import Broker
from kraal.cli.main import main
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.flow import Flow

pytestmark = pytest.mark.ci

MOVE_TIMEOUT_S = 60.0


def running_instances(cluster: ProcessCluster) -> Mapping[str, set[str]]:
    """Return the running connectors and tasks by worker id, according to their statuses."""
    instances: dict[str, set[str]] = {}
    for name, entry in cluster.alive[0].get("/connectors?expand=status").body.items():
        status = entry["status"]
        statuses = {name: status["connector"], **{f"{name}-{task['id']}": task for task in status["tasks"]}}
        for instance, instance_status in statuses.items():
            if instance_status["state"] == "RUNNING":
                instances.setdefault(instance_status["worker_id"], set()).add(instance)
    return instances


def get_worker_id(worker: WorkerProcess) -> str:
    return worker.url.partition("//")[2]


class PipeGroup:
    """Two pipes (four connectors with one task each) and their workers."""

    def __init__(self, cluster: ProcessCluster, kafka: Broker, directory: Path) -> None:
        """Create the pipes on the running workers."""
        self.cluster = cluster
        self.flow = Flow(cluster, kafka.bootstrap, directory, 2)
        self.all_instances = {instance for name in self.flow.names for instance in (name, f"{name}-0")}
        self.static_instances: dict[WorkerProcess, set[str]] = {}
        """The instances that each static worker must run."""

    def add(self, *instance_sets: set[str]) -> Sequence[WorkerProcess]:
        """Start a static worker for each set of instances, in parallel."""
        workers = [self._define_worker(instances) for instances in instance_sets]
        self.cluster.start_all(workers)
        assigned_instances: set[str] = set().union(*self.static_instances.values())
        self.static_instances |= {
            worker: instances - assigned_instances
            for worker, instances in zip(workers, instance_sets, strict=True)
        }  # instances that are already assigned keep their workers
        return workers

    def _define_worker(self, instances: set[str]) -> WorkerProcess:
        tasks = {instance for instance in instances if instance.endswith("-0")}
        names_by_key = {"static.connectors": instances - tasks, "static.tasks": tasks}
        settings = {key: ",".join(sorted(names)) for key, names in names_by_key.items() if names}
        return self.cluster.add({"connect.protocol": "static", **settings})

    def end(self, worker: WorkerProcess) -> None:
        """Stop a worker gracefully."""
        assert worker.end() == 0
        self.static_instances.pop(worker, None)

    def check(self, lines: int = 40) -> None:
        """Wait until all instances run on their expected workers, and check that lines are delivered once."""
        wildcard_ids = {
            get_worker_id(worker) for worker in self.cluster.alive if worker not in self.static_instances
        }

        def are_on_expected_workers() -> bool:
            running = running_instances(self.cluster)
            are_static_expected = all(
                running.get(get_worker_id(worker), set()) == instances
                for worker, instances in self.static_instances.items()
            )
            known_ids = {get_worker_id(worker) for worker in self.static_instances} | wildcard_ids
            return (
                are_static_expected
                and running.keys() <= known_ids
                and sorted(instance for instances in running.values() for instance in instances)
                == sorted(self.all_instances)
            )

        self.cluster.wait_until("all instances ran on their workers", are_on_expected_workers, MOVE_TIMEOUT_S)
        for pipe in self.flow.pipes:
            pipe.worker = self.cluster.alive[0]
            pipe.write(lines)
        for pipe in self.flow.pipes:
            pipe.worker.wait_until("both files were equal", pipe.is_through_exactly)

    def roll(self) -> None:
        """Restart all workers one by one with the default protocol. Call `check` after each stop and start."""
        for worker in self.cluster.workers:
            assert worker.end() == 0
            self.check()
            del worker.properties["connect.protocol"]
            self.cluster.start_all([worker])
            self.check()
        for worker in self.cluster.workers:
            assert re.findall(r"protocol version (\d)", worker.log_text())[-1] == "3"


Start = Callable[[str], PipeGroup]


@pytest.fixture
def start(make_cluster: Callable[..., ProcessCluster], kafka: Broker, tmp_path: Path) -> Start:
    """Return a function that starts two workers with a protocol, and the pipes on them."""

    def start_pipes(protocol: str) -> PipeGroup:
        cluster = make_cluster({"connect.protocol": protocol})
        cluster.start(2)
        return PipeGroup(cluster, kafka, tmp_path)

    return start_pipes


@pytest.mark.slow  # the KIP's test plan includes a rolling restart
@pytest.mark.parametrize("protocol", ["eager", "compatible"])
def test_group_is_upgraded_to_static_by_a_rolling_restart(start: Start, protocol: str) -> None:
    group = start(protocol)
    group.check()
    group.roll()


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol",
    ["sessioned", "eager", "compatible"],
)
def test_kip_987_test_plan_passes(start: Start, protocol: str) -> None:
    group = start(protocol)
    group.check()
    group.roll()
    first_wildcard, second_wildcard = group.cluster.alive

    source = group.flow.pipes[0].source
    connector_worker, _ = group.add({source}, {f"{source}-0"})
    group.check()
    group.add({source, f"{source}-0"})
    group.check()

    group.end(first_wildcard)
    group.check()
    group.add(group.all_instances - {source, f"{source}-0"})
    group.check()
    group.end(second_wildcard)
    group.check()
    check_waiting_instances(group, connector_worker)


def check_waiting_instances(group: PipeGroup, member: WorkerProcess) -> None:
    """Check that an unlisted connector stays UNASSIGNED if all workers are static, and that the reason is reported."""
    member.create("unlisted", group.flow.pipes[0].source_config | {"name": "unlisted"})
    member.wait_for_states("unlisted", ["UNASSIGNED"])
    [reason] = member.traces("unlisted")
    assert reason == (
        "No worker may run it: every worker of the group has static assignments, and none lists connector unlisted. "
        "List it in static.connectors of a worker, or start a worker without static assignments."
    )
    for worker in group.cluster.alive:
        assignments = worker.ask("GET", "/admin/assignments").body
        assert (assignments["protocol"], assignments["note"]) == ("static", None)
        assert assignments["waiting"] == [
            {"connector": "unlisted", "task": None, "state": "unlisted", "reason": reason}
        ]
        assert {e["url"]: {*e["connectors"], *e["tasks"]} for e in assignments["workers"]} == {
            f"{static_worker.url}/": instances for static_worker, instances in group.static_instances.items()
        }
    result = CliRunner().invoke(main, ["assignments", "--url", member.url])
    assert result.exit_code == 0, result.output
    assert f"unlisted   {reason}" in result.stdout
    assert "\nnew: unlisted\n" in result.stdout
    assert member.ask("DELETE", "/connectors/unlisted").status == 204
