"""SQL: computes fields with Spark SQL expressions."""

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
from kraal.transforms.common.base import (
    REPLACE_NULL,
    VERSION,
    PerSchema,
    make_replace_null_key,
    parse_settings,
)
from kraal.transforms.common.column_parts import build_struct, read_fields, replace_null_by_default
from kraal.transforms.common.structs import make_struct, make_struct_schema, read, require_map, require_struct
from kraal.transforms.sql.columns import Builder
from kraal.transforms.sql.functions import list_function_names
from kraal.transforms.sql.syntax import Node, Reference, parse
from kraal.transforms.sql.tokens import SqlError
from kraal.transforms.sql.typed import infer_schema
from kraal.transforms.sql.values import Compute, compile_node

_PURPOSE: Final = "SQL expressions"
EXPRESSIONS: Final = "expressions"
OF: Final = "of"


@rule("expressions with names, as after SELECT: `price * amount AS total, upper(name) AS name`")
def _validate_expressions(name: str, value: object) -> str | None:
    try:
        parse(str(value or ""))
    except SqlError as exc:
        return f"Invalid value {value} for configuration {name}: {exc}"
    return None


class SQL(Transformation):
    """Computes fields of a key or value with Spark SQL expressions. Connect does not have this transform.

    Expressions read the original fields. A result replaces the field with the same name, or is appended.
    """

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name=EXPRESSIONS,
                type=ConfigType.STRING,
                validator=_validate_expressions,
                importance=Importance.HIGH,
                doc="Expressions to compute, as after SELECT: price * amount AS total, upper(name) AS name. Operators: "
                "+ - * / % || = <> < <= > >= AND OR NOT IN BETWEEN LIKE IS NULL CASE CAST. Whole numbers are BIGINT, "
                f"all others DOUBLE, and an overflow is an error. Functions: {list_function_names()}.",
            ),
            Key(
                name=OF,
                type=ConfigType.STRING,
                default="value",
                validator=one_of("value", "key"),
                importance=Importance.MEDIUM,
                doc="Whether the fields belong to the value or to the key.",
            ),
            replace(make_replace_null_key("SQL"), source=""),
        ]
    )

    def __init__(self) -> None:
        self._is_key = False
        self._replace_null = True
        self._nodes: dict[str, Node] = {}
        self._config: dict[str, str] = {}
        self._computations: dict[str, Compute] = {}
        self._schemas = PerSchema(self._make_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._is_key = values[OF] == "key"
        self._replace_null = values[REPLACE_NULL]
        self._config = dict(config)
        self._nodes = parse(values[EXPRESSIONS])
        self._computations = {name: compile_node(node) for name, node in self._nodes.items()}

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the config, because compiled expressions cannot be pickled."""
        return _from_config, (self._config,)

    @override
    def apply(self, record: Record) -> Record:
        is_key = self._is_key
        schema, value = (record.key_schema, record.key) if is_key else (record.value_schema, record.value)
        if value is None:
            return record
        if schema is None:
            obj = require_map(value, _PURPOSE)
            return self._with_part(record, None, {**obj, **self._compute_results(partial(_get_member, obj))})
        struct = require_struct(value, _PURPOSE, schema)
        new_schema = self._schemas(struct.schema)
        values = {
            field.name: read(struct, field, replace_null=self._replace_null)
            for field in struct.schema.fields
            if field.name not in self._nodes
        }
        values |= self._compute_results(partial(_get_field, struct, self._replace_null))
        return self._with_part(record, new_schema, make_struct(new_schema, values))

    def _compute_results(self, read_field: Any) -> dict[str, Any]:
        results = {}
        for name, compute in self._computations.items():
            try:
                results[name] = compute(read_field)
            except DataException as exc:
                raise DataException(f"SQL, {name}: {exc}") from exc
        return results

    def _with_part(self, record: Record, schema: Schema | None, value: Any) -> Record:
        if self._is_key:
            return replace(record, key_schema=schema, key=value)
        return replace(record, value_schema=schema, value=value)

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = given.part(is_key=self._is_key)
        schema = part.schema
        if schema is None:
            return given if part.is_nothing else None
        fields, doubts = read_fields(part, replace_null=self._replace_null)
        new_schema = self._schemas(schema)
        schemas_by_name = {field.name: field.schema for field in new_schema.fields}
        new_fields = {}
        for name, node in self._nodes.items():
            if isinstance(node, Reference):
                source = _get_part_at(fields, node.path, replace_null=self._replace_null)
                new_fields[name] = replace(source, schema=schemas_by_name[name])
                continue
            read_field = partial(_make_column_at, dict(fields), self._replace_null)
            new_fields[name] = Part(
                schema=schemas_by_name[name],
                expression=partial(_make_result_column, schema, read_field, node),
            )
            doubts = (*doubts, partial(_make_doubt_column, schema, read_field, node))
        struct, more_doubts = build_struct(new_schema, {**fields, **new_fields})
        return given.with_part(struct, (*doubts, *more_doubts), is_key=self._is_key)

    def _make_schema(self, schema: Schema) -> Schema:
        """Return the schema with the computed fields. Raises DataException for expressions with incompatible types."""
        if schema.type is not Type.STRUCT:
            raise DataException(f"Only Struct objects supported for [{_PURPOSE}], found: {schema.type.name}")
        schemas = {}
        for name, node in self._nodes.items():
            try:
                schemas[name] = infer_schema(node, schema)
            except DataException as exc:
                raise DataException(f"SQL, {name}: {exc}") from exc
        fields = [replace(field, schema=schemas.pop(field.name, field.schema)) for field in schema.fields]
        fields += [Field(name=name, schema=kind) for name, kind in schemas.items()]
        return make_struct_schema(schema, fields)


def _from_config(config: Mapping[str, str]) -> SQL:
    transform = SQL()
    transform.configure(config)
    return transform


def _get_member(obj: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Return a member of a schemaless object, or None if it is missing."""
    value: Any = obj
    for name in path:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise DataException(f"{'.'.join(path)}: a parent of the field is not an object")
        value = value.get(name)
    return value


def _get_field(struct: Struct, replace_null: bool, path: tuple[str, ...]) -> Any:  # noqa: FBT001 - bound by partial
    value: Any = struct
    for name in path:
        if value is None:
            return None
        field = next(candidate for candidate in value.schema.fields if candidate.name == name)
        value = read(value, field, replace_null=replace_null)
    return value


def _get_part_at(fields: Mapping[str, Part], path: tuple[str, ...], *, replace_null: bool) -> Part:
    part = fields[path[0]]
    for name in path[1:]:
        if part.schema is None:
            raise ByRecords
        field = next(candidate for candidate in part.schema.fields if candidate.name == name)
        if field.schema.default is not None and not part.sure:
            raise ByRecords  # a null struct has no defaults for its fields
        part = replace_null_by_default(part.field(field), replace_null=replace_null)
    return part


def _make_column_at(fields: Mapping[str, Part], replace_null: bool, path: tuple[str, ...]) -> Any:  # noqa: FBT001 - bound by partial
    return make_column(_get_part_at(fields, path, replace_null=replace_null))


def _make_result_column(schema: Schema, read_field: Any, node: Node) -> Any:
    return Builder(schema, read_field).build_result(node)


def _make_doubt_column(schema: Schema, read_field: Any, node: Node) -> Any:
    builder = Builder(schema, read_field)
    builder.build_result(node)
    condition = F.lit(False)  # noqa: FBT003 - Spark's literal
    for doubt in builder.doubts:
        condition = condition | doubt
    return condition
