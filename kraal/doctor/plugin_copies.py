"""Checks of the jars in `plugin.path`: duplicate classes, and libraries that workers do not use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kraal.core.printable import join_first
from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.plugin_jars import Contents, Copy, places, read_places
from kraal.java_plugins.catalog import JavaPlugin

_MAX_SHOWN: Final = 3
_NOT_READ: Final = "Copy the jar again, and let the worker's user read it."


def check_jars(entries: Iterable[str], catalog: Iterable[JavaPlugin]) -> Iterator[Finding]:
    """Check the entries of `plugin.path`.

    `catalog`: result of a worker's earlier scan of the same files; empty without one. It includes plugins without
    manifests, and the versions that plugins report.
    """
    contents = read_places([place for entry in entries for place in places(Path(entry))])
    for each in contents.unreadable:
        yield Finding("plugins.jars", Level.ERROR, f"A jar of a plugin cannot be read: {each}", _NOT_READ)
    copies = with_catalog(contents.copies, catalog)
    duplicate_findings = [*duplicates(copies)]
    yield from duplicate_findings
    if copies and not duplicate_findings:
        classes = len({each.class_name for each in copies})
        yield passed("plugins.classes", f"Each of the {classes:,} plugins in plugin.path is there once")
    yield from libraries(contents)


def with_catalog(copies: Sequence[Copy], catalog: Iterable[JavaPlugin]) -> list[Copy]:
    """Return the copies with the versions of the catalog, and copies that only the catalog contains."""
    merged = {(each.class_name, each.jar): each for each in copies}
    for plugin in catalog:
        if plugin.is_service:
            continue
        place = "/" + plugin.location.removeprefix("file:").strip("/")
        matches = [each for each in copies if (each.class_name, each.place) == (plugin.class_name, place)]
        jar = matches[0].jar if len(matches) == 1 else place
        if len(matches) <= 1:
            copy = Copy(plugin.class_name, place, jar, plugin.version, plugin.is_connector)
            merged[copy.class_name, copy.jar] = copy
    return sorted(merged.values())


def duplicates(copies: Iterable[Copy]) -> Iterator[Finding]:
    """Yield a finding for each set of jars with the same classes.

    Several plugins often contain the same version of a transform or converter, which is harmless.
    """
    by_class: dict[str, list[Copy]] = defaultdict(list)
    for each in copies:
        by_class[each.class_name].append(each)
    sets: dict[tuple[Copy, ...], list[str]] = defaultdict(list)
    for name, same_class in by_class.items():
        differ = len({each.version for each in same_class}) > 1
        if len(same_class) > 1 and (differ or same_class[0].is_connector):
            sets[
                tuple(Copy("", each.place, each.jar, each.version, each.is_connector) for each in same_class)
            ].append(name)
    for jars, classes in sets.items():
        yield _duplicate(jars, classes)


def _duplicate(copies: Sequence[Copy], classes: Sequence[str]) -> Finding:
    jars = ", ".join(f"{each.jar} ({each.version or 'unknown version'})" for each in copies)
    what = f"{join_first(classes, _MAX_SHOWN)}: in {jars}"
    if len({each.place for each in copies}) < len(copies):
        fix = (
            "Remove all but one of the jars: they are one plugin, and which of them Java uses is accidental."
        )
        return Finding("plugins.classes", Level.WARNING, what, fix)
    if len({each.version for each in copies}) == len(copies):
        fix = (
            "Nothing, if the newest shall be used; configs choose with keys such as connector.plugin.version."
        )
        return Finding("plugins.classes", Level.HINT, what, fix)
    fix = "Remove all but one: which of them is used is accidental."
    return Finding("plugins.classes", Level.WARNING, what, fix)


def libraries(contents: Contents) -> Iterator[Finding]:
    """Yield a finding for each plugin with libraries that workers replace with their own."""
    for place, names in contents.libraries.items():
        what = f"{place} brings {', '.join(sorted({*names}))}, which workers do not use: they use their own"
        fix = "Nothing, if the plugin runs; a NoSuchMethodError means that it needs other versions than the worker has."
        yield Finding("plugins.libraries", Level.HINT, what, fix)
