"""Kraal and a Java worker call a Java sink connector and its task in the same order, with the same arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined] # documented there

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import RUNNING, a_name, java_worker, kraal_worker

pytestmark = pytest.mark.ci

RECORDING_SINK = "kraal.testing.RecordingSink"
CONNECTOR = "connector."
"""What its calls start with."""
START = ["initialize", "start"]
PATIENCE_S = 60.0
MANY_RETRIES = 40
IDLE_PUTS = 3


@dataclass(frozen=True)
class Recording:
    """A connector of `RecordingSink` on one worker. Calls and actions name its topics `a` and `b`."""

    side: ProcessCluster
    connector: str
    prefix: str
    """Of the topics' names."""
    file: Path

    def create(self, topics: str, actions: str, settings: Mapping[str, str]) -> None:
        config = {
            "connector.class": RECORDING_SINK,
            "topics": self._full(topics),
            "file": str(self.file),
            "actions": self._full(actions),
            "consumer.override.max.poll.records": "1",
            **settings,
        }
        self.side.create(self.connector, config)

    def _full(self, text: str) -> str:
        return re.sub(r"\b[ab]\b", lambda found: self.prefix + found[0], text)

    def lines(self) -> list[str]:
        """Return all calls so far, and the marks between them."""
        text = self.file.read_text() if self.file.exists() else ""
        return text.replace(self.prefix, "").splitlines()

    def mark(self, step: str) -> None:
        """Append a step of the test to the calls."""
        with self.file.open("a") as opened:
            opened.write(f"# {step}\n")

    def wait_until(self, what: str, done: Callable[[], bool]) -> None:
        self.side.alive[0].wait_until(f"{what}: {essential(self.lines())}", done, timeout_s=PATIENCE_S)

    def wait_for(self, call: str) -> None:
        """Wait until a call is the last one but those that depend on the clock."""
        self.wait_until(f"{call} was the last call", lambda: essential(self.lines())[-1:] == [call])

    def wait_for_count(self, count: int) -> None:
        """Wait until there are this many calls but those that depend on the clock."""
        self.wait_until(f"{count} calls were made", lambda: len(essential(self.lines())) >= count)

    def wait_for_states(self, *states: str) -> None:
        self.side.alive[0].wait_for_states(self.connector, states)

    def delete(self) -> None:
        """Delete the connector, and wait until its task and itself have stopped."""
        self.side.delete(self.connector)
        self.wait_for("stop")
        self.wait_until(
            "the connector had stopped", lambda: of_connector(self.lines())[-1] == "connector.stop"
        )


Sides = list[Recording]


def recordings(kraal: ProcessCluster, java: ProcessCluster, directory: Path) -> Sides:
    """Return a connector on Kraal and one on a Java worker that read the same topics; none is created."""
    name = a_name("calls")
    workers = {"kraal": kraal, "java": java}
    return [Recording(side, f"{name}-{each}", f"{name}-", directory / each) for each, side in workers.items()]


@pytest.fixture
def sides(cluster: ProcessCluster, java: MixedCluster, tmp_path: Path) -> Sides:
    return recordings(cluster, java, tmp_path)


def write(sides: Sides, topic: str, count: int) -> None:
    """Write records that both connectors read."""
    sides[0].side.write(sides[0].prefix + topic, *["a value"] * count)


def essential(lines: list[str]) -> list[str]:
    """Return the calls of the task without those that depend on the clock, and the marks.

    These are puts of no records, and commits (preCommit with flush) that neither follow a request nor precede a close.
    """
    calls = of_task(lines)
    kept = iter([not by_clock(calls, number) for number in range(len(calls))])
    return [line for line in lines if line.startswith("#") or (not line.startswith(CONNECTOR) and next(kept))]


def by_clock(calls: list[str], number: int) -> bool:
    """Whether only the time decides that a call of a task is there."""
    method = calls[number].split()[0]
    if method not in ("preCommit", "flush"):
        return calls[number] == "put"
    first = number - (method == "flush")
    after = "".join(calls[first + 2 : first + 3])
    return calls[first - 1] != "context.requestCommit" and not after.startswith("close ")


def of_task(lines: list[str]) -> list[str]:
    """Return the calls of the task and of its context."""
    return [line for line in lines if not line.startswith((CONNECTOR, "#"))]


def of_connector(lines: list[str]) -> list[str]:
    """Return the calls of the connector, and the marks."""
    return [line for line in lines if line.startswith((CONNECTOR, "#"))]


def assert_commits_follow_puts(calls: list[str]) -> None:
    """Assert that all commits, by the clock too, have the offsets after the records that were put."""
    positions: dict[str, str] = {}
    rewound: dict[str, str] = {}
    for call, following in zip(calls, [*calls[1:], ""], strict=True):
        method, *given = call.split()
        places = dict(place.rsplit(":", 1) for place in given if ":" in place)
        if method == "start":
            positions, rewound = {}, {}
        elif method == "context.offset":
            rewound |= places
        elif method == "put":
            positions |= rewound
            rewound = {}
            if not following.startswith("throws"):
                positions |= {partition: str(int(offset) + 1) for partition, offset in places.items()}
        elif method == "preCommit":
            assert positions.items() <= places.items(), calls
            assert following == call.replace("preCommit", "flush"), calls


def assert_called_alike(sides: Sides, calls: list[str], of_connectors: list[str]) -> None:
    """Assert that both workers have made exactly these calls."""
    for each in sides:
        assert_commits_follow_puts(of_task(each.lines()))
    kraal, java = (each.lines() for each in sides)
    assert essential(kraal) == essential(java) == calls
    assert of_connector(kraal) == of_connector(java) == of_connectors


def puts(*offsets: int, topic: str = "a") -> list[str]:
    """Return a put for each record."""
    return [f"put {topic}-0:{offset}" for offset in offsets]


def closed(*offsets: str) -> list[str]:
    """Return the calls that end a task with these offsets."""
    committed, partitions = " ".join(offsets), " ".join(each.split(":")[0] for each in offsets)
    return [f"preCommit {committed}", f"flush {committed}", f"close {partitions}", "stop"]


LIFE = ["connector.start", "connector.taskConfigs 1", "connector.stop"]


@dataclass(frozen=True)
class Case:
    """What a task does with records that are there before it starts, and the calls until it is deleted."""

    actions: str
    calls: list[str]
    end: list[str]
    records: Mapping[str, int]
    settings: Mapping[str, str]


CASES = {
    "commits on request": Case(
        "a-0:0 commit",
        ["open a-0", *puts(0), "context.requestCommit", "preCommit a-0:1", "flush a-0:1", *puts(1, 2)],
        closed("a-0:3"),
        {"a": 3},
        {},
    ),
    "rewinds": Case(
        "a-0:2 rewind a-0:1",
        ["open a-0", *puts(0, 1, 2), "context.offset a-0:1", *puts(1, 2, 3)],
        closed("a-0:4"),
        {"a": 4},
        {},
    ),
    "rewinds on open": Case(
        "open rewind a-0:2",
        ["open a-0", "context.offset a-0:2", *puts(2, 3)],
        closed("a-0:4"),
        {"a": 4},
        {},
    ),
    "pauses partitions": Case(
        "open pause b-0,a-0:2 pause a-0,a-0:2 resume b-0,b-0:1 resume a-0",
        [
            *("open a-0 b-0", "context.pause b-0", *puts(0, 1, 2), "context.pause a-0", "context.resume b-0"),
            *(*puts(0, 1, topic="b"), "context.resume a-0", *puts(3, 4)),
        ],
        closed("a-0:5", "b-0:2"),
        {"a": 5, "b": 2},
        {},
    ),
    "retries": Case(
        "a-0:3 retry 2",
        [
            *("open a-0", "put a-0:0 a-0:1"),
            *["put a-0:2 a-0:3", "throws RetriableException"] * 2,
            *("put a-0:2 a-0:3", "put a-0:4"),
        ],
        closed("a-0:5"),
        {"a": 5},
        {"consumer.override.max.poll.records": "2"},
    ),
    "fails": Case(
        "a-0:1 fail",
        ["open a-0", *puts(0, 1), "throws ConnectException", *closed("a-0:1")],
        [],
        {"a": 3},
        {},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=[name.replace(" ", "-") for name in CASES])
def test_a_task_that_acts_at_a_record_is_called_alike(sides: Sides, case: Case) -> None:
    for topic, count in case.records.items():
        write(sides, topic, count)
    for each in sides:
        each.create(",".join(case.records), case.actions, case.settings)
    calls = [*START, *case.calls]
    for each in sides:
        each.wait_for_count(len(calls))
    for each in sides:
        each.delete()
    assert_called_alike(sides, [*calls, *case.end], LIFE)


def test_a_timeout_of_a_task_shortens_the_wait_before_a_retry(sides: Sides) -> None:
    """Without it, a retry waits until offsets are committed next."""
    calls = [*START, "open a-0", *["put a-0:0", "throws RetriableException"] * MANY_RETRIES, "put a-0:0"]
    write(sides, "a", 1)
    for each in sides:
        each.create("a", f"a-0:0 timeout 1,a-0:0 retry {MANY_RETRIES}", {})
    for each in sides:
        each.wait_for_count(len(calls))
        commits = [line for line in each.lines() if line.startswith("preCommit")]
        assert len(commits) < MANY_RETRIES / 2, each.connector
    for each in sides:
        each.delete()
    assert_called_alike(sides, [*calls, *closed("a-0:1")], LIFE)


def idle(each: Recording) -> None:
    """Wait until the task has been called without records for some time."""
    seen = each.lines().count("put")
    each.wait_until("it had nothing to do", lambda: each.lines().count("put") >= seen + IDLE_PUTS)


def test_a_connector_that_is_paused_and_resumed_is_called_alike(sides: Sides) -> None:
    write(sides, "a", 2)
    write(sides, "b", 1)
    for each in sides:
        each.create("a,b", "open pause b-0,a-0:2 resume b-0", {})
    for each in sides:
        each.wait_for("put a-0:1")
        each.side.pause(each.connector)
    for each in sides:
        each.wait_for_states("PAUSED", "PAUSED")
        each.mark("paused")
    write(sides, "a", 1)
    for each in sides:
        idle(each)
        each.mark("resumed")
        each.side.resume(each.connector)
    for each in sides:
        each.wait_for("put b-0:0")
        each.wait_for_states(*RUNNING)
        each.delete()
    calls = [
        *(*START, "open a-0 b-0", "context.pause b-0", *puts(0, 1), "# paused", "# resumed"),
        *(*puts(2), "context.resume b-0", "put b-0:0", *closed("a-0:3", "b-0:1")),
    ]
    start, configs, stop = LIFE
    assert_called_alike(sides, calls, [start, configs, stop, "# paused", "# resumed", start, configs, stop])


def test_a_connector_that_is_stopped_and_resumed_is_called_alike(sides: Sides) -> None:
    write(sides, "a", 3)
    for each in sides:
        each.create("a", "", {})
    for each in sides:
        each.wait_for("put a-0:2")
        each.side.stop(each.connector)
    for each in sides:
        each.wait_for("stop")
        each.wait_for_states("STOPPED")
        each.mark("stopped")
        partition = {"kafka_topic": f"{each.prefix}a", "kafka_partition": 0}
        moved = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 1}}]}
        answer = each.side.alive[0].ask("PATCH", f"/connectors/{each.connector}/offsets", moved)
        assert answer.status == 200, answer
        each.mark("resumed")
        each.side.resume(each.connector)
    for each in sides:
        each.wait_for("put a-0:2")
        each.delete()
    first = [*START, "open a-0", *puts(0, 1, 2), *closed("a-0:3")]
    second = [*START, "open a-0", *puts(1, 2), *closed("a-0:3")]
    altered = ["# stopped", "connector.alterOffsets a-0:1", "# resumed"]
    assert_called_alike(sides, [*first, "# stopped", "# resumed", *second], [*LIFE, *altered, *LIFE])


def test_a_task_that_is_restarted_is_called_alike(sides: Sides) -> None:
    write(sides, "a", 1)
    for each in sides:
        each.create("a", "", {})
    for each in sides:
        each.wait_for("put a-0:0")
        answer = each.side.alive[0].ask("POST", f"/connectors/{each.connector}/tasks/0/restart")
        assert answer.status == 204, answer
    for each in sides:
        each.wait_for("open a-0")
    write(sides, "a", 1)
    for each in sides:
        each.wait_for("put a-0:1")
        each.delete()
    first = [*START, "open a-0", *puts(0), *closed("a-0:1")]
    assert_called_alike(sides, [*first, *START, "open a-0", *puts(1), *closed("a-0:2")], LIFE)


def test_a_task_that_gets_more_partitions_is_called_alike(sides: Sides) -> None:
    write(sides, "a", 1)
    for each in sides:
        each.create("a", "", {"consumer.override.metadata.max.age.ms": "500"})
    for each in sides:
        each.wait_for("put a-0:0")
    topic = f"{sides[0].prefix}a"
    admin = AdminClient({"bootstrap.servers": sides[0].side.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_S)
    for each in sides:
        each.wait_for("open a-0 a-1")
        each.delete()
    first = [*START, "open a-0", *puts(0), *closed("a-0:1")[:-1]]
    assert_called_alike(sides, [*first, "open a-0 a-1", *closed("a-0:1", "a-1:0")], LIFE)


def test_a_worker_that_ends_stops_connectors_and_tasks_alike(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    with (
        kraal_worker(tmp_path / "kraal-worker", kafka.bootstrap, worker_properties) as kraal,
        java_worker(tmp_path / "java-worker", kafka.bootstrap, worker_properties) as java,
    ):
        sides = recordings(kraal, java, tmp_path)
        write(sides, "a", 2)
        for each in sides:
            each.create("a", "", {})
        for each in sides:
            each.wait_for("put a-0:1")
            each.side.alive[0].end()
    assert_called_alike(sides, [*START, "open a-0", *puts(0, 1), *closed("a-0:2")], LIFE)
