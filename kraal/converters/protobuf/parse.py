"""Parser for .proto texts in schema registries.

Skips services, extensions and reserved numbers, which do not affect records, and groups, which are not supported.
Keeps options as written, because some of them contain Connect's metadata.
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
_MAP_KEY_TYPES: Final = SCALARS - {"double", "float", "bytes"}
_MAX_LEVELS: Final = 100


def parse_proto(text: str) -> ProtoFile:
    """Parse a .proto text. Raises ProtoInvalid."""
    return _Parser(text).parse_file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._level = 0

    def parse_file(self) -> ProtoFile:
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
                    self._parse_import(file)
                case "option":
                    self._parse_option({}, ";")
                case "message":
                    file.messages.append(self._parse_message())
                case "enum":
                    file.enums.append(self._parse_enum())
                case "service" | "extend":
                    tokens.full_name()
                    self._skip_block()
                case other:
                    raise ProtoInvalid(f"unexpected token {other!r}")
        return file

    def _parse_import(self, file: ProtoFile) -> None:
        is_public = self._tokens.skip("public")
        if not is_public:
            self._tokens.skip("weak")
        name = self._tokens.text()
        file.imports.append(name)
        if is_public:
            file.public_imports.append(name)
        self._tokens.expect(";")

    def _parse_message(self) -> ProtoMessage:
        message = ProtoMessage(self._tokens.name())
        self._parse_body(message)
        return message

    def _parse_body(self, message: ProtoMessage) -> None:
        tokens = self._tokens
        self._level += 1
        if self._level > _MAX_LEVELS:
            raise ProtoInvalid(f"messages are nested more than {_MAX_LEVELS} levels deep")
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            # The type of a field can have the name of a keyword; the next token disambiguates.
            keyword = tokens.next if tokens.peek(1) not in {".", "="} else ""
            if keyword in {"message", "enum", "oneof"} and tokens.peek(2) == "{":
                self._parse_declaration(message, tokens.take())
            elif keyword == "extend":
                tokens.take()
                tokens.full_name()
                self._skip_block()
            elif keyword == "option":
                tokens.take()
                self._parse_option(message.options, ";")
            elif keyword in {"reserved", "extensions"} and tokens.peek(2) != "=":
                self._skip_to(";")
            else:
                self._parse_field(message, None)
        self._level -= 1

    def _parse_declaration(self, message: ProtoMessage, keyword: str) -> None:
        if keyword == "message":
            message.messages.append(self._parse_message())
        elif keyword == "enum":
            message.enums.append(self._parse_enum())
        else:
            self._parse_oneof(message)

    def _parse_oneof(self, message: ProtoMessage) -> None:
        tokens = self._tokens
        message.oneofs.append(tokens.name())
        index = len(message.oneofs) - 1
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            if tokens.next == "option" and tokens.peek(1) != ".":
                tokens.take()
                self._parse_option({}, ";")
            else:
                self._parse_field(message, index)

    def _parse_field(self, message: ProtoMessage, oneof: int | None) -> None:
        tokens, label = self._tokens, ""
        if tokens.next in _LABELS and oneof is None:
            label = tokens.take()
        if tokens.next == "group":
            self._skip_group()
            return
        if tokens.next == "map" and tokens.peek(1) == "<":
            field = self._parse_map(message)
        else:
            kind = tokens.full_name()
            name = tokens.name()
            tokens.expect("=")
            field = ProtoField(name, self._parse_number(), kind, label, oneof)
        if tokens.skip("["):
            while True:
                self._parse_option(field.options, "")
                if not tokens.skip(","):
                    break
            tokens.expect("]")
        tokens.expect(";")
        message.fields.append(field)

    def _parse_map(self, message: ProtoMessage) -> ProtoField:
        tokens = self._tokens
        tokens.take()
        tokens.expect("<")
        key = tokens.name()
        if key not in _MAP_KEY_TYPES:
            raise ProtoInvalid(f"invalid key type {key!r} of a map; expected an integer type, bool or string")
        tokens.expect(",")
        value = tokens.full_name()
        tokens.expect(">")
        name = tokens.name()
        tokens.expect("=")
        number = self._parse_number()
        entry = ProtoMessage(map_entry_name(name), is_synthetic=True)
        entry.fields = [ProtoField("key", 1, key), ProtoField("value", 2, value)]
        message.messages.append(entry)
        return ProtoField(name, number, entry.name, "repeated")

    def _parse_number(self) -> int:
        number = self._tokens.integer()
        if not 0 < number <= _MAX_NUMBER:
            raise ProtoInvalid(f"invalid field number {number}; expected 1 to {_MAX_NUMBER}")
        return number

    def _parse_enum(self) -> ProtoEnum:
        tokens = self._tokens
        enum = ProtoEnum(tokens.name())
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            if tokens.next == "option" and tokens.peek(1) != "=":
                tokens.take()
                self._parse_option({}, ";")
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

    def _parse_option(self, options: dict[str, Any], end: str) -> None:
        """Parse one option into `options`; the values of a repeated option become a list."""
        name = self._parse_option_name()
        self._tokens.expect("=")
        value = self._parse_value()
        if name in options:
            previous = options[name]
            value = [*(previous if isinstance(previous, list) else [previous]), value]
        options[name] = value
        if end:
            self._tokens.expect(end)

    def _parse_option_name(self) -> str:
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

    def _parse_value(self) -> Any:
        """Parse a string, a bool, another identifier, a number (kept as text), a list or an object."""
        tokens = self._tokens
        if tokens.kind == "text":
            return tokens.text()
        if tokens.skip("{"):
            return self._parse_object("}")
        if tokens.skip("<"):
            return self._parse_object(">")
        if tokens.skip("["):
            values = []
            while not tokens.skip("]"):
                values.append(self._parse_value())
                tokens.skip(",")
            return values
        sign = "-" if tokens.skip("-") else ""
        tokens.skip("+")
        if tokens.kind == "number":
            return sign + tokens.take()
        word = tokens.full_name()
        return {"true": True, "false": False}.get(word, sign + word)

    def _parse_object(self, end: str) -> dict[str, Any]:
        tokens = self._tokens
        entries: dict[str, Any] = {}
        self._level += 1
        if self._level > _MAX_LEVELS:
            raise ProtoInvalid(f"option values are nested more than {_MAX_LEVELS} levels deep")
        while not tokens.skip(end):
            if tokens.skip("["):
                name = f"[{tokens.full_name()}"
                while tokens.skip("/"):
                    name += f"/{tokens.full_name()}"
                tokens.expect("]")
            else:
                name = tokens.name()
            tokens.skip(":")
            value = self._parse_value()
            if name in entries:
                previous = entries[name]
                value = [*(previous if isinstance(previous, list) else [previous]), value]
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
        self._parse_number()
        if tokens.skip("["):
            self._skip_to("]")
        self._skip_block()

    def _skip_block(self) -> None:
        self._tokens.expect("{")
        self._skip_to("}")

    def _skip_to(self, end: str) -> None:
        """Skip up to and including a symbol, ignoring nested braces and brackets."""
        tokens, depth = self._tokens, 0
        while True:
            is_symbol = tokens.kind == "symbol"
            word = tokens.take()
            if is_symbol and word == end and not depth:
                return
            if is_symbol and word in "{[":
                depth += 1
            elif is_symbol and word in "}]":
                depth -= 1
