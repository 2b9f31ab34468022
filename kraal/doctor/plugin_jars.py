"""Reads the content of plugin jars in `plugin.path` without Java: plugin classes, versions and libraries.

Each entry of `plugin.path` is a jar, or a directory whose subdirectories and jars are one plugin each. Plugin classes
are read from manifests; the classes of older jars without manifests are known only if a worker has scanned the same
files. Source: PluginUtils.pluginLocations, ServiceLoaderScanner (Kafka 4.4.0).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_CONNECTOR_INTERFACES: Final = (
    "org.apache.kafka.connect.source.SourceConnector",
    "org.apache.kafka.connect.sink.SinkConnector",
)
_SERVICES_FOLDER: Final = "META-INF/services/"
_PLUGIN_INTERFACES: Final = (
    *_CONNECTOR_INTERFACES,
    "org.apache.kafka.connect.storage.Converter",
    "org.apache.kafka.connect.storage.HeaderConverter",
    "org.apache.kafka.connect.transforms.Transformation",
    "org.apache.kafka.connect.transforms.predicates.Predicate",
)
_LIBRARY_FILES: Final = {
    "org/apache/kafka/connect/connector/Connector.class": "Connect's API",
    "org/apache/kafka/clients/producer/KafkaProducer.class": "Kafka's client",
    "org/slf4j/LoggerFactory.class": "SLF4J",
    "org/slf4j/impl/StaticLoggerBinder.class": "a binding of SLF4J",
    "META-INF/services/org.slf4j.spi.SLF4JServiceProvider": "a binding of SLF4J",
}
"""Files that identify a library in a jar, including a library merged into another jar."""
_NAME_VERSION: Final = re.compile(r"-(\d[\w.+-]*)\.jar$")
_MANIFEST_VERSION: Final = re.compile(r"^Implementation-Version: *(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Copy:
    """A plugin class in one of the plugin directories or jars."""

    class_name: str
    plugin_path: str
    """Directory or jar of the plugin."""
    jar: str
    """Jar that contains the class; `plugin_path` if unknown."""
    version: str
    """Version; empty if unknown."""
    is_connector: bool


@dataclass(slots=True)
class Contents:
    """Content of all plugin directories and jars."""

    copies: list[Copy] = field(default_factory=list)
    libraries: dict[str, list[str]] = field(default_factory=dict)
    """Libraries that the worker itself provides, with their jars, by plugin path."""
    unreadable: list[str] = field(default_factory=list)
    """Damaged or unreadable jars, with reasons."""


def plugin_paths(entry: Path) -> Sequence[Path]:
    """Return the plugin directories and jars in an entry of `plugin.path`; empty if the entry cannot be read."""
    if _is_jar(entry):
        return [entry]
    try:
        return sorted(path for path in entry.iterdir() if path.is_dir() or _is_jar(path))
    except OSError:
        return []


def read_plugin_jars(paths: Iterable[Path]) -> Contents:
    """Read the manifests and file names of the plugins' jars."""
    contents = Contents()
    for plugin_path in paths:
        for jar in [plugin_path] if plugin_path.is_file() else sorted(plugin_path.rglob("*.jar")):
            try:
                with zipfile.ZipFile(jar) as archive:
                    _read_jar(contents, plugin_path, jar, archive)
            except (OSError, zipfile.BadZipFile) as exc:
                contents.unreadable.append(f"{jar} ({exc})")
    return contents


def _read_jar(contents: Contents, plugin_path: Path, jar: Path, archive: zipfile.ZipFile) -> None:
    names = {*archive.namelist()}
    version = _jar_version(jar, archive, names)
    for service in _PLUGIN_INTERFACES:
        if _SERVICES_FOLDER + service in names:
            text = archive.read(_SERVICES_FOLDER + service).decode("utf-8", "replace")
            contents.copies += (
                Copy(class_name, str(plugin_path), str(jar), version, service in _CONNECTOR_INTERFACES)
                for class_name in _parse_service_file(text)
            )
    libraries = dict.fromkeys(
        f"{library} ({jar.name})" for file, library in _LIBRARY_FILES.items() if file in names
    )
    if libraries:
        contents.libraries.setdefault(str(plugin_path), []).extend(libraries)


def _parse_service_file(text: str) -> Iterator[str]:
    """Yield the classes of a manifest. Source: java.util.ServiceLoader."""
    for line in text.splitlines():
        if name := line.partition("#")[0].strip():
            yield name


def _jar_version(jar: Path, archive: zipfile.ZipFile, names: Iterable[str]) -> str:
    manifest = "META-INF/MANIFEST.MF"
    text = archive.read(manifest).decode("utf-8", "replace") if manifest in names else ""
    match = _MANIFEST_VERSION.search(text) or _NAME_VERSION.search(jar.name)
    return match[1] if match else ""


def _is_jar(path: Path) -> bool:
    return path.suffix.lower() in (".jar", ".zip") and path.is_file()
