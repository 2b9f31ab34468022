"""Rules for headers of all REST responses (`response.http.headers.config`).

The format is a comma-separated list of rules `[set|add|setDate|addDate] [name]:[value]`. A rule that contains a comma
must be in double quotes. The value of a date is an offset from the current time in milliseconds.
Source: RestServerConfig.ResponseHttpHeadersValidator (Kafka 4.4.0), StringUtil.csvSplit, HeaderFilter (Jetty 12).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kraal.config.checks import rule
from kraal.config.values import is_blank, trim

_ACTIONS: Final = ("set", "add", "setDate", "addDate")
_PART_COUNT: Final = 2
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_FRAMING_HEADERS: Final = ("connection", "content-length", "transfer-encoding")
_RULE: Final = re.compile(r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"?[^,]*|(?P<plain>[^,]*))(?:,|$)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A header of all responses. `offset_ms` is None unless the value is a date relative to the current time."""

    name: str
    value: str
    add: bool
    """Whether to add to existing headers with the same name instead of replacing them."""
    offset_ms: int | None = None


@rule("`ACTION NAME:VALUE` separated by commas, where ACTION is `set`, `add`, `setDate` or `addDate`")
def check_header_rules(name: str, value: object) -> str | None:
    """Require valid rules or null. Errors that Connect also reports have Connect's messages."""
    del name
    try:
        parse_header_rules(str(value or ""))
    except ValueError as exc:
        return str(exc)
    return None


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Parse the rules. Raises ValueError with a message."""
    return () if is_blank(text) else tuple(map(_parse_rule, _split_rules(text)))


def sets_date(rules: Sequence[HeaderRule]) -> bool:
    """Return whether the rules replace the `Date` header, so that the server must omit its own."""
    return any(rule.name.lower() == "date" and not rule.add for rule in rules)


def _split_rules(text: str) -> list[str]:
    """Split at commas outside quotes; remove quotes, and any text between a closing quote and the next comma."""
    fields: list[str] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:  # pragma: no cover - the alternatives match any text
            break
        quoted_text, plain_text = match["quoted"], match["plain"]
        if quoted_text is not None:
            fields.append(re.sub(r"\\(.)", r"\1", quoted_text, flags=re.DOTALL))
        elif plain_text.strip() or match[0].endswith(","):
            fields.append(plain_text.strip())
        position = match.end()
    return fields


def _parse_rule(text: str) -> HeaderRule:
    parts = trim(text).split(maxsplit=1)
    if len(parts) != _PART_COUNT:
        raise ValueError(
            f"Invalid format of header config '{text}'. Expected: '[action] [header name]:[header value]'"
        )
    action = next((name for name in _ACTIONS if name.lower() == parts[0].lower()), None)
    if action is None:
        raise ValueError(
            f"Invalid header config action: '{parts[0]}'. Expected one of [{', '.join(_ACTIONS)}]"
        )
    name_and_value = parts[1].rstrip(":").split(":")  # like Java's split, which drops trailing empty strings
    if len(name_and_value) != _PART_COUNT:
        raise ValueError(
            f"Invalid format of header name and header value pair '{parts[1]}'. "
            "Expected: '[header name]:[header value]'"
        )
    name, value = trim(name_and_value[0]), trim(parts[1].partition(":")[2])
    if not name or re.search(r"\s", name):
        raise ValueError(f"Invalid header name '{name}'. The '[header name]' cannot contain whitespace")
    offset_ms = _parse_offset_ms(name, value) if action.endswith("Date") else None
    _check_sendable(name, value)
    return HeaderRule(name, value, action.startswith("add"), offset_ms)


def _parse_offset_ms(name: str, value: str) -> int:
    if not _INTEGER.fullmatch(value):
        raise ValueError(
            f"Invalid value '{value}' of header {name}. A date is a whole number of milliseconds from now"
        )
    return int(value)


def _check_sendable(name: str, value: str) -> None:
    """Raise ValueError for a header that the HTTP server cannot send, because every response would fail."""
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"Invalid header name '{name}'. It has a character that HTTP does not allow")
    if name.lower() in _FRAMING_HEADERS:
        raise ValueError(f"Invalid header name '{name}'. This header belongs to the server")
    if not all(char == "\t" or " " <= char < "\x7f" or "\x80" <= char <= "\xff" for char in value):
        raise ValueError(
            f"Invalid value '{value}' of header {name}. It has a character that HTTP does not allow"
        )
