"""Parser for `sasl.jaas.config`, which has one login module with options, and for JAAS files, which have several.

A login module has the format `CLASS required NAME="VALUE" NAME="VALUE" ...;`. A JAAS file contains entries
`ENTRY { MODULES };`. Errors contain no values and no names of options, because a misplaced quote can turn a part of
the password into either.
Source: JaasConfig (Kafka 4.4.0), java.io.StreamTokenizer, javax.security.auth.login.Configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"(?P<space>[\0-\x20]+|//[^\n\r]*|/\*.*?\*/)"
    r"|(?P<quoted>\"(?:[^\"\\\n\r]|\\.)*\"|'(?:[^'\\\n\r]|\\.)*')"
    r"|(?P<word>[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_.$\u00a0-\uffff-]*)"
    r"|(?P<symbol>.)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_MODULE_FORMAT = 'CLASS required NAME="VALUE" ...;'
_EXPECTED_ENTRY = 'expected ENTRY { CLASS required NAME="VALUE" ...; };'


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module: its simple class name, and its options, which are secrets."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Parse the login module of `sasl.jaas.config`. Raises ValueError with the reason."""
    tokens = _tokenize(text)
    module = next(tokens, None)
    if module is None:
        raise ValueError(f"it has no login module; expected {_MODULE_FORMAT}")
    if module.value is None:
        raise ValueError(f"it must start with the class of a login module; expected {_MODULE_FORMAT}")
    flag = next(tokens, None)
    if flag is None or (flag.value or "").lower() not in _FLAGS:
        raise ValueError("required, requisite, sufficient or optional must follow the login module's class")
    options = _parse_options(tokens)
    if next(tokens, None) is not None:
        raise ValueError("it must not have several login modules, or text after the semicolon")
    return LoginModule(module.value.rpartition(".")[2], options)


def parse_jaas_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """Parse a JAAS file into the login modules of each entry. Raises ValueError with the reason."""
    tokens = _tokenize(text)
    entries: dict[str, tuple[LoginModule, ...]] = {}
    for name in tokens:
        brace = next(tokens, None)
        if name.value is None or brace is None or brace.symbol != "{":
            raise ValueError(f"entry {len(entries) + 1} is invalid; {_EXPECTED_ENTRY}")
        entries[name.value] = tuple(_parse_modules(tokens, name.value))
    return entries


def format_jaas(module: str, options: Mapping[str, str]) -> str:
    """Format a login module and its options as a value of `sasl.jaas.config`."""
    formatted_options = (f' {name}="{_quote(value)}"' for name, value in options.items())
    return f"{module} required{''.join(formatted_options)};"


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or quoted string, or a symbol. The value of a symbol is None."""

    value: str | None
    symbol: str = ""


def _tokenize(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match["quoted"] is not None:
            yield _Token(_ESCAPE.sub(_unescape, match["quoted"][1:-1]))
        elif match["word"] is not None:
            yield _Token(match["word"])
        elif match["symbol"] is not None:
            yield _Token(None, match["symbol"])


def _parse_modules(tokens: Iterator[_Token], entry: str) -> Iterator[LoginModule]:
    """Parse the login modules of an entry, up to its closing brace and semicolon."""
    for module in tokens:
        if module.symbol == "}":
            if (terminator := next(tokens, None)) is None or terminator.symbol != ";":
                raise ValueError(f"a semicolon must follow the closing brace of entry {entry}")
            return
        flag = next(tokens, None)
        if module.value is None or flag is None or (flag.value or "").lower() not in _FLAGS:
            raise ValueError(f"entry {entry} has an invalid login module; {_EXPECTED_ENTRY}")
        yield LoginModule(module.value.rpartition(".")[2], _parse_options(tokens))
    raise ValueError(f"entry {entry} is not closed; {_EXPECTED_ENTRY}")


def _parse_options(tokens: Iterator[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for token in tokens:
        if token.symbol == ";":
            return options
        equals, value = next(tokens, None), next(tokens, None)
        if (
            token.value is None
            or equals is None
            or equals.symbol != "="
            or value is None
            or value.value is None
        ):
            number = len(options) + 1
            raise ValueError(f'option {number} is invalid; expected NAME="VALUE" (with quotes)')
        options[token.value] = value.value
    raise ValueError("it must end with a semicolon")


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED_CHARACTERS.get(escaped, escaped)


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return escaped.replace("\n", "\\n").replace("\r", "\\r")
