"""The class paths of Java Connect workers by version."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Final

from kraal.jars.directories import cache_dir
from kraal.jars.jars import ensure
from kraal.jars.java_module import compile_jar
from kraal.jars.lock import JAVA_WORKERS
from scripts.harness.moved_classes import find_moved_classes, has_old_names, write_with_new_names

CURRENT: Final = next(iter(JAVA_WORKERS))
"""The version of Connect with which Kraal is compared."""
OLDER: Final = ("4.3.0",)
"""Older versions with which responses are also compared."""
_AGENT_SOURCES: Final = Path(__file__).parents[2] / "java" / "src" / "harness"


@cache
def class_path(version: str = CURRENT) -> str:
    """Return the class path of a worker of this version; download missing jars.

    Jars of an older version, which substitute for unreleased jars, are rewritten for the class names of this version.
    Raises the same errors as `ensure`.
    """
    jars = ensure(JAVA_WORKERS[version])
    moved = find_moved_classes([jar for jar in jars if "__kafka-clients__" in jar.name])
    return os.pathsep.join(str(_adapt(jar, version, moved)) for jar in jars)


@cache
def shutdown_agent() -> Path:
    """Return the jar of `ShutdownAgent`, a Java agent without which a worker may hang on exit; compile it if necessary.

    Raises JarsUnavailable, JavaMissing, OSError.
    """
    sources = sorted(path for path in _AGENT_SOURCES.rglob("*") if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    jar = cache_dir() / "java-connect" / f"shutdown-agent-{digest[:16]}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        compile_jar(_AGENT_SOURCES, [], jar)
    return jar


def prepare_plugins(plugin_path: str, version: str, directory: Path) -> str:
    """Return a plugin path for a worker of this version.

    If classes have moved in this version, the plugin path consists of copies in `directory`. Jars that use moved
    classes are rewritten in the copies, except the jars of Kafka's clients.
    """
    moved = find_moved_classes(
        [jar for jar in ensure(JAVA_WORKERS[version]) if "__kafka-clients__" in jar.name]
    )
    if not moved:
        return plugin_path
    paths = []
    for number, path in enumerate(map(str.strip, plugin_path.split(","))):
        copy = directory / str(number)
        if not copy.exists():
            shutil.copytree(path, copy, copy_function=partial(_copy_adapted, moved=moved))
        paths.append(str(copy))
    return ",".join(paths)


def _copy_adapted(source: str, target: str, *, moved: dict[bytes, bytes]) -> None:
    jar = Path(source)
    if jar.suffix == ".jar" and "kafka-clients" not in jar.name and has_old_names(jar):
        write_with_new_names(jar, Path(target), moved)
    else:
        shutil.copy(source, target)


def _adapt(jar: Path, version: str, moved: dict[bytes, bytes]) -> Path:
    """Return the jar, or, if it belongs to another version of Kafka, a copy adapted to this version."""
    if not moved or not jar.name.startswith("org.apache.kafka__") or f"__{version}" in jar.name:
        return jar
    directory = cache_dir() / "java-connect" / version
    target = directory / jar.name
    if not target.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".adapt-", dir=directory) as scratch:
            write_with_new_names(jar, Path(scratch) / jar.name, moved)
            (Path(scratch) / jar.name).replace(target)
    return target
