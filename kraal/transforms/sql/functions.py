"""Functions that expressions can call, implemented for single values and as Spark columns.

Only the functions in `FUNCTIONS` are allowed. Each function has two implementations, because records that contain
their schemas do not pass through Spark plans. A test compares the two implementations. If Spark's result depends on the
version of Java or Unicode, a column marks the affected rows, which the record path evaluates.

As in Spark, the result for a null argument is null unless noted. Integers are BIGINT, other numbers DOUBLE.
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
    """Return -1, 0 or 1 if `left` is less than, equal to or greater than `right`.

    Both values must be numbers or of one family. As in Spark, NaN equals itself and is greater than all numbers, 0
    equals -0, and strings are compared by bytes.
    """
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if left != left or right != right:  # noqa: PLR0124 - only NaN differs from itself
            return int(left != left) - int(right != right)  # noqa: PLR0124 - as above
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
"""Target types of CAST by their Spark name."""

MAX_POSITION: Final = 1_000_000_000
"""Maximum position and length in strings; larger values are clamped."""
MAX_PADDED_LENGTH: Final = 10_000
"""Maximum length of the results of lpad and rpad."""


class Family(StrEnum):
    """The family of types of a value in an expression."""

    TEXT = "text"
    INTEGER = "a whole number"
    DOUBLE = "a number with a fraction"
    BOOLEAN = "a boolean"
    NULL = "null"
    OTHER = "neither text, number nor boolean"


NUMBER_FAMILIES: Final = (Family.INTEGER, Family.DOUBLE)
PLAIN_FAMILIES: Final = (Family.TEXT, Family.INTEGER, Family.DOUBLE, Family.BOOLEAN)
_TEXT_FAMILIES: Final = (Family.TEXT,)
_INTEGER_FAMILIES: Final = (Family.INTEGER,)

Families = tuple[Family, ...]


def _get_first_family(families: Sequence[Family]) -> Family:
    return next((family for family in families if family is not Family.NULL), Family.NULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of expressions. `value` receives null arguments only if `accepts_nulls` is set."""

    name: str
    arg_families: tuple[Families, ...]
    """Allowed families of each argument; the last entry also applies to further arguments."""
    result_family: Family | None
    """Family of the result; None if it is the common family of the arguments."""
    value: Callable[..., Any]
    column: Callable[..., Any]
    doubt: Callable[..., Any] | None = None
    """Returns a column that is true for rows in which Spark's result may differ from that of `value`."""
    min_args: int = 1
    max_args: int | None = None
    accepts_nulls: bool = False

    def accepts_count(self, count: int) -> bool:
        """Return whether the function can be called with this number of arguments."""
        return self.min_args <= count and (self.max_args is None or count <= self.max_args)

    @property
    def argument_count(self) -> str:
        """The allowed number of arguments, in words."""
        if self.max_args is None:
            return f"at least {self.min_args} argument{'s' * (self.min_args > 1)}"
        is_fixed = self.min_args == self.max_args
        counts = str(self.min_args) if is_fixed else f"{self.min_args} or {self.max_args}"
        return f"{counts} argument{'s' * (self.max_args > 1)}"

    def infer_family(self, families: Sequence[Family]) -> Family:
        """Return the family of the result. Raises DataException for arguments of families that are not allowed."""
        for index, family in enumerate(families):
            allowed_families = self.arg_families[min(index, len(self.arg_families) - 1)]
            if family is not Family.NULL and family not in allowed_families:
                expected = " or ".join(allowed_families)
                raise DataException(
                    f"argument {index + 1} of {self.name} must be {expected}, but is {family}"
                )
        if self.result_family is not None:
            return self.result_family
        common_family = _get_first_family(families)
        for family in families:
            if family not in (common_family, Family.NULL):
                raise DataException(
                    f"the arguments of {self.name} must be of one type, but are {common_family} and {family}"
                )
        return common_family


def _get_built_in(name: str) -> Callable[..., Any]:
    return lambda *columns: F.call_function(name, *columns)


def _clamp_column(column: Any, low: int = -MAX_POSITION, high: int = MAX_POSITION) -> Any:
    # `greatest` and `least` skip null, but null must stay null.
    return F.when(column.isNotNull(), F.least(F.greatest(column, F.lit(low)), F.lit(high)).cast("int"))


def _clamp(number: int, low: int = -MAX_POSITION, high: int = MAX_POSITION) -> int:
    return max(low, min(high, number))


def _substring(text: str, position: int, length: int = MAX_POSITION) -> str:
    """Return a substring like Spark. Source: UTF8String.substringSQL (Spark 4.2.0)."""
    position, length = _clamp(position), _clamp(length)
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = start + length
    return "" if end <= start else text[max(start, 0) : max(end, 0)]


def _make_substring_column(text: Any, position: Any, length: Any = None) -> Any:
    return F.substring(
        text, _clamp_column(position), F.lit(MAX_POSITION) if length is None else _clamp_column(length)
    )


def _make_right_column(text: Any, count: Any) -> Any:
    result = _make_substring_column(text, -_clamp_column(count))
    return F.when(text.isNull() | count.isNull(), F.lit(None)).when(count <= 0, "").otherwise(result)


def _pad(text: str, width: int, pad: str, *, pads_left: bool) -> str:
    width = _clamp(width, 0, MAX_PADDED_LENGTH)
    missing_count = width - len(text)
    if missing_count <= 0 or not pad:
        return text[:width]
    filler = (pad * (missing_count // len(pad) + 1))[:missing_count]
    return filler + text if pads_left else text + filler


def _make_pad_function(name: str) -> Callable[..., Any]:
    def column(text: Any, width: Any, pad: Any = None) -> Any:
        width_column = _clamp_column(width, 0, MAX_PADDED_LENGTH)
        return F.call_function(name, text, width_column, F.lit(" ") if pad is None else pad)

    return column


def _make_non_ascii_condition(text: Any) -> Any:
    return F.octet_length(text) != F.char_length(text)


def _sha2(text: str, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, _encode(text)).hexdigest()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _require_bigint(number: float) -> int:
    if not -(2.0**63) <= number < 2.0**63:
        raise DataException(f"{number} is out of range for BIGINT")
    return int(number)


def _may_exceed_bigint(number: Any) -> Any:
    return F.isnan(number.cast("double")) | (F.abs(number.cast("double")) >= F.lit(9.2e18))


def _abs(number: float) -> float:
    if number == -(2**63) and isinstance(number, int):
        raise DataException(f"the absolute value of {number} is out of range for BIGINT")
    return abs(number)


def _make_extreme(sign: int) -> Callable[..., Any]:
    def value(*values: Any) -> Any:
        extreme = None
        for item in values:
            if item is not None and (extreme is None or compare(item, extreme) * sign > 0):
                extreme = item
        return extreme

    return value


def _join(separator: str | None, *texts: str | None) -> str | None:
    return None if separator is None else separator.join(text for text in texts if text is not None)


def _make_text_function(name: str, value: Callable[..., Any], **overrides: Any) -> Function:
    properties: dict[str, Any] = {
        "arg_families": (_TEXT_FAMILIES,),
        "result_family": Family.TEXT,
        "column": _get_built_in(name),
        "max_args": 1,
    }
    return Function(name=name, value=value, **{**properties, **overrides})


def _make_ascii_function(change: Callable[[str], str], name: str) -> Function:
    return _make_text_function(name, change, doubt=_make_non_ascii_condition)


_FUNCTION_LIST: Final = (
    _make_ascii_function(str.upper, "upper"),
    _make_ascii_function(str.lower, "lower"),
    _make_text_function("trim", lambda text: text.strip(" ")),
    _make_text_function("ltrim", lambda text: text.lstrip(" ")),
    _make_text_function("rtrim", lambda text: text.rstrip(" ")),
    _make_text_function("reverse", lambda text: text[::-1]),
    _make_text_function(
        "length", len, result_family=Family.INTEGER, column=lambda text: F.char_length(text).cast("bigint"),
    ),
    _make_text_function("concat", lambda *texts: "".join(texts), max_args=None),
    _make_text_function("concat_ws", _join, max_args=None, accepts_nulls=True),
    _make_text_function(
        "substring",
        _substring,
        arg_families=(_TEXT_FAMILIES, _INTEGER_FAMILIES),
        min_args=2,
        max_args=3,
        column=_make_substring_column,
    ),
    _make_text_function(
        "left",
        lambda text, count: _substring(text, 1, count),
        arg_families=(_TEXT_FAMILIES, _INTEGER_FAMILIES),
        min_args=2,
        max_args=2,
        column=lambda text, count: _make_substring_column(text, F.lit(1), count),
    ),
    _make_text_function(
        "right",
        lambda text, count: "" if count <= 0 else _substring(text, -_clamp(count)),
        arg_families=(_TEXT_FAMILIES, _INTEGER_FAMILIES),
        min_args=2,
        max_args=2,
        column=_make_right_column,
    ),
    _make_text_function(
        "replace",
        lambda text, old, new="": text.replace(old, new) if old else text,
        min_args=2,
        max_args=3,
        column=lambda text, old, *new: F.call_function("replace", text, old, *(new or (F.lit(""),))),
    ),
    _make_text_function(
        "lpad",
        lambda text, width, pad=" ": _pad(text, width, pad, pads_left=True),
        arg_families=(_TEXT_FAMILIES, _INTEGER_FAMILIES, _TEXT_FAMILIES),
        min_args=2,
        max_args=3,
        column=_make_pad_function("lpad"),
    ),
    _make_text_function(
        "rpad",
        lambda text, width, pad=" ": _pad(text, width, pad, pads_left=False),
        arg_families=(_TEXT_FAMILIES, _INTEGER_FAMILIES, _TEXT_FAMILIES),
        min_args=2,
        max_args=3,
        column=_make_pad_function("rpad"),
    ),
    _make_text_function(
        "instr",
        lambda text, part: text.find(part) + 1,
        result_family=Family.INTEGER,
        min_args=2,
        max_args=2,
        column=lambda text, part: F.call_function("instr", text, part).cast("bigint"),
    ),
    _make_text_function("startswith", str.startswith, result_family=Family.BOOLEAN, min_args=2, max_args=2),
    _make_text_function("endswith", str.endswith, result_family=Family.BOOLEAN, min_args=2, max_args=2),
    _make_text_function(
        "contains", lambda text, part: part in text, result_family=Family.BOOLEAN, min_args=2, max_args=2
    ),
    _make_text_function("md5", lambda text: hashlib.md5(_encode(text), usedforsecurity=False).hexdigest()),
    _make_text_function("sha1", lambda text: hashlib.sha1(_encode(text), usedforsecurity=False).hexdigest()),
    _make_text_function(
        "sha2",
        _sha2,
        arg_families=(_TEXT_FAMILIES, _INTEGER_FAMILIES),
        min_args=2,
        max_args=2,
        column=lambda text, bits: F.call_function("sha2", text, _clamp_column(bits)),
    ),
    Function(
        name="abs",
        arg_families=(NUMBER_FAMILIES,),
        result_family=None,
        max_args=1,
        value=_abs,
        column=lambda number: F.when(number < 0, -number).otherwise(F.abs(number)),
        doubt=_may_exceed_bigint,
    ),
    Function(
        name="ceil",
        arg_families=(NUMBER_FAMILIES,),
        result_family=Family.INTEGER,
        max_args=1,
        value=lambda number: number if isinstance(number, int) else _require_bigint(_round_finite(number, math.ceil)),
        column=lambda number: F.call_function("ceil", number),
        doubt=_may_exceed_bigint,
    ),
    Function(
        name="floor",
        arg_families=(NUMBER_FAMILIES,),
        result_family=Family.INTEGER,
        max_args=1,
        value=lambda number: number if isinstance(number, int) else _require_bigint(_round_finite(number, math.floor)),
        column=lambda number: F.call_function("floor", number),
        doubt=_may_exceed_bigint,
    ),
    Function(
        name="coalesce",
        arg_families=((*PLAIN_FAMILIES, Family.OTHER),),
        result_family=None,
        accepts_nulls=True,
        value=lambda *values: next((value for value in values if value is not None), None),
        column=_get_built_in("coalesce"),
    ),
    Function(
        name="greatest",
        arg_families=(PLAIN_FAMILIES,),
        result_family=None,
        min_args=2,
        accepts_nulls=True,
        value=_make_extreme(1),
        column=_get_built_in("greatest"),
    ),
    Function(
        name="least", arg_families=(PLAIN_FAMILIES,), result_family=None, min_args=2, accepts_nulls=True,
        value=_make_extreme(-1), column=_get_built_in("least"),
    ),
    Function(
        name="if", arg_families=(PLAIN_FAMILIES,), result_family=None, min_args=3, max_args=3,
        value=lambda *_: None, column=lambda *_: None,
    ),
    Function(
        name="nullif", arg_families=(PLAIN_FAMILIES,), result_family=None, min_args=2, max_args=2,
        value=lambda *_: None, column=lambda *_: None,
    ),
)  # fmt: skip


def _round_finite(number: float, round_number: Callable[[float], int]) -> float:
    return round_number(number) if math.isfinite(number) else number


FUNCTIONS: Final[Mapping[str, Function]] = {
    **{function.name: function for function in _FUNCTION_LIST},
    **{
        alias: next(function for function in _FUNCTION_LIST if function.name == name)
        for alias, name in {
            "ucase": "upper", "lcase": "lower", "substr": "substring", "char_length": "length", "ceiling": "ceil",
            "nvl": "coalesce", "ifnull": "coalesce", "sha": "sha1",
        }.items()
    },
}  # fmt: skip
"""Functions by name, in lower case."""


def list_function_names() -> str:
    """Return the names of all functions, comma-separated."""
    return ", ".join(sorted([*FUNCTIONS, "cast"]))
