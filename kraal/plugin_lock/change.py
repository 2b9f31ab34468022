"""Changes a plugin lock: resolves all added plugins, then replaces the files and the lock.

Files are renamed into place before the lock, and no file is deleted. A worker that reads the old lock thus still finds
its files, except files that were replaced with a new file of the same name.
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
    LockedPlugin,
    PluginLockError,
    check_files,
    files_directory,
    is_coordinates,
    read_lock,
    write_lock,
)
from kraal.plugin_lock.wheels import canonical, resolve_wheels, site_directory, unpack, wheel_name

LockedFiles = Sequence[tuple[LockedPlugin, Path]]
"""Entries of a lock with the paths of their files."""


@dataclass(frozen=True, slots=True)
class Change:
    """The result of changing a lock."""

    added: tuple[LockedPlugin, ...]
    removed: tuple[LockedPlugin, ...]
    lock: Lock
    provided_jars: tuple[str, ...] = ()
    """Jars that were skipped because Spark provides them."""
    connector_jars: tuple[str, ...] = ()
    """Jars that were added for Spark, but contain Java connectors, which workers load only from `plugin.path`."""


def add(path: Path, plugins: Sequence[str]) -> Change:
    """Add coordinates, requirements, files and directories to a lock, which is created if missing.

    Other locked wheels and Java plugins do not change. If coordinates are added, the dependencies of all jars are
    resolved again. Raises PluginLockError, JarsUnavailable, JavaMissing.
    """
    with _open_for_change(path) as (lock, scratch):
        coordinates = [plugin for plugin in plugins if is_coordinates(plugin)]
        java_plugins = [plugin for plugin in plugins if is_java(plugin)]
        packages = [
            _check_package(plugin) for plugin in plugins if plugin not in (*coordinates, *java_plugins)
        ]
        jars, wheels = _locked_files(path, lock.jars), _locked_files(path, lock.wheels)
        java_files = _locked_files(path, lock.java)
        added, provided_jars, connector_jars = list(lock.added), list[str](), list[str]()
        if coordinates:
            added = _replace_projects(added, coordinates)
            jars, provided_jars = resolve_jars(
                [plugin for plugin in added if is_coordinates(plugin)], scratch
            )
            connector_jars = [
                entry.name for entry, jar in jars if entry.name in coordinates and has_connectors(jar)
            ]
        if packages:
            package_names = [
                Path(package).name if package.endswith(".whl") else package for package in packages
            ]
            projects = {_project_name(name) for name in package_names}
            remaining_wheels = [str(file) for entry, file in wheels if entry.module not in projects]
            resolved_wheels = resolve_wheels([*remaining_wheels, *packages], scratch)
            _reject_installed(package_names, resolved_wheels)
            added = _replace_projects(added, package_names)
            wheels = _drop_unused(added, resolved_wheels, scratch) if remaining_wheels else resolved_wheels
        if java_plugins:
            resolved_java = resolve_java(java_plugins, scratch)
            replaced_modules = {entry.module for entry, _ in resolved_java}
            added = _replace_projects(added, [entry.name for entry, _ in resolved_java])
            java_files = [
                *(pair for pair in java_files if pair[0].module not in replaced_modules),
                *resolved_java,
            ]
        change = _replace(path, lock, added, jars, wheels, java_files, provided_jars)
        return replace(change, connector_jars=tuple(connector_jars))


def remove(path: Path, plugins: Sequence[str]) -> Change:
    """Remove entries and their unused dependencies. Raises PluginLockError, JarsUnavailable, JavaMissing."""
    with _open_for_change(path) as (lock, scratch):
        removed_plugins = {_find_added(lock, plugin) for plugin in plugins}
        added = [plugin for plugin in lock.added if plugin not in removed_plugins]
        provided_jars: list[str] = []
        jars, wheels = _locked_files(path, lock.jars), _locked_files(path, lock.wheels)
        if any(map(is_coordinates, removed_plugins)):
            jars, provided_jars = resolve_jars(
                [plugin for plugin in added if is_coordinates(plugin)], scratch
            )
        if not all(is_coordinates(plugin) or is_java(plugin) for plugin in removed_plugins):
            wheels = _drop_unused(added, wheels, scratch)
        java_files = _locked_files(path, [entry for entry in lock.java if entry.name in added])
        return _replace(path, lock, added, jars, wheels, java_files, provided_jars)


def relock(path: Path) -> Change:
    """Resolve all plugins again. Versions of dependencies may change, and missing files are downloaded.

    Plugins added as a file or directory do not change. Raises PluginLockError, JarsUnavailable, JavaMissing.
    """
    with _open_for_change(path) as (lock, scratch):
        jars, provided_jars = resolve_jars(
            [plugin for plugin in lock.added if is_coordinates(plugin)], scratch
        )
        wheel_files = _locked_files(path, [wheel for wheel in lock.wheels if wheel.file in lock.added])
        requirements = [
            plugin
            for plugin in lock.added
            if not is_coordinates(plugin) and not is_java(plugin) and not plugin.endswith(".whl")
        ]
        wheels = resolve_wheels([*(str(file) for _, file in wheel_files), *requirements], scratch)
        java_files = [
            *_locked_files(path, [entry for entry in lock.java if not is_java_coordinates(entry.name)]),
            *resolve_java([plugin for plugin in lock.added if is_java_coordinates(plugin)], scratch),
        ]
        return _replace(path, lock, lock.added, jars, wheels, java_files, provided_jars)


def _check_package(text: str) -> str:
    """Return a requirement unchanged, or the absolute path of a wheel. Raises PluginLockError."""
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


def _project_name(requirement: str) -> str:
    """Return a requirement's project name, the coordinates without the revision, or a Java plugin's file name."""
    if is_coordinates(requirement) or is_java_coordinates(requirement):
        return requirement.rpartition(":")[0]
    if is_java(requirement):
        return requirement
    if requirement.endswith(".whl"):
        return wheel_name(requirement).partition("==")[0]
    match = re.match(r"[A-Za-z0-9][\w.-]*", requirement)
    return canonical(match[0]) if match else requirement


def _replace_projects(added: Sequence[str], new_plugins: Sequence[str]) -> list[str]:
    """Return `added` and `new_plugins`, without other versions of the new projects."""
    projects = {_project_name(plugin) for plugin in new_plugins}
    remaining_plugins = (plugin for plugin in added if _project_name(plugin) not in projects)
    return [*remaining_plugins, *dict.fromkeys(new_plugins)]


def _reject_installed(names: Sequence[str], wheels: LockedFiles) -> None:
    """Raise PluginLockError for a package that Kraal's environment contains, for which pip returned no wheel."""
    modules = {entry.module for entry, _ in wheels}
    for name in names:
        if _project_name(name) not in modules:
            raise PluginLockError(f"{name} is already installed in Kraal's environment and needs no lock.")


def _find_added(lock: Lock, text: str) -> str:
    """Return the added plugin with a name or project name. Raises PluginLockError."""
    for plugin in lock.added:
        project = _project_name(plugin)
        if text in (plugin, project) or (":" not in text and canonical(text) == project):
            return plugin
    for plugin in filter(is_java_coordinates, lock.added):
        if text == ":".join(plugin.split(":")[:2]):
            return plugin
    added_names = ", ".join(lock.added) or "none"
    raise PluginLockError(f"{text} is not in the lock; added plugins: {added_names}.")


def _locked_files(path: Path, entries: Sequence[LockedPlugin]) -> LockedFiles:
    return list(zip(entries, check_files(path, entries), strict=True))


def _drop_unused(added: Sequence[str], wheels: LockedFiles, scratch: Path) -> LockedFiles:
    """Return the wheels that `added` requires, without using a package index."""
    extras = {_project_name(plugin): "".join(re.findall(r"\[.*?\]", plugin)) for plugin in added}
    wheel_directory = scratch / "local"
    wheel_directory.mkdir()
    for entry, file in wheels:
        shutil.copyfile(file, wheel_directory / entry.file)
    requirements = [
        f"{wheel_directory / entry.file}{extras[entry.module]}"
        for entry, _ in wheels
        if entry.module in extras
    ]
    return resolve_wheels(requirements, scratch, only=wheel_directory)


@contextmanager
def _open_for_change(path: Path) -> Iterator[tuple[Lock, Path]]:
    """Yield the lock and a scratch directory, excluding concurrent changes. Raises PluginLockError."""
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
    old_lock: Lock,
    added: Sequence[str],
    jars: LockedFiles,
    wheels: LockedFiles,
    java: LockedFiles,
    provided_jars: Sequence[str],
) -> Change:
    """Store the files, unpack the plugins, and replace the lock."""
    directory = files_directory(path)
    for entry, file in (*jars, *wheels, *java):
        target = directory / entry.file
        if target.exists() and compute_sha256(target) == entry.sha256:
            continue
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".new-", delete=False) as copy_file:
            pass
        shutil.copyfile(file, copy_file.name)
        Path(copy_file.name).chmod(0o644)
        Path(copy_file.name).replace(target)
    lock = Lock(
        tuple(sorted(added)),
        tuple(sorted(entry for entry, _ in jars)),
        tuple(sorted(entry for entry, _ in wheels)),
        tuple(sorted(entry for entry, _ in java)),
    )
    files = check_files(path, lock.wheels)
    if files:
        unpack(files, site_directory(directory, lock.wheels))
    unpack_java(directory, lock.java)
    write_lock(path, lock)
    old_entries, new_entries = set(old_lock.entries), set(lock.entries)
    return Change(
        tuple(sorted(new_entries - old_entries)),
        tuple(sorted(old_entries - new_entries)),
        lock,
        tuple(provided_jars),
    )
