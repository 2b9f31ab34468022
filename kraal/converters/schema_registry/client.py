"""Schema registry client of the converters: wraps confluent-kafka's client and translates its results and errors.

Pickled converters do not contain the client and its cache: each of Spark's processes creates a new client. The client
is imported on first use, because the import takes a third of a second.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from typing_extensions import override

from kraal.config.key import Password
from kraal.converters.schema_registry import config as keys
from kraal.core.secrets import secrets
from kraal.plugins.api import RetriableError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


_KAFKA = "org.apache.kafka.common.errors"


class SerializationException(Exception):
    """Raised for invalid bytes or schemas, and schemas that the registry rejects or does not have. Not retriable."""

    java_class: ClassVar[str] = f"{_KAFKA}.SerializationException"


class RegistryRejected(Exception):
    """Raised if the registry does not authenticate or authorize the client. Not an error of the record."""

    java_class: ClassVar[str] = f"{_KAFKA}.AuthenticationException"


class RegistryForbidden(RegistryRejected):
    """Raised if the registry authenticated the client but denies access."""

    java_class: ClassVar[str] = f"{_KAFKA}.AuthorizationException"


T = TypeVar("T")

_REQUIRED_PACKAGES: Final = (
    "authlib",
    "cachetools",
    "attrs",
    "certifi",
    "httpx2",
    "jsonschema",
    "referencing",
)
_RETRIABLE_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP status codes after which a retry can succeed."""
_MAX_LEVELS: Final = 64
"""Maximum depth of references between schemas."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference from one schema to another."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as stored in the registry."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the connection to the registry. `repr` hides secrets."""

    urls: tuple[str, ...]
    """The URLs of the registry, without user and password."""
    user_info: Password | None = None
    token: Password | None = None
    timeout_s: float = 60.0
    retries: int = 3
    retry_wait_ms: int = 1000
    retry_max_ms: int = 20_000
    capacity: int = 1000
    latest_ttl_s: int = -1

    @staticmethod
    def of(parsed: Mapping[str, Any]) -> Settings:
        """Create the settings from a parsed config, and register their secrets for redaction. Raises ValueError."""
        urls, url_credentials = _split_user_info(parsed[keys.URL])
        configured_credentials, token = (
            _get_secret_text(parsed[keys.USER_INFO]),
            _get_secret_text(parsed[keys.TOKEN]),
        )
        user_info = (
            configured_credentials if parsed[keys.CREDENTIALS_SOURCE] == "USER_INFO" else url_credentials
        )
        secrets.add(configured_credentials, token, user_info)
        if parsed[keys.CREDENTIALS_SOURCE] == "USER_INFO" and ":" not in configured_credentials:
            raise ValueError(f"{keys.USER_INFO} must have the form user:password")
        if parsed[keys.TOKEN_SOURCE] and not token:
            raise ValueError(f"{keys.TOKEN} is required with {keys.TOKEN_SOURCE}=STATIC_TOKEN")
        if user_info:
            secrets.add(user_info.partition(":")[2])
        return Settings(
            urls=urls,
            user_info=Password(user_info) if user_info else None,
            token=Password(token) if token and parsed[keys.TOKEN_SOURCE] else None,
            timeout_s=parsed[keys.TIMEOUT] / 1000,
            retries=parsed[keys.RETRIES],
            retry_wait_ms=parsed[keys.RETRY_WAIT],
            retry_max_ms=parsed[keys.RETRY_MAX_WAIT],
            capacity=parsed[keys.CACHE],
            latest_ttl_s=parsed[keys.LATEST_TTL],
        )

    def client_config(self) -> dict[str, Any]:
        """Return the settings of confluent-kafka's client."""
        settings: dict[str, Any] = {
            "url": ",".join(self.urls),
            "timeout": self.timeout_s,
            "max.retries": self.retries,
            "retries.wait.ms": self.retry_wait_ms,
            "retries.max.wait.ms": self.retry_max_ms,
            "cache.capacity": self.capacity,
        }
        if self.latest_ttl_s >= 0:
            settings["cache.latest.ttl.sec"] = self.latest_ttl_s
        if self.token is not None:
            settings["bearer.auth.credentials.source"] = "STATIC_TOKEN"
            settings["bearer.auth.token"] = self.token.value
            settings["bearer.auth.logical.cluster"] = ""
        elif self.user_info is not None:
            settings["basic.auth.user.info"] = self.user_info.value
        return settings


def _get_secret_text(secret: Password | None) -> str:
    return "" if secret is None else secret.value


def _split_user_info(urls: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return the URLs without user and password, and the user and password of the first URL."""
    first_url = urlsplit(urls[0])
    user_info = None
    if first_url.username is not None:
        user_info = f"{unquote(first_url.username)}:{unquote(first_url.password or '')}"
    plain_urls = [
        urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) for parts in map(urlsplit, urls)
    ]
    return tuple(plain_urls), user_info


def check_installed() -> None:
    """Raise ValueError if packages that the client requires are missing."""
    missing_names = [name for name in _REQUIRED_PACKAGES if find_spec(name) is None]
    if missing_names:
        raise ValueError(
            f"converters with a schema registry require packages that are not installed ({', '.join(missing_names)}): "
            "install kraal[registry]"
        )


class SchemaRegistry:
    """A schema registry. Thread-safe; calls block until the registry responds or retries are exhausted."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._created_client: SchemaRegistryClient | None = None

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_created_client": None}

    def schema(self, schema_id: int, subject: str | None, operation: str) -> SchemaText:
        """Return the schema with an ID. Raises SerializationException, RegistryRejected, RetriableError."""
        return self._request(
            operation, lambda client: _from_registry_schema(client.get_schema(schema_id, subject))
        )

    def version(self, schema_id: int, subject: str, operation: str) -> int | None:
        """Return a schema's version in a subject; None if the subject lacks the schema. Raises as `schema` does."""
        versions = self._request(
            operation, lambda client: client.get_schema_versions(schema_id, subject_name=subject)
        )
        return next((version.version for version in versions if version.subject == subject), None)

    def register(self, subject: str, schema: SchemaText, operation: str, *, normalize: bool) -> int:
        """Register a schema under a subject and return its ID. Raises the same errors as `schema`."""
        registry_schema = _to_registry_schema(schema)
        return self._request(
            operation, lambda client: client.register_schema(subject, registry_schema, normalize)
        )

    def look_up_id(self, subject: str, schema: SchemaText, operation: str, *, normalize: bool) -> int:
        """Return the ID of a schema that is registered under a subject. Raises the same errors as `schema`."""
        registry_schema = _to_registry_schema(schema)
        schema_id = self._request(
            operation, lambda client: client.lookup_schema(subject, registry_schema, normalize).schema_id
        )
        return int(schema_id or 0)

    def latest_schema(self, subject: str, operation: str) -> tuple[int, SchemaText]:
        """Return ID and schema of a subject's latest version. Raises the same errors as `schema`."""
        version = self._request(operation, lambda client: client.get_latest_version(subject))
        return int(version.schema_id or 0), _from_registry_schema(version.schema)

    def referenced_schemas(self, schema: SchemaText, operation: str) -> dict[str, SchemaText]:
        """Return all directly or indirectly referenced schemas by name. Raises the same errors as `schema`."""
        schemas: dict[str, SchemaText] = {}
        self._collect_references(schema, operation, schemas, 0)
        return schemas

    def _collect_references(
        self, schema: SchemaText, operation: str, schemas: dict[str, SchemaText], level: int
    ) -> None:
        for reference in schema.references:
            if reference.name in schemas or level > _MAX_LEVELS:
                continue
            subject, version = reference.subject, reference.version
            referenced_schema = self._request(
                operation,
                lambda client, subject=subject, version=version: _from_registry_schema(  # type: ignore[misc]
                    client.get_version(subject, version, deleted=True).schema
                ),
            )
            self._collect_references(referenced_schema, operation, schemas, level + 1)
            schemas[reference.name] = referenced_schema

    def _request(self, operation: str, call: Callable[[SchemaRegistryClient], T]) -> T:
        import httpx2  # noqa: PLC0415 - slow import
        from confluent_kafka.schema_registry import SchemaRegistryError  # noqa: PLC0415 - as above

        try:
            return call(self._client())
        except SchemaRegistryError as exc:
            text = f"{operation}: {exc}"
            if exc.http_status_code in _RETRIABLE_STATUSES:
                raise RetriableError(text) from exc
            if exc.http_status_code == 401:  # noqa: PLR2004 - HTTP status
                raise RegistryRejected(text) from exc
            if exc.http_status_code == 403:  # noqa: PLR2004 - HTTP status
                raise RegistryForbidden(text) from exc
            raise SerializationException(text) from exc
        except httpx2.TransportError as exc:
            address = ",".join(self._settings.urls)
            raise RetriableError(
                f"{operation}: the schema registry at {address} does not respond: {exc}"
            ) from exc
        except ValueError as exc:
            raise SerializationException(
                f"{operation}: invalid response; check that {keys.URL} names a schema registry: {exc}"
            ) from exc

    def _client(self) -> SchemaRegistryClient:
        if self._created_client is None:
            from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - slow import

            self._created_client = SchemaRegistryClient(self._settings.client_config())
            weakref.finalize(self, self._created_client.close)  # converters have no close method
        return self._created_client


def _from_registry_schema(schema: Any) -> SchemaText:
    references = tuple(
        Reference(str(reference.name), str(reference.subject), int(reference.version))
        for reference in schema.references or ()
    )
    return SchemaText(schema.schema_type or "AVRO", schema.schema_str or "", references)


def _to_registry_schema(schema: SchemaText) -> Any:
    from confluent_kafka.schema_registry import Schema, SchemaReference  # noqa: PLC0415 - slow import

    references = [
        SchemaReference(reference.name, reference.subject, reference.version)
        for reference in schema.references
    ]
    return Schema(schema.text, schema.kind, references)
