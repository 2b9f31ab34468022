"""The file-backed log under kills, damage, compaction and company."""

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


def everything(log: FileLog) -> list[tuple[int, str, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in log.read(0, 1_000_000)]


def filled(path: Path, batches: list[list[Entry]]) -> list[int]:
    """Write `batches`; return where the file ended after each, the empty file first."""
    log = FileLog(path, "config")
    ends = [path.stat().st_size]
    for batch in batches:
        log.append(batch)
        ends.append(path.stat().st_size)
    log.close()
    return ends


BATCHES = [[Entry("a", b"1"), Entry("b", None)], [Entry("c", b"x" * 30)], [Entry("a", b""), Entry("d", b"4")]]


def test_records_and_offsets_survive_a_restart(path: Path) -> None:
    filled(path, BATCHES)
    log = FileLog(path, "config")
    before = everything(log)
    assert log.append([Entry("e", b"5")]) == 5
    log.close()
    again = FileLog(path, "config")
    assert everything(again) == [*before, (5, "e", b"5")]
    again.close()


def test_a_kill_at_any_byte_loses_only_the_batch_in_flight(path: Path, tmp_path: Path) -> None:
    ends = filled(path, BATCHES)
    data = path.read_bytes()
    for cut in range(len(data) + 1):
        torn = tmp_path / f"torn-{cut}"
        torn.write_bytes(data[:cut])
        log = FileLog(torn, "config")
        whole = [entry for batch, end in zip(BATCHES, ends[1:], strict=True) if end <= cut for entry in batch]
        assert [(k, v) for _, k, v in everything(log)] == [(e.key, e.value) for e in whole]
        offset = log.append([Entry("new", b"n")])
        assert everything(log)[-1] == (offset, "new", b"n")
        log.close()
        reopened = FileLog(torn, "config")
        assert len(everything(reopened)) == len(whole) + 1
        reopened.close()
        torn.unlink()


def test_a_torn_tail_is_cut_off_with_a_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ends = filled(path, BATCHES)
    with path.open("r+b") as file:
        file.truncate(ends[-1] - 3)
    with caplog.at_level(logging.WARNING):
        log = FileLog(path, "config")
    log.close()
    assert path.stat().st_size == ends[-2]
    assert f"from byte {ends[-2]} on, are cut off" in caplog.text


@pytest.mark.parametrize("tail", [b"\0" * 5, b"\0" * 4096], ids=["a few zeros", "a page of zeros"])
def test_trailing_zeros_are_a_torn_tail(path: Path, tail: bytes) -> None:
    ends = filled(path, BATCHES)
    with path.open("ab") as file:
        file.write(tail)
    log = FileLog(path, "config")
    assert len(everything(log)) == 5
    log.close()
    assert path.stat().st_size == ends[-1]


def test_a_flipped_bit_is_never_passed_off_as_sound(path: Path, tmp_path: Path) -> None:
    ends = filled(path, BATCHES)
    data = path.read_bytes()
    for at in range(ends[-2]):  # in the last batch it cannot be told from a torn write
        bad = bytearray(data)
        bad[at] ^= 0x10
        damaged = tmp_path / "damaged"
        damaged.write_bytes(bad)
        with pytest.raises(StoreError, match=r"damaged.*move it away"):
            FileLog(damaged, "config")
        assert damaged.read_bytes() == bytes(bad), "a damaged file is left as it is"


def test_rejects_a_file_that_is_not_a_log_and_leaves_it_unchanged(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(StoreError, match="does not start with the header of a Kraal log"):
        FileLog(path, "config")
    assert path.read_text() == "precious"


def test_a_second_opener_gets_a_clear_error_until_the_first_is_closed(path: Path) -> None:
    log = FileLog(path, "config")
    with pytest.raises(StoreError, match=r"config\.log is in use by another worker"):
        FileLog(path, "config")
    log.close()
    FileLog(path, "config").close()


def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot open the log 'config'"):
        FileLog(tmp_path / "file" / "config.log", "config")


def test_compaction_keeps_the_latest_record_of_each_key_and_offsets_keep_rising(path: Path) -> None:
    filled(
        path,
        [[Entry("k", str(n).encode()), Entry(f"gone-{n}", b"x"), Entry(f"gone-{n}", None)] for n in range(9)],
    )
    size = path.stat().st_size
    log = FileLog(path, "config", compact_from=0)
    assert everything(log) == [(24, "k", b"8")]
    assert path.stat().st_size < size
    assert log.end() == 27
    assert log.append([Entry("k", b"9")]) == 27
    log.close()


def test_offsets_keep_rising_after_compaction_to_an_empty_file(path: Path) -> None:
    filled(path, [[Entry("k", b"1")], [Entry("k", None)]])
    for _ in range(2):
        log = FileLog(path, "config", compact_from=0)
        assert everything(log) == []
        assert log.end() == 2
        log.close()
    assert path.stat().st_size == HEADER_SIZE


def test_does_not_compact_a_log_that_would_hardly_shrink(path: Path) -> None:
    filled(path, [[Entry(f"k{n}", b"v" * 50)] for n in range(10)])
    before = path.read_bytes()
    FileLog(path, "config", compact_from=0).close()
    assert path.read_bytes() == before


def test_a_custom_compaction_decides_which_records_stay(path: Path) -> None:
    def only_last(records: list[Record]) -> list[Record]:
        return records[-1:]

    filled(path, BATCHES)
    log = FileLog(path, "config", compaction=lambda records: only_last(list(records)), compact_from=0)
    assert everything(log) == [(4, "d", b"4")]
    log.close()


def test_a_full_disk_fails_one_append_and_the_next_follows_sound_data(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = FileLog(path, "config")
    log.append([Entry("a", b"1")])
    write = os.pwrite

    def full(file: int, data: bytes, position: int) -> int:
        write(file, bytes(data)[:7], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StoreError, match="No space left"):
            log.append([Entry("b", b"2")])
    assert log.end() == 1
    assert log.append([Entry("c", b"3")]) == 1
    assert everything(log) == [(0, "a", b"1"), (1, "c", b"3")]
    log.close()
    again = FileLog(path, "config")
    assert everything(again) == [(0, "a", b"1"), (1, "c", b"3")]
    again.close()


def test_one_sync_is_enough_for_a_batch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = FileLog(path, "config")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    log.append([Entry(str(n), b"v") for n in range(100)])
    assert len(synced) == 1
    log.close()


def test_a_key_that_is_not_text_fails_before_anything_is_written(path: Path) -> None:
    log = FileLog(path, "config")
    with pytest.raises(StoreError, match="not valid text"):
        log.append([Entry("a", b""), Entry("\ud800", b"")])
    assert everything(log) == []
    log.close()


def test_one_thread_may_read_while_another_appends(path: Path) -> None:
    log = FileLog(path, "config")
    seen: list[int] = []
    done = threading.Event()

    def read_all() -> None:
        while len(seen) < 600:
            seen.extend(r.offset for r in log.read(len(seen), 7))
        done.set()

    reader = threading.Thread(target=read_all, daemon=True)
    reader.start()
    for n in range(200):
        log.append([Entry(f"{n}-{i}", b"v") for i in range(3)])
    assert done.wait(20)
    reader.join(20)
    assert seen == list(range(600))
    log.close()


entries = st.builds(Entry, st.sampled_from(["a", "b", "c"]), st.none() | st.binary(max_size=5))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(st.lists(st.lists(entries, min_size=1, max_size=4), max_size=4), max_size=4))
def test_any_history_of_runs_keeps_each_keys_latest_value(
    tmp_path: Path, runs: list[list[list[Entry]]]
) -> None:
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
        latest = {r.key: r.value for r in log.read(0, 1000)}
        assert {k: v for k, v in latest.items() if v is not None} == {
            k: v for k, v in expected.items() if v is not None
        }
        log.close()
