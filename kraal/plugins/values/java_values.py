"""Java's view of Connect's values: class names, `toString`, 32-bit floats.

A value's schema and Python type determine its Java class (see `kraal.plugins.model.records`). Times are formatted as in
a JVM whose time zone is UTC.
Source: `toString` of Double, Float, BigDecimal, AbstractMap, AbstractCollection and java.util.Date (Java 19 and
later, which uses as few digits as possible for floats), Struct.toString (Kafka 4.4.0).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from kraal.plugins.model.records import Float32, Instant, Struct
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.java_time import format_date

_FLOAT: Final = struct.Struct("<f")
_PLAIN_FROM: Final = 1e-3
_PLAIN_TO: Final = 1e7
"""Java formats floats between these limits without an exponent."""

_INFINITE: Final = (float("inf"), float("-inf"))
_MAX_FLOAT: Final = float(2**128 - 2**104)
_FLOAT_OVERFLOW: Final = Decimal(2**128 - 2**103)
"""The smallest number that rounds to infinity in 32 bits."""

_INTEGERS: Final = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
}
_CLASSES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "java.lang.Boolean"),
    (str, "java.lang.String"),
    (bytes, "[B"),
    (Float32, "java.lang.Float"),
    (float, "java.lang.Double"),
    (list, "java.util.ArrayList"),
    (tuple, "java.util.ArrayList"),
    (dict, "java.util.HashMap"),
    (Struct, "org.apache.kafka.connect.data.Struct"),
    (Decimal, "java.math.BigDecimal"),
    (Instant, "java.util.Date"),
)


def java_class(value: Any, schema: Schema | None) -> str:
    """Return the name of the Java class that Connect uses for a non-null value; the Python name if there is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "java.lang.Long" if schema is None else _INTEGERS.get(schema.type, "java.lang.Long")
    return next((name for kind, name in _CLASSES if isinstance(value, kind)), type(value).__qualname__)


def float32(value: float) -> Float32:
    """Round to 32 bits; values that are too large become infinite."""
    try:
        return Float32(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return Float32(float("inf") if value > 0 else float("-inf"))


def exact_float32(exact: Decimal) -> Float32:
    """Round a decimal to 32 bits in one step; rounding to a double first would round midpoints twice."""
    double = float(exact)
    rounded = float32(double)
    if rounded in _INFINITE and exact.copy_abs() < _FLOAT_OVERFLOW:
        return float32(_MAX_FLOAT if exact > 0 else -_MAX_FLOAT)
    neighbor = 2 * double - rounded
    if rounded in (double, neighbor) or float32(neighbor) != neighbor or Decimal(double) == exact:
        return rounded
    return Float32(max(rounded, neighbor) if exact > Decimal(double) else min(rounded, neighbor))


def double_text(value: float) -> str:
    """Format a double like `Double.toString`."""
    if _PLAIN_FROM <= abs(value) < _PLAIN_TO or value == 0:
        return repr(value)
    if value != value or value in _INFINITE:  # noqa: PLR0124 - only NaN differs from itself
        return _non_finite_text(value)
    shortest_text = repr(value)
    two_digits = f"{value:.1e}"
    # Java uses at least two digits, and chooses the closest ones: 4.9E-324, not 5.0E-324.
    return _scientific_text(two_digits if float(two_digits) == value else shortest_text)


def float_text(value: float) -> str:
    """Format a value that is already rounded to 32 bits like `Float.toString`."""
    if value == 0:
        return repr(float(value))
    if value != value or value in _INFINITE:  # noqa: PLR0124 - as above
        return _non_finite_text(value)
    shortest_text = next(text for text in _candidates(value) if float32(float(text)) == value)
    if _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        digits_text = f"{Decimal(shortest_text):f}"
        integer_part, _, fraction = digits_text.partition(".")
        return f"{integer_part}.{fraction.rstrip('0') or '0'}"
    return _scientific_text(shortest_text)


def _candidates(value: float) -> Iterator[str]:
    """Yield the decimals of at least two digits that are closest to `value`, shortest first."""
    for digits in range(1, 10):
        text = f"{value:.{digits}e}"
        yield text
        mantissa, _, exponent = text.partition("e")
        step = Decimal(1).scaleb(-digits)
        yield f"{Decimal(mantissa) + step}e{exponent}"
        yield f"{Decimal(mantissa) - step}e{exponent}"


def _non_finite_text(value: float) -> str:
    if value > 0:
        return "Infinity"
    return "-Infinity" if value < 0 else "NaN"


def _scientific_text(text: str) -> str:
    sign, digits, exponent = Decimal(text).as_tuple()
    digits_text = "".join(map(str, digits)).rstrip("0") or "0"
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{digits_text[0]}.{digits_text[1:] or '0'}E{power}"


def java_text(value: Any) -> str:
    """Format a value like `toString`; None as `null`. Bytes, for which Java prints an address, are decoded as UTF-8."""
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Float32():
            return float_text(value)
        case float():
            return double_text(value)
        case bytes():
            return value.decode("utf-8", "replace")
        case Struct():
            fields = (
                (field.name, item)
                for field in value.schema.fields
                if (item := value.values.get(field.name)) is not None
            )
            return "Struct{" + ",".join(f"{name}={java_text(item)}" for name, item in fields) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(java_text, value)) + "]"
        case Mapping():
            return "{" + ", ".join(f"{java_text(key)}={java_text(item)}" for key, item in value.items()) + "}"
        case Instant():
            return format_date(value.ms)
        case _:
            return str(value)
