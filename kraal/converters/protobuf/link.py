"""Linking of .proto files: resolves the types, presence and defaults of fields.

Source: the Protocol Buffers language specification, proto2 and proto3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kraal.converters.protobuf.known import known_files
from kraal.converters.protobuf.model import (
    SCALARS,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoInvalid,
    ProtoMessage,
)
from kraal.plugins.model.records import Float32
from kraal.plugins.values.java_values import float32

_UNPACKED: Final = frozenset({"string", "bytes", "message"})
_DEFAULTS: Final = {"string": "", "bytes": b"", "bool": False, "double": 0.0, "float": Float32(0.0)}


@dataclass(slots=True, eq=False)
class EnumType:
    """A linked enum."""

    full_name: str
    values: list[tuple[str, int]]
    closed: bool
    """Whether unknown numbers are treated as absent, as in proto2."""

    @property
    def name(self) -> str:
        """Its name without package and messages around it."""
        return self.full_name.rpartition(".")[2]

    def number(self, symbol: str) -> int | None:
        """Return the number of a name, or None."""
        return next((number for name, number in self.values if name == symbol), None)

    def symbol(self, number: int) -> str | None:
        """Return the first name of a number, or None."""
        return next((name for name, value in self.values if value == number), None)


@dataclass(slots=True, eq=False)
class FieldType:
    """A field of a message. Compared by identity."""

    name: str
    number: int
    kind: str
    """A scalar's name, `enum` or `message`."""
    repeated: bool
    required: bool
    optional_word: bool
    """Whether it is declared with `optional`."""
    proto3: bool
    presence: bool
    """Whether the field has presence: absent differs from the default."""
    packed: bool
    oneof: str | None
    default: Any
    """Value of an absent field; None for messages."""
    meta: Mapping[str, str]
    message: MessageType | None = None
    enum: EnumType | None = None

    @property
    def inner(self) -> MessageType:
        """The field's message type."""
        assert self.message is not None  # noqa: S101 - asked of messages only
        return self.message


@dataclass(slots=True, eq=False)
class MessageType:
    """A message. Compared by identity, because it can contain itself."""

    full_name: str
    fields: list[FieldType] = field(default_factory=list)
    oneofs: list[str] = field(default_factory=list)
    """Declared oneofs, without the synthetic ones of optional fields."""

    @property
    def name(self) -> str:
        """Its name without package and messages around it."""
        return self.full_name.rpartition(".")[2]

    def field(self, name: str) -> FieldType | None:
        """Return a field by name, or None."""
        return next((each for each in self.fields if each.name == name), None)

    @property
    def is_map_entry(self) -> bool:
        """Whether a repeated field of this message is a map."""
        return (
            self.name.endswith("Entry")
            and [each.name for each in self.fields] == ["key", "value"]
            and not any(each.repeated for each in self.fields)
        )


@dataclass(slots=True)
class Linked:
    """The linked types of a file."""

    file: ProtoFile
    """The file whose messages count: the imported one if the file only has a public import."""
    messages: dict[str, MessageType]
    """By full name, including those of imported files."""

    def message_at(self, path: Iterable[int]) -> MessageType:
        """Return the message at a path of indexes. Raises ProtoInvalid."""
        among, name = self.file.messages, self.file.package
        for at in path:
            if not 0 <= at < len(written := _indexed_messages(among)):
                raise ProtoInvalid(f"the message indexes {list(path)} point to no message of the schema")
            name = f"{name}.{written[at].name}" if name else written[at].name
            among = written[at].messages
        return self.messages[name]

    def find_path(self, full_name: str) -> list[int] | None:
        """Return the path of indexes of a message, or None if the file has no such message."""
        package = self.file.package
        if package and not full_name.startswith(f"{package}."):
            return None
        among, path = self.file.messages, []
        for part in full_name.removeprefix(f"{package}." if package else "").split("."):
            written = _indexed_messages(among)
            at = next((at for at, each in enumerate(written) if each.name == part), None)
            if at is None:
                return None
            path.append(at)
            among = written[at].messages
        return path


def _indexed_messages(messages: list[ProtoMessage]) -> list[ProtoMessage]:
    """Return the messages that indexes count: all but the synthetic entries of `map<…>`."""
    return [each for each in messages if not each.synthetic]


def link(file: ProtoFile, named: Mapping[str, ProtoFile]) -> Linked:
    """Link a file; `named` are the files that it imports, by name. Raises ProtoInvalid."""
    files = {**known_files(), **named}
    linker = _Linker()
    for each in (*known_files().values(), *named.values(), file):
        linker.declare(each)
    linker.fill()
    return Linked(_effective(file, files), linker.messages)


def _effective(file: ProtoFile, files: Mapping[str, ProtoFile]) -> ProtoFile:
    if not file.messages and not file.enums and len(file.imports) == 1 and file.imports == file.public:
        leaf = files.get(file.imports[0])
        if leaf is not None and (leaf.messages or leaf.enums):
            return leaf
    return file


class _Linker:
    def __init__(self) -> None:
        self.messages: dict[str, MessageType] = {}
        self._enums: dict[str, EnumType] = {}
        self._open: list[tuple[MessageType, ProtoMessage, str]] = []

    def declare(self, file: ProtoFile) -> None:
        self._declare(file.package, file.messages, file.enums, file.syntax)

    def _declare(self, space: str, messages: list[ProtoMessage], enums: list[ProtoEnum], syntax: str) -> None:
        for enum in enums:
            name = f"{space}.{enum.name}" if space else enum.name
            self._enums[name] = EnumType(name, enum.values, syntax == "proto2")
        for each in messages:
            name = f"{space}.{each.name}" if space else each.name
            message = MessageType(name, oneofs=each.oneofs)
            self.messages[name] = message
            self._open.append((message, each, syntax))
            self._declare(name, each.messages, each.enums, syntax)

    def fill(self) -> None:
        for message, written, syntax in self._open:
            message.fields = [self._field(message, each, syntax) for each in written.fields]
            numbers = [each.number for each in message.fields]
            if len(set(numbers)) != len(numbers) or len({each.name for each in message.fields}) != len(
                numbers
            ):
                raise ProtoInvalid(f"two fields of {message.full_name} have the same number or name")

    def _field(self, owner: MessageType, written: ProtoField, syntax: str) -> FieldType:
        kind, message, enum = written.type, None, None
        if kind not in SCALARS:
            declared = self._resolve(written.type, owner.full_name)
            if isinstance(declared, MessageType):
                kind, message = "message", declared
            else:
                kind, enum = "enum", declared
        repeated = written.label == "repeated"
        optional = written.label == "optional"
        single = not repeated
        proto3 = syntax == "proto3"
        presence = single and (kind == "message" or written.oneof is not None or optional or not proto3)
        packed = written.options.get("packed", proto3) is True
        return FieldType(
            name=written.name,
            number=written.number,
            kind=kind,
            repeated=repeated,
            required=written.label == "required",
            optional_word=optional,
            proto3=proto3,
            presence=presence,
            packed=repeated and packed and kind not in _UNPACKED,
            oneof=None if written.oneof is None else owner.oneofs[written.oneof],
            default=None if repeated else _default(kind, enum, written.options.get("default")),
            meta=written.meta,
            message=message,
            enum=enum,
        )

    def _resolve(self, name: str, scope: str) -> MessageType | EnumType:
        """Resolve a type name from the innermost scope outwards."""
        if name.startswith("."):
            declared = self._at(name[1:])
        else:
            declared = None
            while declared is None:
                declared = self._at(f"{scope}.{name}" if scope else name)
                if not scope:
                    break
                scope = scope.rpartition(".")[0]
        if declared is None:
            raise ProtoInvalid(f"unknown type {name!r}")
        return declared

    def _at(self, full_name: str) -> MessageType | EnumType | None:
        return self.messages.get(full_name) or self._enums.get(full_name)


def _default(kind: str, enum: EnumType | None, literal: Any) -> Any:
    """Return the value of an absent field: its declared default, or the default of its type."""
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
