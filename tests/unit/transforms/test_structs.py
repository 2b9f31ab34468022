"""Tests for the Java class names of values in error messages of transforms."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kraal.plugins.model.records import Float32, Instant, Struct
from kraal.plugins.model.schema import Schema, Type
from kraal.transforms.common.structs import java_class


@pytest.mark.parametrize(
    ("value", "schema_type", "name"),
    [
        (None, None, "null"),
        (True, None, "java.lang.Boolean"),
        (1, None, "java.lang.Long"),
        (1, Type.INT8, "java.lang.Byte"),
        (1, Type.INT16, "java.lang.Short"),
        (1, Type.INT32, "java.lang.Integer"),
        (1, Type.INT64, "java.lang.Long"),
        (1.0, None, "java.lang.Double"),
        (Float32(1.0), None, "java.lang.Float"),
        ("a", None, "java.lang.String"),
        (b"a", None, "[B"),
        (Decimal(1), None, "java.math.BigDecimal"),
        (Instant(0), None, "java.util.Date"),
        ([], None, "java.util.ArrayList"),
        ((), None, "java.util.ArrayList"),
        ({}, None, "java.util.HashMap"),
        (Struct(Schema(type=Type.STRUCT), {}), None, "org.apache.kafka.connect.data.Struct"),
        (set[int](), None, "set"),
    ],
)
def test_value_has_the_java_class_name(value: Any, schema_type: Type | None, name: str) -> None:
    assert java_class(value, None if schema_type is None else Schema(type=schema_type)) == name
