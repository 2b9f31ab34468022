"""Base64 and decimals in whole columns, because pyarrow has no functions for them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MAX_DECIMAL_DIGITS: Final = 38
"""Maximum number of digits of a decimal in Iceberg and Delta."""
_DECIMAL_BYTES: Final = 16
_GROUP: Final = 4
"""The number of characters that Base64 uses for three bytes."""
_INVALID: Final = 255
_PAD: Final = ord("=")


def _make_sextets() -> Any:
    """Return the value of each character of Base64, and `_INVALID` for other bytes."""
    table = np.full(256, _INVALID, np.uint8)
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    table[np.frombuffer(alphabet, np.uint8)] = np.arange(64, dtype=np.uint8)
    table[_PAD] = 0
    return table


_SEXTETS: Final = _make_sextets()


def decode_base64(texts: pa.Array) -> pa.Array:
    """Return the bytes of Base64 texts; null stays null. Raises ValueError for a text that is not Base64."""
    offsets, symbols = _get_bytes(texts.cast(pa.large_binary()))
    if (np.diff(offsets) % _GROUP).any():
        raise ValueError("invalid Base64: the length is not a multiple of 4")
    sextets = _SEXTETS[symbols]
    is_pad = (symbols == _PAD).reshape(-1, _GROUP)
    pads = np.concatenate([[0], np.cumsum(is_pad.sum(axis=1))])
    group_offsets = offsets // _GROUP
    ends = group_offsets[1:][np.diff(group_offsets) > 0] - 1
    padded_groups = is_pad.any(axis=1)
    is_misplaced = (
        is_pad[:, :2].any()
        or (is_pad[:, 2] & ~is_pad[:, 3]).any()
        or padded_groups.sum() > padded_groups[ends].sum()
    )
    if (sextets == _INVALID).any() or is_misplaced:
        raise ValueError("invalid Base64")
    groups = sextets.reshape(-1, _GROUP).astype(np.uint32)
    words = groups[:, 0] << 18 | groups[:, 1] << 12 | groups[:, 2] << 6 | groups[:, 3]
    triples = np.stack([words >> 16, words >> 8 & 255, words & 255], axis=1).astype(np.uint8)
    data = triples[~is_pad[:, 1:]]
    data_offsets = 3 * group_offsets - pads[group_offsets]
    result = pa.Array.from_buffers(
        pa.large_binary(),
        len(texts),
        [None, pa.py_buffer(data_offsets.astype(np.int64)), pa.py_buffer(data)],
    )
    return _with_nulls(result, texts).cast(pa.binary())


def decode_decimals(data: pa.Array, scale: int) -> pa.Array:
    """Return decimals of 38 digits whose unscaled values are big-endian two's complement; null stays null.

    Raises ValueError for a value with more digits, or without any byte.
    """
    offsets, octets = _get_bytes(data.cast(pa.large_binary()))
    lengths = np.diff(offsets)
    is_valid = data.is_valid().to_numpy(zero_copy_only=False)
    if (lengths[is_valid] == 0).any():
        raise ValueError("a decimal has no bytes")
    if (lengths > _DECIMAL_BYTES).any():
        raise ValueError(f"a decimal has more than {MAX_DECIMAL_DIGITS} digits")
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = (
        _DECIMAL_BYTES
        - np.repeat(lengths, lengths)
        + np.arange(len(octets))
        - np.repeat(offsets[:-1], lengths)
    )
    is_negative = np.zeros(len(lengths), bool)
    filled_rows = lengths > 0
    is_negative[filled_rows] = octets[offsets[:-1][filled_rows]] > 127  # noqa: PLR2004 - the sign bit
    values = np.where(is_negative[:, None], np.uint8(255), np.uint8(0)).repeat(_DECIMAL_BYTES, axis=1)
    values[rows, columns] = octets
    little_endian = np.ascontiguousarray(values[:, ::-1])
    result = pa.Array.from_buffers(
        pa.decimal128(MAX_DECIMAL_DIGITS, scale), len(lengths), [None, pa.py_buffer(little_endian)]
    )
    try:
        result.validate(full=True)
    except pa.ArrowInvalid as exc:
        raise ValueError(f"a decimal has more than {MAX_DECIMAL_DIGITS} digits") from exc
    return _with_nulls(result, data)


def _get_bytes(data: pa.Array) -> tuple[Any, Any]:
    """Return the offsets of values, starting at 0, and their bytes; null has no bytes."""
    filled = pa.concat_arrays([pc.fill_null(data, b"")])
    _, offset_buffer, data_buffer = filled.buffers()
    if not len(filled):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offset_buffer, np.int64)[filled.offset : filled.offset + len(filled) + 1]
    octets = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return offsets - offsets[0], octets[offsets[0] : offsets[-1]]


def _with_nulls(values: pa.Array, source: pa.Array) -> pa.Array:
    """Return `values` with null where `source` is null."""
    if not source.null_count:
        return values
    return pc.if_else(source.is_valid(), values, pa.scalar(None, values.type))
