"""Basic authentication of the REST API, configured as in Kafka Connect: a REST extension, a JAAS file, a user file.

`rest.extension.classes` names Connect's BasicAuthSecurityRestExtension. The path of the JAAS file is in `KAFKA_OPTS`,
as for a JVM, or in `java.security.auth.login.config` in the worker's file. The entry KafkaConnect of the JAAS file must
have a PropertyFileLoginModule. Its option `file` is the path of a properties file with a line `user=password` per user.
All files are read once, at startup. Any error aborts startup, so that a worker never runs without the configured
authentication.
Source: BasicAuthSecurityRestExtension, JaasBasicAuthFilter, PropertyFileLoginModule (Kafka 4.3.0).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kraal.config.clients.jaas import LoginModule, parse_jaas_file
from kraal.config.properties_file import parse_properties, read_text
from kraal.config.system_properties import kafka_opts_property
from kraal.config.values import Password, invalid, split_list, trim
from kraal.core.errors import BadRequest, ConfigInvalid

EXTENSIONS: Final = "rest.extension.classes"
JAAS_FILE: Final = "java.security.auth.login.config"

_EXTENSION_CLASS: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_EXTENSION_NAMES: Final = (_EXTENSION_CLASS, _EXTENSION_CLASS.rpartition(".")[2])
_JAAS_ENTRIES: Final = ("KafkaConnect", "other")
"""The names of the entries that Java looks up, in this order."""
_LOGIN_MODULE: Final = "PropertyFileLoginModule"


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """The users of the REST API."""

    users: Mapping[str, Password] = field(repr=False)

    def authenticate(self, authorization: str | None) -> bool:
        """Return whether an `Authorization` header has valid credentials.

        The check takes the same time for an unknown user as for a wrong password.
        """
        login = _parse_credentials(authorization)
        if login is None:
            return False
        user, password = login
        stored_password = self.users.get(user)
        comparison_password = "" if stored_password is None else stored_password.value
        return (
            hmac.compare_digest(_digest(comparison_password), _digest(password))
            and stored_password is not None
        )


def parse_user(authorization: str | None) -> str | None:
    """Return the user in an `Authorization` header, or None if the header has no credentials."""
    login = _parse_credentials(authorization)
    return None if login is None else login[0]


def read_basic_auth(raw: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> BasicAuth | None:
    """Read the users of the REST API; None if authentication is disabled. Raises ConfigInvalid with the error."""
    classes = split_list(raw.get(EXTENSIONS) or "")
    for name in classes:
        if name not in _EXTENSION_NAMES:
            reason = (
                f"Class {name} could not be found. REST extensions are Java classes; only {_EXTENSION_CLASS} is "
                "supported"
            )
            raise _config_invalid(EXTENSIONS, name, reason)
    if not classes:
        return None
    key, path = _find_jaas_file(raw, environment)
    try:
        entries = parse_jaas_file(read_text(path, "JAAS file"))
    except ValueError as exc:
        raise _config_invalid(key, path, str(exc)) from exc
    except BadRequest as exc:
        raise ConfigInvalid(str(exc), [f"{key}: {exc}"]) from exc
    return BasicAuth(_read_users(_find_login_module(entries, key, path), key, path))


def _find_jaas_file(raw: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the setting that defines the JAAS file, and the path of the file."""
    if path := trim(raw.get(JAAS_FILE) or ""):
        return JAAS_FILE, path
    jaas_file = kafka_opts_property(JAAS_FILE, environment)
    if not jaas_file:
        reason = (
            f"it requires a JAAS file: set {JAAS_FILE}, or KAFKA_OPTS=-D{JAAS_FILE}=FILE in the environment"
        )
        raise _config_invalid(EXTENSIONS, _EXTENSION_NAMES[-1], reason)
    return f"{JAAS_FILE} in KAFKA_OPTS", jaas_file


def _find_login_module(entries: Mapping[str, tuple[LoginModule, ...]], key: str, path: str) -> LoginModule:
    entry = next((name for name in _JAAS_ENTRIES if name in entries), None)
    if entry is None:
        raise _config_invalid(key, path, f"the file has no entry {_JAAS_ENTRIES[0]}")
    modules = entries[entry]
    if [module.name for module in modules] != [_LOGIN_MODULE]:
        names = ", ".join(module.name for module in modules) or "none"
        raise _config_invalid(
            key, path, f"entry {entry} must have exactly one login module, {_LOGIN_MODULE}, but has {names}"
        )
    return modules[0]


def _read_users(module: LoginModule, key: str, path: str) -> Mapping[str, Password]:
    file = trim(module.options.get("file", ""))
    if not file:
        raise _config_invalid(
            key,
            path,
            f"{_LOGIN_MODULE} requires the option file, the path of a file with lines user=password",
        )
    if "${" in file:
        raise _config_invalid(
            key,
            path,
            f"the option file of {_LOGIN_MODULE} is '{file}', but variables ${{…}} are not supported",
        )
    description = "credentials file"
    try:
        text = read_text(file, description)
    except BadRequest as exc:
        raise ConfigInvalid(str(exc), [f"{key}: {exc}"]) from exc
    try:
        users = parse_properties(text, file, description)
    except BadRequest:  # the message may contain a password
        raise _config_invalid(key, path, f"the {description} '{file}' is not a properties file") from None
    if not users:
        raise _config_invalid(
            key, path, f"the {description} '{file}' is empty; add a line user=password for each user"
        )
    return {user: Password(password) for user, password in users.items()}


def _config_invalid(key: str, value: str, reason: str) -> ConfigInvalid:
    text = invalid(key, value, reason)
    return ConfigInvalid(text, [f"{text}."])


def _parse_credentials(header: str | None) -> tuple[str, str] | None:
    """Return the user and password in a header; None if one of them is missing. Source: BasicAuthCredentials."""
    method, space, encoded_credentials = (header or "").partition(" ")
    if not space or method.lower() != "basic":
        return None
    try:
        padding = "=" * (-len(encoded_credentials) % 4)
        text = base64.b64decode(encoded_credentials + padding, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None
    user, colon, password = text.partition(":")
    return (user, password) if user and colon else None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
