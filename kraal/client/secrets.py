"""What must not be printed of a config: values of keys that are, or look like, secrets; credentials in URLs.

A value that only names a secret, as `${file:/run/db.properties:password}`, is none and is shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kraal.ids import Config
from kraal.secrets import names_secret

HIDDEN = "[hidden]"
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_IN_URL = re.compile(r"(?<=://)([^/@:\s]*):[^/@\s]+(?=@)")
_PARAMETER = re.compile(r"((?:password|pwd|secret|token)=)[^&;,\s]+", re.IGNORECASE)


def is_secret(key: str, value: str | None, declared: Collection[str] = ()) -> bool:
    """Tell whether a value is a secret; `declared` are the keys that the plugin has as type PASSWORD."""
    return bool(value) and (key in declared or names_secret(key)) and not _REFERENCE.fullmatch(value or "")


def shown(key: str, value: str | None, declared: Collection[str] = ()) -> str | None:
    """Return what may be printed of one value."""
    if value is None:
        return None
    if is_secret(key, value, declared):
        return HIDDEN
    return _PARAMETER.sub(rf"\1{HIDDEN}", _IN_URL.sub(rf"\1:{HIDDEN}", value))


def hide(config: Config, declared: Collection[str] = ()) -> dict[str, str | None]:
    """Return a config as it may be printed, in its order."""
    return {key: shown(key, value, declared) for key, value in config.items()}


def scrub(text: str, config: Config, declared: Collection[str] = ()) -> str:
    """Take the secrets of a config out of a server's text: Connect repeats bad values in its errors."""
    secrets = {value for key, value in config.items() if value and is_secret(key, value, declared)}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def placeholders(config: Config) -> list[str]:
    """Return the keys whose value was hidden when it was printed: such a config cannot be applied."""
    return [key for key, value in config.items() if value is not None and HIDDEN in value]
