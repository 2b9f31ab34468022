"""Tests for the startup of source tasks with exactly-once support, and for the fencing of producers (KIP-618)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest

from actors.messages.claims import VerifyTask
from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    FenceZombies,
    PutConfig,
    PutTaskConfigs,
    RestartTask,
    SetTargetState,
)
from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowOffsets
from kraal.core.errors import Conflict, Fenced, KraalError, StoreError, StoreUnavailable
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.offsets import OffsetPairs
from kraal.core.records import Entry
from kraal.protocol.records import TaskCountRecord, decode, encode
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.engine import make_partition
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.transactions import FakeTransactions

X = ConnectorName("x")
T0, T1 = TaskId(X, 0), TaskId(X, 1)
SEEDS = range(6)


def create_cluster(seed: int, workers: int = 3) -> tuple[EmbeddedCluster, FakeTransactions]:
    cluster = EmbeddedCluster(workers, seed=seed, exactly_once=True)
    cluster.settle()
    assert cluster.transactions is not None
    return cluster, cluster.transactions


def config(tasks: int, plugin: str = FAKE_SOURCE) -> dict[str, str | None]:
    return {"connector.class": plugin, "tasks.max": str(tasks), "topics": "lines"}


def written_task_counts(cluster: EmbeddedCluster) -> list[int]:
    """Return the task counts that the leader wrote to the config topic, in order."""
    records = [decode(r.key, r.value) for r in cluster.config_log.read(0, 10_000)]
    return [record.tasks for record in records if isinstance(record, TaskCountRecord)]


def put_task_configs(count: int) -> PutTaskConfigs:
    """Return the message in which the owner of x sends generated task configs to the leader."""
    return PutTaskConfigs(name=X, configs=[{"number": str(number)} for number in range(count)])


def stored_positions(cluster: EmbeddedCluster) -> list[object]:
    return [offset["position"] for offset in cluster.offsets.load(X).values()]


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_claim_their_producers_and_store_offsets_with_records(seed: int) -> None:
    cluster, transactions = create_cluster(seed)
    cluster.create(X, config(3))
    cluster.settle()
    assert sorted(transactions.claimed) == [TaskId(X, n) for n in range(3)]
    assert written_task_counts(cluster) == [3]
    cluster.feed(T0, 25)
    cluster.advance(1)
    assert stored_positions(cluster) == [25]
    assert cluster.outside.written[T0] == list(range(25))


@pytest.mark.parametrize("seed", SEEDS)
def test_reducing_the_tasks_fences_the_producers_of_all_previous_tasks(seed: int) -> None:
    cluster, transactions = create_cluster(seed)
    cluster.create(X, config(3))
    cluster.settle()
    fenced_ids: list[list[str]] = []

    def fence(ids: object) -> None:
        fenced_ids.append(list(ids))  # type: ignore[call-overload]
        transactions.fence(fenced_ids[-1])

    cluster.on_fence = fence
    cluster.request(PutConfig(name=X, config=config(1)))
    cluster.settle()
    assert fenced_ids == [["cluster-x-0", "cluster-x-1", "cluster-x-2"]]
    assert written_task_counts(cluster) == [3, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_sink_tasks_are_not_claimed(seed: int) -> None:
    cluster, transactions = create_cluster(seed)
    cluster.create(X, config(2, FAKE_SINK))
    cluster.settle()
    assert transactions.claimed == []
    assert written_task_counts(cluster) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_fenced_task_fails_and_continues_after_a_restart(seed: int) -> None:
    cluster, transactions = create_cluster(seed)
    cluster.create(X, config(1))
    cluster.settle()
    cluster.feed(T0, 5)
    cluster.advance(1)
    transactions.claim(T0, {})
    cluster.feed(T0, 5)
    cluster.advance(1)
    assert cluster.states(X) == ["RUNNING", "FAILED"]
    assert stored_positions(cluster) == [5]
    cluster.request(RestartTask(task=T0))
    cluster.settle()
    assert cluster.outside.written[T0] == list(range(10)), "no record is duplicated"


@pytest.mark.parametrize("seed", SEEDS)
def test_failed_zombie_fencing_fails_the_task(seed: int) -> None:
    cluster, _ = create_cluster(seed)
    cluster.config_log.append([Entry(*encode(TaskCountRecord(X, 2)))])

    def refuse(_: object) -> None:
        raise StoreError("not allowed")

    cluster.on_fence = refuse
    cluster.create(X, config(1))
    cluster.advance(10)
    assert cluster.states(X) == ["RUNNING", "FAILED"]
    status = cluster.leader.snapshot.status.statuses[X].tasks[0]
    assert "Failed to perform zombie fencing: not allowed" in (status.trace or "")


@pytest.mark.parametrize("seed", SEEDS)
def test_fencing_is_retried_if_the_task_count_is_not_written(seed: int) -> None:
    cluster, transactions = create_cluster(seed)
    cluster.create(X, config(2))
    cluster.settle()
    failures: list[str] = []

    def fault(operation: str) -> None:
        if operation == "append" and not failures:
            failures.append(operation)
            raise StoreError("the brokers are unavailable")

    def fence(ids: Sequence[str]) -> None:
        transactions.fence(ids)
        cluster.config_log.fault = fault

    cluster.on_fence = fence
    cluster.request(PutConfig(name=X, config=config(1)))
    cluster.settle()
    assert failures == ["append"]
    assert written_task_counts(cluster) == [2, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_claim_is_retried_after_a_retriable_error(seed: int) -> None:
    cluster, transactions = create_cluster(seed)

    def raise_unavailable(_: TaskId) -> None:
        raise StoreUnavailable("no broker is available")

    transactions.on_claim = raise_unavailable
    cluster.create(X, config(1))
    cluster.advance(5)
    assert cluster.states(X) == ["RUNNING", "UNASSIGNED"]
    transactions.on_claim = lambda _: None
    cluster.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_task_stopped_while_waiting_does_not_claim(seed: int) -> None:
    cluster, transactions = create_cluster(seed)

    def raise_unavailable(_: TaskId) -> None:
        raise StoreUnavailable("no broker is available")

    transactions.on_claim = raise_unavailable
    cluster.create(X, config(1))
    cluster.advance(5)
    cluster.request(SetTargetState(name=X, target=TargetState.STOPPED))
    cluster.settle()
    transactions.on_claim = lambda _: None
    cluster.advance(200)
    assert transactions.claimed == []


@pytest.mark.parametrize("seed", SEEDS)
def test_claims_of_revoked_or_outdated_tasks_are_rejected(seed: int) -> None:
    cluster, _ = create_cluster(seed)
    cluster.create(X, config(2))
    cluster.settle()
    [owner] = cluster.owners(T0)
    other_worker = next(w for w in cluster.awake if w is not owner)
    version = owner.snapshot.config.connectors[X].tasks_version
    cluster.ask(owner, VerifyTask(task=T0, version=version))
    text = "^Cannot start source task x-0 as it has already been revoked from this worker$"
    with pytest.raises(KraalError, match=text):
        cluster.ask(other_worker, VerifyTask(task=T0, version=version))
    text = (
        "^Cannot start source task x-0 with exactly-once support as the connector has already generated a new set of "
        "task configs$"
    )
    with pytest.raises(KraalError, match=text):
        cluster.ask(owner, VerifyTask(task=T0, version=version - 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_fencing_round_does_not_cover_unread_task_configs(seed: int) -> None:
    cluster, _ = create_cluster(seed)
    cluster.create(X, config(2))
    cluster.settle()
    # The owner of a paused connector writes no task configs.
    cluster.request(SetTargetState(name=X, target=TargetState.PAUSED))
    cluster.settle()
    leader = cluster.leader
    fencer, reader = (leader._host.address(name) for name in ("fencer", "config reader"))  # noqa: SLF001 - to freeze them
    cluster.ask(leader, put_task_configs(3))
    cluster.settle()
    cluster.scheduler.freeze(fencer)
    fencing_request = leader.assembly.herder.question(FenceZombies(name=X))
    cluster.advance(0.1)
    cluster.scheduler.freeze(reader)
    leader.assembly.herder.question(put_task_configs(4))
    cluster.advance(0.1)
    cluster.scheduler.freeze(fencer, frozen=False)
    cluster.advance(0.1)
    cluster.scheduler.freeze(reader, frozen=False)
    cluster.run_until(fencing_request.done, timeout_s=10)
    assert isinstance(fencing_request.exception(), Conflict)
    cluster.settle()
    assert cluster.leader.snapshot.config.connectors[X].pending_fencing
    cluster.request(FenceZombies(name=X))
    assert written_task_counts(cluster)[-1] == 4


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_are_altered_through_the_producer_of_the_first_task(seed: int) -> None:
    cluster, transactions = create_cluster(seed)
    cluster.create(X, config(1))
    cluster.settle()
    cluster.feed(T0, 25)
    cluster.advance(1)
    cluster.request(SetTargetState(name=X, target=TargetState.STOPPED))
    cluster.settle()
    earlier_claim_count = len(transactions.claimed)
    cluster.request(AlterOffsets(name=X, offsets=[({"task": "x-0"}, {"position": 7})]))
    assert transactions.claimed[earlier_claim_count:] == [T0]
    pairs: OffsetPairs = cluster.ask(cluster.leader, ShowOffsets(name=X))
    assert list(pairs) == [({"task": "x-0"}, {"position": 7})]
    cluster.request(ResetOffsets(name=X))
    assert transactions.claimed[earlier_claim_count:] == [T0, T0]
    assert stored_positions(cluster) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("state", [TargetState.STARTED, TargetState.STOPPED])
def test_frozen_previous_tasks_do_not_overwrite_initial_offsets(seed: int, state: TargetState) -> None:
    cluster, _ = create_cluster(seed)
    cluster.create(X, config(6))
    cluster.settle()
    frozen_worker = next(w for w in cluster.awake if w is not cluster.leader)
    previous_runs = {
        task: frozen_worker.engine.find_run(task) for task in sorted(frozen_worker.engine.running)
    }
    cluster.freeze(frozen_worker)
    cluster.request(DeleteConnector(name=X))
    cluster.advance(30)  # the group removes the frozen worker
    offsets = [({"task": f"x-{number}"}, {"position": 7}) for number in range(6)]
    create = CreateConnector(name=X, config=config(6), initial_state=state, initial_offsets=offsets)
    creation = cluster.leader.assembly.herder.question(create)
    committed_tasks: list[TaskId] = []
    while previous_runs:
        if not cluster.scheduler.step():
            cluster.advance(0.05)
        if cluster.random.random() < (0.3 if cluster.offsets.load(X) else 0.01):
            task, run = previous_runs.popitem()  # the run continues although its worker is frozen
            assert run is not None
            assert run.spec.transactions is not None
            with contextlib.suppress(Fenced):
                run.spec.transactions.commit({make_partition(task): {"position": 99}})
                committed_tasks.append(task)
    cluster.run_until(creation.done, timeout_s=10)
    creation.result()
    cluster.advance(5)
    pairs: OffsetPairs = cluster.ask(cluster.leader, ShowOffsets(name=X))
    assert sorted(pairs, key=str) == offsets, f"overwritten by {committed_tasks}"


@pytest.mark.parametrize("seed", range(12))
def test_killed_workers_write_no_duplicates(seed: int) -> None:
    cluster, _ = create_cluster(seed, workers=2)
    cluster.create(X, config(2))
    cluster.settle()
    for number in range(1, 4):
        cluster.feed(T0, 15)
        cluster.feed(T1, 15)
        cluster.advance(cluster.random.uniform(0, 0.2))
        cluster.kill(cluster.owners(T0)[0])
        cluster.add()
        cluster.settle(within_s=60)
        cluster.advance(1)
        assert cluster.outside.written[T0] == cluster.outside.written[T1] == list(range(15 * number))
