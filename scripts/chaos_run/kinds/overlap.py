"""Two runs of one task at the same time, on the same target: the older one hangs in its target, and comes back.

It comes back at a bad moment for its successor, where that is in another process: when a batch is staged, and not in
place yet. The successor stands still until the older run has ended.
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
from scripts.chaos_run.kinds.targets import HANGS_S
from scripts.chaos_run.members import Member
from scripts.chaos_run.schedule import HeavyStep

REQUEST_TIMEOUT_S: Final = 10.0
STOP_S: Final = 4.0
"""How long the successor stands still: shorter than its session."""
STAGED_S: Final = 3.0
_POLL_INTERVAL_S: Final = 0.001
_FINISHED: Final = "_SUCCESS"
"""The file that Spark writes last."""
_OK: Final = 200
SUCCESSOR_S: Final = 30.0
"""How long the newer run may take to write: the older one has a graceful stop and a cancel, then its member ends."""


def restart(scene: Scene, step: HeavyStep) -> Undo | None:
    """Restart a sink's task that hangs; the new run writes while the old one hangs."""
    del step
    orders = scene.once.orders
    if _hanging(scene) is None:
        return None
    asked = Call("POST", f"/connectors/{scene.once.name}-sink/restart?includeTasks=true")
    if not scene.accepted(asked, REQUEST_TIMEOUT_S):
        orders.release()
        return None
    return lambda: _release(scene)


def freeze(scene: Scene, step: HeavyStep) -> Undo | None:
    """Freeze the Python of the worker with the task that hangs; another worker takes over. Its JVM continues."""
    del step
    pid = _hanging(scene)
    member = None if pid is None else scene.find_member(pid)
    if member is None:
        scene.once.orders.release()
        return None
    python = psutil.Process(member.process.pid)
    python.send_signal(signal.SIGSTOP)
    scene.timeline.say(f"  it is {member}")

    def undo() -> None:
        try:
            _await_successor(scene)
            with _stopped(scene, _successor(scene, member)):
                scene.once.orders.release()
                python.send_signal(signal.SIGCONT)
        finally:
            scene.once.orders.release()
            python.send_signal(signal.SIGCONT)

    return undo


def _hanging(scene: Scene) -> int | None:
    """Have one batch hang; return the process, None when no batch came."""
    orders = scene.once.orders
    orders.hang_one()
    if scene.until(lambda: bool(orders.hanging()), HANGS_S):
        return orders.hanging()[0]
    orders.release()
    return None


def _release(scene: Scene) -> None:
    """Let the older run continue once the newer one has written."""
    try:
        _await_successor(scene)
    finally:
        scene.once.orders.release()


def _await_successor(scene: Scene) -> None:
    before = scene.once.progress()
    if scene.until(lambda: scene.once.progress() != before, SUCCESSOR_S):
        scene.timeline.say("  the successor writes; the older run goes on")
    else:
        scene.timeline.say(f"  no successor wrote within {SUCCESSOR_S:g} s")


@contextmanager
def _stopped(scene: Scene, member: Member | None) -> Iterator[None]:
    """Stop the Python of a worker when it has staged a batch, and let it continue some seconds after the body."""
    staging = scene.once.sink_file / STAGING
    if member is None or not _staged(staging):
        yield
        return
    python = psutil.Process(member.process.pid)
    python.send_signal(signal.SIGSTOP)
    scene.timeline.say(f"  {member} has staged a batch, and stands still for {STOP_S:g} s")
    try:
        yield
        scene.stopped.wait(STOP_S)
    finally:
        with suppress(psutil.NoSuchProcess):
            python.send_signal(signal.SIGCONT)


def _staged(staging: Path) -> bool:
    """Wait until Spark has finished files of a batch; return False when that is not seen in time."""
    deadline_s = time.monotonic() + STAGED_S
    while not _has_finished(staging):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


def _has_finished(staging: Path) -> bool:
    """Whether a file of a batch is finished; a directory that goes while it is searched has none."""
    with suppress(FileNotFoundError):
        return next(staging.glob(f"**/{_FINISHED}"), None) is not None
    return False


def _successor(scene: Scene, frozen: Member) -> Member | None:
    """Return the worker that runs the sink's task by now, as one that is not frozen says; None: no one else."""
    others = [each for each in scene.members.up() if each is not frozen]
    for member in others:
        answer = scene.ask(member, Call("GET", f"/connectors/{scene.once.name}-sink/status"))
        if answer is not None and answer[0] == _OK and answer[1]["tasks"]:
            owner = answer[1]["tasks"][0]["worker_id"]
            return next((each for each in others if each.worker_id == owner), None)
    return None
