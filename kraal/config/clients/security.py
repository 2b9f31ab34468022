"""Reader for the security settings of clients, shared by all libraries: protocol, certificates, login.

All errors are reported together, each with the key, the value and the allowed values. Secrets are `[hidden]`.
`format_key` returns the key as configured by the user, such as `consumer.sasl.mechanism`.
Source: SaslConfigs, SslConfigs (Kafka 4.3.0); KIP-768 and KIP-1139 for OAUTHBEARER.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import quote, urlsplit

from kraal.config.clients.jaas import LoginModule, parse_jaas
from kraal.config.clients.key_stores import Identity, UnusableKeyStore, read_identity, read_trust
from kraal.config.clients.keys import client_def
from kraal.config.values import ConfigType, Password, invalid, split_list, trim
from kraal.core.errors import ConfigInvalid

KeyFormatter = Callable[[str], str]

_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    **dict.fromkeys(_SCRAM, "ScramLoginModule"),
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_OAUTH_HANDLER: Final = "OAuthBearerLoginCallbackHandler"
_RETRIEVERS: Final = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever")
_OAUTH_PREFIX: Final = "sasl.oauthbearer."
_TOKEN_URL: Final = f"{_OAUTH_PREFIX}token.endpoint.url"
_ONLY_JAVA: Final = "only Java clients can use a Java class"
_STORE_KEY: Final = re.compile(r"(?<![\w./-])ssl\.(?:keystore|truststore|key)\.[a-z.]*[a-z]")


class SecurityProtocol(StrEnum):
    """The values of `security.protocol`, ignoring case."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        """Whether connections use TLS."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def uses_sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS settings of a client or of listeners: trusted certificates, identity and protocol options."""

    trusted: str | None
    """Trusted certificates in PEM; None for the system's certificates."""
    identity: Identity | None
    check_host: bool
    """Whether a client verifies the host name in the server's certificate."""
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UserLogin:
    """A login with user and password, using PLAIN or SCRAM."""

    mechanism: str
    user: str
    password: Password


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthLogin:
    """Client credentials for a token endpoint; the mechanism is OAUTHBEARER."""

    url: str
    client_id: str
    client_secret: Password
    scope: str | None
    extensions: Mapping[str, str] = field(repr=False)
    trusted: str | None
    """Trusted certificates of the endpoint in PEM; None for the system's certificates."""
    connect_timeout_s: float
    read_timeout_s: float


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings of a client. `tls` and `login` are None if the protocol does not use them."""

    protocol: SecurityProtocol
    tls: Tls | None
    login: UserLogin | OAuthLogin | None


def read_security(settings: Mapping[str, str], format_key: KeyFormatter = str) -> Security:
    """Read a client's security settings and stores. Raises ConfigInvalid with all errors."""
    reader = _Reader(settings, format_key)
    security = reader.security()
    if reader.errors:
        raise ConfigInvalid("\n".join(reader.errors), reader.errors)
    return security


def read_tls(settings: Mapping[str, str], format_key: KeyFormatter = str) -> Tls:
    """Read the `ssl.*` settings and stores of clients or HTTPS listeners. Raises ConfigInvalid with all errors."""
    reader = _Reader(settings, format_key)
    tls = reader.tls()
    if reader.errors:
        raise ConfigInvalid("\n".join(reader.errors), reader.errors)
    return tls


def find_jaas(settings: Mapping[str, str]) -> LoginModule | None:
    """Return the login module of `sasl.jaas.config`, or None if it is not set. Raises ValueError if it is invalid."""
    text = settings.get("sasl.jaas.config")
    return parse_jaas(text) if text else None


def is_client_credentials(settings: Mapping[str, str]) -> bool:
    """Return whether Kafka's callback handler, and not a custom Java class, requests tokens from an endpoint."""
    handler = settings.get("sasl.login.callback.handler.class")
    is_kafka_handler = not handler or _simple_name(handler) == _OAUTH_HANDLER
    return (
        settings.get("sasl.mechanism") == "OAUTHBEARER"
        and is_kafka_handler
        and bool(settings.get(_TOKEN_URL))
    )


class _Reader:
    """Reader of a client's settings, which collects their errors."""

    def __init__(self, settings: Mapping[str, str], format_key: KeyFormatter) -> None:
        self._settings = {key: trim(value) for key, value in settings.items() if value is not None}
        self._format_key = format_key
        self.errors: list[str] = []

    def security(self) -> Security:
        protocol = self._read_protocol()
        return Security(
            protocol,
            self.tls() if protocol.is_encrypted else None,
            self._read_login() if protocol.uses_sasl else None,
        )

    def _get(self, key: str) -> str | None:
        return self._settings.get(key) or None

    def _add_error(self, key: str, reason: str) -> None:
        value = self._get(key)
        declaration = client_def("admin").get(key)
        is_secret = declaration is not None and declaration.type is ConfigType.PASSWORD
        shown_value = Password("") if value is not None and is_secret else value
        formatted_reason = _STORE_KEY.sub(lambda match: self._format_key(match[0]), reason)
        self.errors.append(invalid(self._format_key(key), shown_value, formatted_reason))

    def _read_protocol(self) -> SecurityProtocol:
        text = self._get("security.protocol") or SecurityProtocol.PLAINTEXT
        protocol = next((candidate for candidate in SecurityProtocol if candidate == text.upper()), None)
        if protocol is None:
            protocols = ", ".join(SecurityProtocol)
            self._add_error("security.protocol", f"String must be one of (case insensitive): {protocols}")
        return protocol or SecurityProtocol.PLAINTEXT

    def tls(self) -> Tls:
        if self._get("ssl.engine.factory.class"):
            self._add_error(
                "ssl.engine.factory.class", f"{_ONLY_JAVA}; use ssl.keystore.* and ssl.truststore.*"
            )
        algorithm = self._settings.get("ssl.endpoint.identification.algorithm", "https").lower()
        if algorithm not in {"https", ""}:
            reason = "it must be https, or empty to disable host name verification"
            self._add_error("ssl.endpoint.identification.algorithm", reason)
        enabled_versions = split_list(self._get("ssl.enabled.protocols") or ",".join(_TLS_VERSIONS))
        versions = tuple(version for version in _TLS_VERSIONS if version in enabled_versions)
        if not versions:
            self._add_error(
                "ssl.enabled.protocols", f"it must contain at least one of: {', '.join(_TLS_VERSIONS)}"
            )
        trusted, identity = self._read_trust(self._settings), None
        try:
            identity = read_identity(self._settings)
        except UnusableKeyStore as exc:
            self._add_error(exc.key, str(exc))
        return Tls(trusted, identity, algorithm == "https", versions or _TLS_VERSIONS)

    def _read_trust(self, settings: Mapping[str, str], containing_key: str | None = None) -> str | None:
        """Read a trust store. `containing_key` is the key whose value contains these settings, if any."""
        try:
            return read_trust(settings)
        except UnusableKeyStore as exc:
            if containing_key is None:
                self._add_error(exc.key, str(exc))
            else:
                self._add_error(containing_key, f"option {exc.key} is invalid: {exc}")
            return None

    def _read_login(self) -> UserLogin | OAuthLogin | None:
        for key in ("sasl.client.callback.handler.class", "sasl.login.class"):
            if self._get(key):
                self._add_error(key, _ONLY_JAVA)
        mechanism = self._get("sasl.mechanism") or "GSSAPI"
        if mechanism not in _LOGIN_MODULES:
            reason = f"String must be one of: {', '.join(_LOGIN_MODULES)}"
            if mechanism == "GSSAPI":
                reason += "; GSSAPI (Kerberos), the default, is not supported"
            self._add_error("sasl.mechanism", reason)
            return None
        module = self._find_module(mechanism)
        if mechanism == "OAUTHBEARER":
            return self._read_oauth_login(module.options if module else {})
        if self._get("sasl.login.callback.handler.class"):
            self._add_error("sasl.login.callback.handler.class", _ONLY_JAVA)
        return self._read_user_login(mechanism, module) if module else None

    def _find_module(self, mechanism: str) -> LoginModule | None:
        """Return the login module of the mechanism; None if the module is missing, invalid or of another mechanism."""
        try:
            module = find_jaas(self._settings)
        except ValueError as exc:
            self._add_error("sasl.jaas.config", str(exc))
            return None
        required_name = _LOGIN_MODULES[mechanism]
        if module is None:
            if mechanism != "OAUTHBEARER":
                self._add_error(
                    "sasl.jaas.config", f"{mechanism} requires {required_name} with username and password"
                )
        elif module.name != required_name:
            self._add_error(
                "sasl.jaas.config", f"sasl.mechanism={mechanism} requires the login module {required_name}"
            )
            return None
        return module

    def _read_user_login(self, mechanism: str, module: LoginModule) -> UserLogin | None:
        user, password = module.options.get("username"), module.options.get("password")
        if not user or password is None:
            self._add_error("sasl.jaas.config", f"{module.name} requires the options username and password")
            return None
        if module.options.get("tokenauth", "false").lower() == "true":
            self._add_error("sasl.jaas.config", "delegation tokens (tokenauth) are not supported")
        return UserLogin(mechanism, user, Password(password))

    def _read_oauth_login(self, options: Mapping[str, str]) -> OAuthLogin | None:
        error_count = len(self.errors)
        handler = self._get("sasl.login.callback.handler.class")
        if handler and _simple_name(handler) != _OAUTH_HANDLER:
            reason = f"{_ONLY_JAVA}; only Kafka's {_OAUTH_HANDLER} is supported"
            self._add_error("sasl.login.callback.handler.class", reason)
        retriever = self._get(f"{_OAUTH_PREFIX}jwt.retriever.class")
        if retriever and _simple_name(retriever) not in _RETRIEVERS:
            reason = f"only client credentials are supported: {' or '.join(_RETRIEVERS)}"
            self._add_error(f"{_OAUTH_PREFIX}jwt.retriever.class", reason)
        url = self._get(_TOKEN_URL) or ""
        if urlsplit(url).scheme not in {"http", "https"}:
            reason = "OAUTHBEARER requires the http or https URL of a token endpoint"
            self._add_error(_TOKEN_URL, reason)
        client_prefix = f"{_OAUTH_PREFIX}client.credentials.client."
        client_id = self._get(f"{client_prefix}id") or options.get("clientId")
        secret = self._get(f"{client_prefix}secret") or options.get("clientSecret")
        if not client_id or not secret:
            key = f"{client_prefix}secret" if client_id else f"{client_prefix}id"
            self._add_error(
                key,
                "OAUTHBEARER requires this key, or the options clientId and clientSecret of sasl.jaas.config",
            )
        if options.get("ssl.keystore.location"):
            self._add_error("sasl.jaas.config", "client certificates are not supported for token endpoints")
        trusted = self._read_trust(options, "sasl.jaas.config")
        if len(self.errors) > error_count:
            return None
        if (self._get(f"{_OAUTH_PREFIX}header.urlencode") or "").lower() == "true":
            client_id, secret = quote(client_id or "", safe=""), quote(secret or "", safe="")
        return OAuthLogin(
            url=url,
            client_id=client_id or "",
            client_secret=Password(secret or ""),
            scope=self._get(f"{_OAUTH_PREFIX}scope") or options.get("scope") or None,
            extensions={
                name.removeprefix("extension_"): value
                for name, value in options.items()
                if name.startswith("extension_")
            },
            trusted=trusted,
            connect_timeout_s=self._read_seconds("sasl.login.connect.timeout.ms"),
            read_timeout_s=self._read_seconds("sasl.login.read.timeout.ms"),
        )

    def _read_seconds(self, key: str, default_ms: int = 10_000) -> float:
        text = self._get(key)
        return (int(text) if text is not None and text.isdecimal() else default_ms) / 1000


def _simple_name(class_name: str) -> str:
    return class_name.rpartition(".")[2]
