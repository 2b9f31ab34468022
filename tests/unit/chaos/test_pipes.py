"""What pipes with other targets than one plain file are, and how far they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.connectors.frames.range_files import make_name
from kraal.plugins.api import TopicPartition
from kraal.plugins.registry import Registry
from scripts.chaos_run.kinds import plugins
from scripts.chaos_run.kinds.orders import ORDERS, Orders
from scripts.chaos_run.lines import line
from scripts.chaos_run.pipes import Pipe, Target


def pipe(directory: Path, target: Target) -> Pipe:
    return Pipe("p", directory / "p.in", directory / "p.out", target, Orders(directory / "orders" / "p"))


def put(made: Pipe, partition: int, first: int, numbers: range) -> None:
    name = make_name(TopicPartition("p", partition), (first, first + len(numbers)), ".txt")
    (made.sink_file / name).write_bytes(b"".join(line("p", number) for number in numbers))


@pytest.mark.parametrize("target", [Target.SLOW_FILE, Target.FILES])
def test_sinks_that_obey_orders_have_the_shortest_poll_interval(tmp_path: Path, target: Target) -> None:
    config = pipe(tmp_path, target).configs["p-sink"]
    assert config[ORDERS] == str(tmp_path / "orders" / "p")
    assert config["consumer.override.max.poll.interval.ms"] == "6000"
    names = {
        name: getattr(plugins, name.rpartition(".")[2])
        for name in ("chaos.HangingFileSinkConnector", "chaos.HangingFilesSinkConnector")
    }
    cls = Registry.of(names).connector_class(config["connector.class"])
    cls.config_def.parse(config)


def test_a_plain_sink_has_nothing_to_obey(tmp_path: Path) -> None:
    made = pipe(tmp_path, Target.FILE)
    assert made.configs["p-sink"] == {
        "connector.class": "FileStreamSink",
        "file": str(made.sink_file),
        "tasks.max": "1",
        "topics": "p",
    }
    assert made.partitions == 1


def test_files_of_offsets_are_read_partition_by_partition(tmp_path: Path) -> None:
    made = pipe(tmp_path, Target.FILES)
    assert (made.last(), made.progress(), made.delivery(1).missing) == (-1, 0, 1)
    made.sink_file.mkdir()
    assert (made.last(), made.delivery(1).missing) == (-1, 1)
    put(made, 0, 0, range(3))
    before = made.progress()
    put(made, 1, 0, range(3, 8))
    put(made, 0, 3, range(8, 10))
    assert made.progress() != before
    assert made.last() == 9
    delivery = made.delivery(10)
    assert (delivery.missing, delivery.repeated, delivery.strange) == (0, 0, 0)


def test_file_replaced_during_a_read_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pipe(tmp_path, Target.FILES)
    made.sink_file.mkdir()
    put(made, 0, 0, range(3))
    opened = Path.open

    def gone(path: Path, mode: str) -> object:
        path.unlink()
        return opened(path, mode)

    monkeypatch.setattr(Path, "open", gone)
    assert made.last() == -1
