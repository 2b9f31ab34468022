"""Offset storage of Java sources on a standalone worker: the JVM sends requests, which the worker handles.

Only the worker writes its offset file. Source: `StandaloneOffsets.java`, OffsetBackingStore (Kafka 4.4.0).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from kraal.core.errors import KraalError, ProtocolError
from kraal.java_plugins.jvm import PluginsUnavailable
from kraal.protocol.offsets import decode_key, decode_value, encode_value

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.java_plugins.host import PluginHost
    from kraal.stores.api import OffsetStore

log = logging.getLogger(__name__)

REQUEST_RUN: Final = -1
"""The run number in events that contain offset requests."""

Pairs = Sequence[tuple[str, str | None]]
"""Keys and values as text, serialized as in the offset store."""


class StandaloneOffsets:
    """A handler that executes offset requests in order on a separate thread. Implements the host's `Listener`."""

    def __init__(self, host: PluginHost, store: OffsetStore) -> None:
        """Handle the requests of `host` with the worker's offset store, which is used until the host is closed."""
        self._host, self._store = host, store
        self._executor = ThreadPoolExecutor(1, "kraal-java-offsets")
        host.add_listener(REQUEST_RUN, self)

    def on_up(self) -> None:
        """No-op: requests do not depend on this event."""

    def on_down(self, why: str) -> None:
        """No-op: pending requests died with the JVM, and submitted writes still complete."""

    def tick(self) -> None:
        """No-op."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Handle a request."""
        detail = event["detail"]
        self._executor.submit(self._handle, detail["request"], event["what"], detail["texts"])

    def _handle(self, request: int, operation: str, texts: Sequence[Any]) -> None:
        pairs: Pairs = ()
        error: str | None = None
        try:
            if operation == "load":
                pairs = self._load(texts)
            else:
                self._store.store(parse_changes(texts))
        except KraalError as exc:
            log.warning("Failed to %s offsets of Java connectors: %s", operation, exc)
            error = str(exc)
        except Exception as exc:  # always respond: the thread that waits in Java has no timeout
            log.exception("Failed to %s offsets of Java connectors", operation)
            error = f"{type(exc).__name__}: {exc}"
        try:
            self._host.ask("answerOffsets", request, json.dumps(pairs), error)
        except PluginsUnavailable as exc:
            log.debug("The JVM of Java plugins exited before it received the offsets: %s", exc)

    def _load(self, keys: Sequence[str]) -> Pairs:
        offsets: dict[ConnectorName, Mapping[SourcePartition, Offset]] = {}
        pairs = []
        for key in keys:
            value: bytes | None = None
            parsed_key = _parse_key(key)
            if parsed_key is not None:
                connector, partition = parsed_key
                if connector not in offsets:
                    offsets[connector] = self._store.load(connector)
                value = encode_value(offsets[connector].get(partition))
            pairs.append((key, None if value is None else value.decode()))
        return pairs


def parse_changes(pairs: Pairs) -> Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]:
    """Parse changes of an offset store. Raises ProtocolError for offsets that cannot be stored.

    Keys without a partition are skipped: a source may send records without a partition, but never reads their offsets.
    """
    changes: dict[ConnectorName, dict[SourcePartition, Offset | None]] = {}
    for key, value in pairs:
        parsed_key = _parse_key(key)
        if parsed_key is not None:
            connector, partition = parsed_key
            offset = decode_value(None if value is None else value.encode())
            changes.setdefault(connector, {})[partition] = offset
    return changes


def _parse_key(key: str) -> tuple[ConnectorName, SourcePartition] | None:
    """Return the connector and partition of a key; None if the key has no partition."""
    try:
        return decode_key(key.encode())
    except ProtocolError as exc:
        log.debug("Skipping an offset without a partition: %s", exc)
        return None
