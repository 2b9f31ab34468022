"""Kraal's own Java classes, compiled on first use from the sources in `java/` to a jar in the cache directory.

The compiler is one of the locked jars, so no JDK is required. The jar's name contains a digest of the sources and of
the jars on their class path.
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
from kraal.jars.directories import cache_dir, pyspark_jars
from kraal.jars.errors import JarsUnavailable, JavaMissing
from kraal.jars.jars import LOCK, ensure, parse_lock
from kraal.jars.java import find_java, java_version

GROUP: Final = "plugins"
"""The group of Kafka's plugin runtime in `jars.lock`."""
_COMPILER: Final = "compiler"
_RELEASE: Final = "17"
_COMPILE_TIMEOUT_S: Final = 120
_DIGEST_LENGTH: Final = 16


def java_class_path() -> list[Path]:
    """Return the class path of the JVM of Java plugins. Compiles Kraal's own jar if necessary, which takes seconds.

    Raises JarsUnavailable, JavaMissing.
    """
    dependencies = [*ensure(GROUP), *sorted(pyspark_jars("py4j-*.jar"))]
    return [_ensure_own_jar(dependencies), *dependencies]


def runtime_fingerprint() -> str:
    """Return a string that changes with the jars of the JVM, including Kraal's own jar, and with the version of Java.

    Neither downloads nor compiles anything.
    """
    groups = parse_lock(LOCK.read_text(encoding="utf-8"))
    try:
        version = java_version()
    except JavaMissing:
        version = "none"
    return "\n".join([version, *map(str, groups[GROUP]), _digest_sources(_source_directory())])


def _ensure_own_jar(dependencies: list[Path]) -> Path:
    root = _source_directory()
    digest = hashlib.sha256(
        "\n".join([*(path.name for path in dependencies), _digest_sources(root)]).encode()
    )
    directory = cache_dir() / "java"
    jar = directory / f"kraal-plugins-{digest.hexdigest()[:_DIGEST_LENGTH]}.jar"
    if not jar.exists():
        try:
            make_directory(directory, SHARED_DIRECTORY)
            compile_jar(root, dependencies, jar)
        except OSError as exc:
            raise JarsUnavailable(f"Cannot store Kraal's Java classes in {directory}: {exc}") from exc
    return jar


def _digest_sources(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _source_directory() -> Path:
    """Return the directory that contains `java` and `resources`, in the package or in a checkout."""
    package = Path(__file__).resolve().parents[1]
    packaged_sources = package / "java"
    return packaged_sources if packaged_sources.is_dir() else package.parent / "java" / "src" / "main"


def compile_jar(root: Path, class_path: list[Path], target: Path) -> None:
    """Compile all Java sources in `root` to the jar `target`, with the files in `root/resources`.

    The jar is renamed into place, so that processes can compile concurrently. Raises JarsUnavailable, OSError.
    """
    with tempfile.TemporaryDirectory(prefix=".compile-", dir=target.parent) as scratch:
        classes, packed_jar = Path(scratch) / "classes", Path(scratch) / "packed.jar"
        command = [str(find_java()), "-cp", _join_class_path(ensure(_COMPILER))]
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
            _join_class_path(class_path),
            "-d",
            str(classes),
        ]
        command += map(str, sorted(root.rglob("*.java")))
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S, check=False
        )
        if result.returncode:
            raise JarsUnavailable(
                f"Failed to compile the Java classes in {root}: {result.stdout}{result.stderr}"
            )
        resources = root / "resources"
        with zipfile.ZipFile(packed_jar, "w") as jar:
            for base in (classes, resources):
                for path in sorted(base.rglob("*")):
                    if path.is_file():
                        jar.write(path, str(path.relative_to(base)))
        packed_jar.chmod(SHARED_FILE)
        packed_jar.replace(target)


def _join_class_path(jars: list[Path]) -> str:
    return os.pathsep.join(map(str, jars))
