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


def write_interrupted_journal(path: Path, length: int, total: int) -> None:
    """Write the journal of a worker that was killed during an append."""
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


@pytest.mark.parametrize("written_bytes", range(9))
def test_interrupted_append_is_truncated(path: Path, tmp_path: Path, written_bytes: int) -> None:
    batch = b"one\ntwo\n"
    path.write_bytes(b"no end" + batch[:written_bytes])
    write_interrupted_journal(path, 6, len(batch))
    target = AppendTarget(str(path), str(tmp_path))
    assert path.read_bytes() == b"no end"
    put(target, batch)
    target.close()
    assert path.read_bytes() == b"no end" + batch


@pytest.mark.parametrize("parts", [1, 3])
def test_unlocked_appends_of_other_programs_are_preserved(path: Path, tmp_path: Path, parts: int) -> None:
    """Java tasks of the same sink do not lock the file."""
    target = AppendTarget(str(path), str(tmp_path))

    def lines() -> Iterator[memoryview]:
        for number in range(parts):
            with path.open("ab") as other_file:
                other_file.write(b"theirs\n")
            yield memoryview(f"ours {number}\n".encode())

    target.append_bytes(lines(), 7 * parts)
    assert path.read_bytes() == b"".join(b"theirs\nours %d\n" % number for number in range(parts))


def test_append_files_preserves_lines_of_other_programs(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    (tmp_path / "p1").write_bytes(b"b\n" * 10_000)
    (tmp_path / "p2").touch()

    def append_foreign_line() -> None:
        path.write_bytes(b"theirs\n")

    target.append_files([tmp_path / "p1", tmp_path / "p2"], append_foreign_line)
    assert path.read_bytes() == b"theirs\n" + b"b\n" * 10_000


def test_interrupted_append_to_shared_file_is_kept_and_terminated(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"one\n")
    with path.open("ab") as other_file:
        other_file.write(b"theirs\n")
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


def test_failed_append_to_shared_file_keeps_other_lines(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))

    def lines() -> Iterator[memoryview]:
        yield memoryview(b"ours\n")
        with path.open("ab") as other_file:
            other_file.write(b"theirs\n")
        raise PartitionsLost("t-0 belongs to another task")

    with pytest.raises(PartitionsLost):
        target.append_bytes(lines(), 10)
    assert path.read_bytes() == b"ours\ntheirs\n"


def test_unterminated_line_of_another_program_is_kept(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"theirs")
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.read_bytes() == b"theirs"


def test_lines_appended_after_interrupted_batch_are_kept(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"x" * 50)
    write_interrupted_journal(path, 10, 20)
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.stat().st_size == 50


def test_journal_of_another_file_is_ignored(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"x" * 5)
    write_interrupted_journal(path, 0, 20)
    path.rename(tmp_path / "old")
    path.write_bytes(b"new")
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.read_bytes() == b"new"


def test_invalid_journal_is_ignored(path: Path, tmp_path: Path) -> None:
    (tmp_path / ".out.txt.kraal").write_bytes(b"\x00rubbish")
    path.write_bytes(b"x")
    AppendTarget(str(path), str(tmp_path)).close()
    assert path.read_bytes() == b"x"


def test_full_disk_truncates_the_batch_and_reports_the_path(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"good\n")
    os_write, calls = os.write, []

    def write(fd: int, data: Any) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os_write(fd, bytes(data)[:2])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match=r"cannot write to .*out\.txt: No space left on device"):
        put(target, b"lost\n")
    assert path.read_bytes() == b"good\n"


def test_missing_directory_is_reported_with_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot write to .*none/out: No such file or directory"):
        AppendTarget(str(tmp_path / "none" / "out"), str(tmp_path))


def test_rotated_file_is_recreated(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    put(target, b"a\n")
    path.rename(tmp_path / "old")
    put(target, b"b\n")
    assert (path.read_bytes(), (tmp_path / "old").read_bytes()) == (b"b\n", b"a\n")


def test_device_is_written_without_journal(tmp_path: Path) -> None:
    (tmp_path / "p1").write_bytes(b"b\n")
    target = AppendTarget("/dev/null", str(tmp_path))
    target.append_files([tmp_path / "p1"])
    put(target, b"a\n")
    target.close()


def test_concurrent_appends_do_not_interleave(path: Path, tmp_path: Path) -> None:
    def append_repeatedly(char: bytes) -> None:
        target = AppendTarget(str(path), str(tmp_path))
        for _ in range(50):
            target.append_bytes((memoryview(char * 10) for _ in range(10)), 100)
        target.close()

    threads = [threading.Thread(target=append_repeatedly, args=(char,)) for char in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    data = path.read_bytes()
    assert len(data) == 15_000
    assert all(len(set(data[start : start + 100])) == 1 for start in range(0, len(data), 100))


@pytest.fixture
def unwritable_directory(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent the creation of files in the target's directory, even by root."""
    path.touch()
    os_open = os.open

    def fail_to_create(path: Any, flags: int, *arguments: Any, **keywords: Any) -> int:
        if Path(path).parent == tmp_path and not Path(path).exists():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return os_open(path, flags, *arguments, **keywords)

    monkeypatch.setattr(os, "open", fail_to_create)


@pytest.fixture
def create_target(path: Path, tmp_path: Path, unwritable_directory: None) -> Callable[[str], AppendTarget]:  # noqa: ARG001 - patches
    """Return a factory of targets for workers that cannot create files in the target's directory."""

    def create(name: str) -> AppendTarget:
        (tmp_path.parent / name).mkdir(exist_ok=True)
        return AppendTarget(str(path), str(tmp_path.parent / name))

    return create


def test_workers_without_write_access_to_the_directory_exclude_each_other(
    create_target: Callable[[str], AppendTarget], path: Path
) -> None:
    """While one worker appends, the other waits for the lock."""
    first_target, second_target = create_target("a"), create_target("b")
    append_done = threading.Event()

    def append_slowly() -> Iterator[memoryview]:
        yield memoryview(b"one\n")
        other_thread.start()
        assert not append_done.wait(0.2)
        assert path.read_bytes() == b"one\n"
        yield memoryview(b"two\n")

    def append_without_waiting() -> None:
        put(second_target, b"three\n")
        append_done.set()

    other_thread = threading.Thread(target=append_without_waiting)
    first_target.append_bytes(append_slowly(), 8)
    other_thread.join(30)
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_interrupted_append_of_another_worker_is_truncated_without_loss(
    create_target: Callable[[str], AppendTarget], path: Path, tmp_path: Path
) -> None:
    first_target = create_target("a")
    put(first_target, b"good\n")
    script = "import os, sys; from kraal.connectors.file.append import AppendTarget; os.chdir('/')\n"
    script += "def torn():\n    yield memoryview(b'half'); os.kill(os.getpid(), 9)\n"
    # Root can write to every directory, so force the journal to be an extended attribute.
    script += "from kraal.connectors.file.journal import Journal; Journal._open = lambda self, target: None\n"
    script += "AppendTarget(sys.argv[1], sys.argv[2]).append_bytes(torn(), 1000)\n"
    completed = subprocess.run([sys.executable, "-c", script, str(path), str(tmp_path.parent)], check=False)
    assert completed.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"good\nhalf"
    put(first_target, b"next\n")
    create_target("b").close()  # the killed worker restarts
    assert path.read_bytes() == b"good\nnext\n"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_unwritable_journal_of_other_workers_is_rejected(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AppendTarget(str(path), str(tmp_path)).close()
    os_open = os.open

    def fail_to_open_journal(name: Any, *arguments: Any, **keywords: Any) -> int:
        if str(name).endswith(".kraal"):
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return os_open(name, *arguments, **keywords)

    monkeypatch.setattr(os, "open", fail_to_open_journal)
    with pytest.raises(
        OSError, match=r"cannot write to .*out\.txt: this worker cannot write the journal .*\.kraal"
    ):
        AppendTarget(str(path), str(tmp_path))


@pytest.mark.usefixtures("unwritable_directory")
def test_target_is_rejected_if_no_journal_can_be_written(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_set_attribute(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", fail_to_set_attribute)
    with pytest.raises(OSError, match=r"cannot write to .*: the journal needs a writable directory"):
        AppendTarget(str(path), str(tmp_path))


def test_lock_wait_times_out(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_task_that_lost_its_partition_appends_nothing(path: Path, tmp_path: Path) -> None:
    target = AppendTarget(str(path), str(tmp_path))
    lock_checks: list[bool] = []

    def raise_partitions_lost() -> None:
        with path.open("ab") as other_file, pytest.raises(BlockingIOError):
            fcntl.flock(other_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock_checks.append(True)
        raise PartitionsLost("t-0 belongs to another task")

    with pytest.raises(PartitionsLost):
        target.append_bytes(iter([memoryview(b"x\n")]), 2, raise_partitions_lost)
    assert (path.read_bytes(), lock_checks) == (b"", [True])
    put(target, b"y\n")
    assert path.read_bytes() == b"y\n"


def test_join_lines_terminates_each_text() -> None:
    texts = pa.array(["a", "", "b\nc", "é"])
    assert join_lines(texts).to_pybytes() == "a\n\nb\nc\né\n".encode()
    assert join_lines(texts.slice(1, 2)).to_pybytes() == b"\nb\nc\n"
    assert join_lines(texts.slice(0, 0)).to_pybytes() == b""
