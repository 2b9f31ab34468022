"""Tests that Connect's offset files are read and written byte for byte as by Java.

The golden files were written by a standalone worker (`standalone-*`, scripts/harness/capture_records.py) and by Java's
classes (`java-*`, scripts/harness/capture_bytes.py). `java-read.txt` contains the pairs that Connect's
SafeObjectInputStream reads from the files `kraal-*`, which `OffsetFile` wrote.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraal.core.errors import ProtocolError, StoreError
from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.stores.java_serial import Pair, dump, load
from kraal.stores.offset_file import OffsetFile
from tests.golden_files import current

GOLDEN = current("offsets")
SOURCE = ConnectorName("my-source")
PARTITION = SourcePartition.of({"filename": "/tmp/connect-golden/in.txt"})  # noqa: S108 - the content of the golden file
JAVA_FILES = sorted(
    p.name for p in GOLDEN.glob("*.bin") if p.name not in ("java-shared.bin", "java-string.bin")
)


@pytest.mark.parametrize("name", JAVA_FILES)
def test_javas_files_round_trip_byte_for_byte(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    assert dump(load(data)) == data


def test_shared_array_is_read_at_each_reference() -> None:
    assert load((GOLDEN / "java-shared.bin").read_bytes()) == [
        (b'["a",{"p":1}]', b'{"o":7}'),
        (b'["b",{"p":1}]', b'{"o":7}'),
    ] or load((GOLDEN / "java-shared.bin").read_bytes()) == [
        (b'["b",{"p":1}]', b'{"o":7}'),
        (b'["a",{"p":1}]', b'{"o":7}'),
    ]


def format_pairs(pairs: list[Pair]) -> list[str]:
    def to_hex(part: bytes | None) -> str:
        return "null" if part is None else part.hex() or "-"

    return sorted(f"  {to_hex(key)} {to_hex(value)}" for key, value in pairs)


@pytest.mark.parametrize(
    "name", ["kraal-empty.bin", "kraal-nulls.bin", "kraal-thirteen.bin", "kraal-store.bin"]
)
def test_java_reads_the_files_of_kraal(name: str) -> None:
    lines = (GOLDEN / "java-read.txt").read_text().splitlines()
    header_index = next(n for n, line in enumerate(lines) if line.startswith(f"{name} "))
    pairs = load((GOLDEN / name).read_bytes())
    assert lines[header_index] == f"{name} {len(pairs)}"
    assert lines[header_index + 1 : header_index + 1 + len(pairs)] == format_pairs(pairs)
    assert dump(pairs) == (GOLDEN / name).read_bytes(), "the file is written as it was when Java read it"


@pytest.mark.parametrize(
    ("name", "connector", "expected"),
    [
        pytest.param("standalone-one.bin", "my-source", {PARTITION: {"position": 14}}, id="one connector"),
        pytest.param("standalone-reset.bin", "my-source", {}, id="reset offsets"),
        pytest.param(
            "standalone-two.bin",
            "second é",
            {SourcePartition.of({"filename": "/tmp/connect-golden/in2.txt"}): {"position": 4}},  # noqa: S108
            id="two connectors",
        ),
        pytest.param("standalone-two.bin", "other", {}, id="missing connector"),
        pytest.param("java-empty.bin", "my-source", {}, id="an empty map"),
    ],
)
def test_offsets_of_java_standalone_are_read(name: str, connector: str, expected: object) -> None:
    assert dict(OffsetFile(GOLDEN / name).load(ConnectorName(connector))) == expected


def test_offsets_survive_a_restart_without_changing_other_entries(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes((GOLDEN / "standalone-two.bin").read_bytes())
    OffsetFile(path).store({SOURCE: {PARTITION: {"position": 99}}})
    reopened_store = OffsetFile(path)
    assert reopened_store.load(SOURCE) == {PARTITION: {"position": 99}}
    assert len(reopened_store.load(ConnectorName("second é"))) == 1


def test_unknown_keys_are_preserved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "offsets"
    path.write_bytes((GOLDEN / "java-nulls.bin").read_bytes())
    pairs_before = load(path.read_bytes())
    store = OffsetFile(path)
    assert "Preserving an unknown key in the offset file" in caplog.text
    store.store({SOURCE: {PARTITION: {"position": 1}}})
    assert load(path.read_bytes())[: len(pairs_before)] == pairs_before
    assert store.load(ConnectorName("x")) == {}


def test_partition_stored_with_two_field_orders_is_one_partition(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(dump([(b'["x",{"a":1,"b":2}]', b'{"o":1}'), (b'["x",{"b":2,"a":1}]', b'{"o":2}')]))
    store, x, partition = OffsetFile(path), ConnectorName("x"), SourcePartition.of({"a": 1, "b": 2})
    assert store.load(x) == {partition: {"o": 2}}
    store.store({x: {partition: {"o": 3}}})
    assert [value for _, value in load(path.read_bytes())] == [b'{"o":3}', b'{"o":3}']
    store.store({x: {partition: None}})
    assert load(path.read_bytes()) == []


def test_missing_or_empty_file_has_no_offsets(tmp_path: Path) -> None:
    assert OffsetFile(tmp_path / "sub" / "offsets").load(SOURCE) == {}
    (tmp_path / "empty").write_bytes(b"")
    store = OffsetFile(tmp_path / "empty")
    store.store({SOURCE: {PARTITION: {"position": 1}}})
    assert OffsetFile(tmp_path / "empty").load(SOURCE) == {PARTITION: {"position": 1}}


def test_truncated_file_is_rejected_and_unchanged(tmp_path: Path) -> None:
    data = (GOLDEN / "standalone-two.bin").read_bytes()
    path = tmp_path / "offsets"
    for cut in range(1, len(data)):
        path.write_bytes(data[:cut])
        with pytest.raises(StoreError, match=f"{path} is damaged: it ends at byte {cut}"):
            OffsetFile(path)
        assert path.read_bytes() == data[:cut]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"hello", "expected a Java object stream at byte 0", id="another file"),
        pytest.param((GOLDEN / "java-string.bin").read_bytes(), "a java.util.HashMap", id="another object"),
        pytest.param((GOLDEN / "java-empty.bin").read_bytes() + b"x", "1 bytes follow", id="trailing bytes"),
    ],
)
def test_invalid_file_is_rejected_with_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        load(data)


def test_invalid_offset_fails_only_its_connector(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(dump([(b'["x",{}]', b"?"), (b'["y",{}]', b"{}")]))
    store = OffsetFile(path)
    with pytest.raises(StoreError, match="contains an invalid offset"):
        store.load(ConnectorName("x"))
    assert len(store.load(ConnectorName("y"))) == 1


def test_failed_write_changes_neither_file_nor_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "offsets"
    store = OffsetFile(path)
    store.store({SOURCE: {PARTITION: {"position": 1}}})
    data_before = path.read_bytes()

    def fail(_file: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError, match="cannot write the offset file"):
            store.store({SOURCE: {PARTITION: {"position": 2}}})
    assert path.read_bytes() == data_before
    assert store.load(SOURCE) == {PARTITION: {"position": 1}}
    assert [p.name for p in tmp_path.iterdir()] == ["offsets"]


def test_unchanged_offsets_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    store = OffsetFile(path)
    store.store({SOURCE: {PARTITION: None}})
    assert not path.exists()
