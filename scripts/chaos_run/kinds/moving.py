"""Moves a partition of a sink to another member and back, without committing the records that the member writes.

This simulates a task that dies between its write and its commit: the next owner starts at the same offset, and the
target already has some of its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraal.connectors.frames.range_files import format_file_name
from kraal.plugins.api import TopicPartition
from scripts.chaos_run.kinds.groups import AdditionalMember
from scripts.chaos_run.kinds.once import list_range_files
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.schedule import HeavyStep

if TYPE_CHECKING:
    from confluent_kafka import Message

SLEEP_S: Final = 1.0
"""Duration of each batch of the sink, so that a batch is in progress when the partition moves."""
JOIN_TIMEOUT_S: Final = 20.0
READ_TIMEOUT_S: Final = 3.0
MAX_RECORDS: Final = 40
_SUFFIX: Final = ".txt"


def move_back(scene: Scene, step: HeavyStep) -> Undo | None:
    """Join the sink's group, and write a file without committing it; the returned function leaves the group."""
    del step
    pipe, commands = scene.once, scene.once.commands
    commands.sleep(SLEEP_S)
    member = AdditionalMember(scene.members.broker.bootstrap, pipe)
    try:
        has_joined = scene.wait_until(member.has_assignment, JOIN_TIMEOUT_S)
        records = member.read(MAX_RECORDS, READ_TIMEOUT_S) if has_joined else []
    except BaseException:
        member.close()
        raise
    finally:
        commands.release()
    if not has_joined:
        member.close()
        return None
    outcome = write_file(pipe.sink_file, records)
    scene.timeline.say(f"  moved; {outcome}")
    return member.close


def write_file(directory: Path, records: Sequence[Message]) -> str:
    """Write the records to one file unless another file contains the first or later ones. Return the outcome."""
    if not records:
        return "no records were read"
    first, last = records[0], records[-1]
    source_partition = TopicPartition(str(first.topic()), int(first.partition() or 0))
    span = (int(first.offset() or 0), int(last.offset() or 0) + 1)
    offsets = f"{source_partition.topic}-{source_partition.partition}, offsets {span[0]} to {span[1] - 1}"
    if any(
        file.partition == source_partition and file.span[1] > span[0] for file in list_range_files(directory)
    ):
        return f"{offsets} not written: another file contains offset {span[0]} or later ones"
    temporary_file = directory / ".chaos"
    temporary_file.write_bytes(b"".join((message.value() or b"") + b"\n" for message in records))
    temporary_file.rename(directory / format_file_name(source_partition, span, _SUFFIX))
    return f"wrote {offsets}, uncommitted"
