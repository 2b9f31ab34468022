"""The demo with a cluster of distributed workers that share file connectors. One of the workers is killed.

Each source file grows while the demo runs, so that lines are in flight when the worker dies. The group must detect the
loss and reassign the work; at the end, every line must be in its sink file at least once.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from scripts.demo_workers import (
    WORKER_PROPERTIES,
    display_name,
    has_moved,
    instances_table,
    moves_table,
    say_after,
    say_detected,
    start_broker,
    start_workers,
    wait_until_detected,
    workers_table,
)
from scripts.harness.clusters import Cluster, get_owners
from scripts.harness.lines import LINE_BYTES_ON_DISK, size, write_lines
from scripts.harness.processes import ScriptFailed
from scripts.harness.show import POLL_INTERVAL_S, Progress, format_table, say
from scripts.harness.topics import Reader, create_topic
from scripts.harness.workers import START_TIMEOUT_S, Worker

MIN_WORKERS = 2
LINES = 120_000
PIPES = 3
FEED_DURATION_S = 24.0
"""Time over which lines are appended to the source files."""
STEP_INTERVAL_S = 0.2
KILL_AFTER_S = 6.0
STALL_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Options:
    """Command-line options of the demo."""

    workers: int
    lines: int
    port: int
    """REST port of the first worker."""
    once: bool


@dataclass(frozen=True, slots=True)
class Pipe:
    """A source and a sink with a topic between them."""

    name: str
    source_file: Path
    sink_file: Path

    @property
    def connectors(self) -> dict[str, dict[str, str]]:
        """The configs of both connectors by name."""
        source = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.source_file),
            "topic": self.name,
        }
        sink = {
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(self.sink_file),
            "topics": self.name,
        }
        return {f"{self.name}-source": source, f"{self.name}-sink": sink}


class Feeder:
    """A thread that appends lines to the source files at a constant rate."""

    def __init__(self, pipes: Sequence[Pipe], lines: int, scratch: Path) -> None:
        """Generate at least `lines` lines in total, with an equal number for each pipe."""
        share = -(-lines // len(pipes))
        self._blocks: dict[Path, list[bytes]] = {}
        for number, pipe in enumerate(pipes):
            write_lines(scratch, share, first=number * share)
            content = scratch.read_bytes()
            step = max(1, round(share / (FEED_DURATION_S / STEP_INTERVAL_S))) * LINE_BYTES_ON_DISK
            self._blocks[pipe.source_file] = [content[at : at + step] for at in range(0, len(content), step)]
        scratch.unlink()
        self.lines = share * len(pipes)
        """Total number of lines; every pipe gets the same share."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def start(self) -> None:
        """Start appending."""
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the thread has ended. Must not be read before `start`."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop appending."""
        self._ended.set()
        with suppress(RuntimeError):  # the thread was never started
            self._thread.join()

    def _feed(self) -> None:
        due = time.monotonic()
        while any(self._blocks.values()) and not self._ended.wait(max(0.0, due - time.monotonic())):
            for path, blocks in self._blocks.items():
                if blocks:
                    with path.open("ab") as file:
                        file.write(blocks.pop(0))
            due += STEP_INTERVAL_S


class ClusterDemo:
    """The running cluster and its pipes."""

    def __init__(
        self, cluster: Cluster, pipes: Sequence[Pipe], feeder: Feeder, topics: Sequence[Reader]
    ) -> None:
        """Create the demo on a running cluster."""
        self.cluster = cluster
        self.pipes = pipes
        self._topics = topics
        self.feeder = feeder
        self.names = [name for pipe in pipes for name in pipe.connectors]
        self._last_progress = time.monotonic()
        self._count = 0

    def create(self) -> None:
        """Create the source files and connectors; wait until all instances run, distributed evenly over the workers."""
        for pipe in self.pipes:
            pipe.source_file.touch()
            for name, config in pipe.connectors.items():
                self.cluster.workers[0].rest.create(name, config)
        self.cluster.settle(self.names)

    def show_flow(self, seconds: float) -> None:
        """Show the progress for `seconds`."""
        end = time.monotonic() + seconds
        with Progress() as display:
            while time.monotonic() < end:
                self._show_progress(display)

    def kill(self) -> Worker:
        """Kill the last worker with SIGKILL and show where its work moves. Raises ScriptFailed."""
        victim = self.cluster.workers[-1]
        lost_id = victim.rest.worker_id
        before = get_owners(self.cluster.statuses.now(), self.names)
        last_generation = self.cluster.generations()[-1].generation
        role = "the leader" if victim is self.cluster.leader() else "a follower"
        moving = [key for key, worker in before.items() if worker == lost_id]
        say("")
        say(
            f"kill -9 {victim.process.pid}: {lost_id}, {role}, which runs {len(moving)} of {len(before)}"
            " connectors and tasks."
        )
        killed_at = time.time()
        self.cluster.kill(victim)
        with Progress() as display:
            rebalance = wait_until_detected(
                self.cluster, last_generation, lambda: self._show_progress(display)
            )
            deadline = time.monotonic() + START_TIMEOUT_S
            while not has_moved(self.cluster.statuses.now(), moving, lost_id):
                if time.monotonic() > deadline:
                    raise ScriptFailed(
                        f"Not all connectors and tasks of the killed worker moved within {START_TIMEOUT_S:.0f} s."
                    )
                self._show_progress(display)
        now = self.cluster.statuses.now()
        moved_at = max((now[key].at for key in moving), default=rebalance.stable_at)
        say("")
        say(moves_table(self.cluster, self.names, before, moving))
        say("")
        say_after(0.0, "killed; lines of its connectors wait in the source files and in Kafka")
        say_detected(rebalance, killed_at)
        say_after(moved_at - killed_at, "all connectors and tasks of the killed worker run on other workers")
        return victim

    def finish(self) -> None:
        """Wait until every line is in its sink file. Raises ScriptFailed."""
        with Progress() as display:
            while not (self.feeder.is_done and all(_has_last_line(pipe) for pipe in self.pipes)):
                self._show_progress(display)

    def check(self) -> list[tuple[str, ...]]:
        """Compare each sink file with its source file; return the rows to print. Raises ScriptFailed."""
        rows: list[tuple[str, ...]] = [("PIPE", "LINES IN", "LINES OUT", "MISSING", "REPEATED")]
        for pipe in self.pipes:
            source = pipe.source_file.read_bytes().splitlines()
            sink = Counter(pipe.sink_file.read_bytes().splitlines())
            missing, unexpected = set(source) - sink.keys(), sink.keys() - set(source)
            if missing:
                raise ScriptFailed(
                    f"{len(missing):,} of {len(source):,} lines of {pipe.name} are missing from its sink file."
                )
            if unexpected:
                raise ScriptFailed(f"{pipe.sink_file} contains lines that are not in the source file.")
            total = sink.total()
            rows.append((pipe.name, f"{len(source):,}", f"{total:,}", "0", f"{total - len(source):,}"))
        return rows

    def keep_running(self) -> None:
        """Keep the cluster running until Ctrl-C. Raises ScriptFailed if all workers have exited."""
        rest, pipe = self.cluster.workers[0].rest, self.pipes[0]
        say("")
        say("The other workers keep running.")
        say(f"The dashboard: {rest.url}/ui/")
        say("In another terminal:")
        say(f"  echo 'one more line' >> {pipe.source_file} && sleep 1 && tail -n 1 {pipe.sink_file}")
        say(f"  curl -s {rest.url}/connectors?expand=status")
        say(f"  kill -9 {self.cluster.workers[-1].process.pid}")
        say("Press Ctrl-C here to stop everything.")
        while any(worker.process.alive for worker in self.cluster.workers):
            time.sleep(0.5)
        raise ScriptFailed("All workers have exited.")

    def _show_progress(self, display: Progress) -> None:
        """Show the progress. Raises ScriptFailed if a worker exited, an instance failed, or there is no progress."""
        count = sum(size(pipe.sink_file) for pipe in self.pipes) // LINE_BYTES_ON_DISK
        written = sum(size(pipe.source_file) for pipe in self.pipes) // LINE_BYTES_ON_DISK
        now = self.cluster.statuses.now()
        running = len(get_owners(now, self.names))
        records = sum(topic.end() for topic in self._topics)
        display.line(
            f"{written:,} of {self.feeder.lines:,} lines written   {records:,} in Kafka   {count:,} in the sink files"
            f"   {running} of {2 * len(self.names)} RUNNING"
        )
        if count != self._count:
            self._last_progress, self._count = time.monotonic(), count
        for key, status in now.items():
            if status.state == "FAILED":
                raise ScriptFailed(f"{display_name(key)} has failed on {status.worker}.")
        for worker in self.cluster.workers:
            if not worker.process.alive:
                raise ScriptFailed(f"A worker exited: {worker.process.last_log_error()}")
        if time.monotonic() - self._last_progress > STALL_TIMEOUT_S:
            raise ScriptFailed(f"The sinks have written no lines for {STALL_TIMEOUT_S:.0f} s.")
        time.sleep(POLL_INTERVAL_S)


def run(options: Options, directory: Path, stack: ExitStack) -> None:
    """Run the demo; `stack` stops everything that it starts. Raises ScriptFailed."""
    broker = start_broker(directory, stack)
    cluster = Cluster("kraal", broker, directory / "workers", "demo", WORKER_PROPERTIES)
    stack.callback(cluster.stop)
    stack.callback(say, "Stopping the workers, Spark and Kafka ...")
    start_workers(cluster, broker, options.workers, options.port)
    pipes, topics = [], []
    for number in range(PIPES):
        name = f"file-{number}"
        create_topic(broker.bootstrap, name)
        pipes.append(Pipe(name, directory / f"{name}.source", directory / f"{name}.sink"))
        topics.append(Reader(broker.bootstrap, name))
        stack.callback(topics[-1].close)
    say("All workers are in one group; creating connectors ...")
    feeder = Feeder(pipes, options.lines, directory / "scratch")
    stack.callback(feeder.stop)
    demo = ClusterDemo(cluster, pipes, feeder, topics)
    demo.create()
    _show(demo, feeder)
    if not options.once:
        with suppress(KeyboardInterrupt):
            demo.keep_running()


def _show(demo: ClusterDemo, feeder: Feeder) -> None:
    say("")
    say(workers_table(demo.cluster, demo.names))
    say("")
    say(instances_table(demo.cluster, demo.names))
    say("")
    feeder.start()
    demo.show_flow(KILL_AFTER_S)
    victim = demo.kill()
    say("")
    say(workers_table(demo.cluster, demo.names, victim))
    say("")
    demo.finish()
    rows = demo.check()
    say("")
    say(format_table(rows))
    say("")
    say("Every line was delivered at least once; lines in flight when the worker died were delivered twice.")


def _has_last_line(pipe: Pipe) -> bool:
    """Return whether the sink file ends with the last line of the source file."""
    if size(pipe.sink_file) < size(pipe.source_file):
        return False
    with pipe.source_file.open("rb") as source, pipe.sink_file.open("rb") as sink:
        source.seek(-LINE_BYTES_ON_DISK, 2)
        sink.seek(-LINE_BYTES_ON_DISK, 2)
        return source.read() == sink.read()
