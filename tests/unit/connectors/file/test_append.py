from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.file import append
from kraal.connectors.file.append import AppendTarget
from kraal.connectors.file.sink import join_lines
from kraal.plugins.api import PartitionsLost, RetriableError


def put(target: AppendTarget, data: bytes) -> None:
    target.append_bytes(iter([memoryview(data)]), len(data))


def torn(path: Path, length: int, total: int) -> None:
    """Leave what a worker leaves that is killed in the middle of an append."""
    entry = {"inode": path.stat().st_ino, "length": length, "bytes": total}
    (path.parent / f".{path.name}.kraal").write_text(json.dumps(entry).ljust(128))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.txt"


def test_target_appends_to_existing_content(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"no end")
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"a\n")
    (tmp_path / "p1").write_bytes(b"b\n" * 10_000)
    (tmp_path / "p2").write_bytes(b"c\n")
    target.append_files([tmp_path / "p1", tmp_path / "p2"])
    put(target, b"d\n")
    target.close()
    assert path.read_bytes() == b"no enda\n" + b"b\n" * 10_000 + b"c\nd\n"
    journal = json.loads((tmp_path / ".out.txt.kraal").read_bytes())
    assert journal == {"inode": path.stat().st_ino, "length": path.stat().st_size}


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


@pytest.mark.parametrize("parts", [1, 3])
def test_lines_that_others_append_without_a_lock_are_not_overwritten(
    path: Path, tmp_path: Path, parts: int
) -> None:
    """Java's tasks of the same sink take no lock."""
    target = AppendTarget(str(path), str(tmp_path))

    def lines() -> Iterator[memoryview]:
        for number in range(parts):
            with path.open("ab") as other:
                other.write(b"theirs\n")
            yield memoryview(f"ours {number}\n".encode())

    target.append_bytes(lines(), 7 * parts)
    assert path.read_bytes() == b"".join(b"theirs\nours %d\n" % number for number in range(parts))


def test_files_are_appended_to_a_file_that_others_append_to(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    (tmp_path / "p1").write_bytes(b"b\n" * 10_000)
    (tmp_path / "p2").touch()

    def append_theirs() -> None:
        path.write_bytes(b"theirs\n")

    target.append_files([tmp_path / "p1", tmp_path / "p2"], append_theirs)
    assert path.read_bytes() == b"theirs\n" + b"b\n" * 10_000


def test_a_torn_append_to_a_shared_file_stays_and_its_line_is_ended(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"one\n")
    with path.open("ab") as other:
        other.write(b"theirs\n")
    put(target, b"two\n")
    target.close()
    content = path.read_bytes()
    entry = {"inode": path.stat().st_ino, "length": len(content), "bytes": 100, "shared": True}
    journal = tmp_path / ".out.txt.kraal"
    assert json.loads(journal.read_bytes())["shared"]
    journal.write_text(json.dumps(entry).ljust(128))
    path.write_bytes(content + b"theirs too\nthr")
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"three\n")
    assert path.read_bytes() == b"one\ntheirs\ntwo\ntheirs too\nthr\nthree\n"


def test_an_append_that_fails_beside_others_removes_none_of_their_lines(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))

    def lines() -> Iterator[memoryview]:
        yield memoryview(b"ours\n")
        with path.open("ab") as other:
            other.write(b"theirs\n")
        raise PartitionsLost("t-0 belongs to another task")

    with pytest.raises(PartitionsLost):
        target.append_bytes(lines(), 10)
    assert path.read_bytes() == b"ours\ntheirs\n"


def test_a_last_line_that_others_left_without_end_stays(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"theirs")
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.read_bytes() == b"theirs"


def test_keeps_lines_that_others_appended_after_a_torn_batch(path: Path, tmp_path: Path) -> None:
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


def test_a_rotated_file_is_read_from_its_start(path: Path, tmp_path: Path) -> None:
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


@pytest.fixture
def no_files(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing more be made in the target's directory, also by root."""
    path.touch()
    real = os.open

    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if Path(path).parent == tmp_path and not Path(path).exists():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)


@pytest.fixture
def workers(path: Path, tmp_path: Path, no_files: None) -> Callable[[str], AppendTarget]:  # noqa: ARG001 - patches
    """Return what opens the target in a worker with a scratch directory of its own, which may not write next to it."""

    def worker(name: str) -> AppendTarget:
        (tmp_path.parent / name).mkdir(exist_ok=True)
        return AppendTarget(str(path), str(tmp_path.parent / name))

    return worker


def test_rejects_workers_that_cannot_write_next_to_the_target(
    workers: Callable[[str], AppendTarget], path: Path
) -> None:
    """While one of them is in the middle of an append, the other waits."""
    first, second = workers("a"), workers("b")
    done = threading.Event()

    def slowly() -> Iterator[memoryview]:
        yield memoryview(b"one\n")
        other.start()
        assert not done.wait(0.2)
        assert path.read_bytes() == b"one\n"
        yield memoryview(b"two\n")

    def quickly() -> None:
        put(second, b"three\n")
        done.set()

    other = threading.Thread(target=quickly)
    first.append_bytes(slowly(), 8)
    other.join(30)
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_truncates_the_torn_batch_of_another_worker_but_no_later_record_of_ours(
    workers: Callable[[str], AppendTarget], path: Path, tmp_path: Path
) -> None:
    first = workers("a")
    put(first, b"good\n")
    script = "import os, sys; from kraal.connectors.file.append import AppendTarget; os.chdir('/')\n"
    script += "def torn():\n    yield memoryview(b'half'); os.kill(os.getpid(), 9)\n"
    # Its directory is not writable: as root everything is, so the journal is said to be no file.
    script += "from kraal.connectors.file.journal import Journal; Journal._open = lambda self, target: None\n"
    script += "AppendTarget(sys.argv[1], sys.argv[2]).append_bytes(torn(), 1000)\n"
    killed = subprocess.run([sys.executable, "-c", script, str(path), str(tmp_path.parent)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"good\nhalf"
    put(first, b"next\n")
    workers("b").close()  # the killed one is back
    assert path.read_bytes() == b"good\nnext\n"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_journal_that_others_write_and_we_may_not_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AppendTarget(str(path), str(tmp_path)).close()
    real = os.open

    def refuse(name: Any, *more: Any, **named: Any) -> int:
        if str(name).endswith(".kraal"):
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return real(name, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(
        OSError, match=r"cannot write to .*out\.txt: other workers write the journal .*\.kraal"
    ):
        AppendTarget(str(path), str(tmp_path))


@pytest.mark.usefixtures("no_files")
def test_a_target_that_nobody_can_keep_a_journal_for_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(
        OSError, match=r"cannot write to .*: its directory takes no files .* keep the journal"
    ):
        AppendTarget(str(path), str(tmp_path))


def test_waits_a_bounded_time_for_a_lock(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    monkeypatch.setattr(append, "LOCK_TIMEOUT_S", 0.1)
    script = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        expected = rf"cannot write to .*out\.txt: process {holder.pid} has kept it locked for 0\.1 s"
        with pytest.raises(RetriableError, match=expected):
            put(target, b"x\n")
        holder.kill()
    put(target, b"y\n")
    assert path.read_bytes() == b"y\n"


def test_the_task_that_lost_its_partition_while_it_waited_for_the_lock_appends_nothing(
    path: Path, tmp_path: Path
) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    locked: list[bool] = []

    def lost() -> None:
        with path.open("ab") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked.append(True)
        raise PartitionsLost("t-0 belongs to another task")

    with pytest.raises(PartitionsLost):
        target.append_bytes(iter([memoryview(b"x\n")]), 2, lost)
    assert (path.read_bytes(), locked) == (b"", [True])
    put(target, b"y\n")
    assert path.read_bytes() == b"y\n"


def test_texts_are_joined_to_lines() -> None:
    texts = pa.array(["a", "", "b\nc", "é"])
    assert join_lines(texts).to_pybytes() == "a\n\nb\nc\né\n".encode()
    assert join_lines(texts.slice(1, 2)).to_pybytes() == b"\nb\nc\n"
    assert join_lines(texts.slice(0, 0)).to_pybytes() == b""
