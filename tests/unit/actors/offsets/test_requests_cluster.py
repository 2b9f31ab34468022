"""Tests for offset requests (KIP-875) in a cluster, under the seeded scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from actors.messages.herder import CreateConnector, DeleteConnector, SetTargetState
from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowOffsets
from kraal.core.errors import AlreadyExists, BadRequest, KraalError, NotLeader, RetryableConflict, StoreError
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.offsets import OffsetPairs
from kraal.core.records import Entry
from kraal.protocol.records import ConnectorConfigRecord, TargetStateRecord, TaskCountRecord, encode
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE

X = ConnectorName("x")
T0 = TaskId(X, 0)
SEEDS = range(6)
SOURCE_CONFIG: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "4", "topics": "lines"}
SINK_CONFIG = {**SOURCE_CONFIG, "connector.class": FAKE_SINK}
GET = ShowOffsets(name=X)
RESET = ResetOffsets(name=X)
STOP = SetTargetState(name=X, target=TargetState.STOPPED)
RESUME = SetTargetState(name=X, target=TargetState.STARTED)
ALTER_TO_7 = AlterOffsets(name=X, offsets=[({"task": "x-0"}, {"position": 7})])
ALTER_SINK_TO_7 = AlterOffsets(
    name=X, offsets=[({"kafka_topic": "fake", "kafka_partition": 0}, {"kafka_offset": 7})]
)


def follower(cluster: EmbeddedCluster) -> ClusterWorker:
    return next(w for w in cluster.awake if w is not cluster.leader)


def current_offsets(cluster: EmbeddedCluster, worker: ClusterWorker) -> list[tuple[Any, Any]]:
    pairs: OffsetPairs = cluster.ask(worker, GET)
    return list(pairs)


def cluster_with_connector(
    seed: int, config: dict[str, str | None], *, transactional: bool = False
) -> EmbeddedCluster:
    """Return a cluster of three workers whose connector has read 25 records."""
    cluster = EmbeddedCluster(3, seed=seed, transactional=transactional)
    cluster.settle()
    cluster.create(X, config)
    cluster.settle()
    cluster.feed(T0, 25)
    cluster.advance(1)
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_are_readable_on_any_worker_and_modified_by_the_leader(seed: int) -> None:
    cluster = cluster_with_connector(seed, SOURCE_CONFIG)
    pairs = [({"task": "x-0"}, {"position": 25})]
    assert [current_offsets(cluster, w) for w in cluster.awake] == [pairs] * 3
    cluster.request(STOP)
    cluster.settle()
    for message in (ALTER_TO_7, RESET):
        with pytest.raises(NotLeader) as error_info:
            cluster.ask(follower(cluster), message)
        assert error_info.value.leader_url == cluster.leader.url
    cluster.request(ALTER_TO_7, follower(cluster))
    assert current_offsets(cluster, follower(cluster)) == [({"task": "x-0"}, {"position": 7})]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("config", "alter_to_7"),
    [(SOURCE_CONFIG, ALTER_TO_7), (SINK_CONFIG, ALTER_SINK_TO_7)],
    ids=["source", "sink"],
)
def test_modification_directly_after_a_stop_waits(
    seed: int, config: dict[str, str | None], alter_to_7: AlterOffsets
) -> None:
    cluster = cluster_with_connector(seed, config)
    cluster.request(STOP)
    cluster.request(alter_to_7)
    cluster.settle()
    cluster.request(RESUME)
    cluster.settle()
    cluster.advance(1)
    assert cluster.outside.written[T0] == [*range(25), *range(7, 25)]


def cluster_with_idle_leader(seed: int) -> EmbeddedCluster:
    """Return a cluster of four workers whose leader is idle, with a task of x that stops slowly."""
    cluster = EmbeddedCluster(4, seed=seed, stop_s=4.0)
    cluster.settle()
    names = [X, *(ConnectorName(f"other-{number}") for number in range(3))]
    for name in names:
        cluster.create(name, {**SOURCE_CONFIG, "tasks.max": "1"})
    cluster.settle()
    for name in names:
        if name != X:
            cluster.request(DeleteConnector(name=name))
    cluster.settle()
    return cluster


def record_running_tasks(cluster: EmbeddedCluster) -> list[list[str]]:
    """Return a list to which each read or write of offsets appends the names of the workers that run the task of x."""
    owners: list[list[str]] = []

    def record_owners(_: str) -> None:
        owners.append([worker.name for worker in cluster.alive if T0 in worker.engine.running])

    cluster.offsets.fault = record_owners
    return owners


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("message", [ALTER_TO_7, RESET])
def test_modification_waits_for_stopping_tasks_of_other_workers(
    seed: int, message: AlterOffsets | ResetOffsets
) -> None:
    cluster = cluster_with_idle_leader(seed)
    cluster.request(STOP)
    owners = record_running_tasks(cluster)
    cluster.request(message)
    assert owners
    assert [names for names in owners if names] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_creation_with_offsets_waits_for_stopping_previous_tasks(seed: int) -> None:
    cluster = cluster_with_idle_leader(seed)
    cluster.request(DeleteConnector(name=X))
    owners = record_running_tasks(cluster)
    cluster.request(CreateConnector(name=X, config=SOURCE_CONFIG, initial_offsets=ALTER_TO_7.offsets))
    assert owners
    assert [names for names in owners if names] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_modification_returns_409_while_a_rebalance_is_pending(seed: int) -> None:
    cluster = cluster_with_connector(seed, SOURCE_CONFIG)
    cluster.ask(cluster.leader, STOP)
    assert cluster.leader.engine.running, "the tasks of x stop slowly"
    for message in (ALTER_TO_7, RESET):
        with pytest.raises(RetryableConflict) as error_info:
            cluster.ask(cluster.leader, message)
        assert str(error_info.value) == (
            "Cannot complete request momentarily due to stale configuration "
            "(typically caused by a concurrent config change)"
        )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("message", [ALTER_TO_7, RESET])
def test_config_is_read_to_its_end_before_the_checks(seed: int, message: AlterOffsets | ResetOffsets) -> None:
    cluster = cluster_with_connector(seed, SOURCE_CONFIG)
    cluster.request(STOP)
    cluster.settle()
    leader = cluster.leader
    read_offset = leader.snapshot.config.offset
    cluster.config_log.append([Entry(*encode(TargetStateRecord(X, TargetState.STARTED)))])
    assert leader.snapshot.config.offset == read_offset, "the leader has not read that record"
    with pytest.raises(BadRequest, match="Connectors must be in the STOPPED state"):
        cluster.ask(leader, message)


@pytest.mark.parametrize("seed", SEEDS)
def test_unreadable_config_fails_the_request(seed: int) -> None:
    cluster = cluster_with_connector(seed, SOURCE_CONFIG)
    cluster.request(STOP)
    cluster.settle()

    def fault(operation: str) -> None:
        if operation == "end":
            raise StoreError("no broker is available")

    cluster.config_log.fault = fault
    text = "^Failed to read to end of config topic before modifying connector offsets$"
    with pytest.raises(KraalError, match=text):
        cluster.ask(cluster.leader, ALTER_TO_7)


@pytest.mark.parametrize("seed", SEEDS)
def test_frozen_sink_tasks_are_zombies_until_thawed(seed: int) -> None:
    cluster = cluster_with_connector(seed, SINK_CONFIG)
    [owner] = cluster.owners(T0)
    cluster.freeze(owner)
    cluster.advance(10)
    cluster.request(STOP)
    cluster.advance(10)
    for message in (ALTER_SINK_TO_7, RESET):
        with pytest.raises(KraalError, match="get rid of the zombie sink tasks") as error_info:
            cluster.request(message)
        assert error_info.value.status == 500
    cluster.thaw(owner)
    cluster.settle()
    cluster.request(ALTER_SINK_TO_7)
    assert [pair[1] for pair in current_offsets(cluster, cluster.leader)] == [{"kafka_offset": 7}]


# -- exactly once ------------------------------------------------------------------------------------------


def cluster_with_older_tasks(seed: int, config: dict[str, str | None]) -> EmbeddedCluster:
    """Return a cluster with a transactional leader and a record of two earlier exactly-once tasks of x."""
    cluster = cluster_with_connector(seed, config, transactional=True)
    cluster.config_log.append([Entry(*encode(TaskCountRecord(X, 2)))])
    cluster.request(STOP)
    cluster.settle()
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("message", [ALTER_TO_7, RESET])
def test_exactly_once_source_is_fenced_before_a_modification(
    seed: int, message: AlterOffsets | ResetOffsets
) -> None:
    cluster = cluster_with_older_tasks(seed, SOURCE_CONFIG)
    fencing_calls: list[object] = []
    cluster.on_fence = lambda ids: fencing_calls.append((list(ids), dict(cluster.offsets.load(X))))
    offsets_before = dict(cluster.offsets.load(X))
    cluster.request(message)
    assert fencing_calls == [(["cluster-x-0", "cluster-x-1"], offsets_before)]
    assert dict(cluster.offsets.load(X)) != offsets_before
    cluster.request(message)
    assert len(fencing_calls) == 1, "the producers are already fenced"


@pytest.mark.parametrize("seed", SEEDS)
def test_failed_fencing_prevents_a_modification(seed: int) -> None:
    cluster = cluster_with_older_tasks(seed, SOURCE_CONFIG)
    offsets_before = dict(cluster.offsets.load(X))

    def refuse(_: object) -> None:
        raise StoreError("not allowed")

    cluster.on_fence = refuse
    text = "^Failed to perform zombie fencing for source connector prior to modifying offsets$"
    with pytest.raises(KraalError, match=text) as error_info:
        cluster.request(ALTER_TO_7)
    assert error_info.value.status == 500
    assert dict(cluster.offsets.load(X)) == offsets_before


CREATE = CreateConnector(
    name=X, config=SOURCE_CONFIG, initial_state=TargetState.STOPPED, initial_offsets=ALTER_TO_7.offsets
)


def cluster_with_previous_tasks(seed: int, *, transactional: bool = True) -> EmbeddedCluster:
    """Return a cluster that had two exactly-once tasks of the deleted connector x, whose offsets remain."""
    cluster = cluster_with_connector(seed, SOURCE_CONFIG, transactional=transactional)
    cluster.config_log.append([Entry(*encode(TaskCountRecord(X, 2)))])
    cluster.request(DeleteConnector(name=X))
    cluster.settle()
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_creation_with_offsets_fences_previous_tasks_first(seed: int) -> None:
    cluster = cluster_with_previous_tasks(seed)
    fencing_calls: list[object] = []
    cluster.on_fence = lambda ids: fencing_calls.append((list(ids), dict(cluster.offsets.load(X))))
    offsets_before = dict(cluster.offsets.load(X))
    assert offsets_before
    cluster.request(CREATE)
    cluster.settle()
    assert fencing_calls == [(["cluster-x-0", "cluster-x-1"], offsets_before)]
    assert current_offsets(cluster, cluster.leader) == list(ALTER_TO_7.offsets)


@pytest.mark.parametrize("seed", SEEDS)
def test_failed_fencing_of_previous_tasks_prevents_creation(seed: int) -> None:
    cluster = cluster_with_previous_tasks(seed)
    offsets_before = dict(cluster.offsets.load(X))

    def refuse(_: object) -> None:
        raise StoreError("not allowed")

    cluster.on_fence = refuse
    text = "^Failed to perform zombie fencing for source connector prior to modifying offsets$"
    for _ in range(2):
        with pytest.raises(KraalError, match=text) as error_info:
            cluster.request(CREATE)
        assert error_info.value.status == 500
    assert dict(cluster.offsets.load(X)) == offsets_before
    assert X not in cluster.leader.snapshot.config.connectors
    cluster.on_fence = lambda _: None
    cluster.request(CREATE)
    cluster.settle()
    assert current_offsets(cluster, cluster.leader) == list(ALTER_TO_7.offsets)


@pytest.mark.parametrize("actor", ["fencer", "herder"])
@pytest.mark.parametrize("seed", range(3))
def test_creation_can_be_retried_after_an_actor_death_during_fencing(seed: int, actor: str) -> None:
    cluster = cluster_with_previous_tasks(seed)
    leader = cluster.leader
    fencer = leader._host.address("fencer")  # noqa: SLF001 - to freeze it
    cluster.scheduler.freeze(fencer)
    if actor == "fencer":  # the fencer dies before the leader receives the request
        cluster.crash(leader, actor)
    creation = leader.assembly.herder.question(CREATE)
    cluster.scheduler.advance(3)
    assert not creation.done()
    if actor == "herder":
        cluster.crash(leader, actor)
    cluster.scheduler.advance(0.5)
    cluster.scheduler.freeze(fencer, frozen=False)
    cluster.run_until(creation.done, timeout_s=10)
    assert creation.exception() is not None
    cluster.request(CREATE)
    cluster.settle()
    assert current_offsets(cluster, cluster.leader) == list(ALTER_TO_7.offsets)


@pytest.mark.parametrize("seed", SEEDS)
def test_connector_created_during_fencing_keeps_its_offsets(seed: int) -> None:
    cluster = cluster_with_previous_tasks(seed)
    offsets_before = dict(cluster.offsets.load(X))
    config_entries = [Entry(*encode(ConnectorConfigRecord(X, {**SOURCE_CONFIG, "name": X})))]
    leader = cluster.leader
    fencer = leader._host.address("fencer")  # noqa: SLF001 - as above
    cluster.scheduler.freeze(fencer)
    creation = leader.assembly.herder.question(CREATE)
    cluster.scheduler.advance(1)
    cluster.config_log.append(config_entries)
    cluster.scheduler.advance(1)
    cluster.scheduler.freeze(fencer, frozen=False)
    cluster.run_until(creation.done, timeout_s=10)
    assert isinstance(creation.exception(), AlreadyExists)
    assert dict(cluster.offsets.load(X)) == offsets_before


def test_creation_fences_no_tasks_without_exactly_once_support() -> None:
    cluster = cluster_with_previous_tasks(1, transactional=False)
    fenced_ids: list[object] = []
    cluster.on_fence = fenced_ids.append
    cluster.request(CREATE)
    assert fenced_ids == []


def test_creation_of_a_sink_fences_no_previous_source() -> None:
    cluster = cluster_with_previous_tasks(1)
    fenced_ids: list[object] = []
    cluster.on_fence = fenced_ids.append
    cluster.request(
        CreateConnector(
            name=X,
            config=SINK_CONFIG,
            initial_state=TargetState.STOPPED,
            initial_offsets=ALTER_SINK_TO_7.offsets,
        )
    )
    assert fenced_ids == []


def test_sinks_are_not_fenced() -> None:
    cluster = cluster_with_older_tasks(1, SINK_CONFIG)
    fenced_ids: list[object] = []
    cluster.on_fence = fenced_ids.append
    cluster.request(ALTER_SINK_TO_7)
    assert fenced_ids == []


@pytest.mark.parametrize("config", [SOURCE_CONFIG, SINK_CONFIG], ids=["source", "sink"])
@pytest.mark.parametrize("seed", SEEDS)
def test_initial_offsets_are_stored_only_if_the_creation_succeeds(
    seed: int, config: dict[str, str | None]
) -> None:
    cluster = EmbeddedCluster(3, seed=seed, transactional=True)
    cluster.settle()
    alter = ALTER_TO_7 if config is SOURCE_CONFIG else ALTER_SINK_TO_7
    create = CreateConnector(
        name=X, config=config, initial_state=TargetState.STOPPED, initial_offsets=alter.offsets
    )
    with pytest.raises(NotLeader):
        cluster.ask(follower(cluster), create)

    def raise_unavailable(operation: str) -> None:
        if operation == "append":
            raise StoreError("the brokers are unavailable")

    cluster.config_log.fault = raise_unavailable
    with pytest.raises(StoreError):
        cluster.ask(cluster.leader, create)
    cluster.config_log.fault = lambda _: None
    cluster.create(X, config, TargetState.STOPPED)
    cluster.settle()
    assert current_offsets(cluster, cluster.leader) == []
    cluster.request(DeleteConnector(name=X))
    cluster.settle()
    text: str | None = cluster.ask(cluster.leader, create)
    assert (text or "").startswith(
        "The Connect framework-managed offsets for this connector have been altered"
    )
    cluster.settle()
    assert current_offsets(cluster, follower(cluster)) == list(alter.offsets)
