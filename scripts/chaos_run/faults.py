"""Carries out the steps of a schedule, each kind on a thread of its own, and counts them."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import psutil
from confluent_kafka import KafkaException

from kraal.jars.errors import BrokerError
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.kinds.table import DO, EXTRA_S
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.proxy import Mode
from scripts.chaos_run.schedule import RECOVERY_S, Actor, ActorStep, Heavy, HeavyStep, choose
from scripts.chaos_run.timeline import Timeline

JVM_S: Final = 20.0
MAX_DELAY_S: Final = 2.0
"""An actor is not killed later than this: its deaths would come too close to each other."""
_MODES: Final = {Heavy.DELAY: Mode.DELAY, Heavy.CUT: Mode.CUT, Heavy.HALF_OPEN: Mode.HALF_OPEN}
_UNDOING_S: Final = {
    Heavy.KILL_WORKER: 20.0,
    Heavy.STOP_BROKER: 8.0,
    Heavy.KILL_BROKER: 8.0,
    Heavy.OUTAGE: 8.0,
    **EXTRA_S,
}
"""About so long it takes to do and undo what takes long."""
_ELSEWHERE: Final = frozenset(
    {Heavy.STOP_BROKER, Heavy.KILL_BROKER, Heavy.OUTAGE, *DO}
    - {Heavy.SUSPEND, Heavy.KILL_LANE, Heavy.KILL_FULL_JVM}
)
"""Faults that are not about the worker that the step names."""


class Faults:
    """Hurts the members until it is told to stop."""

    def __init__(self, members: Members, timeline: Timeline, scene: Scene | None = None) -> None:
        """Nothing is hurt yet. `scene`: for the faults of `kinds`, which cannot be done without one."""
        self.counts: Counter[str] = Counter()
        """What was carried out, by kind; a thread of its own for each half of the keys."""
        self.failed: list[str] = []
        self.half_open: list[tuple[int, int]] = []
        """When connections of a worker were half-open: start and end, in milliseconds since 1970."""
        self.ended: list[str] = []
        """Workers that ended though no one killed them."""
        self._members = members
        self._timeline = timeline
        self._scene = scene
        self._stopped = threading.Event() if scene is None else scene.stopped

    def stop(self) -> None:
        """Begin nothing more; what was done is still undone."""
        self._stopped.set()

    def heavy(self, steps: Sequence[HeavyStep], until_s: float) -> None:
        """Do and undo the steps, one after the other; none that would end after `until_s`."""
        earliest_s = 0.0
        for step in steps:
            begin_s = max(step.at_s, earliest_s)
            end_s = begin_s + step.hold_s + _UNDOING_S.get(step.fault, 0.0) + RECOVERY_S[0]
            if end_s > until_s:
                continue  # a shorter one may still fit
            if not self._reached(begin_s):
                return
            self._one(step)
            earliest_s = self._timeline.now_s() + RECOVERY_S[0]

    def actors(self, steps: Sequence[ActorStep], until_s: float) -> None:
        """Kill actors, each at its time; those whose time has passed meanwhile live."""
        for step in steps:
            if step.at_s > until_s or not self._reached(step.at_s):
                return
            if self._timeline.now_s() - step.at_s <= MAX_DELAY_S:
                self._kill_actor(step)

    def revive(self) -> None:
        """Start what is down, and let continue what hangs; a worker that no one killed is noted."""
        if self._scene is not None:
            self._scene.release()
        if self._members.broker.pid is None:
            self._members.broker.start()
        for member in self._members.all:
            self._check(member)
            if not member.process.alive:
                member.start()

    def _reached(self, at_s: float) -> bool:
        """Wait for a moment; return False when all is over before."""
        return not self._stopped.wait(max(0.0, at_s - self._timeline.now_s()))

    def _one(self, step: HeavyStep) -> None:
        member = self._members.all[step.worker]
        elsewhere = step.fault in _ELSEWHERE
        try:
            if not elsewhere:
                self._check(member)
            undo = self._do(step, member)
            if undo is None:
                self._timeline.say(f"{step.fault}: cannot be done to {member} now")
                return
            self.counts[step.fault] += 1
            begin_ms = _now_ms()
            self._timeline.say(
                f"{step.fault}" + ("" if elsewhere else f": {member}") + f", for {step.hold_s:g} s"
            )
            self._stopped.wait(step.hold_s)
            undo()
            if step.fault is Heavy.HALF_OPEN:
                self.half_open.append((begin_ms, _now_ms()))
            self._timeline.say(f"  over: {step.fault}")
        except (AssertionError, BrokerError, KafkaException, OSError, psutil.Error) as exc:
            self.failed.append(f"+{self._timeline.now_s():.1f} s {step.fault} of {member}: {exc}")
            self._timeline.say(f"  FAILED: {step.fault}: {str(exc).partition(chr(10))[0]}")

    def _do(self, step: HeavyStep, member: Member) -> Undo | None:
        """Do it; return what undoes it, or None when it could not be done."""
        fault, broker = step.fault, self._members.broker
        if fault in DO:
            return None if self._scene is None else DO[fault](self._scene, step)
        if fault in _MODES:
            member.proxy.set(_MODES[fault])
            return lambda: member.proxy.set(Mode.STRAIGHT)
        if fault is Heavy.KILL_WORKER:
            member.kill()
            return member.start
        if fault in (Heavy.STOP_BROKER, Heavy.OUTAGE):
            broker.stop()
            return lambda: _start(broker.start)
        if fault is Heavy.KILL_BROKER:
            broker.kill()
            return lambda: _start(broker.start)
        if fault in (Heavy.FULL_DISK, Heavy.READ_ONLY_DISK):
            return self._hurt_disk(fault, member)
        processes = self._processes(fault, member)
        if not processes:
            return None
        if fault is Heavy.KILL_JVM:
            processes[0].kill()
            return lambda: None
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        return lambda: _go_on(processes)

    def _hurt_disk(self, fault: Heavy, member: Member) -> Callable[[], None] | None:
        """Spark starts again meanwhile, which takes files."""
        disk, jvm = self._members.disk, self._processes(Heavy.KILL_JVM, member)
        undo = disk.fill() if fault is Heavy.FULL_DISK else disk.protect(member.data)
        if undo is not None and jvm:
            jvm[0].kill()
        return undo

    def _processes(self, fault: Heavy, member: Member) -> list[psutil.Process]:
        python = psutil.Process(member.process.pid)
        if fault is Heavy.FREEZE_PYTHON:
            return [python]
        deadline = time.monotonic() + JVM_S
        while (jvm := member.process.jvm()) is None:
            if time.monotonic() > deadline or self._stopped.wait(0.2):
                return []
        return [python, jvm] if fault is Heavy.FREEZE_BOTH else [jvm]

    def _kill_actor(self, step: ActorStep) -> None:
        member = self._members.all[step.worker]
        listed = member.control(do="list")
        if "error" in listed:
            return  # another fault has it just now
        many = step.actor in (Actor.TASK, Actor.CONNECTOR)
        fits = [
            name for name in listed["actors"] if (name.startswith(step.actor) if many else name == step.actor)
        ]
        name = choose(fits, step.pick)
        if name is None or "error" in member.control(do="crash", actor=name):
            return
        self.counts[f"death of a {step.actor.strip()} actor"] += 1
        self._timeline.say(f"actor killed: {name} of {member}")

    def _check(self, member: Member) -> None:
        """Note a worker that has ended though no one killed it, and start it again."""
        if member.process.alive or member.url is None:
            return
        what = f"{member} ended with {member.process.exit_code}"
        self.ended.append(f"+{self._timeline.now_s():.1f} s {what}")
        self._timeline.say(f"  NOT ASKED FOR: {what}")
        member.kill()
        member.start()


def _start(start: Callable[[], str]) -> None:
    start()


def _go_on(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
