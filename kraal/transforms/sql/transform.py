"""SQL: computes fields by Spark SQL expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from typing_extensions import override

from kraal.config.checks import one_of, rule
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.engine.columns.functions import F
from kraal.engine.columns.parts import make_column
from kraal.plugins.api import Transformation
from kraal.plugins.model.columns import ByRecords, Columns, Part
from kraal.plugins.model.records import DataException, Record, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.transforms.common.base import REPLACE_NULL, VERSION, PerSchema, replace_null_key, settings
from kraal.transforms.common.column_parts import build_struct, fields_read, with_default
from kraal.transforms.common.structs import read, require_map, require_struct, struct, struct_schema
from kraal.transforms.sql.columns import Builder
from kraal.transforms.sql.functions import function_names
from kraal.transforms.sql.syntax import Node, Reference, parse
from kraal.transforms.sql.tokens import SqlError
from kraal.transforms.sql.typed import infer_schema
from kraal.transforms.sql.values import Compute, evaluator

_PURPOSE: Final = "SQL expressions"
EXPRESSIONS: Final = "expressions"
OF: Final = "of"


@rule("expressions with names, as after SELECT: `price * amount AS total, upper(name) AS name`")
def _expressions(name: str, value: object) -> str | None:
    try:
        parse(str(value or ""))
    except SqlError as exc:
        return f"Invalid value {value} for configuration {name}: {exc}"
    return None


class SQL(Transformation):
    """Computes fields of a key or value by Spark SQL expressions. Not in Connect.

    Expressions see the original fields; results replace existing fields or are appended.
    """

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name=EXPRESSIONS,
                type=ConfigType.STRING,
                validator=_expressions,
                importance=Importance.HIGH,
                doc="Expressions to compute, as after SELECT: price * amount AS total, upper(name) AS name. Operators: "
                "+ - * / % || = <> < <= > >= AND OR NOT IN BETWEEN LIKE IS NULL CASE CAST. Whole numbers are BIGINT, "
                f"all others DOUBLE, and an overflow is an error. Functions: {function_names()}.",
            ),
            Key(
                name=OF,
                type=ConfigType.STRING,
                default="value",
                validator=one_of("value", "key"),
                importance=Importance.MEDIUM,
                doc="Whether the fields belong to the value or to the key.",
            ),
            replace(replace_null_key("SQL"), source=""),
        ]
    )

    def __init__(self) -> None:
        self._is_key = False
        self._replace_null = True
        self._nodes: dict[str, Node] = {}
        self._config: dict[str, str] = {}
        self._computed: dict[str, Compute] = {}
        self._schemas = PerSchema(self._new_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = settings(self.config_def, config)
        self._is_key = values[OF] == "key"
        self._replace_null = values[REPLACE_NULL]
        self._config = dict(config)
        self._nodes = parse(values[EXPRESSIONS])
        self._computed = {name: evaluator(node) for name, node in self._nodes.items()}

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as config, because compiled expressions cannot be pickled."""
        return _configure, (self._config,)

    @override
    def apply(self, record: Record) -> Record:
        is_key = self._is_key
        schema, value = (record.key_schema, record.key) if is_key else (record.value_schema, record.value)
        if value is None:
            return record
        if schema is None:
            whole = require_map(value, _PURPOSE)
            return self._with(record, None, {**whole, **self._results(partial(_member, whole))})
        old = require_struct(value, _PURPOSE, schema)
        changed = self._schemas(old.schema)
        values = {
            field.name: read(old, field, replace_null=self._replace_null)
            for field in old.schema.fields
            if field.name not in self._nodes
        }
        values |= self._results(partial(_field, old, self._replace_null))
        return self._with(record, changed, struct(changed, values))

    def _results(self, reading: Any) -> dict[str, Any]:
        results = {}
        for name, compute in self._computed.items():
            try:
                results[name] = compute(reading)
            except DataException as exc:
                raise DataException(f"SQL, {name}: {exc}") from exc
        return results

    def _with(self, record: Record, schema: Schema | None, value: Any) -> Record:
        if self._is_key:
            return replace(record, key_schema=schema, key=value)
        return replace(record, value_schema=schema, value=value)

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = given.part(is_key=self._is_key)
        schema = part.schema
        if schema is None:
            return given if part.is_nothing else None
        fields, doubts = fields_read(part, replace_null=self._replace_null)
        changed = self._schemas(schema)
        shaped = {field.name: field.schema for field in changed.fields}
        new = {}
        for name, node in self._nodes.items():
            if isinstance(node, Reference):
                source = _part_at(fields, node.path, replace_null=self._replace_null)
                new[name] = replace(source, schema=shaped[name])
                continue
            reading = partial(_column_at, dict(fields), self._replace_null)
            new[name] = Part(schema=shaped[name], expression=partial(_result, schema, reading, node))
            doubts = (*doubts, partial(_doubt, schema, reading, node))
        whole, more = build_struct(changed, {**fields, **new})
        return given.with_part(whole, (*doubts, *more), is_key=self._is_key)

    def _new_schema(self, schema: Schema) -> Schema:
        """Return the schema with the computed fields. Raises DataException for expressions that do not fit it."""
        if schema.type is not Type.STRUCT:
            raise DataException(f"Only Struct objects supported for [{_PURPOSE}], found: {schema.type.name}")
        schemas = {}
        for name, node in self._nodes.items():
            try:
                schemas[name] = infer_schema(node, schema)
            except DataException as exc:
                raise DataException(f"SQL, {name}: {exc}") from exc
        fields = [replace(each, schema=schemas.pop(each.name, each.schema)) for each in schema.fields]
        fields += [Field(name=name, schema=kind) for name, kind in schemas.items()]
        return struct_schema(schema, fields)


def _configure(config: Mapping[str, str]) -> SQL:
    transform = SQL()
    transform.configure(config)
    return transform


def _member(whole: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return a member of a schemaless object, or None if it is missing."""
    value: Any = whole
    for name in path:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise DataException(f"{'.'.join(path)}: there are no fields in it")
        value = value.get(name)
    return value


def _field(whole: Struct, replace_null: bool, path: tuple[str, ...]) -> Any:  # noqa: FBT001 - bound by partial
    value: Any = whole
    for name in path:
        if value is None:
            return None
        field = next(each for each in value.schema.fields if each.name == name)
        value = read(value, field, replace_null=replace_null)
    return value


def _part_at(fields: Mapping[str, Part], path: tuple[str, ...], *, replace_null: bool) -> Part:
    part = fields[path[0]]
    for name in path[1:]:
        if part.schema is None:
            raise ByRecords
        field = next(each for each in part.schema.fields if each.name == name)
        if field.schema.default is not None and not part.sure:
            raise ByRecords  # a missing struct has no defaults for its fields
        part = with_default(part.field(field), replace_null=replace_null)
    return part


def _column_at(fields: Mapping[str, Part], replace_null: bool, path: tuple[str, ...]) -> Any:  # noqa: FBT001 - as above
    return make_column(_part_at(fields, path, replace_null=replace_null))


def _result(schema: Schema, reading: Any, node: Node) -> Any:
    return Builder(schema, reading).result(node)


def _doubt(schema: Schema, reading: Any, node: Node) -> Any:
    builder = Builder(schema, reading)
    builder.result(node)
    condition = F.lit(False)  # noqa: FBT003 - Spark's literal
    for each in builder.doubts:
        condition = condition | each
    return condition
