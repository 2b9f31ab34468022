"""Executes the steps of a schedule that inject faults or kill actors, and counts the injected faults."""

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
from scripts.chaos_run.kinds.table import EXTRA_DURATION_S, INJECTORS
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.proxy import Mode
from scripts.chaos_run.schedule import RECOVERY_S, Actor, ActorStep, HeavyFault, HeavyStep, choose
from scripts.chaos_run.timeline import Timeline

JVM_TIMEOUT_S: Final = 20.0
IN_FLIGHT_MS: Final = 1000
"""Maximum time from the creation of an offset to its arrival at the proxy. An offset that was created shortly before a
connection became half-open may be delayed, too."""
MAX_DELAY_S: Final = 2.0
"""Maximum delay after which an actor is still killed. Later kills would follow each other too closely."""
_PROXY_MODES: Final = {
    HeavyFault.DELAY: Mode.DELAY,
    HeavyFault.CUT: Mode.CUT,
    HeavyFault.HALF_OPEN: Mode.HALF_OPEN,
}
_OVERHEAD_S: Final = {
    HeavyFault.KILL_WORKER: 20.0,
    HeavyFault.STOP_BROKER: 8.0,
    HeavyFault.KILL_BROKER: 8.0,
    HeavyFault.OUTAGE: 8.0,
    **EXTRA_DURATION_S,
}
"""Approximate time that it takes to inject and undo a slow fault."""
_NOT_ON_WORKER: Final = frozenset(
    {HeavyFault.STOP_BROKER, HeavyFault.KILL_BROKER, HeavyFault.OUTAGE, *INJECTORS}
    - {HeavyFault.SUSPEND, HeavyFault.KILL_LANE, HeavyFault.KILL_FULL_JVM}
)
"""Faults that do not affect the worker with the step's number."""


class Faults:
    """Injects the faults of a schedule until `stop` is called."""

    def __init__(self, members: Members, timeline: Timeline, scene: Scene | None = None) -> None:
        """Create the injector. `scene` is required for the faults of the package `kinds`."""
        self.counts: Counter[str] = Counter()
        """Number of injected faults by kind. Each key is updated by only one thread."""
        self.failures: list[str] = []
        """Messages about faults that could not be injected or undone."""
        self.half_open_periods: list[tuple[int, int]] = []
        """Start and end of each period with half-open connections, in milliseconds since the epoch."""
        self.unexpected_exits: list[str] = []
        """Workers that exited without having been killed."""
        self._members = members
        self._timeline = timeline
        self._scene = scene
        self._stopped = threading.Event() if scene is None else scene.stopped

    def stop(self) -> None:
        """Inject no further faults; faults in progress are still undone."""
        self._stopped.set()

    def run_heavy_steps(self, steps: Sequence[HeavyStep], until_s: float) -> None:
        """Inject and undo the faults, one after the other; skip faults that would end after `until_s`."""
        earliest_s = 0.0
        for step in steps:
            begin_s = max(step.at_s, earliest_s)
            end_s = begin_s + step.hold_s + _OVERHEAD_S.get(step.fault, 0.0) + RECOVERY_S[0]
            if end_s > until_s:
                continue  # a shorter step may still fit
            if not self._wait_until(begin_s):
                return
            self._execute(step)
            earliest_s = self._timeline.now_s() + RECOVERY_S[0]

    def run_actor_steps(self, steps: Sequence[ActorStep], until_s: float) -> None:
        """Kill the actor of each step at the time of the step; skip overdue steps."""
        for step in steps:
            if step.at_s > until_s or not self._wait_until(step.at_s):
                return
            if self._timeline.now_s() - step.at_s <= MAX_DELAY_S:
                self._kill_actor(step)

    def revive(self) -> None:
        """Withdraw all commands, and start the broker and workers that are down; record unexpected exits of workers."""
        if self._scene is not None:
            self._scene.release()
        if self._members.broker.pid is None:
            self._members.broker.start()
        for member in self._members.all:
            self._check(member)
            if not member.process.alive:
                member.start()

    def _wait_until(self, at_s: float) -> bool:
        """Wait until a time; return False if the run ends earlier."""
        return not self._stopped.wait(max(0.0, at_s - self._timeline.now_s()))

    def _execute(self, step: HeavyStep) -> None:
        member = self._members.all[step.worker]
        affects_no_worker = step.fault in _NOT_ON_WORKER
        try:
            if not affects_no_worker:
                self._check(member)
            begin_ms = _now_ms() - IN_FLIGHT_MS
            undo = self._inject(step, member)
            if undo is None:
                self._timeline.say(f"{step.fault}: currently not possible on {member}")
                return
            self.counts[step.fault] += 1
            self._timeline.say(
                f"{step.fault}" + ("" if affects_no_worker else f": {member}") + f", for {step.hold_s:g} s"
            )
            self._stopped.wait(step.hold_s)
            undo()
            if step.fault is HeavyFault.HALF_OPEN:
                self.half_open_periods.append((begin_ms, _now_ms()))
            self._timeline.say(f"  undone: {step.fault}")
        except (AssertionError, BrokerError, KafkaException, OSError, psutil.Error) as exc:
            self.failures.append(f"+{self._timeline.now_s():.1f} s {step.fault} of {member}: {exc}")
            self._timeline.say(f"  FAILED: {step.fault}: {str(exc).partition(chr(10))[0]}")

    def _inject(self, step: HeavyStep, member: Member) -> Undo | None:
        """Inject the fault; return a function that undoes the fault, or None if the fault is not possible."""
        fault, broker = step.fault, self._members.broker
        if fault in INJECTORS:
            return None if self._scene is None else INJECTORS[fault](self._scene, step)
        if fault in _PROXY_MODES:
            member.proxy.set_mode(_PROXY_MODES[fault])
            return lambda: member.proxy.set_mode(Mode.STRAIGHT)
        if fault is HeavyFault.KILL_WORKER:
            member.kill()
            return member.start
        if fault in (HeavyFault.STOP_BROKER, HeavyFault.OUTAGE):
            broker.stop()
            return lambda: _start_broker(broker.start)
        if fault is HeavyFault.KILL_BROKER:
            broker.kill()
            return lambda: _start_broker(broker.start)
        if fault in (HeavyFault.FULL_DISK, HeavyFault.READ_ONLY_DISK):
            return self._break_disk(fault, member)
        processes = self._find_processes(fault, member)
        if not processes:
            return None
        if fault is HeavyFault.KILL_JVM:
            processes[0].kill()
            return lambda: None
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        return lambda: _resume(processes)

    def _break_disk(self, fault: HeavyFault, member: Member) -> Callable[[], None] | None:
        """Break the disk and kill the JVM, because a restart of Spark creates files."""
        disk, jvm = self._members.disk, self._find_processes(HeavyFault.KILL_JVM, member)
        undo = disk.fill() if fault is HeavyFault.FULL_DISK else disk.protect(member.data)
        if undo is not None and jvm:
            jvm[0].kill()
        return undo

    def _find_processes(self, fault: HeavyFault, member: Member) -> list[psutil.Process]:
        python = psutil.Process(member.process.pid)
        if fault is HeavyFault.FREEZE_PYTHON:
            return [python]
        deadline = time.monotonic() + JVM_TIMEOUT_S
        while (jvm := member.process.jvm()) is None:
            if time.monotonic() > deadline or self._stopped.wait(0.2):
                return []
        return [python, jvm] if fault is HeavyFault.FREEZE_BOTH else [jvm]

    def _kill_actor(self, step: ActorStep) -> None:
        member = self._members.all[step.worker]
        response = member.control(do="list")
        if "error" in response:
            return  # another fault affects the worker
        is_prefix = step.actor in (Actor.TASK, Actor.CONNECTOR)
        names = [
            name
            for name in response["actors"]
            if (name.startswith(step.actor) if is_prefix else name == step.actor)
        ]
        name = choose(names, step.pick)
        if name is None or "error" in member.control(do="crash", actor=name):
            return
        self.counts[f"death of a {step.actor.strip()} actor"] += 1
        self._timeline.say(f"actor killed: {name} of {member}")

    def _check(self, member: Member) -> None:
        """If a worker has exited without having been killed, record the exit and restart the worker."""
        if member.process.alive or member.url is None:
            return
        message = f"{member} exited with {member.process.exit_code}"
        self.unexpected_exits.append(f"+{self._timeline.now_s():.1f} s {message}")
        self._timeline.say(f"  UNEXPECTED: {message}")
        member.kill()
        member.start()


def _start_broker(start: Callable[[], str]) -> None:
    start()


def _resume(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
