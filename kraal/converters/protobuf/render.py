"""Renders .proto texts in the layout that Java's serializer registers.

Registries compare schemas as text, so the text must equal Java's, including blank lines.
Implements the Protocol Buffers language specification, proto3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraal.converters.protobuf.model import ProtoEnum, ProtoField, ProtoFile, ProtoMessage
from kraal.converters.protobuf.well_known import WRAPPERS

_VALUE_FIRST: Final = frozenset({"precision", "scale"})
"""Parameters whose value is rendered before the key."""

WRAPPERS_TEXT: Final = (
    'syntax = "proto3";\n'
    "package google.protobuf;\n"
    "\n"
    'option java_package = "com.google.protobuf";\n'
    'option java_outer_classname = "WrappersProto";\n'
    "option java_multiple_files = true;\n"
    'option go_package = "google.golang.org/protobuf/types/known/wrapperspb";\n'
    "option cc_enable_arenas = true;\n"
    'option objc_class_prefix = "GPB";\n'
    'option csharp_namespace = "Google.Protobuf.WellKnownTypes";\n'
    "\n"
) + "".join(
    f"message {name.rpartition('.')[2]} {{\n  {kind} value = 1;\n}}\n" for name, kind in WRAPPERS.items()
)
"""Text of google/protobuf/wrappers.proto, the schema of values other than structs."""


def render_file(file: ProtoFile) -> str:
    """Return the text of a file."""
    text = f'syntax = "{file.syntax}";\n'
    if file.package:
        text += f"package {file.package};\n"
    if file.imports:
        text += "\n" + "".join(f'import "{name}";\n' for name in file.imports)
    return text + "\n" + "".join(map(_render_message, file.messages)) + "".join(map(_render_enum, file.enums))


def _render_message(message: ProtoMessage) -> str:
    text = f"message {message.name} {{"
    plain_fields = [field for field in message.fields if field.oneof is None]
    text += _render_section(map(_render_field, plain_fields))
    text += _render_section(_render_oneof(message, index) for index in range(len(message.oneofs)))
    text += _render_section([*map(_render_message, message.messages), *map(_render_enum, message.enums)])
    return f"{text}}}\n"


def _render_section(parts: Iterable[str]) -> str:
    content = "".join(map(_indent, parts))
    return f"\n{content}" if content else ""


def _indent(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.removesuffix("\n").split("\n"))


def _render_oneof(message: ProtoMessage, index: int) -> str:
    fields = [_render_field(field) for field in message.fields if field.oneof == index]
    return f"oneof {message.oneofs[index]} {{{_render_section(fields)}}}\n" if fields else ""


def _render_enum(enum: ProtoEnum) -> str:
    return f"enum {enum.name} {{{_render_section(f'{name} = {number};' for name, number in enum.values)}}}\n"


def _render_field(field: ProtoField) -> str:
    label = f"{field.label} " if field.label else ""
    return f"{label}{field.type} {field.name} = {field.number}{_render_meta(field.meta)};\n"


def _render_meta(params: dict[str, str]) -> str:
    if not params:
        return ""
    items = []
    for key, value in params.items():
        pair = [f'key: "{_escape(key)}"', f'value: "{_escape(value)}"']
        first, second = reversed(pair) if key in _VALUE_FIRST else pair
        items.append(f"{{\n{_indent(f'{first},')}{_indent(second)}}}")
    joined_items = ",\n".join(items)
    parameters = f"params: [\n{_indent(joined_items)}]"
    return f" [(confluent.field_meta) = {{\n{_indent(parameters)}}}]"


def _escape(text: str) -> str:
    escapes = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(escapes.get(char, char) for char in text)
