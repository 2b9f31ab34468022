"""Observes a group of workers through the broker's log and the status topic.

Both have the same format for Java and Kraal workers, and reading them sends no requests to the workers.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from scripts.harness.processes import ScriptFailed

RUNNING = "RUNNING"
POLL_TIMEOUT_S = 0.1
POLL_INTERVAL_S = 0.005
REQUEST_TIMEOUT_S = 10.0

_EVENT = re.compile(
    r"^\[(?P<at>[-0-9]{10} [:0-9]{8},[0-9]{3})\] .*?"
    r"(?:(?P<begun>Preparing to rebalance) group (?P<group>\S+) in state \S+ with old generation (?P<old>\d+)"
    r"|Stabilized group (?P<stable>\S+) generation (?P<new>\d+) with (?P<members>\d+) members)"
)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One generation of a group, with wall-clock times from log lines of the broker's GroupMetadataManager."""

    generation: int
    started_at: float
    """Start of the rebalance."""
    stable_at: float
    """Start of the generation, when all members had joined."""
    members: int


def read_rebalances(broker_log: Path, group: str) -> list[Rebalance]:
    """Return all generations of a group so far, in order."""
    history, started_at = [], 0.0
    for line in broker_log.read_text(encoding="utf-8", errors="replace").splitlines():
        match = _EVENT.match(line)
        if match is None or group not in (match["group"], match["stable"]):
            continue
        at = datetime.strptime(match["at"], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        if match["begun"]:
            started_at = at
        else:
            history.append(Rebalance(int(match["new"]), started_at or at, at, int(match["members"])))
    return history


@dataclass(frozen=True, slots=True)
class Status:
    """One record of the status topic, and the wall-clock time of its arrival."""

    at: float
    state: str
    worker: str


class TopicFollower:
    """A consumer in its own thread that reads all records of some topics from the beginning."""

    def __init__(self, bootstrap: str, topics: list[str], handle: Callable[[float, Message], None]) -> None:
        """Start reading. The thread calls `handle` with the wall-clock time and a record. The topics must exist."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "scripts",  # required by the library; nothing is subscribed or committed
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        metadata = self._consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        self._consumer.assign(
            [TopicPartition(t, p, OFFSET_BEGINNING) for t in topics for p in metadata[t].partitions]
        )
        self._handle = handle
        self._is_stopped = False
        self._thread = threading.Thread(target=self._follow, name="following", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._is_stopped = True
        self._thread.join(REQUEST_TIMEOUT_S)
        self._consumer.close()

    def _follow(self) -> None:
        while not self._is_stopped:
            message = self._consumer.poll(POLL_TIMEOUT_S)
            if message is not None and message.error() is None:
                self._handle(time.time(), message)


class Statuses:
    """All statuses of a cluster, by the keys `task-NAME-NUMBER` and `connector-NAME`."""

    def __init__(self, bootstrap: str, group: str) -> None:
        """Start reading the status topic of `group`, which must exist."""
        self._lock = threading.Lock()
        self._latest: dict[str, Status] = {}
        self._history: list[tuple[str, Status]] = []
        self._follower = TopicFollower(bootstrap, [f"{group}-status"], self._add_status)

    def close(self) -> None:
        """Stop reading."""
        self._follower.close()

    def now(self) -> Mapping[str, Status]:
        """Return the latest status of each instance."""
        with self._lock:
            return dict(self._latest)

    def since(self, at: float) -> list[tuple[str, Status]]:
        """Return the statuses after a time, in order."""
        with self._lock:
            return [(key, status) for key, status in self._history if status.at > at]

    def wait_until(
        self, what: str, done: Callable[[Mapping[str, Status]], bool], timeout_s: float
    ) -> Mapping[str, Status]:
        """Wait until `done` returns True for the latest statuses; return these statuses. Raises ScriptFailed."""
        deadline = time.monotonic() + timeout_s
        while not done(now := self.now()):
            if time.monotonic() > deadline:
                raise ScriptFailed(f"Timed out after {timeout_s:.0f} s while waiting until {what}.")
            time.sleep(POLL_INTERVAL_S)
        return now

    def _add_status(self, at: float, message: Message) -> None:
        key = (message.key() or b"").decode().removeprefix("status-")
        if not key.startswith(("task-", "connector-")):
            return
        with self._lock:
            if message.value() is None:
                self._latest.pop(key, None)
                return
            with suppress(ValueError):
                value = json.loads(message.value() or b"")
                status = Status(at, str(value["state"]), str(value["worker_id"]))
                self._latest[key] = status
                self._history.append((key, status))
