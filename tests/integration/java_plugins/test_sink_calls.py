"""Tests that Kraal and a Java worker call a Java sink connector and its task in the same order."""

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
from tests.integration.java_plugins.flows import RUNNING, java_worker, kraal_worker, unique_name

pytestmark = pytest.mark.ci

RECORDING_SINK = "kraal.testing.RecordingSink"
CONNECTOR = "connector."
"""The prefix of the connector's calls."""
START = ["initialize", "start"]
WAIT_TIMEOUT_S = 60.0
MANY_RETRIES = 40
IDLE_PUTS = 3


@dataclass(frozen=True)
class Recording:
    """A connector of the class `RecordingSink` on one worker. Calls and actions use the topic names `a` and `b`."""

    side: ProcessCluster
    connector: str
    prefix: str
    """The prefix of the topics' real names."""
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
        return re.sub(r"\b[ab]\b", lambda match: self.prefix + match[0], text)

    def lines(self) -> list[str]:
        """Return all recorded calls, and the marks between them."""
        text = self.file.read_text() if self.file.exists() else ""
        return text.replace(self.prefix, "").splitlines()

    def mark(self, step: str) -> None:
        """Append a mark for a step of the test to the calls."""
        with self.file.open("a") as file:
            file.write(f"# {step}\n")

    def wait_until(self, description: str, done: Callable[[], bool]) -> None:
        self.side.alive[0].wait_until(
            f"{description}: {filter_calls(self.lines())}", done, timeout_s=WAIT_TIMEOUT_S
        )

    def wait_for(self, call: str) -> None:
        """Wait until a call is the last one, except calls that depend on the clock."""
        self.wait_until(f"{call} was the last call", lambda: filter_calls(self.lines())[-1:] == [call])

    def wait_for_count(self, count: int) -> None:
        """Wait for this number of calls, except calls that depend on the clock."""
        self.wait_until(f"{count} calls were made", lambda: len(filter_calls(self.lines())) >= count)

    def wait_for_states(self, *states: str) -> None:
        self.side.alive[0].wait_for_states(self.connector, states)

    def delete(self) -> None:
        """Delete the connector, and wait until it and its task have stopped."""
        self.side.delete(self.connector)
        self.wait_for("stop")
        self.wait_until(
            "the connector had stopped", lambda: connector_calls(self.lines())[-1] == "connector.stop"
        )


Sides = list[Recording]


def recordings(kraal: ProcessCluster, java: ProcessCluster, directory: Path) -> Sides:
    """Return connectors for Kraal and a Java worker that read the same topics, without creating them."""
    name = unique_name("calls")
    workers = {"kraal": kraal, "java": java}
    return [
        Recording(side, f"{name}-{label}", f"{name}-", directory / label) for label, side in workers.items()
    ]


@pytest.fixture
def sides(cluster: ProcessCluster, java: MixedCluster, tmp_path: Path) -> Sides:
    return recordings(cluster, java, tmp_path)


def write(sides: Sides, topic: str, count: int) -> None:
    """Write records that both connectors read."""
    sides[0].side.write(sides[0].prefix + topic, *["a value"] * count)


def filter_calls(lines: list[str]) -> list[str]:
    """Return the task's calls, except those that depend on the clock, and the marks.

    Excluded are empty puts, and commits (preCommit with flush) that neither follow a request nor precede a close.
    """
    calls = task_calls(lines)
    is_kept = iter([not depends_on_clock(calls, number) for number in range(len(calls))])
    return [
        line for line in lines if line.startswith("#") or (not line.startswith(CONNECTOR) and next(is_kept))
    ]


def depends_on_clock(calls: list[str], number: int) -> bool:
    """Return whether a call of the task depends only on the clock."""
    method = calls[number].split()[0]
    if method not in ("preCommit", "flush"):
        return calls[number] == "put"
    start = number - (method == "flush")
    after = "".join(calls[start + 2 : start + 3])
    return calls[start - 1] != "context.requestCommit" and not after.startswith("close ")


def task_calls(lines: list[str]) -> list[str]:
    """Return the calls of the task and of its context."""
    return [line for line in lines if not line.startswith((CONNECTOR, "#"))]


def connector_calls(lines: list[str]) -> list[str]:
    """Return the connector's calls, and the marks."""
    return [line for line in lines if line.startswith((CONNECTOR, "#"))]


def assert_commits_follow_puts(calls: list[str]) -> None:
    """Assert that all commits, including periodic ones, contain the offsets after the delivered records."""
    positions: dict[str, str] = {}
    rewound: dict[str, str] = {}
    for call, following in zip(calls, [*calls[1:], ""], strict=True):
        method, *arguments = call.split()
        offsets = dict(argument.rsplit(":", 1) for argument in arguments if ":" in argument)
        if method == "start":
            positions, rewound = {}, {}
        elif method == "context.offset":
            rewound |= offsets
        elif method == "put":
            positions |= rewound
            rewound = {}
            if not following.startswith("throws"):
                positions |= {partition: str(int(offset) + 1) for partition, offset in offsets.items()}
        elif method == "preCommit":
            assert positions.items() <= offsets.items(), calls
            assert following == call.replace("preCommit", "flush"), calls


def assert_calls_match(sides: Sides, calls: list[str], connector_expected: list[str]) -> None:
    """Assert that both workers made exactly these calls of the task and of the connector."""
    for recording in sides:
        assert_commits_follow_puts(task_calls(recording.lines()))
    kraal, java = (recording.lines() for recording in sides)
    assert filter_calls(kraal) == filter_calls(java) == calls
    assert connector_calls(kraal) == connector_calls(java) == connector_expected


def put_calls(*offsets: int, topic: str = "a") -> list[str]:
    """Return one put call for each offset."""
    return [f"put {topic}-0:{offset}" for offset in offsets]


def close_calls(*offsets: str) -> list[str]:
    """Return the calls that stop a task with these offsets."""
    committed, partitions = " ".join(offsets), " ".join(offset.split(":")[0] for offset in offsets)
    return [f"preCommit {committed}", f"flush {committed}", f"close {partitions}", "stop"]


LIFE = ["connector.start", "connector.taskConfigs 1", "connector.stop"]


@dataclass(frozen=True)
class Case:
    """The actions of a task with existing records, and the expected calls until the connector is deleted."""

    actions: str
    calls: list[str]
    end: list[str]
    records: Mapping[str, int]
    settings: Mapping[str, str]


CASES = {
    "commits on request": Case(
        "a-0:0 commit",
        [
            "open a-0",
            *put_calls(0),
            "context.requestCommit",
            "preCommit a-0:1",
            "flush a-0:1",
            *put_calls(1, 2),
        ],
        close_calls("a-0:3"),
        {"a": 3},
        {},
    ),
    "rewinds": Case(
        "a-0:2 rewind a-0:1",
        ["open a-0", *put_calls(0, 1, 2), "context.offset a-0:1", *put_calls(1, 2, 3)],
        close_calls("a-0:4"),
        {"a": 4},
        {},
    ),
    "rewinds on open": Case(
        "open rewind a-0:2",
        ["open a-0", "context.offset a-0:2", *put_calls(2, 3)],
        close_calls("a-0:4"),
        {"a": 4},
        {},
    ),
    "pauses partitions": Case(
        "open pause b-0,a-0:2 pause a-0,a-0:2 resume b-0,b-0:1 resume a-0",
        [
            *(
                "open a-0 b-0",
                "context.pause b-0",
                *put_calls(0, 1, 2),
                "context.pause a-0",
                "context.resume b-0",
            ),
            *(*put_calls(0, 1, topic="b"), "context.resume a-0", *put_calls(3, 4)),
        ],
        close_calls("a-0:5", "b-0:2"),
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
        close_calls("a-0:5"),
        {"a": 5},
        {"consumer.override.max.poll.records": "2"},
    ),
    "fails": Case(
        "a-0:1 fail",
        ["open a-0", *put_calls(0, 1), "throws ConnectException", *close_calls("a-0:1")],
        [],
        {"a": 3},
        {},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=[name.replace(" ", "-") for name in CASES])
def test_calls_of_a_task_match_java(sides: Sides, case: Case) -> None:
    for topic, count in case.records.items():
        write(sides, topic, count)
    for recording in sides:
        recording.create(",".join(case.records), case.actions, case.settings)
    calls = [*START, *case.calls]
    for recording in sides:
        recording.wait_for_count(len(calls))
    for recording in sides:
        recording.delete()
    assert_calls_match(sides, [*calls, *case.end], LIFE)


def test_task_timeout_shortens_the_retry_delay(sides: Sides) -> None:
    """Without `context.timeout`, a retry waits until the next offset commit."""
    calls = [*START, "open a-0", *["put a-0:0", "throws RetriableException"] * MANY_RETRIES, "put a-0:0"]
    write(sides, "a", 1)
    for recording in sides:
        recording.create("a", f"a-0:0 timeout 1,a-0:0 retry {MANY_RETRIES}", {})
    for recording in sides:
        recording.wait_for_count(len(calls))
        commits = [line for line in recording.lines() if line.startswith("preCommit")]
        assert len(commits) < MANY_RETRIES / 2, recording.connector
    for recording in sides:
        recording.delete()
    assert_calls_match(sides, [*calls, *close_calls("a-0:1")], LIFE)


def wait_until_idle(recording: Recording) -> None:
    """Wait until the task has received several empty puts."""
    count = recording.lines().count("put")
    recording.wait_until("the task was idle", lambda: recording.lines().count("put") >= count + IDLE_PUTS)


def test_calls_of_a_paused_and_resumed_connector_match_java(sides: Sides) -> None:
    write(sides, "a", 2)
    write(sides, "b", 1)
    for recording in sides:
        recording.create("a,b", "open pause b-0,a-0:2 resume b-0", {})
    for recording in sides:
        recording.wait_for("put a-0:1")
        recording.side.pause(recording.connector)
    for recording in sides:
        recording.wait_for_states("PAUSED", "PAUSED")
        recording.mark("paused")
    write(sides, "a", 1)
    for recording in sides:
        wait_until_idle(recording)
        recording.mark("resumed")
        recording.side.resume(recording.connector)
    for recording in sides:
        recording.wait_for("put b-0:0")
        recording.wait_for_states(*RUNNING)
        recording.delete()
    calls = [
        *(*START, "open a-0 b-0", "context.pause b-0", *put_calls(0, 1), "# paused", "# resumed"),
        *(*put_calls(2), "context.resume b-0", "put b-0:0", *close_calls("a-0:3", "b-0:1")),
    ]
    start, configs, stop = LIFE
    assert_calls_match(sides, calls, [start, configs, stop, "# paused", "# resumed", start, configs, stop])


def test_calls_of_a_stopped_and_resumed_connector_match_java(sides: Sides) -> None:
    write(sides, "a", 3)
    for recording in sides:
        recording.create("a", "", {})
    for recording in sides:
        recording.wait_for("put a-0:2")
        recording.side.stop(recording.connector)
    for recording in sides:
        recording.wait_for("stop")
        recording.wait_for_states("STOPPED")
        recording.mark("stopped")
        partition = {"kafka_topic": f"{recording.prefix}a", "kafka_partition": 0}
        altered_offsets = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 1}}]}
        response = recording.side.alive[0].ask(
            "PATCH", f"/connectors/{recording.connector}/offsets", altered_offsets
        )
        assert response.status == 200, response
        recording.mark("resumed")
        recording.side.resume(recording.connector)
    for recording in sides:
        recording.wait_for("put a-0:2")
        recording.delete()
    first_run = [*START, "open a-0", *put_calls(0, 1, 2), *close_calls("a-0:3")]
    second_run = [*START, "open a-0", *put_calls(1, 2), *close_calls("a-0:3")]
    altered = ["# stopped", "connector.alterOffsets a-0:1", "# resumed"]
    assert_calls_match(sides, [*first_run, "# stopped", "# resumed", *second_run], [*LIFE, *altered, *LIFE])


def test_calls_of_a_restarted_task_match_java(sides: Sides) -> None:
    write(sides, "a", 1)
    for recording in sides:
        recording.create("a", "", {})
    for recording in sides:
        recording.wait_for("put a-0:0")
        response = recording.side.alive[0].ask("POST", f"/connectors/{recording.connector}/tasks/0/restart")
        assert response.status == 204, response
    for recording in sides:
        recording.wait_for("open a-0")
    write(sides, "a", 1)
    for recording in sides:
        recording.wait_for("put a-0:1")
        recording.delete()
    first_run = [*START, "open a-0", *put_calls(0), *close_calls("a-0:1")]
    assert_calls_match(sides, [*first_run, *START, "open a-0", *put_calls(1), *close_calls("a-0:2")], LIFE)


def test_calls_of_a_task_with_new_partitions_match_java(sides: Sides) -> None:
    write(sides, "a", 1)
    for recording in sides:
        recording.create("a", "", {"consumer.override.metadata.max.age.ms": "500"})
    for recording in sides:
        recording.wait_for("put a-0:0")
    topic = f"{sides[0].prefix}a"
    admin = AdminClient({"bootstrap.servers": sides[0].side.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(WAIT_TIMEOUT_S)
    for recording in sides:
        recording.wait_for("open a-0 a-1")
        recording.delete()
    first_run = [*START, "open a-0", *put_calls(0), *close_calls("a-0:1")[:-1]]
    assert_calls_match(sides, [*first_run, "open a-0 a-1", *close_calls("a-0:1", "a-1:0")], LIFE)


def test_calls_during_worker_shutdown_match_java(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    with (
        kraal_worker(tmp_path / "kraal-worker", kafka.bootstrap, worker_properties) as kraal,
        java_worker(tmp_path / "java-worker", kafka.bootstrap, worker_properties) as java,
    ):
        sides = recordings(kraal, java, tmp_path)
        write(sides, "a", 2)
        for recording in sides:
            recording.create("a", "", {})
        for recording in sides:
            recording.wait_for("put a-0:1")
            recording.side.alive[0].end()
    assert_calls_match(sides, [*START, "open a-0", *put_calls(0, 1), *close_calls("a-0:2")], LIFE)
