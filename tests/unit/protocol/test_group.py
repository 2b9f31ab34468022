"""Tests for the group protocol, compared with test vectors of Connect's classes."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.core.errors import ProtocolError
from kraal.core.ids import ConnectorName, TaskId
from kraal.protocol.group import (
    AssignmentError,
    ConnectorOrTask,
    ConnectProtocol,
    GroupAssignment,
    GroupProtocol,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    make_offers,
)
from tests.golden_files import current

GOLDEN = current("protocol", "group.json")
VECTORS = {name: bytes.fromhex(text) for name, text in json.loads(GOLDEN.read_text(encoding="utf-8")).items()}
URL = "http://w1:8083/"
C1 = ConnectorName("c1")
CONNECTOR_AND_TASK = (ConnectorOrTask(C1), ConnectorOrTask(C1, 0))


def assignment(version: int, config_offset: int = 5, **fields: object) -> GroupAssignment:
    base = GroupAssignment(version=version, leader="m1", leader_url=URL, config_offset=config_offset)
    return replace(base, **fields)  # type: ignore[arg-type]


ASSIGNMENTS = {
    "assignment v0 of c1 and c1-0": assignment(0, assigned=CONNECTOR_AND_TASK),
    "assignment v2 of c1 and c1-0": assignment(2, assigned=CONNECTOR_AND_TASK),
    "assignment v2 that revokes c1-1": assignment(2, 7, revoked=(ConnectorOrTask(C1, 1),)),
    "assignment v2 with a delay": assignment(2, 7, delay_ms=300_000),
    "assignment v1 that failed": assignment(1, 9, error=AssignmentError.CONFIG_MISMATCH),
}
METADATA = {
    "metadata v0": WorkerMetadata(version=0, url=URL, config_offset=5),
    "metadata v1, null allocation": WorkerMetadata(version=1, url=URL, config_offset=5),
    "metadata v2 with an allocation": WorkerMetadata(
        version=2, url=URL, config_offset=5, allocation=assignment(2, assigned=CONNECTOR_AND_TASK)
    ),
}


def test_all_vectors_are_tested() -> None:
    assert {*ASSIGNMENTS, *METADATA} == set(VECTORS)


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignments_match_java_byte_for_byte(name: str) -> None:
    assert encode_assignment(ASSIGNMENTS[name]) == VECTORS[name]
    assert decode_assignment(VECTORS[name]) == ASSIGNMENTS[name]


@pytest.mark.parametrize("name", METADATA)
def test_metadata_matches_java_byte_for_byte(name: str) -> None:
    assert encode_metadata(METADATA[name]) == VECTORS[name]
    assert decode_metadata(VECTORS[name]) == METADATA[name]


@pytest.mark.parametrize(
    ("protocol", "names"),
    [
        pytest.param(ConnectProtocol.EAGER, ["default"], id="eager"),
        pytest.param(ConnectProtocol.COMPATIBLE, ["compatible", "default"], id="compatible"),
        pytest.param(ConnectProtocol.SESSIONED, ["sessioned", "compatible", "default"], id="sessioned"),
        pytest.param(ConnectProtocol.STATIC, ["static", "sessioned", "compatible", "default"], id="static"),
    ],
)
def test_metadata_is_offered_for_each_protocol(protocol: ConnectProtocol, names: list[str]) -> None:
    offers = make_offers(protocol, "leaderUrl", 4, assignment(2, assigned=CONNECTOR_AND_TASK))
    assert [offer.name for offer in offers] == names
    for offer in offers:
        metadata = decode_metadata(offer.metadata)
        assert (metadata.url, metadata.config_offset) == ("leaderUrl", 4)
        assert metadata.version == offer.name.version
        # The allocation is encoded in the version of the metadata.
        if offer.name is not GroupProtocol.DEFAULT:
            assert metadata.allocation == assignment(offer.name.version, assigned=CONNECTOR_AND_TASK)


STATIC_METADATA = {  # KIP-987 does not specify the encoding
    "0003000f687474703a2f2f77313a383038332f0000000000000005ffffffffffffffff": WorkerMetadata(
        version=3, url=URL, config_offset=5
    ),
    "0003000f687474703a2f2f77313a383038332f0000000000000005ffffffff000000010002633100000002ffffffff00000000": (
        WorkerMetadata(version=3, url=URL, config_offset=5, static_assignment=CONNECTOR_AND_TASK)
    ),
}


@pytest.mark.parametrize(("data", "metadata"), STATIC_METADATA.items(), ids=["wildcard", "static"])
def test_static_metadata_is_encoded_byte_for_byte(data: str, metadata: WorkerMetadata) -> None:
    assert encode_metadata(metadata).hex() == data
    assert decode_metadata(bytes.fromhex(data)) == metadata


def test_static_worker_sends_unchanged_metadata_for_older_protocols() -> None:
    """Static assignments are sent only for the protocol `static`; other metadata equals that of a sessioned worker."""
    offers = make_offers(
        ConnectProtocol.STATIC, URL, 5, assignment(2, assigned=CONNECTOR_AND_TASK), CONNECTOR_AND_TASK
    )
    assert [decode_metadata(offer.metadata).static_assignment for offer in offers] == [
        CONNECTOR_AND_TASK,
        None,
        None,
        None,
    ]
    assert offers[1:] == make_offers(
        ConnectProtocol.SESSIONED, URL, 5, assignment(2, assigned=CONNECTOR_AND_TASK)
    )
    assert offers[1].metadata == VECTORS["metadata v2 with an allocation"]


def test_version_2_reader_ignores_static_assignments() -> None:
    data = make_offers(ConnectProtocol.STATIC, URL, 5, None, CONNECTOR_AND_TASK)[0].metadata
    assert decode_metadata(b"\x00\x02" + data[2:]) == WorkerMetadata(version=2, url=URL, config_offset=5)


def test_empty_list_differs_from_null() -> None:
    metadata = WorkerMetadata(version=3, url=URL, config_offset=5, static_assignment=())
    assert decode_metadata(encode_metadata(metadata)) == metadata


def test_failed_allocation_is_null_unless_work_continues() -> None:
    failed_assignment = assignment(2, error=AssignmentError.CONFIG_MISMATCH)
    running_assignment = replace(failed_assignment, assigned=CONNECTOR_AND_TASK)
    offered_metadata = [
        decode_metadata(make_offers(ConnectProtocol.SESSIONED, URL, 5, offered_assignment)[0].metadata)
        for offered_assignment in (failed_assignment, running_assignment)
    ]
    assert [metadata.allocation for metadata in offered_metadata] == [None, running_assignment]


@pytest.mark.parametrize(
    ("protocol", "is_cooperative", "is_signed"),
    [
        pytest.param(GroupProtocol.DEFAULT, False, False, id="default"),
        pytest.param(GroupProtocol.COMPATIBLE, True, False, id="compatible"),
        pytest.param(GroupProtocol.SESSIONED, True, True, id="sessioned"),
        pytest.param(GroupProtocol.STATIC, True, True, id="static"),
    ],
)
def test_cooperative_and_signed_protocols_are_distinguished(
    protocol: GroupProtocol, *, is_cooperative: bool, is_signed: bool
) -> None:
    assert (protocol.is_cooperative, protocol.is_signed) == (is_cooperative, is_signed)


def test_missing_trailing_fields_have_defaults() -> None:
    data = encode_assignment(assignment(1))
    for missing_bytes in (4, 8, 12):  # delay, revoked, assignment
        assert decode_assignment(data[:-missing_bytes]) == assignment(1)
    assert decode_metadata(VECTORS["metadata v1, null allocation"][:-4]).allocation is None


def test_null_arrays_are_empty() -> None:
    prefix = encode_assignment(assignment(1))[:-12]
    assert decode_assignment(prefix + b"\xff" * 8 + bytes(4)) == assignment(1)


def test_trailing_bytes_and_later_versions_are_ignored() -> None:
    extended_message = VECTORS["assignment v2 with a delay"] + b"more"
    assert decode_assignment(b"\x00\x07" + extended_message[2:]) == assignment(7, 7, delay_ms=300_000)
    static_metadata = bytes.fromhex("0003000f687474703a2f2f77313a383038332f0000000000000005ffffffffffffffff")
    assert decode_metadata(static_metadata) == WorkerMetadata(version=3, url=URL, config_offset=5)


TRAILING_FIELD_OFFSETS = {
    "metadata v0": set(),
    "metadata v1, null allocation": {27},
    "metadata v2 with an allocation": {27},
    "assignment v0 of c1 and c1-0": {33},
    "assignment v2 of c1 and c1-0": {33, 53, 57},
    "assignment v2 that revokes c1-1": {33, 37, 53},
    "assignment v2 with a delay": {33, 37, 41},
    "assignment v1 that failed": {33, 37, 41},
}


@pytest.mark.parametrize("name", VECTORS)
def test_truncated_message_is_an_error(name: str) -> None:
    data = VECTORS[name]
    decode = decode_metadata if name.startswith("metadata") else decode_assignment
    for cut in set(range(len(data))) - TRAILING_FIELD_OFFSETS[name]:
        with pytest.raises(ProtocolError):
            decode(data[:cut])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param("ffff", "unsupported version -1", id="negative version"),
        pytest.param("00", "version needs 2 bytes, but only 1 remain", id="short number"),
        pytest.param("00010000ffff", "leader has the negative length -1", id="null string"),
        pytest.param("000100000002c328", "leader is not UTF-8", id="not UTF-8"),
        pytest.param("0001000000056d", "leader needs 5 bytes, but only 1 remain", id="short string"),
        pytest.param(
            "0001000000000000" + "00" * 8 + "7fffffff", "declares 2147483647 elements", id="many elements"
        ),
        pytest.param(
            "0001000000000000" + "00" * 8 + "0000000100026331ffffffff", "negative count", id="null tasks"
        ),
        pytest.param(
            "0001000000000000" + "00" * 8 + "00000001000263317fffffff", "tasks needs", id="many tasks"
        ),
    ],
)
def test_malformed_assignments_are_rejected_with_reason(data: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_assignment(bytes.fromhex(data))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(assignment(1, leader="x" * 32_768), id="string too long"),
        pytest.param(assignment(1, delay_ms=2**31), id="delay too large"),
        pytest.param(assignment(1, assigned=(ConnectorOrTask(C1, 2**31),)), id="task number too large"),
    ],
)
def test_out_of_range_values_are_rejected(value: GroupAssignment) -> None:
    with pytest.raises(ProtocolError):
        encode_assignment(value)


def test_connectors_and_tasks_convert_to_instances() -> None:
    assert ConnectorOrTask.of(C1) == ConnectorOrTask(C1, -1)
    assert ConnectorOrTask.of(TaskId(C1, 3)) == ConnectorOrTask(C1, 3)
    assert [connector_or_task.instance for connector_or_task in CONNECTOR_AND_TASK] == [C1, TaskId(C1, 0)]


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).map(ConnectorName)
connectors_and_tasks = st.dictionaries(
    names, st.lists(st.integers(-1, 2**31 - 1), min_size=1, unique=True), max_size=4
).map(
    lambda tasks: tuple(
        ConnectorOrTask(name, number) for name, numbers in tasks.items() for number in numbers
    )
)


@st.composite
def assignments(draw: st.DrawFn, version: int) -> GroupAssignment:
    return GroupAssignment(
        version=version,
        error=draw(st.integers(0, 3)),
        leader=draw(names),
        leader_url=draw(names),
        config_offset=draw(st.integers(-1, 2**63 - 1)),
        assigned=draw(connectors_and_tasks),
        revoked=draw(connectors_and_tasks) if version else (),
        delay_ms=draw(st.integers(0, 2**31 - 1)) if version else 0,
    )


@settings(max_examples=60)
@given(st.integers(0, 3).flatmap(assignments))
def test_assignments_round_trip(value: GroupAssignment) -> None:
    assert decode_assignment(encode_assignment(value)) == value


@settings(max_examples=60)
@given(st.data(), st.integers(0, 3), names, st.integers(-1, 2**63 - 1))
def test_metadata_round_trips(data: st.DataObject, version: int, url: str, offset: int) -> None:
    allocation = data.draw(st.none() | assignments(version)) if version else None
    static = data.draw(st.none() | connectors_and_tasks) if version == 3 else None
    value = WorkerMetadata(
        version=version, url=url, config_offset=offset, allocation=allocation, static_assignment=static
    )
    assert decode_metadata(encode_metadata(value)) == value


@settings(max_examples=100)
@given(st.binary(max_size=80))
def test_arbitrary_bytes_raise_only_protocol_errors(data: bytes) -> None:
    for decode in (decode_assignment, decode_metadata):
        with suppress(ProtocolError):
            decode(data)
