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
CONNECTOR_PREFIX = "connector."
"""The prefix of the connector's calls."""
START_CALLS = ["initialize", "start"]
WAIT_TIMEOUT_S = 60.0
RETRY_COUNT = 40
IDLE_PUTS = 3


@dataclass(frozen=True)
class Recording:
    """A `RecordingSink` connector on one worker. Calls and actions contain the topic names `a` and `b`, unprefixed."""

    cluster: ProcessCluster
    connector: str
    prefix: str
    """The prefix that the names of the topics have in Kafka."""
    file: Path

    def create(self, topics: str, actions: str, settings: Mapping[str, str]) -> None:
        config = {
            "connector.class": RECORDING_SINK,
            "topics": self._add_prefix(topics),
            "file": str(self.file),
            "actions": self._add_prefix(actions),
            "consumer.override.max.poll.records": "1",
            **settings,
        }
        self.cluster.create(self.connector, config)

    def _add_prefix(self, text: str) -> str:
        return re.sub(r"\b[ab]\b", lambda match: self.prefix + match[0], text)

    def lines(self) -> list[str]:
        """Return all recorded calls, and the marks between the calls."""
        text = self.file.read_text() if self.file.exists() else ""
        return text.replace(self.prefix, "").splitlines()

    def mark(self, step: str) -> None:
        """Append a mark for a step of the test to the calls."""
        with self.file.open("a") as file:
            file.write(f"# {step}\n")

    def wait_until(self, description: str, is_done: Callable[[], bool]) -> None:
        self.cluster.alive[0].wait_until(
            f"{description}: {filter_calls(self.lines())}", is_done, timeout_s=WAIT_TIMEOUT_S
        )

    def wait_for(self, call: str) -> None:
        """Wait until `call` is the last call, ignoring calls that depend on the clock."""
        self.wait_until(f"{call} was the last call", lambda: filter_calls(self.lines())[-1:] == [call])

    def wait_for_count(self, count: int) -> None:
        """Wait until `count` calls were made, ignoring calls that depend on the clock."""
        self.wait_until(f"{count} calls were made", lambda: len(filter_calls(self.lines())) >= count)

    def wait_for_states(self, *states: str) -> None:
        self.cluster.alive[0].wait_for_states(self.connector, states)

    def delete(self) -> None:
        """Delete the connector, and wait until the connector and its task have stopped."""
        self.cluster.delete(self.connector)
        self.wait_for("stop")
        self.wait_until(
            "the connector had stopped", lambda: connector_calls(self.lines())[-1] == "connector.stop"
        )


Recordings = list[Recording]


def make_recordings(
    kraal_cluster: ProcessCluster, java_cluster: ProcessCluster, directory: Path
) -> Recordings:
    """Return connectors for Kraal and a Java worker that read the same topics, without creating them."""
    name = unique_name("calls")
    workers = {"kraal": kraal_cluster, "java": java_cluster}
    return [
        Recording(cluster, f"{name}-{label}", f"{name}-", directory / label)
        for label, cluster in workers.items()
    ]


@pytest.fixture
def recordings(cluster: ProcessCluster, java_cluster: MixedCluster, tmp_path: Path) -> Recordings:
    return make_recordings(cluster, java_cluster, tmp_path)


def write(recordings: Recordings, topic: str, count: int) -> None:
    """Write records that both connectors read."""
    recordings[0].cluster.write(recordings[0].prefix + topic, *["a value"] * count)


def filter_calls(lines: list[str]) -> list[str]:
    """Return the marks and the task's calls, without the calls that depend on the clock.

    The calls that depend on the clock are empty puts, and commits (preCommit with flush) that neither follow a request
    nor precede a close.
    """
    calls = task_calls(lines)
    kept_flags = iter([not depends_on_clock(calls, number) for number in range(len(calls))])
    return [
        line
        for line in lines
        if line.startswith("#") or (not line.startswith(CONNECTOR_PREFIX) and next(kept_flags))
    ]


def depends_on_clock(calls: list[str], number: int) -> bool:
    """Return whether a call of the task depends only on the clock."""
    method = calls[number].split()[0]
    if method not in ("preCommit", "flush"):
        return calls[number] == "put"
    start = number - (method == "flush")
    next_call = "".join(calls[start + 2 : start + 3])
    return calls[start - 1] != "context.requestCommit" and not next_call.startswith("close ")


def task_calls(lines: list[str]) -> list[str]:
    """Return the calls of the task and of its context."""
    return [line for line in lines if not line.startswith((CONNECTOR_PREFIX, "#"))]


def connector_calls(lines: list[str]) -> list[str]:
    """Return the connector's calls, and the marks."""
    return [line for line in lines if line.startswith((CONNECTOR_PREFIX, "#"))]


def assert_commits_follow_puts(calls: list[str]) -> None:
    """Assert that each commit, periodic or not, contains the offsets that follow the delivered records."""
    positions: dict[str, str] = {}
    rewound_offsets: dict[str, str] = {}
    for call, next_call in zip(calls, [*calls[1:], ""], strict=True):
        method, *arguments = call.split()
        offsets = dict(argument.rsplit(":", 1) for argument in arguments if ":" in argument)
        if method == "start":
            positions, rewound_offsets = {}, {}
        elif method == "context.offset":
            rewound_offsets |= offsets
        elif method == "put":
            positions |= rewound_offsets
            rewound_offsets = {}
            if not next_call.startswith("throws"):
                positions |= {partition: str(int(offset) + 1) for partition, offset in offsets.items()}
        elif method == "preCommit":
            assert positions.items() <= offsets.items(), calls
            assert next_call == call.replace("preCommit", "flush"), calls


def assert_calls_match(recordings: Recordings, calls: list[str], expected_connector_calls: list[str]) -> None:
    """Assert that both workers made exactly these calls of the task and of the connector."""
    for recording in recordings:
        assert_commits_follow_puts(task_calls(recording.lines()))
    kraal_lines, java_lines = (recording.lines() for recording in recordings)
    assert filter_calls(kraal_lines) == filter_calls(java_lines) == calls
    assert connector_calls(kraal_lines) == connector_calls(java_lines) == expected_connector_calls


def put_calls(*offsets: int, topic: str = "a") -> list[str]:
    """Return one put call for each offset."""
    return [f"put {topic}-0:{offset}" for offset in offsets]


def close_calls(*offsets: str) -> list[str]:
    """Return the calls that stop a task with these offsets."""
    committed, partitions = " ".join(offsets), " ".join(offset.split(":")[0] for offset in offsets)
    return [f"preCommit {committed}", f"flush {committed}", f"close {partitions}", "stop"]


CONNECTOR_CALLS = ["connector.start", "connector.taskConfigs 1", "connector.stop"]


@dataclass(frozen=True)
class Case:
    """The actions of a task with existing records, and the expected calls until the connector is deleted."""

    actions: str
    calls: list[str]
    closing_calls: list[str]
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
def test_calls_of_a_task_match_java(recordings: Recordings, case: Case) -> None:
    for topic, count in case.records.items():
        write(recordings, topic, count)
    for recording in recordings:
        recording.create(",".join(case.records), case.actions, case.settings)
    calls = [*START_CALLS, *case.calls]
    for recording in recordings:
        recording.wait_for_count(len(calls))
    for recording in recordings:
        recording.delete()
    assert_calls_match(recordings, [*calls, *case.closing_calls], CONNECTOR_CALLS)


def test_task_timeout_shortens_the_retry_delay(recordings: Recordings) -> None:
    """Without `context.timeout`, a retry waits until the next offset commit."""
    calls = [*START_CALLS, "open a-0", *["put a-0:0", "throws RetriableException"] * RETRY_COUNT, "put a-0:0"]
    write(recordings, "a", 1)
    for recording in recordings:
        recording.create("a", f"a-0:0 timeout 1,a-0:0 retry {RETRY_COUNT}", {})
    for recording in recordings:
        recording.wait_for_count(len(calls))
        lines = recording.lines()
        last_put = max(number for number, line in enumerate(lines) if line == "put a-0:0")
        commits = [line for line in lines[:last_put] if line.startswith("preCommit")]
        assert len(commits) < RETRY_COUNT / 2, recording.connector
    for recording in recordings:
        recording.delete()
    assert_calls_match(recordings, [*calls, *close_calls("a-0:1")], CONNECTOR_CALLS)


def wait_until_idle(recording: Recording) -> None:
    """Wait until the task has received several empty puts."""
    count = recording.lines().count("put")
    recording.wait_until("the task was idle", lambda: recording.lines().count("put") >= count + IDLE_PUTS)


def test_calls_of_a_paused_and_resumed_connector_match_java(recordings: Recordings) -> None:
    write(recordings, "a", 2)
    write(recordings, "b", 1)
    for recording in recordings:
        recording.create("a,b", "open pause b-0,a-0:2 resume b-0", {})
    for recording in recordings:
        recording.wait_for("put a-0:1")
        recording.cluster.pause(recording.connector)
    for recording in recordings:
        recording.wait_for_states("PAUSED", "PAUSED")
        recording.mark("paused")
    write(recordings, "a", 1)
    for recording in recordings:
        wait_until_idle(recording)
        recording.mark("resumed")
        recording.cluster.resume(recording.connector)
    for recording in recordings:
        recording.wait_for("put b-0:0")
        recording.wait_for_states(*RUNNING)
        recording.delete()
    calls = [
        *(*START_CALLS, "open a-0 b-0", "context.pause b-0", *put_calls(0, 1), "# paused", "# resumed"),
        *(*put_calls(2), "context.resume b-0", "put b-0:0", *close_calls("a-0:3", "b-0:1")),
    ]
    start, configs, stop = CONNECTOR_CALLS
    assert_calls_match(
        recordings, calls, [start, configs, stop, "# paused", "# resumed", start, configs, stop]
    )


def test_calls_of_a_stopped_and_resumed_connector_match_java(recordings: Recordings) -> None:
    write(recordings, "a", 3)
    for recording in recordings:
        recording.create("a", "", {})
    for recording in recordings:
        recording.wait_for("put a-0:2")
        recording.cluster.stop(recording.connector)
    for recording in recordings:
        recording.wait_for("stop")
        recording.wait_for_states("STOPPED")
        recording.mark("stopped")
        partition = {"kafka_topic": f"{recording.prefix}a", "kafka_partition": 0}
        altered_offsets = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 1}}]}
        response = recording.cluster.alive[0].ask(
            "PATCH", f"/connectors/{recording.connector}/offsets", altered_offsets
        )
        assert response.status == 200, response
        recording.mark("resumed")
        recording.cluster.resume(recording.connector)
    for recording in recordings:
        recording.wait_for("put a-0:2")
        recording.delete()
    first_run = [*START_CALLS, "open a-0", *put_calls(0, 1, 2), *close_calls("a-0:3")]
    second_run = [*START_CALLS, "open a-0", *put_calls(1, 2), *close_calls("a-0:3")]
    alter_calls = ["# stopped", "connector.alterOffsets a-0:1", "# resumed"]
    assert_calls_match(
        recordings,
        [*first_run, "# stopped", "# resumed", *second_run],
        [*CONNECTOR_CALLS, *alter_calls, *CONNECTOR_CALLS],
    )


def test_calls_of_a_restarted_task_match_java(recordings: Recordings) -> None:
    write(recordings, "a", 1)
    for recording in recordings:
        recording.create("a", "", {})
    for recording in recordings:
        recording.wait_for("put a-0:0")
        response = recording.cluster.alive[0].ask(
            "POST", f"/connectors/{recording.connector}/tasks/0/restart"
        )
        assert response.status == 204, response
    for recording in recordings:
        recording.wait_for("open a-0")
    write(recordings, "a", 1)
    for recording in recordings:
        recording.wait_for("put a-0:1")
        recording.delete()
    first_run = [*START_CALLS, "open a-0", *put_calls(0), *close_calls("a-0:1")]
    assert_calls_match(
        recordings,
        [*first_run, *START_CALLS, "open a-0", *put_calls(1), *close_calls("a-0:2")],
        CONNECTOR_CALLS,
    )


def test_calls_of_a_task_with_new_partitions_match_java(recordings: Recordings) -> None:
    write(recordings, "a", 1)
    for recording in recordings:
        recording.create("a", "", {"consumer.override.metadata.max.age.ms": "500"})
    for recording in recordings:
        recording.wait_for("put a-0:0")
    topic = f"{recordings[0].prefix}a"
    admin = AdminClient({"bootstrap.servers": recordings[0].cluster.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(WAIT_TIMEOUT_S)
    for recording in recordings:
        recording.wait_for("open a-0 a-1")
        recording.delete()
    first_run = [*START_CALLS, "open a-0", *put_calls(0), *close_calls("a-0:1")[:-1]]
    assert_calls_match(
        recordings, [*first_run, "open a-0 a-1", *close_calls("a-0:1", "a-1:0")], CONNECTOR_CALLS
    )


def test_calls_during_worker_shutdown_match_java(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    with (
        kraal_worker(tmp_path / "kraal-worker", kafka.bootstrap, worker_properties) as kraal_cluster,
        java_worker(tmp_path / "java-worker", kafka.bootstrap, worker_properties) as java_cluster,
    ):
        recordings = make_recordings(kraal_cluster, java_cluster, tmp_path)
        write(recordings, "a", 2)
        for recording in recordings:
            recording.create("a", "", {})
        for recording in recordings:
            recording.wait_for("put a-0:1")
            recording.cluster.alive[0].end()
    assert_calls_match(
        recordings, [*START_CALLS, "open a-0", *put_calls(0, 1), *close_calls("a-0:2")], CONNECTOR_CALLS
    )
