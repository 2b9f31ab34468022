"""Exhausts thread pools with tasks that hang in their start, in a batch or in their stop.

The tasks are deleted while they hang, immediately or after a restart, and are released at the end. Workers replace
hanging threads, so that the pipes continue. If the replacement threads hang as well, workers report that they are
unhealthy.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.install import SOURCE
from scripts.chaos_run.kinds.orders import COMMANDS_KEY
from scripts.chaos_run.kinds.plugins import HANG_IN
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.pipes import HANGING_CONNECTOR
from scripts.chaos_run.schedule import HeavyStep, choose

TASKS: Final = 12
"""Number of tasks per worker, which exceeds the 8 threads for batches and the 4 threads for starts and stops."""
THREADS: Final = {"batch": 8, "start": 4, "stop": 4}
VARIANTS: Final = tuple(f"{call}, {action}" for call in THREADS for action in ("delete", "restart"))
_DELETE: Final = Call("DELETE", f"/connectors/{HANGING_CONNECTOR}")
_RESTART: Final = Call("POST", f"/connectors/{HANGING_CONNECTOR}/restart?includeTasks=true")
_OK: Final = 200
HANG_TIMEOUT_S: Final = 20.0
RESTART_TIMEOUT_S: Final = 15.0
"""Time within which restarted tasks must hang on replacement threads."""
REQUEST_TIMEOUT_S: Final = 15.0
RELEASE_TIMEOUT_S: Final = 15.0
PROGRESS_TIMEOUT_S: Final = 5.0
"""Time within which the sink of a pipe must write."""
DETECTION_TIME_S: Final = 14.0
"""Time after the deletion within which a pool gets new threads, or its worker reports that it is unhealthy. A stop and
a cancel take up to 5 s each."""


def exhaust(scene: Scene, step: HeavyStep) -> Undo | None:
    """Start tasks that hang, restart them in some variants, and delete them; the returned function releases them."""
    call, _, action = (choose(VARIANTS, step.pick) or "").partition(", ")
    count = TASKS * len(scene.members.up())
    scene.timeline.say(f"  {count} tasks will hang in {call}, followed by {action}")
    if not _hang_tasks(scene, call, action, count):
        scene.hanging.release()
        scene.send_until_accepted(_DELETE, REQUEST_TIMEOUT_S)
        return None

    def undo() -> None:
        if step.hold_s >= DETECTION_TIME_S:
            _check_progress(scene, f"tasks have hung in {call} for {step.hold_s:g} s")
        scene.hanging.release()
        if not scene.wait_until(lambda: not scene.hanging.list_hanging(), RELEASE_TIMEOUT_S):
            scene.report_violation("released calls still hang")
        scene.send_until_accepted(_DELETE, REQUEST_TIMEOUT_S)

    return undo


def _hang_tasks(scene: Scene, call: str, action: str, count: int) -> bool:
    """Make the tasks hang, restart them if `action` is `restart`, and delete them; return whether this succeeded."""
    config = {
        "connector.class": SOURCE,
        "tasks.max": str(count),
        "topic": HANGING_CONNECTOR,
        HANG_IN: call,
        COMMANDS_KEY: str(scene.hanging.prefix),
    }
    if call != "stop":
        scene.hanging.hang()
    if not scene.send_until_accepted(
        Call("PUT", f"/connectors/{HANGING_CONNECTOR}/config", config), REQUEST_TIMEOUT_S
    ):
        return False
    if call != "stop":
        if not scene.wait_until(lambda: _is_exhausted(scene, THREADS[call]), HANG_TIMEOUT_S):
            return False
    elif not scene.wait_until(lambda: _count_running(scene) == count, HANG_TIMEOUT_S):
        return False
    else:
        scene.hanging.hang()
    if action == "restart":
        scene.send_until_accepted(_RESTART, REQUEST_TIMEOUT_S)
        scene.wait_until(lambda: _is_exhausted(scene, 2 * THREADS[call]), RESTART_TIMEOUT_S)
    return scene.send_until_accepted(_DELETE, REQUEST_TIMEOUT_S)


def _check_progress(scene: Scene, situation: str) -> None:
    """Check that a pipe makes progress or a worker reports that it is unhealthy."""
    before = [pipe.progress() for pipe in scene.pipes]
    if scene.wait_until(lambda: [pipe.progress() for pipe in scene.pipes] != before, PROGRESS_TIMEOUT_S):
        scene.timeline.say(f"  {situation}, and lines flow")
        return
    health = scene.health()
    scene.timeline.say(f"  {situation}, and no lines flow; health: {health}")
    if all(response is not None and response[0] == _OK for response in health.values()):
        scene.report_violation(f"{situation}, no lines flow, and all workers report that they are healthy")


def _is_exhausted(scene: Scene, threads: int) -> bool:
    """Return whether at least `threads` calls hang in every worker."""
    hanging = Counter(scene.hanging.list_hanging())
    return all(hanging[member.process.pid] >= threads for member in scene.members.up())


def _count_running(scene: Scene) -> int:
    for member in scene.members.up():
        response = scene.ask(member, Call("GET", f"/connectors/{HANGING_CONNECTOR}/status"))
        if response is not None and response[0] == _OK:
            return sum(task["state"] == "RUNNING" for task in response[1]["tasks"])
    return 0
