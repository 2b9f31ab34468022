"""The history of configs: earlier versions of each connector's config, as they were written.

Written by the herder's thread; read by any. The current version is in the herder's snapshot: here are only its time and
its author. An earlier version enters the ring when another one replaces it, with the names of the keys that differ, so
that a changed secret is seen although both values are hidden. Secrets are hidden when a version is shown, because which
values are secrets is declared by plugins, which the herder's thread must not import.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Final

from kraal.config.hidden import hide
from kraal.core.ids import Config, ConnectorName, Json
from kraal.journal.ring import ENTRY_BYTES, KeyedRings, RingContent, text_bytes

MAX_VERSIONS: Final = 10
"""Maximum number of earlier versions of one config."""
_ITEM_BYTES: Final = 100
"""Memory of one key of a config, without its texts."""


@dataclass(frozen=True, slots=True)
class Written:
    """When and by whom a config was written; an empty `by`: unknown."""

    ms: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An earlier version of a config."""

    written: Written
    config: Config = field(repr=False)
    """With its secrets: `to_json` hides them."""
    changed: tuple[str, ...]
    """The sorted keys in which the next version differs; empty: the connector was deleted."""

    @property
    def size(self) -> int:
        """Memory size in bytes."""
        texts = text_bytes(self.written.by, *self.config, *self.config.values())
        return ENTRY_BYTES + getsizeof(self.changed) + texts + _ITEM_BYTES * len(self.config)

    def to_json(self, declared: Collection[str]) -> dict[str, Json]:
        """Return its fields in the order in which REST shows them, with the secrets of its config hidden.

        `declared`: the keys whose values are secrets whatever their names are.
        """
        return {
            "ms": self.written.ms,
            "by": self.written.by,
            "config": {**hide(self.config, declared)},
            "changed": [*self.changed],
        }


class Configs:
    """The versions of all configs. The herder's thread writes, any thread reads."""

    def __init__(self, each: int, total: int) -> None:
        """`each`, `total`: maximum size of a connector's versions and of all, in bytes."""
        self._rings: KeyedRings[ConnectorName, Version] = KeyedRings(each, total, MAX_VERSIONS)
        self._current: dict[ConnectorName, Written] = {}

    def read(self, name: ConnectorName) -> RingContent[Version]:
        """Return the earlier versions of a config, oldest first. Any thread."""
        return self._rings.read(name)

    def last_write(self, name: ConnectorName) -> Written | None:
        """Return when and by whom the current version was written. Any thread."""
        return self._current.get(name)

    def found(self, name: ConnectorName, written: Written) -> None:
        """Note a version that was stored before the worker started; the last one counts."""
        self._current[name] = written

    def drop_lost(self, name: ConnectorName) -> None:
        """Drop such a version: the connector was deleted before the worker started."""
        self._current.pop(name, None)

    def add(self, name: ConnectorName, before: Config | None, after: Config | None, written: Written) -> None:
        """Record that one version replaced another; None: there was none, or the connector was deleted."""
        replaced = self._current.pop(name, None) or Written(-1)
        if after is not None:
            self._current[name] = written
        if before is None:
            return
        changed = () if after is None else changed_keys(before, after)
        if after is not None and not changed:
            return
        version = Version(written=replaced, config=before, changed=changed)
        self._rings.append(name, lambda: (version, version.size))


def changed_keys(before: Config, after: Config) -> tuple[str, ...]:
    """Return the sorted keys that were added, removed, or have another value."""
    missing = object()
    keys = before.keys() | after.keys()
    return tuple(sorted(key for key in keys if before.get(key, missing) != after.get(key, missing)))
