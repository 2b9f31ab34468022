"""Produces hostile records: unusual header names, and unpaired surrogates as JSON escapes and as bytes.

The header names are empty, contain a NUL, or are not UTF-8.

Two sinks read the records. One accepts any bytes as strings; the other reads JSON and skips invalid records
(`errors.tolerance`). Both must write the valid record that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError
from typing_extensions import override

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds.causes import Connectors, is_running, list_reasons, wait_for_progress
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.schedule import HeavyStep

TOPIC: Final = "hostile"
SINKS: Final = ("hostile-string", "hostile-json")
REQUEST_TIMEOUT_S: Final = 15.0
SEND_TIMEOUT_S: Final = 10.0
_SINK: Final = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": TOPIC}
_CONVERTERS: Final = {
    "hostile-string": {"value.converter": "org.apache.kafka.connect.storage.StringConverter"},
    "hostile-json": {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
    },
}


class RawName(str):
    """A header name of arbitrary bytes, which the Kafka client obtains through `encode`."""

    __slots__ = ("raw",)

    raw: bytes

    def __new__(cls, raw: bytes) -> Self:
        """Create a name from bytes."""
        name = super().__new__(cls, raw.decode("latin-1"))
        name.raw = raw
        return name

    @override
    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the bytes unchanged."""
        del encoding, errors
        return self.raw


@dataclass(frozen=True, slots=True)
class HostileRecord:
    """A hostile record."""

    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


RECORDS: Final = (
    HostileRecord(b'{"hostile":1}', [(RawName(b"\xff\xfe"), b"1"), (RawName(b"caf\xe9"), b"2")]),
    HostileRecord(b'{"hostile":2}', [(RawName(b"a\x00b"), b""), (RawName(b""), b"3")]),
    HostileRecord(b'{"hostile":"x\\ud83d"}'),
    HostileRecord(
        b'{"hostile":"\\ude00\\ud83d"}', [(RawName("\udcff".encode("utf-8", "surrogatepass")), b"4")]
    ),
    HostileRecord(b'{"hostile":"x\xed\xa0\xbd"}'),
)


def send(scene: Scene, step: HeavyStep) -> Undo | None:
    """Produce the hostile records, followed by a marker that both sinks must write before the fault is undone.

    Another fault may halt a sink meanwhile; a cause in REST prolongs the wait, but does not replace the marker.
    """
    directory = scene.slow.sink_file.parent
    for name in SINKS:
        config = {**_SINK, **_CONVERTERS[name], "file": str(directory / f"{name}.out")}
        if not scene.send_until_accepted(
            Call("PUT", f"/connectors/{name}/config", config), REQUEST_TIMEOUT_S
        ):
            _delete_sinks(scene)
            return None
    marker = f"after hostile records, at {scene.timeline.now_s():.1f} s, {step.pick}"
    try:
        produce(
            scene.members.broker.bootstrap, [*RECORDS, HostileRecord(f'{{"marker":"{marker}"}}'.encode())]
        )
    except KafkaError as exc:
        scene.timeline.say(f"  failed to produce the records: {exc}")
        _delete_sinks(scene)
        return None

    files = [directory / f"{name}.out" for name in SINKS]

    def is_halted(connectors: Connectors) -> bool:
        missing = find_files_without(files, marker)
        return all(not is_running(connectors, name) or list_reasons(connectors[name]) for name in missing)

    def undo() -> None:
        wait_for_progress(scene, lambda: not find_files_without(files, marker), is_halted)
        for name in find_files_without(files, marker):
            scene.report_violation(
                f"the sink {name} has not written the record that follows the hostile records"
            )
        _delete_sinks(scene)

    return undo


def produce(bootstrap: str, records: Sequence[HostileRecord]) -> None:
    """Produce records to the topic's first partition. Raises KafkaError."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        futures = [
            producer.send(TOPIC, value=record.value, headers=list(record.headers), partition=0)
            for record in records
        ]
        for future in futures:
            future.get(SEND_TIMEOUT_S)
    finally:
        producer.close(SEND_TIMEOUT_S)


def find_files_without(files: Sequence[Path], marker: str) -> list[str]:
    """Return the stems of the files that do not contain the marker."""
    return [file.stem for file in files if not file.exists() or marker.encode() not in file.read_bytes()]


def _delete_sinks(scene: Scene) -> None:
    for name in SINKS:
        scene.send_until_accepted(Call("DELETE", f"/connectors/{name}"), REQUEST_TIMEOUT_S)
