"""Functions of expressions, for values and as Spark columns.

Only the functions of this table are allowed. Each exists twice, because records with a schema of their own never pass
through Spark plans; a test compares both. If Spark's result depends on the version of Java or Unicode, a column marks
the doubtful rows, which take the record path.

As in Spark, a null argument gives null unless noted. Integers are BIGINT, other numbers DOUBLE.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kraal.engine.columns.functions import F
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Type


def compare(left: Any, right: Any) -> int:
    """Return a number below, equal to or above 0, as `left` compares to `right`; both of one family or numbers.

    As in Spark, NaN equals itself and exceeds all numbers, 0 equals -0, and strings compare by bytes.
    """
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if left != left or right != right:  # noqa: PLR0124 - only NaN differs from itself
            return int(left != left) - int(right != right)  # noqa: PLR0124 - the same
    return int(left > right) - int(left < right)


TYPES: Final[Mapping[str, Type]] = {
    "BOOLEAN": Type.BOOLEAN,
    "TINYINT": Type.INT8,
    "SMALLINT": Type.INT16,
    "INT": Type.INT32,
    "INTEGER": Type.INT32,
    "BIGINT": Type.INT64,
    "LONG": Type.INT64,
    "DOUBLE": Type.FLOAT64,
    "STRING": Type.STRING,
}
"""Types of CAST, by Spark's names."""

FAR: Final = 1_000_000_000
"""Limit to which positions and lengths in strings are clamped."""
WIDEST: Final = 10_000
"""Maximum length of results of lpad and rpad."""


class Family(StrEnum):
    """The family of types to which a value belongs in an expression."""

    TEXT = "text"
    WHOLE = "a whole number"
    DOUBLE = "a number with a fraction"
    BOOLEAN = "a boolean"
    NULL = "null"
    OTHER = "neither text, number nor boolean"


NUMBERS: Final = (Family.WHOLE, Family.DOUBLE)
PLAIN: Final = (Family.TEXT, Family.WHOLE, Family.DOUBLE, Family.BOOLEAN)
_TEXT: Final = (Family.TEXT,)
_INTEGER: Final = (Family.WHOLE,)

Kinds = tuple[Family, ...]


def _first_family(families: Sequence[Family]) -> Family:
    return next((each for each in families if each is not Family.NULL), Family.NULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function. `value` gets no null arguments unless `nulls` is set."""

    name: str
    takes_kinds: tuple[Kinds, ...]
    """Kinds of each argument; the last entry also applies to further arguments."""
    gives: Family | None
    """Family of the result; None if it is that of the arguments, which are all alike."""
    value: Callable[..., Any]
    column: Callable[..., Any]
    doubt: Callable[..., Any] | None = None
    """Makes a column that is true for rows where Spark's result could differ."""
    least: int = 1
    most: int | None = None
    nulls: bool = False

    def takes(self, count: int) -> bool:
        """Return whether it can be called with this number of arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    @property
    def argument_count(self) -> str:
        """The number of arguments it takes, in words."""
        if self.most is None:
            return f"at least {self.least} argument{'s' * (self.least > 1)}"
        many = str(self.least) if self.least == self.most else f"{self.least} or {self.most}"
        return f"{many} argument{'s' * (self.most > 1)}"

    def kind(self, families: Sequence[Family]) -> Family:
        """Return the family of the result. Raises DataException for arguments of the wrong kind."""
        for at, each in enumerate(families):
            allowed = self.takes_kinds[min(at, len(self.takes_kinds) - 1)]
            if each is not Family.NULL and each not in allowed:
                expected = " or ".join(allowed)
                raise DataException(f"argument {at + 1} of {self.name} must be {expected}, but is {each}")
        if self.gives is not None:
            return self.gives
        common = _first_family(families)
        for each in families:
            if each not in (common, Family.NULL):
                raise DataException(
                    f"the arguments of {self.name} must be of one type, but are {common} and {each}"
                )
        return common


def _built_in(name: str) -> Callable[..., Any]:
    return lambda *columns: F.call_function(name, *columns)


def _cut(column: Any, least: int = -FAR, most: int = FAR) -> Any:
    # `greatest` and `least` skip null, but null must stay null.
    return F.when(column.isNotNull(), F.least(F.greatest(column, F.lit(least)), F.lit(most)).cast("int"))


def _clamp(number: int, least: int = -FAR, most: int = FAR) -> int:
    return max(least, min(most, number))


def _substring(text: str, position: int, length: int = FAR) -> str:
    """Source: UTF8String.substringSQL (Spark 4.2.0)."""
    position, length = _clamp(position), _clamp(length)
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = start + length
    return "" if end <= start else text[max(start, 0) : max(end, 0)]


def _substring_column(text: Any, position: Any, length: Any = None) -> Any:
    return F.substring(text, _cut(position), F.lit(FAR) if length is None else _cut(length))


def _right_column(text: Any, count: Any) -> Any:
    end = _substring_column(text, -_cut(count))
    return F.when(text.isNull() | count.isNull(), F.lit(None)).when(count <= 0, "").otherwise(end)


def _pad(text: str, width: int, pad: str, *, left: bool) -> str:
    width = _clamp(width, 0, WIDEST)
    missing = width - len(text)
    if missing <= 0 or not pad:
        return text[:width]
    filler = (pad * (missing // len(pad) + 1))[:missing]
    return filler + text if left else text + filler


def _pad_column(name: str) -> Callable[..., Any]:
    def column(text: Any, width: Any, pad: Any = None) -> Any:
        return F.call_function(name, text, _cut(width, 0, WIDEST), F.lit(" ") if pad is None else pad)

    return column


def _not_ascii(text: Any) -> Any:
    return F.octet_length(text) != F.char_length(text)


def _sha2(text: str, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, _data(text)).hexdigest()


def _data(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _require_bigint(number: float) -> int:
    if not -(2.0**63) <= number < 2.0**63:
        raise DataException(f"{number} is beyond BIGINT")
    return int(number)


def _too_wide(number: Any) -> Any:
    return F.isnan(number.cast("double")) | (F.abs(number.cast("double")) >= F.lit(9.2e18))


def _absolute(number: float) -> float:
    if number == -(2**63) and isinstance(number, int):
        raise DataException(f"{number} has no positive counterpart in BIGINT")
    return abs(number)


def _extreme(sign: int) -> Callable[..., Any]:
    def value(*values: Any) -> Any:
        extreme = None
        for each in values:
            if each is not None and (extreme is None or compare(each, extreme) * sign > 0):
                extreme = each
        return extreme

    return value


def _join(separator: str | None, *texts: str | None) -> str | None:
    return None if separator is None else separator.join(each for each in texts if each is not None)


def _text_function(name: str, value: Callable[..., Any], **more: Any) -> Function:
    properties: dict[str, Any] = {
        "takes_kinds": (_TEXT,),
        "gives": Family.TEXT,
        "column": _built_in(name),
        "most": 1,
    }
    return Function(name=name, value=value, **{**properties, **more})


def _ascii(change: Callable[[str], str], name: str) -> Function:
    return _text_function(name, change, doubt=_not_ascii)


_ALL: Final = (
    _ascii(str.upper, "upper"),
    _ascii(str.lower, "lower"),
    _text_function("trim", lambda text: text.strip(" ")),
    _text_function("ltrim", lambda text: text.lstrip(" ")),
    _text_function("rtrim", lambda text: text.rstrip(" ")),
    _text_function("reverse", lambda text: text[::-1]),
    _text_function("length", len, gives=Family.WHOLE, column=lambda text: F.char_length(text).cast("bigint")),
    _text_function("concat", lambda *texts: "".join(texts), most=None),
    _text_function("concat_ws", _join, most=None, nulls=True),
    _text_function(
        "substring", _substring, takes_kinds=(_TEXT, _INTEGER), least=2, most=3, column=_substring_column
    ),
    _text_function(
        "left",
        lambda text, count: _substring(text, 1, count),
        takes_kinds=(_TEXT, _INTEGER),
        least=2,
        most=2,
        column=lambda text, count: _substring_column(text, F.lit(1), count),
    ),
    _text_function(
        "right",
        lambda text, count: "" if count <= 0 else _substring(text, -_clamp(count)),
        takes_kinds=(_TEXT, _INTEGER),
        least=2,
        most=2,
        column=_right_column,
    ),
    _text_function(
        "replace",
        lambda text, old, new="": text.replace(old, new) if old else text,
        least=2,
        most=3,
        column=lambda text, old, *new: F.call_function("replace", text, old, *(new or (F.lit(""),))),
    ),
    _text_function(
        "lpad",
        lambda text, width, pad=" ": _pad(text, width, pad, left=True),
        takes_kinds=(_TEXT, _INTEGER, _TEXT),
        least=2,
        most=3,
        column=_pad_column("lpad"),
    ),
    _text_function(
        "rpad",
        lambda text, width, pad=" ": _pad(text, width, pad, left=False),
        takes_kinds=(_TEXT, _INTEGER, _TEXT),
        least=2,
        most=3,
        column=_pad_column("rpad"),
    ),
    _text_function(
        "instr",
        lambda text, part: text.find(part) + 1,
        gives=Family.WHOLE,
        least=2,
        most=2,
        column=lambda text, part: F.call_function("instr", text, part).cast("bigint"),
    ),
    _text_function("startswith", str.startswith, gives=Family.BOOLEAN, least=2, most=2),
    _text_function("endswith", str.endswith, gives=Family.BOOLEAN, least=2, most=2),
    _text_function("contains", lambda text, part: part in text, gives=Family.BOOLEAN, least=2, most=2),
    _text_function("md5", lambda text: hashlib.md5(_data(text), usedforsecurity=False).hexdigest()),
    _text_function("sha1", lambda text: hashlib.sha1(_data(text), usedforsecurity=False).hexdigest()),
    _text_function(
        "sha2",
        _sha2,
        takes_kinds=(_TEXT, _INTEGER),
        least=2,
        most=2,
        column=lambda text, bits: F.call_function("sha2", text, _cut(bits)),
    ),
    Function(
        name="abs",
        takes_kinds=(NUMBERS,),
        gives=None,
        most=1,
        value=_absolute,
        column=lambda number: F.when(number < 0, -number).otherwise(F.abs(number)),
        doubt=_too_wide,
    ),
    Function(
        name="ceil",
        takes_kinds=(NUMBERS,),
        gives=Family.WHOLE,
        most=1,
        value=lambda number: number if isinstance(number, int) else _require_bigint(_round_finite(number, math.ceil)),
        column=lambda number: F.call_function("ceil", number),
        doubt=_too_wide,
    ),
    Function(
        name="floor",
        takes_kinds=(NUMBERS,),
        gives=Family.WHOLE,
        most=1,
        value=lambda number: number if isinstance(number, int) else _require_bigint(_round_finite(number, math.floor)),
        column=lambda number: F.call_function("floor", number),
        doubt=_too_wide,
    ),
    Function(
        name="coalesce",
        takes_kinds=((*PLAIN, Family.OTHER),),
        gives=None,
        nulls=True,
        value=lambda *given: next((each for each in given if each is not None), None),
        column=_built_in("coalesce"),
    ),
    Function(
        name="greatest",
        takes_kinds=(PLAIN,),
        gives=None,
        least=2,
        nulls=True,
        value=_extreme(1),
        column=_built_in("greatest"),
    ),
    Function(
        name="least", takes_kinds=(PLAIN,), gives=None, least=2, nulls=True, value=_extreme(-1),
        column=_built_in("least"),
    ),
    Function(
        name="if", takes_kinds=(PLAIN,), gives=None, least=3, most=3, value=lambda *_: None, column=lambda *_: None
    ),
    Function(
        name="nullif", takes_kinds=(PLAIN,), gives=None, least=2, most=2, value=lambda *_: None, column=lambda *_: None
    ),
)  # fmt: skip


def _round_finite(number: float, whole: Callable[[float], int]) -> float:
    return whole(number) if math.isfinite(number) else number


FUNCTIONS: Final[Mapping[str, Function]] = {
    **{each.name: each for each in _ALL},
    **{
        other: next(each for each in _ALL if each.name == name)
        for other, name in {
            "ucase": "upper", "lcase": "lower", "substr": "substring", "char_length": "length", "ceiling": "ceil",
            "nvl": "coalesce", "ifnull": "coalesce", "sha": "sha1",
        }.items()
    },
}  # fmt: skip
"""By name, in lower case."""


def function_names() -> str:
    """Return the names of all functions, for a message."""
    return ", ".join(sorted([*FUNCTIONS, "cast"]))
