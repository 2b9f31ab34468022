"""Flatten: moves nested fields to the top level, with joined names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.model.records import DataException, Instant, Record, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.transforms.common.base import PartTransformation, PerSchema, parse_settings
from kraal.transforms.common.structs import (
    copy_metadata,
    java_class,
    list_fields,
    make_struct,
    make_struct_schema,
    read,
    require_map,
    require_struct,
)

_PURPOSE = "flattening"


class Flatten(PartTransformation):
    """Moves the fields of nested structs or objects to the top level; arrays stay unchanged.

    A moved field is optional if any of its enclosing structs is optional. If a moved field has no default, its
    default is the field's value in the default of the enclosing struct.
    """

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="delimiter",
                type=ConfigType.STRING,
                default=".",
                importance=Importance.MEDIUM,
                doc="Separator between the names of nested fields.",
                source="Flatten.DELIMITER_CONFIG",
            )
        ]
    )

    def __init__(self) -> None:
        self._delimiter = "."
        self._schemas = PerSchema(self._flatten_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        self._delimiter = parse_settings(self.config_def, config)["delimiter"]

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if value is None:
            return record
        if schema is None:
            return self.with_part(record, None, dict(self._flatten_object(require_map(value, _PURPOSE), "")))
        struct = require_struct(value, _PURPOSE, schema)
        flat_schema = self._schemas(schema)
        return self.with_part(
            record, flat_schema, make_struct(flat_schema, dict(self._flatten_values(struct, "")))
        )

    def _join_names(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _flatten_object(self, value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, item in value.items():
            name = self._join_names(prefix, key)
            if isinstance(item, dict):
                yield from self._flatten_object(item, name)
            elif isinstance(item, Struct):
                raise DataException(
                    f"Flatten transformation does not support class {java_class(item)} for record without "
                    f"schemas (for field {name})."
                )
            elif isinstance(item, Instant) or java_class(item) == "java.math.BigDecimal":
                raise DataException(
                    f"Flatten transformation was passed a value of type class {java_class(item)} which is not "
                    "supported by Connect's data API"
                )
            else:
                yield name, item

    def _flatten_schema(self, schema: Schema) -> Schema:
        return make_struct_schema(
            schema, self._flatten_fields(schema, "", schema.default, optional=schema.optional)
        )

    def _flatten_fields(
        self, schema: Schema, prefix: str, enclosing_default: Struct | None, *, optional: bool
    ) -> Iterator[Field]:
        """Yield the flat fields of a struct; `optional` must be true if the struct can be null."""
        for field in list_fields(schema):
            name = self._join_names(prefix, field.name)
            may_be_null = optional or field.schema.optional
            default = field.schema.default
            if default is None and enclosing_default is not None:
                default = read(enclosing_default, field, replace_null=True)
            match field.schema.type:
                case Type.STRUCT:
                    yield from self._flatten_fields(field.schema, name, default, optional=may_be_null)
                case Type.MAP:
                    raise _unsupported_type_error(field.schema, name)
                case kind:
                    flat_schema = replace(
                        copy_metadata(field.schema, kind),
                        optional=may_be_null,
                        default=default,
                        value=field.schema.value,
                    )
                    yield Field(name=name, schema=flat_schema)

    def _flatten_values(self, struct: Struct, prefix: str) -> Iterator[tuple[str, Any]]:
        for field in struct.schema.fields:
            name = self._join_names(prefix, field.name)
            if field.schema.type is not Type.STRUCT:
                yield name, read(struct, field, replace_null=True)
            elif (inner_struct := struct.raw(field.name)) is not None:
                yield from self._flatten_values(inner_struct, name)


def _unsupported_type_error(schema: Schema, name: str) -> DataException:
    return DataException(
        f"Flatten transformation does not support {schema.type.name} for record with schemas (for field {name})."
    )


class FlattenKey(Flatten):
    """Flatten for record keys."""

    is_key: ClassVar[bool] = True


class FlattenValue(Flatten):
    """Flatten for record values."""

    is_key: ClassVar[bool] = False
