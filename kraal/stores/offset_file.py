"""Source offsets in Connect's standalone file (`offset.storage.file.filename`), which Java also reads and writes.

The file is read once and replaced by every `store` that changes it. A power failure may restore the previous file; the
last batches are then delivered again.

Entries that this worker cannot decode, such as those of another program, are preserved. Two differences from Java are
intentional (docs/compat.md): the file is replaced atomically, so that a killed process never leaves a partial file; and
a damaged file is an error, whereas Java silently starts without offsets if the file is truncated. As in Java, an empty
file is treated as missing.
Source: FileOffsetBackingStore (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from kraal.core.errors import ProtocolError, StoreError
from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, SourcePartition
from kraal.core.private_files import make_directory
from kraal.protocol.offsets import decode_key, decode_value, encode_key, encode_value
from kraal.stores.atomic_files import replace_file
from kraal.stores.java_serial import Pair, dump, load

log = logging.getLogger(__name__)

_Values = dict[bytes | None, bytes | None]
_Keys = dict[ConnectorName, dict[SourcePartition, list[bytes]]]


class OffsetFile:
    """The offset store of a standalone worker. Thread-safe, but only one process may use the file."""

    def __init__(self, path: Path) -> None:
        """Read the file, which may be missing. Raises StoreError; does not change a damaged file."""
        self._path = path
        self._lock = threading.Lock()
        self._values: _Values = dict(self._read())
        self._keys: _Keys = {}
        """The keys of each partition; Java may have stored a partition with different orders of its fields."""
        for key in self._values:
            self._index_key(key)

    def load(self, connector: ConnectorName) -> Mapping[SourcePartition, Offset]:
        """Return all stored offsets of `connector`. Raises StoreError if one is invalid."""
        with self._lock:
            offsets: dict[SourcePartition, Offset] = {}
            for partition, keys in self._keys.get(connector, {}).items():
                offset = self._decode_newest(keys)
                if offset is not None:
                    offsets[partition] = offset
            return offsets

    def store(self, changes: Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]) -> None:
        """Replace the file if `changes` alter its content; None deletes an offset. Raises StoreError."""
        with self._lock:
            values, new_keys = dict(self._values), list[bytes]()
            for connector, partitions in changes.items():
                for partition, offset in partitions.items():
                    keys = self._keys.get(connector, {}).get(partition)
                    if keys is None:
                        keys = [encode_key(connector, partition)]
                        new_keys += keys
                    for key in keys:
                        _set_or_delete(values, key, encode_value(offset))
            if values != self._values:
                self._write(values)
            self._values = values
            for key in new_keys:
                self._index_key(key)

    def close(self) -> None:
        """No-op, because `store` has written all offsets."""

    def _decode_newest(self, keys: list[bytes]) -> Offset | None:
        for key in reversed(keys):
            try:
                offset = decode_value(self._values.get(key))
            except ProtocolError as exc:
                raise StoreError(
                    f"the offset file {self._path} contains an invalid offset for the key {key!r}: {exc}"
                ) from exc
            if offset is not None:
                return offset
        return None

    def _index_key(self, key: bytes | None) -> None:
        try:
            connector, partition = decode_key(key)
        except ProtocolError as exc:
            log.warning("Preserving an unknown key in the offset file %s: %s", self._path, exc)
            return
        keys = self._keys.setdefault(connector, {}).setdefault(partition, [])
        if key is not None and key not in keys:
            keys.append(key)

    def _read(self) -> list[Pair]:
        try:
            data = self._path.read_bytes()
            return load(data) if data else []
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise StoreError(f"cannot read the offset file {self._path}: {exc}") from exc
        except ProtocolError as exc:
            raise StoreError(
                f"the offset file {self._path} is damaged: {exc}. Restore it, or move it away to read all sources "
                "from their beginning"
            ) from exc

    def _write(self, values: _Values) -> None:
        try:
            make_directory(self._path.parent)
            replace_file(self._path, dump(list(values.items())), durable=False)
        except OSError as exc:
            raise StoreError(f"cannot write the offset file {self._path}: {exc}") from exc


def _set_or_delete(values: _Values, key: bytes, value: bytes | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
