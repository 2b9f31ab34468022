"""Runs the script: start the cluster, inject faults, repair them, wait, check the results, and stop."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import KafkaException

from kraal.broker.records import BrokerRecord, read_topic
from kraal.worker.control_port import REASON
from scripts.chaos_run import ledger, tables
from scripts.chaos_run.clients import Clients
from scripts.chaos_run.faults import Faults
from scripts.chaos_run.kinds import hostile, once
from scripts.chaos_run.kinds.groups import get_committed, get_end_offsets
from scripts.chaos_run.kinds.install import install
from scripts.chaos_run.kinds.lanes import find_pipe_without_lane
from scripts.chaos_run.kinds.orders import Commands
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.kinds.standstill import StandstillCheck
from scripts.chaos_run.leaks import Resources, find_leaks
from scripts.chaos_run.lines import Delivery, find_out_of_order, make_line
from scripts.chaos_run.members import LEDGER_TOPIC, Members
from scripts.chaos_run.offsets import (
    GROUPS_TOPIC,
    find_commit_regressions,
    find_source_regressions,
    is_commit,
)
from scripts.chaos_run.pipes import HANGING_CONNECTOR, LINES, SIDE_TOPIC, SMALL_LINES, Feeder, Pipe, Target
from scripts.chaos_run.proofs import find_disagreements
from scripts.chaos_run.schedule import OUTAGE_S, Schedule, schedule
from scripts.chaos_run.settling import Settling, get_recovery_limit_s
from scripts.chaos_run.timeline import Timeline
from scripts.chaos_run.verdict import Findings, Line, make_verdict
from scripts.harness.topics import create_topic

RECOVERY_S: Final = 35.0
"""Time reserved for the phases after the faults."""
MIN_FAULTS_S: Final = 30.0
"""Minimum duration of the phase with faults, regardless of the startup time."""
START_TIMEOUT_S: Final = 600.0
"""Startup timeout. Three JVMs that share two cores take minutes to start."""
READ_TIMEOUT_S: Final = 60.0
RELEASE_TIMEOUT_S: Final = 45.0
"""Time within which workers must release unused resources."""
_POLL_INTERVAL_S: Final = 0.3
JVM_EXIT_TIMEOUT_S: Final = 20.0
"""Time within which the JVM of a killed worker must exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Command-line options of a run."""

    seed: int
    seconds: float
    workers: int
    pipes: int
    kinds: tuple[str, ...]
    """The enabled kinds, a subset of `KINDS`."""
    first: tuple[str, ...] = ()
    """Heavy faults that are injected before all others."""
    small: int = 3
    """Number of pipes with a small flow, in addition to `pipes`."""
    outage_s: float = OUTAGE_S


def run(options: RunOptions, directory: Path) -> list[Line]:
    """Run with these options and stop everything; return the verdict. Raises AssertionError if the start fails."""
    start_s = time.monotonic()
    with ExitStack() as stack:
        install(directory / "plugins")
        members = Members(directory, options.workers)
        stack.callback(members.close)
        components = _Components(options, members, directory)
        stack.callback(components.close)
        components.start()
        remaining_s = options.seconds - (time.monotonic() - start_s) - RECOVERY_S
        return components.collect_verdict(components.inject_faults(max(MIN_FAULTS_S, remaining_s)))


class _Components:
    """The components of a run."""

    def __init__(self, options: RunOptions, members: Members, directory: Path) -> None:
        disk, commands_directory = members.disk.path, directory / "orders"
        commands_directory.mkdir(exist_ok=True)

        def pipe(name: str, target: Target = Target.FILE, lines: int = LINES) -> Pipe:
            source, sink = directory / f"{name}.in", disk / f"{name}.out"
            return Pipe(name, source, sink, target, Commands(commands_directory / name), lines)

        self._once, slow = pipe("once", Target.FILES), pipe("slow", Target.SLOW_FILE)
        self._small = [pipe(f"small-{number}", lines=SMALL_LINES) for number in range(options.small)]
        self._tables = [
            pipe("iceberg", Target.ICEBERG, SMALL_LINES),
            pipe("delta", Target.DELTA, SMALL_LINES),
        ]
        self._pipes = [
            *(pipe(f"pipe-{number}") for number in range(options.pipes)),
            *self._small,
            *self._tables,
            slow,
            self._once,
        ]
        (directory / "side.in").write_bytes(b"".join(make_line("side", number) for number in range(100)))
        self._options, self._members = options, members
        self._timeline = Timeline()
        self._feeder = Feeder(self._pipes)
        self._clients = Clients(members, self._pipes, directory, self._timeline)
        self._scene = Scene(
            members=members,
            slow=slow,
            once=self._once,
            hanging=Commands(commands_directory / HANGING_CONNECTOR),
            ask=self._clients.ask,
            pipes=self._pipes,
            timeline=self._timeline,
            stopped=threading.Event(),
        )
        self._faults = Faults(members, self._timeline, self._scene)
        self._standstill = StandstillCheck(self._scene, self._feeder.get_stall_s)
        self._settling = Settling(
            members, self._pipes, self._clients, self._describe_lag, self._describe_offsets
        )
        self._initial_resources: list[Resources] = []
        self._recovery_limit_s = 0.0

    def start(self) -> None:
        """Start the cluster, and wait until lines flow."""
        self._timeline.say("starting the broker and the workers")
        self._members.start()
        for topic in (SIDE_TOPIC, hostile.TOPIC):
            create_topic(self._members.broker.bootstrap, topic)
        for pipe in self._pipes:
            create_topic(self._members.broker.bootstrap, pipe.name, partitions=pipe.partitions)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        missing = self._settling.request_target_state(deadline_s)
        self._feeder.start()
        missing = missing or self._settling.wait(None, deadline_s)
        while not missing and any(pipe.read_last_number() < 0 for pipe in self._pipes):
            if time.monotonic() > deadline_s:
                missing = "no lines are delivered"
            time.sleep(0.1)
        missing = missing or self._wait_until_lanes(deadline_s)
        if missing:
            raise AssertionError(f"The cluster did not start: {missing}")
        self._initial_resources = self._list_resources()
        self._recovery_limit_s = get_recovery_limit_s(self._timeline.now_s())
        self._timeline.say("everything is running")
        self._timeline.restart()
        self._feeder.standstill_s = 0.0

    def inject_faults(self, seconds: float) -> tuple[float | None, str]:
        """Inject faults for `seconds`, repair them, and wait for the target state.

        Returns the recovery time, or None after a timeout, and a description of what is missing.
        """
        options = self._options
        steps = schedule(
            options.seed, options.seconds, options.workers, options.kinds, options.first, options.outage_s
        )
        self._timeline.say(f"faults for {seconds:.0f} s")
        self._run_in_parallel(steps, seconds)
        self._timeline.say("no more faults; repairing")
        self._faults.revive()
        repaired_s = time.monotonic()
        deadline_s = repaired_s + self._recovery_limit_s
        missing = self._settling.request_target_state(deadline_s)
        missing = missing or self._wait_until_lanes(deadline_s)
        self._feeder.stop()
        missing = missing or self._settling.wait(self._feeder, deadline_s)
        recovery_s = time.monotonic() - repaired_s
        self._timeline.say(f"MISSING: {missing}" if missing else f"recovered after {recovery_s:.1f} s")
        return None if missing else recovery_s, missing

    def collect_verdict(self, recovery: tuple[float | None, str]) -> list[Line]:
        """Compare the actual state with the expected one, stop the workers, and return the verdict."""
        leaked = self._find_leaks()
        if leaked:
            for member in self._members.all:
                self._timeline.say(f"{member}: {member.control(do='clients')}")
        sources = self._read_records(f"{self._members.group}-offset")
        regressions = find_source_regressions(sources, self._pipes, self._faults.half_open_periods)
        sinks = self._read_records(GROUPS_TOPIC)
        deliveries = {pipe.name: pipe.delivery(self._feeder.count_written(pipe)) for pipe in self._pipes}
        disagreements = (
            [] if recovery[1] else find_disagreements(self._members.up()[0], deliveries, self._pipes)
        )
        ledger_disagreements = [] if recovery[1] else self._compare_ledger(deliveries)
        exits = [*self._faults.unexpected_exits, *self._stop_members()]
        orphans = [orphan for member in self._members.all for orphan in member.orphans]
        deadline_s = time.monotonic() + JVM_EXIT_TIMEOUT_S
        while (running := [orphan for orphan in orphans if _is_running(orphan)]) and (
            time.monotonic() < deadline_s
        ):
            time.sleep(0.2)
        return make_verdict(
            Findings(
                deliveries=deliveries,
                proof_disagreements=disagreements,
                ledger_disagreements=ledger_disagreements,
                responses=self._clients.statuses,
                unanswered_count=self._clients.unanswered_count,
                malformed_responses=self._clients.malformed_responses,
                recovery_s=recovery[0],
                recovery_limit_s=self._recovery_limit_s,
                missing=recovery[1],
                unexpected_exits=exits,
                unexpected_deaths=[
                    death for member in self._members.all for death in member.list_deaths(REASON)
                ],
                offset_regressions=[*regressions.sent_late, *find_commit_regressions(sinks, self._pipes)],
                delayed_offsets=regressions.delayed,
                commits=len(sources) + sum(is_commit(record, self._pipes) for record in sinks),
                exactly_once_violations=self._find_exactly_once_violations(),
                out_of_order=self._find_out_of_order(),
                violations=self._scene.violations,
                leaks=leaked,
                remaining_processes=[f"{process.pid}: {_describe_process(process)}" for process in running],
                failed_faults=self._faults.failures,
                standstill_s=self._feeder.standstill_s,
                lane_events=sum((member.count_lane_events() for member in self._members.all), Counter()),
                faults=self._faults.counts,
            )
        )

    def _find_exactly_once_violations(self) -> list[str]:
        files, records = once.read_files(self._once.sink_file), self._read_records(self._once.name)
        violations = once.find_violations(records, files)
        for pipe in self._tables:
            lines = [] if pipe.table is None else pipe.table.read_lines()
            violations += tables.find_violations(pipe.name, self._read_records(pipe.name), lines)
        return violations

    def _compare_ledger(self, deliveries: Mapping[str, Delivery]) -> list[str]:
        bootstrap, fault_count = self._members.broker.bootstrap, self._faults.counts.total()
        expectations = {
            pipe.name: ledger.Expectation(
                deliveries[pipe.name], get_end_offsets(bootstrap, pipe), fault_count
            )
            for pipe in self._pipes
        }
        return ledger.find_disagreements(
            self._members.up()[0], self._pipes, expectations, lambda: self._read_records(LEDGER_TOPIC)
        )

    def close(self) -> None:
        """Stop the threads."""
        self._faults.stop()
        self._clients.stop()
        self._feeder.stop()
        self._clients.close()

    def _describe_lag(self, pipe: Pipe) -> str:
        if pipe.target is not Target.FILES:
            return ""
        bootstrap = self._members.broker.bootstrap
        return once.describe_lag(once.list_range_files(pipe.sink_file), get_end_offsets(bootstrap, pipe))

    def _describe_offsets(self, pipe: Pipe) -> str:
        bootstrap = self._members.broker.bootstrap
        try:
            ends, offsets = get_end_offsets(bootstrap, pipe), get_committed(bootstrap, pipe)
        except KafkaException as exc:
            return f"failed to query the topic and the group: {exc}"
        return f"topic end offsets: {ends}, committed by the sink: {offsets}"

    def _read_records(self, topic: str) -> list[BrokerRecord]:
        return read_topic(self._members.broker.bootstrap, topic, timeout_s=READ_TIMEOUT_S)

    def _wait_until_lanes(self, deadline_s: float) -> str:
        """Wait until small flows go through lanes; return a message about one that does not by `deadline_s`, or ""."""
        while missing := find_pipe_without_lane(self._scene, self._small):
            if time.monotonic() > deadline_s:
                return missing
            time.sleep(_POLL_INTERVAL_S)
        return ""

    def _find_out_of_order(self) -> list[str]:
        """Return a message for each single-partition topic whose records are not in the order of the source file."""
        errors = []
        for pipe in self._pipes:
            if pipe.partitions == 1:
                values = [record.value or b"" for record in self._read_records(pipe.name)]
                if (number := find_out_of_order(pipe.name, values)) is not None:
                    errors.append(f"{pipe.name}: line {number} precedes a lower-numbered line")
        return errors

    def _run_in_parallel(self, steps: Schedule, seconds: float) -> None:
        jobs: Sequence[tuple[str, Callable[[], None]]] = (
            ("heavy", lambda: self._faults.run_heavy_steps(steps.heavy, seconds)),
            ("actors", lambda: self._faults.run_actor_steps(steps.actors, seconds)),
            ("standstill", lambda: self._standstill.run(seconds)),
            ("requests", lambda: self._clients.run(steps.requests, seconds)),
        )
        with ThreadPoolExecutor(len(jobs)) as threads:
            futures = {name: threads.submit(job) for name, job in jobs}
            try:
                wait(futures.values())
            finally:  # on Ctrl-C, do not wait for the rest of the schedule
                self._faults.stop()
                self._clients.stop()
        for name, future in futures.items():
            if (error := future.exception()) is not None:
                self._faults.failures.append(f"the thread {name} failed: {error!r}")

    def _list_resources(self) -> list[Resources]:
        return [
            resources for member in self._members.all if (resources := member.get_resources()) is not None
        ]

    def _find_leaks(self) -> list[str]:
        deadline_s = time.monotonic() + RELEASE_TIMEOUT_S
        while True:
            resources = self._list_resources()
            errors = (
                find_leaks(self._initial_resources, resources)
                if len(resources) == len(self._members.all)
                else ["not all workers respond"]
            )
            if not errors or time.monotonic() > deadline_s:
                return errors
            time.sleep(0.5)

    def _stop_members(self) -> list[str]:
        errors = []
        for member in self._members.all:
            try:
                code = member.end()
            except AssertionError as exc:
                errors.append(f"{member}: {str(exc).partition(chr(10))[0]}")
            else:
                if code != 0:
                    errors.append(f"{member} exited with {code} on SIGTERM")
        self._timeline.say("all workers have exited")
        return errors


def _is_running(process: psutil.Process) -> bool:
    """Return whether a process is running. A process whose parent was killed may be a zombie, which is not running."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _describe_process(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:100]
    except psutil.Error:
        return "exited meanwhile"
