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
        rows = {name: status["connector"], **{f"{name}-{task['id']}": task for task in status["tasks"]}}
        for instance, row in rows.items():
            if row["state"] == "RUNNING":
                instances.setdefault(row["worker_id"], set()).add(instance)
    return instances


def get_worker_id(worker: WorkerProcess) -> str:
    return worker.url.partition("//")[2]


class Plan:
    """Two pipes (four connectors with one task each) and their workers."""

    def __init__(self, cluster: ProcessCluster, kafka: Broker, directory: Path) -> None:
        """Create the pipes on the running workers."""
        self.cluster = cluster
        self.flow = Flow(cluster, kafka.bootstrap, directory, 2)
        self.everything = {instance for name in self.flow.names for instance in (name, f"{name}-0")}
        self.static: dict[WorkerProcess, set[str]] = {}
        """Static workers, and the instances that each must run."""

    def add(self, *lists: set[str]) -> Sequence[WorkerProcess]:
        """Start a static worker for each list, in parallel."""
        workers = [self._describe(listed) for listed in lists]
        self.cluster.start_all(workers)
        assigned: set[str] = set().union(*self.static.values())
        self.static |= {
            worker: listed - assigned for worker, listed in zip(workers, lists, strict=True)
        }  # listed instances keep their workers
        return workers

    def _describe(self, listed: set[str]) -> WorkerProcess:
        tasks = {instance for instance in listed if instance.endswith("-0")}
        lists_by_key = {"static.connectors": listed - tasks, "static.tasks": tasks}
        lists = {key: ",".join(sorted(instances)) for key, instances in lists_by_key.items() if instances}
        return self.cluster.add({"connect.protocol": "static", **lists})

    def end(self, worker: WorkerProcess) -> None:
        """Stop a worker gracefully."""
        assert worker.end() == 0
        self.static.pop(worker, None)

    def check(self, lines: int = 40) -> None:
        """Wait until all instances run on their workers, and check that lines are delivered once."""
        wildcard = {get_worker_id(worker) for worker in self.cluster.alive if worker not in self.static}

        def are_placed() -> bool:
            running = running_instances(self.cluster)
            are_static_placed = all(
                running.get(get_worker_id(each), set()) == jobs for each, jobs in self.static.items()
            )
            known_ids = {get_worker_id(each) for each in self.static} | wildcard
            return (
                are_static_placed
                and running.keys() <= known_ids
                and sorted(job for jobs in running.values() for job in jobs) == sorted(self.everything)
            )

        self.cluster.wait_until("all instances ran on their workers", are_placed, MOVE_TIMEOUT_S)
        for pipe in self.flow.pipes:
            pipe.worker = self.cluster.alive[0]
            pipe.write(lines)
        for pipe in self.flow.pipes:
            pipe.worker.wait_until("both files were equal", pipe.is_through_exactly)

    def roll(self) -> None:
        """Restart all workers one by one with the default protocol and without lists, while lines flow."""
        for worker in self.cluster.workers:
            assert worker.end() == 0
            self.check()
            del worker.properties["connect.protocol"]
            self.cluster.start_all([worker])
            self.check()
        for worker in self.cluster.workers:
            assert re.findall(r"protocol version (\d)", worker.log_text())[-1] == "3"


Start = Callable[[str], Plan]


@pytest.fixture
def start(make_cluster: Callable[..., ProcessCluster], kafka: Broker, tmp_path: Path) -> Start:
    """Return a function that starts two workers with a protocol, and the pipes on them."""

    def start_plan(protocol: str) -> Plan:
        cluster = make_cluster({"connect.protocol": protocol})
        cluster.start(2)
        return Plan(cluster, kafka, tmp_path)

    return start_plan


@pytest.mark.slow  # the KIP's test plan includes a rolling restart
@pytest.mark.parametrize("protocol", ["eager", "compatible"])
def test_group_is_upgraded_to_static_by_a_rolling_restart(start: Start, protocol: str) -> None:
    plan = start(protocol)
    plan.check()
    plan.roll()


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol",
    ["sessioned", "eager", "compatible"],
)
def test_kip_987_test_plan_passes(start: Start, protocol: str) -> None:
    plan = start(protocol)
    plan.check()
    plan.roll()
    first, last = plan.cluster.alive

    source = plan.flow.pipes[0].source
    with_connector, _ = plan.add({source}, {f"{source}-0"})
    plan.check()
    plan.add({source, f"{source}-0"})
    plan.check()

    plan.end(first)
    plan.check()
    plan.add(plan.everything - {source, f"{source}-0"})
    plan.check()
    plan.end(last)
    plan.check()
    check_waiting_instances(plan, with_connector)


def check_waiting_instances(plan: Plan, member: WorkerProcess) -> None:
    """Check that unlisted instances wait with a reason, because all workers are static."""
    member.create("unlisted", plan.flow.pipes[0].source_config | {"name": "unlisted"})
    member.wait_for_states("unlisted", ["UNASSIGNED"])
    [reason] = member.traces("unlisted")
    assert reason == (
        "No worker may run it: every worker of the group has static assignments, and none lists connector unlisted. "
        "List it in static.connectors of a worker, or start a worker without static assignments."
    )
    for worker in plan.cluster.alive:
        assignments = worker.ask("GET", "/admin/assignments").body
        assert (assignments["protocol"], assignments["note"]) == ("static", None)
        assert assignments["waiting"] == [
            {"connector": "unlisted", "task": None, "state": "unlisted", "reason": reason}
        ]
        assert {each["url"]: {*each["connectors"], *each["tasks"]} for each in assignments["workers"]} == {
            f"{each.url}/": jobs for each, jobs in plan.static.items()
        }
    printed = CliRunner().invoke(main, ["assignments", "--url", member.url])
    assert printed.exit_code == 0, printed.output
    assert f"unlisted   {reason}" in printed.stdout
    assert "\nnew: unlisted\n" in printed.stdout
    assert member.ask("DELETE", "/connectors/unlisted").status == 204
