"""YAML for connector files and for output: PyYAML without its surprises.

A plain scalar means what the caller says, not what YAML 1.1 guesses: `yes` stays a text. Anchors, aliases, tags and
duplicate keys are errors. The output is quoted so that parsers of YAML 1.1 and 1.2 read the same values.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import yaml
from typing_extensions import override

from kraal.core.printable import printable

Plain = Callable[[str], Any]
"""Converts a plain scalar to its value; the empty text is a missing value."""

_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_UNQUOTED = re.compile(r"[A-Za-z_/.$<(][\w/.$<>()+=@*;-]*(?: [\w/.$<>()+=@*;-]+)*", re.ASCII)
"""Texts without characters that have a meaning in YAML."""
_WORDS = {"yes", "no", "on", "off", "y", "n", "null", "true", "false", "<<"}
"""Texts that some version of YAML reads as something else."""
_OLD_BREAK = re.compile("[\x85\u2028\u2029]")
"""Characters that break lines in YAML 1.1, and are text in YAML 1.2."""
_STR = "tag:yaml.org,2002:str"


class YamlError(ValueError):
    """A text is not valid YAML, or uses a feature that is not supported; the message begins with the line."""


def as_written(text: str) -> str | None:
    """Convert a plain scalar as Connect's configs need it: to its text, or to null."""
    return None if text in ("", "~", "null", "Null", "NULL") else text


def convert_scalar(text: str) -> object:
    """Convert a plain scalar by the core schema of YAML 1.2, without infinity and NaN, which JSON lacks."""
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return as_written(text)


def read_yaml(text: str, plain: Plain) -> list[Any]:
    """Read all documents that are not empty. Raises YamlError."""
    result: list[Any] = []
    if old_break := _OLD_BREAK.search(text):
        line = text.count("\n", 0, old_break.start()) + 1
        raise YamlError(
            f"line {line}: the character U+{ord(old_break[0]):04X} must be escaped in double quotes"
        )
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if not (isinstance(node, yaml.ScalarNode) and node.style is None and not node.value):
                result.append(_value(node, plain))
    except yaml.MarkedYAMLError as exc:
        raise _add_line(exc) from exc
    except yaml.reader.ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        raise YamlError(f"line {line}: the character U+{exc.character:04X} is not allowed") from exc
    except RecursionError as exc:
        raise YamlError("line 1: nested too deeply") from exc
    return result


class _Loader(yaml.SafeLoader):
    """Composes nodes; refuses features that change the meaning of a text."""

    @override
    def scan_to_next_token(self) -> None:
        """Skip spaces, comments and line breaks; tabs too, except where they would be indentation."""
        super().scan_to_next_token()
        while self.peek() == "\t":
            end = 1
            while self.peek(end) in (" ", "\t"):
                end += 1
            if self.allow_simple_key and not self.flow_level and self.peek(end) not in "\r\n\0":
                return
            self.forward(end)
            super().scan_to_next_token()

    @override
    def scan_flow_scalar(self, style: str) -> yaml.ScalarToken:
        """Read a quoted scalar. JSON escapes characters beyond 16 bits as two surrogates; join them."""
        start = self.get_mark()
        try:
            token: yaml.ScalarToken = super().scan_flow_scalar(style)
            token.value = token.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        except (ValueError, OverflowError) as exc:
            raise _error(start, f"invalid character code: {exc}") from exc
        return token

    @override
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None:
            raise _error(event.start_mark, "anchors and aliases are not supported")
        if event.tag is not None:
            raise _error(event.start_mark, "tags are not supported")
        return super().compose_node(parent, index)


def _value(node: Any, plain: Plain) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_value(each, plain) for each in node.value]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, plain)
    try:
        return plain(node.value) if node.style is None else node.value
    except ValueError as exc:  # Python refuses integers of thousands of digits
        raise _error(node.start_mark, str(exc)) from exc


def _mapping(node: yaml.MappingNode, plain: Plain) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _error(key.start_mark, "a key must be a scalar")
        if key.value in result:
            raise _error(key.start_mark, f"duplicate key {key.value!r}")
        result[key.value] = _value(value, plain)
    return result


def _error(mark: Any, problem: str) -> YamlError:
    return YamlError(f"line {mark.line + 1 if mark else 1}: {problem}")


def _add_line(error: yaml.MarkedYAMLError) -> YamlError:
    """Give PyYAML's error the line where the token begins that cannot be read, or else where the problem is."""
    scanner = isinstance(error, yaml.scanner.ScannerError)
    mark = (error.context_mark if scanner else None) or error.problem_mark
    context = f"{error.context}, " if error.context else ""
    return _error(mark, f"{context}{error.problem}")


def to_yaml(value: Any) -> str:
    """Return a JSON value as a document, with a line end."""
    text = _dump(value, allow_unicode=True)
    return text if printable(text, keep="\n\t") == text else _dump(value, allow_unicode=False)


def _dump(value: Any, *, allow_unicode: bool) -> str:
    text: str = yaml.dump(
        value,
        Dumper=_Dumper,
        allow_unicode=allow_unicode,
        default_flow_style=False,
        sort_keys=False,
        width=sys.maxsize,
    )
    return text


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, quotes with double quotes, shows traces line by line."""

    @override
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True

    @override
    def choose_scalar_style(self) -> str:
        event: Any = self.event
        if event.style == "|" and not self.simple_key_context:  # PyYAML refuses tabs here
            return "|"
        style: str = super().choose_scalar_style()
        return '"' if style == "'" else style

    @override
    def represent_str(self, data: str) -> yaml.ScalarNode:
        unquoted = _UNQUOTED.fullmatch(data) and data.lower() not in _WORDS and convert_scalar(data) == data
        style = "|" if _is_block(data) else None if unquoted else '"'
        return self.represent_scalar(_STR, data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def _is_block(text: str) -> bool:
    """Tell whether a text is shown line by line, as stack traces are."""
    lines = text.removesuffix("\n").split("\n")
    return (
        len(lines) > 1
        and bool(lines[0].strip())
        and not lines[0].startswith((" ", "\t"))
        and bool(lines[-1].strip())
        and printable(text, keep="\n\t") == text
    )
