from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kraal.connectors.file import lines, source
from kraal.connectors.file.source import FileStreamSourceConnector, FileStreamSourceTask
from kraal.plugins.api import Offset, SourceBatch, SourcePartition, TaskContext


@dataclass(frozen=True)
class View:
    """The worker settings that a task can access."""

    bootstrap_servers: str = "127.0.0.1:1"
    spark_is_local: bool = True
    scratch: str = "/tmp"  # noqa: S108 - never written to here


class FakeTime:
    """A fake of the module `time` whose clock is set by the test."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s


class Tail:
    """A harness for a task that reads one file."""

    def __init__(self, path: Path, position: object = None, **sizes: int) -> None:
        self.path = path
        self.task = FileStreamSourceTask(**sizes)
        self.partition = SourcePartition.of({"filename": str(path)})
        offsets: dict[SourcePartition, Offset] = {}
        if position is not None:
            offsets[self.partition] = {"position": position}  # type: ignore[dict-item]
        context = TaskContext(connector="c", task=0, worker=View(), connector_config={})
        self.task.start({"file": str(path), "topic": "t"}, offsets, context)

    def add(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def poll(self) -> tuple[list[str] | None, int] | None:
        """Return the lines (None for a range that Spark reads) and the position after them."""
        batch = self.task.poll()
        return None if batch is None else (texts(batch), get_position(batch))


def texts(batch: SourceBatch) -> list[str] | None:
    return None if batch.table is None else batch.table.column("value").to_pylist()


def get_position(batch: SourceBatch) -> int:
    (offset,) = batch.offsets.values()
    position = offset["position"]
    assert isinstance(position, int)
    return position


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.txt"


@pytest.fixture
def tail(path: Path) -> Iterator[Tail]:
    tail = Tail(path)
    yield tail
    tail.task.stop()


def test_missing_file_is_logged_once_and_awaited(tail: Tail, caplog: pytest.LogCaptureFixture) -> None:
    assert [tail.poll(), tail.poll()] == [None, None]
    assert caplog.text.count("does not exist") == 1
    tail.add(b"a\n")
    assert tail.poll() == (["a"], 2)


def test_poll_returns_only_terminated_lines(tail: Tail) -> None:
    tail.add(b"one\n\ntwo\r\nhal")
    assert tail.poll() == (["one", "", "two"], 10)
    assert tail.poll() is None
    tail.add(b"f\r")
    assert tail.poll() is None
    tail.add(b"\n")
    assert tail.poll() == (["half"], 16)
    assert tail.poll() is None
    tail.add(b"x\ry")
    assert tail.poll() == (["x"], 18)


def test_idle_poll_takes_microseconds(tail: Tail) -> None:
    tail.add(b"a\n")
    tail.poll()
    start_s = time.thread_time()
    for _ in range(1000):
        assert tail.poll() is None
    assert (time.thread_time() - start_s) / 1000 < 100e-6


def test_task_resumes_at_the_stored_position(path: Path) -> None:
    path.write_bytes(b"one\ntwo\n")
    assert Tail(path, 4).poll() == (["two"], 8)


def test_position_of_wrong_type_is_rejected(path: Path) -> None:
    with pytest.raises(ValueError, match=r"^Offset position is the incorrect type$"):
        Tail(path, "4")


def test_truncated_file_fails_with_instructions(tail: Tail) -> None:
    tail.add(b"one\ntwo\n")
    tail.poll()
    os.truncate(tail.path, 4)
    with pytest.raises(ValueError, match=r"was truncated: it has 4 bytes, but byte 8 .* reset its offsets"):
        tail.poll()


def test_replacement_is_not_read_as_continuation_of_the_file(tail: Tail) -> None:
    tail.add(b"one\n")
    tail.poll()
    tail.add(b"x" * lines.MAX_SPLIT_BYTES + b"\n")
    replacement = tail.path.with_suffix(".new")
    replacement.write_bytes(b"y" * 2 * lines.MAX_SPLIT_BYTES + b"\n")
    replacement.rename(tail.path)
    with pytest.raises(ValueError, match="was replaced by another file after 4 bytes"):
        tail.poll()


def test_file_is_idle_until_it_changes(tail: Tail) -> None:
    assert not tail.task.is_idle()
    tail.add(b"a\nb")
    assert not tail.task.is_idle()
    assert tail.poll() == (["a"], 2)
    assert tail.task.is_idle()
    tail.add(b"\n")
    assert not tail.task.is_idle()
    assert tail.poll() == (["b"], 4)
    assert tail.task.is_idle()
    os.truncate(tail.path, 2)
    assert not tail.task.is_idle()
    tail.task.stop()
    assert not tail.task.is_idle()


def test_replaced_idle_file_is_detected_within_a_second(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_time = FakeTime()
    monkeypatch.setattr(source, "time", fake_time)
    tail.add(b"one\n")
    tail.poll()
    assert [tail.poll(), tail.poll()] == [None, None]
    tail.path.with_suffix(".new").write_bytes(b"two\n")
    tail.path.with_suffix(".new").rename(tail.path)
    fake_time.now_s += source.CHECK_INTERVAL_S - 0.01
    assert tail.poll() is None
    fake_time.now_s += 0.02
    with pytest.raises(ValueError, match="was replaced by another file after 4 bytes"):
        tail.poll()


def test_lines_written_before_replacement_are_read(tail: Tail) -> None:
    tail.add(b"one\n")
    tail.poll()
    tail.add(b"two\n")
    tail.path.with_suffix(".new").write_bytes(b"other\n")
    tail.path.with_suffix(".new").rename(tail.path)
    assert tail.poll() == (["two"], 8)


def test_next_poll_returns_new_lines_of_an_idle_file(tail: Tail) -> None:
    tail.add(b"one\n")
    tail.poll()
    for number in range(3):
        assert tail.poll() is None
        tail.add(b"two\n")
        assert tail.poll() == (["two"], 8 + 4 * number)


def test_file_replaced_before_reading_does_not_fail(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_time = FakeTime()
    monkeypatch.setattr(source, "time", fake_time)
    tail.add(b"no end")
    assert tail.poll() is None
    tail.path.unlink()
    tail.add(b"new\n")
    fake_time.now_s += source.CHECK_INTERVAL_S
    assert tail.poll() == (["new"], 4)


def test_unreadable_file_is_reported_with_reason(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_to_open(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    tail.add(b"a\n")
    monkeypatch.setattr(os, "open", fail_to_open)
    with pytest.raises(PermissionError, match=r"cannot read .*in\.txt: Permission denied"):
        tail.poll()


def test_directory_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a regular file"):
        Tail(tmp_path).poll()


def test_backlog_is_read_in_ranges_of_whole_lines(path: Path) -> None:
    path.write_bytes(b"0123456\r\n" * 1000 + b"rest")
    tail = Tail(path, batch_bytes=1000, max_worker_bytes=5)
    ends = []
    while (batch := tail.task.poll()) is not None:
        assert batch.read is not None
        assert batch.table is None
        ends.append(get_position(batch))
    assert all(end % 9 == 0 for end in ends)
    assert max(after - before for before, after in zip([0, *ends], ends, strict=False)) <= 1000
    assert ends[-1] == 9000


def test_line_longer_than_a_batch_is_returned_whole(path: Path) -> None:
    path.write_bytes(b"x" * 5000 + b"\r\ny\n")
    tail = Tail(path, batch_bytes=100, max_worker_bytes=10_000)
    assert tail.poll() == (["x" * 5000], 5002)
    assert tail.poll() == (["y"], 5004)


def test_unterminated_line_over_the_limit_raises_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 4096)
    tail = Tail(path)
    tail.add(b"x" * 4000)
    assert tail.poll() is None
    tail.add(b"x" * 4000)
    with pytest.raises(lines.LineTooLongError):
        tail.poll()


def test_invalid_utf_8_passes_unchanged(tail: Tail) -> None:
    tail.add(b"\xff\xfe\n")
    batch = tail.task.poll()
    assert batch is not None
    assert batch.table is not None
    assert batch.table.column("value").chunk(0).buffers()[2].to_pybytes() == b"\xff\xfe"


@pytest.mark.parametrize("config", [{}, {"file": ""}])
def test_standard_input_is_rejected(config: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="the configuration 'file' is missing"):
        FileStreamSourceConnector().start({"topic": "t", **config}, None)  # type: ignore[arg-type]


def test_connector_always_has_one_task() -> None:
    connector = FileStreamSourceConnector()
    config = {"file": "/f", "topic": "t"}
    connector.start(config, None)  # type: ignore[arg-type]
    assert connector.task_configs(5) == [config]


NOT_A_LONG_ERROR = "The value for the 'position' key in the offset is expected to be a Long value"
NEGATIVE_ERROR = "The value for the 'position' key in the offset should be a non-negative value"
ALTER_CASES = [
    pytest.param({"filename": "/f"}, {"position": 5}, None, id="valid"),
    pytest.param({"any": 1}, None, None, id="tombstone of any partition"),
    pytest.param({"filename": "/f"}, {"x": 1}, "Offset objects should either be null or contain the key 'position'"),
    pytest.param({"filename": "/f"}, {"position": "5"}, NOT_A_LONG_ERROR),
    pytest.param({"filename": "/f"}, {"position": True}, NOT_A_LONG_ERROR),
    pytest.param({"filename": "/f"}, {"position": None}, NOT_A_LONG_ERROR),
    pytest.param({"filename": "/f"}, {"position": -1}, NEGATIVE_ERROR),
    pytest.param({"f": "/f"}, {"position": 1}, "Partition objects should contain the key 'filename'"),
]  # fmt: skip


@pytest.mark.parametrize(("partition", "offset", "error"), ALTER_CASES)
def test_alter_offsets_validates_like_java(partition: Any, offset: Any, error: str | None) -> None:
    offsets = {SourcePartition.of(partition): offset}
    if error is None:
        assert FileStreamSourceConnector().alter_offsets({"file": "/f"}, offsets)
        return
    with pytest.raises(ValueError, match=f"^{error}$"):
        FileStreamSourceConnector().alter_offsets({"file": "/f"}, offsets)


def test_alter_offsets_rejects_standard_input() -> None:
    with pytest.raises(
        ValueError, match="Offsets cannot be modified if the 'file' configuration is unspecified"
    ):
        FileStreamSourceConnector().alter_offsets({}, {})
