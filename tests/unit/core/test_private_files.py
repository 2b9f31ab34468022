"""Tests that files of a worker are private regardless of the umask, and that accessible paths cause warnings."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.core.private_files import SHARED_DIRECTORY, find_readable, find_writable, make_directory
from kraal.core.records import Entry
from kraal.core.scratch import Scratch
from kraal.engine.session.settings import prepare_environment
from kraal.engine.source.spill import _write
from kraal.stores.atomic_files import replace_file
from kraal.stores.file_log import FileLog
from kraal.stores.offset_file import OffsetFile


@contextmanager
def umask(mask: int) -> Iterator[None]:
    previous_mask = os.umask(mask)
    try:
        yield
    finally:
        os.umask(previous_mask)


def read_modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.rglob("*"))
    }


def create_log(folder: Path) -> None:
    log = FileLog(folder / "log", "log", compact_from=1)
    log.append([Entry("key", b"1"), Entry("key", b"2"), Entry("key", b"3")])
    log.close()
    FileLog(folder / "log", "log", compact_from=1).close()


def create_offset_file(folder: Path) -> None:
    store = OffsetFile(folder / "offsets")
    for number in (1, 2):
        store.store({ConnectorName("c"): {SourcePartition.of({"file": "f"}): {"position": number}}})


def create_spill_file(folder: Path) -> None:
    make_directory(folder)
    batch = pa.RecordBatch.from_pylist([{"topic": "t", "value": b"1"}])
    assert list(_write(str(folder), iter([batch])))


def create_scratch(folder: Path) -> None:
    Scratch(folder).path.joinpath("inside").mkdir(mode=0o700)


@pytest.mark.parametrize(
    "create_files", [create_log, create_offset_file, create_spill_file, prepare_environment, create_scratch]
)
def test_files_are_private_with_any_umask(create_files: Callable[[Path], None], tmp_path: Path) -> None:
    with umask(0):
        create_files(tmp_path / "missing" / "data")
    all_modes = read_modes(tmp_path)
    assert len(all_modes) > 2
    assert {name: oct(mode) for name, mode in all_modes.items() if mode & 0o077} == {}


def test_code_directories_are_readable_but_not_writable_by_others(tmp_path: Path) -> None:
    with umask(0):
        make_directory(tmp_path / "cache" / "jars", SHARED_DIRECTORY)
    assert read_modes(tmp_path) == {"cache": 0o755, "cache/jars": 0o755}


def test_replaced_file_keeps_its_mode_and_a_leftover_link_is_removed(tmp_path: Path) -> None:
    path, link_target = tmp_path / "kept", tmp_path / "elsewhere"
    path.write_bytes(b"old")
    path.chmod(0o640)
    (tmp_path / f".kept.{os.getpid()}.new").symlink_to(link_target)
    replace_file(path, b"new")
    assert (path.read_bytes(), read_modes(tmp_path)) == (b"new", {"kept": 0o640})


def test_readable_paths_cause_warnings_with_fix(tmp_path: Path) -> None:
    readable_folder, private_folder = tmp_path / "data", tmp_path / "private"
    for folder, mode in ((readable_folder, 0o755), (private_folder, 0o700)):
        folder.mkdir(mode=mode)
        (folder / "config").touch(0o644)
        (folder / "status").touch(0o600)
    paths = [readable_folder, private_folder, readable_folder / "status", readable_folder / "missing"]
    config = readable_folder / "config"
    advice = "where the worker keeps configs, offsets and records; run: chmod"
    assert find_readable(paths) == [
        f"Other users have access to the directory {readable_folder} (mode 0755), {advice} 700 {readable_folder}",
        f"Other users have access to the file {config} (mode 0644), {advice} 600 {config}",
    ]


def test_writable_code_causes_warning_with_fix(tmp_path: Path) -> None:
    paths = {}
    for name, mode in (("all", 0o777), ("group", 0o775), ("sticky", 0o1777), ("fine", 0o755)):
        paths[name] = tmp_path / name
        paths[name].mkdir()
        paths[name].chmod(mode)
    warnings = find_writable([*paths.values(), paths["all"], tmp_path / "missing"])
    assert warnings == [
        f"Other users can change {paths[name]} (mode {mode}), from which the worker loads code; run: chmod go-w "
        f"{paths[name]}"
        for name, mode in (("all", "0777"), ("group", "0775"))
    ]
