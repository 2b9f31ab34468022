"""Tests for the file-backed log: crashes, corruption, compaction and concurrent access."""

from __future__ import annotations

import errno
import logging
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraal.core.errors import StoreError
from kraal.core.records import Entry, Record
from kraal.stores.file_frames import HEADER_SIZE
from kraal.stores.file_log import FileLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "config.log"


def read_all(log: FileLog) -> list[tuple[int, str, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in log.read(0, 1_000_000)]


def fill_log(path: Path, batches: list[list[Entry]]) -> list[int]:
    """Write batches, and return the size of the file before the first batch and after each batch."""
    log = FileLog(path, "config")
    ends = [path.stat().st_size]
    for batch in batches:
        log.append(batch)
        ends.append(path.stat().st_size)
    log.close()
    return ends


BATCHES = [[Entry("a", b"1"), Entry("b", None)], [Entry("c", b"x" * 30)], [Entry("a", b""), Entry("d", b"4")]]


def test_records_and_offsets_survive_a_restart(path: Path) -> None:
    fill_log(path, BATCHES)
    log = FileLog(path, "config")
    records_before = read_all(log)
    assert log.append([Entry("e", b"5")]) == 5
    log.close()
    reopened_log = FileLog(path, "config")
    assert read_all(reopened_log) == [*records_before, (5, "e", b"5")]
    reopened_log.close()


def test_crash_at_any_byte_loses_only_unacknowledged_batch(path: Path, tmp_path: Path) -> None:
    ends = fill_log(path, BATCHES)
    data = path.read_bytes()
    for cut in range(len(data) + 1):
        torn_path = tmp_path / f"torn-{cut}"
        torn_path.write_bytes(data[:cut])
        log = FileLog(torn_path, "config")
        complete_entries = [
            entry for batch, end in zip(BATCHES, ends[1:], strict=True) if end <= cut for entry in batch
        ]
        assert [(k, v) for _, k, v in read_all(log)] == [(e.key, e.value) for e in complete_entries]
        offset = log.append([Entry("new", b"n")])
        assert read_all(log)[-1] == (offset, "new", b"n")
        log.close()
        reopened_log = FileLog(torn_path, "config")
        assert len(read_all(reopened_log)) == len(complete_entries) + 1
        reopened_log.close()
        torn_path.unlink()


def test_torn_tail_is_truncated_with_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ends = fill_log(path, BATCHES)
    with path.open("r+b") as file:
        file.truncate(ends[-1] - 3)
    with caplog.at_level(logging.WARNING):
        log = FileLog(path, "config")
    log.close()
    assert path.stat().st_size == ends[-2]
    assert f"bytes, from byte {ends[-2]} on" in caplog.text


@pytest.mark.parametrize("tail", [b"\0" * 5, b"\0" * 4096], ids=["a few zeros", "a page of zeros"])
def test_trailing_zeros_are_a_torn_tail(path: Path, tail: bytes) -> None:
    ends = fill_log(path, BATCHES)
    with path.open("ab") as file:
        file.write(tail)
    log = FileLog(path, "config")
    assert len(read_all(log)) == 5
    log.close()
    assert path.stat().st_size == ends[-1]


def test_flipped_bit_before_the_last_batch_is_detected(path: Path, tmp_path: Path) -> None:
    ends = fill_log(path, BATCHES)
    data = path.read_bytes()
    # In the last batch, a flipped bit is indistinguishable from a torn write.
    for position in range(ends[-2]):
        damaged_data = bytearray(data)
        damaged_data[position] ^= 0x10
        damaged_path = tmp_path / "damaged"
        damaged_path.write_bytes(damaged_data)
        with pytest.raises(StoreError, match=r"damaged.*move it away"):
            FileLog(damaged_path, "config")
        assert damaged_path.read_bytes() == bytes(damaged_data), "a damaged file is unchanged"


def test_invalid_file_is_rejected_and_unchanged(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(StoreError, match="does not start with the header of a Kraal log"):
        FileLog(path, "config")
    assert path.read_text() == "precious"


def test_log_cannot_be_opened_twice(path: Path) -> None:
    log = FileLog(path, "config")
    with pytest.raises(StoreError, match=r"config\.log is in use by another worker"):
        FileLog(path, "config")
    log.close()
    FileLog(path, "config").close()


def test_log_cannot_be_opened_if_its_parent_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open the log 'config'"):
        FileLog(tmp_path / "file" / "config.log", "config")


def test_compaction_keeps_latest_records_and_offsets(path: Path) -> None:
    fill_log(
        path,
        [[Entry("k", str(n).encode()), Entry(f"gone-{n}", b"x"), Entry(f"gone-{n}", None)] for n in range(9)],
    )
    size = path.stat().st_size
    log = FileLog(path, "config", compact_from=0)
    assert read_all(log) == [(24, "k", b"8")]
    assert path.stat().st_size < size
    assert log.end() == 27
    assert log.append([Entry("k", b"9")]) == 27
    log.close()


def test_offsets_increase_after_compaction_to_empty_file(path: Path) -> None:
    fill_log(path, [[Entry("k", b"1")], [Entry("k", None)]])
    for _ in range(2):
        log = FileLog(path, "config", compact_from=0)
        assert read_all(log) == []
        assert log.end() == 2
        log.close()
    assert path.stat().st_size == HEADER_SIZE


def test_log_is_not_compacted_if_it_would_hardly_shrink(path: Path) -> None:
    fill_log(path, [[Entry(f"k{n}", b"v" * 50)] for n in range(10)])
    data_before = path.read_bytes()
    FileLog(path, "config", compact_from=0).close()
    assert path.read_bytes() == data_before


def test_custom_compaction_selects_records(path: Path) -> None:
    def only_last(records: list[Record]) -> list[Record]:
        return records[-1:]

    fill_log(path, BATCHES)
    log = FileLog(path, "config", compaction=lambda records: only_last(list(records)), compact_from=0)
    assert read_all(log) == [(4, "d", b"4")]
    log.close()


def test_append_after_full_disk_follows_valid_data(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FileLog(path, "config")
    log.append([Entry("a", b"1")])
    original_pwrite = os.pwrite

    def write_partially(file: int, data: bytes, position: int) -> int:
        original_pwrite(file, bytes(data)[:7], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", write_partially)
        with pytest.raises(StoreError, match="No space left"):
            log.append([Entry("b", b"2")])
    assert log.end() == 1
    assert log.append([Entry("c", b"3")]) == 1
    assert read_all(log) == [(0, "a", b"1"), (1, "c", b"3")]
    log.close()
    reopened_log = FileLog(path, "config")
    assert read_all(reopened_log) == [(0, "a", b"1"), (1, "c", b"3")]
    reopened_log.close()


def test_batch_is_synced_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FileLog(path, "config")
    synced_files: list[int] = []
    monkeypatch.setattr(os, "fsync", synced_files.append)
    log.append([Entry(str(n), b"v") for n in range(100)])
    assert len(synced_files) == 1
    log.close()


def test_invalid_key_fails_before_write(path: Path) -> None:
    log = FileLog(path, "config")
    with pytest.raises(StoreError, match="not valid text"):
        log.append([Entry("a", b""), Entry("\ud800", b"")])
    assert read_all(log) == []
    log.close()


def test_reads_and_appends_can_be_concurrent(path: Path) -> None:
    log = FileLog(path, "config")
    offsets: list[int] = []
    done = threading.Event()

    def read_records() -> None:
        while len(offsets) < 600:
            offsets.extend(r.offset for r in log.read(len(offsets), 7))
        done.set()

    reader = threading.Thread(target=read_records, daemon=True)
    reader.start()
    for n in range(200):
        log.append([Entry(f"{n}-{i}", b"v") for i in range(3)])
    assert done.wait(20)
    reader.join(20)
    assert offsets == list(range(600))
    log.close()


entries = st.builds(Entry, st.sampled_from(["a", "b", "c"]), st.none() | st.binary(max_size=5))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(st.lists(st.lists(entries, min_size=1, max_size=4), max_size=4), max_size=4))
def test_latest_value_of_each_key_survives_any_history(tmp_path: Path, runs: list[list[list[Entry]]]) -> None:
    path = tmp_path / "any.log"
    path.unlink(missing_ok=True)
    expected: dict[str, bytes | None] = {}
    end = 0
    for run in runs:
        log = FileLog(path, "config", compact_from=0)
        assert log.end() == end
        for batch in run:
            expected.update({e.key: e.value for e in batch})
            end += len(batch)
            assert log.append(batch) == end - 1
        offsets = [r.offset for r in log.read(0, 1000)]
        assert offsets == sorted(set(offsets))
        latest_values = {r.key: r.value for r in log.read(0, 1000)}
        assert {k: v for k, v in latest_values.items() if v is not None} == {
            k: v for k, v in expected.items() if v is not None
        }
        log.close()
