"""The demo with a cluster: distributed workers share file connectors, and one of them is killed meanwhile.

Each source file grows while the demo runs, so that lines are on their way when the worker dies. Its work has to be
noticed as lost and taken over by the others; in the end every line has to be in the sink file at least once.
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
    EXTRA,
    has_moved,
    instances_table,
    moves_table,
    say_after,
    say_noticed,
    shown,
    start_broker,
    start_workers,
    wait_until_noticed,
    workers_table,
)
from scripts.harness.clusters import Cluster, owners
from scripts.harness.lines import ON_DISK, size, write_lines
from scripts.harness.processes import ScriptFailed
from scripts.harness.show import POLL_INTERVAL_S, Progress, columns, say
from scripts.harness.topics import Reader, create_topic
from scripts.harness.workers import START_TIMEOUT_S, Worker

MIN_WORKERS = 2
LINES = 120_000
PIPES = 3
FEED_S = 24.0
"""How long the source files grow."""
STEP_S = 0.2
KILL_AFTER_S = 6.0
STALLED_S = 90.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line says."""

    workers: int
    lines: int
    port: int
    """Of the first worker's REST."""
    once: bool


@dataclass(frozen=True, slots=True)
class Pipe:
    """A source and a sink with a topic between them."""

    name: str
    source_file: Path
    sink_file: Path

    @property
    def connectors(self) -> dict[str, dict[str, str]]:
        """Both connectors' configs by name."""
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
    """A thread that lets the source files grow evenly."""

    def __init__(self, pipes: Sequence[Pipe], lines: int, scratch: Path) -> None:
        """`lines`: in all; they are generated now and appended once `start` is called."""
        share = -(-lines // len(pipes))
        self._blocks: dict[Path, list[bytes]] = {}
        for number, pipe in enumerate(pipes):
            write_lines(scratch, share, first=number * share)
            content = scratch.read_bytes()
            step = max(1, round(share / (FEED_S / STEP_S))) * ON_DISK
            self._blocks[pipe.source_file] = [content[at : at + step] for at in range(0, len(content), step)]
        scratch.unlink()
        self.lines = share * len(pipes)
        """How many it will be in all; every pipe has as many."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def start(self) -> None:
        """Begin to append."""
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether all lines are in the files."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Append no more."""
        self._ended.set()
        with suppress(RuntimeError):  # it was never started
            self._thread.join()

    def _feed(self) -> None:
        due = time.monotonic()
        while any(self._blocks.values()) and not self._ended.wait(max(0.0, due - time.monotonic())):
            for path, blocks in self._blocks.items():
                if blocks:
                    with path.open("ab") as file:
                        file.write(blocks.pop(0))
            due += STEP_S


class ClusterDemo:
    """The parts that run."""

    def __init__(
        self, cluster: Cluster, pipes: Sequence[Pipe], feeder: Feeder, topics: Sequence[Reader]
    ) -> None:
        """Describe the demo; the workers are up."""
        self.cluster = cluster
        self.pipes = pipes
        self._topics = topics
        self.feeder = feeder
        self.names = [name for pipe in pipes for name in pipe.connectors]
        self._changed = time.monotonic()
        self._count = 0

    def create(self) -> None:
        """Create the topics and connectors, and wait until all run, evenly spread."""
        for pipe in self.pipes:
            pipe.source_file.touch()
            for name, config in pipe.connectors.items():
                self.cluster.workers[0].rest.create(name, config)
        self.cluster.settle(self.names)

    def flow(self, seconds: float) -> None:
        """Let lines flow and show how many have come."""
        end = time.monotonic() + seconds
        with Progress() as show:
            while time.monotonic() < end:
                self._look(show)

    def kill(self) -> Worker:
        """Kill a worker that is not the first with -9, and show how its work moves. Raises ScriptFailed."""
        victim = self.cluster.workers[-1]
        lost = victim.rest.worker_id
        before = owners(self.cluster.statuses.now(), self.names)
        last = self.cluster.generations()[-1].generation
        role = "the leader" if victim is self.cluster.leader() else "a follower"
        moving = [key for key, worker in before.items() if worker == lost]
        say("")
        say(f"kill -9 {victim.process.pid}: {lost}, {role}, which runs {len(moving)} of {len(before)}.")
        killed = time.time()
        self.cluster.kill(victim)
        with Progress() as show:
            noticed = wait_until_noticed(self.cluster, last, lambda: self._look(show))
            deadline = time.monotonic() + START_TIMEOUT_S
            while not has_moved(self.cluster.statuses.now(), moving, lost):
                if time.monotonic() > deadline:
                    raise ScriptFailed(
                        f"Not all work of the killed worker ran elsewhere after {START_TIMEOUT_S:.0f} s."
                    )
                self._look(show)
        now = self.cluster.statuses.now()
        moved = max((now[key].at for key in moving), default=noticed.stable)
        say("")
        say(moves_table(self.cluster, self.names, before, moving))
        say("")
        say_after(0.0, "killed; its lines wait in the source files and in Kafka")
        say_noticed(noticed, killed)
        say_after(moved - killed, "all of its work runs elsewhere")
        return victim

    def finish(self) -> None:
        """Let all lines flow through. Raises ScriptFailed."""
        with Progress() as show:
            while not (self.feeder.done and all(_is_through(pipe) for pipe in self.pipes)):
                self._look(show)

    def check(self) -> list[tuple[str, ...]]:
        """Compare each sink file with its source file; return what to show. Raises ScriptFailed."""
        rows: list[tuple[str, ...]] = [("PIPE", "LINES IN", "LINES OUT", "MISSING", "REPEATED")]
        for pipe in self.pipes:
            source = pipe.source_file.read_bytes().splitlines()
            sink = Counter(pipe.sink_file.read_bytes().splitlines())
            missing, strange = set(source) - sink.keys(), sink.keys() - set(source)
            if missing:
                raise ScriptFailed(
                    f"{len(missing):,} of {len(source):,} lines never came out of {pipe.name}."
                )
            if strange:
                raise ScriptFailed(f"{pipe.sink_file} has lines that its source file does not have.")
            total = sink.total()
            rows.append((pipe.name, f"{len(source):,}", f"{total:,}", "0", f"{total - len(source):,}"))
        return rows

    def stay(self) -> None:
        """Keep all running until Ctrl-C. Raises ScriptFailed when a worker ends."""
        rest, pipe = self.cluster.workers[0].rest, self.pipes[0]
        say("")
        say("The other workers keep running.")
        say(f"The dashboard: {rest.url}/ui/")
        say("In another terminal:")
        say(f"  echo 'one more line' >> {pipe.source_file} && sleep 1 && tail -n 1 {pipe.sink_file}")
        say(f"  curl -s {rest.url}/connectors?expand=status")
        say(f"  kill -9 {self.cluster.workers[-1].process.pid}")
        say("Ctrl-C here stops everything.")
        while any(worker.process.alive for worker in self.cluster.workers):
            time.sleep(0.5)
        raise ScriptFailed("All workers have ended.")

    def _look(self, show: Progress) -> None:
        """Show how far it is. Raises ScriptFailed when a worker has ended or nothing moves."""
        count = sum(size(pipe.sink_file) for pipe in self.pipes) // ON_DISK
        written = sum(size(pipe.source_file) for pipe in self.pipes) // ON_DISK
        now = self.cluster.statuses.now()
        running = len(owners(now, self.names))
        records = sum(topic.end() for topic in self._topics)
        show.line(
            f"{written:,} of {self.feeder.lines:,} lines written   {records:,} in Kafka   {count:,} in the sink files"
            f"   {running} of {2 * len(self.names)} RUNNING"
        )
        if count != self._count:
            self._changed, self._count = time.monotonic(), count
        for key, status in now.items():
            if status.state == "FAILED":
                raise ScriptFailed(f"{shown(key)} has failed on {status.worker}.")
        for worker in self.cluster.workers:
            if not worker.process.alive:
                raise ScriptFailed(f"A worker ended: {worker.process.last_words()}")
        if time.monotonic() - self._changed > STALLED_S:
            raise ScriptFailed(f"Nothing has come out for {STALLED_S:.0f} s.")
        time.sleep(POLL_INTERVAL_S)


def run(plan: Plan, directory: Path, stack: ExitStack) -> None:
    """Do it all; what `stack` is given ends afterwards, last things first. Raises ScriptFailed."""
    broker = start_broker(directory, stack)
    cluster = Cluster("kraal", broker, directory / "workers", "demo", EXTRA)
    stack.callback(cluster.stop)
    stack.callback(say, "Stopping the workers, Spark and Kafka ...")
    start_workers(cluster, broker, plan.workers, plan.port)
    pipes, topics = [], []
    for number in range(PIPES):
        name = f"file-{number}"
        create_topic(broker.bootstrap, name)
        pipes.append(Pipe(name, directory / f"{name}.source", directory / f"{name}.sink"))
        topics.append(Reader(broker.bootstrap, name))
        stack.callback(topics[-1].close)
    say("All are in one group; creating connectors ...")
    feeder = Feeder(pipes, plan.lines, directory / "scratch")
    stack.callback(feeder.stop)
    demo = ClusterDemo(cluster, pipes, feeder, topics)
    demo.create()
    _show(demo, feeder)
    if not plan.once:
        with suppress(KeyboardInterrupt):
            demo.stay()


def _show(demo: ClusterDemo, feeder: Feeder) -> None:
    say("")
    say(workers_table(demo.cluster, demo.names))
    say("")
    say(instances_table(demo.cluster, demo.names))
    say("")
    feeder.start()
    demo.flow(KILL_AFTER_S)
    victim = demo.kill()
    say("")
    say(workers_table(demo.cluster, demo.names, victim))
    say("")
    demo.finish()
    rows = demo.check()
    say("")
    say(columns(rows))
    say("")
    say(
        "Every line that went in came out, at least once; what was on its way when the worker died came twice."
    )


def _is_through(pipe: Pipe) -> bool:
    """Whether the last line that came out is the last one that went in."""
    if size(pipe.sink_file) < size(pipe.source_file):
        return False
    with pipe.source_file.open("rb") as source, pipe.sink_file.open("rb") as sink:
        source.seek(-ON_DISK, 2)
        sink.seek(-ON_DISK, 2)
        return source.read() == sink.read()
