"""Secrets in configs, which must not be printed: values of secret keys, and credentials in URLs.

A reference such as `${file:/run/db.properties:password}` is not a secret and is printed.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kraal.core.ids import Config
from kraal.core.secrets import names_secret

HIDDEN = "[hidden]"
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_IN_URL = re.compile(r"(?<=://)([^/@:\s]*):[^/@\s]+(?=@)")
_PARAMETER = re.compile(r"((?:password|pwd|secret|token)=)[^&;,\s]+", re.IGNORECASE)


def is_secret(key: str, value: str | None, declared: Collection[str] = ()) -> bool:
    """Return whether a value is a secret; `declared` are the keys of type PASSWORD."""
    return bool(value) and (key in declared or names_secret(key)) and not _REFERENCE.fullmatch(value or "")


def shown(key: str, value: str | None, declared: Collection[str] = ()) -> str | None:
    """Return a value with its secrets hidden."""
    if value is None:
        return None
    if is_secret(key, value, declared):
        return HIDDEN
    return _PARAMETER.sub(rf"\1{HIDDEN}", _IN_URL.sub(rf"\1:{HIDDEN}", value))


def hide(config: Config, declared: Collection[str] = ()) -> dict[str, str | None]:
    """Return a config with its secrets hidden, in the same order."""
    return {key: shown(key, value, declared) for key, value in config.items()}


def scrub(text: str, config: Config, declared: Collection[str] = ()) -> str:
    """Hide the secrets of a config in a worker's text, because Connect's errors contain invalid values, trimmed."""
    forms: dict[str, str] = {}
    for key, value in config.items():
        hidden = shown(key, value, declared)
        if value and hidden is not None and hidden != value:
            forms |= {value: hidden, value.strip() or value: hidden.strip()}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, forms[form])
    return text


def placeholders(config: Config) -> list[str]:
    """Return the keys with a hidden value; a config with such keys cannot be applied."""
    return [key for key, value in config.items() if value is not None and HIDDEN in value]
