"""The lane for small batches of sources: its Spark task is killed, or its JVM while batches wait for the broker."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import psutil

from kraal.engine.source.ways import Way
from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.members import Member
from scripts.chaos_run.pipes import EVERY_S, Pipe
from scripts.chaos_run.schedule import HeavyStep

END_S: Final = 3.0
"""How long a killed job may take to end."""
FILL_S: Final = 2.0
"""How long the broker stands still before something is killed: lines for several batches come in this time."""
FULL: Final = 0.5
"""Picks below this kill a lane's Spark task while batches wait."""
WAITING_MS: Final = 1000 * 4 * EVERY_S
"""A source whose last batch is older than this waits for a batch: lines come more often."""
_STATUS: Final = "/connectors/{}-source/status?expand=supervision&forward=false"
"""Without `forward`, the worker would ask the others for their tasks."""
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class SourceTask:
    """What a worker says about a pipe's source task that runs there."""

    pipe: str
    by_lane: bool
    age_ms: float


def kill_task(scene: Scene, step: HeavyStep) -> Undo | None:
    """Kill the job of a worker's lane in Spark's web interface, half of the times while batches wait for the broker."""
    member = scene.members.all[step.worker]
    jobs = member.ui.lanes()
    go_on = stand_still(scene) if jobs and step.pick < FULL else None
    try:
        tasks = source_tasks(scene, member, scene.pipes)
        killed = [job for job in jobs if member.ui.kill(job)]
    finally:
        if go_on is not None:
            go_on()
    if not killed:
        return None
    scene.timeline.say(f"  killed job {killed} of {member}; before: {_shown(tasks)}")
    if not scene.until(lambda: not set(killed) & set(member.ui.lanes()), END_S):
        scene.broke(f"the lane of {member} still runs {END_S:g} s after its job {killed} was killed")

    def undo() -> None:
        scene.timeline.say(f"  {step.hold_s:g} s later: {_shown(source_tasks(scene, member, scene.pipes))}")

    return undo


def kill_full_jvm(scene: Scene, step: HeavyStep) -> Undo | None:
    """Stop the broker's process until batches of all sources wait in the lane, and kill the worker's JVM."""
    member = scene.members.all[step.worker]
    jvm = member.process.jvm()
    if jvm is None or not any(task.by_lane for task in source_tasks(scene, member, scene.pipes)):
        return None
    go_on = stand_still(scene)
    if go_on is None:
        return None
    try:
        tasks = source_tasks(scene, member, scene.pipes)
        jvm.kill()
    except BaseException:
        go_on()
        raise
    scene.timeline.say(f"  killed the JVM of {member} while the broker stood still: {_shown(tasks)}")
    return go_on


def stand_still(scene: Scene) -> Undo | None:
    """Stop the broker's process and wait until batches wait for it; return what lets it continue."""
    pid = scene.members.broker.pid
    if pid is None:
        return None
    broker = psutil.Process(pid)

    def go_on() -> None:
        with suppress(psutil.NoSuchProcess):
            broker.send_signal(signal.SIGCONT)

    broker.send_signal(signal.SIGSTOP)
    scene.stopped.wait(FILL_S)
    return go_on


def source_tasks(scene: Scene, member: Member, pipes: Sequence[Pipe]) -> list[SourceTask]:
    """Return the pipes' source tasks that run on a worker and have written a batch."""
    tasks = []
    for pipe in pipes:
        answer = scene.ask(member, Call("GET", _STATUS.format(pipe.name)))
        if answer is not None and answer[0] == _OK:
            tasks += tasks_in(pipe.name, answer[1])
    return tasks


def tasks_in(pipe: str, status: dict[str, Any]) -> list[SourceTask]:
    """Return the source tasks of a status with supervision. Pure."""
    return [
        SourceTask(
            pipe, str(task["last_batch_way"]).startswith(Way.LANE.value), task["last_batch_age_ms"] or 0
        )
        for task in status.get("supervision", {}).get("tasks", [])
        if task["last_batch_way"] is not None
    ]


def not_by_lane(scene: Scene, pipes: Sequence[Pipe]) -> str:
    """Name a pipe whose last batch did not go through a lane; empty if those of all did."""
    by_lane = {
        task.pipe
        for member in scene.members.up()
        for task in source_tasks(scene, member, pipes)
        if task.by_lane
    }
    return next(
        (
            f"the batches of {pipe.name} do not go through a lane"
            for pipe in pipes
            if pipe.name not in by_lane
        ),
        "",
    )


def _shown(tasks: Sequence[SourceTask]) -> str:
    by_lane = sum(task.by_lane for task in tasks)
    waiting = sum(task.age_ms > WAITING_MS for task in tasks)
    return f"{len(tasks)} source tasks, {by_lane} of them through the lane, {waiting} wait for a batch"
