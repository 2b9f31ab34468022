"""What the jars of the plugins in `plugin.path` contain, read without Java: names of plugins, versions, libraries.

Each entry of `plugin.path` is a jar, or a directory whose subdirectories and jars are one plugin each. Names of plugins
are those in manifests; older jars without manifests are known only where a worker has scanned the same files before.
Source: PluginUtils.pluginLocations, ServiceLoaderScanner (Kafka 4.3.0).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_CONNECTORS: Final = (
    "org.apache.kafka.connect.source.SourceConnector",
    "org.apache.kafka.connect.sink.SinkConnector",
)
_SERVICES: Final = "META-INF/services/"
_PLUGINS: Final = (
    *_CONNECTORS,
    "org.apache.kafka.connect.storage.Converter",
    "org.apache.kafka.connect.storage.HeaderConverter",
    "org.apache.kafka.connect.transforms.Transformation",
    "org.apache.kafka.connect.transforms.predicates.Predicate",
)
_MARKS: Final = {
    "org/apache/kafka/connect/connector/Connector.class": "Connect's API",
    "org/apache/kafka/clients/producer/KafkaProducer.class": "Kafka's client",
    "org/slf4j/LoggerFactory.class": "SLF4J",
    "org/slf4j/impl/StaticLoggerBinder.class": "a binding of SLF4J",
    "META-INF/services/org.slf4j.spi.SLF4JServiceProvider": "a binding of SLF4J",
}
"""Files that tell which library a jar contains, also one that was merged into another jar."""
_IN_NAME: Final = re.compile(r"-(\d[\w.+-]*)\.jar$")
_IN_MANIFEST: Final = re.compile(r"^Implementation-Version: *(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Copy:
    """A plugin's class in one place."""

    class_name: str
    place: str
    """The directory or jar that is the plugin."""
    jar: str
    """The jar in it; the place itself if that is not known."""
    version: str
    """Empty if it is not known."""
    is_connector: bool


@dataclass(slots=True)
class Contents:
    """What was found in all places."""

    copies: list[Copy] = field(default_factory=list)
    libraries: dict[str, list[str]] = field(default_factory=dict)
    """By place: libraries that the worker brings itself, each with its jar."""
    unreadable: list[str] = field(default_factory=list)
    """Jars that are damaged or may not be read, each with the reason."""


def places(entry: Path) -> Sequence[Path]:
    """Return the plugins of an entry of `plugin.path`; none if it cannot be read."""
    if _is_jar(entry):
        return [entry]
    try:
        return sorted(each for each in entry.iterdir() if each.is_dir() or _is_jar(each))
    except OSError:
        return []


def read_places(found: Iterable[Path]) -> Contents:
    """Read the manifests and the names of all files of the plugins' jars."""
    contents = Contents()
    for place in found:
        for jar in [place] if place.is_file() else sorted(place.rglob("*.jar")):
            try:
                with zipfile.ZipFile(jar) as opened:
                    _read(contents, place, jar, opened)
            except (OSError, zipfile.BadZipFile) as exc:
                contents.unreadable.append(f"{jar} ({exc})")
    return contents


def _read(contents: Contents, place: Path, jar: Path, opened: zipfile.ZipFile) -> None:
    names = {*opened.namelist()}
    version = _version(jar, opened, names)
    for service in _PLUGINS:
        if _SERVICES + service in names:
            text = opened.read(_SERVICES + service).decode("utf-8", "replace")
            contents.copies += (
                Copy(each, str(place), str(jar), version, service in _CONNECTORS) for each in _listed(text)
            )
    libraries = dict.fromkeys(f"{what} ({jar.name})" for mark, what in _MARKS.items() if mark in names)
    if libraries:
        contents.libraries.setdefault(str(place), []).extend(libraries)


def _listed(text: str) -> Iterator[str]:
    """Yield the classes of a manifest. Source: java.util.ServiceLoader."""
    for line in text.splitlines():
        if name := line.partition("#")[0].strip():
            yield name


def _version(jar: Path, opened: zipfile.ZipFile, names: Iterable[str]) -> str:
    manifest = "META-INF/MANIFEST.MF"
    text = opened.read(manifest).decode("utf-8", "replace") if manifest in names else ""
    found = _IN_MANIFEST.search(text) or _IN_NAME.search(jar.name)
    return found[1] if found else ""


def _is_jar(path: Path) -> bool:
    return path.suffix.lower() in (".jar", ".zip") and path.is_file()
