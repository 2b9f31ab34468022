"""Offsets of Java sources on a standalone worker: the process asks, the worker's offset file answers.

The file has one writer, the Python worker. Source: `StandaloneOffsets.java`, OffsetBackingStore (Kafka 4.4.0).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from kraal.core.errors import KraalError, ProtocolError
from kraal.java_plugins.jvm import PluginsAway
from kraal.protocol.offsets import decode_key, decode_value, encode_value

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.java_plugins.host import PluginHost
    from kraal.stores.api import OffsetStore

log = logging.getLogger(__name__)

RUN: Final = -1
"""The number of the run that requests for offsets are reported for."""

Pairs = Sequence[tuple[str, str | None]]
"""Texts of keys and values, as in the offset store."""


class StandaloneOffsets:
    """Answers requests for offsets in their order, on a thread of its own. Implements the host's `Listener`."""

    def __init__(self, host: PluginHost, store: OffsetStore) -> None:
        """`store`: the worker's; it is used until the host is closed."""
        self._host, self._store = host, store
        self._thread = ThreadPoolExecutor(1, "kraal-java-offsets")
        host.follow(RUN, self)

    def on_up(self) -> None:
        """Do nothing: requests do not depend on this event."""

    def on_down(self, why: str) -> None:
        """No-op: pending requests died with the JVM, and submitted writes still complete."""

    def tick(self) -> None:
        """Do nothing."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Answer a request."""
        detail = event["detail"]
        self._thread.submit(self._answer, detail["request"], event["what"], detail["texts"])

    def _answer(self, request: int, what: str, texts: Sequence[Any]) -> None:
        pairs: Pairs = ()
        error: str | None = None
        try:
            if what == "load":
                pairs = self._load(texts)
            else:
                self._store.store(parse_changes(texts))
        except KraalError as exc:
            log.warning("Failed to %s offsets of Java connectors: %s", what, exc)
            error = str(exc)
        except Exception as exc:  # whoever waits in Java has no time limit
            log.exception("Failed to %s offsets of Java connectors", what)
            error = f"{type(exc).__name__}: {exc}"
        try:
            self._host.ask("answerOffsets", request, json.dumps(pairs), error)
        except PluginsAway as exc:
            log.debug("The JVM of Java plugins ended before it got its offsets: %s", exc)

    def _load(self, keys: Sequence[str]) -> Pairs:
        loaded: dict[ConnectorName, Mapping[SourcePartition, Offset]] = {}
        pairs = []
        for key in keys:
            value: bytes | None = None
            parsed = _parse_key(key)
            if parsed is not None:
                connector, partition = parsed
                if connector not in loaded:
                    loaded[connector] = self._store.load(connector)
                value = encode_value(loaded[connector].get(partition))
            pairs.append((key, None if value is None else value.decode()))
        return pairs


def parse_changes(pairs: Pairs) -> Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]:
    """Return the changes of an offset store in pairs of texts. Raises ProtocolError for offsets that cannot be stored.

    Keys without a partition are skipped: a source may send records that have none, but reads no offsets for them.
    """
    changes: dict[ConnectorName, dict[SourcePartition, Offset | None]] = {}
    for key, value in pairs:
        parsed = _parse_key(key)
        if parsed is not None:
            connector, partition = parsed
            offset = decode_value(None if value is None else value.encode())
            changes.setdefault(connector, {})[partition] = offset
    return changes


def _parse_key(key: str) -> tuple[ConnectorName, SourcePartition] | None:
    """Return the connector and partition of a key; None if it has no partition."""
    try:
        return decode_key(key.encode())
    except ProtocolError as exc:
        log.debug("An offset without a partition is not stored: %s", exc)
        return None
