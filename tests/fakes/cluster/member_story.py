"""One member of a group as its flow sees it, for stories."""

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
    Prepare,
    Tick,
)
from kraal.cluster.state.wanted_work import Assignment
from kraal.core.ids import ConnectorName, TaskId
from kraal.protocol.group import AssignmentError, GroupAssignment, GroupProtocol, Job

C1, C2 = ConnectorName("c1"), ConnectorName("c2")
ALL = (Job(C1), Job(C1, 0), Job(C1, 1))
OFFSET = 7
NO_WORK = Assignment()
SESSIONED, DEFAULT = GroupProtocol.SESSIONED, GroupProtocol.DEFAULT


class Story:
    """One member, as its flow sees it."""

    def __init__(self, offset: int = OFFSET) -> None:
        self.state = MemberState()
        self.settings = MemberSettings()
        self.offset = offset
        self.now_s = 1000.0

    def on(self, event: Event) -> list[Decision]:
        self.state, decisions = step(
            self.state, event, now_s=self.now_s, offset=self.offset, settings=self.settings
        )
        return [d for d in decisions if not isinstance(d, PingHerder)]

    def told(
        self,
        *assigned: Job,
        revoked: tuple[Job, ...] = (),
        delay_ms: int = 0,
        offset: int = OFFSET,
        error: int = AssignmentError.NO_ERROR,
        leader: str = "leader",
        protocol: GroupProtocol = SESSIONED,
        again: bool = False,
    ) -> list[Decision]:
        """Have the leader say so; `again`: the broker saw no need for a round, and repeats the last one."""
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
        generation = self.state.generation + (0 if again else 1)
        return self.on(
            AssignmentReceived(
                protocol=protocol, generation=generation, member_id="me", assignment=assignment
            )
        )

    def wait(self) -> list[Decision]:
        """Let time pass until the flow wants to look, the herder being well."""
        self.on(HerderAlive())
        wake_s = self.state.wake_s(self.settings)
        assert wake_s is not None
        self.now_s = max(self.now_s, wake_s)
        return self.on(Tick())

    def sleep(self, seconds: float) -> list[Decision]:
        """Let time pass, looking whenever the flow wants to."""
        end, decisions = self.now_s + seconds, []
        while (wake_s := self.state.wake_s(self.settings)) is not None and wake_s <= end:
            decisions += self.wait()
        self.now_s = end
        return decisions + self.on(Tick())

    @property
    def owned(self) -> Assignment:
        return NO_WORK if self.state.assignment is None else to_assignment(self.state.assignment)


def working(*jobs: Job, protocol: GroupProtocol = SESSIONED) -> Story:
    """Return a member that runs these."""
    story = Story()
    assert story.on(HerderLive()) == [Join()]
    assert story.on(Prepare(away_s=float("inf"))) == [AllowJoin()]
    assert story.told(*jobs, protocol=protocol) == [Deliver()]
    return story


def tasks(*numbers: int) -> frozenset[TaskId]:
    return frozenset(TaskId(C1, n) for n in numbers)
