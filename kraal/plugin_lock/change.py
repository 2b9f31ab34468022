"""Changes of a plugin lock: resolve everything that was added, then replace files and lock.

Files are renamed into place before the lock, and no file is removed. So a worker that reads the old lock finds its
files, except those that were replaced by a file of the same name.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kraal.jars.jars import compute_sha256
from kraal.plugin_lock.jars import has_connectors, resolve_jars
from kraal.plugin_lock.java import is_java, is_java_coordinates, resolve_java, unpack_java
from kraal.plugin_lock.lock import (
    Lock,
    Locked,
    PluginLockError,
    check_files,
    files_directory,
    is_coordinates,
    read_lock,
    write_lock,
)
from kraal.plugin_lock.wheels import canonical, resolve_wheels, site_directory, unpack, wheel_name

Found = Sequence[tuple[Locked, Path]]


@dataclass(frozen=True, slots=True)
class Change:
    """Result of changing a lock."""

    new: tuple[Locked, ...]
    gone: tuple[Locked, ...]
    lock: Lock
    provided: tuple[str, ...] = ()
    """Jars that were skipped because Spark provides them."""
    connectors: tuple[str, ...] = ()
    """Jars that were added for Spark, but contain connectors in Java, which workers look for in `plugin.path`."""


def add(path: Path, what: Sequence[str]) -> Change:
    """Add coordinates, requirements, files and directories to a lock, which is created if missing.

    Locked versions do not change. Raises PluginLockError, JarsUnavailable, JavaMissing.
    """
    with _changing(path) as (lock, scratch):
        coordinates = [each for each in what if is_coordinates(each)]
        java = [each for each in what if is_java(each)]
        packages = [_requirement_or_file(each) for each in what if each not in (*coordinates, *java)]
        jars, wheels = _locked_files(path, lock.jars), _locked_files(path, lock.wheels)
        plugins = _locked_files(path, lock.java)
        added, provided, connectors = list(lock.added), list[str](), list[str]()
        if coordinates:
            added = _with_replaced(added, coordinates)
            jars, provided = resolve_jars([each for each in added if is_coordinates(each)], scratch)
            connectors = [each.name for each, jar in jars if each.name in coordinates and has_connectors(jar)]
        if packages:
            names = [Path(each).name if each.endswith(".whl") else each for each in packages]
            new = {_project(each) for each in names}
            remaining = [str(file) for each, file in wheels if each.module not in new]
            resolved = resolve_wheels([*remaining, *packages], scratch)
            _refuse_provided(names, resolved)
            added = _with_replaced(added, names)
            wheels = _still_needed(added, resolved, scratch) if remaining else resolved
        if java:
            resolved_java = resolve_java(java, scratch)
            replaced_modules = {each.module for each, _ in resolved_java}
            added = _with_replaced(added, [each.name for each, _ in resolved_java])
            plugins = [*(pair for pair in plugins if pair[0].module not in replaced_modules), *resolved_java]
        done = _replace(path, lock, added, jars, wheels, plugins, provided)
        return replace(done, connectors=tuple(connectors))


def remove(path: Path, what: Sequence[str]) -> Change:
    """Remove entries and their unused dependencies. Raises PluginLockError, JarsUnavailable, JavaMissing."""
    with _changing(path) as (lock, scratch):
        removed = {_match(lock, each) for each in what}
        added, provided = [each for each in lock.added if each not in removed], list[str]()
        jars, wheels = _locked_files(path, lock.jars), _locked_files(path, lock.wheels)
        if any(map(is_coordinates, removed)):
            jars, provided = resolve_jars([each for each in added if is_coordinates(each)], scratch)
        if not all(is_coordinates(each) or is_java(each) for each in removed):
            wheels = _still_needed(added, wheels, scratch)
        plugins = _locked_files(path, [each for each in lock.java if each.name in added])
        return _replace(path, lock, added, jars, wheels, plugins, provided)


def relock(path: Path) -> Change:
    """Resolve everything again: dependencies may change their version, missing files are downloaded.

    What was added as a file or a directory does not change. Raises PluginLockError, JarsUnavailable, JavaMissing.
    """
    with _changing(path) as (lock, scratch):
        jars, provided = resolve_jars([each for each in lock.added if is_coordinates(each)], scratch)
        files = _locked_files(path, [each for each in lock.wheels if each.file in lock.added])
        wanted = [
            each
            for each in lock.added
            if not is_coordinates(each) and not is_java(each) and not each.endswith(".whl")
        ]
        wheels = resolve_wheels([*(str(file) for _, file in files), *wanted], scratch)
        plugins = [
            *_locked_files(path, [each for each in lock.java if not is_java_coordinates(each.name)]),
            *resolve_java([each for each in lock.added if is_java_coordinates(each)], scratch),
        ]
        return _replace(path, lock, lock.added, jars, wheels, plugins, provided)


def _requirement_or_file(text: str) -> str:
    if text.endswith(".whl"):
        if not Path(text).is_file():
            raise PluginLockError(f"Wheel {text} does not exist.")
        wheel_name(Path(text).name)
        return str(Path(text).absolute())
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?\s*([=<>!~][^@\n]*)?", text):
        return text
    raise PluginLockError(
        f"Invalid plugin '{text}'; expected Maven coordinates (org:name:revision), a wheel (FILE.whl), a package "
        "(name or name==version), or a Java plugin (org:name:extension[:classifier]:revision, FILE.tar.gz, FILE.tgz, "
        "FILE.zip, FILE.jar, or a directory with a slash at its end)."
    )


def _project(requirement: str) -> str:
    """Return the project name of a requirement, coordinates without revision, or the name of a Java plugin's file."""
    if is_coordinates(requirement) or is_java_coordinates(requirement):
        return requirement.rpartition(":")[0]
    if is_java(requirement):
        return requirement
    if requirement.endswith(".whl"):
        return wheel_name(requirement).partition("==")[0]
    match = re.match(r"[A-Za-z0-9][\w.-]*", requirement)
    return canonical(match[0]) if match else requirement


def _with_replaced(added: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return `added` with `new`, which replaces other versions of the same projects."""
    projects = {_project(each) for each in new}
    return [*(each for each in added if _project(each) not in projects), *dict.fromkeys(new)]


def _refuse_provided(names: Sequence[str], wheels: Found) -> None:
    modules = {each.module for each, _ in wheels}
    for each in names:
        if _project(each) not in modules:
            raise PluginLockError(f"{each} is already installed in Kraal's environment and needs no lock.")


def _match(lock: Lock, text: str) -> str:
    for each in lock.added:
        project = _project(each)
        if text in (each, project) or (":" not in text and canonical(text) == project):
            return each
    for each in filter(is_java_coordinates, lock.added):
        if text == ":".join(each.split(":")[:2]):
            return each
    added_names = ", ".join(lock.added) or "none"
    raise PluginLockError(f"{text} is not in the lock; added plugins: {added_names}.")


def _locked_files(path: Path, entries: Sequence[Locked]) -> Found:
    return list(zip(entries, check_files(path, entries), strict=True))


def _still_needed(added: Sequence[str], wheels: Found, scratch: Path) -> Found:
    """Return the wheels that `added` needs, without using a package index."""
    extras = {_project(each): "".join(re.findall(r"\[.*?\]", each)) for each in added}
    here = scratch / "here"
    here.mkdir()
    for each, file in wheels:
        shutil.copyfile(file, here / each.file)
    wanted = [f"{here / each.file}{extras[each.module]}" for each, _ in wheels if each.module in extras]
    return resolve_wheels(wanted, scratch, only=here)


@contextmanager
def _changing(path: Path) -> Iterator[tuple[Lock, Path]]:
    """Lock out other changes and yield the lock and a scratch directory. Raises PluginLockError."""
    directory = files_directory(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / ".changing").open("w", encoding="ascii") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            with tempfile.TemporaryDirectory(prefix=".change-", dir=directory) as scratch:
                yield read_lock(path) if path.exists() else Lock(), Path(scratch)
    except OSError as exc:
        raise PluginLockError(f"Cannot store the plugins of {path} in {directory}: {exc}.") from exc


def _replace(
    path: Path,
    before: Lock,
    added: Sequence[str],
    jars: Found,
    wheels: Found,
    plugins: Found,
    provided: Sequence[str],
) -> Change:
    directory = files_directory(path)
    for entry, file in (*jars, *wheels, *plugins):
        target = directory / entry.file
        if target.exists() and compute_sha256(target) == entry.sha256:
            continue
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".new-", delete=False) as new:
            pass
        shutil.copyfile(file, new.name)
        Path(new.name).chmod(0o644)
        Path(new.name).replace(target)
    now = Lock(
        tuple(sorted(added)),
        tuple(sorted(each for each, _ in jars)),
        tuple(sorted(each for each, _ in wheels)),
        tuple(sorted(each for each, _ in plugins)),
    )
    files = check_files(path, now.wheels)
    if files:
        unpack(files, site_directory(directory, now.wheels))
    unpack_java(directory, now.java)
    write_lock(path, now)
    old, new_ones = set(before.everything), set(now.everything)
    return Change(tuple(sorted(new_ones - old)), tuple(sorted(old - new_ones)), now, tuple(provided))
