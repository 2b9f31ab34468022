"""The lock of a worker's plugins: which jars and wheels there are, and what each must be.

A lock `NAME.lock` is a text for version control; the files that it names lie in the directory `NAME` beside it, by
names that do not depend on where they came from. So lock and directory can be copied to any machine, and a worker
starts with them without a network. What was added is kept apart from what came with it: only the former can be removed.

Shape, TOML: `version = 1`, `added = [...]` (Maven coordinates `org:name:revision` and Python requirements), then tables
`[[jar]]` and `[[wheel]]`, each with `name` (coordinates, or `name==version`), `file` and `sha256` (lower-case hex).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraal.embedded.jars import sha256_of
from kraal.errors import KraalError

DEFAULT: Final = "kraal-plugins.lock"
ENDING: Final = ".lock"
VERSION: Final = 1
_HEADER: Final = (
    "# Made by `kraal plugins`; do not edit. Its files lie in the directory of its name without .lock.\n"
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.+!-]+")


class PluginsUnfit(KraalError):
    """A lock, or a file that it names, is not what it must be; one sentence."""


@dataclass(frozen=True, slots=True, order=True)
class Locked:
    """One jar or wheel. `name` is `org:name:revision`, or `name==version`."""

    name: str
    file: str
    sha256: str

    @property
    def module(self) -> str:
        """The name without the version: two of one module are never locked."""
        return re.split(r"==|:(?=[^:]*$)", self.name)[0]


@dataclass(frozen=True, slots=True)
class Lock:
    """All that a worker is to load beside its own environment; each part is sorted."""

    added: tuple[str, ...] = ()
    """What was asked for by name."""
    jars: tuple[Locked, ...] = ()
    wheels: tuple[Locked, ...] = ()

    @property
    def everything(self) -> tuple[Locked, ...]:
        """Jars, then wheels."""
        return (*self.jars, *self.wheels)


def is_coordinates(text: str) -> bool:
    """Whether a text names a module of a Maven repository rather than something of Python's."""
    return re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", text) is not None


def files_of(lock: Path) -> Path:
    """Return the directory of a lock's files, absolute. Raises PluginsUnfit when the name does not end in `.lock`."""
    if lock.suffix != ENDING or not lock.stem:
        raise PluginsUnfit(f"The lock of plugins {lock} has to have a name that ends in {ENDING}.")
    return lock.absolute().with_suffix("")


def read_lock(path: Path) -> Lock:
    """Read a lock. Raises PluginsUnfit: it cannot be read, or is none."""
    files_of(path)
    try:
        return parse_lock(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise PluginsUnfit(f"The lock of plugins {path} cannot be read: {exc.strerror or exc}.") from exc
    except (ValueError, TypeError, KeyError) as exc:
        why = f"it has no {exc}" if isinstance(exc, KeyError) else str(exc)
        raise PluginsUnfit(f"{path} is no lock of plugins: {why.rstrip('.')}.") from exc


def parse_lock(text: str) -> Lock:
    """Parse a lock. Raises ValueError, TypeError or KeyError for what is none."""
    found = tomllib.loads(text)
    if found["version"] != VERSION:
        raise ValueError(f"its version is {found['version']}, and this Kraal reads version {VERSION}")
    return Lock(
        tuple(str(each) for each in found["added"]),
        tuple(sorted(_entry(each, ".jar") for each in found.get("jar", ()))),
        tuple(sorted(_entry(each, ".whl") for each in found.get("wheel", ()))),
    )


def _entry(table: dict[str, object], ending: str) -> Locked:
    entry = Locked(str(table["name"]), str(table["file"]), str(table["sha256"]))
    if not _PLAIN.fullmatch(entry.file) or not entry.file.endswith(ending):
        raise ValueError(f"{entry.file!r} is not the name of a {ending} file")
    if not re.fullmatch("[0-9a-f]{64}", entry.sha256):
        raise ValueError(f"{entry.sha256!r} is no sha256 in lower-case hex")
    return entry


def lock_text(lock: Lock) -> str:
    """Return what `parse_lock` reads."""
    lines = [f"version = {VERSION}", f"added = {json.dumps(sorted(lock.added))}"]
    for kind, entries in (("jar", lock.jars), ("wheel", lock.wheels)):
        for entry in sorted(entries):
            lines += ["", f"[[{kind}]]"]
            lines += [f"{key} = {json.dumps(getattr(entry, key))}" for key in ("name", "file", "sha256")]
    return _HEADER + "\n".join(lines) + "\n"


def write_lock(path: Path, lock: Lock) -> None:
    """Replace a lock, whole. Raises OSError."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(lock_text(lock))
    mask = os.umask(0)
    os.umask(mask)
    Path(file.name).chmod(0o666 & ~mask)
    Path(file.name).replace(path)


def check_files(path: Path, entries: Iterable[Locked]) -> Sequence[Path]:
    """Return where the files of a lock's entries are, after reading each. Raises PluginsUnfit for a wrong one."""
    directory = files_of(path)
    found = []
    for entry in entries:
        file = directory / entry.file
        try:
            has = sha256_of(file)
        except OSError as exc:
            raise PluginsUnfit(
                f"{file}, which {path} names, cannot be read ({exc.strerror or exc}): copy the directory with the "
                "lock, or make both again with `kraal plugins lock`."
            ) from exc
        if has != entry.sha256:
            raise PluginsUnfit(
                f"{file} is not what {path} says: its sha256 is {has}, and {entry.sha256} was locked for {entry.name}."
            )
        found.append(file)
    return found
