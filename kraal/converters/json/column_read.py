"""Unwraps the envelope `{"schema":…,"payload":…}`: converts a VARIANT to its payload or an error text.

Each record has its own schema, so the payload stays a VARIANT. Only the top level of the schema is evaluated: the type,
whether null is allowed, and the default. Source: JsonConverter.toConnectData (Kafka 4.4.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraal.converters.json.parse import NO_ENVELOPE_ERROR, NOT_JSON_ERROR
from kraal.engine.columns.functions import F
from kraal.plugins.model.schema import Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

NO_TYPE_ERROR: Final = "Schema must contain 'type' field"

_NODE_TYPES: Final = {"BIGINT": "NUMBER", "DOUBLE": "NUMBER", "STRING": "STRING", "BOOLEAN": "BOOLEAN"}
"""Jackson's node type for each type name that Spark reports for a VARIANT."""


def unwrap(
    value: Column, parsed: Column, *, replace_null: bool, content: str | None = None
) -> tuple[Column, Column]:
    """Return the payload and the error text (null if there is no error) of the bytes `value`, parsed as `parsed`.

    If `content` contains the text of a schema, there is no envelope, and the whole value is the payload.

    Each step is bound to a Spark variable (`_bind`), so that the text is parsed once instead of about forty times.
    """

    def from_parsed(variant: Column) -> Column:
        if content is not None:
            schema = F.parse_json(F.lit(content))
            return _extract_parts(variant, F.lit(True), schema, variant)  # noqa: FBT003 - Spark's literal
        return _bind(
            F.when(variant.isNotNull(), variant.try_cast("map<string, variant>")),
            lambda fields: _extract_parts(
                variant,
                (F.size(fields) == F.lit(2)) & fields["schema"].isNotNull() & fields["payload"].isNotNull(),
                fields["schema"],
                fields["payload"],
            ),
        )

    result = _bind(
        _bind(parsed, from_parsed), lambda parts: _add_error(value, parts, replace_null=replace_null)
    )
    return result.getField("payload"), result.getField("error")


def _extract_parts(variant: Column, is_envelope: Column, schema: Column, payload: Column) -> Column:
    """Return a struct of the parts to validate; `variant` is the whole parsed value."""
    return F.struct(
        variant.isNotNull().alias("is_json"),
        is_envelope.alias("is_envelope"),
        schema.alias("schema"),
        payload.alias("payload"),
        _get_member(schema, "default").alias("default"),
        _get_member(schema, "optional").alias("optional"),
        _get_member(schema, "type").alias("type"),
    )


def _add_error(value: Column, parts: Column, *, replace_null: bool) -> Column:
    """Return a struct of payload and error text."""
    schema, payload, default = parts.getField("schema"), parts.getField("payload"), parts.getField("default")
    is_envelope = parts.getField("is_envelope")
    has_schema = ~F.is_variant_null(schema)

    type_name = parts.getField("type").try_cast("string")
    has_type = _has_kind(parts.getField("type"), "STRING")
    optional_member = parts.getField("optional")
    may_be_null = _has_kind(optional_member, "BOOLEAN") & (optional_member.cast("string") == F.lit("true"))
    has_default = default.isNotNull() & ~F.is_variant_null(default) if replace_null else F.lit(False)  # noqa: FBT003
    is_null = has_schema & F.is_variant_null(payload)

    type_names = [kind.value for kind in Type]
    type_name_upper = _look_up(type_name, {kind.value: kind.name for kind in Type})
    null_error = F.concat(F.lit("Invalid null value for required "), type_name_upper, F.lit(" field"))
    no_object_error = F.concat(
        F.lit("Structs should be encoded as JSON objects, but found "),
        F.coalesce(_make_node_type(payload), F.lit("MISSING")),
    )
    is_invalid = value.isNotNull() & ~parts.getField("is_json") & value.cast("string").rlike(r"[^ \t\r\n]")
    error = (
        F.when(value.isNull(), F.lit(None))
        .when(is_invalid, F.lit(NOT_JSON_ERROR))
        .when(~F.coalesce(is_envelope, F.lit(False)), F.lit(NO_ENVELOPE_ERROR))  # noqa: FBT003 - Spark's literal
        .when(~has_schema, F.lit(None))
        .when(~has_type, F.lit(NO_TYPE_ERROR))
        .when(~type_name.isin(type_names), F.concat(F.lit("Unknown schema type: "), type_name))
        .when(is_null & ~has_default & ~may_be_null, null_error)
        .when(~is_null & (type_name == F.lit("struct")) & ~_has_kind(payload, "OBJECT"), no_object_error)
    )
    is_not_text = has_schema & (type_name == F.lit("string")) & ~_has_kind(payload, "STRING")
    result = (
        F.when(error.isNotNull(), F.lit(None))
        .when(is_null & has_default, default)
        .when(is_not_text, F.lit(None))  # as Jackson's textValue
        .otherwise(payload)
    )
    return F.struct(result.alias("payload"), error.alias("error"))


def _bind(value: Column, body: Callable[[Column], Column]) -> Column:
    """Evaluate `value` once for all its uses in `body`."""
    return F.element_at(F.transform(F.array(value), body), 1)


def _get_member(variant: Column, name: str) -> Column:
    """Return a member of an object as VARIANT; null if the member is missing."""
    return F.try_variant_get(variant, f"$.{name}", "variant")


def _has_kind(variant: Column, kind: str) -> Column:
    """Return whether a VARIANT has a value of this kind; false for null."""
    return F.coalesce(F.schema_of_variant(variant).startswith(kind), F.lit(False))  # noqa: FBT003


def _make_node_type(variant: Column) -> Column:
    """Return Jackson's node type for a VARIANT's value."""
    kind = F.regexp_extract(F.schema_of_variant(variant), "^[A-Z]+", 0)
    return F.coalesce(_look_up(kind, {**_NODE_TYPES, "DECIMAL": "NUMBER", "ARRAY": "ARRAY"}), kind)


def _look_up(name: Column, names: dict[str, str]) -> Column:
    """Return the value for a name in a small table; null if the name is missing."""
    pairs = [F.lit(text) for pair in names.items() for text in pair]
    return F.create_map(*pairs)[name]
