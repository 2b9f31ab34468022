"""Offsets in a cluster, under the seeded scheduler: KIP-875."""

from __future__ import annotations

from typing import Any

import pytest

from actors.messages.herder import CreateConnector, DeleteConnector, SetTargetState
from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowOffsets
from kraal.core.errors import AlreadyExists, BadRequest, KraalError, NotLeader, RetryableConflict, StoreError
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.offsets import Shown
from kraal.core.records import Entry
from kraal.protocol.records import ConnectorConfigRecord, TargetStateRecord, TaskCountRecord, encode
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE

X = ConnectorName("x")
T0 = TaskId(X, 0)
SEEDS = range(6)
SOURCE: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "4", "topics": "lines"}
SINK = {**SOURCE, "connector.class": FAKE_SINK}
GET = ShowOffsets(name=X)
RESET = ResetOffsets(name=X)
STOP = SetTargetState(name=X, target=TargetState.STOPPED)
RESUME = SetTargetState(name=X, target=TargetState.STARTED)
TO_7 = AlterOffsets(name=X, offsets=[({"task": "x-0"}, {"position": 7})])
SINK_TO_7 = AlterOffsets(
    name=X, offsets=[({"kafka_topic": "fake", "kafka_partition": 0}, {"kafka_offset": 7})]
)


def follower(cluster: EmbeddedCluster) -> ClusterWorker:
    return next(w for w in cluster.awake if w is not cluster.leader)


def shown(cluster: EmbeddedCluster, worker: ClusterWorker) -> list[tuple[Any, Any]]:
    pairs: Shown = cluster.ask(worker, GET)
    return list(pairs)


def running(seed: int, config: dict[str, str | None], *, transactional: bool = False) -> EmbeddedCluster:
    """Return three workers whose connector has read 25 records."""
    cluster = EmbeddedCluster(3, seed=seed, transactional=transactional)
    cluster.settle()
    cluster.create(X, config)
    cluster.settle()
    cluster.feed(T0, 25)
    cluster.advance(1)
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_get_any_worker_and_patch_and_delete_leader_only(seed: int) -> None:
    cluster = running(seed, SOURCE)
    pairs = [({"task": "x-0"}, {"position": 25})]
    assert [shown(cluster, w) for w in cluster.awake] == [pairs] * 3
    cluster.request(STOP)
    cluster.settle()
    for message in (TO_7, RESET):
        with pytest.raises(NotLeader) as caught:
            cluster.ask(follower(cluster), message)
        assert caught.value.leader_url == cluster.leader.url
    cluster.request(TO_7, follower(cluster))
    assert shown(cluster, follower(cluster)) == [({"task": "x-0"}, {"position": 7})]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("config", "to_7"), [(SOURCE, TO_7), (SINK, SINK_TO_7)], ids=["source", "sink"])
def test_a_modification_right_after_a_stop_is_not_overtaken(
    seed: int, config: dict[str, str | None], to_7: AlterOffsets
) -> None:
    cluster = running(seed, config)
    cluster.request(STOP)
    cluster.request(to_7)
    cluster.settle()
    cluster.request(RESUME)
    cluster.settle()
    cluster.advance(1)
    assert cluster.outside.written[T0] == [*range(25), *range(7, 25)]


def with_an_idle_leader(seed: int) -> EmbeddedCluster:
    """Return four workers whose leader has no work; the one task of x takes its time to stop."""
    cluster = EmbeddedCluster(4, seed=seed, stop_s=4.0)
    cluster.settle()
    names = [X, *(ConnectorName(f"other-{number}") for number in range(3))]
    for name in names:
        cluster.create(name, {**SOURCE, "tasks.max": "1"})
    cluster.settle()
    for name in names:
        if name != X:
            cluster.request(DeleteConnector(name=name))
    cluster.settle()
    return cluster


def running_when_stored(cluster: EmbeddedCluster) -> list[list[str]]:
    """Return a list that gets the workers that run the task of x whenever offsets are stored or read."""
    seen: list[list[str]] = []

    def note(_: str) -> None:
        seen.append([worker.name for worker in cluster.alive if T0 in worker.engine.running])

    cluster.offsets.fault = note
    return seen


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("message", [TO_7, RESET])
def test_a_modification_waits_for_tasks_that_stop_on_other_workers(
    seed: int, message: AlterOffsets | ResetOffsets
) -> None:
    cluster = with_an_idle_leader(seed)
    cluster.request(STOP)
    seen = running_when_stored(cluster)
    cluster.request(message)
    assert seen
    assert [each for each in seen if each] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_creation_with_offsets_waits_for_former_tasks_that_stop_on_other_workers(seed: int) -> None:
    cluster = with_an_idle_leader(seed)
    cluster.request(DeleteConnector(name=X))
    seen = running_when_stored(cluster)
    cluster.request(CreateConnector(name=X, config=SOURCE, initial_offsets=TO_7.offsets))
    assert seen
    assert [each for each in seen if each] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_rebalance_pending_409_momentarily_due_to_stale_configuration(seed: int) -> None:
    cluster = running(seed, SOURCE)
    cluster.ask(cluster.leader, STOP)
    assert cluster.leader.engine.running, "its tasks take a moment to stop"
    for message in (TO_7, RESET):
        with pytest.raises(RetryableConflict) as caught:
            cluster.ask(cluster.leader, message)
        assert str(caught.value) == (
            "Cannot complete request momentarily due to stale configuration "
            "(typically caused by a concurrent config change)"
        )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("message", [TO_7, RESET])
def test_read_config_to_end_before_the_checks(seed: int, message: AlterOffsets | ResetOffsets) -> None:
    cluster = running(seed, SOURCE)
    cluster.request(STOP)
    cluster.settle()
    leader = cluster.leader
    before = leader.snapshot.config.offset
    cluster.config_log.append([Entry(*encode(TargetStateRecord(X, TargetState.STARTED)))])
    assert leader.snapshot.config.offset == before, "it has not seen that"
    with pytest.raises(BadRequest, match="Connectors must be in the STOPPED state"):
        cluster.ask(leader, message)


@pytest.mark.parametrize("seed", SEEDS)
def test_500_when_the_config_cannot_be_read_to_its_end(seed: int) -> None:
    cluster = running(seed, SOURCE)
    cluster.request(STOP)
    cluster.settle()

    def fault(operation: str) -> None:
        if operation == "end":
            raise StoreError("no broker answers")

    cluster.config_log.fault = fault
    text = "^Failed to read to end of config topic before modifying connector offsets$"
    with pytest.raises(KraalError, match=text):
        cluster.ask(cluster.leader, TO_7)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_frozen_worker_s_sink_tasks_are_zombies_until_it_is_thawed(seed: int) -> None:
    cluster = running(seed, SINK)
    [owner] = cluster.owners(T0)
    cluster.freeze(owner)
    cluster.advance(10)
    cluster.request(STOP)
    cluster.advance(10)
    for message in (SINK_TO_7, RESET):
        with pytest.raises(KraalError, match="get rid of the zombie sink tasks") as caught:
            cluster.request(message)
        assert caught.value.status == 500
    cluster.thaw(owner)
    cluster.settle()
    cluster.request(SINK_TO_7)
    assert [pair[1] for pair in shown(cluster, cluster.leader)] == [{"kafka_offset": 7}]


# -- exactly once ------------------------------------------------------------------------------------------


def with_older_tasks(seed: int, config: dict[str, str | None]) -> EmbeddedCluster:
    """Return a cluster whose leader writes in transactions, and which has had two tasks of x that do."""
    cluster = running(seed, config, transactional=True)
    cluster.config_log.append([Entry(*encode(TaskCountRecord(X, 2)))])
    cluster.request(STOP)
    cluster.settle()
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("message", [TO_7, RESET])
def test_eos_source_fence_then_modify(seed: int, message: AlterOffsets | ResetOffsets) -> None:
    cluster = with_older_tasks(seed, SOURCE)
    stored_when_fenced: list[object] = []
    cluster.on_fence = lambda ids: stored_when_fenced.append((list(ids), dict(cluster.offsets.load(X))))
    before = dict(cluster.offsets.load(X))
    cluster.request(message)
    assert stored_when_fenced == [(["cluster-x-0", "cluster-x-1"], before)]
    assert dict(cluster.offsets.load(X)) != before
    cluster.request(message)
    assert len(stored_when_fenced) == 1, "they are fenced already"


@pytest.mark.parametrize("seed", SEEDS)
def test_fence_failure_error_and_nothing_modified(seed: int) -> None:
    cluster = with_older_tasks(seed, SOURCE)
    before = dict(cluster.offsets.load(X))

    def refuse(_: object) -> None:
        raise StoreError("not allowed")

    cluster.on_fence = refuse
    text = "^Failed to perform zombie fencing for source connector prior to modifying offsets$"
    with pytest.raises(KraalError, match=text) as caught:
        cluster.request(TO_7)
    assert caught.value.status == 500
    assert dict(cluster.offsets.load(X)) == before


CREATE = CreateConnector(
    name=X, config=SOURCE, initial_state=TargetState.STOPPED, initial_offsets=TO_7.offsets
)


def with_former_tasks(seed: int, *, transactional: bool = True) -> EmbeddedCluster:
    """Return a cluster that had two exactly-once tasks of x, which is deleted; its offsets are left."""
    cluster = running(seed, SOURCE, transactional=transactional)
    cluster.config_log.append([Entry(*encode(TaskCountRecord(X, 2)))])
    cluster.request(DeleteConnector(name=X))
    cluster.settle()
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_a_creation_with_offsets_fences_former_tasks_first(seed: int) -> None:
    cluster = with_former_tasks(seed)
    stored_when_fenced: list[object] = []
    cluster.on_fence = lambda ids: stored_when_fenced.append((list(ids), dict(cluster.offsets.load(X))))
    before = dict(cluster.offsets.load(X))
    assert before
    cluster.request(CREATE)
    cluster.settle()
    assert stored_when_fenced == [(["cluster-x-0", "cluster-x-1"], before)]
    assert shown(cluster, cluster.leader) == list(TO_7.offsets)


@pytest.mark.parametrize("seed", SEEDS)
def test_failed_fencing_of_former_tasks_prevents_creation(seed: int) -> None:
    cluster = with_former_tasks(seed)
    before = dict(cluster.offsets.load(X))

    def refuse(_: object) -> None:
        raise StoreError("not allowed")

    cluster.on_fence = refuse
    text = "^Failed to perform zombie fencing for source connector prior to modifying offsets$"
    for _ in range(2):
        with pytest.raises(KraalError, match=text) as caught:
            cluster.request(CREATE)
        assert caught.value.status == 500
    assert dict(cluster.offsets.load(X)) == before
    assert X not in cluster.leader.snapshot.config.connectors
    cluster.on_fence = lambda _: None
    cluster.request(CREATE)
    cluster.settle()
    assert shown(cluster, cluster.leader) == list(TO_7.offsets)


@pytest.mark.parametrize("actor", ["fencer", "herder"])
@pytest.mark.parametrize("seed", range(3))
def test_a_creation_ends_when_an_actor_dies_while_former_tasks_are_fenced(seed: int, actor: str) -> None:
    cluster = with_former_tasks(seed)
    leader = cluster.leader
    fencer = leader._host.address("fencer")  # noqa: SLF001 - which no test can freeze otherwise
    cluster.scheduler.freeze(fencer)
    if actor == "fencer":  # before it gets the request
        cluster.crash(leader, actor)
    under_way = leader.assembly.herder.question(CREATE)
    cluster.scheduler.advance(3)
    assert not under_way.done()
    if actor == "herder":
        cluster.crash(leader, actor)
    cluster.scheduler.advance(0.5)
    cluster.scheduler.freeze(fencer, frozen=False)
    cluster.run_until(under_way.done, timeout_s=10)
    assert under_way.exception() is not None
    cluster.request(CREATE)
    cluster.settle()
    assert shown(cluster, cluster.leader) == list(TO_7.offsets)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connector_that_comes_to_exist_while_former_tasks_are_fenced_keeps_its_offsets(seed: int) -> None:
    cluster = with_former_tasks(seed)
    before = dict(cluster.offsets.load(X))
    other = [Entry(*encode(ConnectorConfigRecord(X, {**SOURCE, "name": X})))]
    leader = cluster.leader
    fencer = leader._host.address("fencer")  # noqa: SLF001 - as above
    cluster.scheduler.freeze(fencer)
    under_way = leader.assembly.herder.question(CREATE)
    cluster.scheduler.advance(1)
    cluster.config_log.append(other)
    cluster.scheduler.advance(1)
    cluster.scheduler.freeze(fencer, frozen=False)
    cluster.run_until(under_way.done, timeout_s=10)
    assert isinstance(under_way.exception(), AlreadyExists)
    assert dict(cluster.offsets.load(X)) == before


def test_creation_fences_no_tasks_without_exactly_once_support() -> None:
    cluster = with_former_tasks(1, transactional=False)
    fenced: list[object] = []
    cluster.on_fence = fenced.append
    cluster.request(CREATE)
    assert fenced == []


def test_a_creation_of_a_sink_fences_no_former_source() -> None:
    cluster = with_former_tasks(1)
    fenced: list[object] = []
    cluster.on_fence = fenced.append
    cluster.request(
        CreateConnector(
            name=X, config=SINK, initial_state=TargetState.STOPPED, initial_offsets=SINK_TO_7.offsets
        )
    )
    assert fenced == []


def test_sinks_are_not_fenced() -> None:
    cluster = with_older_tasks(1, SINK)
    fenced: list[object] = []
    cluster.on_fence = fenced.append
    cluster.request(SINK_TO_7)
    assert fenced == []


@pytest.mark.parametrize("config", [SOURCE, SINK], ids=["source", "sink"])
@pytest.mark.parametrize("seed", SEEDS)
def test_initial_offsets_where_sources_write_exactly_once(seed: int, config: dict[str, str | None]) -> None:
    cluster = EmbeddedCluster(3, seed=seed, transactional=True)
    cluster.settle()
    alter = TO_7 if config is SOURCE else SINK_TO_7
    create = CreateConnector(
        name=X, config=config, initial_state=TargetState.STOPPED, initial_offsets=alter.offsets
    )
    with pytest.raises(NotLeader):
        cluster.ask(follower(cluster), create)

    def away(operation: str) -> None:
        if operation == "append":
            raise StoreError("the brokers are away")

    cluster.config_log.fault = away
    with pytest.raises(StoreError):
        cluster.ask(cluster.leader, create)
    cluster.config_log.fault = lambda _: None
    cluster.create(X, config, TargetState.STOPPED)
    cluster.settle()
    assert shown(cluster, cluster.leader) == []
    cluster.request(DeleteConnector(name=X))
    cluster.settle()
    text: str | None = cluster.ask(cluster.leader, create)
    assert (text or "").startswith(
        "The Connect framework-managed offsets for this connector have been altered"
    )
    cluster.settle()
    assert shown(cluster, follower(cluster)) == list(alter.offsets)
