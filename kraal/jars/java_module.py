"""Kraal's own Java: compiled on first use from the sources in `java/`, into a jar in the cache directory.

The compiler comes from `jars.lock`, so a Java runtime is enough. The jar's name contains a digest of the sources and
of the jars that they are compiled with.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from kraal.core.private_files import SHARED_DIRECTORY, SHARED_FILE, make_directory
from kraal.jars.errors import JarsUnavailable, JavaMissing
from kraal.jars.jars import LOCK, ensure, parse_lock
from kraal.jars.java import find_java, java_version
from kraal.jars.places import cache_dir, pyspark_jars

GROUP: Final = "plugins"
"""The jars of Kafka's plugin runtime in `jars.lock`."""
_COMPILER: Final = "compiler"
_RELEASE: Final = "17"
_LIMIT_S: Final = 120
_DIGEST_LENGTH: Final = 16


def java_class_path() -> list[Path]:
    """Return the jars of the process of Java plugins; compiles Kraal's own if needed, which takes seconds.

    Raises JarsUnavailable, JavaMissing.
    """
    others = [*ensure(GROUP), *sorted(pyspark_jars("py4j-*.jar"))]
    return [_own_jar(others), *others]


def runtime() -> str:
    """Return a text that changes with the jars in the process, Kraal's own too, and with the version of Java.

    Downloads and compiles nothing.
    """
    groups = parse_lock(LOCK.read_text(encoding="utf-8"))
    try:
        version = java_version()
    except JavaMissing:
        version = "none"
    return "\n".join([version, *map(str, groups[GROUP]), _digest_sources(_sources())])


def _own_jar(others: list[Path]) -> Path:
    root = _sources()
    digest = hashlib.sha256("\n".join([*(path.name for path in others), _digest_sources(root)]).encode())
    place = cache_dir() / "java"
    made = place / f"kraal-plugins-{digest.hexdigest()[:_DIGEST_LENGTH]}.jar"
    if not made.exists():
        try:
            make_directory(place, SHARED_DIRECTORY)
            compile_jar(root, others, made)
        except OSError as exc:
            raise JarsUnavailable(f"Cannot store Kraal's Java classes in {place}: {exc}") from exc
    return made


def _digest_sources(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _sources() -> Path:
    """Return the directory of the Java module's `java` and `resources`: in the package, or in a checkout."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "java"
    return shipped if shipped.is_dir() else package.parent / "java" / "src" / "main"


def compile_jar(root: Path, class_path: list[Path], made: Path) -> None:
    """Compile all Java below `root` into the jar `made`, with the files in `root/resources`.

    The finished jar is renamed, so that processes may do so at the same time. Raises JarsUnavailable, OSError.
    """
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=made.parent) as scratch:
        classes, packed = Path(scratch) / "classes", Path(scratch) / "packed.jar"
        command = [str(find_java()), "-cp", _class_path(ensure(_COMPILER))]
        command += [
            "org.eclipse.jdt.internal.compiler.batch.Main",
            "-proc:none",
            "-nowarn",
            "-encoding",
            "UTF-8",
        ]
        command += [
            "-source",
            _RELEASE,
            "-target",
            _RELEASE,
            "-cp",
            _class_path(class_path),
            "-d",
            str(classes),
        ]
        command += map(str, sorted(root.rglob("*.java")))
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        if done.returncode:
            raise JarsUnavailable(
                f"The Java classes in {root} could not be compiled: {done.stdout}{done.stderr}"
            )
        resources = root / "resources"
        with zipfile.ZipFile(packed, "w") as jar:
            for base in (classes, resources):
                for path in sorted(base.rglob("*")):
                    if path.is_file():
                        jar.write(path, str(path.relative_to(base)))
        packed.chmod(SHARED_FILE)
        packed.replace(made)


def _class_path(jars: list[Path]) -> str:
    return os.pathsep.join(map(str, jars))
