"""Maps the columns of a database table to the types to which the values of records are converted. Pure functions.

Whole numbers of all sizes are one type; `find_overflow` checks their range.
All types that are neither numbers, Booleans, dates, timestamps nor bytes are text, which the database converts.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.jdbc.database import StoredColumn
from kraal.connectors.tables.binary import MAX_DECIMAL_DIGITS

DEFAULT_SCALE: Final = 18
"""The scale of numbers without a declared one, as in Spark."""
_INSTANT: Final = pa.timestamp("us", "UTC")
_TYPES: Final = {
    -7: pa.bool_(),  # BIT
    16: pa.bool_(),  # BOOLEAN
    -6: pa.int64(),  # TINYINT
    5: pa.int64(),  # SMALLINT
    4: pa.int64(),  # INTEGER
    -5: pa.int64(),  # BIGINT
    7: pa.float64(),  # REAL
    6: pa.float64(),  # FLOAT
    8: pa.float64(),  # DOUBLE
    91: pa.date32(),  # DATE
    93: pa.timestamp("us"),  # TIMESTAMP
    2014: _INSTANT,  # TIMESTAMP_WITH_TIMEZONE
    -2: pa.binary(),  # BINARY
    -3: pa.binary(),  # VARBINARY
    -4: pa.binary(),  # LONGVARBINARY
    2004: pa.binary(),  # BLOB
}
"""Types by the numbers of java.sql.Types."""
_REAL: Final = 7
_TEXTS: Final = frozenset({12, -1, -9, -16, 2005, 2011})
"""VARCHAR, LONGVARCHAR, NVARCHAR, LONGNVARCHAR, CLOB and NCLOB."""
_DECIMALS: Final = frozenset({2, 3})
"""NUMERIC and DECIMAL."""
_BITS: Final = {-6: 8, 5: 16, 4: 32}
"""The sizes of TINYINT, SMALLINT and INTEGER."""
_UNSIGNED: Final = " UNSIGNED"
"""The end of the names of MySQL's types without negative numbers."""
_INSTANT_NAME: Final = "timestamptz"
"""The type of PostgreSQL that JDBC calls TIMESTAMP and that represents an instant."""


def to_arrow(column: StoredColumn) -> pa.DataType:
    """Return the type to which values for a column are converted."""
    if column.code in _DECIMALS:
        if not 0 < column.precision <= MAX_DECIMAL_DIGITS:
            return pa.decimal128(MAX_DECIMAL_DIGITS, DEFAULT_SCALE)
        return pa.decimal128(column.precision, column.scale)
    if column.type_name == _INSTANT_NAME:
        return _INSTANT
    return _TYPES.get(column.code, pa.string())


def choose_type(stored: pa.DataType | None, new: pa.DataType) -> pa.DataType:
    """Return the type to which values of the type `new` are converted; `stored` is None for a new column.

    Numbers become those of the column, except that fractions never become whole numbers. Timestamps with and without a
    time zone become each other in UTC.
    """
    if stored is not None and any(
        check(stored) and check(new) for check in (pa.types.is_decimal, pa.types.is_timestamp)
    ):
        return stored
    is_number = pa.types.is_integer(new) or pa.types.is_floating(new)
    if stored is not None and (
        (pa.types.is_floating(stored) and (is_number or pa.types.is_decimal(new)))
        or (pa.types.is_decimal(stored) and is_number)
    ):
        return stored
    if pa.types.is_integer(new):
        return pa.int64()
    if pa.types.is_floating(new):
        return pa.float64()
    return pa.string() if pa.types.is_time(new) else new


def to_compared_type(column: StoredColumn) -> pa.DataType | None:
    """Return the type as which stored values are compared with records; None if the database may have changed them."""
    if column.is_converted:
        return None
    if column.code == _REAL:
        return pa.float32()
    compared_type = to_arrow(column)
    return None if pa.types.is_string(compared_type) and column.code not in _TEXTS else compared_type


def find_overflow(column: StoredColumn, values: pa.Array) -> int | None:
    """Return a value that is too large or too small for a column of whole numbers; None if there is none."""
    bits = _BITS.get(column.code)
    if bits is None or not pa.types.is_integer(values.type):
        return None
    limits = pc.min_max(values)
    minimum, maximum = limits["min"].as_py(), limits["max"].as_py()
    first, end = -(2 ** (bits - 1)), 2 ** (bits - 1)
    if column.type_name.upper().endswith(_UNSIGNED):
        first, end = 0, 2**bits
    if minimum is None or (first <= minimum and maximum < end):
        return None
    return int(maximum if maximum >= end else minimum)
