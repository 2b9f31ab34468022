"""Checks of the jars in `plugin.path`: classes that are there twice, and libraries that workers do not use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kraal.core.printable import first_of
from kraal.doctor.finding import Finding, Level, ok
from kraal.doctor.plugin_jars import Contents, Copy, places, read_places
from kraal.java_plugins.catalog import JavaPlugin

_SHOWN: Final = 3
_NOT_READ: Final = "Copy the jar again, and let the worker's user read it."


def check_jars(entries: Iterable[str], catalog: Iterable[JavaPlugin]) -> Iterator[Finding]:
    """Check the entries of `plugin.path`.

    `catalog`: what a worker has found in the same files before; empty if none has. It knows plugins without manifests,
    and versions as the plugins tell them.
    """
    contents = read_places([place for entry in entries for place in places(Path(entry))])
    for each in contents.unreadable:
        yield Finding("plugins.jars", Level.ERROR, f"A jar of a plugin cannot be read: {each}", _NOT_READ)
    copies = with_catalog(contents.copies, catalog)
    twice = [*duplicates(copies)]
    yield from twice
    if copies and not twice:
        classes = len({each.class_name for each in copies})
        yield ok("plugins.classes", f"Each of the {classes:,} plugins in plugin.path is there once")
    yield from libraries(contents)


def with_catalog(copies: Sequence[Copy], catalog: Iterable[JavaPlugin]) -> list[Copy]:
    """Return the copies with the versions of the catalog, and those that only the catalog knows."""
    found = {(each.class_name, each.jar): each for each in copies}
    for plugin in catalog:
        if plugin.is_service:
            continue
        place = "/" + plugin.location.removeprefix("file:").strip("/")
        known = [each for each in copies if (each.class_name, each.place) == (plugin.class_name, place)]
        jar = known[0].jar if len(known) == 1 else place
        if len(known) <= 1:
            copy = Copy(plugin.class_name, place, jar, plugin.version, plugin.is_connector)
            found[copy.class_name, copy.jar] = copy
    return sorted(found.values())


def duplicates(copies: Iterable[Copy]) -> Iterator[Finding]:
    """Yield a finding for each set of jars that have the same classes.

    Transforms and converters that several plugins bring in the same version are usual and harmless.
    """
    by_class: dict[str, list[Copy]] = defaultdict(list)
    for each in copies:
        by_class[each.class_name].append(each)
    sets: dict[tuple[Copy, ...], list[str]] = defaultdict(list)
    for name, found in by_class.items():
        differ = len({each.version for each in found}) > 1
        if len(found) > 1 and (differ or found[0].is_connector):
            sets[
                tuple(Copy("", each.place, each.jar, each.version, each.is_connector) for each in found)
            ].append(name)
    for where, classes in sets.items():
        yield _duplicate(where, classes)


def _duplicate(where: Sequence[Copy], classes: Sequence[str]) -> Finding:
    jars = ", ".join(f"{each.jar} ({each.version or 'unknown version'})" for each in where)
    what = f"{first_of(classes, _SHOWN)}: in {jars}"
    if len({each.place for each in where}) < len(where):
        fix = (
            "Remove all but one of the jars: they are one plugin, and which of them Java uses is accidental."
        )
        return Finding("plugins.classes", Level.WARNING, what, fix)
    if len({each.version for each in where}) == len(where):
        fix = (
            "Nothing, if the newest shall be used; configs choose with keys such as connector.plugin.version."
        )
        return Finding("plugins.classes", Level.HINT, what, fix)
    fix = "Remove all but one: which of them is used is accidental."
    return Finding("plugins.classes", Level.WARNING, what, fix)


def libraries(contents: Contents) -> Iterator[Finding]:
    """Yield a finding for each plugin that brings libraries of which workers always use their own."""
    for place, found in contents.libraries.items():
        what = f"{place} brings {', '.join(sorted({*found}))}, which workers do not use: they use their own"
        fix = "Nothing, if the plugin runs; a NoSuchMethodError means that it needs other versions than the worker has."
        yield Finding("plugins.libraries", Level.HINT, what, fix)
