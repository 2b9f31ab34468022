"""Tests for the configs and the progress of pipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.connectors.frames.range_files import format_file_name
from kraal.plugins.api import TopicPartition
from kraal.plugins.registry import Registry
from scripts.chaos_run.kinds import plugins
from scripts.chaos_run.kinds.orders import COMMANDS_KEY, Commands
from scripts.chaos_run.lines import make_line
from scripts.chaos_run.pipes import Pipe, Target


def make_pipe(directory: Path, target: Target) -> Pipe:
    return Pipe("p", directory / "p.in", directory / "p.out", target, Commands(directory / "orders" / "p"))


def write_range_file(pipe: Pipe, partition: int, first: int, numbers: range) -> None:
    name = format_file_name(TopicPartition("p", partition), (first, first + len(numbers)), ".txt")
    (pipe.sink_file / name).write_bytes(b"".join(make_line("p", number) for number in numbers))


@pytest.mark.parametrize("target", [Target.SLOW_FILE, Target.FILES])
def test_sinks_with_commands_have_the_minimum_poll_interval(tmp_path: Path, target: Target) -> None:
    config = make_pipe(tmp_path, target).configs["p-sink"]
    assert config[COMMANDS_KEY] == str(tmp_path / "orders" / "p")
    assert config["consumer.override.max.poll.interval.ms"] == "6000"
    names = {
        name: getattr(plugins, name.rpartition(".")[2])
        for name in ("chaos.HangingFileSinkConnector", "chaos.HangingFilesSinkConnector")
    }
    plugin = Registry.of(names).connector_class(config["connector.class"])
    plugin.config_def.parse(config)


def test_plain_sink_has_no_command_settings(tmp_path: Path) -> None:
    pipe = make_pipe(tmp_path, Target.FILE)
    assert pipe.configs["p-sink"] == {
        "connector.class": "FileStreamSink",
        "file": str(pipe.sink_file),
        "tasks.max": "1",
        "topics": "p",
    }
    assert pipe.partitions == 1


def test_offset_files_are_read_by_partition(tmp_path: Path) -> None:
    pipe = make_pipe(tmp_path, Target.FILES)
    assert (pipe.read_last_number(), pipe.progress(), pipe.delivery(1).missing_count) == (-1, 0, 1)
    pipe.sink_file.mkdir()
    assert (pipe.read_last_number(), pipe.delivery(1).missing_count) == (-1, 1)
    write_range_file(pipe, 0, 0, range(3))
    before = pipe.progress()
    write_range_file(pipe, 1, 0, range(3, 8))
    write_range_file(pipe, 0, 3, range(8, 10))
    assert pipe.progress() != before
    assert pipe.read_last_number() == 9
    delivery = pipe.delivery(10)
    assert (delivery.missing_count, delivery.duplicate_count, delivery.unknown_count) == (0, 0, 0)


def test_file_deleted_before_its_read_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = make_pipe(tmp_path, Target.FILES)
    pipe.sink_file.mkdir()
    write_range_file(pipe, 0, 0, range(3))
    open_path = Path.open

    def raise_not_found(path: Path, mode: str) -> object:
        path.unlink()
        return open_path(path, mode)

    monkeypatch.setattr(Path, "open", raise_not_found)
    assert pipe.read_last_number() == -1
