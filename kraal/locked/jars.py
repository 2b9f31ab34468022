"""Finds the jars of Maven coordinates, with all that they need and Spark does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from kraal.embedded import ivy
from kraal.embedded.ivy import Coordinates
from kraal.embedded.jars import LOCK, parse_lock, sha256_of
from kraal.locked.lock import Locked, PluginsUnfit


def resolve_jars(added: Sequence[str], scratch: Path) -> tuple[list[tuple[Locked, Path]], list[str]]:
    """Fetch the jars of coordinates into a scratch directory; return each with where it lies, and what was left out.

    All are resolved at once, so that there is one version of each. What Spark brings is left to Spark: a second version
    of it would do harm. Raises JarsUnavailable, JavaMissing, and PluginsUnfit for what Spark has itself.
    """
    if not added:
        return [], []
    ours = spark_artifacts()
    for text in added:
        name = Coordinates.parse(text).name
        if name in ours:
            raise PluginsUnfit(f"{text} is not for plugins: Kraal's Spark has {name} itself.")
    (scratch / "ivy").mkdir()
    found = ivy.retrieve(
        map(Coordinates.parse, added), scratch / "ivy", transitive=True, progress=lambda *_: None
    )
    kept, left = [], []
    for path in found:
        org, artifact, revision = path.stem.split("__")
        name = f"{org}:{artifact}:{revision}"
        if artifact in ours:
            left.append(name)
        else:
            kept.append((Locked(name, path.name, sha256_of(path)), path))
    return kept, left


def spark_artifacts() -> frozenset[str]:
    """Return the names, without versions, of the jars that the worker's Spark has."""
    spec = find_spec("pyspark")  # finds it without importing it
    places = (spec.submodule_search_locations or []) if spec else []
    files = (jar.stem for place in places for jar in (Path(place) / "jars").glob("*.jar"))
    connector = (jar.coordinates.name for jar in parse_lock(LOCK.read_text("utf-8"))["spark"])
    return frozenset([*artifacts(files), *connector])


def artifacts(stems: Iterable[str]) -> Iterator[str]:
    """Cut the versions off: `log4j-1.2-api-2.24.3` may be `log4j-1.2-api`, or `log4j`."""
    for stem in stems:
        for version in re.finditer(r"-v?\d", stem):
            yield stem[: version.start()]
