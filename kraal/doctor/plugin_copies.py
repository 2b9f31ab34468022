"""Checks of the jars in `plugin.path`: duplicate classes, and libraries that workers do not use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kraal.core.printable import join_first
from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.plugin_jars import Contents, Copy, plugin_paths, read_plugin_jars
from kraal.java_plugins.catalog import JavaPlugin

_MAX_SHOWN: Final = 3
_UNREADABLE_FIX: Final = "Copy the jar again, and let the worker's user read it."


def check_jars(entries: Iterable[str], catalog: Iterable[JavaPlugin]) -> Iterator[Finding]:
    """Check the entries of `plugin.path`.

    `catalog` is the result of a worker's earlier scan of the same files, if any. It includes plugins without manifests,
    and the versions reported by the plugins.
    """
    contents = read_plugin_jars(
        [plugin_path for entry in entries for plugin_path in plugin_paths(Path(entry))]
    )
    for jar in contents.unreadable:
        yield Finding(
            "plugins.jars", Level.ERROR, f"A jar of a plugin cannot be read: {jar}", _UNREADABLE_FIX
        )
    copies = merge_catalog(contents.copies, catalog)
    duplicate_findings = [*find_duplicates(copies)]
    yield from duplicate_findings
    if copies and not duplicate_findings:
        class_count = len({copy.class_name for copy in copies})
        yield passed("plugins.classes", f"Each of the {class_count:,} plugins in plugin.path occurs once")
    yield from find_libraries(contents)


def merge_catalog(copies: Sequence[Copy], catalog: Iterable[JavaPlugin]) -> list[Copy]:
    """Return the copies with the versions from the catalog, and copies found only in the catalog."""
    copies_by_key = {(known_copy.class_name, known_copy.jar): known_copy for known_copy in copies}
    for plugin in catalog:
        if plugin.is_service:
            continue
        plugin_path = "/" + plugin.location.removeprefix("file:").strip("/")
        matches = [
            known_copy
            for known_copy in copies
            if (known_copy.class_name, known_copy.plugin_path) == (plugin.class_name, plugin_path)
        ]
        jar = matches[0].jar if len(matches) == 1 else plugin_path
        if len(matches) <= 1:
            copy = Copy(plugin.class_name, plugin_path, jar, plugin.version, plugin.is_connector)
            copies_by_key[copy.class_name, copy.jar] = copy
    return sorted(copies_by_key.values())


def find_duplicates(copies: Iterable[Copy]) -> Iterator[Finding]:
    """Yield a finding for each set of jars that contain the same plugin classes.

    Several plugins often contain the same version of a transform or converter, which is harmless.
    """
    copies_by_class: dict[str, list[Copy]] = defaultdict(list)
    for copy in copies:
        copies_by_class[copy.class_name].append(copy)
    classes_by_copies: dict[tuple[Copy, ...], list[str]] = defaultdict(list)
    for name, class_copies in copies_by_class.items():
        versions_differ = len({copy.version for copy in class_copies}) > 1
        if len(class_copies) > 1 and (versions_differ or class_copies[0].is_connector):
            classes_by_copies[
                tuple(
                    Copy("", copy.plugin_path, copy.jar, copy.version, copy.is_connector)
                    for copy in class_copies
                )
            ].append(name)
    for jars, classes in classes_by_copies.items():
        yield _duplicate_finding(jars, classes)


def _duplicate_finding(copies: Sequence[Copy], classes: Sequence[str]) -> Finding:
    jars = ", ".join(f"{copy.jar} ({copy.version or 'unknown version'})" for copy in copies)
    what = f"{join_first(classes, _MAX_SHOWN)}: in {jars}"
    if len({copy.plugin_path for copy in copies}) < len(copies):
        fix = "Remove all but one of the jars; they belong to one plugin, and it is undefined which one Java loads."
        return Finding("plugins.classes", Level.WARNING, what, fix)
    if len({copy.version for copy in copies}) == len(copies):
        fix = (
            "No action is required if the newest version is intended; configs select versions with keys like "
            "connector.plugin.version."
        )
        return Finding("plugins.classes", Level.HINT, what, fix)
    fix = "Remove all but one; it is undefined which one is used."
    return Finding("plugins.classes", Level.WARNING, what, fix)


def find_libraries(contents: Contents) -> Iterator[Finding]:
    """Yield a finding for each plugin with libraries that workers provide themselves."""
    for plugin_path, names in contents.libraries.items():
        what = f"{plugin_path} contains {', '.join(sorted({*names}))}, which workers replace with their own"
        fix = "No action is required if the plugin works; a NoSuchMethodError means that it requires other versions."
        yield Finding("plugins.libraries", Level.HINT, what, fix)
