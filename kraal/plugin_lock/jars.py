"""Resolves Maven coordinates to jars, except those that Spark provides."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kraal.core.progress import Progress
from kraal.jars import ivy
from kraal.jars.directories import pyspark_jars
from kraal.jars.errors import JarsUnavailable
from kraal.jars.ivy import Coordinates
from kraal.jars.jars import LOCK, compute_sha256, parse_lock
from kraal.plugin_lock.lock import LockedPlugin, PluginLockError

_CONNECTOR_MANIFESTS: Final = frozenset(
    f"META-INF/services/org.apache.kafka.connect.{kind}"
    for kind in ("source.SourceConnector", "sink.SinkConnector")
)


def resolve_jars(added: Sequence[str], scratch: Path) -> tuple[list[tuple[LockedPlugin, Path]], list[str]]:
    """Download the jars of coordinates and their dependencies. Return the jars with their paths, and the skipped jars.

    All coordinates are resolved together, so that each module has one version. Jars that Spark provides are skipped,
    because a second version would conflict. Raises JarsUnavailable, JavaMissing, and PluginLockError for coordinates
    that Spark provides.
    """
    if not added:
        return [], []
    spark_names = spark_artifacts()
    for text in added:
        name = Coordinates.parse(text).name
        if name in spark_names:
            raise PluginLockError(f"Cannot add {text} as a plugin because Spark already provides {name}.")
    (scratch / "ivy").mkdir()
    try:
        with Progress("Downloading jars") as progress:
            downloaded_paths = ivy.retrieve(
                map(Coordinates.parse, added),
                scratch / "ivy",
                transitive=True,
                progress=lambda resolved_count, downloaded_count: progress.set_done(
                    downloaded_count, f"{resolved_count} resolved, {downloaded_count} downloaded"
                ),
            )
    except JarsUnavailable as exc:
        hint = " ".join(filter(None, (_suggest_archive(added, exc.missing), exc.hint)))
        raise JarsUnavailable(*exc.args, hint=hint, missing=exc.missing) from exc
    locked_jars, provided_names = [], []
    for path in downloaded_paths:
        org, artifact, revision = path.stem.split("__")
        name = f"{org}:{artifact}:{revision}"
        if artifact in spark_names:
            provided_names.append(name)
        else:
            locked_jars.append((LockedPlugin(name, path.name, compute_sha256(path)), path))
    return locked_jars, provided_names


def _suggest_archive(added: Sequence[str], missing_modules: Sequence[str]) -> str:
    """Return a hint if only dependencies are missing, because a connector's archive would contain them."""
    coordinates = [Coordinates.parse(text) for text in added]
    if not missing_modules or {str(module) for module in coordinates} & {*missing_modules}:
        return ""
    last_coordinates = str(coordinates[-1])
    return (
        f"If {last_coordinates} is a connector of Kafka Connect, add its archive, which contains its dependencies: "
        f"{name_archive(last_coordinates)}."
    )


def name_archive(coordinates: str) -> str:
    """Describe the archive of a connector, given the coordinates of its jar."""
    archive = replace(Coordinates.parse(coordinates), extension="tar.gz", classifier="plugin")
    return f"{archive} (`zip` if it was published as one), or a downloaded FILE.zip"


def has_connectors(jar: Path) -> bool:
    """Return whether a jar contains ServiceLoader manifests of connectors."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return not _CONNECTOR_MANIFESTS.isdisjoint(archive.namelist())
    except zipfile.BadZipFile:
        return False


def spark_artifacts() -> frozenset[str]:
    """Return the names, without versions, of the jars that Spark provides."""
    stems = (jar.stem for jar in pyspark_jars("*.jar"))
    locked_names = (jar.coordinates.name for jar in parse_lock(LOCK.read_text("utf-8"))["spark"])
    return frozenset([*guess_artifacts(stems), *locked_names])


def guess_artifacts(stems: Iterable[str]) -> Iterator[str]:
    """Yield the possible artifact names of jars: `log4j-1.2-api-2.24.3` may be `log4j-1.2-api` or `log4j`."""
    for stem in stems:
        for version in re.finditer(r"-v?\d", stem):
            yield stem[: version.start()]
