"""Parser for .proto texts in schema registries.

It skips what does not affect records: services, extensions, reserved numbers, and groups. It keeps options as written,
because some of them hold Connect's metadata.
Source: the Protocol Buffers language specification, proto2 and proto3.
"""

from __future__ import annotations

from typing import Any, Final

from kraal.converters.protobuf.model import (
    SCALARS,
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoInvalid,
    ProtoMessage,
    map_entry_name,
)
from kraal.converters.protobuf.tokens import Tokens

_LABELS: Final = frozenset({"optional", "required", "repeated"})
_MAX_NUMBER: Final = (1 << 29) - 1
_KEYS: Final = SCALARS - {"double", "float", "bytes"}
_LEVELS: Final = 100


def parse_proto(text: str) -> ProtoFile:
    """Parse a text. Raises ProtoInvalid."""
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._level = 0

    def file(self) -> ProtoFile:
        tokens, file = self._tokens, ProtoFile()
        if tokens.next == "syntax":
            tokens.take()
            tokens.expect("=")
            file.syntax = tokens.text()
            tokens.expect(";")
        if file.syntax not in {"proto2", "proto3"} or tokens.next == "edition":
            raise ProtoInvalid("unsupported syntax; expected proto2 or proto3")
        while tokens.kind:
            if tokens.skip(";"):
                continue
            match tokens.name():
                case "package":
                    file.package = tokens.full_name()
                    tokens.expect(";")
                case "import":
                    self._import(file)
                case "option":
                    self._option({}, ";")
                case "message":
                    file.messages.append(self._message())
                case "enum":
                    file.enums.append(self._enum())
                case "service" | "extend":
                    tokens.full_name()
                    self._skip_block()
                case other:
                    raise ProtoInvalid(f"unexpected token {other!r}")
        return file

    def _import(self, file: ProtoFile) -> None:
        public = self._tokens.skip("public")
        if not public:
            self._tokens.skip("weak")
        name = self._tokens.text()
        file.imports.append(name)
        if public:
            file.public.append(name)
        self._tokens.expect(";")

    def _message(self) -> ProtoMessage:
        message = ProtoMessage(self._tokens.name())
        self._body(message)
        return message

    def _body(self, message: ProtoMessage) -> None:
        tokens = self._tokens
        self._level += 1
        if self._level > _LEVELS:
            raise ProtoInvalid(f"messages are nested more than {_LEVELS} levels deep")
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            # A field's type can have the name of a keyword; the next token decides.
            begins = tokens.next if tokens.peek(1) not in {".", "="} else ""
            if begins in {"message", "enum", "oneof"} and tokens.peek(2) == "{":
                self._inner(message, tokens.take())
            elif begins == "extend":
                tokens.take()
                tokens.full_name()
                self._skip_block()
            elif begins == "option":
                tokens.take()
                self._option(message.options, ";")
            elif begins in {"reserved", "extensions"} and tokens.peek(2) != "=":
                self._skip_to(";")
            else:
                self._field(message, None)
        self._level -= 1

    def _inner(self, message: ProtoMessage, begins: str) -> None:
        if begins == "message":
            message.messages.append(self._message())
        elif begins == "enum":
            message.enums.append(self._enum())
        else:
            self._oneof(message)

    def _oneof(self, message: ProtoMessage) -> None:
        tokens = self._tokens
        message.oneofs.append(tokens.name())
        at = len(message.oneofs) - 1
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            if tokens.next == "option" and tokens.peek(1) != ".":
                tokens.take()
                self._option({}, ";")
            else:
                self._field(message, at)

    def _field(self, message: ProtoMessage, oneof: int | None) -> None:
        tokens, label = self._tokens, ""
        if tokens.next in _LABELS and oneof is None:
            label = tokens.take()
        if tokens.next == "group":
            self._skip_group()
            return
        if tokens.next == "map" and tokens.peek(1) == "<":
            field = self._map(message)
        else:
            kind = tokens.full_name()
            name = tokens.name()
            tokens.expect("=")
            field = ProtoField(name, self._number(), kind, label, oneof)
        if tokens.skip("["):
            while True:
                self._option(field.options, "")
                if not tokens.skip(","):
                    break
            tokens.expect("]")
        tokens.expect(";")
        message.fields.append(field)

    def _map(self, message: ProtoMessage) -> ProtoField:
        tokens = self._tokens
        tokens.take()
        tokens.expect("<")
        key = tokens.name()
        if key not in _KEYS:
            raise ProtoInvalid(f"invalid key type {key!r} of a map; expected an integer type, bool or string")
        tokens.expect(",")
        value = tokens.full_name()
        tokens.expect(">")
        name = tokens.name()
        tokens.expect("=")
        number = self._number()
        entry = ProtoMessage(map_entry_name(name), synthetic=True)
        entry.fields = [ProtoField("key", 1, key), ProtoField("value", 2, value)]
        message.messages.append(entry)
        return ProtoField(name, number, entry.name, "repeated")

    def _number(self) -> int:
        number = self._tokens.integer()
        if not 0 < number <= _MAX_NUMBER:
            raise ProtoInvalid(f"invalid field number {number}; expected 1 to {_MAX_NUMBER}")
        return number

    def _enum(self) -> ProtoEnum:
        tokens = self._tokens
        enum = ProtoEnum(tokens.name())
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            if tokens.next == "option" and tokens.peek(1) != "=":
                tokens.take()
                self._option({}, ";")
            elif tokens.next == "reserved" and tokens.peek(1) != "=":
                self._skip_to(";")
            else:
                name = tokens.name()
                tokens.expect("=")
                enum.values.append((name, tokens.integer()))
                if tokens.skip("["):
                    self._skip_to("]")
                tokens.expect(";")
        if not enum.values:
            raise ProtoInvalid(f"the enum {enum.name} has no values")
        return enum

    # --- options ------------------------------------------------------------------------------------------------

    def _option(self, options: dict[str, Any], end: str) -> None:
        """Read one option; repeated options become a list."""
        name = self._option_name()
        self._tokens.expect("=")
        value = self._value()
        if name in options:
            before = options[name]
            value = [*(before if isinstance(before, list) else [before]), value]
        options[name] = value
        if end:
            self._tokens.expect(end)

    def _option_name(self) -> str:
        tokens, name = self._tokens, ""
        while True:
            if tokens.skip("("):
                name += f"({tokens.full_name().removeprefix('.')})"
                tokens.expect(")")
            else:
                name += tokens.name()
            if not tokens.skip("."):
                return name
            name += "."

    def _value(self) -> Any:
        """Return a string, a bool, another word, a number as written, a list or an object."""
        tokens = self._tokens
        if tokens.kind == "text":
            return tokens.text()
        if tokens.skip("{"):
            return self._object("}")
        if tokens.skip("<"):
            return self._object(">")
        if tokens.skip("["):
            values = []
            while not tokens.skip("]"):
                values.append(self._value())
                tokens.skip(",")
            return values
        sign = "-" if tokens.skip("-") else ""
        tokens.skip("+")
        if tokens.kind == "number":
            return sign + tokens.take()
        word = tokens.full_name()
        return {"true": True, "false": False}.get(word, sign + word)

    def _object(self, end: str) -> dict[str, Any]:
        tokens = self._tokens
        entries: dict[str, Any] = {}
        self._level += 1
        if self._level > _LEVELS:
            raise ProtoInvalid(f"option values are nested more than {_LEVELS} levels deep")
        while not tokens.skip(end):
            if tokens.skip("["):
                name = f"[{tokens.full_name()}"
                while tokens.skip("/"):
                    name += f"/{tokens.full_name()}"
                tokens.expect("]")
            else:
                name = tokens.name()
            tokens.skip(":")
            value = self._value()
            if name in entries:
                before = entries[name]
                value = [*(before if isinstance(before, list) else [before]), value]
            entries[name] = value
            if not tokens.skip(","):
                tokens.skip(";")
        self._level -= 1
        return entries

    # --- skipped statements --------------------------------------------------------------------------------------

    def _skip_group(self) -> None:
        tokens = self._tokens
        tokens.take()
        tokens.name()
        tokens.expect("=")
        self._number()
        if tokens.skip("["):
            self._skip_to("]")
        self._skip_block()

    def _skip_block(self) -> None:
        self._tokens.expect("{")
        self._skip_to("}")

    def _skip_to(self, end: str) -> None:
        """Skip up to and including a sign, ignoring nested braces and brackets."""
        tokens, open_ = self._tokens, 0
        while True:
            plain = tokens.kind == "sign"
            word = tokens.take()
            if plain and word == end and not open_:
                return
            if plain and word in "{[":
                open_ += 1
            elif plain and word in "}]":
                open_ -= 1
