"""Builds expressions as Spark columns, and marks the rows that only the record path can compute.

Operations that can fail are replaced by variants that return null instead of failing. Rows in which a variant returns
such a null are marked as in doubt, and the record path evaluates these rows again. The record path raises the error
unless the operation is in a branch that is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any, Final

from kraal.engine.columns.functions import F
from kraal.engine.columns.parts import SPARK_TYPES
from kraal.plugins.model.columns import ByRecords
from kraal.plugins.model.schema import Schema, Type
from kraal.transforms.sql.functions import FUNCTIONS, Family, Function
from kraal.transforms.sql.syntax import Call, Case, Cast, Literal, Node, Reference
from kraal.transforms.sql.typed import infer_family, infer_schema
from kraal.transforms.sql.values import BITS, infer_operator_family

_WIDE_TYPES: Final[Mapping[Family, str]] = {Family.INTEGER: "bigint", Family.DOUBLE: "double"}
_TRY_FUNCTIONS: Final = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide"}
_INTEGER_PATTERN: Final = r"\A-?[0-9]{1,18}\z"
_SAFE_BOOLEAN_PATTERN: Final = r"\A(true|false)\z"


class Builder:
    """Builds the columns of expressions for one record schema. Must be used on a thread that may use Spark."""

    def __init__(self, schema: Schema, read: Callable[[tuple[str, ...]], Any]) -> None:
        self._schema = schema
        self._read = read
        self.doubts: list[Any] = []
        """Columns that are true for rows in doubt."""

    def build_result(self, node: Node) -> Any:
        """Return the column of an expression, with the type of its schema."""
        column = self._build(node)
        if isinstance(node, Reference):
            return self._read(node.path)
        return column.cast(SPARK_TYPES[infer_schema(node, self._schema).type])

    def _infer_family(self, node: Node) -> Family:
        return infer_family(node, self._schema)

    def _build(self, node: Node) -> Any:
        match node:
            case Literal(value):
                literal = F.lit(value)
                wide_type = _WIDE_TYPES.get(self._infer_family(node))
                return literal if wide_type is None else literal.cast(wide_type)
            case Reference(path):
                column = self._read(path)
                wide_type = _WIDE_TYPES.get(self._infer_family(node))
                return column if wide_type is None else column.cast(wide_type)
            case Cast(inner, kind):
                return self._build_cast(self._build(inner), self._infer_family(inner), kind)
            case Case(branches, otherwise):
                pairs = [(self._build(condition), self._build(then)) for condition, then in branches]
                column = F.when(*pairs[0])
                for condition, then in pairs[1:]:
                    column = column.when(condition, then)
                return column.otherwise(self._build(otherwise))
            case Call(name, arguments):
                function = FUNCTIONS.get(name)
                if function is not None:
                    return self._build_function(function, [self._build(argument) for argument in arguments])
                return self._build_operator(name, arguments)

    def _build_function(self, function: Function, columns: list[Any]) -> Any:
        if function.doubt is not None:
            self.doubts.append(function.doubt(*columns))
        return function.column(*columns)

    def _build_operator(self, name: str, arguments: tuple[Node, ...]) -> Any:
        columns = [self._build(operand) for operand in arguments]
        match name, columns:
            case "IS NULL", [value]:
                return value.isNull()
            case "NOT", [value]:
                return ~value
            case "AND", _:
                return reduce(and_, columns)
            case "OR", _:
                return reduce(or_, columns)
            case "LIKE", [value, _]:
                pattern = arguments[1]
                return value.like(pattern.value if isinstance(pattern, Literal) else "")
            case _:
                pass
        families = [self._infer_family(operand) for operand in arguments]
        family = infer_operator_family(name, families)
        if name == "NEGATIVE":
            return (
                -columns[0]
                if family is Family.DOUBLE
                else self._build_checked("-", [F.lit(0).cast("bigint"), *columns])
            )
        if Family.DOUBLE in (family, *families):
            columns = [operand.cast("double") for operand in columns]
        if name in _TRY_FUNCTIONS:
            return self._build_checked(name, columns)
        left, right = columns
        if name == "%":
            self.doubts.append(right == F.lit(0))
            return F.when(right != F.lit(0), left % right)
        return {
            "=": left == right,
            "<>": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[name]

    def _build_checked(self, name: str, columns: list[Any]) -> Any:
        """Return the result of an operation, null on overflow, and mark rows with an overflow as in doubt."""
        result = F.call_function(_TRY_FUNCTIONS[name], *columns)
        self.doubts.append(columns[0].isNotNull() & columns[1].isNotNull() & result.isNull())
        return result

    def _build_cast(self, column: Any, source: Family, kind: Type) -> Any:
        if (source is Family.DOUBLE and kind is Type.STRING) or (
            source is Family.TEXT and kind is Type.FLOAT64
        ):
            raise ByRecords  # only the record path formats and parses numbers like Java
        if source is Family.TEXT and kind is not Type.STRING:
            safe_pattern = _INTEGER_PATTERN if kind in BITS else _SAFE_BOOLEAN_PATTERN
            self.doubts.append(~column.rlike(safe_pattern))
            column = F.when(column.rlike(safe_pattern), column)
        if source is Family.DOUBLE and kind in BITS:
            self.doubts.append(F.isnan(column) | (F.abs(column) >= F.lit(9.2e18)))
        result = column.try_cast(SPARK_TYPES[kind])
        self.doubts.append(column.isNotNull() & result.isNull())
        return result
