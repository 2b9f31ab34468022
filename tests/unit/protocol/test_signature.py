"""Tests for signatures of internal requests and for session keys (KIP-507)."""

from __future__ import annotations

import json

import pytest

from kraal.core.errors import BadRequest, Forbidden, KraalError, Unavailable
from kraal.protocol.records import SessionKeyRecord
from kraal.protocol.signature import (
    DIGESTS,
    KEY_BYTES,
    Signature,
    generate_key,
    key_size,
    needs_new_key,
    parse_signature,
    sign,
    signature_headers,
)
from tests.golden_files import current

GOLDEN = current("protocol", "signatures.json")
VECTORS = json.loads(GOLDEN.read_text(encoding="utf-8"))
KEY = b"0" * 32
HMAC = "HmacSHA256"
DAY_MS = 86_400_000


@pytest.mark.parametrize("vector", VECTORS)
def test_signatures_match_java(vector: dict[str, str]) -> None:
    key, body = vector["key"].encode(), vector["body"].encode()
    assert sign(key, body, vector["algorithm"]) == vector["signature"]
    parse_signature(
        Signature(vector["signature"], vector["algorithm"]), key=key, allowed_algorithms=[HMAC]
    ).verify(body)


@pytest.mark.parametrize("algorithm", DIGESTS)
def test_signatures_of_all_algorithms_are_verified(algorithm: str) -> None:
    headers = signature_headers(KEY, b"body", algorithm)
    signature = Signature(
        headers["X-Connect-Authorization"], headers["X-Connect-Request-Signature-Algorithm"]
    )
    parse_signature(signature, key=KEY, allowed_algorithms=[HMAC, algorithm]).verify(b"body")


VALID_SIGNATURE = sign(KEY, b"body")


@pytest.mark.parametrize(
    ("signature", "key", "error", "reason"),
    [
        pytest.param(Signature(None, HMAC), KEY, BadRequest, "missing required signature", id="no signature"),
        pytest.param(
            Signature(VALID_SIGNATURE, None), KEY, BadRequest, "missing required signature", id="no algorithm"
        ),
        pytest.param(
            Signature(VALID_SIGNATURE, "None"), KEY, BadRequest, "Algorithm None not available", id="unknown"
        ),
        pytest.param(Signature("%", HMAC), KEY, BadRequest, "not base64", id="not base64"),
        pytest.param(
            Signature(VALID_SIGNATURE, "HmacSHA1"),
            KEY,
            BadRequest,
            r"use: \[HmacSHA256\]\.",
            id="not allowed",
        ),
        pytest.param(
            Signature(VALID_SIGNATURE, HMAC), None, Unavailable, "still starting up", id="no key yet"
        ),
        pytest.param(
            Signature(VALID_SIGNATURE, HMAC), b"1" * 32, Forbidden, "invalid signature", id="another key"
        ),
        pytest.param(Signature(sign(KEY, b"x"), HMAC), KEY, Forbidden, "invalid", id="another body"),
        pytest.param(Signature("", HMAC), KEY, Forbidden, "invalid", id="an empty signature"),
    ],
)
def test_invalid_signatures_have_connects_error(
    signature: Signature, key: bytes | None, error: type[KraalError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        parse_signature(signature, key=key, allowed_algorithms=[HMAC]).verify(b"body")


def test_unknown_algorithm_is_rejected() -> None:
    with pytest.raises(BadRequest, match="Algorithm Rot13 not available"):
        sign(KEY, b"", "Rot13")


def test_keys_are_random_with_javas_length() -> None:
    first_record, second_record = generate_key(7), generate_key(7)
    assert (len(first_record.key), first_record.algorithm, first_record.created_ms) == (32, HMAC, 7)
    assert first_record.key != second_record.key
    assert len(generate_key(7, size=16).key) == 16
    assert [key_size(None), key_size(256), key_size(129)] == [32, 32, 17]
    assert KEY_BYTES.keys() == DIGESTS.keys()


@pytest.mark.parametrize(
    ("key", "now_ms", "ttl_ms", "expected"),
    [
        pytest.param(None, 0, DAY_MS, True, id="no key"),
        pytest.param(SessionKeyRecord(KEY, HMAC, 0), DAY_MS - 1, DAY_MS, False, id="not expired"),
        pytest.param(SessionKeyRecord(KEY, HMAC, 0), DAY_MS, DAY_MS, True, id="just expired"),
        pytest.param(SessionKeyRecord(KEY, HMAC, 0), 10 * DAY_MS, 0, False, id="keys do not expire"),
        pytest.param(SessionKeyRecord(KEY, "HmacSHA1", 0), 1, DAY_MS, True, id="another algorithm"),
        pytest.param(SessionKeyRecord(KEY[1:], HMAC, 0), 1, DAY_MS, True, id="another length"),
    ],
)
def test_new_key_is_needed_after_expiry_or_change(
    key: SessionKeyRecord | None, now_ms: int, ttl_ms: int, *, expected: bool
) -> None:
    assert needs_new_key(key, now_ms, ttl_ms, HMAC, 32) is expected
