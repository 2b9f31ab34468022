"""Tests for `kraal mirror` between two brokers with a properties file of MirrorMaker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx2
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from kraal.broker.broker import Broker, free_port
from kraal.broker.records import read_topic, write_topic
from tests.fakes.spark.pipe import create_topic
from tests.integration.java_plugins.test_mirror_maker import consume

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WAIT_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 90.0
LISTEN_LINE = re.compile(r"\[(\S+)[^\]]*\] REST listens at (http://\S+)/ ")
PROPERTIES = """\
clusters = west, east
west.bootstrap.servers = {west}
east.bootstrap.servers = {east}
west->east.enabled = true
west->east.topics = orders
west->east.groups = orders
emit.heartbeats.interval.seconds = 1
refresh.topics.interval.seconds = 2
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
offset.lag.max = 0
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.partitions = 1
status.storage.partitions = 1
"""
RUN_CLI = "from kraal.cli.main import main; main()"


@pytest.fixture
def west(tmp_path: Path) -> Iterator[Broker]:
    """Run a second broker."""
    broker = Broker(tmp_path / "west", free_port())
    broker.start()
    yield broker
    broker.stop()


def wait_until(
    description: str, is_done: Callable[[], bool], process: subprocess.Popen[bytes], log: Path
) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while not is_done():
        assert process.poll() is None, f"the process has exited: {log.read_text()[-8000:]}"
        assert time.monotonic() < deadline, f"timed out waiting: {description}\n{log.read_text()[-8000:]}"
        time.sleep(0.2)


def read_values(broker: Broker, topic: str) -> list[bytes | None]:
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics
    return (
        [record.value for record in read_topic(broker.bootstrap, topic, timeout_s=30)]
        if topic in topics
        else []
    )


def has_records(broker: Broker, topic: str) -> bool:
    return bool(read_values(broker, topic))


def test_flow_copies_topics_offsets_and_heartbeats(west: Broker, kafka: Broker, tmp_path: Path) -> None:
    create_topic(west.bootstrap, "orders")
    create_topic(west.bootstrap, "secret")
    write_topic(west.bootstrap, "orders", [b"one", b"two", b"three"], timeout_s=30)
    consume(west.bootstrap, "orders")
    file, log = tmp_path / "mm2.properties", tmp_path / "log"
    file.write_text(PROPERTIES.format(west=west.bootstrap, east=kafka.bootstrap))
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", RUN_CLI, "mirror", str(file)], stderr=out)
    try:
        wait_until(
            "the records were copied", lambda: len(read_values(kafka, "west.orders")) == 3, process, log
        )
        assert read_values(kafka, "west.orders") == [b"one", b"two", b"three"]
        for name, broker, topic in (
            ("checkpoints", kafka, "west.checkpoints.internal"),
            ("offset syncs", west, "mm2-offset-syncs.east.internal"),
            ("heartbeats of west->east", west, "heartbeats"),
            ("heartbeats that were copied", kafka, "west.heartbeats"),
        ):
            wait_until(name, partial(has_records, broker, topic), process, log)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        wait_until(
            "the group offsets were copied",
            lambda: (
                "orders" in {listing.group_id for listing in admin.list_consumer_groups().result(10).valid}
            ),
            process,
            log,
        )
        assert not read_values(kafka, "west.secret")
        internal_topics = {f"mm2-{kind}.west.internal" for kind in ("configs", "offsets", "status")}
        assert internal_topics <= set(admin.list_topics(timeout=10).topics)
        urls = dict(LISTEN_LINE.findall(log.read_text()))
        assert set(urls) == {"west->east", "east->west"}
        for flow, url in urls.items():
            names = {"MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector"}
            assert set(httpx2.get(f"{url}/connectors").json()) == names, flow
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0, log.read_text()[-4000:]
        assert not [
            child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE
        ]
    finally:
        process.kill()


def test_child_processes_exit_when_the_parent_is_killed(west: Broker, kafka: Broker, tmp_path: Path) -> None:
    file, log = tmp_path / "mm2.properties", tmp_path / "log"
    file.write_text(
        f"clusters=w,e\nw.bootstrap.servers={west.bootstrap}\ne.bootstrap.servers={kafka.bootstrap}\n"
        + "".join(f"{kind}.storage.replication.factor=1\n" for kind in ("offset", "config", "status"))
    )
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", RUN_CLI, "mirror", str(file)], stderr=out)
    try:
        wait_until(
            "both processes listened", lambda: len(LISTEN_LINE.findall(log.read_text())) == 2, process, log
        )
        children = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        exited, remaining = psutil.wait_procs(children, STOP_TIMEOUT_S)
        assert (bool(exited), remaining) == (True, []), log.read_text()[-4000:]
    finally:
        process.kill()
        process.wait()
