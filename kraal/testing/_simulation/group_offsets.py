"""Consumer group offsets of the fake engine's sinks: topic `fake`, one partition per task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping

from kraal.core.errors import GroupInUse, StoreError
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import TopicPartition
from kraal.stores.memory import Fault

FAKE_TOPIC = "fake"


class FakeGroupOffsets:
    """Implements `GroupOffsets` with the committed positions of the fake engine's sinks.

    As in Kafka, offsets of a group with members and offsets of missing topics cannot be changed.
    """

    def __init__(
        self,
        committed: MutableMapping[TaskId, int],
        running: Callable[[], Collection[TaskId]],
        *,
        fault: Fault = lambda _: None,
    ) -> None:
        """Use the positions in `committed` as committed offsets.

        `running` returns the tasks with an open run on any worker; `fault` works as in `kraal.stores.memory`.
        """
        self._committed = committed
        self._running = running
        self.fault = fault
        self.end_offsets: dict[TopicPartition, int] = {}

    def read(
        self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float
    ) -> Mapping[TopicPartition, int]:
        """Return the committed offsets of a connector."""
        del config, timeout_s
        self.fault("read")
        return {
            TopicPartition(FAKE_TOPIC, task.task): position
            for task, position in self._committed.items()
            if task.connector == connector
        }

    def ends(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        partitions: Collection[TopicPartition],
        *,
        timeout_s: float,
    ) -> Mapping[TopicPartition, int]:
        """Return the end offsets in `self.end_offsets`; other partitions do not exist."""
        del connector, config, timeout_s
        self.fault("ends")
        return {
            partition: self.end_offsets[partition]
            for partition in partitions
            if partition in self.end_offsets
        }

    def alter(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        offsets: Mapping[TopicPartition, int | None],
        *,
        timeout_s: float,
    ) -> None:
        """Commit these offsets; a None value deletes the partition's offset."""
        del config, timeout_s
        self.fault("alter")
        self._check_empty(connector)
        for partition in offsets:
            if partition.topic != FAKE_TOPIC:
                raise StoreError(f"there is no topic {partition.topic}")
        for partition, position in offsets.items():
            task = TaskId(connector, partition.partition)
            if position is None:
                self._committed.pop(task, None)
            else:
                self._committed[task] = position

    def delete(self, connector: ConnectorName, config: Mapping[str, str], *, timeout_s: float) -> None:
        """Delete the group."""
        del config, timeout_s
        self.fault("delete")
        self._check_empty(connector)
        for task in [task for task in self._committed if task.connector == connector]:
            del self._committed[task]

    def _check_empty(self, connector: ConnectorName) -> None:
        members = [str(task) for task in self._running() if task.connector == connector]
        if members:
            raise GroupInUse(f"the group has members: {', '.join(members)}")


def no_groups(operation: str) -> None:
    """Reject all operations, for workers with a real engine and no `group_offsets`. Raises StoreError."""
    raise StoreError(f"cannot {operation} offsets of sinks: this worker was created without group_offsets")
