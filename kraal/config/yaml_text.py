"""YAML for connector files and output: PyYAML with stricter parsing and unambiguous output.

The caller converts plain scalars, so that `yes` can stay a string, unlike in YAML 1.1. Anchors, aliases, tags and
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

ScalarConverter = Callable[[str], Any]
"""Converts a plain scalar to its value. An empty string represents a missing value."""

_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_PLAIN_STRING = re.compile(r"[A-Za-z_/.$<(][\w/.$<>()+=@*;-]*(?: [\w/.$<>()+=@*;-]+)*", re.ASCII)
"""Strings without characters that are special in YAML."""
_AMBIGUOUS_WORDS = {"yes", "no", "on", "off", "y", "n", "null", "true", "false", "<<"}
"""Strings, in lower case, that YAML 1.1 or 1.2 does not parse as strings."""
_YAML_11_BREAK = re.compile("[\x85\u2028\u2029]")
"""Characters that are line breaks in YAML 1.1, but not in YAML 1.2."""
_STR_TAG = "tag:yaml.org,2002:str"


class YamlError(ValueError):
    """Raised if a text is not valid YAML or uses an unsupported feature. The message begins with the line number."""


def convert_config_scalar(text: str) -> str | None:
    """Convert a plain scalar to a value of a connector config: its text, or null."""
    return None if text in ("", "~", "null", "Null", "NULL") else text


def convert_scalar(text: str) -> object:
    """Convert a plain scalar by the core schema of YAML 1.2, except infinity and NaN, which JSON does not support."""
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return convert_config_scalar(text)


def read_yaml(text: str, convert_plain: ScalarConverter) -> list[Any]:
    """Read all non-empty documents. Raises YamlError."""
    result: list[Any] = []
    if break_match := _YAML_11_BREAK.search(text):
        line = text.count("\n", 0, break_match.start()) + 1
        raise YamlError(
            f"line {line}: the character U+{ord(break_match[0]):04X} must be escaped in double quotes"
        )
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if not (isinstance(node, yaml.ScalarNode) and node.style is None and not node.value):
                result.append(_convert_node(node, convert_plain))
    except yaml.MarkedYAMLError as exc:
        raise _convert_error(exc) from exc
    except yaml.reader.ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        raise YamlError(f"line {line}: the character U+{exc.character:04X} is not allowed") from exc
    except RecursionError as exc:
        raise YamlError("line 1: nested too deeply") from exc
    return result


class _Loader(yaml.SafeLoader):
    """Loader that composes nodes and rejects unsupported features."""

    @override
    def scan_to_next_token(self) -> None:
        """Skip spaces, comments, line breaks, and tabs except in indentation."""
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
        """Read a quoted scalar; join surrogate pairs, with which JSON escapes characters above U+FFFF."""
        start = self.get_mark()
        try:
            token: yaml.ScalarToken = super().scan_flow_scalar(style)
            token.value = token.value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        except (ValueError, OverflowError) as exc:
            raise _yaml_error(start, f"invalid character code: {exc}") from exc
        return token

    @override
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None:
            raise _yaml_error(event.start_mark, "anchors and aliases are not supported")
        if event.tag is not None:
            raise _yaml_error(event.start_mark, "tags are not supported")
        return super().compose_node(parent, index)


def _convert_node(node: Any, convert_plain: ScalarConverter) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_convert_node(item, convert_plain) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return _convert_mapping(node, convert_plain)
    try:
        return convert_plain(node.value) if node.style is None else node.value
    except ValueError as exc:  # Python does not parse integers of thousands of digits
        raise _yaml_error(node.start_mark, str(exc)) from exc


def _convert_mapping(node: yaml.MappingNode, convert_plain: ScalarConverter) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _yaml_error(key.start_mark, "a key must be a scalar")
        if key.value in result:
            raise _yaml_error(key.start_mark, f"duplicate key {key.value!r}")
        result[key.value] = _convert_node(value, convert_plain)
    return result


def _yaml_error(mark: Any, problem: str) -> YamlError:
    return YamlError(f"line {mark.line + 1 if mark else 1}: {problem}")


def _convert_error(error: yaml.MarkedYAMLError) -> YamlError:
    """Convert PyYAML's error; use the line where an invalid token begins, or else the line of the problem."""
    is_scanner_error = isinstance(error, yaml.scanner.ScannerError)
    mark = (error.context_mark if is_scanner_error else None) or error.problem_mark
    context = f"{error.context}, " if error.context else ""
    return _yaml_error(mark, f"{context}{error.problem}")


def to_yaml(value: Any) -> str:
    """Format a JSON value as a YAML document that ends with a line break."""
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
    """Dumper that indents lists below their keys, uses double quotes, and writes stack traces as blocks."""

    @override
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True

    @override
    def choose_scalar_style(self) -> str:
        event: Any = self.event
        if event.style == "|" and not self.simple_key_context:  # PyYAML would quote a text with tabs
            return "|"
        style: str = super().choose_scalar_style()
        return '"' if style == "'" else style

    @override
    def represent_str(self, data: str) -> yaml.ScalarNode:
        can_be_plain = (
            _PLAIN_STRING.fullmatch(data)
            and data.lower() not in _AMBIGUOUS_WORDS
            and convert_scalar(data) == data
        )
        style = "|" if _is_block(data) else None if can_be_plain else '"'
        return self.represent_scalar(_STR_TAG, data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def _is_block(text: str) -> bool:
    """Return whether to write a text as a block, line by line, like a stack trace."""
    lines = text.removesuffix("\n").split("\n")
    return (
        len(lines) > 1
        and bool(lines[0].strip())
        and not lines[0].startswith((" ", "\t"))
        and bool(lines[-1].strip())
        and printable(text, keep="\n\t") == text
    )
