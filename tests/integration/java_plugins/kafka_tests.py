"""Plugins that are built from the connectors of Kafka's own tests and from Kafka's verifiable connectors.

The connectors are in `org.apache.kafka.connect`. Connect does not isolate test classes in this package, but loads them
from the class path. Therefore they are moved to another package, as build tools do to shade a library. Their code is
unchanged.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

PACKAGE: Final = "kafka.tests"
BLOCKING_PREFIX: Final = f"{PACKAGE}.BlockingConnectorTest$"
MONITORABLE_SOURCE: Final = f"{PACKAGE}.MonitorableSourceConnector"
MONITORABLE_SINK: Final = f"{PACKAGE}.MonitorableSinkConnector"
ERRANT_SINK: Final = f"{PACKAGE}.ErrantRecordSinkConnector"
NAUGHTY_SOURCE: Final = f"{PACKAGE}.ExactlyOnceSourceIntegrationTest$NaughtyConnector"
EMPTY_CONFIGS_SINK: Final = f"{PACKAGE}.ConnectWorkerIntegrationTest$EmptyTaskConfigsConnector"
FAULTY_TRANSFORM: Final = f"{PACKAGE}.ErrorHandlingIntegrationTest$FaultyPassthrough"

VERIFIABLE_SOURCE: Final = f"{PACKAGE}.tools.VerifiableSourceConnector"
VERIFIABLE_SINK: Final = f"{PACKAGE}.tools.VerifiableSinkConnector"

_OLD_PATH: Final = "org/apache/kafka/connect/integration/"
_MOVES: Final = {
    _OLD_PATH.encode(): f"{PACKAGE.replace('.', '/')}/".encode(),
    b"org/apache/kafka/connect/tools/": f"{PACKAGE.replace('.', '/')}/tools/".encode(),
    b"org/apache/kafka/tools/Throughput": f"{PACKAGE.replace('.', '/')}/tools/Throughput".encode(),
    b"org/apache/kafka/connect/runtime/Sample": f"{PACKAGE.replace('.', '/')}/Sample".encode(),
}
_SOURCES: Final = [
    MONITORABLE_SOURCE,
    NAUGHTY_SOURCE,
    *(f"{BLOCKING_PREFIX}{kind}BlockingConnector" for kind in ("", "Initialize", "Validate")),
    f"{BLOCKING_PREFIX}BlockingSourceConnector",
    f"{BLOCKING_PREFIX}TaskInitializeBlockingSourceConnector",
]
_SINKS: Final = [
    MONITORABLE_SINK,
    ERRANT_SINK,
    EMPTY_CONFIGS_SINK,
    f"{BLOCKING_PREFIX}BlockingSinkConnector",
    f"{BLOCKING_PREFIX}TaskInitializeBlockingSinkConnector",
]
TOOLS: Final = {"source.SourceConnector": [VERIFIABLE_SOURCE], "sink.SinkConnector": [VERIFIABLE_SINK]}
"""The connectors of `connect-tools`."""
MANIFESTS: Final = {
    "source.SourceConnector": _SOURCES,
    "sink.SinkConnector": _SINKS,
    "transforms.Transformation": [FAULTY_TRANSFORM],
}
_UTF8_TAG: Final = 1
_TWO_SLOT_TAGS: Final = (5, 6)
_SIZES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
"""Maps the tag of a constant to the number of bytes after the tag. Source: Java Virtual Machine Specification, 4.4."""


def move_connectors(jar: Path, target: Path, plugins: Mapping[str, Sequence[str]] = MANIFESTS) -> None:
    """Copy connectors from one jar to another, with manifests for `plugins`."""
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(target, "w") as output:
        for name in source.namelist():
            new_name = _rename_text(name.encode())
            if name.endswith(".class") and new_name != name.encode():
                output.writestr(new_name.decode(), _rename_class(source.read(name)))
        for interface, names in plugins.items():
            output.writestr(f"META-INF/services/org.apache.kafka.connect.{interface}", "\n".join(names))


def _rename_text(text: bytes) -> bytes:
    for old, new in _MOVES.items():
        text = text.replace(old, new)
    return text


def _rename_class(data: bytes) -> bytes:
    (count,) = struct.unpack_from(">H", data, 8)
    *constants, end = _constants(data, count)
    pool = b"".join(
        constant
        if constant[0] != _UTF8_TAG
        else b"\1" + struct.pack(">H", len(text := _rename_text(constant[3:]))) + text
        for constant in constants
    )
    return data[:10] + pool + end


def _constants(data: bytes, count: int) -> Iterator[bytes]:
    """Yield the bytes of each constant, then the remaining bytes of the class."""
    position, number = 10, 1
    while number < count:
        tag = data[position]
        size = 1 + (2 + struct.unpack_from(">H", data, position + 1)[0] if tag == _UTF8_TAG else _SIZES[tag])
        yield data[position : position + size]
        position, number = position + size, number + (2 if tag in _TWO_SLOT_TAGS else 1)
    yield data[position:]
