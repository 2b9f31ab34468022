from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.append import AppendTarget
from kraal.connectors.file_sink import joined


def put(target: AppendTarget, data: bytes) -> None:
    target.append_bytes(iter([memoryview(data)]), len(data))


def torn(path: Path, length: int, total: int) -> None:
    """Leave what a worker leaves that is killed in the middle of an append."""
    entry = {"inode": path.stat().st_ino, "length": length, "bytes": total}
    (path.parent / f".{path.name}.kraal").write_text(json.dumps(entry).ljust(128))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


def test_it_appends_to_what_is_there(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"no end")
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"a\n")
    (tmp_path / "p1").write_bytes(b"b\n" * 10_000)
    (tmp_path / "p2").write_bytes(b"c\n")
    target.append_files([tmp_path / "p1", tmp_path / "p2"])
    put(target, b"d\n")
    target.close()
    assert path.read_bytes() == b"no enda\n" + b"b\n" * 10_000 + b"c\nd\n"
    assert (tmp_path / ".out.txt.kraal").read_bytes() == b""


@pytest.mark.parametrize("written", range(9))
def test_an_append_torn_at_any_byte_is_taken_back(path: Path, tmp_path: Path, written: int) -> None:
    batch = b"one\ntwo\n"
    path.write_bytes(b"no end" + batch[:written])
    torn(path, 6, len(batch))
    target = AppendTarget(str(path), str(tmp_path))
    assert path.read_bytes() == b"no end"
    put(target, batch)
    target.close()
    assert path.read_bytes() == b"no end" + batch


def test_a_last_line_that_others_left_without_end_stays(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"theirs")
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.read_bytes() == b"theirs"


def test_what_others_appended_after_a_torn_batch_stays(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"x" * 50)
    torn(path, 10, 20)
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.stat().st_size == 50


def test_a_journal_of_another_file_is_ignored(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"x" * 5)
    torn(path, 0, 20)
    path.rename(tmp_path / "old")
    path.write_bytes(b"new")
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.read_bytes() == b"new"


def test_a_journal_full_of_rubbish_is_ignored(path: Path, tmp_path: Path) -> None:
    (tmp_path / ".out.txt.kraal").write_bytes(b"\x00rubbish")
    path.write_bytes(b"x")
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.read_bytes() == b"x"


def test_a_full_disk_takes_the_batch_back_and_names_the_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"good\n")
    real, calls = os.write, []

    def write(fd: int, data: Any) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, bytes(data)[:2])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match=r"cannot write to .*out\.txt: No space left on device"):
        put(target, b"lost\n")
    assert path.read_bytes() == b"good\n"


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot write to .*none/out: No such file or directory"):
        AppendTarget(str(tmp_path / "none" / "out"), str(tmp_path))


def test_a_rotated_file_is_begun_anew(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"a\n")
    path.rename(tmp_path / "old")
    put(target, b"b\n")
    assert (path.read_bytes(), (tmp_path / "old").read_bytes()) == (b"b\n", b"a\n")


def test_a_device_is_written_without_a_journal(tmp_path: Path) -> None:
    (tmp_path / "p1").write_bytes(b"b\n")
    target = AppendTarget("/dev/null", str(tmp_path))
    target.append_files([tmp_path / "p1"])
    put(target, b"a\n")
    target.close()


def test_tasks_that_share_a_file_do_not_mix(path: Path, tmp_path: Path) -> None:
    def work(letter: bytes) -> None:
        target = AppendTarget(str(path), str(tmp_path))
        for _ in range(50):
            target.append_bytes((memoryview(letter * 10) for _ in range(10)), 100)
        target.close()

    threads = [threading.Thread(target=work, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    data = path.read_bytes()
    assert len(data) == 15_000
    assert all(len(set(data[at : at + 100])) == 1 for at in range(0, len(data), 100))


def test_texts_are_joined_to_lines() -> None:
    texts = pa.array(["a", "", "b\nc", "é"])
    assert joined(texts).to_pybytes() == "a\n\nb\nc\né\n".encode()
    assert joined(texts.slice(1, 2)).to_pybytes() == b"\nb\nc\n"
    assert joined(texts.slice(0, 0)).to_pybytes() == b""
