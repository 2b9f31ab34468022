"""Makes two runs of one task write to the same target: the older run hangs, and resumes while the newer one writes.

If the newer run is in another process, the older run resumes when the newer one has staged but not yet committed a
batch. The process of the newer run is frozen meanwhile, and for `FREEZE_S` afterwards, so that the older run can end
first.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from kraal.connectors.spark.sink import STAGING
from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.kinds.targets import HANG_TIMEOUT_S
from scripts.chaos_run.members import Member
from scripts.chaos_run.schedule import HeavyStep

REQUEST_TIMEOUT_S: Final = 10.0
FREEZE_S: Final = 4.0
"""Time for which the successor is frozen. It is shorter than the session timeout."""
STAGING_TIMEOUT_S: Final = 3.0
_POLL_INTERVAL_S: Final = 0.001
_SUCCESS_FILE: Final = "_SUCCESS"
"""The file that Spark writes last."""
_OK: Final = 200
SUCCESSOR_TIMEOUT_S: Final = 30.0
"""Time within which the newer run must write. It includes the graceful stop and the cancellation of the older run."""


def restart(scene: Scene, step: HeavyStep) -> Undo | None:
    """Restart a hanging task of a sink; the new run writes while the old one hangs."""
    del step
    commands = scene.once.commands
    if _hang_batch(scene) is None:
        return None
    request = Call("POST", f"/connectors/{scene.once.name}-sink/restart?includeTasks=true")
    if not scene.send_until_accepted(request, REQUEST_TIMEOUT_S):
        commands.release()
        return None
    return lambda: _release(scene)


def freeze(scene: Scene, step: HeavyStep) -> Undo | None:
    """Freeze the Python process of the worker with the hanging task, but not its JVM; another worker takes over."""
    del step
    pid = _hang_batch(scene)
    member = None if pid is None else scene.find_member(pid)
    if member is None:
        scene.once.commands.release()
        return None
    python = psutil.Process(member.process.pid)
    python.send_signal(signal.SIGSTOP)
    scene.timeline.say(f"  the hanging task is on {member}")

    def undo() -> None:
        try:
            _await_successor(scene)
            with _freeze_after_staging(scene, _find_successor(scene, member)):
                scene.once.commands.release()
                python.send_signal(signal.SIGCONT)
        finally:
            scene.once.commands.release()
            python.send_signal(signal.SIGCONT)

    return undo


def _hang_batch(scene: Scene) -> int | None:
    """Make one batch hang; return the id of the process that writes the batch, or None if there was no batch."""
    commands = scene.once.commands
    commands.hang_one()
    if scene.wait_until(lambda: bool(commands.list_hanging()), HANG_TIMEOUT_S):
        return commands.list_hanging()[0]
    commands.release()
    return None


def _release(scene: Scene) -> None:
    """Resume the older run when the newer one has written."""
    try:
        _await_successor(scene)
    finally:
        scene.once.commands.release()


def _await_successor(scene: Scene) -> None:
    before = scene.once.progress()
    if scene.wait_until(lambda: scene.once.progress() != before, SUCCESSOR_TIMEOUT_S):
        scene.timeline.say("  the successor writes; the older run resumes")
    else:
        scene.timeline.say(f"  no successor wrote within {SUCCESSOR_TIMEOUT_S:g} s")


@contextmanager
def _freeze_after_staging(scene: Scene, member: Member | None) -> Iterator[None]:
    """Freeze a worker's Python process once it has staged a batch, until a few seconds after the `with` block."""
    staging = scene.once.sink_file / STAGING
    if member is None or not _wait_until_staged(staging):
        yield
        return
    python = psutil.Process(member.process.pid)
    python.send_signal(signal.SIGSTOP)
    scene.timeline.say(f"  {member} has staged a batch and is frozen for {FREEZE_S:g} s")
    try:
        yield
        scene.stopped.wait(FREEZE_S)
    finally:
        with suppress(psutil.NoSuchProcess):
            python.send_signal(signal.SIGCONT)


def _wait_until_staged(staging: Path) -> bool:
    """Wait until Spark has completed a batch in the staging directory; return False on a timeout."""
    deadline_s = time.monotonic() + STAGING_TIMEOUT_S
    while not _has_finished(staging):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


def _has_finished(staging: Path) -> bool:
    """Return whether the staging directory has a completed batch; False if the directory disappears meanwhile."""
    with suppress(FileNotFoundError):
        return next(staging.glob(f"**/{_SUCCESS_FILE}"), None) is not None
    return False


def _find_successor(scene: Scene, frozen: Member) -> Member | None:
    """Return the worker other than `frozen` that runs the sink's task, according to REST; None if there is none."""
    candidates = [member for member in scene.members.up() if member is not frozen]
    for member in candidates:
        response = scene.ask(member, Call("GET", f"/connectors/{scene.once.name}-sink/status"))
        if response is not None and response[0] == _OK and response[1]["tasks"]:
            owner = response[1]["tasks"][0]["worker_id"]
            return next((member for member in candidates if member.worker_id == owner), None)
    return None
