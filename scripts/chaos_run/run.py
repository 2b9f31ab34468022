"""One run: start, hurt, repair, wait, judge, end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import KafkaException

from kraal.broker.records import BrokerRecord, read_topic
from kraal.worker.control_port import REASON
from scripts.chaos_run.clients import Clients
from scripts.chaos_run.faults import Faults
from scripts.chaos_run.kinds import hostile, once
from scripts.chaos_run.kinds.groups import committed, ends
from scripts.chaos_run.kinds.install import install
from scripts.chaos_run.kinds.lanes import not_by_lane
from scripts.chaos_run.kinds.orders import Orders
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.kinds.standstill import Standstill
from scripts.chaos_run.leaks import Held, leaks
from scripts.chaos_run.lines import line, out_of_order
from scripts.chaos_run.members import Members
from scripts.chaos_run.offsets import GROUPS_TOPIC, backwards, commits_backwards, is_commit
from scripts.chaos_run.pipes import HANGING, LINES, SIDE_TOPIC, SMALL_LINES, Feeder, Pipe, Target
from scripts.chaos_run.schedule import OUTAGE_S, Schedule, schedule
from scripts.chaos_run.settling import Settling, bound_s
from scripts.chaos_run.timeline import Timeline
from scripts.chaos_run.verdict import Findings, Line, verdict
from scripts.harness.topics import create_topic

BACK_S: Final = 35.0
"""So much of the time is kept for what comes after the faults."""
LEAST_S: Final = 30.0
"""So long is hurt at least, however long the start took."""
START_TIMEOUT_S: Final = 600.0
"""On two cores that others use too, three JVMs take minutes."""
READ_S: Final = 60.0
LET_GO_S: Final = 45.0
"""How long workers may take to let go of what they no longer use."""
_POLL_INTERVAL_S: Final = 0.3
GONE_S: Final = 20.0
"""How long a killed worker's JVM may outlive it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the command line says."""

    seed: int
    seconds: float
    workers: int
    pipes: int
    kinds: tuple[str, ...]
    """Of `KINDS`: nothing else is done."""
    first: tuple[str, ...] = ()
    """Heavy faults that come before all others."""
    small: int = 3
    """Pairs of connectors with a small flow, in addition to `pipes`."""
    outage_s: float = OUTAGE_S


def run(plan: Plan, directory: Path) -> list[Line]:
    """Do it all and end all of it; return the verdict. Raises AssertionError when the cluster does not come up."""
    began_s = time.monotonic()
    with ExitStack() as stack:
        install(directory / "plugins")
        members = Members(directory, plan.workers)
        stack.callback(members.close)
        stage = _Stage(plan, members, directory)
        stack.callback(stage.close)
        stage.start()
        left_s = plan.seconds - (time.monotonic() - began_s) - BACK_S
        return stage.judged(stage.hurt(max(LEAST_S, left_s)))


class _Stage:
    """The parts of a run."""

    def __init__(self, plan: Plan, members: Members, directory: Path) -> None:
        disk, orders = members.disk.path, directory / "orders"
        orders.mkdir(exist_ok=True)

        def pipe(name: str, target: Target = Target.FILE, lines: int = LINES) -> Pipe:
            source, sink = directory / f"{name}.in", disk / f"{name}.out"
            return Pipe(name, source, sink, target, Orders(orders / name), lines)

        self._once, slow = pipe("once", Target.FILES), pipe("slow", Target.SLOW_FILE)
        self._small = [pipe(f"small-{number}", lines=SMALL_LINES) for number in range(plan.small)]
        self._pipes = [
            *(pipe(f"pipe-{number}") for number in range(plan.pipes)),
            *self._small,
            slow,
            self._once,
        ]
        (directory / "side.in").write_bytes(b"".join(line("side", number) for number in range(100)))
        self._plan, self._members = plan, members
        self._timeline = Timeline()
        self._feeder = Feeder(self._pipes)
        self._clients = Clients(members, self._pipes, directory, self._timeline)
        self._scene = Scene(
            members=members,
            slow=slow,
            once=self._once,
            hanging=Orders(orders / HANGING),
            ask=self._clients.ask,
            pipes=self._pipes,
            timeline=self._timeline,
            stopped=threading.Event(),
        )
        self._faults = Faults(members, self._timeline, self._scene)
        self._standstill = Standstill(self._scene, self._feeder.still_s)
        self._settling = Settling(members, self._pipes, self._clients, self._behind, self._place)
        self._before: list[Held] = []
        self._bound_s = 0.0

    def start(self) -> None:
        """Start all, and wait until lines flow."""
        self._timeline.say("starting the broker and the workers")
        self._members.start()
        for topic in (SIDE_TOPIC, hostile.TOPIC):
            create_topic(self._members.broker.bootstrap, topic)
        for pipe in self._pipes:
            create_topic(self._members.broker.bootstrap, pipe.name, partitions=pipe.partitions)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        missing = self._settling.want(deadline_s)
        self._feeder.start()
        missing = missing or self._settling.wait(None, deadline_s)
        while not missing and any(pipe.last() < 0 for pipe in self._pipes):
            if time.monotonic() > deadline_s:
                missing = "no lines come out"
            time.sleep(0.1)
        missing = missing or self._until_lanes(deadline_s)
        if missing:
            raise AssertionError(f"The cluster did not come up: {missing}")
        self._before = self._held()
        self._bound_s = bound_s(self._timeline.now_s())
        self._timeline.say("all runs")
        self._timeline.restart()
        self._feeder.standstill_s = 0.0

    def hurt(self, seconds: float) -> tuple[float | None, str]:
        """Do what the schedule says for so long, repair all, and wait; return how long it took, and what is missing."""
        plan = self._plan
        steps = schedule(plan.seed, plan.seconds, plan.workers, plan.kinds, plan.first, plan.outage_s)
        self._timeline.say(f"faults for {seconds:.0f} s")
        self._side_by_side(steps, seconds)
        self._timeline.say("no more faults; repairing")
        self._faults.revive()
        repaired_s = time.monotonic()
        deadline_s = repaired_s + self._bound_s
        missing = self._settling.want(deadline_s)
        missing = missing or self._until_lanes(deadline_s)
        self._feeder.stop()
        missing = missing or self._settling.wait(self._feeder, deadline_s)
        took_s = time.monotonic() - repaired_s
        self._timeline.say(
            f"MISSING: {missing}" if missing else f"all is as it is wanted, after {took_s:.1f} s"
        )
        return None if missing else took_s, missing

    def judged(self, back: tuple[float | None, str]) -> list[Line]:
        """Compare what there is with what there should be, end the workers, and return the verdict."""
        leaked = self._leaked()
        if leaked:
            for member in self._members.all:
                self._timeline.say(f"{member}: {member.control(do='clients')}")
        sources = self._records(f"{self._members.group}-offset")
        back_to = backwards(sources, self._pipes, self._faults.half_open)
        sinks = self._records(GROUPS_TOPIC)
        ended = [*self._faults.ended, *self._end()]
        left = [each for member in self._members.all for each in member.left]
        deadline_s = time.monotonic() + GONE_S
        while (alive := [each for each in left if _lives(each)]) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        return verdict(
            Findings(
                deliveries={pipe.name: pipe.delivery(self._feeder.written(pipe)) for pipe in self._pipes},
                answers=self._clients.statuses,
                unanswered=self._clients.unanswered,
                malformed=self._clients.malformed,
                back_s=back[0],
                bound_s=self._bound_s,
                missing=back[1],
                ended=ended,
                died=[each for member in self._members.all for each in member.deaths(REASON)],
                backwards=[*back_to.sent_late, *commits_backwards(sinks, self._pipes)],
                held_back=back_to.held_back,
                commits=len(sources) + sum(is_commit(each, self._pipes) for each in sinks),
                twice=once.faults(self._records(self._once.name), once.contents(self._once.sink_file)),
                disordered=self._disordered(),
                broken=self._scene.broken,
                leaks=leaked,
                left=[f"{each.pid}: {_name(each)}" for each in alive],
                failed=self._faults.failed,
                standstill_s=self._feeder.standstill_s,
                lanes=sum((member.lanes() for member in self._members.all), Counter()),
                killed=self._faults.counts,
            )
        )

    def close(self) -> None:
        """End the threads."""
        self._faults.stop()
        self._clients.stop()
        self._feeder.stop()
        self._clients.close()

    def _behind(self, pipe: Pipe) -> str:
        if pipe.target is not Target.FILES:
            return ""
        bootstrap = self._members.broker.bootstrap
        return once.behind(once.range_files(pipe.sink_file), ends(bootstrap, pipe))

    def _place(self, pipe: Pipe) -> str:
        bootstrap = self._members.broker.bootstrap
        try:
            return f"its topic ends at {ends(bootstrap, pipe)}, its sink has committed {committed(bootstrap, pipe)}"
        except KafkaException as exc:
            return f"its topic and its group cannot be asked: {exc}"

    def _records(self, topic: str) -> list[BrokerRecord]:
        return read_topic(self._members.broker.bootstrap, topic, timeout_s=READ_S)

    def _until_lanes(self, deadline_s: float) -> str:
        """Wait until the small flows go through lanes; return what was missing at `deadline_s` (monotonic)."""
        while missing := not_by_lane(self._scene, self._small):
            if time.monotonic() > deadline_s:
                return missing
            time.sleep(_POLL_INTERVAL_S)
        return ""

    def _disordered(self) -> list[str]:
        """Name the topics with one partition whose records are not in the order of the source file."""
        errors = []
        for pipe in self._pipes:
            if pipe.partitions == 1:
                values = [record.value or b"" for record in self._records(pipe.name)]
                if (number := out_of_order(pipe.name, values)) is not None:
                    errors.append(f"{pipe.name}: line {number} does not follow all lines before it")
        return errors

    def _side_by_side(self, steps: Schedule, seconds: float) -> None:
        jobs: Sequence[tuple[str, Callable[[], None]]] = (
            ("heavy", lambda: self._faults.heavy(steps.heavy, seconds)),
            ("actors", lambda: self._faults.actors(steps.actors, seconds)),
            ("standstill", lambda: self._standstill.run(seconds)),
            ("requests", lambda: self._clients.run(steps.requests, seconds)),
        )
        with ThreadPoolExecutor(len(jobs)) as threads:
            ends = {name: threads.submit(job) for name, job in jobs}
            try:
                wait(ends.values())
            finally:  # Ctrl-C must not wait for the rest of the schedule
                self._faults.stop()
                self._clients.stop()
        for name, end in ends.items():
            if (error := end.exception()) is not None:
                self._faults.failed.append(f"the thread of {name} ended with {error!r}")

    def _held(self) -> list[Held]:
        return [held for member in self._members.all if (held := member.held()) is not None]

    def _leaked(self) -> list[str]:
        deadline_s = time.monotonic() + LET_GO_S
        while True:
            now = self._held()
            errors = leaks(self._before, now) if len(now) == len(self._members.all) else ["not all answer"]
            if not errors or time.monotonic() > deadline_s:
                return errors
            time.sleep(0.5)

    def _end(self) -> list[str]:
        errors = []
        for member in self._members.all:
            try:
                code = member.end()
            except AssertionError as exc:
                errors.append(f"{member}: {str(exc).partition(chr(10))[0]}")
            else:
                if code != 0:
                    errors.append(f"{member} ended with {code} when it was told to end")
        self._timeline.say("all workers have ended")
        return errors


def _lives(process: psutil.Process) -> bool:
    """Whether it is there and no zombie: whose parent was killed may have no one who collects it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:100]
    except psutil.Error:
        return "gone meanwhile"
