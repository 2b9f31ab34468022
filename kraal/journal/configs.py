"""The history of configs: earlier versions of each connector's config.

Written by the herder's thread; read by any thread. The current version is in the herder's snapshot; only its time and
author are stored here. A version enters the ring when it is replaced, with the names of the changed keys, so that a
change of a secret is visible although both values are hidden. Secrets are hidden on output, because plugins declare
which keys are secret, and the herder's thread must not import plugins.
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
"""Memory of one key of a config, without its strings."""


@dataclass(frozen=True, slots=True)
class ConfigWrite:
    """Time (-1 if unknown) and author (empty if unknown) of a write of a config."""

    ms: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An earlier version of a config."""

    write: ConfigWrite
    config: Config = field(repr=False)
    """Config including secrets, which `to_json` hides."""
    changed: tuple[str, ...]
    """The sorted keys in which the next version differs; empty if the connector was deleted."""

    @property
    def size(self) -> int:
        """Memory size in bytes."""
        string_bytes = text_bytes(self.write.by, *self.config, *self.config.values())
        return ENTRY_BYTES + getsizeof(self.changed) + string_bytes + _ITEM_BYTES * len(self.config)

    def to_json(self, secret_keys: Collection[str]) -> dict[str, Json]:
        """Return the fields in REST order, with the secrets of the config hidden.

        `secret_keys`: keys that plugins declare as secret; other keys are secret if their names suggest it.
        """
        return {
            "ms": self.write.ms,
            "by": self.write.by,
            "config": {**hide(self.config, secret_keys)},
            "changed": [*self.changed],
        }


class Configs:
    """The versions of all configs, written by the herder's thread. Reads are thread-safe."""

    def __init__(self, connector_limit: int, total_limit: int) -> None:
        """Create an empty history. The limits are the maximum sizes in bytes of one connector's and of all versions."""
        self._rings: KeyedRings[ConnectorName, Version] = KeyedRings(
            connector_limit, total_limit, MAX_VERSIONS
        )
        self._current: dict[ConnectorName, ConfigWrite] = {}

    def read(self, name: ConnectorName) -> RingContent[Version]:
        """Return the earlier versions of a config, oldest first. Thread-safe."""
        return self._rings.read(name)

    def last_write(self, name: ConnectorName) -> ConfigWrite | None:
        """Return the time and author of the current version; None if no write is recorded. Thread-safe."""
        return self._current.get(name)

    def record_stored_config(self, name: ConnectorName, write: ConfigWrite) -> None:
        """Record the write of a config that was stored before the worker started."""
        self._current[name] = write

    def drop_stored_config(self, name: ConnectorName) -> None:
        """Drop the recorded write of a connector that was deleted before the worker started."""
        self._current.pop(name, None)

    def add(
        self, name: ConnectorName, before: Config | None, after: Config | None, write: ConfigWrite
    ) -> None:
        """Record a write, and the version that it replaces unless they are equal.

        `before` is None for a new connector, `after` is None for a deleted connector.
        """
        replaced_write = self._current.pop(name, None) or ConfigWrite(-1)
        if after is not None:
            self._current[name] = write
        if before is None:
            return
        keys = () if after is None else changed_keys(before, after)
        if after is not None and not keys:
            return
        version = Version(write=replaced_write, config=before, changed=keys)
        self._rings.append(name, lambda: (version, version.size))


def changed_keys(before: Config, after: Config) -> tuple[str, ...]:
    """Return the sorted keys that were added, removed or changed."""
    missing = object()
    keys = before.keys() | after.keys()
    return tuple(sorted(key for key in keys if before.get(key, missing) != after.get(key, missing)))
