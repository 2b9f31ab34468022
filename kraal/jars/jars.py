"""Jars that Kraal uses: locked by sha256, downloaded once, and stored in the cache directory.

`jars.lock` next to this module lists the jars of every group. `ensure` downloads exactly these jars without resolving
dependencies, so that the result does not depend on the repository's POMs.

A jar is moved to the cache after its checksum has been verified. Jars in the cache are therefore complete, and
processes can download concurrently (a lock file only avoids duplicate work). Checksums are verified when a jar is
downloaded and when a group is first completed. Afterwards, a marker with the lock's digest avoids reading 60 MB at
every startup.

Format of the lock: one line per jar, `group org:name:revision sha256`; `#` starts a comment.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from typing_extensions import override

from kraal.core.private_files import SHARED_DIRECTORY, SHARED_FILE, make_directory
from kraal.core.progress import Progress, pause_drawing
from kraal.jars import ivy
from kraal.jars.directories import cache_dir
from kraal.jars.errors import JarsUnavailable
from kraal.jars.ivy import Coordinates

LOCK = Path(__file__).with_name("jars.lock")


@dataclass(frozen=True, slots=True)
class LockedJar:
    """A jar of a group, with its expected sha256 in lower-case hex."""

    group: str
    coordinates: Coordinates
    sha256: str

    @override
    def __str__(self) -> str:
        return f"{self.group} {self.coordinates} {self.sha256}"


def parse_lock(text: str) -> dict[str, list[LockedJar]]:
    """Parse a lock into jars by group, in order. Raises JarsUnavailable for an invalid line."""
    groups: dict[str, list[LockedJar]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            group, coordinates, sha256 = words
            jar = LockedJar(group, Coordinates.parse(coordinates), _parse_checksum(sha256))
        except ValueError as exc:
            raise JarsUnavailable(
                f"Invalid line {number} of jars.lock; expected `group org:name:revision sha256`: {line}"
            ) from exc
        groups.setdefault(group, []).append(jar)
    return groups


def ensure(group: str) -> list[Path]:
    """Return the jars of `group`. Downloads missing jars, and shows the progress if the download takes long.

    Raises JarsUnavailable if a jar is unavailable or its checksum does not match, JavaMissing if Java is not found.
    """
    groups = parse_lock(LOCK.read_text(encoding="utf-8"))
    if group not in groups:
        raise JarsUnavailable(
            f"Unknown group of jars '{group}'; expected one of {', '.join(sorted(groups))}."
        )
    return ensure_locked(groups[group], cache_dir() / "jars")


def classpath(group: str) -> str:
    """Return the jars of `group` as a class path. Raises the same errors as `ensure`."""
    return ":".join(str(jar) for jar in ensure(group))


def ensure_locked(locked_jars: Sequence[LockedJar], directory: Path) -> list[Path]:
    """Return the locked jars of a group in `directory`. Downloads missing jars and raises errors like `ensure`."""
    paths = [directory / jar.coordinates.file_name for jar in locked_jars]
    group = locked_jars[0].group
    marker = directory / f".verified-{group}"
    digest = hashlib.sha256("\n".join(map(str, locked_jars)).encode()).hexdigest()
    if _is_marked(marker, digest) and all(path.exists() for path in paths):
        return paths
    try:
        make_directory(directory, SHARED_DIRECTORY)
        with _lock(directory):
            missing_jars = [
                jar
                for jar in locked_jars
                if _read_checksum(directory / jar.coordinates.file_name) != jar.sha256
            ]
            if missing_jars:
                _download(missing_jars, directory)
            marker.write_text(digest, encoding="ascii")
    except OSError as exc:
        raise JarsUnavailable(f"Cannot store jars in {directory}: {exc}") from exc
    return paths


def verify_checksum(jar: LockedJar, path: Path) -> None:
    """Raise JarsUnavailable if the file at `path` is not the locked jar."""
    actual_sha256 = _read_checksum(path)
    if actual_sha256 is None:
        raise JarsUnavailable(f"{jar.coordinates} was not downloaded.")
    if actual_sha256 != jar.sha256:
        raise JarsUnavailable(
            f"{jar.coordinates} does not match jars.lock: expected sha256 {jar.sha256}, got {actual_sha256}.",
            hint="A proxy, or the repository in KRAAL_IVY_SETTINGS, may have served another file.",
        )


def _download(jars: Sequence[LockedJar], directory: Path) -> None:
    # Remove the directories of killed processes. The lock excludes other downloads.
    for old_scratch in directory.glob(".fetch-*"):
        shutil.rmtree(old_scratch, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as scratch,
        Progress(f"Downloading {len(jars)} jars for {jars[0].group}", len(jars)) as progress,
    ):
        ivy.retrieve(
            [jar.coordinates for jar in jars],
            Path(scratch),
            transitive=False,
            progress=lambda resolved_count, downloaded_count: progress.set_done(
                downloaded_count, f"{resolved_count} resolved"
            ),
        )
        downloads = [(jar, Path(scratch) / "jars" / jar.coordinates.file_name) for jar in jars]
        for jar, path in downloads:
            verify_checksum(jar, path)
        for _, path in downloads:
            path.chmod(SHARED_FILE)  # private until now
            path.replace(directory / path.name)


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Hold the lock on the directory's lock file; print a message if another process holds the lock."""
    with (directory / ".lock").open("w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with pause_drawing():
                click.echo(f"Waiting for another process that is downloading jars into {directory}", err=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _is_marked(marker: Path, digest: str) -> bool:
    try:
        return marker.read_text(encoding="ascii") == digest
    except OSError:
        return False


def _parse_checksum(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError(text)
    return text


def compute_sha256(path: Path) -> str:
    """Return the sha256 of a file in lower-case hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_checksum(path: Path) -> str | None:
    try:
        return compute_sha256(path)
    except FileNotFoundError:
        return None
