"""Drives the state machine of one group member in tests."""

from __future__ import annotations

from kraal.cluster.assignment.leader import to_assignment
from kraal.cluster.membership.flow import step
from kraal.cluster.membership.member_state import (
    AllowJoin,
    AssignmentReceived,
    Decision,
    Deliver,
    Event,
    HerderAlive,
    HerderLive,
    Join,
    MemberSettings,
    MemberState,
    PingHerder,
    PrepareJoin,
    Tick,
)
from kraal.cluster.state.wanted_work import Assignment
from kraal.core.ids import ConnectorName, TaskId
from kraal.protocol.group import AssignmentError, ConnectorOrTask, GroupAssignment, GroupProtocol

C1, C2 = ConnectorName("c1"), ConnectorName("c2")
ALL = (ConnectorOrTask(C1), ConnectorOrTask(C1, 0), ConnectorOrTask(C1, 1))
OFFSET = 7
NO_WORK = Assignment()
SESSIONED, DEFAULT = GroupProtocol.SESSIONED, GroupProtocol.DEFAULT


class Scenario:
    """One member's state machine with a virtual clock."""

    def __init__(self, offset: int = OFFSET) -> None:
        self.state = MemberState()
        self.settings = MemberSettings()
        self.offset = offset
        self.now_s = 1000.0

    def handle(self, event: Event) -> list[Decision]:
        self.state, decisions = step(
            self.state, event, now_s=self.now_s, offset=self.offset, settings=self.settings
        )
        return [d for d in decisions if not isinstance(d, PingHerder)]

    def receive_assignment(
        self,
        *assigned: ConnectorOrTask,
        revoked: tuple[ConnectorOrTask, ...] = (),
        delay_ms: int = 0,
        offset: int = OFFSET,
        error: int = AssignmentError.NO_ERROR,
        leader: str = "leader",
        protocol: GroupProtocol = SESSIONED,
        repeated: bool = False,
    ) -> list[Decision]:
        """Deliver an assignment. With `repeated`, it has the same generation as the previous assignment."""
        assignment = GroupAssignment(
            version=protocol.version,
            error=error,
            leader=leader,
            leader_url="http://leader/",
            config_offset=offset,
            assigned=assigned,
            revoked=revoked,
            delay_ms=delay_ms,
        )
        generation = self.state.generation + (0 if repeated else 1)
        return self.handle(
            AssignmentReceived(
                protocol=protocol, generation=generation, member_id="me", assignment=assignment
            )
        )

    def advance_to_tick(self) -> list[Decision]:
        """Advance time until the next tick, with a responsive herder."""
        self.handle(HerderAlive())
        wake_s = self.state.wake_s(self.settings)
        assert wake_s is not None
        self.now_s = max(self.now_s, wake_s)
        return self.handle(Tick())

    def advance(self, seconds: float) -> list[Decision]:
        """Advance time, with a tick whenever one is due."""
        end, decisions = self.now_s + seconds, []
        while (wake_s := self.state.wake_s(self.settings)) is not None and wake_s <= end:
            decisions += self.advance_to_tick()
        self.now_s = end
        return decisions + self.handle(Tick())

    @property
    def owned(self) -> Assignment:
        return NO_WORK if self.state.assignment is None else to_assignment(self.state.assignment)


def create_working_member(*instances: ConnectorOrTask, protocol: GroupProtocol = SESSIONED) -> Scenario:
    """Return a member that runs these instances."""
    scenario = Scenario()
    assert scenario.handle(HerderLive()) == [Join()]
    assert scenario.handle(PrepareJoin(away_s=float("inf"))) == [AllowJoin()]
    assert scenario.receive_assignment(*instances, protocol=protocol) == [Deliver()]
    return scenario


def tasks(*numbers: int) -> frozenset[TaskId]:
    return frozenset(TaskId(C1, n) for n in numbers)
