"""A partition of a sink moves to another member and back, and what that one wrote is not committed.

This is what a task does that dies between its write and its commit: the next owner starts where the former one started,
and the target has some of its records already.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraal.connectors.frames.range_files import make_name
from kraal.plugins.api import TopicPartition
from scripts.chaos_run.kinds.groups import Intruder
from scripts.chaos_run.kinds.once import range_files
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.schedule import HeavyStep

if TYPE_CHECKING:
    from confluent_kafka import Message

SLEEP_S: Final = 1.0
"""How long each batch of the sink takes meanwhile, so that one is under way when the partition moves."""
JOIN_S: Final = 20.0
READ_S: Final = 3.0
MAX_RECORDS: Final = 40
_SUFFIX: Final = ".txt"


def move_back(scene: Scene, step: HeavyStep) -> Undo | None:
    """Join the group of the sink that writes files, write one that is not committed, and leave."""
    del step
    pipe, orders = scene.once, scene.once.orders
    orders.sleep(SLEEP_S)
    intruder = Intruder(scene.members.broker.bootstrap, pipe)
    try:
        joined = scene.until(intruder.assigned, JOIN_S)
        records = intruder.read(MAX_RECORDS, READ_S) if joined else []
    except BaseException:
        intruder.close()
        raise
    finally:
        orders.release()
    if not joined:
        intruder.close()
        return None
    outcome = put(pipe.sink_file, records)
    scene.timeline.say(f"  moved; {outcome}")
    return intruder.close


def put(folder: Path, records: Sequence[Message]) -> str:
    """Put the records in place in one file, unless another one has some of them; return what was done."""
    if not records:
        return "it had no records"
    first, last = records[0], records[-1]
    place = TopicPartition(str(first.topic()), int(first.partition() or 0))
    span = (int(first.offset() or 0), int(last.offset() or 0) + 1)
    offsets = f"{place.topic}-{place.partition}, offsets {span[0]} to {span[1] - 1}"
    if any(file.place == place and file.span[1] > span[0] for file in range_files(folder)):
        return f"other files have some of {offsets}"
    staged = folder / ".chaos"
    staged.write_bytes(b"".join((each.value() or b"") + b"\n" for each in records))
    staged.rename(folder / make_name(place, span, _SUFFIX))
    return f"wrote {offsets}, which is not committed"
