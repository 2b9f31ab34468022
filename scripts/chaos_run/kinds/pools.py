"""More tasks that hang than a worker has threads: in their start, in a batch or in their stop.

They are deleted while they hang, at once or after a restart, and released in the end. The threads that they keep are
replaced, so that the pipes continue; where those of the restarted tasks hang as well, workers say that they are not
well.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.install import SOURCE
from scripts.chaos_run.kinds.orders import ORDERS
from scripts.chaos_run.kinds.plugins import HANG_IN
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.pipes import HANGING
from scripts.chaos_run.schedule import HeavyStep, choose

TASKS: Final = 12
"""Tasks for each worker: more than the 8 threads for batches, or the 4 for starts and stops."""
THREADS: Final = {"batch": 8, "start": 4, "stop": 4}
WAYS: Final = tuple(f"{where}, {then}" for where in THREADS for then in ("delete", "restart"))
_DELETE: Final = Call("DELETE", f"/connectors/{HANGING}")
_RESTART: Final = Call("POST", f"/connectors/{HANGING}/restart?includeTasks=true")
_OK: Final = 200
HANG_S: Final = 20.0
RESTART_TIMEOUT_S: Final = 15.0
"""How long it may take until restarted tasks hang on threads that replaced others."""
REQUEST_TIMEOUT_S: Final = 15.0
LET_GO_S: Final = 15.0
MOVES_S: Final = 5.0
"""How long it may take until some pipe's sink writes."""
DETECTION_TIME_S: Final = 14.0
"""So long after the tasks were deleted a pool has new threads, or its worker says that it is not well: a stop has 5 s,
and a cancel as long."""


def exhaust(scene: Scene, step: HeavyStep) -> Undo | None:
    """Start the tasks, wait until they hang, delete or restart them, and release them in the end."""
    where, _, then = (choose(WAYS, step.pick) or "").partition(", ")
    count = TASKS * len(scene.members.up())
    scene.timeline.say(f"  {count} tasks will hang in {where}; then {then}")
    if not _begun(scene, where, then, count):
        scene.hanging.release()
        scene.accepted(_DELETE, REQUEST_TIMEOUT_S)
        return None

    def undo() -> None:
        if step.hold_s >= DETECTION_TIME_S:
            _look(scene, f"tasks have hung in {where} for {step.hold_s:g} s")
        scene.hanging.release()
        if not scene.until(lambda: not scene.hanging.hanging(), LET_GO_S):
            scene.broke("calls hang although they were released")
        scene.accepted(_DELETE, REQUEST_TIMEOUT_S)

    return undo


def _begun(scene: Scene, where: str, then: str, count: int) -> bool:
    """Have the tasks hang, restart them if `then` says so, and delete them; return whether all of it was done."""
    config = {
        "connector.class": SOURCE,
        "tasks.max": str(count),
        "topic": HANGING,
        HANG_IN: where,
        ORDERS: str(scene.hanging.prefix),
    }
    if where != "stop":
        scene.hanging.hang()
    if not scene.accepted(Call("PUT", f"/connectors/{HANGING}/config", config), REQUEST_TIMEOUT_S):
        return False
    if where != "stop":
        if not scene.until(lambda: _exhausted(scene, THREADS[where]), HANG_S):
            return False
    elif not scene.until(lambda: _running(scene) == count, HANG_S):
        return False
    else:
        scene.hanging.hang()
    if then == "restart":
        scene.accepted(_RESTART, REQUEST_TIMEOUT_S)
        scene.until(lambda: _exhausted(scene, 2 * THREADS[where]), RESTART_TIMEOUT_S)
    return scene.accepted(_DELETE, REQUEST_TIMEOUT_S)


def _look(scene: Scene, what: str) -> None:
    """Some pipe must move, or some worker must say that it is not well."""
    before = [pipe.progress() for pipe in scene.pipes]
    if scene.until(lambda: [pipe.progress() for pipe in scene.pipes] != before, MOVES_S):
        scene.timeline.say(f"  {what}, and lines flow")
        return
    health = scene.health()
    scene.timeline.say(f"  {what}, and no lines flow; health: {health}")
    if all(answer is not None and answer[0] == _OK for answer in health.values()):
        scene.broke(f"{what}, no lines flow, and all workers say that they are well")


def _exhausted(scene: Scene, threads: int) -> bool:
    """Whether at least this many calls hang in every worker."""
    hanging = Counter(scene.hanging.hanging())
    return all(hanging[each.process.pid] >= threads for each in scene.members.up())


def _running(scene: Scene) -> int:
    for member in scene.members.up():
        answer = scene.ask(member, Call("GET", f"/connectors/{HANGING}/status"))
        if answer is not None and answer[0] == _OK:
            return sum(task["state"] == "RUNNING" for task in answer[1]["tasks"])
    return 0
