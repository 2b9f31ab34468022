"""A member of a real Kafka group whose hooks record their calls."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from kraal.core.ids import ConnectorName
from kraal.kafka.group import KafkaGroup
from kraal.protocol.group import (
    ConnectorOrTask,
    ConnectProtocol,
    GroupAssignment,
    GroupProtocol,
    Offer,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    make_offers,
)
from kraal.stores.group_api import GroupOptions


@dataclass(frozen=True, slots=True)
class CompletedJoin:
    """A completed join."""

    protocol: str
    generation: int
    member_id: str
    assignment: GroupAssignment
    at_s: float


@dataclass(slots=True)
class Hooks:
    """Hooks that record the calls of the group."""

    name: str
    protocol: ConnectProtocol
    changed: threading.Condition = field(default_factory=threading.Condition)
    offset: int = 0
    """Config offset in the metadata. `request_rebalance` changes it, because equal metadata causes no rebalance."""
    joins: list[CompletedJoin] = field(default_factory=list)
    plans: list[frozenset[str]] = field(default_factory=list)
    """The URLs of the members for each rebalance that this member led."""
    prepare_calls: list[tuple[bool, float]] = field(default_factory=list)
    """The arguments of the calls of `prepare`."""
    loss_reasons: list[str] = field(default_factory=list)
    hold: Future[None] | None = None
    """The future for which the next joins wait."""

    def prepare(self, *, expelled: bool, away_s: float) -> Future[None]:
        with self.changed:
            self.prepare_calls.append((expelled, away_s))
            self.changed.notify_all()
        if self.hold is not None:
            return self.hold
        ready: Future[None] = Future()
        ready.set_result(None)
        return ready

    def offers(self) -> Sequence[Offer]:
        return make_offers(self.protocol, f"http://{self.name}/", self.offset, None)

    def plan(
        self,
        *,
        protocol: str,
        leader: str,
        members: Mapping[str, bytes],
        generation: int,
        last_completed_generation: int,
    ) -> Mapping[str, bytes]:
        """Assign each member one task, numbered by the member's index."""
        assert last_completed_generation < generation
        metadata_by_member = {member: decode_metadata(data) for member, data in members.items()}
        self.plans.append(frozenset(metadata.url for metadata in metadata_by_member.values()))
        return {
            member: encode_assignment(
                GroupAssignment(
                    version=GroupProtocol(protocol).version,
                    leader=leader,
                    leader_url=metadata_by_member[leader].url,
                    config_offset=max(metadata.config_offset for metadata in metadata_by_member.values()),
                    assigned=(ConnectorOrTask(ConnectorName("c"), number),),
                )
            )
            for number, member in enumerate(sorted(metadata_by_member))
        }

    def on_joined(self, *, protocol: str, generation: int, member_id: str, assignment: bytes) -> None:
        decoded_assignment = decode_assignment(assignment)
        with self.changed:
            self.joins.append(
                CompletedJoin(protocol, generation, member_id, decoded_assignment, time.monotonic())
            )
            self.changed.notify_all()

    def on_lost(self, reason: str) -> None:
        with self.changed:
            self.loss_reasons.append(reason)
            self.changed.notify_all()

    def wait(self, condition: Callable[[Hooks], bool], within_s: float = 30.0) -> None:
        """Wait until a condition on the recorded calls is true. Raises AssertionError."""
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), within_s), self

    def wait_for_generation(self, generation: int, within_s: float) -> None:
        self.wait(lambda hooks: hooks.generation >= generation, within_s)

    @property
    def generation(self) -> int:
        return self.joins[-1].generation if self.joins else -1


class KafkaMember:
    """A KafkaGroup with its hooks."""

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        name: str,
        protocol: ConnectProtocol = ConnectProtocol.SESSIONED,
        *,
        session_timeout_s: float = 6.0,
        rebalance_timeout_s: float = 15.0,
        **client: object,
    ) -> None:
        """Join the group."""
        options = GroupOptions(
            group_id=group_id,
            session_timeout_s=session_timeout_s,
            rebalance_timeout_s=rebalance_timeout_s,
            heartbeat_interval_s=2.0,
        )
        self.name = name
        self.hooks = Hooks(name, protocol)
        self.group = KafkaGroup(options, {"bootstrap_servers": bootstrap, "client_id": name, **client})
        self.group.start(self.hooks)
        self.is_killed = False

    def kill(self) -> None:
        """Stop without leaving the group, like kill -9."""
        self.is_killed = True
        driver = self.group._driver
        assert driver is not None
        driver._net.stop()

    def break_connection(self) -> None:
        """Break the connection to the coordinator."""
        driver = self.group._driver
        assert driver is not None
        node = driver.coordinator.coordinator_id
        driver._net.call_soon_threadsafe(lambda: driver._manager.close(node_id=node))

    def request_rebalance(self) -> float:
        """Rejoin with changed metadata; return the monotonic time of the request."""
        self.hooks.offset += 1
        start_s = time.monotonic()
        self.group.rejoin("requested by a test")
        return start_s

    @property
    def is_leader(self) -> bool:
        last_join = self.hooks.joins[-1]
        return last_join.assignment.leader == last_join.member_id


def await_round(members: Sequence[KafkaMember], after: int, within_s: float = 30.0) -> int:
    """Wait until all members are in the same generation, later than `after`; return this generation."""
    deadline = time.monotonic() + within_s
    while True:
        generations = [member.hooks.generation for member in members]
        generation = max([*generations, after + 1])
        for member in members:
            member.hooks.wait_for_generation(generation, max(0.1, deadline - time.monotonic()))
        if {member.hooks.generation for member in members} == {generation}:
            return generation


def joined_after_s(members: Sequence[KafkaMember], start_s: float) -> float:
    """Return the seconds from `start_s` until the last member joined the current generation."""
    return max(member.hooks.joins[-1].at_s for member in members) - start_s


def close_all(members: Sequence[KafkaMember]) -> None:
    for member in members:
        if not member.is_killed:
            member.group.close(5)
            assert member.group.heartbeat_age_s() == math.inf
        else:
            member.group._client.close()
