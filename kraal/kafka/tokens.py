"""Tokens for kafka-python's OAUTHBEARER mechanism, fetched from a token endpoint with client credentials.

kafka-python requests tokens on its I/O loop, which also sends heartbeats. Therefore a valid token is returned
immediately, and a thread fetches the next one after four fifths of the token's lifetime. A request waits only if there
is no valid token.
Source: HttpJwtRetriever, ExpiringCredentialRefreshingLogin (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import httpx2
from kafka.net.sasl.oauth import AbstractTokenProvider
from typing_extensions import override

from kraal.config.clients.security import OAuthLogin
from kraal.core.errors import StoreError

log = logging.getLogger(__name__)

_REFRESH_FRACTION: Final = 0.8
"""Java's `sasl.login.refresh.window.factor`."""
_DEFAULT_LIFETIME_S: Final = 60.0
"""Lifetime of a token if the endpoint does not state it."""
_EXPIRY_MARGIN_S: Final = 5.0
"""Minimum remaining lifetime of a token that is used."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    fetched_at: float
    lifetime_s: float

    def age(self, now: float) -> float:
        return now - self.fetched_at


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc] # kafka-python is untyped
    """Implements kafka-python's token provider. Thread-safe."""

    def __init__(self, login: OAuthLogin, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds. The first token is fetched on first use."""
        super().__init__()
        self._login = login
        self._clock = clock
        self._lock = threading.Lock()
        self._token: _Token | None = None
        self._refresh_thread: threading.Thread | None = None

    @override
    def token(self) -> str:
        """Return a valid token; wait for the endpoint if there is none. Raises StoreError."""
        now = self._clock()
        with self._lock:
            token = self._token
            if token is None or token.age(now) >= token.lifetime_s - min(
                _EXPIRY_MARGIN_S, token.lifetime_s / 2
            ):
                token = self._token = self._fetch()
            elif token.age(now) >= token.lifetime_s * _REFRESH_FRACTION and self._refresh_thread is None:
                self._refresh_thread = threading.Thread(target=self._refresh, name="kafka-token", daemon=True)
                self._refresh_thread.start()
            return token.text

    @override
    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions: the options `extension_NAME` of the login module."""
        return dict(self._login.extensions)

    def _refresh(self) -> None:
        try:
            token = self._fetch()
        except StoreError as error:
            log.warning("%s; using the last token until it expires", error)
            token = None
        with self._lock:
            self._token = token or self._token
            self._refresh_thread = None

    def _fetch(self) -> _Token:
        login = self._login
        form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
        trust: ssl.SSLContext | bool = True
        if login.trusted is not None:
            trust = ssl.create_default_context(cadata=login.trusted)
        try:
            response = httpx2.post(
                login.url,
                data=form,
                auth=(login.client_id, login.client_secret.value),
                headers={"Accept": "application/json"},
                timeout=httpx2.Timeout(login.read_timeout_s, connect=login.connect_timeout_s),
                verify=trust,
            )
            response.raise_for_status()
            content = response.json()
            text, lifetime_s = content["access_token"], float(content.get("expires_in", _DEFAULT_LIFETIME_S))
        except httpx2.HTTPStatusError as exc:
            raise StoreError(
                f"failed to get a token from {login.url}: status {exc.response.status_code}"
            ) from None
        except httpx2.HTTPError as exc:
            raise StoreError(f"failed to get a token from {login.url}: {exc}") from exc
        except (ValueError, KeyError, TypeError, AttributeError):
            # from None: the original error may quote the response, which may contain a token.
            raise StoreError(
                f"failed to get a token from {login.url}: the response has no access_token"
            ) from None
        return _Token(str(text), self._clock(), lifetime_s)
