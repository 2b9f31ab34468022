"""Faults of lanes: kill the Spark job of a lane, or kill a JVM while its lane's batches wait for the broker."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import psutil

from kraal.engine.source.write_paths import WritePath
from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.members import Member
from scripts.chaos_run.pipes import APPEND_INTERVAL_S, Pipe
from scripts.chaos_run.schedule import HeavyStep

JOB_STOP_TIMEOUT_S: Final = 3.0
"""Time within which a killed job must end."""
FREEZE_S: Final = 2.0
"""Time for which the broker is frozen before a kill. During this time, lines for several batches arrive."""
FULL_LANE_SHARE: Final = 0.5
"""Value of `pick` below which a lane's Spark job is killed while batches wait for the broker."""
WAITING_MS: Final = 1000 * 4 * APPEND_INTERVAL_S
"""Age of a source's last batch above which the source must be waiting for a batch, because lines arrive more often."""
_STATUS: Final = "/connectors/{}-source/status?expand=supervision&forward=false"
"""With `forward=false`, the worker does not query other workers for their tasks."""
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class SourceTask:
    """The state of a pipe's source task, as reported by its worker."""

    pipe: str
    uses_lane: bool
    """Whether the last batch went through a lane."""
    age_ms: float
    """Age of the last batch."""


def kill_job(scene: Scene, step: HeavyStep) -> Undo | None:
    """Kill the job of a worker's lane through Spark's web UI; in half of the cases, freeze the broker meanwhile."""
    member = scene.members.all[step.worker]
    jobs = member.ui.list_lane_jobs()
    resume = freeze_broker(scene) if jobs and step.pick < FULL_LANE_SHARE else None
    try:
        tasks = list_source_tasks(scene, member, scene.pipes)
        killed = [job for job in jobs if member.ui.kill(job)]
    finally:
        if resume is not None:
            resume()
    if not killed:
        return None
    scene.timeline.say(f"  killed job {killed} of {member}; before: {_format_tasks(tasks)}")
    if not scene.wait_until(lambda: not set(killed) & set(member.ui.list_lane_jobs()), JOB_STOP_TIMEOUT_S):
        scene.report_violation(
            f"the lane of {member} still runs {JOB_STOP_TIMEOUT_S:g} s after its job {killed} was killed"
        )

    def undo() -> None:
        scene.timeline.say(
            f"  {step.hold_s:g} s later: {_format_tasks(list_source_tasks(scene, member, scene.pipes))}"
        )

    return undo


def kill_full_jvm(scene: Scene, step: HeavyStep) -> Undo | None:
    """Freeze the broker so that batches wait in the lane, and kill the worker's JVM."""
    member = scene.members.all[step.worker]
    jvm = member.process.jvm()
    if jvm is None or not any(task.uses_lane for task in list_source_tasks(scene, member, scene.pipes)):
        return None
    resume = freeze_broker(scene)
    if resume is None:
        return None
    try:
        tasks = list_source_tasks(scene, member, scene.pipes)
        jvm.kill()
    except BaseException:
        resume()
        raise
    scene.timeline.say(f"  killed the JVM of {member} while the broker was frozen: {_format_tasks(tasks)}")
    return resume


def freeze_broker(scene: Scene) -> Undo | None:
    """Freeze the broker for long enough that batches wait for it; return a function that resumes the broker.

    Returns None if the broker is down.
    """
    pid = scene.members.broker.pid
    if pid is None:
        return None
    broker = psutil.Process(pid)

    def resume() -> None:
        with suppress(psutil.NoSuchProcess):
            broker.send_signal(signal.SIGCONT)

    broker.send_signal(signal.SIGSTOP)
    scene.stopped.wait(FREEZE_S)
    return resume


def list_source_tasks(scene: Scene, member: Member, pipes: Sequence[Pipe]) -> list[SourceTask]:
    """Return the source tasks of the pipes that run on a worker and have written a batch."""
    tasks = []
    for pipe in pipes:
        response = scene.ask(member, Call("GET", _STATUS.format(pipe.name)))
        if response is not None and response[0] == _OK:
            tasks += parse_tasks(pipe.name, response[1])
    return tasks


def parse_tasks(pipe: str, status: dict[str, Any]) -> list[SourceTask]:
    """Return the source tasks in a status with supervision. Pure."""
    return [
        SourceTask(
            pipe, str(task["last_batch_way"]).startswith(WritePath.LANE.value), task["last_batch_age_ms"] or 0
        )
        for task in status.get("supervision", {}).get("tasks", [])
        if task["last_batch_way"] is not None
    ]


def find_pipe_without_lane(scene: Scene, pipes: Sequence[Pipe]) -> str:
    """Return a message about a pipe whose last batch did not go through a lane; empty if there is none."""
    pipes_with_lane = {
        task.pipe
        for member in scene.members.up()
        for task in list_source_tasks(scene, member, pipes)
        if task.uses_lane
    }
    return next(
        (
            f"the batches of {pipe.name} do not go through a lane"
            for pipe in pipes
            if pipe.name not in pipes_with_lane
        ),
        "",
    )


def _format_tasks(tasks: Sequence[SourceTask]) -> str:
    lane_count = sum(task.uses_lane for task in tasks)
    waiting_count = sum(task.age_ms > WAITING_MS for task in tasks)
    return f"{len(tasks)} source tasks, {lane_count} through the lane, {waiting_count} waiting for a batch"
