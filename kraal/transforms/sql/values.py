"""Evaluates expressions on single values with Spark's ANSI rules: overflow is an error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Type
from kraal.plugins.values.java_values import double_text
from kraal.transforms.sql.functions import FUNCTIONS, NUMBER_FAMILIES, Family, compare
from kraal.transforms.sql.syntax import Call, Case, Cast, Literal, Node, Reference

Read = Callable[[tuple[str, ...]], Any]
"""Returns the value of a field by its path. Raises DataException if the field does not exist."""
Compute = Callable[[Read], Any]

BITS: Final[Mapping[Type, int]] = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
SQL_NAMES: Final[Mapping[Type, str]] = {
    Type.INT8: "TINYINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INT",
    Type.INT64: "BIGINT",
    Type.FLOAT64: "DOUBLE",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "STRING",
}
_BLANKS: Final = "".join(map(chr, range(0x21))) + "\x7f"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TRUE_TEXTS: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE_TEXTS: Final = frozenset({"f", "false", "n", "no", "0"})
_ARITHMETIC_OPERATORS: Final = ("+", "-", "*", "/", "%")
_COMPARISONS: Final[Mapping[str, Callable[[int], bool]]] = {
    "=": lambda sign: sign == 0,
    "<>": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}


def get_value_family(value: Any) -> Family:
    """Return the family of a value."""
    match value:
        case None:
            return Family.NULL
        case bool():
            return Family.BOOLEAN
        case int():
            return Family.INTEGER
        case float():
            return Family.DOUBLE
        case str():
            return Family.TEXT
        case _:
            return Family.OTHER


def infer_operator_family(name: str, operand_families: list[Family]) -> Family:
    """Return the family of the result of an operator. Raises DataException for invalid operands."""
    families = [family for family in operand_families if family is not Family.NULL]
    if name == "IS NULL":
        return Family.BOOLEAN
    if name in ("AND", "OR", "NOT"):
        allowed_families: tuple[Family, ...] = (Family.BOOLEAN,)
    elif name == "LIKE":
        allowed_families = (Family.TEXT,)
    elif name == "%":
        allowed_families = (Family.INTEGER,)
    elif name in (*_ARITHMETIC_OPERATORS, "NEGATIVE"):
        allowed_families = NUMBER_FAMILIES
    else:
        allowed_families = (
            NUMBER_FAMILIES if any(family in NUMBER_FAMILIES for family in families) else tuple(families[:1])
        )
    for family in families:
        if family not in allowed_families or family is Family.OTHER:
            expected = " or ".join(allowed_families)
            raise DataException(f"{name} requires {expected}, but an operand is {family}; use CAST")
    if name not in (*_ARITHMETIC_OPERATORS, "NEGATIVE"):
        return Family.BOOLEAN
    if name == "/":
        return Family.DOUBLE
    return Family.DOUBLE if Family.DOUBLE in families else Family.INTEGER


def compile_node(node: Node) -> Compute:
    """Return a function that evaluates an expression. The function raises DataException."""
    match node:
        case Literal(value):
            return lambda _: value
        case Reference(path):
            return lambda read: _to_plain_float(read(path))
        case Cast(inner, kind):
            compute_inner = compile_node(inner)
            return lambda read: cast(compute_inner(read), kind)
        case Case(branches, otherwise):
            pairs = [(compile_node(condition), compile_node(then)) for condition, then in branches]
            return _compile_case(pairs, compile_node(otherwise))
        case Call(name, arguments):
            return _compile_call(name, [compile_node(argument) for argument in arguments])


def _to_plain_float(value: Any) -> Any:
    return float(value) if isinstance(value, float) else value


def _compile_case(pairs: list[tuple[Compute, Compute]], otherwise: Compute) -> Compute:
    def compute(read: Read) -> Any:
        for condition, then in pairs:
            is_true = condition(read)
            infer_operator_family("NOT", [get_value_family(is_true)])
            if is_true:
                return then(read)
        return otherwise(read)

    return compute


def _compile_call(name: str, arguments: list[Compute]) -> Compute:
    if name in FUNCTIONS:
        return _compile_function(name, arguments)
    if name == "AND":
        return lambda read: _evaluate_junction(read, arguments, deciding_value=False)
    if name == "OR":
        return lambda read: _evaluate_junction(read, arguments, deciding_value=True)
    if name == "IS NULL":
        return lambda read: arguments[0](read) is None
    if name == "LIKE":
        return _compile_like(*arguments)

    def compute(read: Read) -> Any:
        values = [argument(read) for argument in arguments]
        family = infer_operator_family(name, [get_value_family(value) for value in values])
        return None if None in values else _apply_operator(name, values, family)

    return compute


def _compile_function(name: str, arguments: list[Compute]) -> Compute:
    function = FUNCTIONS[name]

    def compute(read: Read) -> Any:
        if name == "coalesce":  # arguments after the first non-null value are not evaluated
            return next((value for argument in arguments if (value := argument(read)) is not None), None)
        values = [argument(read) for argument in arguments]
        function.infer_family([get_value_family(value) for value in values])
        return None if not function.accepts_nulls and None in values else function.value(*values)

    return compute


def _evaluate_junction(read: Read, arguments: list[Compute], *, deciding_value: bool) -> bool | None:
    result: bool | None = not deciding_value
    for argument in arguments:
        value = argument(read)
        infer_operator_family("AND", [get_value_family(value)])
        if value is deciding_value:
            return value is True
        result = None if value is None else result
    return result


def _compile_like(text: Compute, pattern: Compute) -> Compute:
    matches = re.compile(_make_like_regex(pattern(lambda _: None)), re.DOTALL).fullmatch

    def compute(read: Read) -> bool | None:
        value = text(read)
        infer_operator_family("LIKE", [get_value_family(value)])
        return None if value is None else matches(value) is not None

    return compute


def _make_like_regex(pattern: str) -> str:
    """Return the regular expression for a LIKE pattern.

    The text between two `%` is searched once, from left to right; `.*a.*b.*c` would backtrack over all combinations.
    """
    parts = [""]
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        if part == "%":
            parts.append("")
        else:
            parts[-1] += "." if part == "_" else re.escape(part[-1])
    first_part, *inner_parts = parts
    if not inner_parts:
        return first_part
    return (
        first_part + "".join(f"(?>.*?{part})" for part in inner_parts[:-1] if part) + ".*" + inner_parts[-1]
    )


def _apply_operator(name: str, operands: list[Any], family: Family) -> Any:
    match name:
        case "NOT":
            return not operands[0]
        case "NEGATIVE":
            return _check_range(-operands[0], family)
        case "/":
            left, right = map(float, operands)
            if right == 0:
                raise DataException("division by zero")
            return _divide(left, right)
        case "%":
            if operands[1] == 0:
                raise DataException("division by zero")
            remainder = abs(operands[0]) % abs(operands[1])
            return -remainder if operands[0] < 0 else remainder
        case "+" | "-" | "*":
            left, right = map(float, operands) if family is Family.DOUBLE else operands
            return _check_range(
                left + right if name == "+" else left - right if name == "-" else left * right, family
            )
        case _:
            return _COMPARISONS[name](compare(*operands))


def _divide(left: float, right: float) -> float:
    if math.isinf(left) and math.isinf(right):
        return math.nan
    return left / right


def _check_range(number: Any, family: Family) -> Any:
    if family is Family.INTEGER and not -(2**63) <= number < 2**63:
        raise DataException(f"{number} is out of range for BIGINT")
    return number


def cast(value: Any, kind: Type) -> Any:
    """Cast a value to a type; null stays null. Raises DataException if the value cannot be cast."""
    family = get_value_family(value)
    if family is Family.NULL:
        return None
    if family is Family.OTHER:
        raise DataException(f"a value that is {family} cannot be CAST")
    if kind is Type.STRING:
        return _to_text(value)
    if isinstance(value, str):
        return _parse_text(value, kind)
    if kind is Type.BOOLEAN:
        return value != 0
    if kind is Type.FLOAT64:
        return float(value)
    return _to_integer(value, value, kind)


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return double_text(value) if isinstance(value, float) else str(value)


def _parse_text(text: str, kind: Type) -> Any:
    trimmed_text = text.strip(_BLANKS)
    if kind is Type.BOOLEAN and trimmed_text.lower() in _TRUE_TEXTS | _FALSE_TEXTS:
        return trimmed_text.lower() in _TRUE_TEXTS
    if kind is Type.FLOAT64 and _NUMBER.fullmatch(trimmed_text):
        return float(trimmed_text)
    if kind in BITS and _INTEGER.fullmatch(trimmed_text):
        return _to_integer(int(trimmed_text), text, kind)
    raise DataException(f"{text!r} cannot be cast to {SQL_NAMES[kind]}")


def _to_integer(number: float, original_value: Any, kind: Type) -> int:
    half = 1 << (BITS[kind] - 1)
    if not (math.isfinite(number) and -half <= int(number) < half):
        raise DataException(f"{original_value!r} is out of range for {SQL_NAMES[kind]}")
    return int(number)
