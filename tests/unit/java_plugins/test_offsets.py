"""Tests for offset requests of Java sources on a standalone worker."""

from __future__ import annotations

import json
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from typing_extensions import override

from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.java_plugins.offsets import REQUEST_RUN, StandaloneOffsets
from kraal.stores.offset_file import OffsetFile
from tests.unit.java_plugins.fake_host import FakeHost

KEY = '["debezium",{"server":"one","db":"two"}]'
OTHER_KEY = '["other",{"file":"f"}]'


class Host(FakeHost):
    """A host that also puts each call into a queue, which the test reads."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Queue[tuple[Any, ...]] = Queue()

    @override
    def ask(self, method: str, *arguments: object) -> Any:
        try:
            return super().ask(method, *arguments)
        finally:
            self.calls.put((method, *arguments))


@pytest.fixture
def store(tmp_path: Path) -> OffsetFile:
    return OffsetFile(tmp_path / "offsets")


@pytest.fixture
def host(store: OffsetFile) -> Host:
    host = Host()
    StandaloneOffsets(host, store)  # type: ignore[arg-type]
    host.up()
    return host


def ask(host: Host, operation: str, texts: object, request: int = 1) -> tuple[Any, ...]:
    host.emit(REQUEST_RUN, operation, {"request": request, "texts": texts})
    return host.calls.get(timeout=10)


def test_offsets_are_written_to_the_file_before_the_request_is_acknowledged(
    host: Host, store: OffsetFile
) -> None:
    assert ask(host, "store", [[KEY, '{"lsn":12}'], [OTHER_KEY, '{"position":3}']], 7) == (
        "answerOffsets",
        7,
        "[]",
        None,
    )
    partition = SourcePartition.of({"server": "one", "db": "two"})
    assert store.load(ConnectorName("debezium")) == {partition: {"lsn": 12}}
    assert store.load(ConnectorName("other")) == {SourcePartition.of({"file": "f"}): {"position": 3}}


def test_offsets_are_returned_for_the_requested_keys(host: Host, store: OffsetFile) -> None:
    store.store(
        {ConnectorName("debezium"): {SourcePartition.of({"db": "two", "server": "one"}): {"lsn": 12}}}
    )
    _, request, pairs, error = ask(host, "load", [KEY, OTHER_KEY], 8)
    assert (request, json.loads(pairs), error) == (8, [[KEY, '{"lsn":12}'], [OTHER_KEY, None]], None)


def test_offsets_without_a_partition_are_skipped(host: Host, store: OffsetFile) -> None:
    no_partition = '["debezium",null]'
    assert ask(host, "store", [[no_partition, '{"lsn":1}'], [KEY, '{"lsn":12}']])[3] is None
    assert list(store.load(ConnectorName("debezium")).values()) == [{"lsn": 12}]
    assert json.loads(ask(host, "load", [no_partition, KEY])[2]) == [
        [no_partition, None],
        [KEY, '{"lsn":12}'],
    ]


def test_null_deletes_an_offset(host: Host, store: OffsetFile) -> None:
    ask(host, "store", [[KEY, '{"lsn":12}']])
    ask(host, "store", [[KEY, None]])
    assert store.load(ConnectorName("debezium")) == {}


def test_store_error_is_returned_to_the_source(
    host: Host, store: OffsetFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_store(_: object) -> None:
        raise StoreError("cannot write the offset file f: no space")

    monkeypatch.setattr(store, "store", fail_to_store)
    assert ask(host, "store", [[KEY, "{}"]])[3] == "cannot write the offset file f: no space"


def test_nonprimitive_offsets_are_rejected(host: Host, store: OffsetFile) -> None:
    error = ask(host, "store", [[KEY, '{"deep":{"a":1}}']])[3]
    assert error == "Offsets may only contain primitive types as values, but field deep contains an object"
    assert store.load(ConnectorName("debezium")) == {}


def test_request_thread_survives_a_jvm_exit(host: Host) -> None:
    host.is_up = False
    ask(host, "store", [[KEY, '{"lsn":1}']])
    host.is_up = True
    assert ask(host, "load", [KEY])[2] == json.dumps([[KEY, '{"lsn":1}']])
