"""Java plugins of a lock: archives, uber jars and directories, unpacked into a directory for `plugin.path`.

Each plugin is a file in the lock's directory, and is unpacked into a folder of the directory `java-DIGEST`, where
DIGEST depends on all plugins. The symbolic link `java` points to the current directory. The value of `plugin.path` thus
stays the same, and a running worker, which resolves the link at startup, keeps its files when the lock changes.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from kraal.core.private_files import SHARED_DIRECTORY, make_directory, shared_opener
from kraal.core.progress import Progress
from kraal.jars import ivy
from kraal.jars.ivy import Coordinates
from kraal.jars.jars import compute_sha256
from kraal.plugin_lock.lock import (
    JAVA_SUFFIXES,
    PLAIN_FILE_NAME,
    LockedPlugin,
    PluginLockError,
    files_directory,
)

LINK: Final = "java"
_ENCRYPTED_FLAG: Final = 1
"""The bit of a zip entry's flags that marks encryption. Source: APPNOTE.TXT 4.4.4."""
_ARCHIVE_ERRORS: Final = (
    EOFError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
)
"""Exceptions for unreadable archives; NotImplementedError means an unsupported compression method."""
_MIN_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The timestamp of all files in an archive created from a directory, which makes the archive reproducible."""


def is_java_coordinates(text: str) -> bool:
    """Return whether a text is `org:name:extension:revision` or `org:name:extension:classifier:revision`."""
    suffixes = "|".join(re.escape(suffix.removeprefix(".")) for suffix in JAVA_SUFFIXES)
    return re.fullmatch(rf"[\w.-]+:[\w.-]+:({suffixes})(:[\w.-]+)?:[\w.+-]+", text) is not None


def is_java(text: str) -> bool:
    """Return whether a text denotes a Java plugin: coordinates, an archive, a jar or a directory.

    As in pip, the path of a directory must contain a slash. Otherwise, the text is the name of a package.
    """
    if is_java_coordinates(text):
        return True
    return "://" not in text and (text.endswith(JAVA_SUFFIXES) or ("/" in text and Path(text).is_dir()))


def plugin_path(lock: Path) -> Path:
    """Return the directory for `plugin.path`. Raises PluginLockError if the lock's name is invalid."""
    return files_directory(lock) / LINK


def resolve_java(archives: Sequence[str], scratch: Path) -> list[tuple[LockedPlugin, Path]]:
    """Download Java plugins and pack directories. Return each plugin with its file, which may be in `scratch`.

    Raises PluginLockError, JarsUnavailable, JavaMissing.
    """
    plugins = [_resolve_local(archive, scratch) for archive in archives if not is_java_coordinates(archive)]
    names = {
        Coordinates.parse(archive).file_name: archive for archive in archives if is_java_coordinates(archive)
    }
    if names:
        directory = scratch / "java-ivy"
        directory.mkdir()
        coordinates = [Coordinates.parse(text) for text in names.values()]
        with Progress("Downloading Java plugins", len(coordinates)) as progress:
            paths = ivy.retrieve(
                coordinates,
                directory,
                transitive=False,
                progress=lambda _, downloaded_count: progress.set_done(downloaded_count),
            )
        plugins += [(LockedPlugin(names[path.name], path.name, compute_sha256(path)), path) for path in paths]
    return plugins


def _resolve_local(text: str, scratch: Path) -> tuple[LockedPlugin, Path]:
    path = Path(text).absolute()
    if path.is_dir():
        path = _pack(path.resolve(), scratch)
    elif not path.is_file():
        raise PluginLockError(
            f"Java plugin {text} does not exist; expected an archive, a jar or a directory."
        )
    if not PLAIN_FILE_NAME.fullmatch(path.name):
        raise PluginLockError(
            f"Invalid name '{path.name}' of a Java plugin; rename it: expected letters, digits and any of _ . + ! -"
        )
    _folder_name(path.name)
    return LockedPlugin(path.name, path.name, compute_sha256(path)), path


def _pack(directory: Path, scratch: Path) -> Path:
    """Pack a directory into an archive whose bytes depend only on the files' names and contents."""
    archive_path = scratch / f"{directory.name}.zip"
    with zipfile.ZipFile(archive_path, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_dir():
                if path.is_symlink():
                    raise PluginLockError(
                        f"{path} is a link to a directory; replace the link with a copy of the directory."
                    )
                continue
            info = zipfile.ZipInfo(path.relative_to(directory).as_posix(), _MIN_TIME)
            with path.open("rb") as source, archive.open(info, "w", force_zip64=True) as out:
                shutil.copyfileobj(source, out)
    return archive_path


def unpack_java(directory: Path, plugins: Sequence[LockedPlugin]) -> None:
    """Unpack the Java plugins of a lock, whose files are in `directory`, and update the link.

    Skips plugins that are already unpacked. Does nothing if the lock never had Java plugins. Raises PluginLockError.
    """
    link = directory / LINK
    if not plugins and not link.is_symlink():
        return
    digest = hashlib.sha256(
        "\n".join(f"{plugin.file} {plugin.sha256}" for plugin in sorted(plugins)).encode()
    )
    target = directory / f"{LINK}-{digest.hexdigest()[:16]}"
    try:
        if not target.exists():
            with tempfile.TemporaryDirectory(prefix=".unpack-", dir=directory) as scratch:
                java_directory = Path(scratch) / LINK
                java_directory.mkdir(mode=SHARED_DIRECTORY)
                for folder, plugin in _assign_folders(plugins).items():
                    _unpack_one(directory / plugin.file, java_directory / folder)
                try:
                    java_directory.rename(target)
                except OSError:
                    if not target.exists():  # otherwise another worker has created it
                        raise
        _update_link(link, target.name)
    except OSError as exc:
        raise PluginLockError(f"Cannot unpack the Java plugins into {target}: {exc}.") from exc


def _assign_folders(plugins: Sequence[LockedPlugin]) -> dict[str, LockedPlugin]:
    """Return the plugins by folder name. Raises PluginLockError if two plugins have the same folder."""
    folders: dict[str, LockedPlugin] = {}
    for plugin in plugins:
        other_plugin = folders.setdefault(_folder_name(plugin.file), plugin)
        if other_plugin is not plugin:
            raise PluginLockError(
                f"{other_plugin.file} and {plugin.file} would be unpacked into the same folder, "
                f"{_folder_name(plugin.file)}; rename one of them, or remove it from the lock."
            )
    return folders


def _folder_name(file: str) -> str:
    """Return the folder name for a plugin's file. Raises PluginLockError for a name that consists only of dots."""
    name = file.removesuffix(_find_suffix(file))
    if not name.strip("."):
        raise PluginLockError(
            f"Invalid name '{file}' of a Java plugin; rename it: expected a name that does not consist of dots before "
            f"{_find_suffix(file)}."
        )
    return name


def _find_suffix(file: str) -> str:
    return next(suffix for suffix in JAVA_SUFFIXES if file.endswith(suffix))


def _update_link(link: Path, name: str) -> None:
    """Atomically point the link to a sibling directory. Raises PluginLockError if `link` is not a link."""
    if link.is_symlink() and str(link.readlink()) == name:
        return
    if link.exists() and not link.is_symlink():
        raise PluginLockError(
            f"{link} is a directory instead of a link; remove it, and copy the lock's directory including its links."
        )
    temporary_link = link.with_name(f".{LINK}-{os.getpid()}")
    temporary_link.unlink(missing_ok=True)
    temporary_link.symlink_to(name)
    temporary_link.replace(link)


def _unpack_one(file: Path, folder: Path) -> None:
    """Unpack one plugin into a folder. Raises PluginLockError if the file is damaged or unsafe, or has no jar."""
    make_directory(folder, SHARED_DIRECTORY)
    if file.suffix == ".jar":
        with file.open("rb") as jar:
            _write(jar, folder / file.name)
        return
    try:
        jar_count = _unpack_archive(file, folder)
    except _ARCHIVE_ERRORS as exc:
        raise PluginLockError(
            f"{file.name} cannot be unpacked; it is damaged or has an unsupported format: {exc}."
        ) from exc
    if not jar_count:
        raise PluginLockError(f"{file.name} contains no jars; expected the archive of a Java plugin.")


def _unpack_archive(file: Path, folder: Path) -> int:
    """Unpack an archive; return the number of its jars. Raises PluginLockError, OSError and `_ARCHIVE_ERRORS`."""
    jar_count = 0
    with _open(file) as members:
        for name, source in members:
            target = folder.joinpath(*_safe_parts(name, file))
            make_directory(target.parent, SHARED_DIRECTORY)
            _write(source, target)
            jar_count += target.suffix == ".jar"
    return jar_count


@contextmanager
def _open(file: Path) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Open an archive and yield an iterator over the names and contents of its files."""
    if file.suffix == ".zip":
        with zipfile.ZipFile(file) as archive:
            yield _zip_entries(archive, file)
    else:
        with tarfile.open(file, "r|gz") as archive:
            yield _tar_entries(archive, file)


def _zip_entries(archive: zipfile.ZipFile, file: Path) -> Iterator[tuple[str, IO[bytes]]]:
    for info in archive.infolist():
        if info.is_dir():
            continue
        mode = info.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _unsafe_error(file, info.filename)
        if info.flag_bits & _ENCRYPTED_FLAG:
            raise PluginLockError(
                f"{file.name} cannot be unpacked: entry {info.filename!r} is encrypted; "
                "create the archive without a password."
            )
        with archive.open(info) as source:
            yield info.filename, source


def _tar_entries(archive: tarfile.TarFile, file: Path) -> Iterator[tuple[str, IO[bytes]]]:
    for member in archive:
        if member.isdir():
            continue
        source = archive.extractfile(member) if member.isreg() else None
        if source is None:
            raise _unsafe_error(file, member.name)
        with source:
            yield member.name, source


def _safe_parts(name: str, file: Path) -> Sequence[str]:
    """Return the parts of a path within an archive. Raises PluginLockError for a path outside the plugin's folder."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or "\\" in name or ".." in parts or not parts:
        raise _unsafe_error(file, name)
    return parts


def _unsafe_error(file: Path, name: str) -> PluginLockError:
    return PluginLockError(
        f"{file.name} contains {name!r}, which is not a regular file in the plugin's folder; nothing was unpacked."
    )


def _write(source: IO[bytes], target: Path) -> None:
    with open(target, "wb", opener=shared_opener) as out:
        shutil.copyfileobj(source, out)
