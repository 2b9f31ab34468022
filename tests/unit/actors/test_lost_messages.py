"""Tests for the recovery after an actor dies with a message in its mailbox, or while another actor starts."""

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
ALL_RUNNING = ["RUNNING"] * 3


def set_frozen(scheduler: Scheduler, actor: str, *, frozen: bool = True) -> None:
    """Suspend or resume the actor with this name."""
    [address] = [candidate for candidate in scheduler.addresses() if candidate.name == actor]
    scheduler.freeze(address, frozen=frozen)


def last_state(worker: EmbeddedWorker, task: TaskId) -> str:
    """Return the latest state of a task in the status log, or an empty string after a tombstone."""
    records = [
        decode_status(record.key, record.value)
        for record in worker.status_log.read(0, worker.status_log.end())
    ]
    statuses = [
        record.status for record in records if isinstance(record, StatusRecord) and record.instance == task
    ]
    return "" if statuses[-1] is None else str(statuses[-1].state)


@pytest.mark.parametrize("reader", ["config reader", "status reader"])
@pytest.mark.parametrize("seed", SEEDS)
def test_task_started_during_a_replay_is_shown_running(seed: int, reader: str) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    worker.fake.lose("Spark's JVM ended (killed by signal 9)")
    worker.run()
    set_frozen(worker.scheduler, reader)
    worker.crash("herder")
    worker.advance(0.1)  # the worker has reported that instances wait for Spark
    worker.fake.recover()
    worker.run()
    set_frozen(worker.scheduler, reader, frozen=False)
    worker.run()
    assert worker.states(NAME) == ALL_RUNNING


@pytest.mark.parametrize("seed", SEEDS)
def test_task_stopped_during_a_replay_keeps_its_topics(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    worker.fake.feed(T0, 3)
    worker.run()
    topics = worker.snapshot.status.topics[NAME]
    set_frozen(worker.scheduler, "task numbers-0")
    restart = worker.assembly.herder.question(RestartTask(task=T0))
    worker.run()
    set_frozen(worker.scheduler, "config reader")
    worker.crash("herder")
    worker.advance(0.1)
    assert isinstance(restart.exception(timeout=0), KraalError)
    set_frozen(worker.scheduler, "task numbers-0", frozen=False)
    worker.run()  # the task is restarted
    set_frozen(worker.scheduler, "config reader", frozen=False)
    worker.run()
    assert worker.states(NAME) == ALL_RUNNING
    assert worker.snapshot.status.topics[NAME] == topics


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_restart_although_their_stop_statuses_are_lost(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    set_frozen(worker.scheduler, "status writer")
    worker.crash("status writer")
    worker.assembly.herder.question(PatchConfig(name=NAME, patch={"tasks.max": "3"}))
    worker.run()  # the tasks stop, and their statuses are queued behind the crash message
    set_frozen(worker.scheduler, "status writer", frozen=False)
    worker.advance(10)
    assert worker.states(NAME) == ["RUNNING"] * 4
    assert len(worker.fake.running) == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_task_configs_survive_the_death_of_the_worker_actor(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    creation = worker.assembly.herder.question(CreateConnector(name=NAME, config=CONFIG))
    worker.run_until(
        lambda: any(address.name == "connector numbers" for address in worker.scheduler.addresses())
    )
    set_frozen(worker.scheduler, "worker")
    worker.crash("worker")
    worker.run()  # messages of the connector are queued behind the crash message
    set_frozen(worker.scheduler, "worker", frozen=False)
    worker.advance(10)
    assert creation.done()
    assert worker.states(NAME) == ALL_RUNNING


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_running_status_is_rewritten(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    set_frozen(worker.scheduler, "status reader")
    worker.assembly.herder.question(RestartTask(task=T0))
    worker.run_until(lambda: last_state(worker, T0) != "RUNNING")
    set_frozen(worker.scheduler, "status writer")
    worker.crash("status writer")
    worker.run()  # RUNNING is queued behind the crash message, and UNASSIGNED has not been read back
    set_frozen(worker.scheduler, "status writer", frozen=False)
    worker.advance(0.1)
    set_frozen(worker.scheduler, "status reader", frozen=False)
    worker.advance(10)
    assert worker.states(NAME) == ALL_RUNNING


@pytest.mark.parametrize("seed", SEEDS)
def test_outdated_status_of_an_earlier_herder_is_rewritten(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    set_frozen(worker.scheduler, "status writer")
    worker.assembly.herder.question(RestartTask(task=T0))
    worker.run_until(lambda: worker.scheduler.trace[-1] == ("herder", "InstanceChanged"))
    set_frozen(worker.scheduler, "herder")
    worker.crash("herder")
    worker.run()  # the task starts, and its report to the herder is lost
    set_frozen(worker.scheduler, "herder", frozen=False)
    worker.advance(0.1)
    set_frozen(worker.scheduler, "status writer", frozen=False)
    worker.advance(10)
    assert worker.states(NAME) == ALL_RUNNING


@pytest.mark.parametrize("seed", SEEDS)
def test_unstarted_restarting_task_stays_restarting(seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(NAME, CONFIG)
    set_frozen(worker.scheduler, "supervisor")
    worker.assembly.herder.question(RestartConnector(name=NAME, include_tasks=True, only_failed=False))
    worker.run()  # the restarted actor waits for the supervisor and has reported nothing
    assert last_state(worker, T0) == "RESTARTING"
    worker.assembly.herder.tell(CompareStatuses())
    worker.run()
    assert last_state(worker, T0) == "RESTARTING"
    set_frozen(worker.scheduler, "supervisor", frozen=False)
    worker.run()
    assert worker.states(NAME) == ALL_RUNNING


def test_starting_task_has_no_status_after_a_comparison() -> None:
    worker = EmbeddedWorker()
    set_frozen(worker.scheduler, "offsets")
    worker.create(NAME, CONFIG)
    assert worker.states(NAME) == ["RUNNING"]
    worker.assembly.herder.tell(CompareStatuses())
    worker.run()
    assert worker.states(NAME) == ["RUNNING"]
    set_frozen(worker.scheduler, "offsets", frozen=False)
    worker.run()
    assert worker.states(NAME) == ALL_RUNNING


def test_restarting_states_of_an_earlier_herder_are_cleared() -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, CONFIG)
    set_frozen(worker.scheduler, "config reader")
    worker.assembly.herder.question(RestartConnector(name=NAME, include_tasks=True, only_failed=False))
    worker.run()
    set_frozen(worker.scheduler, "status writer")
    set_frozen(worker.scheduler, "config reader", frozen=False)
    worker.run_until(lambda: bool(worker.snapshot.restarting))
    set_frozen(worker.scheduler, "herder")
    worker.crash("herder")
    set_frozen(worker.scheduler, "status writer", frozen=False)
    worker.advance(30)  # the period in which RESTARTING is shown ends
    set_frozen(worker.scheduler, "herder", frozen=False)
    worker.advance(10)
    assert worker.states(NAME) == ALL_RUNNING


@pytest.mark.parametrize("seed", range(4))
def test_withheld_status_is_written_after_the_lease_is_renewed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = EmbeddedCluster(workers=1, seed=seed)
    cluster.settle()
    cluster.create(NAME, CONFIG)
    cluster.settle()
    generation = cluster.workers[0].snapshot.generation
    cluster.workers[0].assembly.herder.question(SetTargetState(name=NAME, target=TargetState.PAUSED))
    with monkeypatch.context() as patch:
        patch.setattr(lease, "LEASE_FRACTION", -1.0)  # as if the heartbeats were late
        cluster.scheduler.advance(2)
    cluster.scheduler.advance(10)
    assert cluster.states(NAME) == ["PAUSED"] * 3
    assert cluster.workers[0].snapshot.generation == generation


@pytest.mark.parametrize("seed", range(4))
def test_status_contains_the_new_owner_although_its_writer_died(seed: int) -> None:
    cluster = EmbeddedCluster(workers=2, seed=seed)
    cluster.settle()
    cluster.create(NAME, CONFIG)
    cluster.settle()
    new_owner = cluster.leader
    assert new_owner is not None
    [killed_worker] = [worker for worker in cluster.workers if worker is not new_owner]
    writer = new_owner._host.address("status writer")  # noqa: SLF001 - two actors of the scheduler have this name
    cluster.scheduler.freeze(writer)
    cluster.crash(new_owner, "status writer")
    cluster.kill(killed_worker)
    cluster.scheduler.advance(
        15
    )  # the work is reassigned, and its statuses are queued behind the crash message
    cluster.scheduler.freeze(writer, frozen=False)
    cluster.scheduler.advance(10)
    statuses = new_owner.snapshot.status.statuses[NAME]
    assert statuses.connector is not None
    assert {status.worker_id for status in (statuses.connector, *statuses.tasks.values())} == {
        new_owner.worker_id
    }


@pytest.mark.parametrize("actor", ["fencer", "herder"])
@pytest.mark.parametrize("seed", range(4))
def test_tasks_retry_fencing_after_the_death_of_an_actor(seed: int, actor: str) -> None:
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
