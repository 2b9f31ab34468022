"""Faults of sink targets that are slow, or that temporarily do not respond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from scripts.chaos_run.kinds.groups import get_committed
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.pipes import MAX_POLL_S
from scripts.chaos_run.schedule import HeavyStep

SLEEP_S: Final = MAX_POLL_S + 2.0
"""Duration of each write. The group evicts a member that does not poll for this long."""
HANG_TIMEOUT_S: Final = 10.0
"""Time within which the next batch must hang."""


def slow_down(scene: Scene, step: HeavyStep) -> Undo | None:
    """Make each batch take longer than the sink's `max.poll.interval.ms`; batches must still be committed."""
    del step
    commands, pipe = scene.slow.commands, scene.slow
    bootstrap = scene.members.broker.bootstrap
    before, initial_count = get_committed(bootstrap, pipe), len(commands.list_written())
    commands.sleep(SLEEP_S)

    def undo() -> None:
        try:
            after, batches = get_committed(bootstrap, pipe), commands.list_written()[initial_count:]
        finally:
            commands.release()
        if after == before and (repeated := find_repeated(batches)):
            scene.report_violation(
                f"a slow sink wrote the same batch repeatedly without committing it: {repeated}"
            )

    return undo


def hang(scene: Scene, step: HeavyStep) -> Undo | None:
    """Make a sink's next batch hang."""
    del step
    commands = scene.slow.commands
    commands.hang()
    if scene.wait_until(lambda: bool(commands.list_hanging()), HANG_TIMEOUT_S):
        return commands.release
    commands.release()
    return None


def find_repeated(batches: Sequence[str]) -> str:
    """Return the start and the number of writes of each batch that was written more than once, as text. Pure."""
    starts = Counter(line.rpartition(" ")[0] for line in batches)
    return ", ".join(f"{start} {count} times" for start, count in sorted(starts.items()) if count > 1)
