"""Columns of the types that PostgreSQL's users have, with random values, and their comparison in two databases."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Final

_LETTERS: Final = "aZ09 _-'\"\\\n\täß漢🙂"
_EPOCH: Final = datetime(1930, 1, 1)  # noqa: DTZ001 - a timestamp without a zone
_RANGE_US: Final = 200 * 365 * 86_400_000_000
_DAY_US: Final = 86_400_000_000
_LARGE_COUNT: Final = 300
"""Repetitions with which a value exceeds two kilobytes; PostgreSQL then stores it outside of the row (TOAST)."""

Normalize = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and how its values are compared."""

    name: str
    type: str
    """The type in PostgreSQL, with its constraint."""
    stored_type: str
    """The type in DuckDB."""
    make: Callable[[Random], str]
    """Returns a random value as SQL."""
    original: str = "{}::text"
    """The text of a value in PostgreSQL."""
    stored: str = "{}::VARCHAR"
    """The text of a value in DuckDB."""
    normalize: Normalize = str
    """Returns an equal value for equal texts of both databases."""
    is_large: bool = False
    """Whether values may be stored outside of the row."""

    def parse(self, text: str | None) -> object:
        """Return the normalized value; None for null."""
        return None if text is None else self.normalize(text)


def _quote(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))


def _make_text(random: Random, max_length: int = 20) -> str:
    return _quote("".join(random.choices(_LETTERS, k=random.randrange(max_length))))


def _make_integer(bits: int) -> Callable[[Random], str]:
    limit = 1 << (bits - 1)
    return lambda random: str(random.choice([-limit, limit - 1, 0, random.randrange(-limit, limit)]))


def _make_decimal(digits: int, max_scale: int, min_scale: int = 0) -> Callable[[Random], str]:
    def make(random: Random) -> str:
        value = Decimal(random.randrange(1 - 10**digits, 10**digits))
        return f"{value.scaleb(-random.randint(min_scale, max_scale)):f}"

    return make


def _make_float(*special: str) -> Callable[[Random], str]:
    values = ("'NaN'", "'Infinity'", "'-Infinity'", "0.1", "-0.0", *special)
    return lambda random: random.choice([*values, repr(random.uniform(-1e6, 1e6))])


def _make_moment(random: Random) -> str:
    return (_EPOCH + timedelta(microseconds=random.randrange(_RANGE_US))).isoformat(sep=" ")


def _make_time(random: Random) -> str:
    moment = _EPOCH + timedelta(microseconds=random.choice([0, _DAY_US - 1, random.randrange(_DAY_US)]))
    return _quote(moment.time().isoformat())


def _make_json(random: Random) -> str:
    return _quote(json.dumps({"a": [random.random(), None], "b": _make_text(random)}, ensure_ascii=False))


def _make_large_text(random: Random) -> str:
    if random.random() < 0.3:
        return _make_text(random)
    return f"repeat({_quote(f'{random.getrandbits(40):010x}')}, {_LARGE_COUNT})"


def _make_large_bytes(random: Random) -> str:
    return f"decode(repeat({_quote(f'{random.getrandbits(40):010x}')}, {2 * _LARGE_COUNT}), 'hex')"


def _make_large_integers(random: Random) -> str:
    if random.random() < 0.3:
        return random.choice(["'{}'", "'{1,NULL,-3}'"])
    numbers = f"generate_series(1, {2 * _LARGE_COUNT})"
    return f"ARRAY(SELECT n * {random.randrange(1, 1000)} FROM {numbers} n)"  # noqa: S608 - no input


def _make_large_texts(random: Random) -> str:
    if random.random() < 0.3:
        return f"ARRAY[{_make_text(random)}, NULL, '']::text[]"
    return f"array_fill({_quote(f'{random.getrandbits(40):010x}')}::text, ARRAY[{_LARGE_COUNT}])"


_MICROSECONDS: Final = ("(extract(epoch from {}) * 1000000)::bigint::text", "epoch_us({})::VARCHAR")
_JSON: Final = ("to_json({})::text", "to_json({})::VARCHAR")


def _parse_float(text: str) -> object:
    return repr(float(text))


NOTE: Final = Column("note", "text", "VARCHAR", _make_text)
"""A column that is added later."""
COLUMNS: Final[Sequence[Column]] = (
    Column("small", "smallint NOT NULL", "INTEGER", _make_integer(16)),
    Column("whole", "integer", "INTEGER", _make_integer(32)),
    Column("big", "bigint", "BIGINT", _make_integer(64)),
    Column("amount", "numeric(12, 3)", "DECIMAL(12,3)", _make_decimal(12, 3, 3)),
    Column("loose", "numeric", "VARCHAR", _make_decimal(20, 10), normalize=Decimal),
    Column("real4", "real", "FLOAT", _make_float("1e-30"), "{}::float8::text", "{}::DOUBLE::VARCHAR", _parse_float),
    Column("real8", "double precision", "DOUBLE", _make_float("1e300"), normalize=_parse_float),
    Column("yes", "boolean", "BOOLEAN", lambda random: random.choice(["true", "false"])),
    Column("label", "varchar(20)", "VARCHAR", _make_text),
    Column("raw", "bytea", "BLOB", lambda random: f"'\\x{random.randbytes(random.randrange(9)).hex()}'",
        "encode({}, 'hex')", "lower(hex({}))"),
    Column("day", "date", "DATE", lambda random: f"date '1815-06-18' + {random.randrange(100_000)}"),
    Column("clock", "time", "TIME", _make_time, _MICROSECONDS[0], "epoch_us({}::TIME)::VARCHAR"),
    Column("at", "timestamp", "TIMESTAMP", lambda random: f"'{_make_moment(random)}'", *_MICROSECONDS),
    Column("zoned", "timestamptz", "TIMESTAMP WITH TIME ZONE",
        lambda random: f"'{_make_moment(random)}+05:30'", *_MICROSECONDS),
    Column("unique_id", "uuid", "VARCHAR", lambda random: f"'{uuid.UUID(int=random.getrandbits(128))}'"),
    Column("tree", "json", "VARCHAR", _make_json),
    Column("branch", "jsonb", "VARCHAR", _make_json),
    Column("long", "text", "VARCHAR", _make_large_text, is_large=True),
    Column("blob", "bytea", "BLOB", _make_large_bytes, "encode({}, 'hex')", "lower(hex({}))", is_large=True),
    Column("numbers", "integer[]", "INTEGER[]", _make_large_integers, *_JSON, json.loads, is_large=True),
    Column("words", "text[]", "VARCHAR[]", _make_large_texts, *_JSON, json.loads, is_large=True),
)  # fmt: skip
WIDER: Final = {
    "whole": ("bigint", "BIGINT"),
    "amount": ("numeric(20, 3)", "DECIMAL(20,3)"),
    "real4": ("double precision", "DOUBLE"),
}
"""The wider types of columns, in PostgreSQL and in DuckDB."""


def widen(columns: Sequence[Column]) -> list[Column]:
    """Return columns with their wider types."""
    return [
        replace(column, type=WIDER[column.name][0], stored_type=WIDER[column.name][1])
        if column.name in WIDER
        else column
        for column in columns
    ]


def make_table_sql(table: str) -> str:
    """Return SQL that creates a table. Large values are not compressed, and therefore stored outside of their rows."""
    definitions = ", ".join(f"{column.name} {column.type}" for column in COLUMNS)
    large = [
        f"ALTER TABLE {table} ALTER COLUMN {column.name} SET STORAGE EXTERNAL"
        for column in COLUMNS
        if column.is_large
    ]
    return "; ".join([f"CREATE TABLE {table} (id bigint PRIMARY KEY, {definitions})", *large])
