"""Hiding of secrets in configs: values of secret keys, and credentials within other values, such as URLs.

A variable such as `${file:/run/db.properties:password}` is not a secret and stays visible.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kraal.core.ids import Config
from kraal.core.secrets import is_secret_name

HIDDEN = "[hidden]"
_VARIABLE = re.compile(r"\$\{[^{}]*\}")
_URL_PASSWORD = re.compile(r"((?<=://)[^/@:\s]*:)([^/@\s]+)(?=@)")
_SECRET_PARAMETER = re.compile(
    r"((?:password|passphrase|passwd|pwd|secret|token|account_?key|access_?key|[?&]sig)=)([^&;,\s]+)",
    re.IGNORECASE,
)
_AUTHORIZATION_HEADER = re.compile(
    r"(\bauthorization *[:=] *(?:(?:basic|bearer) +)?)([^,;\s]+)", re.IGNORECASE
)
_CREDENTIALS = (_URL_PASSWORD, _SECRET_PARAMETER, _AUTHORIZATION_HEADER)
"""Patterns of credentials in values; the second group is the secret."""


def is_secret(key: str, value: str | None, declared: Collection[str] = ()) -> bool:
    """Return whether a value is a secret. `declared` contains the keys of type PASSWORD."""
    return bool(value) and (key in declared or is_secret_name(key)) and not _VARIABLE.fullmatch(value or "")


def hide_value(key: str, value: str | None, declared: Collection[str] = ()) -> str | None:
    """Return a value with its secrets hidden."""
    if value is None:
        return None
    if is_secret(key, value, declared):
        return HIDDEN
    for pattern in _CREDENTIALS:
        value = pattern.sub(_hide_credential, value)
    return value


def find_credentials(value: str) -> list[str]:
    """Return the credentials that a value contains, such as the password in a URL."""
    secrets = [match[2] for pattern in _CREDENTIALS for match in pattern.finditer(value)]
    return [text for text in secrets if not _VARIABLE.fullmatch(text)]


def _hide_credential(match: re.Match[str]) -> str:
    return match[0] if _VARIABLE.fullmatch(match[2]) else match[1] + HIDDEN


def hide(config: Config, declared: Collection[str] = ()) -> dict[str, str | None]:
    """Return a copy of a config with its secrets hidden; the order of the keys is unchanged."""
    return {key: hide_value(key, value, declared) for key, value in config.items()}


def scrub(text: str, config: Config, declared: Collection[str] = ()) -> str:
    """Hide the secrets of a config in a message. Errors may contain a secret in untrimmed or trimmed form."""
    replacements: dict[str, str] = {}
    for key, value in config.items():
        replacement = hide_value(key, value, declared)
        if value and replacement is not None and replacement != value:
            replacements |= {value: replacement, value.strip() or value: replacement.strip()}
    for secret in sorted(replacements, key=len, reverse=True):
        text = text.replace(secret, replacements[secret])
    return text


def list_masked_keys(config: Config) -> list[str]:
    """Return the keys whose values contain `[hidden]`; a config with such keys cannot be applied."""
    return [key for key, value in config.items() if value is not None and HIDDEN in value]
