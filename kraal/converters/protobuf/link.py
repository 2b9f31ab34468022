"""Links .proto files: resolves the types, presence and defaults of fields.

Source: the Protocol Buffers language specification, proto2 and proto3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraal.converters.protobuf.model import (
    SCALARS,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoInvalid,
    ProtoMessage,
)
from kraal.converters.protobuf.well_known import load_known_files
from kraal.plugins.model.records import Float32
from kraal.plugins.values.java_values import float32

_NEVER_PACKED: Final = frozenset({"string", "bytes", "message"})
_DEFAULTS: Final = {"string": "", "bytes": b"", "bool": False, "double": 0.0, "float": Float32(0.0)}


@dataclass(slots=True, eq=False)
class EnumType:
    """A linked enum."""

    full_name: str
    values: list[tuple[str, int]]
    is_closed: bool
    """Whether unknown numbers are treated as absent, as in proto2."""

    @property
    def name(self) -> str:
        """The name without the package and enclosing messages."""
        return self.full_name.rpartition(".")[2]

    def number(self, symbol: str) -> int | None:
        """Return the number of a symbol; None if the enum has no such symbol."""
        return next((number for name, number in self.values if name == symbol), None)

    def symbol(self, number: int) -> str | None:
        """Return the first symbol with a number; None if the enum has no such number."""
        return next((name for name, value in self.values if value == number), None)


@dataclass(slots=True, eq=False)
class FieldType:
    """A linked field of a message. Compared by identity."""

    name: str
    number: int
    kind: str
    """A scalar's name, `enum` or `message`."""
    is_repeated: bool
    is_required: bool
    has_optional_label: bool
    """Whether the field is declared with `optional`."""
    is_proto3: bool
    has_presence: bool
    """Whether the field has presence, that is, an absent value differs from the default."""
    is_packed: bool
    oneof: str | None
    default: Any
    """Value of an absent field; None for messages and repeated fields."""
    meta: Mapping[str, str]
    message: MessageType | None = None
    enum: EnumType | None = None

    @property
    def inner(self) -> MessageType:
        """The message type of the field."""
        assert self.message is not None  # noqa: S101 - called only for messages
        return self.message


@dataclass(slots=True, eq=False)
class MessageType:
    """A linked message. Compared by identity, because it can contain itself."""

    full_name: str
    fields: list[FieldType] = field(default_factory=list)
    oneofs: list[str] = field(default_factory=list)
    """Declared oneofs, without the synthetic ones of optional fields."""

    @property
    def name(self) -> str:
        """The name without the package and enclosing messages."""
        return self.full_name.rpartition(".")[2]

    def field(self, name: str) -> FieldType | None:
        """Return a field by name; None if the message has no such field."""
        return next((member for member in self.fields if member.name == name), None)

    @property
    def is_map_entry(self) -> bool:
        """Whether repeated fields of this message type are maps."""
        return (
            self.name.endswith("Entry")
            and [member.name for member in self.fields] == ["key", "value"]
            and not any(member.is_repeated for member in self.fields)
        )


@dataclass(slots=True)
class LinkedFile:
    """A file with its linked types."""

    file: ProtoFile
    """The file with the messages: the imported file if the schema consists only of a public import."""
    messages: dict[str, MessageType]
    """Messages of this file and of imported files, by full name."""

    def message_at(self, path: Iterable[int]) -> MessageType:
        """Return the message at a path of indexes. Raises ProtoInvalid."""
        messages, name = self.file.messages, self.file.package
        for index in path:
            if not 0 <= index < len(indexed_messages := _index_messages(messages)):
                raise ProtoInvalid(
                    f"the message indexes {list(path)} do not refer to a message of the schema"
                )
            name = f"{name}.{indexed_messages[index].name}" if name else indexed_messages[index].name
            messages = indexed_messages[index].messages
        return self.messages[name]

    def find_path(self, full_name: str) -> list[int] | None:
        """Return the path of indexes of a message, or None if the file has no such message."""
        package = self.file.package
        if package and not full_name.startswith(f"{package}."):
            return None
        messages, path = self.file.messages, []
        for part in full_name.removeprefix(f"{package}." if package else "").split("."):
            indexed_messages = _index_messages(messages)
            index = next((i for i, message in enumerate(indexed_messages) if message.name == part), None)
            if index is None:
                return None
            path.append(index)
            messages = indexed_messages[index].messages
        return path


def _index_messages(messages: list[ProtoMessage]) -> list[ProtoMessage]:
    """Return the messages that have an index: all except the synthetic entries of `map<…>`."""
    return [message for message in messages if not message.is_synthetic]


def link(file: ProtoFile, imported_files: Mapping[str, ProtoFile]) -> LinkedFile:
    """Link a file. `imported_files` are the files that `file` can import, by name. Raises ProtoInvalid."""
    files = {**load_known_files(), **imported_files}
    linker = _Linker()
    for declared_file in (*load_known_files().values(), *imported_files.values(), file):
        linker.declare(declared_file)
    linker.link_fields()
    return LinkedFile(_resolve_public_import(file, files), linker.messages)


def _resolve_public_import(file: ProtoFile, files: Mapping[str, ProtoFile]) -> ProtoFile:
    if (
        not file.messages
        and not file.enums
        and len(file.imports) == 1
        and file.imports == file.public_imports
    ):
        imported_file = files.get(file.imports[0])
        if imported_file is not None and (imported_file.messages or imported_file.enums):
            return imported_file
    return file


class _Linker:
    def __init__(self) -> None:
        self.messages: dict[str, MessageType] = {}
        self._enums: dict[str, EnumType] = {}
        self._unlinked: list[tuple[MessageType, ProtoMessage, str]] = []

    def declare(self, file: ProtoFile) -> None:
        self._declare(file.package, file.messages, file.enums, file.syntax)

    def _declare(self, scope: str, messages: list[ProtoMessage], enums: list[ProtoEnum], syntax: str) -> None:
        for enum in enums:
            name = f"{scope}.{enum.name}" if scope else enum.name
            self._enums[name] = EnumType(name, enum.values, syntax == "proto2")
        for declaration in messages:
            name = f"{scope}.{declaration.name}" if scope else declaration.name
            message = MessageType(name, oneofs=declaration.oneofs)
            self.messages[name] = message
            self._unlinked.append((message, declaration, syntax))
            self._declare(name, declaration.messages, declaration.enums, syntax)

    def link_fields(self) -> None:
        for message, declaration, syntax in self._unlinked:
            message.fields = [self._link_field(message, field, syntax) for field in declaration.fields]
            numbers = [field.number for field in message.fields]
            if len(set(numbers)) != len(numbers) or len({field.name for field in message.fields}) != len(
                numbers
            ):
                raise ProtoInvalid(f"two fields of {message.full_name} have the same number or name")

    def _link_field(self, owner: MessageType, declaration: ProtoField, syntax: str) -> FieldType:
        kind, message, enum = declaration.type, None, None
        if kind not in SCALARS:
            field_type = self._resolve(declaration.type, owner.full_name)
            if isinstance(field_type, MessageType):
                kind, message = "message", field_type
            else:
                kind, enum = "enum", field_type
        is_repeated = declaration.label == "repeated"
        is_optional = declaration.label == "optional"
        is_single = not is_repeated
        is_proto3 = syntax == "proto3"
        has_presence = is_single and (
            kind == "message" or declaration.oneof is not None or is_optional or not is_proto3
        )
        is_packed = declaration.options.get("packed", is_proto3) is True
        return FieldType(
            name=declaration.name,
            number=declaration.number,
            kind=kind,
            is_repeated=is_repeated,
            is_required=declaration.label == "required",
            has_optional_label=is_optional,
            is_proto3=is_proto3,
            has_presence=has_presence,
            is_packed=is_repeated and is_packed and kind not in _NEVER_PACKED,
            oneof=None if declaration.oneof is None else owner.oneofs[declaration.oneof],
            default=None
            if is_repeated
            else _get_absent_value(kind, enum, declaration.options.get("default")),
            meta=declaration.meta,
            message=message,
            enum=enum,
        )

    def _resolve(self, name: str, scope: str) -> MessageType | EnumType:
        """Resolve a type name from the innermost scope outwards."""
        if name.startswith("."):
            declared_type = self._look_up(name[1:])
        else:
            declared_type = None
            while declared_type is None:
                declared_type = self._look_up(f"{scope}.{name}" if scope else name)
                if not scope:
                    break
                scope = scope.rpartition(".")[0]
        if declared_type is None:
            raise ProtoInvalid(f"unknown type {name!r}")
        return declared_type

    def _look_up(self, full_name: str) -> MessageType | EnumType | None:
        return self.messages.get(full_name) or self._enums.get(full_name)


def _get_absent_value(kind: str, enum: EnumType | None, literal: Any) -> Any:
    """Return the value of an absent field: the declared default, or the default of the type."""
    if kind == "message":
        return None
    if enum is not None:
        number = None if literal is None else enum.number(str(literal))
        return enum.values[0][1] if number is None else number
    if literal is None:
        return _DEFAULTS.get(kind, 0)
    try:
        match kind:
            case "string":
                return str(literal)
            case "bytes":
                return str(literal).encode("latin-1")
            case "bool":
                return literal is True
            case "float":
                return float32(float(literal))
            case "double":
                return float(literal)
            case _:
                return int(str(literal), 0)
    except ValueError as exc:
        raise ProtoInvalid(f"invalid default {literal!r} of type {kind}") from exc
