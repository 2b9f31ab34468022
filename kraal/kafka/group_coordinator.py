"""Kafka's group protocol for workers, based on internals of kafka-python's coordinator (3.0.12, pinned).

kafka-python provides discovery of the coordinator, JoinGroup and SyncGroup with their errors, and heartbeats. This
module adds:

- The member's hooks are called before each join, and again if the group expelled the member meanwhile (`expelled`).
- `confirmed_s` is the *send* time of the last request whose response confirmed the membership. The broker's session
  starts later, so a lease that starts at this time never expires too late. This also holds for a process that was
  frozen with the response in its socket, and after a suspension of the machine, because `kraal.core.lease_clock`
  includes the suspension, unlike kafka-python's clocks.
- Heartbeats are sent more often than `heartbeat.interval.ms` requires, because their responses also notify members of
  a rebalance. They continue during a join, over a second connection: the broker processes no other request on a
  connection with a pending JoinGroup, which may wait for the slowest member.
- A member can leave during a join, over the same second connection.

All code in this module runs on the client's event loop.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafka import errors
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.heartbeat import Heartbeat
from kafka.future import Future as LoopFuture
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import (
    DEFAULT_GENERATION_ID,
    UNKNOWN_MEMBER_ID,
    HeartbeatRequest,
    LeaveGroupRequest,
)
from kafka.structs import MemberState
from typing_extensions import override

from kraal.core import lease_clock
from kraal.protocol.group import decode_metadata

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kraal.stores.group_api import GroupHooks, GroupOptions

log = logging.getLogger(__name__)

MAX_HEARTBEAT_INTERVAL_S = 0.5
"""Maximum interval even if `heartbeat.interval.ms` is longer, because the responses notify members of a rebalance."""
SECOND_ROUND_WINDOW_S = 3.0
"""Time after a join during which another join is likely, because revoked work is assigned in a second round."""
SECOND_ROUND_HEARTBEAT_INTERVAL_S = 0.1
CLOSE_TIMEOUT_MS = 500
_COORDINATOR_PREFIX = "coordinator-"
"""The prefix of the node id that kafka-python assigns to a group's separate connection."""


class PrepareFailed(errors.RetriableError):  # type: ignore[misc]  # kafka-python is published without types
    """The member could not prepare for a join."""


class LeaseHeartbeat(Heartbeat):  # type: ignore[misc]  # as above
    """Schedules heartbeats by a monotonic clock, and records when the broker last confirmed the membership."""

    def __init__(self, *, interval_s: float, **config: Any) -> None:
        super().__init__(**config)
        self._interval_s = interval_s
        self._second_round_until_s = -math.inf
        self._sent_s = -math.inf
        self.confirmed_s = -math.inf
        """See the module docstring; a time of `lease_clock`."""
        self.lease_s = -math.inf
        """`confirmed_s` while this worker is a member, otherwise minus infinity; read by other threads."""

    def confirm(self, sent_s: float) -> None:
        """Record that the broker's response to a request sent at `sent_s` confirms the membership."""
        self.confirmed_s = self.lease_s = max(self.confirmed_s, sent_s)

    def end_lease(self) -> None:
        """Record that the membership has ended."""
        self.lease_s = -math.inf

    def expect_second_round(self) -> None:
        """Send heartbeats more often during the `SECOND_ROUND_WINDOW_S` after a join."""
        self._second_round_until_s = time.monotonic() + SECOND_ROUND_WINDOW_S

    @override
    def sent_heartbeat(self) -> None:
        super().sent_heartbeat()
        self._sent_s = lease_clock.now_s()

    @override
    def received_heartbeat(self) -> None:
        super().received_heartbeat()
        self.confirm(self._sent_s)

    @override
    def time_to_next_heartbeat(self) -> float:
        now_s = time.monotonic()
        delay_s = min(
            self._interval_s,
            SECOND_ROUND_HEARTBEAT_INTERVAL_S
            if now_s < self._second_round_until_s
            else MAX_HEARTBEAT_INTERVAL_S,
        )
        if self.heartbeat_failed:
            delay_s = min(delay_s, self.config["retry_backoff_ms"] / 1000)
        start_s: float = max(self.last_send, self.last_reset)
        return max(0.0, delay_s - (now_s - start_s))

    @override
    def poll_timeout_expired(self) -> bool:
        """Return False, because the membership actor detects a hanging herder."""
        return False


class Coordinator(BaseCoordinator):  # type: ignore[misc]  # kafka-python is published without types
    """A member of a group with protocol type `connect`."""

    def __init__(
        self, client: Any, options: GroupOptions, hooks: GroupHooks, on_changed: Callable[[], None]
    ) -> None:
        """Create the member; `on_changed` is called, on any thread, when the driver should check the state."""
        self._on_changed = on_changed
        self._hooks = hooks
        self._options = options
        self._leaving_group = False
        self.has_left = False
        """Whether the member has left and does not rejoin."""
        self.expelled = False
        """Whether the group expelled the member and the member has not rejoined since."""
        self.join_in_progress = False
        """Whether JoinGroup or SyncGroup is in progress."""
        self.last_completed_generation = DEFAULT_GENERATION_ID
        self.unknown_since_s: float | None = time.monotonic()
        """The time since which the coordinator has been unknown; None if it is known."""
        self.awaiting_since_s = -math.inf
        """Start of the response timeout, by `lease_clock`: the coordinator's discovery or the start of the join."""
        self._sync_s = -math.inf
        """A time shortly before SyncGroup was sent, by `lease_clock`."""
        timing = {
            "group_id": options.group_id,
            "session_timeout_ms": _to_ms(options.session_timeout_s),
            "heartbeat_interval_ms": _to_ms(options.heartbeat_interval_s),
            "max_poll_interval_ms": _to_ms(options.rebalance_timeout_s),
            "retry_backoff_ms": 100,
        }
        super().__init__(client, api_version=(2, 4), **timing)
        self.heartbeat = LeaseHeartbeat(interval_s=options.heartbeat_interval_s, **timing)

    @property
    def lease_heartbeat(self) -> LeaseHeartbeat:
        """The heartbeat, typed as `LeaseHeartbeat`."""
        heartbeat: LeaseHeartbeat = self.heartbeat
        return heartbeat

    @property
    def member_id(self) -> str:
        """The member's id; empty if it has none."""
        return str(self._generation.member_id)

    # -- implementation of BaseCoordinator -----------------------------------------------------------------

    @override
    def protocol_type(self) -> str:
        return "connect"

    @override
    def group_protocols(self) -> list[tuple[str, bytes]]:
        return [(offer.name.value, offer.metadata) for offer in self._hooks.offers()]

    @override
    async def _on_join_prepare_async(
        self, generation: int, member_id: str, timeout_ms: float | None = None
    ) -> None:
        while True:
            expelled = self.expelled
            away_s = lease_clock.now_s() - self.lease_heartbeat.confirmed_s
            await self._await_preparation(self._hooks.prepare(expelled=expelled, away_s=away_s))
            if self.expelled == expelled:
                return

    @override
    def _perform_assignment(
        self, leader_id: str, protocol: str, members: Sequence[Any]
    ) -> Mapping[str, bytes]:
        assignments = self._hooks.plan(
            protocol=protocol,
            leader=leader_id,
            members={member.member_id: bytes(member.metadata) for member in members},
            generation=self._generation.generation_id,
            last_completed_generation=self.last_completed_generation,
        )
        self._sync_s = lease_clock.now_s()
        return assignments

    @override
    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        self.expelled = False
        self.lease_heartbeat.expect_second_round()
        self._hooks.on_joined(
            protocol=protocol,
            generation=generation,
            member_id=member_id,
            assignment=bytes(member_assignment_bytes),
        )
        self.last_completed_generation = generation

    # -- overrides -----------------------------------------------------------------------------------------

    @override
    def need_rejoin(self) -> bool:
        return bool(self.rejoin_needed) and not self.has_left

    @override
    def request_rejoin(self) -> None:
        super().request_rejoin()
        self._on_changed()

    @override
    def reset_generation(self, member_id: str = UNKNOWN_MEMBER_ID) -> None:
        if member_id == UNKNOWN_MEMBER_ID and self._generation.has_member_id():
            self.lease_heartbeat.end_lease()
            self.expelled = self.expelled or not self._leaving_group
            self.rejoining = False  # so that the hooks are called again, because all work must stop
        super().reset_generation(member_id)
        self._on_changed()

    @override
    def coordinator_dead(self, error: object) -> None:
        super().coordinator_dead(error)
        if self.unknown_since_s is None:
            self.unknown_since_s = time.monotonic()
            self._on_changed()

    @override
    def _handle_find_coordinator_response(self, response: Any) -> object:
        result: object = super()._handle_find_coordinator_response(response)
        self.unknown_since_s = None
        self.awaiting_since_s = lease_clock.now_s()
        self._on_changed()
        return result

    @override
    async def _do_join_and_sync_async(self) -> object:
        if self.has_left:
            raise errors.RebalanceInProgressError("this member is leaving the group")
        self.join_in_progress = True
        self.awaiting_since_s = lease_clock.now_s()
        self._on_changed()
        try:
            return await super()._do_join_and_sync_async()
        finally:
            self.join_in_progress = False

    @override
    def _process_join_group_response(self, response: Any, send_time: float) -> object:
        result: object = super()._process_join_group_response(response, send_time)
        self._sync_s = lease_clock.now_s()
        return result

    @override
    def _process_sync_group_response(self, response: Any, send_time: float) -> object:
        assignment: object = super()._process_sync_group_response(response, send_time)
        self.lease_heartbeat.confirm(self._sync_s)
        return assignment

    # -- during a join -------------------------------------------------------------------------------------

    async def send_join_heartbeat(self) -> None:
        """Send a heartbeat during a join. Raises KafkaError."""
        if not self._generation.has_member_id() or self._generation.generation_id < 0:
            return
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self._generation.generation_id,
            member_id=self._generation.member_id,
            group_instance_id=None,
        )
        sent_s = lease_clock.now_s()
        response = await self._manager.send(request, node_id=self._second_connection())
        if errors.for_code(response.error_code) in (errors.NoError, errors.RebalanceInProgressError):
            self.lease_heartbeat.confirm(sent_s)

    async def member_urls(self) -> Sequence[str]:
        """Return the URLs of all members; none during a rebalance. Raises KafkaError."""
        node = self._second_connection()
        if node is None:
            raise errors.NodeNotReadyError("the group's coordinator is unknown")
        request = DescribeGroupsRequest(groups=[self.group_id])
        (group,) = (await self._manager.send(request, node_id=node)).groups
        if group.error_code:
            raise errors.for_code(group.error_code)
        members = group.members if group.group_state == "Stable" else ()
        return [decode_metadata(bytes(member.member_metadata)).url for member in members]

    async def leave_group(self, reason: str, timeout_s: float) -> None:
        """Leave the group if this worker is a member, and do not rejoin; wait at most `timeout_s` for the response."""
        self.has_left = True
        node = self._second_connection() if self.join_in_progress else self.coordinator()
        if self._generation.has_member_id() and node is not None:
            await self._send_leave(node, reason, timeout_s)
        self._leaving_group = True
        self.reset_generation()
        self._leaving_group = False

    async def stop_heartbeats(self) -> None:
        """Stop the heartbeats. Must be called after `leave_group`."""
        self._close_heartbeat()
        if self._heartbeat_loop_future is not None:
            with suppress(errors.KafkaError):
                await self._manager.wait_for(self._heartbeat_loop_future, CLOSE_TIMEOUT_MS)

    async def _send_leave(self, node: object, reason: str, timeout_s: float) -> None:
        member_id = self._generation.member_id
        log.info("Member %s sending LeaveGroup request to coordinator %s due to %s", member_id, node, reason)
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=member_id, group_instance_id=None, reason=reason[:255]
        )
        request = LeaveGroupRequest(group_id=self.group_id, member_id=member_id, members=[identity])
        try:
            response_future = self._manager.send(request, node_id=node)
            response = await self._manager.wait_for(response_future, timeout_s * 1000)
        except errors.KafkaError as exc:
            log.warning("Failed to leave the group: %s", exc)
        else:
            error = errors.for_code(response.error_code)
            if error is not errors.NoError:
                log.warning("Failed to leave the group: %s", error.__name__)

    @property
    def overdue_s(self) -> float:
        """Seconds for which a response of the broker has been pending; 0 if none is expected."""
        is_response_expected = self.join_in_progress or self.is_stable
        if not is_response_expected or self.unknown_since_s is not None or self._generation.generation_id < 0:
            return 0.0
        return lease_clock.now_s() - max(self.lease_heartbeat.confirmed_s, self.awaiting_since_s)

    def disconnect(self, reason: str) -> None:
        """Close the connections to an unresponsive coordinator, which fails pending requests."""
        nodes = (self.coordinator_id, self._second_connection())
        self.coordinator_dead(reason)
        for node in nodes:
            if node is not None:
                self._manager.close(node_id=node)

    def _second_connection(self) -> object:
        """Return the coordinator's broker id, for a connection that is separate from the group's."""
        node = str(self.coordinator_id).removeprefix(_COORDINATOR_PREFIX)
        return int(node) if node.isdigit() else None

    @property
    def is_stable(self) -> bool:
        """Whether this worker is a member of a stable group."""
        return bool(self.state is MemberState.STABLE)

    async def _await_preparation(self, future: Future[None]) -> None:
        """Await a future of another thread. Raises PrepareFailed on errors and timeouts."""
        completion = LoopFuture()

        def finish() -> None:
            if not completion.is_done:
                completion.success(None)

        future.add_done_callback(lambda _: self._net.call_soon_threadsafe(finish))
        try:
            await self._manager.wait_for(completion, self._options.rebalance_timeout_s * 1000)
        except errors.KafkaTimeoutError as exc:
            raise PrepareFailed(
                f"work did not stop within rebalance.timeout.ms ({_to_ms(self._options.rebalance_timeout_s)})"
            ) from exc
        if future.cancelled() or future.exception() is not None:
            raise PrepareFailed("Failed to prepare for a rebalance")


def _to_ms(seconds: float) -> int:
    return round(seconds * 1000)
