"""An actor dies with a message in its mailbox, or while another one starts: nothing is wrong for good afterwards."""

from __future__ import annotations

import pytest

from actors.messages.herder import (
    CompareStatuses,
    CreateConnector,
    PatchConfig,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from kraal.core import lease
from kraal.core.errors import KraalError
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.protocol.status_records import StatusRecord, decode_status
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.scheduler import Scheduler
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0 = TaskId(NAME, 0)
SEEDS = range(8)
CONFIG: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "2"}
RUNNING = ["RUNNING"] * 3


def frozen(scheduler: Scheduler, actor: str, *, frozen: bool = True) -> None:
    """Suspend the one actor of this name, or let it continue."""
    [address] = [each for each in scheduler.addresses() if each.name == actor]
    scheduler.freeze(address, frozen=frozen)


def last_state(worker: EmbeddedWorker, task: TaskId) -> str:
    """Return the newest state of a task in the status log."""
    read = [
        decode_status(each.key, each.value) for each in worker.status_log.read(0, worker.status_log.end())
    ]
    found = [each.status for each in read if isinstance(each, StatusRecord) and each.instance == task]
    return "" if found[-1] is None else str(found[-1].state)


@pytest.mark.parametrize("reader", ["config reader", "status reader"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_that_starts_while_a_new_herder_reads_is_shown_running(seed: int, reader: str) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    worker.fake.lose("Spark's JVM ended (killed by signal 9)")
    worker.run()
    frozen(worker.scheduler, reader)
    worker.crash("herder")
    worker.advance(0.1)  # the worker has reported what waits for Spark
    worker.fake.recover()
    worker.run()
    frozen(worker.scheduler, reader, frozen=False)
    worker.run()
    assert worker.states(NAME) == RUNNING


@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_that_stops_while_a_new_herder_reads_keeps_its_topics(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    worker.fake.feed(T0, 3)
    worker.run()
    topics = worker.snapshot.status.topics[NAME]
    frozen(worker.scheduler, "task numbers-0")
    restart = worker.assembly.herder.question(RestartTask(task=T0))
    worker.run()
    frozen(worker.scheduler, "config reader")
    worker.crash("herder")
    worker.advance(0.1)
    assert isinstance(restart.exception(timeout=0), KraalError)
    frozen(worker.scheduler, "task numbers-0", frozen=False)
    worker.run()  # the task stops, and starts again
    frozen(worker.scheduler, "config reader", frozen=False)
    worker.run()
    assert worker.states(NAME) == RUNNING
    assert worker.snapshot.status.topics[NAME] == topics


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_start_again_although_the_statuses_of_their_end_are_lost(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    frozen(worker.scheduler, "status writer")
    worker.crash("status writer")
    worker.assembly.herder.question(PatchConfig(name=NAME, patch={"tasks.max": "3"}))
    worker.run()  # the tasks stop, and their statuses wait behind the death
    frozen(worker.scheduler, "status writer", frozen=False)
    worker.advance(10)
    assert worker.states(NAME) == ["RUNNING"] * 4
    assert len(worker.fake.running) == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connector_s_task_configs_survive_the_worker_s_death(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    created = worker.assembly.herder.question(CreateConnector(name=NAME, config=CONFIG))
    worker.run_until(lambda: any(each.name == "connector numbers" for each in worker.scheduler.addresses()))
    frozen(worker.scheduler, "worker")
    worker.crash("worker")
    worker.run()  # what the connector tells waits behind the death
    frozen(worker.scheduler, "worker", frozen=False)
    worker.advance(10)
    assert created.done()
    assert worker.states(NAME) == RUNNING


@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_is_shown_running_although_that_status_was_lost(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    frozen(worker.scheduler, "status reader")
    worker.assembly.herder.question(RestartTask(task=T0))
    worker.run_until(lambda: last_state(worker, T0) != "RUNNING")
    frozen(worker.scheduler, "status writer")
    worker.crash("status writer")
    worker.run()  # RUNNING waits behind the death, and UNASSIGNED has not been read back
    frozen(worker.scheduler, "status writer", frozen=False)
    worker.advance(0.1)
    frozen(worker.scheduler, "status reader", frozen=False)
    worker.advance(10)
    assert worker.states(NAME) == RUNNING


@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_is_shown_running_although_an_earlier_herder_s_status_came_last(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    frozen(worker.scheduler, "status writer")
    worker.assembly.herder.question(RestartTask(task=T0))
    worker.run_until(lambda: worker.scheduler.trace[-1] == ("herder", "InstanceChanged"))
    frozen(worker.scheduler, "herder")
    worker.crash("herder")
    worker.run()  # the task starts, which the herder does not hear
    frozen(worker.scheduler, "herder", frozen=False)
    worker.advance(0.1)
    frozen(worker.scheduler, "status writer", frozen=False)
    worker.advance(10)
    assert worker.states(NAME) == RUNNING


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restarting_task_that_has_not_started_yet_stays_restarting(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    frozen(worker.scheduler, "supervisor")
    worker.assembly.herder.question(RestartConnector(name=NAME, include_tasks=True, only_failed=False))
    worker.run()  # the new life waits for the supervisor, and has reported nothing
    assert last_state(worker, T0) == "RESTARTING"
    worker.assembly.herder.tell(CompareStatuses())
    worker.run()
    assert last_state(worker, T0) == "RESTARTING"
    frozen(worker.scheduler, "supervisor", frozen=False)
    worker.run()
    assert worker.states(NAME) == RUNNING


def test_task_that_starts_has_no_status_after_a_comparison() -> None:
    worker = EmbeddedWorker()
    frozen(worker.scheduler, "offsets")
    worker.create(NAME, CONFIG)
    assert worker.states(NAME) == ["RUNNING"]
    worker.assembly.herder.tell(CompareStatuses())
    worker.run()
    assert worker.states(NAME) == ["RUNNING"]
    frozen(worker.scheduler, "offsets", frozen=False)
    worker.run()
    assert worker.states(NAME) == RUNNING


def test_restarts_that_an_earlier_herder_showed_are_not_shown_for_ever() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, CONFIG)
    frozen(worker.scheduler, "config reader")
    worker.assembly.herder.question(RestartConnector(name=NAME, include_tasks=True, only_failed=False))
    worker.run()
    frozen(worker.scheduler, "status writer")
    frozen(worker.scheduler, "config reader", frozen=False)
    worker.run_until(lambda: bool(worker.snapshot.restarting))
    frozen(worker.scheduler, "herder")
    worker.crash("herder")
    frozen(worker.scheduler, "status writer", frozen=False)
    worker.advance(30)  # the end of the time for which restarts are shown passes
    frozen(worker.scheduler, "herder", frozen=False)
    worker.advance(10)
    assert worker.states(NAME) == RUNNING


@pytest.mark.parametrize("seed", range(4))
def test_a_status_that_was_withheld_is_written_when_the_lease_is_back(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = EmbeddedCluster(workers=1, seed=seed)
    cluster.settle()
    cluster.create(NAME, CONFIG)
    cluster.settle()
    generation = cluster.workers[0].snapshot.generation
    cluster.workers[0].assembly.herder.question(SetTargetState(name=NAME, target=TargetState.PAUSED))
    with monkeypatch.context() as late:
        late.setattr(lease, "LEASE_FRACTION", -1.0)  # as if its heartbeats came late
        cluster.scheduler.advance(2)
    cluster.scheduler.advance(10)
    assert cluster.states(NAME) == ["PAUSED"] * 3
    assert cluster.workers[0].snapshot.generation == generation


@pytest.mark.parametrize("seed", range(4))
def test_the_status_names_the_worker_that_took_over_although_its_writer_died(seed: int) -> None:
    cluster = EmbeddedCluster(workers=2, seed=seed)
    cluster.settle()
    cluster.create(NAME, CONFIG)
    cluster.settle()
    heir = cluster.leader
    assert heir is not None
    [victim] = [each for each in cluster.workers if each is not heir]
    writer = heir._host.address("status writer")  # noqa: SLF001 - the scheduler has two of this name
    cluster.scheduler.freeze(writer)
    cluster.crash(heir, "status writer")
    cluster.kill(victim)
    cluster.scheduler.advance(15)  # the work moves, and its statuses wait behind the death
    cluster.scheduler.freeze(writer, frozen=False)
    cluster.scheduler.advance(10)
    stored = heir.snapshot.status.statuses[NAME]
    assert stored.connector is not None
    assert {each.worker_id for each in (stored.connector, *stored.tasks.values())} == {heir.worker_id}


@pytest.mark.parametrize("actor", ["fencer", "herder"])
@pytest.mark.parametrize("seed", range(4))
def test_tasks_wait_for_a_fencing_that_an_actor_s_death_ended(seed: int, actor: str) -> None:
    cluster = EmbeddedCluster(workers=2, seed=seed, exactly_once=True)
    cluster.settle()
    cluster.create(NAME, CONFIG)
    cluster.settle()
    leader = cluster.leader
    assert leader is not None
    fencer = leader._host.address("fencer")  # noqa: SLF001 - as above
    cluster.scheduler.freeze(fencer)
    leader.assembly.herder.question(PatchConfig(name=NAME, patch={"tasks.max": "4"}))
    cluster.scheduler.advance(3)
    cluster.crash(leader, actor)
    cluster.scheduler.advance(0.5)
    cluster.scheduler.freeze(fencer, frozen=False)
    cluster.scheduler.advance(60)
    assert cluster.states(NAME) == ["RUNNING"] * 5
