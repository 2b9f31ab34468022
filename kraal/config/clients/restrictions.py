"""Restrictions on connectors' client settings, which only the operator of a worker can lift.

A request to a token endpoint contains a secret, and an error may contain the endpoint's response.
Kafka therefore reads the allowed URLs from a system property, which is empty by default. Kraal reads the allowed URLs
from the worker's config or from KAFKA_OPTS. Token URLs in the worker's config were set by the operator and are also
allowed.
Source: ConfigurationUtils.throwIfURLIsNotAllowed, JaasContext.throwIfLoginModuleIsNotAllowed (Kafka 4.4.0).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from kraal.config.system_properties import kafka_opts_property
from kraal.config.values import invalid, split_list, trim
from kraal.core.errors import ConfigInvalid

ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_DISALLOWED_MODULES: Final = "org.apache.kafka.disallowed.login.modules"
_URL_KEYS: Final = ("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.token.endpoint.url")
_REFUSAL: Final = (
    f"The URL cannot be accessed due to restrictions. Update the system property '{ALLOWED_URLS}' to allow the URL to "
    "be accessed."
)


def check_urls(worker: Mapping[str, str], connector: Mapping[str, str]) -> None:
    """Check the URLs in a connector's config, both for Kraal's clients and for the connector's own clients.

    Raises ConfigInvalid with all errors.
    """
    urls = {key: trim(value or "") for key, value in connector.items() if key.endswith(_URL_KEYS)}
    requested_urls = {key: url for key, url in urls.items() if url}
    if not requested_urls:
        return
    urls_allowed_by_worker = allowed_urls(worker)
    errors = [
        invalid(key, url, _REFUSAL)
        for key, url in requested_urls.items()
        if url not in urls_allowed_by_worker
    ]
    if errors:
        raise ConfigInvalid("\n".join(errors), errors)


def allowed_urls(worker: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the URLs that clients may use: those that the operator allows, and those in the worker's config."""
    allowed_text = worker.get(ALLOWED_URLS)
    if allowed_text is None:
        allowed_text = kafka_opts_property(ALLOWED_URLS, environment)
    worker_urls = (trim(value) for key, value in worker.items() if key.endswith(_URL_KEYS) and value)
    return frozenset((*split_list(allowed_text or ""), *worker_urls))


def java_properties(worker: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the system properties that apply the same restrictions in Spark's JVM."""
    properties = {ALLOWED_URLS: ",".join(sorted(allowed_urls(worker, environment)))}
    modules = kafka_opts_property(_DISALLOWED_MODULES, environment)
    return properties if modules is None else properties | {_DISALLOWED_MODULES: modules}
